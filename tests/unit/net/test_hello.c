#include "net/hello.h"

#include <string.h>

#include "base/status.h"
#include "simpair.h"
#include "wirepeer.h"

#include "test.h"

static const struct kv_id me = { { 1, 2 } }, other = { { 3 } };

/* A HELLO as it may come from outside. */
struct incoming {
	struct kv_hello h;
	char tail[256];
	struct kv_msg msg;
};

static void
incoming_init(struct incoming *in, const char *tenant, const char *name)
{
	memset(in, 0, sizeof(*in));
	in->h.version_min = kv_le16(KV_WIRE_VERSION);
	in->h.version_max = kv_le16(KV_WIRE_VERSION);
	in->h.role = KV_ROLE_REQUESTER;
	in->h.tenant_len = (uint8_t)strlen(tenant);
	in->h.name_len = (uint8_t)strlen(name);
	memcpy(in->tail, tenant, strlen(tenant));
	memcpy(in->tail + strlen(tenant), name, strlen(name));
	in->msg.type = KV_MSG_HELLO;
	in->msg.body = &in->h;
	in->msg.tail = (const uint8_t *)in->tail;
	in->msg.tail_len = strlen(tenant) + strlen(name);
}

static int
check(const struct incoming *in, struct kv_hello_in *out, const char *word)
{
	char text[KV_HELLO_TEXT_BYTES] = "";
	int status = kv_hello_check(&in->msg, &me, out, text);

	if (word)
		assert_non_null(strstr(text, word));
	return status;
}

static void
what_is_built_is_understood(void **state)
{
	struct kv_hello_opts opts = {
		.role = KV_ROLE_DATA,
		.boot = &other,
		.want = &me,
		.host = &other,
		.token = 77,
		.tenant = "acme",
		.name = "test",
		.features = KV_FEATURE_RDMA,
	};
	const struct kv_hello_reply reply = {
		.text = "m:1,n:2",
		.boot = &me,
		.token = 8,
		.features = KV_FEATURE_RDMA,
		.generation.number = kv_le64(9),
	};
	const struct simnet_opts net = { .seed = 1 };
	struct kv_hello_in in;
	struct kv_hello_result r;
	char text[KV_HELLO_TEXT_BYTES];
	struct wirepeer a, b;
	struct wireframe *f;
	struct kv_msg msg = { 0 };
	struct simpair p;

	(void)state;
	simpair_open(&p, &net, false);
	wirepeer_open(&a, p.loop, p.stream[0]);
	wirepeer_open(&b, p.loop, p.stream[1]);
	assert_non_null(kv_conn_begin(a.c, KV_MSG_HELLO, 5, 0));
	assert_true(kv_hello_build(a.c, &opts));
	kv_conn_end(a.c);
	simpair_run(&p, KV_NS_PER_S);
	f = wirepeer_take(&b, KV_MSG_HELLO);
	assert_non_null(f);
	msg.type = f->type;
	msg.body = f->body;
	msg.tail = f->tail;
	msg.tail_len = f->tail_len;
	assert_int_equal(kv_hello_check(&msg, &me, &in, text), KV_OK);
	assert_int_equal(in.role, KV_ROLE_DATA);
	assert_int_equal(in.version, KV_WIRE_VERSION);
	assert_int_equal(in.token, 77);
	assert_true(kv_id_is_equal(in.boot, other));
	assert_true(kv_id_is_equal(in.host, other));
	assert_int_equal(in.tenant_len, 4);
	assert_memory_equal(in.tenant, "acme", 4);
	assert_int_equal(in.name_len, 4);
	assert_memory_equal(in.name, "test", 4);
	assert_int_equal(in.features, KV_FEATURE_RDMA);
	wireframe_free(f);

	kv_hello_answer(b.c, 5, KV_EGONE, "bye\n", &me, 8);
	simpair_run(&p, KV_NS_PER_S);
	f = wirepeer_take(&a, KV_MSG_HELLO_R);
	assert_non_null(f);
	assert_int_equal(f->id, 5);
	msg.type = f->type;
	msg.body = f->body;
	msg.tail = f->tail;
	msg.tail_len = f->tail_len;
	assert_int_equal(kv_hello_parse(&msg, &r), KV_EGONE);
	assert_string_equal(r.text, "bye\\n");
	assert_int_equal(r.token, 8);
	assert_true(kv_id_is_equal(r.boot, me));
	assert_int_equal(r.masters_len, 0);
	assert_int_equal(r.features, 0);
	msg.tail_len--;
	assert_int_equal(kv_hello_parse(&msg, &r), KV_EPROTO);
	msg.type = KV_MSG_PING_R;
	assert_int_equal(kv_hello_parse(&msg, &r), KV_EPROTO);
	wireframe_free(f);

	kv_hello_welcome(b.c, 6, &reply);
	simpair_run(&p, KV_NS_PER_S);
	f = wirepeer_take(&a, KV_MSG_HELLO_R);
	assert_non_null(f);
	msg.type = f->type;
	msg.body = f->body;
	msg.tail = f->tail;
	msg.tail_len = f->tail_len;
	assert_int_equal(kv_hello_parse(&msg, &r), KV_OK);
	assert_string_equal(r.text, "");
	assert_int_equal(r.features, KV_FEATURE_RDMA);
	assert_int_equal(r.token, 8);
	assert_int_equal(kv_get64(r.generation.number), 9);
	assert_int_equal(r.masters_len, 7);
	assert_memory_equal(r.masters, "m:1,n:2", 7);
	wireframe_free(f);
	wirepeer_close(&a);
	wirepeer_close(&b);
	simpair_close(&p);
}

static void
nothing_may_be_left_out(void **state)
{
	struct kv_hello_in out;
	struct incoming in;

	(void)state;
	incoming_init(&in, "", "");
	assert_int_equal(check(&in, &out, NULL), KV_OK);
	assert_int_equal(out.tenant_len, 0);
	assert_int_equal(out.name_len, 0);
}

static void
other_versions_are_told_both_ranges(void **state)
{
	struct kv_hello_in out;
	struct incoming in;

	(void)state;
	incoming_init(&in, "", "");
	in.h.version_min = kv_le16(KV_WIRE_VERSION + 1);
	in.h.version_max = kv_le16(KV_WIRE_VERSION + 3);
	/* Its tail may be anything. */
	in.msg.tail_len = 9;
	assert_int_equal(check(&in, &out, "2 to 4"), KV_EVERSION);
	assert_int_equal(check(&in, &out, "1 to 1"), KV_EVERSION);
	in.h.version_min = kv_le16(0);
	in.h.version_max = kv_le16(0);
	assert_int_equal(check(&in, &out, "0 to 0"), KV_EVERSION);
	in.h.version_max = kv_le16(KV_WIRE_VERSION + 3);
	in.msg.tail_len = 0;
	assert_int_equal(check(&in, &out, NULL), KV_OK);
}

static void
meant_for_another_process(void **state)
{
	struct kv_hello_in out;
	struct incoming in;

	(void)state;
	incoming_init(&in, "", "");
	in.h.want = other;
	assert_int_equal(check(&in, &out, "another process"), KV_EGONE);
	in.h.want = me;
	assert_int_equal(check(&in, &out, NULL), KV_OK);
}

static void
malformed_ones_are_refused(void **state)
{
	struct kv_hello_in out;
	struct incoming in;

	(void)state;
	incoming_init(&in, "acme", "test");
	in.msg.tail_len++;
	assert_int_equal(check(&in, &out, "HELLO"), KV_EPROTO);
	in.msg.tail_len -= 2;
	assert_int_equal(check(&in, &out, "HELLO"), KV_EPROTO);
	incoming_init(&in, "", "");
	in.h.tenant_len = KV_TENANT_BYTES_MAX + 1;
	in.msg.tail_len = KV_TENANT_BYTES_MAX + 1;
	assert_int_equal(check(&in, &out, "HELLO"), KV_EPROTO);
	incoming_init(&in, "", "");
	in.h.name_len = KV_NAME_BYTES_MAX + 1;
	in.msg.tail_len = KV_NAME_BYTES_MAX + 1;
	assert_int_equal(check(&in, &out, "HELLO"), KV_EPROTO);
	incoming_init(&in, "", "");
	in.msg.type = KV_MSG_PING;
	assert_int_equal(check(&in, &out, "HELLO"), KV_EPROTO);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_built_is_understood),
		cmocka_unit_test(nothing_may_be_left_out),
		cmocka_unit_test(other_versions_are_told_both_ranges),
		cmocka_unit_test(meant_for_another_process),
		cmocka_unit_test(malformed_ones_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

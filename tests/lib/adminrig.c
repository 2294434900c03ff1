#include "adminrig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "wire/msg.h"

#include "test.h"

struct adminrig web;

void
adminrig_open(struct httpclient *cl)
{
	httpclient_open(cl, web.loop, kv_admin_port(web.admin));
	assert_true(cl->fd >= 0);
}

int
adminrig_setup(void **state)
{
	struct kv_admin_opts opts = { .host = "127.0.0.1" };
	char err[256];

	kv_log_set_level(KV_LOG_ERR);
	rig_setup(state);
	web.loop = kv_loop_new(NULL);
	assert_non_null(web.loop);
	opts.loop = web.loop;
	opts.master = rig.m;
	web.admin = kv_admin_new(&opts, err, sizeof(err));
	if (!web.admin)
		fail_msg("%s", err);
	adminrig_open(&web.c);
	rig_up(&web.a, "10.0.0.2", 50052, 0xa0);
	rig_up(&web.b, "10.0.0.3", 50052, 0xb0);
	return 0;
}

int
adminrig_teardown(void **state)
{
	httpclient_close(&web.c);
	kv_admin_free(web.admin);
	web.admin = NULL;
	kv_loop_free(web.loop);
	return rig_teardown(state);
}

void
adminrig_is(const char *want)
{
	assert_true(web.c.is_whole);
	assert_string_equal((char *)web.c.body.data, want);
}

void
adminrig_has(const char *want)
{
	if (!strstr((char *)web.c.body.data, want)) {
		fprintf(stderr, "no %s in %s\n", want, (char *)web.c.body.data);
		fail();
	}
}

void
adminrig_has_not(const char *what)
{
	if (strstr((char *)web.c.body.data, what))
		fail_msg("%s in %s", what, (char *)web.c.body.data);
}

void
adminrig_say(struct httpclient *cl, const char *method, const char *target)
{
	char *text = NULL;

	assert_true(asprintf(&text,
			     "%s %s HTTP/1.1\r\nHost: x\r\n"
			     "Content-Length: 0\r\n\r\n",
			     method, target) > 0);
	httpclient_say(cl, text);
	free(text);
	httpclient_turn(cl, 20);
}

int
adminrig_take(void)
{
	rig_ms(2);
	return httpclient_take(&web.c, true);
}

struct wireframe *
adminrig_asked(struct rignode *n, enum kv_msg_type type)
{
	struct wireframe *f = NULL;

	for (int i = 0; !f && i < 2000; i++) {
		httpclient_read(&web.c, 1);
		rig_ms(1);
		f = wirepeer_take(&n->p.w, type);
	}
	if (!f)
		fail_msg("no %s came", kv_msg_name(type));
	return f;
}

void
adminrig_answer(struct rignode *n, struct wireframe *f, const void *body,
		const struct kv_bytes *tail)
{
	static const struct kv_bytes none;

	if (!tail)
		tail = &none;
	wirepeer_send(&n->p.w, f->type + 128, f->id, body, tail->data,
		      tail->len);
	wireframe_free(f);
}

static void
append(struct kv_bytes *to, const void *p, size_t n)
{
	assert_int_equal(kv_bytes_append(to, p, n), 0);
}

void
adminrig_tell(struct rignode *n, const char *tenant, const char *key,
	      size_t key_len, uint64_t size)
{
	struct wireframe *f = adminrig_asked(n, KV_MSG_QUERY);
	const struct kv_query *q = (void *)f->body;
	struct kv_query_r r = { .count = kv_le32(size ? 1 : 0) };
	struct kv_query_rec rec = { .boot = n->p.boot,
				    .size = kv_le64(size),
				    .off = kv_le64(4096) };
	struct kv_bytes tail = { 0 };

	assert_int_equal(q->tenant_len, strlen(tenant));
	assert_int_equal(kv_get16(q->key_len), key_len);
	assert_int_equal(f->tail_len, strlen(tenant) + key_len);
	assert_memory_equal(f->tail, tenant, strlen(tenant));
	assert_memory_equal(f->tail + strlen(tenant), key, key_len);
	if (size)
		append(&tail, &rec, sizeof(rec));
	adminrig_answer(n, f, &r, &tail);
	kv_bytes_fini(&tail);
}

void
adminrig_publish(struct rignode *n, const char *tenant, const char *key,
		 size_t len)
{
	struct kv_publish_ent ent = {
		.hash = kv_key_hash_build(kv_key_hash(
			kv_key_seed(tenant, strlen(tenant)), key, len)),
		.put_id = { .random = kv_le64(5) },
	};

	wireframe_free(rig_publish(n, 0, &ent, 1, 0));
}

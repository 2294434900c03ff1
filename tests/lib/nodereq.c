#include "nodereq.h"

#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "store/generation.h"
#include "wire/msg.h"

#include "test.h"

struct simreq req;

static int
open_with(const struct simnode_opts *opts)
{
	noderig_open(opts);
	simnode_run(&sim, 250);
	simreq_open_unix(&req, &sim, 0);
	return 0;
}

int
nodereq_one(void **state)
{
	(void)state;
	return open_with(&(struct simnode_opts){ .masters = 1 });
}

int
nodereq_two(void **state)
{
	(void)state;
	return open_with(&(struct simnode_opts){ .masters = 2 });
}

int
nodereq_file(void **state)
{
	(void)state;
	return open_with(
		&(struct simnode_opts){ .masters = 1, .has_file = true });
}

int
nodereq_close(void **state)
{
	(void)state;
	simreq_close(&req);
	simnode_close(&sim);
	return 0;
}

void
nodereq_put(const char *key)
{
	assert_int_equal(simreq_put_inline(&req, key, "abc"), KV_OK);
}

int
nodereq_get(const char *key)
{
	const struct simget_opts opts = { .inline_max = 99 };

	return simreq_get_one(&req, key, &opts, NULL);
}

void
nodereq_put_hard(const char *key)
{
	struct simput item = { key, 3, "abc" };
	struct simput_opts opts = { .flags = KV_PUT_HARD_PIN };
	uint64_t id = simreq_put(&req, &item, 1, &opts);

	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&req, id, 0), KV_OK);
}

void
nodereq_ask(enum kv_msg_type type, const void *body, const char *tenant,
	    const void *rest, size_t n)
{
	struct kv_bytes tail = { 0 };
	int rc = kv_bytes_append(&tail, tenant, strlen(tenant));

	assert_int_equal(rc, 0);
	rc = kv_bytes_append(&tail, rest, n);
	assert_int_equal(rc, 0);
	wirepeer_send(&req.control, type, 4, body, tail.data, tail.len);
	kv_bytes_fini(&tail);
	simnode_run(&sim, 20);
}

struct wireframe *
nodereq_answer(enum kv_msg_type type)
{
	struct wireframe *f = wirepeer_take(&req.control, type);

	assert_non_null(f);
	assert_int_equal(f->id, 4);
	return f;
}

void
nodereq_fails(int status, const char *word)
{
	struct wireframe *f = nodereq_answer(KV_MSG_ERROR_R);
	const struct kv_error_r *r = (void *)f->body;
	char text[520] = "";

	assert_int_equal(r->status, status);
	assert_int_equal(f->tail_len, kv_get32(r->text_len));
	memcpy(text, f->tail, f->tail_len);
	assert_non_null(strstr(text, word));
	wireframe_free(f);
}

size_t
nodereq_ent(uint8_t *to, const char *tenant, uint64_t number, uint64_t random)
{
	struct kv_generation_ent e = {
		.generation = { kv_le64(number), kv_le64(random) },
		.tenant_len = (uint8_t)strlen(tenant),
	};

	memcpy(to, &e, sizeof(e));
	memcpy(to + sizeof(e), tenant, e.tenant_len);
	return sizeof(e) + e.tenant_len;
}

void
nodereq_news(unsigned master, const char *tenant, uint64_t number,
	     uint64_t random)
{
	struct kv_generation_news m = { .count = kv_le32(1) };
	uint8_t tail[128];
	size_t n = nodereq_ent(tail, tenant, number, random);

	wirepeer_send(&sim.masters[master].peer, KV_MSG_GENERATION, 0, &m, tail,
		      n);
	simnode_run(&sim, 5);
}

struct kv_generation_le
nodereq_greet(uint64_t number, uint64_t random)
{
	const struct kv_hello h = {
		.version_min = kv_le16(KV_WIRE_VERSION),
		.version_max = kv_le16(KV_WIRE_VERSION),
		.role = KV_ROLE_REQUESTER,
		.boot = { { 77 } },
		.generation = { kv_le64(number), kv_le64(random) },
	};
	struct kv_generation_le g;
	struct wirepeer p = { 0 };
	struct wireframe *f;

	wirepeer_open(
		&p, sim.loop,
		simreq_dial(&sim, simnode_new_process(&sim, false), false));
	f = simreq_hello(&p, &sim, &h);
	g = ((struct kv_hello_r *)(void *)f->body)->generation;
	wireframe_free(f);
	wirepeer_close(&p);
	simnode_run(&sim, 5);
	return g;
}

uint64_t
nodereq_number(void)
{
	return kv_get64(nodereq_greet(0, 0).number);
}

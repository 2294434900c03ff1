#include "nodereq.h"

#include <string.h>

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

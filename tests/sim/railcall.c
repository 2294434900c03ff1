#include "railcall.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

#define POOL_BYTES (256ull << 20)

struct simrails *rails;
struct cluster *cl;
struct sim_requester *far;

void
railcall_begin_with(const struct railcall_opts *ro)
{
	const struct cluster_opts o = {
		.seed = ro->rails.seed,
		.masters = 1,
		.nodes = 1,
		.requesters = 2,
		.keys = 1,
		.pool_bytes = ro->pool_bytes,
		.latency_ns = ro->latency_ns,
		.size_max = 100,
		.replicas_max = 1,
		.rdma = simrails_rdma(rails = simrails_new(&ro->rails)),
	};

	cl = cluster_new(&o);
	far = &cl->requesters[1];
	cluster_run(cl, 3 * KV_NS_PER_S);
}

void
railcall_begin(unsigned n_rails, uint64_t seed)
{
	const struct railcall_opts o = {
		.rails = { .seed = seed, .rails = n_rails },
		.pool_bytes = POOL_BYTES,
	};

	railcall_begin_with(&o);
}

void
railcall_end(void)
{
	cluster_free(cl);
	simrails_free(rails);
}

/* ---- calls ---- */

static void
put_done(struct kv_putop *op)
{
	struct railcall *c = KV_CONTAINER_OF(op, struct railcall, put);

	c->is_done = true;
	c->done_ns = cl->clock.ns;
}

static void
get_done(struct kv_getop *op)
{
	struct railcall *c = KV_CONTAINER_OF(op, struct railcall, get);

	c->is_done = true;
	c->done_ns = cl->clock.ns;
}

/* What stands at `at` of the value of a key. */
static char
byte_of(const char *name, size_t at)
{
	return (char)(name[0] * 31 + name[strlen(name) - 1] + at * 7 +
		      (at >> 8) * 13 + (at >> 16) * 5);
}

static void
fill(char *bytes, const char *name, size_t size)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = byte_of(name, i);
}

void
railcall_check(const struct railcall *c, const char *name, size_t at,
	       size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (c->bytes[i] != byte_of(name, at + i))
			fail_msg("%s: byte %zu of %zu is wrong", name, i, size);
}

void
railcall_new(struct railcall *c, size_t size, bool is_registered)
{
	*c = (struct railcall){ .r = far, .size = size };
	c->bytes = malloc(size + 1);
	assert_non_null(c->bytes);
	c->bufs[0] = (struct kv_buf){ c->bytes, size / 3 };
	c->bufs[1] = (struct kv_buf){ c->bytes + size / 3, size - size / 3 };
	c->is_registered = is_registered;
	if (is_registered)
		assert_int_equal(
			kv_ranges_add(&c->r->hub.ranges, c->bytes, size + 1),
			0);
}

void
railcall_free(struct railcall *c)
{
	if (c->is_registered)
		assert_int_equal(kv_ranges_del(&c->r->hub.ranges, c->bytes), 0);
	free(c->bytes);
	c->bytes = NULL;
}

void
railcall_put(struct railcall *c, const char *name, uint64_t ns)
{
	fill(c->bytes, name, c->size);
	c->pitem = (struct kv_put_item){ .key = { name, strlen(name) },
					 .bufs = c->bufs,
					 .nbufs = 2 };
	c->put = (struct kv_putop){ .items = &c->pitem,
				    .n = 1,
				    .replicas = 1,
				    .deadline = cl->clock.ns + ns,
				    .done = put_done };
	kv_loop_refresh(cl->loop);
	assert_int_equal(kv_putop_start(c->r->ch, &c->put), 0);
}

void
railcall_get(struct railcall *c, const char *name, uint64_t ns)
{
	memset(c->bytes, 0x5a, c->size);
	c->gitem = (struct kv_get_item){ .key = { name, strlen(name) },
					 .bufs = c->bufs,
					 .nbufs = 2 };
	c->get = (struct kv_getop){ .items = &c->gitem,
				    .n = 1,
				    .deadline = cl->clock.ns + ns,
				    .done = get_done };
	kv_loop_refresh(cl->loop);
	assert_int_equal(kv_getop_start(c->r->ch, &c->get), 0);
}

uint64_t
railcall_wait(struct railcall *c)
{
	uint64_t began = cl->clock.ns;

	while (!c->is_done) {
		if (cl->clock.ns > began + 20 * KV_NS_PER_S)
			fail_msg("a call hangs");
		cluster_run(cl, 100 * KV_NS_PER_US);
	}
	return cl->clock.ns - began;
}

static uint64_t
moved(void)
{
	return cluster_rdma_bytes(cl);
}

bool
railcall_put_value(const char *name, size_t size, bool is_registered)
{
	uint64_t before = moved();
	struct railcall c;

	railcall_new(&c, size, is_registered);
	railcall_put(&c, name, 5 * KV_NS_PER_S);
	railcall_wait(&c);
	assert_int_equal(c.pitem.status, 0);
	railcall_free(&c);
	if (moved() != before)
		assert_int_equal(moved() - before, size);
	return moved() != before;
}

bool
railcall_get_value(const char *name, size_t size, bool is_registered)
{
	uint64_t before = moved();
	struct railcall c;

	railcall_new(&c, size, is_registered);
	railcall_get(&c, name, 5 * KV_NS_PER_S);
	railcall_wait(&c);
	assert_int_equal(c.gitem.status, 0);
	assert_int_equal(c.gitem.len, size);
	assert_int_equal(c.gitem.size_total, size);
	railcall_check(&c, name, 0, size);
	railcall_free(&c);
	if (moved() != before)
		assert_int_equal(moved() - before, size);
	return moved() != before;
}

void
railcall_give(const char *name, size_t size)
{
	struct sim_requester *was = far;

	far = &cl->requesters[0];
	railcall_put_value(name, size, false);
	far = was;
}

struct kv_link *
railcall_link(void)
{
	return KV_LIST_FIRST(&far->ch->nodes, struct kv_link, node);
}

void
railcall_check_untouched(struct railcall *c)
{
	char *copy;

	memset(c->bytes, 0x77, c->size);
	copy = malloc(c->size);
	assert_non_null(copy);
	memcpy(copy, c->bytes, c->size);
	cluster_run(cl, 5 * KV_NS_PER_S);
	assert_memory_equal(c->bytes, copy, c->size);
	free(copy);
}

void
railcall_cut(unsigned from, unsigned n, bool cut)
{
	for (unsigned i = from; i < from + n; i++)
		simrails_cut(rails, NULL, i, cut);
}

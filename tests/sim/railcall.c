#include "railcall.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
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

/* Where the i-th byte of the value is. */
static size_t
place_of(const struct railcall *c, size_t i)
{
	return c->cut ? 2 * (i - i % c->cut) + i % c->cut : i;
}

static void
fill(struct railcall *c, const char *name)
{
	for (size_t i = 0; i < c->size; i++)
		c->bytes[place_of(c, i)] = byte_of(name, i);
}

void
railcall_check(const struct railcall *c, const char *name, size_t at,
	       size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (c->bytes[place_of(c, i)] != byte_of(name, at + i))
			fail_msg("%s: byte %zu of %zu is wrong", name, i, size);
	for (size_t i = 0; c->cut && i < c->size; i++)
		if (c->bytes[place_of(c, i) + c->cut] != 0x5a)
			fail_msg("%s: what is behind byte %zu is not as it was",
				 name, i);
}

/* Its parts are there. */
static void
prepare(struct railcall *c, bool is_registered)
{
	c->is_registered = is_registered;
	if (is_registered)
		assert_int_equal(
			kv_ranges_add(&c->r->hub.ranges, c->bytes, c->room), 0);
}

void
railcall_new(struct railcall *c, size_t size, bool is_registered)
{
	memset(c, 0, sizeof(*c));
	c->r = far;
	c->size = size;
	c->room = size + 1;
	c->bytes = malloc(c->room);
	assert_non_null(c->bytes);
	c->n_bufs = 2;
	c->bufs[0] = (struct kv_buf){ c->bytes, size / 3 };
	c->bufs[1] = (struct kv_buf){ c->bytes + size / 3, size - size / 3 };
	prepare(c, is_registered);
}

void
railcall_new_cut(struct railcall *c, size_t size, size_t cut,
		 bool is_registered)
{
	memset(c, 0, sizeof(*c));
	c->r = far;
	c->size = size;
	c->cut = cut;
	c->room = 2 * (size + cut);
	c->bytes = malloc(c->room);
	assert_non_null(c->bytes);
	for (size_t at = 0; at < size; at += cut) {
		assert_in_range(c->n_bufs, 0, RAILCALL_PARTS_MAX - 1);
		c->bufs[c->n_bufs++] = (struct kv_buf){
			c->bytes + place_of(c, at),
			kv_min_u64(cut, size - at),
		};
	}
	prepare(c, is_registered);
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
	fill(c, name);
	c->pitem = (struct kv_put_item){ .key = { name, strlen(name) },
					 .bufs = c->bufs,
					 .nbufs = c->n_bufs };
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
	memset(c->bytes, 0x5a, c->room);
	c->gitem = (struct kv_get_item){ .key = { name, strlen(name) },
					 .bufs = c->bufs,
					 .nbufs = c->n_bufs };
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

	memset(c->bytes, 0x77, c->room);
	copy = malloc(c->room);
	assert_non_null(copy);
	memcpy(copy, c->bytes, c->room);
	cluster_run(cl, 5 * KV_NS_PER_S);
	assert_memory_equal(c->bytes, copy, c->room);
	free(copy);
}

void
railcall_cut(unsigned from, unsigned n, bool cut)
{
	for (unsigned i = from; i < from + n; i++)
		simrails_cut(rails, NULL, i, cut);
}

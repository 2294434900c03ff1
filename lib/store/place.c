#include "store/place.h"

#include <assert.h>

#include "base/limits.h"
#include "base/num.h"
#include "base/rng.h"

/* Nodes that one pick is made from. */
struct pool {
	uint16_t node[KV_NODES_MAX];
	unsigned n;
};

static bool
has_room(const struct kv_place *p, unsigned node)
{
	return p->nodes[node].free_bytes >= p->size;
}

static bool
is_same_host(const struct kv_place *p, unsigned a, unsigned b)
{
	return kv_id_is_equal(p->nodes[a].host, p->nodes[b].host) &&
	       !kv_id_is_zero(p->nodes[a].host);
}

/* What is usable and not among the picks; apart: nor on their hosts. */
static void
gather(const struct kv_place *p, const struct kv_place_pick *picks,
       unsigned n_picks, bool apart, struct pool *pool)
{
	unsigned i, k;

	pool->n = 0;
	for (i = 0; i < p->n; i++) {
		if (!p->nodes[i].usable)
			continue;
		for (k = 0; k < n_picks; k++)
			if (picks[k].node == i ||
			    (apart && is_same_host(p, picks[k].node, i)))
				break;
		if (k == n_picks)
			pool->node[pool->n++] = (uint16_t)i;
	}
}

/* A node that was just seen has much room and would be swamped, so at first
 * its free bytes count now and then. */
static uint64_t
weight(const struct kv_place_node *node, struct kv_rng *rng)
{
	if (node->seen_ms < KV_PLACE_RAMP_MS &&
	    kv_rng_below(rng, KV_PLACE_RAMP_MS) >= node->seen_ms)
		return 0;
	return node->free_bytes;
}

static unsigned
freer_of_two(const struct kv_place *p, const struct pool *roomy,
	     struct kv_rng *rng)
{
	unsigned i = (unsigned)kv_rng_below(rng, roomy->n), j;
	unsigned a = roomy->node[i], b;

	if (roomy->n == 1)
		return a;
	j = (unsigned)kv_rng_below(rng, roomy->n - 1);
	b = roomy->node[j < i ? j : j + 1];
	return weight(&p->nodes[b], rng) > weight(&p->nodes[a], rng) ? b : a;
}

static unsigned
oldest_victim(const struct kv_place *p, const struct pool *pool)
{
	unsigned i, best = pool->node[0];

	for (i = 1; i < pool->n; i++) {
		const struct kv_place_node *a = &p->nodes[best];
		const struct kv_place_node *b = &p->nodes[pool->node[i]];

		if (b->victim_age_ms > a->victim_age_ms ||
		    (b->victim_age_ms == a->victim_age_ms && b->local))
			best = pool->node[i];
	}
	return best;
}

/* The place in the pool of the first preferred node with room, else of the
 * first preferred one, else the pool's size. */
static unsigned
preferred(const struct kv_place *p, const struct pool *pool)
{
	unsigned i, first = pool->n;

	for (i = 0; i < pool->n; i++) {
		if (!p->nodes[pool->node[i]].preferred)
			continue;
		if (has_room(p, pool->node[i]))
			return i;
		if (first == pool->n)
			first = i;
	}
	return first;
}

/* The first of a pool that is not empty. */
static unsigned
pick(const struct kv_place *p, const struct pool *pool, struct kv_rng *rng)
{
	const struct kv_place_node *node;
	struct pool roomy = { .n = 0 };
	unsigned i;

	i = preferred(p, pool);
	if (i < pool->n)
		return pool->node[i];
	for (i = 0; i < pool->n; i++) {
		if (!has_room(p, pool->node[i]))
			continue;
		node = &p->nodes[pool->node[i]];
		if (node->local)
			return pool->node[i];
		roomy.node[roomy.n++] = pool->node[i];
	}
	return roomy.n ? freer_of_two(p, &roomy, rng) : oldest_victim(p, pool);
}

unsigned
kv_place_choose(const struct kv_place *p, struct kv_rng *rng,
		struct kv_place_pick *out, unsigned max)
{
	bool room_behind = false;
	struct pool pool;
	unsigned n, i;

	assert(p->n <= KV_NODES_MAX);
	for (n = 0; n < max; n++) {
		gather(p, out, n, n < p->replicas, &pool);
		if (!pool.n)
			gather(p, out, n, false, &pool);
		if (!pool.n)
			break;
		out[n].node = (uint16_t)pick(p, &pool, rng);
	}
	for (i = n; i-- > 0;) {
		out[i].no_evict = room_behind;
		room_behind |= has_room(p, out[i].node);
	}
	return n;
}

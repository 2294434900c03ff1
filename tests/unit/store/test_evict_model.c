/*
 * The order of leaving against a model: three arrays. Everything goes through
 * the index, as evict.c is a part of it; the owner of each granule of the pool
 * is kept, so that space that is used twice or lost shows.
 */
#include "store/evict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "mem/slab.h"
#include "test.h"

enum {
	KEYS = 300,
	GRANULES = 3 * 4096 + 77,
	EXTENTS = 1024,
	GRACE = 1000,
	NOBODY = -1,
	RESERVED = -2,
};

enum place {
	OFF,
	PLAIN,
	WANTED,
	SOFT
};

struct key {
	struct kv_object *o; /* in the index, or gone and still referenced */
	enum place place;
	uint64_t seq; /* in its list */
	uint64_t wanted_ns;
	bool wanted;
	bool in_index;
	bool gone;
	bool hidden;
	uint64_t size;
	unsigned pins;
	unsigned holds;
	uint8_t pin_flags;
};

struct model {
	struct kv_rng rng;
	struct kv_slab *slab;
	struct kv_index *ix;
	struct key key[KEYS];
	int owner[GRANULES]; /* key, or NOBODY, or RESERVED */
	uint64_t now;
	uint64_t seq;
	uint64_t need; /* of the reservation under way; 0: any eviction */
	uint64_t evicted;
	bool may_evict;
	bool first; /* eviction of the reservation */
};

static uint64_t
below(struct model *m, uint64_t n)
{
	return kv_rng_below(&m->rng, n);
}

static struct kv_hash
hash_of(size_t k)
{
	/* Chains with equal halves of hashes in them. */
	return (struct kv_hash){ .lo = k / 4, .hi = k % 4 };
}

static uint64_t
space(const struct key *k)
{
	return (k->size + 255) / 256 * 256;
}

static void
own(struct model *m, const struct kv_extent *e, unsigned n, int was, int is)
{
	uint64_t at, i;

	for (; n-- > 0; e++) {
		assert_int_equal(e->off % 256, 0);
		assert_int_equal(e->len % 256, 0);
		at = e->off / 256;
		for (i = at; i < at + e->len / 256; i++) {
			assert_true(i < GRANULES);
			assert_int_equal(m->owner[i], was);
			m->owner[i] = is;
		}
	}
}

/* To the recent end of where it belongs. */
static void
link_key(struct model *m, struct key *k)
{
	k->place = OFF;
	if (!k->in_index || k->hidden || k->pins ||
	    k->pin_flags & KV_OBJ_HARD_PIN)
		return;
	k->seq = ++m->seq;
	k->place = k->pin_flags & KV_OBJ_SOFT_PIN ? SOFT
		   : k->wanted                    ? WANTED
						  : PLAIN;
}

static struct key *
head(struct model *m, enum place place)
{
	struct key *k, *best = NULL;

	for (k = m->key; k < m->key + KEYS; k++)
		if (k->place == place && (!best || k->seq < best->seq))
			best = k;
	return best;
}

static void
expire(struct model *m)
{
	struct key *k;
	int i;

	for (i = 0; i < KV_EVICT_EXPIRE_MAX; i++) {
		k = head(m, WANTED);
		if (!k || m->now - k->wanted_ns < GRACE)
			return;
		k->wanted = false;
		link_key(m, k);
	}
}

static struct key *
victim(struct model *m)
{
	struct key *k = head(m, PLAIN);

	if (!k)
		k = head(m, WANTED);
	return k ? k : head(m, SOFT);
}

/* After the index let go of it; its space is free. */
static void
forget(struct model *m, struct key *k)
{
	size_t i;

	for (i = 0; i < GRANULES; i++)
		if (m->owner[i] == k - m->key)
			m->owner[i] = NOBODY;
}

static void
on_evicted(void *arg, const struct kv_object *o)
{
	struct model *m = arg;
	struct key *k;

	assert_true(m->may_evict);
	if (m->first)
		expire(m);
	m->first = false;
	k = victim(m);
	assert_non_null(k);
	assert_ptr_equal(k->o, o);
	if (m->need)
		assert_true(kv_slab_free_bytes(m->slab) < m->need);
	m->evicted++;
	k->in_index = false;
	k->place = OFF;
	k->gone = k->holds > 0;
	if (!k->holds)
		k->o = NULL;
	forget(m, k);
}

static uint64_t
evictable(const struct model *m)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < KEYS; i++)
		if (m->key[i].place != OFF)
			sum += space(&m->key[i]);
	return sum;
}

static uint64_t
free_bytes(const struct model *m)
{
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < GRANULES; i++)
		n += m->owner[i] == NOBODY;
	return n * 256;
}

static int
reserve(struct model *m, uint64_t size, struct kv_extent *ext)
{
	unsigned max = below(m, 10) ? EXTENTS : 1 + (unsigned)below(m, 4);
	uint64_t need = (size + 255) / 256 * 256, was_free = free_bytes(m);
	bool fits = need <= was_free + evictable(m);
	uint64_t before = m->evicted;
	int rc;

	assert_int_equal(kv_slab_free_bytes(m->slab), was_free);
	m->may_evict = below(m, 8);
	m->need = max == EXTENTS ? need : 0;
	m->first = true;
	rc = kv_index_reserve(m->ix, size, m->may_evict, m->now, ext, max);
	if (!fits)
		assert_int_equal(rc, -ENOSPC);
	else if (!m->may_evict && need > was_free)
		assert_int_equal(rc, -EAGAIN);
	else if (max == EXTENTS)
		assert_true(rc >= 0);
	if (rc < 0 && (!fits || max == EXTENTS))
		assert_int_equal(m->evicted, before);
	if (rc >= 0)
		assert_true((unsigned)rc <= max);
	return rc;
}

static uint64_t
random_size(struct model *m)
{
	switch (below(m, 8)) {
	case 0:
		return below(m, 3);
	case 1:
		return below(m, 4000000);
	case 2:
		return below(m, 300000);
	default:
		return below(m, 40000);
	}
}

static void
do_put(struct model *m, struct key *k)
{
	struct kv_extent ext[EXTENTS];
	struct kv_index_new_object n = { .ext = ext };
	size_t number = (size_t)(k - m->key);
	int rc;

	k->size = random_size(m);
	rc = reserve(m, k->size, ext);
	if (rc < 0)
		return;
	own(m, ext, (unsigned)rc, NOBODY, RESERVED);
	own(m, ext, (unsigned)rc, RESERVED, (int)number);
	if (!below(m, 8)) {
		forget(m, k);
		kv_index_unreserve(m->ix, ext, (unsigned)rc);
		return;
	}
	n.hash = hash_of(number);
	n.key = &number;
	n.key_len = sizeof(number);
	n.size = k->size;
	n.n_ext = (unsigned)rc;
	n.flags = k->pin_flags = below(m, 8) == 0    ? KV_OBJ_SOFT_PIN
				 : below(m, 16) == 0 ? KV_OBJ_HARD_PIN
						     : 0;
	k->o = kv_index_insert(m->ix, &n, m->now);
	assert_non_null(k->o);
	k->in_index = k->hidden = true;
	k->wanted = false;
	k->pins = k->holds = 0;
	k->place = OFF;
}

static void
do_drop(struct model *m, struct key *k)
{
	k->in_index = false;
	k->place = OFF;
	k->gone = k->pins || k->holds;
	kv_index_drop(m->ix, k->o);
	if (!k->pins)
		forget(m, k);
	if (!k->gone)
		k->o = NULL;
}

static void
do_pin(struct model *m, struct key *k)
{
	k->pins++;
	k->place = OFF;
	kv_index_pin(m->ix, k->o, m->now);
}

static void
do_unpin(struct model *m, struct key *k)
{
	kv_index_unpin(m->ix, k->o);
	if (--k->pins)
		return;
	if (k->in_index) {
		link_key(m, k);
		return;
	}
	forget(m, k);
	k->gone = k->holds > 0;
	if (!k->gone)
		k->o = NULL;
}

static void
do_unhold(struct model *m, struct key *k)
{
	kv_index_unhold(m->ix, k->o);
	if (--k->holds || k->in_index)
		return;
	k->gone = k->pins > 0;
	if (!k->gone)
		k->o = NULL;
}

static void
do_want(struct model *m, struct key *k)
{
	expire(m);
	kv_index_want(m->ix, k->o, m->now);
	if (k->gone || k->hidden)
		return;
	if (!k->pin_flags) {
		k->wanted = true;
		k->wanted_ns = m->now;
	}
	link_key(m, k);
}

static void
do_show(struct model *m, struct key *k)
{
	kv_index_show(m->ix, k->o, m->now);
	k->hidden = false;
	link_key(m, k);
}

/* One step with a key, chosen from what its state allows. */
static void
step(struct model *m, struct key *k)
{
	unsigned what = (unsigned)below(m, 12);

	kv_index_prefetch(m->ix, hash_of((size_t)(k - m->key)));
	kv_index_prefetch_object(m->ix, hash_of((size_t)(k - m->key)));
	kv_index_prefetch_order(m->ix, hash_of((size_t)(k - m->key)));
	if (!k->o)
		do_put(m, k);
	else if (k->in_index && k->hidden && what < 8)
		do_show(m, k);
	else if (k->in_index && what == 0)
		do_drop(m, k);
	else if (k->pins && what < 7)
		do_unpin(m, k);
	else if (k->holds && what < 7)
		do_unhold(m, k);
	else if (what < 9)
		do_want(m, k);
	else if (what == 9 && k->holds < 3) {
		k->holds++;
		kv_index_hold(k->o);
	} else if (!k->gone || k->pins)
		do_pin(m, k);
}

static void
check_stats(struct model *m)
{
	struct kv_index_stats s, want = { .evicted_keys = m->evicted };
	const struct key *k;

	for (k = m->key; k < m->key + KEYS; k++) {
		bool shown = k->in_index && !k->hidden;

		want.keys += shown;
		want.hidden += k->in_index && k->hidden;
		want.bytes += shown ? k->size : 0;
		want.soft_pinned += shown && k->pin_flags & KV_OBJ_SOFT_PIN;
		want.hard_pinned += shown && k->pin_flags & KV_OBJ_HARD_PIN;
		want.pinned_bytes += k->o && k->pins ? space(k) : 0;
		want.zombie_bytes += k->gone && k->pins ? space(k) : 0;
	}
	kv_index_stats(m->ix, &s);
	want.evicted_bytes = s.evicted_bytes;
	assert_memory_equal(&s, &want, sizeof(s));
}

static void
check_keys(struct model *m)
{
	const struct key *v = victim(m);
	struct key *k;

	for (k = m->key; k < m->key + KEYS; k++) {
		size_t number = (size_t)(k - m->key);
		struct kv_object *o = kv_index_find(m->ix, hash_of(number), 0,
						    &number, sizeof(number));

		assert_ptr_equal(o, k->in_index ? k->o : NULL);
		assert_ptr_equal(kv_index_find_hash(m->ix, hash_of(number)), o);
		if (!k->o)
			continue;
		assert_int_equal(k->o->pins, k->pins);
		assert_int_equal(k->o->busy, k->holds);
		/* Its space is still its own. */
		own(m, kv_index_extents(k->o), k->o->n_ext, (int)number,
		    (int)number);
	}
	assert_int_equal(kv_index_victim_idle(m->ix, m->now),
			 v ? m->now - v->o->used_ns : UINT64_MAX);
}

static void
run_model(uint64_t seed, unsigned steps)
{
	static struct model m;
	struct kv_index_opts opts = {
		.grace_ns = GRACE,
		.evicted = on_evicted,
		.arg = &m,
	};
	size_t i;

	memset(&m, 0, sizeof(m));
	kv_rng_seed(&m.rng, seed);
	for (i = 0; i < GRANULES; i++)
		m.owner[i] = NOBODY;
	m.now = 5000;
	m.slab = opts.slab = kv_slab_new(GRANULES * 256);
	assert_non_null(m.slab);
	assert_int_equal(kv_slab_add(m.slab, 0, GRANULES * 256), 0);
	m.ix = kv_index_new(&opts);
	assert_non_null(m.ix);
	while (steps-- > 0) {
		m.now += below(&m, 50);
		step(&m, &m.key[below(&m, KEYS)]);
		if (steps % 64 == 0) {
			check_stats(&m);
			check_keys(&m);
		}
	}
	assert_true(m.evicted > 0);
	kv_index_free(m.ix); /* with pinned, held and hidden ones inside */
	kv_slab_free(m.slab);
}

static void
test_model(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 20 / KV_TEST_SLOWER; seed++)
		run_model(seed, 20000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

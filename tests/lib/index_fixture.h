#ifndef KV_TEST_INDEX_FIXTURE_H
#define KV_TEST_INDEX_FIXTURE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem/slab.h"
#include "store/index.h"
#include "test.h"

enum {
	KIB = 1024,
	POOL = 1024 * KIB,
	GRACE = 1000,
	EXTENTS = 1024,
};

/* What the tests of an index start from. */
struct fixture {
	struct kv_slab *slab;
	struct kv_index *ix;
	char left[256]; /* first bytes of the keys that were evicted */
	size_t n_left;
	uint64_t now;
};

static inline void
on_evicted(void *arg, const struct kv_object *o)
{
	struct fixture *f = arg;

	f->left[f->n_left++ % (sizeof(f->left) - 1)] = o->key[0];
}

static inline void
fixture_set_up(struct fixture *f)
{
	struct kv_index_opts opts = {
		.grace_ns = GRACE,
		.evicted = on_evicted,
		.arg = f,
	};

	memset(f, 0, sizeof(*f));
	f->slab = opts.slab = kv_slab_new(POOL);
	assert_non_null(f->slab);
	assert_int_equal(kv_slab_add(f->slab, 0, POOL), 0);
	f->ix = kv_index_new(&opts);
	assert_non_null(f->ix);
	f->now = 1000000;
}

static inline void
fixture_tear_down(struct fixture *f)
{
	kv_index_free(f->ix);
	kv_slab_free(f->slab);
}

/* Hidden. */
static inline struct kv_object *
insert(struct fixture *f, const char *key, uint64_t size, uint8_t flags)
{
	struct kv_extent ext[EXTENTS];
	struct kv_index_new_object n = {
		.hash = kv_key_hash(0, key, strlen(key)),
		.key = key,
		.key_len = strlen(key),
		.size = size,
		.ext = ext,
		.id_random = 77,
		.id_version = 3,
		.flags = flags,
	};
	struct kv_object *o;
	int rc;

	rc = kv_index_reserve(f->ix, size, true, f->now, ext, EXTENTS);
	assert_true(rc >= 0);
	n.n_ext = (unsigned)rc;
	o = kv_index_insert(f->ix, &n, f->now);
	assert_non_null(o);
	return o;
}

static inline struct kv_object *
put_flags(struct fixture *f, const char *key, uint64_t size, uint8_t flags)
{
	struct kv_object *o = insert(f, key, size, flags);

	kv_index_show(f->ix, o, f->now++);
	return o;
}

static inline struct kv_object *
put(struct fixture *f, const char *key, uint64_t size)
{
	return put_flags(f, key, size, 0);
}

static inline struct kv_object *
find(struct fixture *f, const char *key)
{
	return kv_index_find(f->ix, kv_key_hash(0, key, strlen(key)), 0, key,
			     strlen(key));
}

/* Makes room until so much is free; what leaves is noted in f->left. */
static inline int
make_room(struct fixture *f, uint64_t bytes)
{
	struct kv_extent ext[EXTENTS];
	int rc = kv_index_reserve(f->ix, bytes, true, f->now, ext, EXTENTS);

	if (rc > 0)
		kv_index_unreserve(f->ix, ext, (unsigned)rc);
	return rc;
}

static inline struct kv_index_stats
stats(const struct fixture *f)
{
	struct kv_index_stats s;

	kv_index_stats(f->ix, &s);
	return s;
}

/* Fills the pool with 1 KiB objects, the first ones named 'A'. */
static inline void
fill(struct fixture *f)
{
	char key[16];
	unsigned i;

	for (i = 0; i < POOL / KIB; i++) {
		snprintf(key, sizeof(key), "%c%u", i < 512 ? 'A' : 'B', i);
		put(f, key, KIB);
	}
}

#endif

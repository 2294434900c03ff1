#include "mem/slab.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/num.h"
#include "base/rng.h"
#include "test.h"

#define G          ((uint64_t)KV_GRANULE_BYTES)
#define MIB        (UINT64_C(1) << 20)
#define PIECES_MAX 64

static struct kv_slab *
slab_of(uint64_t bytes)
{
	struct kv_slab *s = kv_slab_new(bytes);

	assert_non_null(s);
	assert_int_equal(kv_slab_add(s, 0, bytes), 0);
	return s;
}

static struct kv_extent
alloc_one(struct kv_slab *s, uint64_t bytes)
{
	struct kv_extent ext;

	assert_int_equal(kv_slab_alloc(s, bytes, &ext, 1), 1);
	assert_int_equal(ext.len, kv_round_up_u64(bytes, G));
	return ext;
}

static struct kv_slab_stats
stats_of(const struct kv_slab *s)
{
	struct kv_slab_stats st;

	kv_slab_stats(s, &st);
	assert_int_equal(st.free_bytes, kv_slab_free_bytes(s));
	return st;
}

static void
assert_one_hole(const struct kv_slab *s, uint64_t bytes)
{
	struct kv_slab_stats st = stats_of(s);

	assert_int_equal(st.free_bytes, bytes);
	assert_int_equal(st.hole_bytes_max, bytes);
	assert_int_equal(st.holes, 1);
	assert_int_equal(st.chunks, 0);
}

static void
test_new_checks_the_size(void **state)
{
	struct kv_slab *s;

	(void)state;
	assert_null(kv_slab_new(0));
	assert_int_equal(errno, EINVAL);
	assert_null(kv_slab_new(G - 1));
	assert_int_equal(errno, EINVAL);
	assert_null(kv_slab_new(KV_SLAB_POOL_BYTES_MAX + 1));
	assert_int_equal(errno, EFBIG);
	kv_slab_free(NULL);

	s = kv_slab_new(2 * G - 1);
	assert_non_null(s);
	assert_int_equal(kv_slab_add(s, 0, 2 * G), -EINVAL);
	assert_int_equal(kv_slab_add(s, 0, G), 0);
	assert_one_hole(s, G);
	kv_slab_free(s);
}

static void
test_largest_pool_is_used_to_its_last_byte(void **state)
{
	uint64_t pool = KV_SLAB_POOL_BYTES_MAX;
	struct kv_slab *s = slab_of(pool);
	struct kv_extent all, last;

	(void)state;
	assert_one_hole(s, pool);
	all = alloc_one(s, pool);
	assert_int_equal(kv_slab_free_bytes(s), 0);
	kv_slab_release(s, &all, 1);
	assert_one_hole(s, pool);

	all = alloc_one(s, pool - G);
	last = alloc_one(s, 1);
	assert_int_equal(last.off, pool - G);
	kv_slab_release(s, &all, 1);
	kv_slab_release(s, &last, 1);
	assert_one_hole(s, pool);
	kv_slab_free(s);
}

static void
test_add_refuses_what_is_wrong(void **state)
{
	struct kv_slab *s = kv_slab_new(MIB);
	struct kv_extent ext;

	(void)state;
	assert_int_equal(kv_slab_alloc(s, 1, &ext, 1), -ENOSPC);
	assert_int_equal(kv_slab_add(s, 0, 0), -EINVAL);
	assert_int_equal(kv_slab_add(s, 1, G), -EINVAL);
	assert_int_equal(kv_slab_add(s, 0, G + 1), -EINVAL);
	assert_int_equal(kv_slab_add(s, MIB, G), -EINVAL);
	assert_int_equal(kv_slab_add(s, MIB - G, 2 * G), -EINVAL);
	assert_int_equal(kv_slab_add(s, G, UINT64_MAX - G + 1), -EINVAL);
	assert_int_equal(kv_slab_add(s, 4 * G, 4 * G), 0);
	assert_int_equal(kv_slab_add(s, 4 * G, G), -EEXIST);
	assert_int_equal(kv_slab_add(s, 7 * G, 2 * G), -EEXIST);
	assert_int_equal(kv_slab_add(s, 3 * G, 2 * G), -EEXIST);
	assert_int_equal(kv_slab_add(s, 0, MIB), -EEXIST);
	assert_one_hole(s, 4 * G);
	kv_slab_free(s);
}

static void
test_ranges_that_touch_grow_together(void **state)
{
	struct kv_slab *s = kv_slab_new(8 * MIB);
	struct kv_extent ext;

	(void)state;
	assert_int_equal(kv_slab_add(s, 2 * MIB, MIB), 0);
	assert_int_equal(kv_slab_add(s, 0, MIB), 0);
	assert_int_equal(stats_of(s).holes, 2);
	assert_int_equal(kv_slab_alloc(s, 3 * MIB, &ext, 1), -ENOSPC);
	assert_int_equal(kv_slab_add(s, MIB, MIB), 0);
	assert_one_hole(s, 3 * MIB);
	ext = alloc_one(s, 3 * MIB);
	assert_int_equal(kv_slab_add(s, 3 * MIB, 5 * MIB), 0);
	assert_one_hole(s, 5 * MIB);
	kv_slab_release(s, &ext, 1);
	assert_one_hole(s, 8 * MIB);
	kv_slab_free(s);
}

static void
test_no_bytes_need_no_extent(void **state)
{
	struct kv_slab *s = slab_of(MIB);
	struct kv_extent ext;

	(void)state;
	assert_int_equal(kv_slab_alloc(s, 0, &ext, 1), 0);
	assert_int_equal(kv_slab_alloc(s, UINT64_MAX, &ext, 1), -ENOSPC);
	assert_int_equal(kv_slab_alloc(s, MIB + 1, &ext, 1), -ENOSPC);
	assert_one_hole(s, MIB);
	kv_slab_free(s);
}

/* Every second block of the pool stays; returns the number of the others. */
static unsigned
make_holes(struct kv_slab *s, uint64_t bytes, struct kv_extent *kept)
{
	struct kv_extent ext[512];
	unsigned n = 0, i;

	while (kv_slab_alloc(s, bytes, &ext[n], 1) == 1)
		assert_true(++n < 512);
	for (i = 0; i < n; i++)
		if (i % 2)
			kv_slab_release(s, &ext[i], 1);
		else
			kept[i / 2] = ext[i];
	return n / 2;
}

static void
check_pieces(uint64_t hole)
{
	struct kv_slab *s = slab_of(8 * MIB);
	struct kv_extent kept[256], ext[8];
	unsigned holes = make_holes(s, hole, kept), i;
	uint64_t free_bytes = kv_slab_free_bytes(s), sum = 0;

	assert_true(holes > 8);
	assert_int_equal(kv_slab_alloc(s, 4 * hole, ext, 3), -ENOSPC);
	assert_int_equal(kv_slab_free_bytes(s), free_bytes);
	assert_int_equal(stats_of(s).holes, holes);

	assert_int_equal(kv_slab_alloc(s, 4 * hole - G, ext, 8), 4);
	for (i = 0; i < 4; i++)
		sum += ext[i].len;
	assert_int_equal(sum, 4 * hole - G);
	assert_int_equal(kv_slab_free_bytes(s), free_bytes - sum);
	kv_slab_release(s, ext, 4);
	assert_int_equal(stats_of(s).holes, holes);

	assert_int_equal(kv_slab_alloc(s, hole, ext, 8), 1);
	kv_slab_release(s, ext, 1);
	for (i = 0; i < holes; i++)
		kv_slab_release(s, &kept[i], 1);
	assert_one_hole(s, 8 * MIB);
	kv_slab_free(s);
}

static void
test_pieces_of_large_holes(void **state)
{
	(void)state;
	check_pieces(256 * 1024);
}

static void
test_pieces_of_small_holes(void **state)
{
	(void)state;
	check_pieces(32 * 1024);
}

static void
test_every_granule_can_be_used(void **state)
{
	uint64_t pool = 4 * MIB + 3 * G, n = 0;
	struct kv_slab *s = slab_of(pool);
	struct kv_extent ext, *all = calloc(pool / G + 1, sizeof(*all));

	(void)state;
	assert_non_null(all);
	while (kv_slab_alloc(s, 1, &all[n], 1) == 1)
		n++;
	assert_int_equal(n, pool / G);
	assert_int_equal(kv_slab_free_bytes(s), 0);
	assert_int_equal(stats_of(s).hole_bytes_max, 0);
	kv_slab_release(s, &all[7], 1);
	assert_int_equal(kv_slab_alloc(s, G + 1, &ext, 1), -ENOSPC);
	ext = alloc_one(s, G);
	assert_int_equal(ext.off, all[7].off);
	while (n > 0)
		kv_slab_release(s, &all[--n], 1);
	assert_one_hole(s, pool);
	kv_slab_free(s);
	free(all);
}

/*
 * Random allocations of all sizes, and releases, against a map that names the
 * owner of every granule.
 */
#define MODEL_MIB     32
#define MODEL_OBJECTS 4096
#define FREE          0u
#define UNKNOWN       UINT16_MAX

struct object {
	struct kv_extent ext[PIECES_MAX];
	unsigned n;
};

struct model {
	struct kv_slab *s;
	struct kv_rng rng;
	uint16_t owner[MODEL_MIB * MIB / KV_GRANULE_BYTES];
	struct object objects[MODEL_OBJECTS];
	uint64_t announced, used;
};

static uint64_t
object_bytes(const struct object *o)
{
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < o->n; i++)
		sum += o->ext[i].len;
	return sum;
}

static void
model_mark(struct model *m, const struct object *o, unsigned from, unsigned to)
{
	uint64_t g, end;
	unsigned i;

	for (i = 0; i < o->n; i++) {
		assert_int_equal(o->ext[i].off % G, 0);
		assert_true(o->ext[i].len > 0);
		end = (o->ext[i].off + o->ext[i].len) / G;
		assert_true(end <= KV_ARRAY_LEN(m->owner));
		for (g = o->ext[i].off / G; g < end; g++) {
			if (m->owner[g] != from)
				fail_msg("granule %ju is not %u's",
					 (uintmax_t)g, from);
			m->owner[g] = (uint16_t)to;
		}
	}
}

static uint64_t
model_size(struct model *m)
{
	static const uint64_t max[] = { 256,     4096,    32768,   65536,
					1 << 20, 4 << 20, 10 << 20 };
	uint64_t roll = kv_rng_below(&m->rng, KV_ARRAY_LEN(max));

	return 1 + kv_rng_below(&m->rng, max[roll]);
}

static void
model_alloc(struct model *m, unsigned i)
{
	struct object *o = &m->objects[i];
	uint64_t want = kv_round_up_u64(model_size(m), G);
	struct kv_slab_stats st = stats_of(m->s);
	int rc = kv_slab_alloc(m->s, want, o->ext, PIECES_MAX);

	if (rc == -ENOSPC) {
		assert_true(st.free_bytes < want || st.holes > PIECES_MAX);
		assert_true(st.hole_bytes_max < want);
		assert_int_equal(kv_slab_free_bytes(m->s), st.free_bytes);
		return;
	}
	assert_in_range(rc, 1, PIECES_MAX);
	o->n = (unsigned)rc;
	if (st.hole_bytes_max >= want)
		assert_int_equal(rc, 1);
	assert_int_equal(object_bytes(o), want);
	model_mark(m, o, FREE, i + 1);
	m->used += want;
}

static void
model_release(struct model *m, unsigned i)
{
	struct object *o = &m->objects[i];

	model_mark(m, o, i + 1, FREE);
	m->used -= object_bytes(o);
	kv_slab_release(m->s, o->ext, o->n);
	o->n = 0;
}

static void
model_add(struct model *m)
{
	uint64_t off = kv_rng_below(&m->rng, MODEL_MIB) * MIB;
	bool known = m->owner[off / G] != UNKNOWN;

	assert_int_equal(kv_slab_add(m->s, off, MIB), known ? -EEXIST : 0);
	if (known)
		return;
	memset(&m->owner[off / G], FREE, MIB / G * sizeof(m->owner[0]));
	m->announced += MIB;
}

static void
run_model(uint64_t seed, unsigned objects, int steps)
{
	struct model *m = calloc(1, sizeof(*m));
	unsigned i;

	assert_non_null(m);
	memset(m->owner, 0xff, sizeof(m->owner));
	kv_rng_seed(&m->rng, seed);
	m->s = kv_slab_new(MODEL_MIB * MIB);
	while (steps-- > 0) {
		if (m->announced < MODEL_MIB * MIB &&
		    kv_rng_below(&m->rng, 64) == 0)
			model_add(m);
		i = (unsigned)kv_rng_below(&m->rng, objects);
		if (m->objects[i].n)
			model_release(m, i);
		else
			model_alloc(m, i);
		assert_int_equal(kv_slab_free_bytes(m->s),
				 m->announced - m->used);
	}
	for (i = 0; i < objects; i++)
		if (m->objects[i].n)
			model_release(m, i);
	while (m->announced < MODEL_MIB * MIB)
		model_add(m);
	assert_one_hole(m->s, MODEL_MIB * MIB);
	kv_slab_free(m->s);
	free(m);
}

static void
test_random_against_a_map(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 8; seed++)
		run_model(seed, 16u << seed, 6000);
}

static void
test_adoption(void **state)
{
	struct kv_slab *s = kv_slab_new(4 * MIB);
	struct kv_extent two[2] = { { MIB, 512 * 1024 }, { 5 * G, G } }, ext;

	(void)state;
	assert_int_equal(kv_slab_reserve(s, MIB, G), -EEXIST);
	assert_int_equal(kv_slab_add(s, 0, 3 * MIB), 0);
	assert_int_equal(kv_slab_reserve(s, 1, G), -EINVAL);
	assert_int_equal(kv_slab_reserve(s, 0, 0), -EINVAL);
	assert_int_equal(kv_slab_reserve(s, 4 * MIB, G), -EINVAL);
	assert_int_equal(kv_slab_reserve(s, 3 * MIB, G), -EEXIST);
	assert_int_equal(kv_slab_reserve(s, 3 * MIB - G, 2 * G), -EEXIST);
	assert_int_equal(kv_slab_reserve(s, two[0].off, two[0].len), 0);
	assert_int_equal(kv_slab_reserve(s, two[1].off, two[1].len), 0);
	assert_int_equal(kv_slab_reserve(s, MIB, G), -EEXIST);
	assert_int_equal(kv_slab_reserve(s, MIB + 512 * 1024 - G, 2 * G),
			 -EEXIST);
	assert_int_equal(kv_slab_reserve(s, MIB - G, 2 * G), -EEXIST);
	assert_int_equal(kv_slab_reserve(s, 0, 3 * MIB), -EEXIST);
	assert_int_equal(kv_slab_free_bytes(s), 3 * MIB - 512 * 1024 - G);
	assert_int_equal(stats_of(s).holes, 3);

	ext = alloc_one(s, 100);
	assert_true(ext.off != 5 * G);
	kv_slab_release(s, &ext, 1);
	kv_slab_release(s, two, 2);
	assert_one_hole(s, 3 * MIB);
	kv_slab_free(s);
}

/* What one allocator handed out, another one adopts and empties. */
static void
test_adoption_of_a_used_pool(void **state)
{
	struct kv_slab *s = slab_of(64 * MIB), *t = slab_of(64 * MIB);
	struct object *o = calloc(1000, sizeof(*o));
	unsigned i, k, n;
	struct kv_rng rng;
	int rc;

	(void)state;
	assert_non_null(o);
	kv_rng_seed(&rng, 3);
	for (n = 0; n < 1000; n++) {
		rc = kv_slab_alloc(s, G << kv_rng_below(&rng, 14), o[n].ext,
				   PIECES_MAX);
		if (rc < 0)
			break;
		o[n].n = (unsigned)rc;
	}
	assert_true(n > 100);
	for (i = 0; i < n; i++)
		for (k = 0; k < o[i].n; k++)
			assert_int_equal(kv_slab_reserve(t, o[i].ext[k].off,
							 o[i].ext[k].len),
					 0);
	assert_int_equal(kv_slab_free_bytes(t), kv_slab_free_bytes(s));
	for (i = 0; i < n; i++)
		kv_slab_release(t, o[i].ext, o[i].n);
	assert_one_hole(t, 64 * MIB);
	kv_slab_free(s);
	kv_slab_free(t);
	free(o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_checks_the_size),
		cmocka_unit_test(test_largest_pool_is_used_to_its_last_byte),
		cmocka_unit_test(test_add_refuses_what_is_wrong),
		cmocka_unit_test(test_ranges_that_touch_grow_together),
		cmocka_unit_test(test_no_bytes_need_no_extent),
		cmocka_unit_test(test_pieces_of_large_holes),
		cmocka_unit_test(test_pieces_of_small_holes),
		cmocka_unit_test(test_every_granule_can_be_used),
		cmocka_unit_test(test_random_against_a_map),
		cmocka_unit_test(test_adoption),
		cmocka_unit_test(test_adoption_of_a_used_pool),
	};

	return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}

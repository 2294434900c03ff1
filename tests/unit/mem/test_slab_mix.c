/* How well a pool is used by the objects that engines put into it. */
#include "mem/slab.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/rng.h"
#include "test.h"

#define MIB    (UINT64_C(1) << 20)
#define GIB    (UINT64_C(1) << 30)
#define BIG    UINT64_C(3274752) /* the KV blocks of two models */
#define MIDDLE UINT64_C(658432)

#define PIECES_MAX  4 /* of a caller that rather evicts than splinters */
#define OBJECTS_MAX 65536

struct object {
	struct kv_extent ext[PIECES_MAX];
	unsigned n;
};

struct pool {
	struct kv_slab *s;
	struct kv_rng rng;
	struct object *objects;
	unsigned len;
	uint64_t used;
};

static void
pool_init(struct pool *p, uint64_t bytes)
{
	*p = (struct pool){ .s = kv_slab_new(bytes) };
	assert_non_null(p->s);
	assert_int_equal(kv_slab_add(p->s, 0, bytes), 0);
	p->objects = calloc(OBJECTS_MAX, sizeof(*p->objects));
	assert_non_null(p->objects);
	kv_rng_seed(&p->rng, 4);
}

static uint64_t
object_bytes(const struct object *o)
{
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < o->n; i++)
		sum += o->ext[i].len;
	return sum;
}

static int
pool_put(struct pool *p, uint64_t bytes)
{
	struct object *o = &p->objects[p->len];
	int rc = kv_slab_alloc(p->s, bytes, o->ext, PIECES_MAX);

	if (rc < 0)
		return rc;
	o->n = (unsigned)rc;
	p->used += object_bytes(o);
	assert_true(++p->len < OBJECTS_MAX);
	return rc;
}

static void
pool_remove(struct pool *p, unsigned i)
{
	struct object *o = &p->objects[i];

	p->used -= object_bytes(o);
	kv_slab_release(p->s, o->ext, o->n);
	*o = p->objects[--p->len];
}

static void
pool_evict(struct pool *p)
{
	pool_remove(p, (unsigned)kv_rng_below(&p->rng, p->len));
}

static uint64_t
pool_big_size(struct pool *p)
{
	return kv_rng_below(&p->rng, 2) ? BIG : MIDDLE;
}

/* Removes everything: the pool must be one hole again. */
static void
pool_fini(struct pool *p)
{
	struct kv_slab_stats st;

	while (p->len)
		pool_remove(p, p->len - 1);
	kv_slab_stats(p->s, &st);
	assert_int_equal(st.holes, 1);
	assert_int_equal(st.hole_bytes_max, st.total_bytes);
	kv_slab_free(p->s);
	free(p->objects);
}

static void
test_two_sizes_fill_the_pool(void **state)
{
	struct pool p;

	(void)state;
	pool_init(&p, 4 * GIB);
	while (pool_put(&p, pool_big_size(&p)) > 0)
		;
	assert_true(p.used * 100 >= 4 * GIB * 97);
	while (pool_put(&p, MIDDLE) > 0)
		;
	assert_true(4 * GIB - p.used < MIDDLE);
	pool_fini(&p);
}

/*
 * Puts with eviction at random, half of them up to small_max bytes. The first
 * half of the run is not looked at: the pool only settles then.
 */
static void
churn(uint64_t small_max, int puts)
{
	uint64_t pieces = 0, objects = 0, used = 0, size;
	bool small;
	struct pool p;
	int i, rc;

	pool_init(&p, GIB);
	for (i = 0; i < puts; i++) {
		small = small_max && kv_rng_below(&p.rng, 2);
		size = small ? 1 + kv_rng_below(&p.rng, small_max)
			     : pool_big_size(&p);
		while ((rc = pool_put(&p, size)) < 0)
			pool_evict(&p);
		if (small || i < puts / 2)
			continue;
		pieces += (uint64_t)rc;
		used += p.used / MIB;
		objects++;
	}
	print_message("# small ones up to %ju: %ju/100 pieces, %ju/1000 used\n",
		      (uintmax_t)small_max, (uintmax_t)(pieces * 100 / objects),
		      (uintmax_t)(used * 1000 / objects / (GIB / MIB)));
	assert_true(pieces * 10 <= objects * 25);
	assert_true(used * 100 >= objects * (GIB / MIB) * 97);
	pool_fini(&p);
}

static void
test_churn_makes_few_pieces(void **state)
{
	(void)state;
	churn(0, 40000);
	churn(256, 40000);
	churn(32768, 40000);
	churn(131072, 40000);
}

/* Small objects that came between the big ones and stay when those go. */
static void
test_small_blocks_do_not_pin_holes(void **state)
{
	struct kv_extent small[4096], big[512];
	struct kv_slab_stats st;
	unsigned n = 0, m = 0;
	struct pool p;

	(void)state;
	pool_init(&p, GIB);
	while (n < KV_ARRAY_LEN(big) &&
	       kv_slab_alloc(p.s, BIG, &big[n], 1) == 1) {
		n++;
		while (m < 8 * n && kv_slab_alloc(p.s, 1000, &small[m], 1) == 1)
			m++;
	}
	assert_true(n > 300 && m > 8 * 300);
	kv_slab_release(p.s, big, n);
	kv_slab_stats(p.s, &st);
	assert_true(st.hole_bytes_max >= GIB - 8 * MIB);
	kv_slab_release(p.s, small, m);
	pool_fini(&p);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static size_t
heap_bytes(void)
{
	struct mallinfo2 mi = mallinfo2();

	return mi.uordblks + mi.hblkhd;
}

static void
check_bookkeeping(uint64_t bytes, unsigned n)
{
	struct kv_slab *s = kv_slab_new(KV_SLAB_POOL_BYTES_MAX / 16);
	size_t before = heap_bytes();
	struct kv_extent ext;
	unsigned i;

	assert_non_null(s);
	assert_int_equal(kv_slab_add(s, 0, KV_SLAB_POOL_BYTES_MAX / 16), 0);
	for (i = 0; i < n; i++)
		assert_int_equal(kv_slab_alloc(s, bytes, &ext, 1), 1);
	assert_true(heap_bytes() - before <= 48 * (size_t)n);
	kv_slab_free(s);
}

static void
test_bookkeeping_is_small(void **state)
{
	(void)state;
	check_bookkeeping(256, 300000);
	check_bookkeeping(32768, 300000);
	check_bookkeeping(32769, 300000);
	check_bookkeeping(BIG, 20000);
}
#else
static void
test_bookkeeping_is_small(void **state)
{
	(void)state;
	skip(); /* this malloc does not tell */
}
#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_sizes_fill_the_pool),
		cmocka_unit_test(test_churn_makes_few_pieces),
		cmocka_unit_test(test_small_blocks_do_not_pin_holes),
		cmocka_unit_test(test_bookkeeping_is_small),
	};

	return cmocka_run_group_tests_name("slab mix", tests, NULL, NULL);
}

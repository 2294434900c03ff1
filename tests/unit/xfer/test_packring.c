/* Spans of memory that NICs know. What is registered is this test's own. */
#include "xfer/packring.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "nth_fault.h"
#include "test.h"

enum {
	MIB = 1 << 20,
	SPAN = KV_PACKRING_SPAN_BYTES,
};

struct kv_rdmaregion {
	char *at;
	size_t bytes;
};

static unsigned n_regions, n_tries;
static int refused; /* errno of rings of more than: */
static size_t refused_above;
static struct kv_packring ring;

struct kv_rdmaregion *
kv_rdmaregion_new(struct kv_rdma *r, void *addr, size_t bytes,
		  enum kv_rdmaregion_use use)
{
	struct kv_rdmaregion *g;

	assert_non_null(r);
	assert_int_equal(use, KV_RDMAREGION_NEAR);
	n_tries++;
	if (refused && bytes > refused_above) {
		errno = refused;
		return NULL;
	}
	g = malloc(sizeof(*g));
	assert_non_null(g);
	*g = (struct kv_rdmaregion){ addr, bytes };
	memset(addr, 0, bytes);
	n_regions++;
	return g;
}

void
kv_rdmaregion_free(struct kv_rdmaregion *g)
{
	if (!g)
		return;
	memset(g->at, 0, g->bytes); /* it is there still */
	n_regions--;
	free(g);
}

static int
setup(void **state)
{
	static int nothing;

	(void)state;
	n_regions = n_tries = 0;
	refused = 0;
	refused_above = 0;
	kv_packring_init(&ring, (struct kv_rdma *)(void *)&nothing,
			 KV_RDMAREGION_NEAR);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_packring_fini(&ring);
	assert_int_equal(n_regions, 0);
	return 0;
}

static void
begin(void)
{
	assert_int_equal(kv_packring_begin(&ring), SPAN);
}

static size_t
off(const struct kv_packring_span *s)
{
	return (size_t)(s->at - ring.base);
}

/* ---- spans ---- */

static void
it_is_made_when_it_is_needed(void **state)
{
	struct kv_packring_span s = { 0 };

	(void)state;
	assert_false(kv_packring_take(&ring, NULL, 1, &s));
	assert_null(s.from);
	kv_packring_give(&s);
	assert_int_equal(n_tries, 0);
	begin();
	begin();
	assert_int_equal(n_tries, 1);
	assert_true(kv_packring_take(&ring, NULL, 1, &s));
	assert_int_equal(off(&s), 0);
	assert_int_equal(s.bytes, 1);
	kv_packring_give(&s);
	kv_packring_give(&s);
}

static void
without_nics_there_is_none(void **state)
{
	struct kv_packring none;
	struct kv_packring_span s;

	(void)state;
	kv_packring_init(&none, NULL, KV_RDMAREGION_NEAR);
	assert_int_equal(kv_packring_begin(&none), 0);
	assert_false(kv_packring_take(&none, NULL, 1, &s));
	kv_packring_fini(&none);
}

static void
it_is_full_and_has_room_again(void **state)
{
	struct kv_packring_span s[KV_PACKRING_SPANS], one;
	unsigned i;

	(void)state;
	begin();
	for (i = 0; i < KV_PACKRING_SPANS; i++) {
		assert_true(kv_packring_take(&ring, NULL, SPAN, &s[i]));
		assert_int_equal(off(&s[i]), i * SPAN);
	}
	assert_false(kv_packring_take(&ring, NULL, 1, &one));
	/* In any order. */
	kv_packring_give(&s[2]);
	assert_false(kv_packring_take(&ring, NULL, SPAN + 1, &one));
	assert_true(kv_packring_take(&ring, NULL, SPAN, &one));
	assert_int_equal(off(&one), 2 * SPAN);
	kv_packring_give(&s[1]);
	kv_packring_give(&one);
	assert_true(kv_packring_take(&ring, NULL, 2 * SPAN, &one));
	assert_int_equal(off(&one), SPAN);
	kv_packring_give(&s[0]);
	kv_packring_give(&s[3]);
	kv_packring_give(&one);
	assert_true(kv_packring_take(&ring, NULL, KV_PACKRING_BYTES, &one));
	kv_packring_give(&one);
	assert_false(
		kv_packring_take(&ring, NULL, KV_PACKRING_BYTES + 1, &one));
}

/* What was given back last is taken last, as long as others are under way. */
static void
it_goes_round(void **state)
{
	struct kv_packring_span a, b, c;
	unsigned i;

	(void)state;
	begin();
	assert_true(kv_packring_take(&ring, NULL, 3 * MIB, &a));
	for (i = 1; i < 50; i++) {
		assert_true(kv_packring_take(&ring, NULL, 2 * MIB, &b));
		assert_true(kv_packring_take(&ring, NULL, MIB, &c));
		kv_packring_give(&a);
		assert_true(kv_packring_take(&ring, NULL, 3 * MIB, &a));
		assert_true(a.at + a.bytes <= b.at || a.at >= c.at + c.bytes);
		kv_packring_give(i % 2 ? &b : &c);
		kv_packring_give(i % 2 ? &c : &b);
	}
	kv_packring_give(&a);
	/* Alone each takes what the caches have. */
	for (i = 0; i < 3; i++) {
		assert_true(kv_packring_take(&ring, NULL, MIB, &a));
		assert_int_equal(off(&a), 0);
		kv_packring_give(&a);
	}
}

/* Copies between addresses that are a little apart in their pages are slow. */
static void
it_lies_in_its_page_as_others_do(void **state)
{
	static _Alignas(4096) char page[4096];
	struct kv_packring_span s[3], one;
	unsigned i;

	(void)state;
	begin();
	for (i = 0; i < 3; i++) {
		assert_true(kv_packring_take(&ring, page + 920, 100, &s[i]));
		assert_int_equal((uintptr_t)s[i].at % 4096, 920);
		assert_int_equal(off(&s[i]), 920 + i * 4096);
	}
	/* There is less room than the ring has bytes. */
	kv_packring_give(&s[0]);
	kv_packring_give(&s[1]);
	kv_packring_give(&s[2]);
	assert_false(
		kv_packring_take(&ring, page + 1, KV_PACKRING_BYTES, &one));
	assert_true(
		kv_packring_take(&ring, page + 1, KV_PACKRING_BYTES - 1, &one));
	assert_false(kv_packring_take(&ring, NULL, 2, &s[0]));
	kv_packring_cut(&one, 4096);
	assert_true(kv_packring_take(&ring, NULL, 2, &s[0]));
	assert_int_equal(off(&s[0]), 8192);
	kv_packring_give(&one);
	kv_packring_give(&s[0]);
}

/* ---- where it cannot be made ---- */

static void
a_low_limit_makes_it_small(void **state)
{
	struct kv_packring_span s;

	(void)state;
	refused = ENOMEM;
	refused_above = 2 * MIB;
	assert_int_equal(kv_packring_begin(&ring), 2 * MIB / KV_PACKRING_SPANS);
	assert_int_equal(n_tries, 3);
	assert_true(kv_packring_take(&ring, NULL, 2 * MIB, &s));
	kv_packring_give(&s);
}

static void
what_cannot_be_made_is_not_tried_each_time(void **state)
{
	struct kv_packring_span s;

	(void)state;
	refused = ENOMEM;
	assert_int_equal(kv_packring_begin(&ring), -ENOMEM);
	assert_int_equal(n_tries, 4); /* 8, 4, 2, 1 MiB */
	assert_int_equal(kv_packring_begin(&ring), 0);
	assert_int_equal(n_tries, 4);
	assert_false(kv_packring_take(&ring, NULL, 1, &s));
	refused = 0;
	assert_int_equal(kv_packring_begin(&ring), 0);
	ring.again_at = 1; /* some time later */
	begin();
}

static void
other_trouble_is_no_lack_of_memory(void **state)
{
	(void)state;
	refused = EIO;
	assert_int_equal(kv_packring_begin(&ring), -EIO);
	assert_int_equal(n_tries, 1);
}

/* ---- many threads ---- */

enum {
	THREADS = 4,
	TURNS = 3000,
	HELD = 6,
};

/* Each keeps some, and finds in them what it wrote. */
static void *
work(void *arg)
{
	unsigned char me = (unsigned char)(uintptr_t)arg;
	struct kv_packring_span s[HELD] = { 0 };
	struct kv_rng rng;
	unsigned i, k;

	kv_rng_seed(&rng, me);
	for (i = 0; i < TURNS; i++) {
		k = i % HELD;
		if (kv_packring_begin(&ring) <= 0)
			continue;
		if (s[k].from) {
			for (size_t at = 0; at < s[k].bytes; at += 997)
				if (s[k].at[at] != me)
					abort();
			kv_packring_give(&s[k]);
		}
		if (kv_packring_take(&ring, NULL,
				     1 + kv_rng_below(&rng, 600000), &s[k]))
			for (size_t at = 0; at < s[k].bytes; at += 997)
				s[k].at[at] = me;
	}
	for (k = 0; k < HELD; k++)
		kv_packring_give(&s[k]);
	return NULL;
}

static void
threads_share_it(void **state)
{
	pthread_t t[THREADS];
	unsigned i;

	(void)state;
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, work, (void *)(uintptr_t)(i + 1));
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(n_tries, 1);
	assert_true(kv_list_is_empty(&ring.spans));
}

/* ---- no memory ---- */

/* 0: it was there at the first try; 1: at a later one, and smaller. */
static int
make(void)
{
	long max;

	setup(NULL);
	max = kv_packring_begin(&ring);
	kv_packring_fini(&ring);
	if (n_regions != 0)
		return 2;
	return max == SPAN ? 0 : max == SPAN / 2 ? 1 : 3;
}

static void
memory_runs_out(void **state)
{
	(void)state;
	assert_int_equal(nth_fault_run(1, make), 1);
	assert_int_equal(nth_fault_run(2, make), 0);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		nth_fault_test(memory_runs_out),
		TEST(it_is_made_when_it_is_needed),
		TEST(without_nics_there_is_none),
		TEST(it_is_full_and_has_room_again),
		TEST(it_goes_round),
		TEST(it_lies_in_its_page_as_others_do),
		TEST(a_low_limit_makes_it_small),
		TEST(what_cannot_be_made_is_not_tried_each_time),
		TEST(other_trouble_is_no_lack_of_memory),
		TEST(threads_share_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

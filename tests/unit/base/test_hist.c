#include "base/hist.h"

#include <math.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/rng.h"

#include "test.h"

enum {
	N = 100000
};

static const double percents[] = { 0, 1, 25, 50, 90, 99, 99.9, 99.99, 100 };

static int
compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Latencies from a nanosecond to minutes, evenly by order of magnitude. */
static uint64_t
draw(struct kv_rng *r)
{
	return kv_rng_u64(r) >> (24 + kv_rng_below(r, 40));
}

static void
near(uint64_t got, uint64_t want)
{
	uint64_t off = got > want ? got - want : want - got;

	if (off > want / 125)
		fail_msg("%ju is not within 0.8%% of %ju", (uintmax_t)got,
			 (uintmax_t)want);
}

static void
percentiles_are_within_the_bound(void **state)
{
	static uint64_t v[N];
	static struct kv_hist h;
	struct kv_rng r;
	size_t i, rank;

	(void)state;
	kv_rng_seed(&r, 3);
	kv_hist_init(&h);
	for (i = 0; i < N; i++) {
		v[i] = draw(&r);
		kv_hist_add(&h, v[i]);
	}
	qsort(v, N, sizeof(v[0]), compare);
	for (i = 0; i < KV_ARRAY_LEN(percents); i++) {
		rank = (size_t)(percents[i] / 100 * N + 0.999999);
		near(kv_hist_percentile(&h, percents[i]),
		     v[rank > 0 ? rank - 1 : 0]);
	}
	assert_int_equal(kv_hist_count(&h), N);
	assert_int_equal(kv_hist_max(&h), v[N - 1]);
	assert_int_equal(kv_hist_percentile(&h, 100), v[N - 1]);
}

/* One value alone is its own every percentile, whatever its size. */
static void
every_magnitude_is_within_the_bound(void **state)
{
	static struct kv_hist h;
	uint64_t v;
	int bit, k;

	(void)state;
	for (bit = 0; bit < 64; bit++) {
		for (k = -1; k <= 1; k++) {
			v = (1ull << bit) + (uint64_t)(int64_t)k;
			kv_hist_init(&h);
			kv_hist_add(&h, v);
			kv_hist_add(&h, 0);
			kv_hist_add(&h, UINT64_MAX);
			near(kv_hist_percentile(&h, 50), v);
		}
	}
	assert_int_equal(kv_hist_percentile(&h, 0), 0);
	assert_int_equal(kv_hist_percentile(&h, 100), UINT64_MAX);
}

static void
small_values_are_exact(void **state)
{
	static struct kv_hist h;
	uint64_t v;

	(void)state;
	kv_hist_init(&h);
	for (v = 1; v <= 100; v++)
		kv_hist_add(&h, v);
	for (v = 1; v <= 100; v++)
		assert_int_equal(kv_hist_percentile(&h, (double)v), v);
	assert_true(fabs(kv_hist_mean(&h) - 50.5) < 1e-9);
}

static void
merged_is_as_if_added_to_one(void **state)
{
	static struct kv_hist a, b, all;
	struct kv_rng r;
	uint64_t v;
	size_t i;

	(void)state;
	kv_rng_seed(&r, 4);
	kv_hist_init(&a);
	kv_hist_init(&b);
	kv_hist_init(&all);
	for (i = 0; i < 10000; i++) {
		v = draw(&r);
		kv_hist_add(i % 3 ? &a : &b, v);
		kv_hist_add(&all, v);
	}
	kv_hist_merge(&a, &b);
	assert_memory_equal(&a, &all, sizeof(a));
	kv_hist_init(&b);
	kv_hist_merge(&a, &b);
	assert_memory_equal(&a, &all, sizeof(a));
}

static void
empty_gives_zero(void **state)
{
	static struct kv_hist h;

	(void)state;
	kv_hist_init(&h);
	assert_int_equal(kv_hist_percentile(&h, 50), 0);
	assert_int_equal(kv_hist_max(&h), 0);
	assert_int_equal(kv_hist_count(&h), 0);
	assert_true(kv_hist_mean(&h) == 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_are_within_the_bound),
		cmocka_unit_test(every_magnitude_is_within_the_bound),
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(merged_is_as_if_added_to_one),
		cmocka_unit_test(empty_gives_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "base/rng.h"

#include <string.h>

#include "test.h"

/* Same seed, same numbers, on every machine and in every release. */
static void
known_sequence(void **state)
{
	/* xoshiro256** from splitmix64(42), by the authors' public code */
	static const uint64_t want[] = {
		0x15780b2e0c2ec716,
		0x6104d9866d113a7e,
		0xae17533239e499a1,
		0xecb8ad4703b360a1,
	};
	struct kv_rng r;
	size_t i;

	(void)state;
	kv_rng_seed(&r, 42);
	for (i = 0; i < KV_ARRAY_LEN(want); i++)
		assert_int_equal(kv_rng_u64(&r), want[i]);
}

static void
below_is_uniform(void **state)
{
	unsigned count[7] = { 0 }, i;
	struct kv_rng r;

	(void)state;
	kv_rng_seed(&r, 7);
	for (i = 0; i < 700000; i++)
		count[kv_rng_below(&r, 7)]++;
	/* 100000 +- 5 standard deviations */
	for (i = 0; i < 7; i++)
		assert_in_range(count[i], 98500, 101500);
	for (i = 0; i < 100; i++)
		assert_int_equal(kv_rng_below(&r, 1), 0);
}

/*
 * Modulo would give the low third of the values half of the draws, plain
 * multiplication the multiples of three.
 */
static void
below_has_no_bias_for_large_bounds(void **state)
{
	const uint64_t n = 3ull << 62;
	unsigned low = 0, thirds = 0, i;
	uint64_t v;
	struct kv_rng r;

	(void)state;
	kv_rng_seed(&r, 8);
	for (i = 0; i < 90000; i++) {
		v = kv_rng_below(&r, n);
		low += v < 1ull << 62;
		thirds += v % 3 == 0;
	}
	assert_in_range(low, 29200, 30800);
	assert_in_range(thirds, 29200, 30800);
}

static void
bytes_fill_exactly(void **state)
{
	uint8_t a[32], b[32];
	struct kv_rng r;
	size_t n, i;
	int changed;

	(void)state;
	for (n = 0; n <= 24; n++) {
		changed = 0;
		for (i = 0; i < 40; i++) {
			memset(a, 0, sizeof(a));
			kv_rng_seed(&r, i);
			kv_rng_bytes(&r, a, n);
			if (n > 0 && a[n - 1])
				changed = 1;
			memset(b, 0, sizeof(b));
			assert_memory_equal(a + n, b, sizeof(a) - n);
		}
		assert_int_equal(changed, n > 0);
	}
}

static void
os_bytes_differ(void **state)
{
	static uint8_t a[300], b[300];

	(void)state;
	assert_int_equal(kv_rng_os(a, sizeof(a)), 0);
	assert_int_equal(kv_rng_os(b, sizeof(b)), 0);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_not_equal(a + 284, b + 284, 16);
	assert_int_equal(kv_rng_os(NULL, 0), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_sequence),
		cmocka_unit_test(below_is_uniform),
		cmocka_unit_test(below_has_no_bias_for_large_bounds),
		cmocka_unit_test(bytes_fill_exactly),
		cmocka_unit_test(os_bytes_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "base/sample.h"

#include <string.h>

#include "test.h"

#define N 1000

static void
same_seed(void **state)
{
	uint8_t a[N], b[N + 1];

	(void)state;
	for (size_t n = 0; n < 40; n++) {
		memset(b, 0x77, sizeof(b));
		kv_sample_fill(b, n, 5);
		assert_int_equal(b[n], 0x77);
		assert_int_equal(kv_sample_check(b, n, 5), n);
	}
	kv_sample_fill(a, N, 42);
	kv_sample_fill(b + 1, N, 42);
	assert_memory_equal(a, b + 1, N);
	assert_int_equal(kv_sample_check(b + 1, N, 42), N);
}

/* The bytes are part of a protocol: both sides may be of different builds. */
static void
same_bytes(void **state)
{
	static const uint8_t want[] = { 0xaf, 0xcd, 0x1d, 0x7b, 0x39,
					0xa8, 0x20, 0xe2, 0xf4, 0x65 };
	uint8_t a[sizeof(want)];

	(void)state;
	kv_sample_fill(a, sizeof(a), 0);
	assert_memory_equal(a, want, sizeof(want));
}

static void
each_byte(void **state)
{
	uint8_t a[N];

	(void)state;
	kv_sample_fill(a, N, 7);
	for (size_t i = 0; i < N; i++) {
		a[i] ^= 1;
		assert_int_equal(kv_sample_check(a, N, 7), i);
		assert_int_equal(kv_sample_check(a, i, 7), i);
		a[i] ^= 1;
	}
}

static void
others(void **state)
{
	uint8_t a[N] = { 0 };

	(void)state;
	assert_true(kv_sample_check(a, N, 7) < 8);
	kv_sample_fill(a, N, 7);
	assert_true(kv_sample_check(a, N, 8) < 8);
	assert_true(kv_sample_check(a + 8, N - 8, 7) < 8);
	memmove(a + 496, a + 504, 8);
	assert_in_range(kv_sample_check(a, N, 7), 496, 503);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_seed),
		cmocka_unit_test(same_bytes),
		cmocka_unit_test(each_byte),
		cmocka_unit_test(others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

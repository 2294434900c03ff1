#include "base/num.h"

#include "test.h"

static void
overflow_is_true(void **state)
{
	uint64_t v;

	(void)state;
	assert_false(kv_add_u64(UINT64_MAX - 1, 1, &v));
	assert_int_equal(v, UINT64_MAX);
	assert_true(kv_add_u64(UINT64_MAX, 1, &v));
	assert_false(kv_mul_u64(1ull << 32, (1ull << 32) - 1, &v));
	assert_int_equal(v, 0xffffffff00000000);
	assert_true(kv_mul_u64(1ull << 32, 1ull << 32, &v));
}

static void
rounding(void **state)
{
	(void)state;
	assert_int_equal(kv_round_up_u64(0, 256), 0);
	assert_int_equal(kv_round_up_u64(1, 256), 256);
	assert_int_equal(kv_round_up_u64(256, 256), 256);
	assert_int_equal(kv_round_up_u64(UINT64_MAX - 255, 256),
			 UINT64_MAX - 255);
	assert_int_equal(kv_round_down_u64(511, 256), 256);
	assert_int_equal(kv_div_up_u64(0, 3), 0);
	assert_int_equal(kv_div_up_u64(9, 3), 3);
	assert_int_equal(kv_div_up_u64(10, 3), 4);
	assert_int_equal(kv_div_up_u64(UINT64_MAX, 2), 1ull << 63);
	assert_true(kv_is_pow2_u64(1) && kv_is_pow2_u64(1ull << 63));
	assert_false(kv_is_pow2_u64(0) || kv_is_pow2_u64(6));
}

static void
min_and_max(void **state)
{
	(void)state;
	assert_int_equal(kv_min_u64(1, UINT64_MAX), 1);
	assert_int_equal(kv_max_u64(1, UINT64_MAX), UINT64_MAX);
	assert_int_equal(kv_min_size(3, 2), 2);
	assert_int_equal(kv_max_size(3, 2), 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overflow_is_true),
		cmocka_unit_test(rounding),
		cmocka_unit_test(min_and_max),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

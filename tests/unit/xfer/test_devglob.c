#include "xfer/devglob.h"

#include <string.h>

#include "test.h"

static void
no_list_and_auto_let_all_in(void **state)
{
	(void)state;
	assert_true(kv_devglob_has("", "mlx5_0"));
	assert_true(kv_devglob_has(" , ", "mlx5_0"));
	assert_true(kv_devglob_has("auto", "mlx5_0"));
	assert_true(kv_devglob_has("rxe0,auto", "mlx5_0"));
	assert_false(kv_devglob_has("aut", "mlx5_0"));
	assert_false(kv_devglob_has("autos", "mlx5_0"));
}

static void
names_and_patterns_are_told_apart(void **state)
{
	(void)state;
	assert_true(kv_devglob_has("mlx5_0", "mlx5_0"));
	assert_true(kv_devglob_has("rxe0, mlx5_0", "mlx5_0"));
	assert_true(kv_devglob_has("rxe0,mlx5_[0-3]", "mlx5_2"));
	assert_true(kv_devglob_has("mlx5_?", "mlx5_2"));
	assert_true(kv_devglob_has("*", "mlx5_2"));
	assert_false(kv_devglob_has("mlx5_1", "mlx5_10"));
	assert_false(kv_devglob_has("mlx5_10", "mlx5_1"));
	assert_false(kv_devglob_has("MLX5_0", "mlx5_0"));
	assert_false(kv_devglob_has("mlx5_[0-3],rxe*", "mlx5_4"));
}

static void
a_pattern_too_long_means_nothing(void **state)
{
	char list[400];

	(void)state;
	memset(list, '*', sizeof(list) - 1);
	list[sizeof(list) - 1] = '\0';
	assert_false(kv_devglob_has(list, "mlx5_0"));
	list[255] = '\0';
	assert_true(kv_devglob_has(list, "mlx5_0"));
}

static void
patterns_come_one_by_one(void **state)
{
	const char *at = ",a, b*\t,", *glob;
	size_t len;

	(void)state;
	glob = kv_devglob_next(&at, &len);
	assert_int_equal(len, 1);
	assert_memory_equal(glob, "a", 1);
	glob = kv_devglob_next(&at, &len);
	assert_int_equal(len, 2);
	assert_memory_equal(glob, "b*", 2);
	assert_true(kv_devglob_is(glob, len, "bc"));
	assert_false(kv_devglob_is(glob, len, "a"));
	assert_null(kv_devglob_next(&at, &len));
	assert_null(kv_devglob_next(&at, &len));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_list_and_auto_let_all_in),
		cmocka_unit_test(names_and_patterns_are_told_apart),
		cmocka_unit_test(a_pattern_too_long_means_nothing),
		cmocka_unit_test(patterns_come_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

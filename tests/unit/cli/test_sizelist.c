#include "cli/sizelist.h"

#include <errno.h>

#include "test.h"

static const struct kv_sizelist_rule rule = { 1, 1 << 20, 5, false };

static void
lists(void **state)
{
	uint64_t v[5] = { 0 };
	char err[100];

	(void)state;
	assert_int_equal(kv_sizelist_parse("7", &rule, v, err, sizeof(err)), 1);
	assert_int_equal(v[0], 7);
	assert_int_equal(
		kv_sizelist_parse("64k, 4,1MB,1", &rule, v, err, sizeof(err)),
		4);
	assert_int_equal(v[0], 65536);
	assert_int_equal(v[1], 4);
	assert_int_equal(v[2], 1 << 20);
	assert_int_equal(v[3], 1);
}

static void
ranges(void **state)
{
	static const struct kv_sizelist_rule wide = { 1, UINT64_MAX, 64,
						      false };
	uint64_t v[64] = { 0 };
	char err[100];

	(void)state;
	assert_int_equal(
		kv_sizelist_parse("4..300,5", &rule, v, err, sizeof(err)), 5);
	assert_int_equal(v[0], 4);
	assert_int_equal(v[3], 256);
	assert_int_equal(v[4], 5);
	assert_int_equal(kv_sizelist_parse("8..8", &rule, v, err, sizeof(err)),
			 1);
	assert_int_equal(v[0], 8);
	/* Up to where powers of 4 end. */
	assert_int_equal(kv_sizelist_parse("4..18446744073709551615", &wide, v,
					   err, sizeof(err)),
			 31);
	assert_true(v[30] == 1ull << 62);
}

static void
refuses(void **state)
{
	static const struct {
		const char *text;
		int rc;
		const char *why;
	} bad[] = {
		{ "", -EINVAL, "'' is no size" },
		{ "4,", -EINVAL, "'' is no size" },
		{ ",4", -EINVAL, "'' is no size" },
		{ "4 5", -EINVAL, "'4 5' is no size" },
		{ "4,x", -EINVAL, "'x' is no size" },
		{ "-4", -EINVAL, "'-4' is no size" },
		{ "0", -ERANGE, "'0' is not between 1 B and 1.0 MiB" },
		{ "2MB", -ERANGE, "'2MB' is not between 1 B and 1.0 MiB" },
		{ "99999999999999999999", -ERANGE,
		  "'99999999999999999999' is not between 1 B and 1.0 MiB" },
		{ "1,2,3,4,5,6", -E2BIG, "more than 5 sizes" },
		{ "1..1MB", -E2BIG, "more than 5 sizes" },
		{ "8..4", -EINVAL, "'8..4' is no range" },
		{ "..4", -EINVAL, "'' is no size" },
		{ "4..", -EINVAL, "'' is no size" },
		{ "4..8..16", -EINVAL, "'8..16' is no size" },
	};
	uint64_t v[5] = { 77 };
	char err[100];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(kv_sizelist_parse(bad[i].text, &rule, v, err,
						   sizeof(err)),
				 bad[i].rc);
		assert_string_equal(err, bad[i].why);
	}
	assert_int_equal(v[0], 77);
	/* A word that is longer than any size. */
	assert_int_equal(kv_sizelist_parse("000000000000000000000000000000000"
					   "00000000000000000000000000000001",
					   &rule, v, err, sizeof(err)),
			 -EINVAL);
}

static void
counts_are_no_bytes(void **state)
{
	const struct kv_sizelist_rule counts = { 1, 64, 2, true };
	uint64_t v[2];
	char err[100];

	(void)state;
	assert_int_equal(kv_sizelist_parse("65", &counts, v, err, sizeof(err)),
			 -ERANGE);
	assert_string_equal(err, "'65' is not between 1 and 64");
	assert_int_equal(kv_sizelist_parse("x", &counts, v, err, sizeof(err)),
			 -EINVAL);
	assert_string_equal(err, "'x' is no number");
	assert_int_equal(
		kv_sizelist_parse("1,2,3", &counts, v, err, sizeof(err)),
		-E2BIG);
	assert_string_equal(err, "more than 2 numbers");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),
		cmocka_unit_test(ranges),
		cmocka_unit_test(refuses),
		cmocka_unit_test(counts_are_no_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

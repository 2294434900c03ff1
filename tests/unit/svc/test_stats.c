#include "svc/stats.h"

#include <ctype.h>
#include <string.h>

#include "test.h"

static void
every_counter_has_a_name_and_a_text(void **state)
{
	const char *p;
	unsigned i, k;

	(void)state;
	for (i = 0; i < KV_STATS; i++) {
		assert_true(strlen(kv_stats_text(i)) > 5);
		for (p = kv_stats_name(i); *p; p++)
			assert_true(islower((unsigned char)*p) || *p == '_');
		for (k = 0; k < i; k++)
			assert_string_not_equal(kv_stats_name(i),
						kv_stats_name(k));
		assert_non_null(kv_stats_unit(i));
	}
	assert_string_equal(kv_stats_name(KV_STAT_PUTS_OK), "puts_ok");
	assert_string_equal(kv_stats_unit(KV_STAT_GET_BYTES), "bytes");
}

static void
sets_add_up(void **state)
{
	struct kv_stats_set a = { 0 }, b = { 0 }, sum = { 0 };

	(void)state;
	kv_stats_add(&a, KV_STAT_PUTS, 3);
	kv_stats_add(&a, KV_STAT_PUTS, 4);
	kv_stats_add(&b, KV_STAT_PUTS, 5);
	kv_stats_add(&b, KV_STAT_GETS, 1);
	kv_stats_sum(&sum, &a);
	kv_stats_sum(&sum, &b);
	assert_int_equal(sum.v[KV_STAT_PUTS], 12);
	assert_int_equal(sum.v[KV_STAT_GETS], 1);
	assert_int_equal(sum.v[KV_STAT_REMOVED], 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_counter_has_a_name_and_a_text),
		cmocka_unit_test(sets_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "cli/seen.h"

#include "test.h"

#include <stdio.h>
#include <string.h>

static void
test_each_is_new_once(void **state)
{
	struct kv_seen s = { 0 };
	char text[16];

	(void)state;
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 50000; i++) {
			size_t n =
				(size_t)snprintf(text, sizeof(text), "k%u", i);

			assert_int_equal(kv_seen_add(&s, text, n), round == 0);
		}
	assert_int_equal(s.n, 50000);
	kv_seen_fini(&s);
	kv_seen_fini(&s);
}

static void
test_lengths_and_bytes_count(void **state)
{
	struct kv_seen s = { 0 };
	static const char zeros[64];

	(void)state;
	for (size_t n = 0; n <= sizeof(zeros); n++)
		assert_int_equal(kv_seen_add(&s, zeros, n), 1);
	assert_int_equal(kv_seen_add(&s, zeros, 0), 0);
	assert_int_equal(kv_seen_add(&s, "a", 1), 1);
	assert_int_equal(kv_seen_add(&s, "A", 1), 1);
	assert_int_equal(kv_seen_add(&s, "a", 1), 0);
	kv_seen_fini(&s);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_is_new_once),
		cmocka_unit_test(test_lengths_and_bytes_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

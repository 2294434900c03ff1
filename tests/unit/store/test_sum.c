#include "store/sum.h"

#include "test.h"

static void
pieces_and_whole_are_the_same(void **state)
{
	static unsigned char bytes[100000];
	struct kv_sum *s = kv_sum_new();
	size_t i;

	(void)state;
	assert_non_null(s);
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7 + i / 256);
	kv_sum_add(s, "before", 6);
	kv_sum_reset(s);
	kv_sum_add(s, bytes, 1);
	kv_sum_add(s, bytes + 1, 4095);
	kv_sum_add(s, bytes + 4096, 0);
	kv_sum_add(s, bytes + 4096, sizeof(bytes) - 4096);
	assert_int_equal(kv_sum_value(s), kv_sum_of(bytes, sizeof(bytes)));
	kv_sum_free(s);
}

/* XXH3-64 of no bytes, as its specification gives it. */
static void
empty_value(void **state)
{
	struct kv_sum *s = kv_sum_new();

	(void)state;
	assert_non_null(s);
	assert_true(kv_sum_value(s) == 0x2d06800538d394c2ull);
	assert_true(kv_sum_of("", 0) == 0x2d06800538d394c2ull);
	kv_sum_free(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_and_whole_are_the_same),
		cmocka_unit_test(empty_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

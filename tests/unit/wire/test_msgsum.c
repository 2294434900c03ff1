#include "wire/msgsum.h"

#include <stdlib.h>
#include <xxhash.h>

#include "test.h"

enum {
	MAX = 5000, /* several stripes and blocks of the hash, and odd ends */
};

/* A peer may have computed it by other registers. */
static void
is_the_same(void **state)
{
	uint8_t *p = malloc(MAX + 3);
	size_t n, i;

	(void)state;
	assert_non_null(p);
	for (i = 0; i < MAX + 3; i++)
		p[i] = (uint8_t)(i * 167 >> 3);
	for (n = 0; n <= MAX; n++)
		for (i = 0; i < 3; i++)
			assert_int_equal(
				kv_msgsum_wide(p + i, n, n << 40 | i),
				XXH3_64bits_withSeed(p + i, n, n << 40 | i));
	free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "mem/copy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "test.h"

#define ROOM  (8 * KV_COPY_STREAM_BYTES)
#define GUARD 0xa5

static void
check_copy(struct kv_rng *rng, size_t dst_off, size_t src_off, size_t n)
{
	static unsigned char src[ROOM + 256], dst[ROOM + 256];
	size_t i;

	memset(dst, GUARD, sizeof(dst));
	kv_rng_bytes(rng, src, sizeof(src));
	kv_copy(dst + dst_off, src + src_off, n);
	assert_memory_equal(dst + dst_off, src + src_off, n);
	for (i = 0; i < dst_off; i++)
		assert_int_equal(dst[i], GUARD);
	for (i = dst_off + n; i < sizeof(dst); i++)
		assert_int_equal(dst[i], GUARD);
}

static void
test_every_alignment(void **state)
{
	struct kv_rng rng;
	size_t i;

	(void)state;
	kv_rng_seed(&rng, 1);
	for (i = 0; i < 65; i++) {
		check_copy(&rng, i, 0, KV_COPY_STREAM_BYTES);
		check_copy(&rng, 0, i, KV_COPY_STREAM_BYTES + i);
	}
}

static void
test_sizes_at_the_edges(void **state)
{
	static const size_t sizes[] = { 0,     1,       63,    64,     4096,
					65535, 65536,   65537, 65599,  65600,
					98303, 98304,   98305, 131072, 131136,
					ROOM,  ROOM - 1 };
	struct kv_rng rng;
	size_t i;

	(void)state;
	kv_rng_seed(&rng, 2);
	for (i = 0; i < KV_ARRAY_LEN(sizes); i++)
		check_copy(&rng, 0, 0, sizes[i]);
}

static void
test_random(void **state)
{
	struct kv_rng rng;
	int i;

	(void)state;
	kv_rng_seed(&rng, 3);
	for (i = 0; i < 200; i++)
		check_copy(&rng, kv_rng_below(&rng, 200),
			   kv_rng_below(&rng, 200), kv_rng_below(&rng, ROOM));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_alignment),
		cmocka_unit_test(test_sizes_at_the_edges),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}

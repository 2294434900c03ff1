#include "base/le.h"

#include "test.h"

/* What a message looks like: no padding whatever the order. */
struct msg {
	uint8_t a;
	struct kv_le64 b;
	struct kv_le16 c;
	struct kv_le32 d;
};
_Static_assert(sizeof(struct msg) == 15, "no padding");

static void
bytes_lie_in_little_endian_order(void **state)
{
	static const uint8_t wire[15] = { 7, 8, 7, 6, 5, 4, 3, 2,
					  1, 2, 1, 4, 3, 2, 1 };
	struct msg m = {
		.a = 7,
		.b = kv_le64(0x0102030405060708),
		.c = kv_le16(0x0102),
		.d = kv_le32(0x01020304),
	};

	(void)state;
	assert_memory_equal(&m, wire, sizeof(wire));
	assert_int_equal(kv_get64(m.b), 0x0102030405060708);
	assert_int_equal(kv_get16(m.c), 0x0102);
	assert_int_equal(kv_get32(m.d), 0x01020304);
}

static void
all_bits_survive(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 64; i++)
		assert_int_equal(kv_get64(kv_le64(1ull << i)), 1ull << i);
	for (i = 0; i < 32; i++)
		assert_int_equal(kv_get32(kv_le32(1u << i)), 1u << i);
	for (i = 0; i < 16; i++)
		assert_int_equal(kv_get16(kv_le16((uint16_t)(1u << i))),
				 1u << i);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_lie_in_little_endian_order),
		cmocka_unit_test(all_bits_survive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

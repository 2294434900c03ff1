#include "store/key.h"

#include <string.h>

#include "base/limits.h"
#include "test.h"

/* Programs of all versions must agree, so these never change. The values come
 * from another implementation (Python's xxhash 4.1.0). */
static void
test_known_values(void **state)
{
	char key[KV_KEY_BYTES_MAX];
	struct kv_hash h;

	(void)state;
	assert_int_equal(kv_key_seed("abc", 3), 0x78af5f94892f3950);
	assert_int_equal(kv_key_seed("default", 7), 0x6c5b964d9473ac1a);
	h = kv_key_hash(7, "abc", 3);
	assert_int_equal(h.hi, 0x8a3c1b87ceb230ee);
	assert_int_equal(h.lo, 0x48ff56f569e39912);
	memset(key, 'x', sizeof(key));
	h = kv_key_hash(7, key, sizeof(key));
	assert_int_equal(h.hi, 0x54f13d3a137207f8);
	assert_int_equal(h.lo, 0x85342882bbe00feb);
}

static void
test_default_tenant_has_two_names(void **state)
{
	(void)state;
	assert_int_equal(kv_key_seed("", 0), kv_key_seed("default", 7));
	assert_int_equal(kv_key_seed(NULL, 0), kv_key_seed("default", 7));
	assert_int_not_equal(kv_key_seed("defaul", 6),
			     kv_key_seed("default", 7));
}

static void
test_hash_depends_on_all(void **state)
{
	char key[KV_KEY_BYTES_MAX];
	struct kv_hash full, h;
	size_t i;

	(void)state;
	memset(key, 'k', sizeof(key));
	full = kv_key_hash(1, key, sizeof(key));
	assert_true(
		kv_key_hash_is_equal(full, kv_key_hash(1, key, sizeof(key))));
	assert_false(
		kv_key_hash_is_equal(full, kv_key_hash(2, key, sizeof(key))));
	for (i = 0; i < sizeof(key); i++) {
		h = kv_key_hash(1, key, i);
		assert_false(kv_key_hash_is_equal(full, h));
		key[i] ^= 1;
		h = kv_key_hash(1, key, sizeof(key));
		assert_false(kv_key_hash_is_equal(full, h));
		key[i] ^= 1;
	}
}

static void
test_equality_looks_at_both_halves(void **state)
{
	struct kv_hash h = { 1, 2 };

	(void)state;
	assert_true(kv_key_hash_is_equal(h, (struct kv_hash){ 1, 2 }));
	assert_false(kv_key_hash_is_equal(h, (struct kv_hash){ 1, 3 }));
	assert_false(kv_key_hash_is_equal(h, (struct kv_hash){ 3, 2 }));
}

static void
test_wire_form(void **state)
{
	static const uint8_t wire[16] = { 8, 7, 6, 5, 4, 3, 2, 1,
					  9, 0, 0, 0, 0, 0, 0, 0x80 };
	struct kv_hash h = { 0x0102030405060708, 0x8000000000000009 };
	struct kv_id id = kv_key_hash_build(h);

	(void)state;
	assert_memory_equal(id.b, wire, sizeof(wire));
	assert_true(kv_key_hash_is_equal(kv_key_hash_parse(id), h));
	assert_true(kv_id_is_equal(id, kv_key_hash_build(h)));
	assert_false(kv_id_is_zero(id));
	assert_true(kv_id_is_zero(kv_key_hash_build((struct kv_hash){ 0 })));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_default_tenant_has_two_names),
		cmocka_unit_test(test_hash_depends_on_all),
		cmocka_unit_test(test_equality_looks_at_both_halves),
		cmocka_unit_test(test_wire_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

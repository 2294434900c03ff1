#include "store/tenants.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "test.h"

static void
test_names(void **state)
{
	struct kv_tenants t;
	size_t len;

	(void)state;
	assert_int_equal(kv_tenants_init(&t), 0);
	assert_int_equal(kv_tenants_find(&t, "", 0), 0);
	assert_int_equal(kv_tenants_add(&t, "default", 7), 0);
	assert_int_equal(kv_tenants_find(&t, "x", 1), -ENOENT);
	assert_int_equal(kv_tenants_add(&t, "x", 1), 1);
	assert_int_equal(kv_tenants_add(&t, "x", 1), 1);
	assert_int_equal(kv_tenants_find(&t, "x", 1), 1);
	assert_int_equal(kv_tenants_find(&t, "xy", 2), -ENOENT);
	assert_string_equal(kv_tenants_name(&t, 0, &len), "default");
	assert_int_equal(len, 7);
	assert_string_equal(kv_tenants_name(&t, 1, &len), "x");
	kv_tenants_fini(&t);
}

static void
test_as_many_as_there_may_be(void **state)
{
	char name[KV_TENANT_BYTES_MAX];
	struct kv_tenants t;
	unsigned i;
	size_t len;

	(void)state;
	assert_int_equal(kv_tenants_init(&t), 0);
	memset(name, 'n', sizeof(name));
	for (i = 1; i < 65535; i++) {
		memcpy(name, &i, sizeof(i));
		assert_int_equal(kv_tenants_add(&t, name, sizeof(name)), i);
	}
	assert_int_equal(kv_tenants_add(&t, "one more", 8), -ENOSPC);
	assert_int_equal(kv_tenants_find(&t, name, sizeof(name)), 65534);
	assert_memory_equal(kv_tenants_name(&t, 65534, &len), name,
			    sizeof(name));
	assert_int_equal(len, sizeof(name));
	kv_tenants_fini(&t);
}

static void
test_epochs(void **state)
{
	struct kv_tenants t;

	(void)state;
	assert_int_equal(kv_tenants_init(&t), 0);
	assert_int_equal(kv_tenants_add(&t, "x", 1), 1);
	kv_tenants_outdate(&t, 1);
	kv_tenants_outdate(&t, 1);
	assert_int_equal(kv_tenants_epoch(&t, 0), 0);
	assert_int_equal(kv_tenants_epoch(&t, 1), 2);
	kv_tenants_fini(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_as_many_as_there_may_be),
		cmocka_unit_test(test_epochs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

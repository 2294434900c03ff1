#include "base/bytes.h"

#include <errno.h>
#include <string.h>

#include "nth_fault.h"
#include "test.h"

static void
grows_and_keeps_content(void **state)
{
	struct kv_bytes b;
	uint32_t i, v;

	(void)state;
	kv_bytes_init(&b);
	for (i = 0; i < 100000; i++)
		assert_int_equal(kv_bytes_append(&b, &i, sizeof(i)), 0);
	assert_int_equal(b.len, 400000);
	assert_true(b.cap >= b.len);
	for (i = 0; i < 100000; i++) {
		memcpy(&v, b.data + i * sizeof(v), sizeof(v));
		assert_int_equal(v, i);
	}
	kv_bytes_fini(&b);
	assert_null(b.data);
	assert_int_equal(b.len, 0);
}

static void
reserve_does_not_count(void **state)
{
	struct kv_bytes b = { 0 };
	char *to;

	(void)state;
	to = kv_bytes_reserve(&b, 0);
	assert_non_null(to);
	to = kv_bytes_reserve(&b, 1000);
	assert_non_null(to);
	memset(to, 'x', 1000);
	assert_int_equal(b.len, 0);
	b.len += 1000;
	assert_ptr_equal(kv_bytes_reserve(&b, 0), b.data + 1000);
	kv_bytes_reset(&b);
	assert_int_equal(b.len, 0);
	assert_true(b.cap >= 1000);
	assert_int_equal(kv_bytes_append(&b, NULL, 0), 0);
	kv_bytes_fini(&b);
}

static void
printf_appends_text(void **state)
{
	struct kv_bytes b = { 0 };
	int i;

	(void)state;
	assert_int_equal(kv_bytes_printf(&b, "%s=%d", "key", 7), 0);
	assert_int_equal(kv_bytes_printf(&b, "%s", ""), 0);
	assert_int_equal(b.len, 5);
	for (i = 0; i < 50; i++)
		assert_int_equal(kv_bytes_printf(&b, " %04d", i), 0);
	assert_int_equal(b.len, 5 + 50 * 5);
	assert_memory_equal(b.data, "key=7 0000 0001", 15);
	assert_string_equal((char *)b.data + b.len - 5, " 0049");
	/* The NUL has its place even where the text ends with the room. */
	while (b.len + 3 < b.cap)
		assert_int_equal(kv_bytes_append(&b, "", 1), 0);
	assert_int_equal(kv_bytes_printf(&b, "end"), 0);
	assert_string_equal((char *)b.data + b.len - 3, "end");
	kv_bytes_fini(&b);
}

static void
too_much_is_enomem_and_changes_nothing(void **state)
{
	struct kv_bytes b = { 0 };

	(void)state;
	assert_int_equal(kv_bytes_append(&b, "abc", 3), 0);
	errno = 0;
	assert_null(kv_bytes_reserve(&b, SIZE_MAX));
	assert_int_equal(errno, ENOMEM);
	assert_null(kv_bytes_reserve(&b, SIZE_MAX - 3));
	assert_null(kv_bytes_reserve(&b, (size_t)PTRDIFF_MAX - 2));
	assert_int_equal(kv_bytes_append(&b, "x", SIZE_MAX / 2), -ENOMEM);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "abc", 3);
	kv_bytes_fini(&b);
}

static int
grow_twice(void)
{
	struct kv_bytes b = { 0 };
	int rc = kv_bytes_append(&b, "abc", 3);

	if (rc == 0 && !kv_bytes_reserve(&b, 1000) && errno == ENOMEM &&
	    kv_bytes_printf(&b, "%s", "def") == 0)
		rc = b.len == 6 && memcmp(b.data, "abcdef", 6) == 0 ? 2 : 3;
	else if (rc == -ENOMEM)
		rc = b.len == 0 && !b.data ? 1 : 4;
	kv_bytes_fini(&b);
	return rc;
}

static void
without_memory_the_content_stays(void **state)
{
	(void)state;
	assert_int_equal(nth_fault_run(1, grow_twice), 1);
	assert_int_equal(nth_fault_run(2, grow_twice), 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(without_memory_the_content_stays),
		cmocka_unit_test(grows_and_keeps_content),
		cmocka_unit_test(reserve_does_not_count),
		cmocka_unit_test(printf_appends_text),
		cmocka_unit_test(too_much_is_enomem_and_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

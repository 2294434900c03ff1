#include "http/json.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

#include "nth_fault.h"

static struct kv_bytes out;

static int
teardown(void **state)
{
	(void)state;
	kv_bytes_fini(&out);
	return 0;
}

static void
check(const char *want)
{
	assert_int_equal(out.len, strlen(want));
	assert_memory_equal(out.data, want, out.len);
}

static void
nested_items(void **state)
{
	struct kv_json j = { .out = &out };

	(void)state;
	kv_json_begin(&j, NULL, '{');
	kv_json_u64(&j, "a", UINT64_MAX);
	kv_json_i64(&j, "b", INT64_MIN);
	kv_json_begin(&j, "list", '[');
	kv_json_begin(&j, NULL, '[');
	kv_json_end(&j, '[');
	kv_json_string(&j, NULL, "x");
	kv_json_bool(&j, NULL, true);
	kv_json_end(&j, '[');
	kv_json_bool(&j, "c", false);
	kv_json_begin_named(&j, "k\"\n", 3);
	kv_json_end(&j, '{');
	kv_json_percent(&j, "p", 1, 8);
	kv_json_percent(&j, "none", 0, 0);
	kv_json_end(&j, '{');
	assert_int_equal(j.status, 0);
	check("{\"a\":18446744073709551615,\"b\":-9223372036854775808,"
	      "\"list\":[[],\"x\",true],\"c\":false,\"k\\u0022\\u000a\":{},"
	      "\"p\":12.50,\"none\":0.00}");
}

static void
text_is_exact(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		const char *want;
	} rows[] = {
		{ "", 0, "\"\"" },
		{ "a/b%", 4, "\"a/b%\"" },
		{ "\0\x1f\x7f\\", 4, "\"\\u0000\\u001f\\u007f\\u005c\"" },
		{ "\xc3\xa4\xf0\x9f\x98\x80", 6,
		  "\"\xc3\xa4\xf0\x9f\x98\x80\"" },
		{ "\xff", 1, "{\"b64\":\"/w==\"}" },
		{ "\xff\x00", 2, "{\"b64\":\"/wA=\"}" },
		{ "ab\xc3", 3, "{\"b64\":\"YWLD\"}" },
		{ "\xed\xa0\x80z", 4, "{\"b64\":\"7aCAeg==\"}" },
	};

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(rows); i++) {
		struct kv_json j = { .out = &out };

		kv_bytes_reset(&out);
		kv_json_text(&j, NULL, rows[i].p, rows[i].n);
		assert_int_equal(j.status, 0);
		check(rows[i].want);
	}
}

static int
write_some(void)
{
	struct kv_json j = { .out = &out };

	kv_json_begin(&j, NULL, '[');
	for (int i = 0; i < 100; i++)
		kv_json_text(&j, NULL, i % 2 ? "a\n" : "\xff", 2);
	kv_json_percent(&j, NULL, 1, 2);
	kv_json_i64(&j, NULL, 3);
	kv_json_end(&j, '[');
	kv_bytes_fini(&out);
	return j.status == -ENOMEM ? 1 : j.status;
}

static void
no_memory_is_remembered(void **state)
{
	unsigned n;

	(void)state;
	for (n = 1; nth_fault_run(n, write_some) == 1; n++)
		;
	assert_true(n > 3);
	assert_int_equal(nth_fault_run(n, write_some), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(no_memory_is_remembered),
		cmocka_unit_test_teardown(nested_items, teardown),
		cmocka_unit_test_teardown(text_is_exact, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

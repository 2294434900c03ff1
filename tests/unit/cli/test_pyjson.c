#include "test.h"

#include "cli/pyjson.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"

/* TEXT as the value of a member: a closing bracket follows it. */
static struct kv_jsonscan_span
value(const char *text)
{
	static char buf[2048];

	snprintf(buf, sizeof(buf), "%s}", text);
	return (struct kv_jsonscan_span){ buf, strlen(text) };
}

/* Right column: what Python 3.11 printed. */
static void
test_repr(void **state)
{
	static const struct {
		const char *json, *repr;
	} cases[] = {
		{ "null", "None" },
		{ "true", "True" },
		{ "false", "False" },
		{ "5", "5" },
		{ "-0", "0" },
		{ "-17", "-17" },
		{ "123456789012345678901234567890",
		  "123456789012345678901234567890" },
		{ "5.0", "5.0" },
		{ "1.50", "1.5" },
		{ "-0.0", "-0.0" },
		{ "1e3", "1000.0" },
		{ "1e15", "1000000000000000.0" },
		{ "1e16", "1e+16" },
		{ "1e22", "1e+22" },
		{ "0.0001", "0.0001" },
		{ "0.00001", "1e-05" },
		{ "0.1", "0.1" },
		{ "9007199254740993.0", "9007199254740992.0" },
		{ "1.7976931348623157e308", "1.7976931348623157e+308" },
		{ "5e-324", "5e-324" },
		{ "1e400", "inf" },
		{ "-Infinity", "-inf" },
		{ "NaN", "nan" },
		{ "\"xyz\"", "'xyz'" },
		{ "\"\"", "''" },
		{ "\"it's\"", "\"it's\"" },
		{ "\"say \\\"x\\\"\"", "'say \"x\"'" },
		{ "\"'\\\"\"", "'\\'\"'" },
		{ "\"a\\\\b\"", "'a\\\\b'" },
		{ "\"\\t\\n\\r\\u0001\\u007f\"", "'\\t\\n\\r\\x01\\x7f'" },
		{ "\"\xc3\xa9\\u00e9\"", "'\xc3\xa9\xc3\xa9'" },
		{ "\"\\u00a0\\u00ad\"", "'\\xa0\\xad'" },
		{ "\"\\u200b\\u2028\\ufeff\"", "'\\u200b\\u2028\\ufeff'" },
		{ "\"\\ud83d\\ude00\"", "'\xf0\x9f\x98\x80'" },
		{ "\"\\udb40\\udc01\"", "'\\U000e0001'" },
		{ "[]", "[]" },
		{ "[ 1,\n\"a\" ]", "[1, 'a']" },
		{ "{ }", "{}" },
		{ "{\"a]\":[null,5.0],\"b\":{\"c\":true}}",
		  "{'a]': [None, 5.0], 'b': {'c': True}}" },
	};
	char out[256];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		assert_int_equal(
			kv_pyjson_repr(value(cases[i].json), out, sizeof(out)),
			0);
		assert_string_equal(out, cases[i].repr);
	}
	assert_int_equal(kv_pyjson_repr(value("\"\\u0000\""), out, sizeof(out)),
			 -EILSEQ);
	assert_int_equal(
		kv_pyjson_repr(value("[\"\\ud800\"]"), out, sizeof(out)),
		-EILSEQ);
}

static void
test_repr_is_cut(void **state)
{
	char out[10];

	(void)state;
	assert_int_equal(kv_pyjson_repr(value("\"1234567\""), out, 10), 0);
	assert_string_equal(out, "'1234567'");
	assert_int_equal(kv_pyjson_repr(value("\"12345678\""), out, 10), 0);
	assert_string_equal(out, "'12345...");
	assert_int_equal(kv_pyjson_repr(value("[1,2,3,4,5]"), out, 10), 0);
	assert_string_equal(out, "[1, 2,...");
	assert_int_equal(kv_pyjson_repr(value("12345678901"), out, 10), 0);
	assert_string_equal(out, "123456...");
	/* Not in the middle of a character. */
	assert_int_equal(kv_pyjson_repr(value("\"\xc3\xa9\xc3\xa9\xc3\xa9"
					      "\xc3\xa9\""),
					out, 10),
			 0);
	assert_string_equal(out, "'\xc3\xa9\xc3\xa9...");
}

static void
test_repr_of_an_argument(void **state)
{
	char out[64];

	(void)state;
	kv_pyjson_repr_text("a'b", out, sizeof(out));
	assert_string_equal(out, "\"a'b\"");
	kv_pyjson_repr_text("\xff\xd0\xba", out, sizeof(out));
	assert_string_equal(out, "'\\udcff\xd0\xba'");
}

static void
test_truth(void **state)
{
	static const char *const is_true[] = {
		"true",      "1",     "-1",  "0.5",       "NaN",
		"\"false\"", "\" \"", "[0]", "{\"a\":0}",
	};
	static const char *const is_false[] = {
		"false", "null", "0",  "-0",    "0.0",
		"0e5",   "\"\"", "[]", "[ \n]", "{}",
	};

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(is_true); i++)
		assert_true(kv_pyjson_is_true(value(is_true[i])));
	for (size_t i = 0; i < KV_ARRAY_LEN(is_false); i++)
		assert_false(kv_pyjson_is_true(value(is_false[i])));
}

static void
test_int(void **state)
{
	static const struct {
		const char *json;
		int64_t want;
	} cases[] = {
		{ "true", 1 },
		{ "false", 0 },
		{ "0", 0 },
		{ "-5", -5 },
		{ "1.5", 1 },
		{ "-1.5", -1 },
		{ "1e3", 1000 },
		{ "9223372036854775806", INT64_MAX - 1 },
		{ "9223372036854775808", INT64_MAX },
		{ "-9223372036854775809", INT64_MIN },
		{ "1e30", INT64_MAX },
		{ "-1e30", INT64_MIN },
	};
	int64_t got;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		assert_int_equal(kv_pyjson_int(value(cases[i].json), &got), 0);
		assert_true(got == cases[i].want);
	}
	assert_int_equal(kv_pyjson_int(value("1e400"), &got), -ERANGE);
	assert_int_equal(kv_pyjson_int(value("-Infinity"), &got), -ERANGE);
	assert_int_equal(kv_pyjson_int(value("NaN"), &got), -EINVAL);
	assert_int_equal(kv_pyjson_int(value("\"1\""), &got), -EINVAL);
	assert_int_equal(kv_pyjson_int(value("null"), &got), -EINVAL);
}

static void
test_str(void **state)
{
	char out[8];

	(void)state;
	assert_int_equal(kv_pyjson_str(value("\"a\\u0062\\/\""), out, 8), 0);
	assert_string_equal(out, "ab/");
	assert_int_equal(kv_pyjson_str(value("\"1234567\""), out, 8), 0);
	assert_string_equal(out, "1234567");
	assert_int_equal(kv_pyjson_str(value("\"12345678\""), out, 8),
			 -ENAMETOOLONG);
	assert_int_equal(kv_pyjson_str(value("\"\\u0000\""), out, 8), -EILSEQ);
	assert_int_equal(kv_pyjson_str(value("\"\\\\u0000\""), out, 8), 0);
	assert_string_equal(out, "\\u0000");
	assert_int_equal(kv_pyjson_str(value("\"\\udc00\""), out, 8), -EILSEQ);
	assert_int_equal(kv_pyjson_str(value("7"), out, 8), -EINVAL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repr),
		cmocka_unit_test(test_repr_is_cut),
		cmocka_unit_test(test_repr_of_an_argument),
		cmocka_unit_test(test_truth),
		cmocka_unit_test(test_int),
		cmocka_unit_test(test_str),
	};

	return cmocka_run_group_tests_name("cli/pyjson", tests, NULL, NULL);
}

#include "test.h"

#include "cli/jsonscan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"

/* Members as "key=value;" one after the other. */
static void
note(void *arg, struct kv_jsonscan_span key, struct kv_jsonscan_span value)
{
	char *out = arg;
	size_t n = strlen(out);

	snprintf(out + n, 256 - n, "%.*s=%.*s;", (int)key.n, key.p,
		 (int)value.n, value.p);
}

/* From a block of the very size, so that a sanitizer sees reads past it. */
static int
scan(const char *text, size_t n, char *out, struct kv_jsonscan_error *err)
{
	char *copy = malloc(n + !n);
	int rc;

	assert_non_null(copy);
	memcpy(copy, text, n);
	out[0] = '\0';
	rc = kv_jsonscan_object((struct kv_jsonscan_span){ copy, n }, note, out,
				err);
	free(copy);
	return rc;
}

static void
test_members(void **state)
{
	static const struct {
		const char *text, *members;
	} cases[] = {
		{ "{}", "" },
		{ " {\t} \r\n", "" },
		{ "{\"a\":1}", "a=1;" },
		{ "{ \"a\" : -0.5e+10 , \"b\":\"x\\\"}\" }",
		  "a=-0.5e+10;b=\"x\\\"}\";" },
		{ "{\"a\":{\"in\":[1,{}]},\"a\":null}",
		  "a={\"in\":[1,{}]};a=null;" },
		{ "{\"\\u0061\":[ ]}", "\\u0061=[ ];" },
		{ "{\"n\":NaN,\"i\":Infinity,\"m\":-Infinity}",
		  "n=NaN;i=Infinity;m=-Infinity;" },
		{ "{\"\":false,\"\xd0\xba\":true}", "=false;\xd0\xba=true;" },
	};
	struct kv_jsonscan_error err;
	char out[256];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		assert_int_equal(
			scan(cases[i].text, strlen(cases[i].text), out, &err),
			0);
		assert_string_equal(out, cases[i].members);
	}
}

static void
test_errors(void **state)
{
	static const struct {
		const char *text;
		unsigned line, column;
		const char *what;
	} cases[] = {
		{ "", 1, 1, "expected a value" },
		{ "  ", 1, 3, "expected a value" },
		{ "[]", 1, 1, "expected '{': the file holds one object" },
		{ "\xef\xbb\xbf{}", 1, 2,
		  "the file starts with a byte order mark" },
		{ "{\n  \"a\": 1,\n}", 3, 1,
		  "expected a key in double quotes" },
		{ "{'a': 1}", 1, 2, "expected a key in double quotes" },
		{ "{\"a\" 1}", 1, 6, "expected ':' after the key" },
		{ "{\"a\": 1 \"b\": 2}", 1, 9, "expected ',' or '}'" },
		{ "{\"a\": [1 2]}", 1, 10, "expected ',' or ']'" },
		{ "{\"a\": [1,]}", 1, 10, "expected a value" },
		{ "{\"a\": 01}", 1, 8, "expected ',' or '}'" },
		{ "{\"a\": 1.}", 1, 8, "expected ',' or '}'" },
		{ "{\"a\": 1e}", 1, 8, "expected ',' or '}'" },
		{ "{\"a\": 1e+}", 1, 8, "expected ',' or '}'" },
		{ "{\"a\": .5}", 1, 7, "expected a value" },
		{ "{\"a\": +1}", 1, 7, "expected a value" },
		{ "{\"a\": -}", 1, 8, "expected a digit after '-'" },
		{ "{\"a\": True}", 1, 7, "expected a value" },
		{ "{\"a\": 0x10}", 1, 8, "expected ',' or '}'" },
		{ "{\"\xc3\xa9\": x}", 1, 7, "expected a value" },
		{ "{\"a\": \"b", 1, 9, "a string has no end" },
		{ "{\"a\": \"b\n\"}", 1, 9, "control character in a string" },
		{ "{\"a\": \"\\x\"}", 1, 9, "unknown escape in a string" },
		{ "{\"a\": \"\\u12g4\"}", 1, 12,
		  "\\u needs four hexadecimal digits" },
		{ "{\"a\": \"\\", 1, 9, "unknown escape in a string" },
		{ "{\"a\": \"\xff\"}", 1, 8, "not UTF-8" },
		{ "{\"a\": 1", 1, 8, "expected ',' or '}'" },
		{ "{} {}", 1, 4, "text after the final '}'" },
		{ "{} // no", 1, 4, "text after the final '}'" },
	};
	struct kv_jsonscan_error err;
	char out[256];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		assert_int_equal(
			scan(cases[i].text, strlen(cases[i].text), out, &err),
			-EINVAL);
		assert_string_equal(err.what, cases[i].what);
		assert_int_equal(err.line, cases[i].line);
		assert_int_equal(err.column, cases[i].column);
	}
	assert_int_equal(scan("{\"a\0\":1}", 8, out, &err), -EINVAL);
	assert_string_equal(err.what, "control character in a string");
}

/* {"a":[[...]]} with N brackets. */
static int
scan_nested(int n, struct kv_jsonscan_error *err)
{
	char text[512] = "{\"a\":", out[1024];

	for (int i = 0; i < n; i++)
		strcat(text, "[");
	for (int i = 0; i < n; i++)
		strcat(text, "]");
	strcat(text, "}");
	return scan(text, strlen(text), out, err);
}

static void
test_depth_is_bounded(void **state)
{
	struct kv_jsonscan_error err;

	(void)state;
	assert_int_equal(scan_nested(KV_JSONSCAN_DEPTH_MAX - 1, &err), 0);
	assert_int_equal(scan_nested(KV_JSONSCAN_DEPTH_MAX, &err), -EINVAL);
	assert_string_equal(err.what, "nested too deeply");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_depth_is_bounded),
	};

	return cmocka_run_group_tests_name("cli/jsonscan", tests, NULL, NULL);
}

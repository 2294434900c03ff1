#include "cli/flatconf.h"

#include "test.h"

#include <errno.h>
#include <string.h>

static char got[4096], err[512];

static int
on_name(void *arg, const char *name, const char *value, char *text, size_t size)
{
	size_t n = strlen(got);

	(void)arg;
	snprintf(got + n, sizeof(got) - n, "%s=%s;", name, value);
	if (strcmp(name, "bad") != 0)
		return 0;
	snprintf(text, size, "bad indeed");
	return -ERANGE;
}

static int
parse_n(const char *path, const char *text, size_t len)
{
	const struct kv_flatconf f = { .path = path, .set = on_name };

	got[0] = err[0] = '\0';
	return kv_flatconf_parse(&f, text, len, err, sizeof(err));
}

static int
parse(const char *path, const char *text)
{
	return parse_n(path, text, strlen(text));
}

static void
test_yaml(void **state)
{
	(void)state;
	assert_int_equal(
		parse("d/m.yaml",
		      "# master\n---\nrpc_port: 50051\n\n"
		      "rpc_address: \"0.0.0.0\"   # all\n"
		      "eviction_ratio:\t0.05 \nenable_snapshot: true#1\r\n"
		      "  # set in\n"
		      "a-b.c: 'it''s'\nurl: http://h:1/m?a=b\n"
		      "esc: \"a \\\"b\\\\ #c\"\nempty: ''\nneg: -5\n"
		      "spaces: a  b\t # c"),
		0);
	assert_string_equal(
		got, "rpc_port=50051;rpc_address=0.0.0.0;eviction_ratio=0.05;"
		     "enable_snapshot=true#1;a-b.c=it's;url=http://h:1/m?a=b;"
		     "esc=a \"b\\ #c;empty=;neg=-5;spaces=a  b;");
	assert_int_equal(parse("m.yml", "\xef\xbb\xbf"
					"a: 1\na: 2"),
			 0);
	assert_string_equal(got, "a=1;a=2;");
	assert_int_equal(parse("m.yaml", ""), 0);
	assert_int_equal(parse("m.yaml", "\n# nothing\n \t\n"), 0);
	assert_int_equal(parse("m.yaml", " \n---\n"), 0);
	assert_string_equal(got, "");
}

static void
test_yaml_that_is_refused(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "a: 1\n  b: 2\n", ":2: lines that are set in" },
		{ "\tb: 2\n", ":1: lines that are set in" },
		{ "- a\n", ":1: 'name: value' is wanted" },
		{ "a\n", ":1: 'name: value' is wanted" },
		{ "a:1\n", ":1: 'name: value' is wanted" },
		{ ": 1\n", ":1: 'name: value' is wanted" },
		{ "a b: 1\n", ":1: 'name: value' is wanted" },
		{ "\"a\": 1\n", ":1: 'name: value' is wanted" },
		{ "{a: 1}\n", ":1: 'name: value' is wanted" },
		{ "a: 1\n---\nb: 2\n", ":2: 'name: value' is wanted" },
		{ "---\n---\n", ":2: 'name: value' is wanted" },
		{ "a: 1\n...\n", ":2: 'name: value' is wanted" },
		{ "a:\n", ":1: a plain or quoted value" },
		{ "a: # b\n", ":1: a plain or quoted value" },
		{ "a: ~\n", ":1: a plain or quoted value" },
		{ "a: Null\n", ":1: a plain or quoted value" },
		{ "a: [1, 2]\n", ":1: a plain or quoted value" },
		{ "a: {b: 1}\n", ":1: a plain or quoted value" },
		{ "a: |\n", ":1: a plain or quoted value" },
		{ "a: >-\n", ":1: a plain or quoted value" },
		{ "a: &x 1\n", ":1: a plain or quoted value" },
		{ "a: *x\n", ":1: a plain or quoted value" },
		{ "a: !!int 1\n", ":1: a plain or quoted value" },
		{ "a: - 1\n", ":1: a plain or quoted value" },
		{ "a: b: c\n", ":1: a plain or quoted value" },
		{ "a: b:\n", ":1: a plain or quoted value" },
		{ "a: \"b\n", ":1: a plain or quoted value" },
		{ "a: \"b\" c\n", ":1: a plain or quoted value" },
		{ "a: \"b\"#c\n", ":1: a plain or quoted value" },
		{ "a: \"\\n\"\n", ":1: a plain or quoted value" },
		{ "a: 'b''\n", ":1: a plain or quoted value" },
		{ "a: 1\nbad: 2\nc: 3\n", ":2: bad indeed" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_true(parse("m.yaml", cases[i].text) < 0);
		assert_memory_equal(err, "m.yaml", 6);
		assert_memory_equal(err + 6, cases[i].want,
				    strlen(cases[i].want));
	}
	assert_string_equal(got, "a=1;bad=2;");
}

static void
test_bounds(void **state)
{
	static char text[KV_FLATCONF_BYTES_MAX + 1];
	const size_t longest = KV_FLATCONF_VALUE_SIZE - 1;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "a: ", 3);
	assert_int_equal(parse_n("m.yaml", text, 3 + longest), 0);
	assert_int_equal(strlen(got), 2 + longest + 1);
	assert_int_equal(parse_n("m.yaml", text, 4 + longest), -EINVAL);
	assert_string_equal(err, "m.yaml:1: the value is too long");
	assert_int_equal(parse_n("m.yaml", text, 4000), -EINVAL);
	assert_string_equal(err, "m.yaml:1: the line is too long");
	assert_int_equal(parse_n("m.yaml", "a: 1\nb: \0", 9), -EINVAL);
	assert_string_equal(err, "m.yaml:2: a NUL byte");
	memset(text, 'n', KV_FLATCONF_NAME_SIZE);
	memcpy(text + KV_FLATCONF_NAME_SIZE - 1, ": 1", 3);
	assert_int_equal(parse_n("m.yaml", text, KV_FLATCONF_NAME_SIZE + 2), 0);
	memcpy(text + KV_FLATCONF_NAME_SIZE - 1, "n: 1", 4);
	assert_int_equal(parse_n("m.yaml", text, KV_FLATCONF_NAME_SIZE + 3),
			 -EINVAL);
	memset(text, '\n', sizeof(text));
	assert_int_equal(parse_n("m.yaml", text, sizeof(text) - 1), 0);
	assert_int_equal(parse_n("m.yaml", text, sizeof(text)), -EFBIG);
	assert_string_equal(err, "m.yaml: larger than 1048576 bytes");
}

static void
test_json(void **state)
{
	(void)state;
	assert_int_equal(parse("m.json",
			       "{\"rpc_port\": 50051, \"on\": true,\n"
			       " \"ratio\": 0.050, \"dir\": \"/a \\u00e4\", "
			       "\"\\u0061\": -1, \"e\": \"\"}"),
			 0);
	assert_string_equal(got, "rpc_port=50051;on=true;ratio=0.050;"
				 "dir=/a \xc3\xa4;a=-1;e=;");
	assert_int_equal(parse("m.json", "{}"), 0);
	assert_string_equal(got, "");
}

static void
test_json_that_is_refused(void **state)
{
	char text[KV_FLATCONF_VALUE_SIZE + 32];

	(void)state;
	assert_int_equal(parse("m.json", ""), -EINVAL);
	assert_int_equal(parse("m.json", "{\"a\": 1,\n}"), -EINVAL);
	assert_memory_equal(err, "m.json:2:1: ", 12);
	assert_int_equal(parse("m.json", "[1]"), -EINVAL);
	assert_int_equal(parse("m.json", "{\"a\": [1]}"), -EINVAL);
	assert_string_equal(err, "m.json: a: a text, a number, true or false "
				 "is wanted, up to 1023 bytes");
	assert_int_equal(parse("m.json", "{\"a\": {}}"), -EINVAL);
	assert_int_equal(parse("m.json", "{\"a\": null}"), -EINVAL);
	assert_int_equal(parse("m.json", "{\"a\": \"\\u0000\"}"), -EINVAL);
	assert_int_equal(parse("m.json", "{\"a\": 1, \"bad\": 2, \"c\": 3}"),
			 -ERANGE);
	assert_string_equal(err, "m.json: bad indeed");
	assert_string_equal(got, "a=1;bad=2;");
	memset(text, '1', sizeof(text));
	memcpy(text, "{\"a\": ", 6);
	text[6 + KV_FLATCONF_VALUE_SIZE] = '}';
	assert_int_equal(parse_n("m.json", text, 7 + KV_FLATCONF_VALUE_SIZE),
			 -EINVAL);
	memset(text, 'n', KV_FLATCONF_NAME_SIZE + 2);
	memcpy(text, "{\"", 2);
	strcpy(text + KV_FLATCONF_NAME_SIZE + 2, "\": 1}");
	assert_int_equal(parse("m.json", text), -EINVAL);
	assert_string_equal(err, "m.json: a name of 128 bytes");
}

static void
test_kinds_of_file(void **state)
{
	static const char *const paths[] = { "m",        "m.conf", ".yaml",
					     "m.yaml.x", "m.YAML", "json" };

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		assert_int_equal(parse(paths[i], "{}"), -EINVAL);
		assert_non_null(strstr(err, ": a .yaml, .yml or .json file is "
					    "wanted"));
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_yaml),
		cmocka_unit_test(test_yaml_that_is_refused),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_that_is_refused),
		cmocka_unit_test(test_kinds_of_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

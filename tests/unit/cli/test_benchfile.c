#include "cli/benchfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define HEAD "{\"host\":\"h\",\"version\":\"1\",\"results\":"
#define ROW                                                        \
	"\"name\":\"put_4k\",\"unit\":\"us\",\"better\":\"less\"," \
	"\"value\":12.5"

static void
reads(void **state)
{
	static const char text[] =
		"{\"host\":\"h\xc3\xa4\",\"x\":[{}],"
		"\"version\":\"0.1\",\"results\":[\n{" ROW
		",\"held\":10000000,\"floor\":10,\"floor_name\":\"chain\","
		"\"ratio\":1.25,\"bar\":1.25,\"met\":true},\n{"
		"\"name\":\"fill\",\"held\":null,\"value\":0,\"unit\":\"%\","
		"\"better\":\"more\",\"floor\":null,\"bar\":null}]}";
	struct kv_benchfile f;
	char err[200];

	(void)state;
	assert_int_equal(kv_benchfile_parse(text, sizeof(text) - 1, &f, err,
					    sizeof(err)),
			 0);
	assert_string_equal(f.host, "h\xc3\xa4");
	assert_string_equal(f.version, "0.1");
	assert_int_equal(f.n, 2);
	assert_string_equal(f.rows[0].name, "put_4k");
	assert_string_equal(f.rows[0].unit, "us");
	assert_int_equal(f.rows[0].held, 10000000);
	assert_true(f.rows[0].value == 12.5 && f.rows[0].ratio == 1.25);
	assert_true(f.rows[0].bar == 1.25 && f.rows[0].is_less);
	assert_int_equal(f.rows[1].held, 0);
	assert_true(f.rows[1].ratio == 0 && f.rows[1].bar == 0);
	assert_false(f.rows[1].is_less);
	kv_benchfile_fini(&f);
	kv_benchfile_fini(&f);
	assert_int_equal(kv_benchfile_parse(HEAD "[]}", sizeof(HEAD "[]}") - 1,
					    &f, err, sizeof(err)),
			 0);
	assert_int_equal(f.n, 0);
	kv_benchfile_fini(&f);
}

static void
refuses(void **state)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "", "line 1" },
		{ "[]", "line 1" },
		{ HEAD "[01]}", "line 1" },
		{ "{\"version\":\"1\",\"results\":[]}", "\"host\"" },
		{ "{\"host\":\"h\",\"version\":2,\"results\":[]}",
		  "\"version\"" },
		{ "{\"host\":\"a\\nb\",\"version\":\"2\",\"results\":[]}",
		  "\"host\"" },
		{ "{\"host\":\"\",\"version\":\"2\",\"results\":[]}",
		  "\"host\"" },
		{ HEAD "{}}", "no list" },
		{ HEAD "[1]}", "no object" },
		{ HEAD "[{\"unit\":\"us\"}]}", "\"name\"" },
		{ HEAD "[{" ROW ",\"ratio\":-1}]}", "\"ratio\"" },
		{ HEAD "[{" ROW ",\"ratio\":\"1\"}]}", "\"ratio\"" },
		{ HEAD "[{" ROW ",\"ratio\":NaN}]}", "cannot be read" },
		{ HEAD "[{" ROW ",\"bar\":1e999}]}", "\"bar\"" },
		{ HEAD "[{" ROW ",\"held\":1e18}]}", "\"held\"" },
		{ HEAD "[{\"name\":\"a\",\"unit\":\"b\",\"better\":\"c\"}]}",
		  "\"better\"" },
		{ HEAD "[{\"name\":\"a\",\"unit\":\"b\",\"better\":\"more\"}]}",
		  "\"value\"" },
	};
	struct kv_benchfile f;
	char err[200], *copy;
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		n = strlen(bad[i].text);
		copy = malloc(n + 1);
		assert_non_null(copy);
		memcpy(copy, bad[i].text, n);
		assert_int_equal(
			kv_benchfile_parse(copy, n, &f, err, sizeof(err)),
			-EINVAL);
		assert_non_null(strstr(err, bad[i].why));
		free(copy);
	}
}

static void
bounds(void **state)
{
	char text[400], err[200];
	char *many = malloc(KV_BENCHFILE_ROWS_MAX * 4 + 200);
	struct kv_benchfile f;
	size_t n, i;

	(void)state;
	n = (size_t)snprintf(text, sizeof(text),
			     "{\"host\":\"%0128d\",\"version\":\"1\","
			     "\"results\":[]}",
			     1);
	assert_int_equal(kv_benchfile_parse(text, n, &f, err, sizeof(err)),
			 -EINVAL);
	assert_non_null(many);
	n = (size_t)sprintf(many, HEAD "[{}");
	for (i = 0; i < KV_BENCHFILE_ROWS_MAX; i++)
		n += (size_t)sprintf(many + n, ",{}");
	n += (size_t)sprintf(many + n, "]}");
	assert_int_equal(kv_benchfile_parse(many, n, &f, err, sizeof(err)),
			 -EINVAL);
	assert_non_null(strstr(err, "more than 1000"));
	free(many);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads),
		cmocka_unit_test(refuses),
		cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "cli/records.h"

#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"

static FILE *
stream(const void *p, size_t n)
{
	FILE *f = tmpfile();

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	rewind(f);
	return f;
}

static void
expect(struct kv_records *r, const char *want, size_t len)
{
	assert_int_equal(kv_records_next(r), 1);
	assert_int_equal(r->len, len);
	assert_memory_equal(r->data, want, len + 1); /* and its NUL */
}

static void
test_lines_and_the_last_without_end(void **state)
{
	static const char text[] = "one\n\na\0b\nlast";
	FILE *f = stream(text, sizeof(text) - 1);
	struct kv_records r;

	(void)state;
	kv_records_init(&r, f, '\n');
	expect(&r, "one", 3);
	expect(&r, "", 0);
	expect(&r, "a\0b", 3);
	expect(&r, "last", 4);
	assert_int_equal(r.number, 4);
	assert_int_equal(kv_records_next(&r), 0);
	fclose(f);
}

static void
test_nul_ends_records_that_have_newlines(void **state)
{
	FILE *f = stream("a\nb\0\nc\0", 7);
	struct kv_records r;

	(void)state;
	kv_records_init(&r, f, '\0');
	expect(&r, "a\nb", 3);
	expect(&r, "\nc", 2);
	assert_int_equal(kv_records_next(&r), 0);
	fclose(f);
}

static void
test_too_long_is_skipped(void **state)
{
	char text[KV_RECORDS_BYTES_MAX + 5];
	struct kv_records r;
	FILE *f;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[KV_RECORDS_BYTES_MAX + 1] = '\n';
	text[KV_RECORDS_BYTES_MAX + 2] = 'y';
	text[KV_RECORDS_BYTES_MAX + 3] = '\n';
	f = stream(text, sizeof(text) - 1);
	kv_records_init(&r, f, '\n');
	assert_int_equal(kv_records_next(&r), -EMSGSIZE);
	assert_int_equal(r.number, 1);
	expect(&r, "y", 1);
	assert_int_equal(kv_records_next(&r), 0);
	fclose(f);

	/* One byte less is not too long. */
	f = stream(text + 1, sizeof(text) - 2);
	kv_records_init(&r, f, '\n');
	assert_int_equal(kv_records_next(&r), 1);
	assert_int_equal(r.len, KV_RECORDS_BYTES_MAX);
	fclose(f);
}

static void
test_read_error(void **state)
{
	FILE *f = fopen("/", "r");
	struct kv_records r;

	(void)state;
	assert_non_null(f);
	kv_records_init(&r, f, '\n');
	assert_int_equal(kv_records_next(&r), -EISDIR);
	fclose(f);
}

struct split_case {
	const char *record;
	size_t len;
	const char *key; /* NULL: refused */
	const char *path;
	const char *why;
};

static void
test_split(void **state)
{
	static const struct split_case cases[] = {
		{ "k\tp", 3, "k", "p", NULL },
		{ "a\tb\tp q", 7, "a\tb", "p q", NULL },
		{ "\t\tp", 3, "\t", "p", NULL },
		{ "kp", 2, NULL, NULL, "no TAB" },
		{ "", 0, NULL, NULL, "no TAB" },
		{ "\tp", 2, NULL, NULL, "key is empty" },
		{ "k\t", 2, NULL, NULL, "path is empty" },
		{ "k\tp\0q", 5, NULL, NULL, "NUL in the path" },
	};
	struct kv_records r;
	const char *path, *why;
	struct kv_key key;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		const struct split_case *c = &cases[i];

		memcpy(r.data, c->record, c->len);
		r.data[c->len] = '\0';
		r.len = c->len;
		if (!c->key) {
			assert_int_equal(
				kv_records_split(&r, &key, &path, &why),
				-EINVAL);
			assert_non_null(strstr(why, c->why));
			continue;
		}
		assert_int_equal(kv_records_split(&r, &key, &path, &why), 0);
		assert_int_equal(key.len, strlen(c->key));
		assert_memory_equal(key.data, c->key, key.len);
		assert_string_equal(path, c->path);
	}
}

static void
test_split_knows_the_longest_key(void **state)
{
	const char *path, *why;
	struct kv_records r;
	struct kv_key key;

	(void)state;
	memset(r.data, 'k', 1024);
	memcpy(r.data + 1024, "\tp", 3);
	r.len = 1026;
	assert_int_equal(kv_records_split(&r, &key, &path, &why), 0);
	assert_int_equal(key.len, 1024);
	memcpy(r.data + 1024, "k\tp", 4);
	r.len = 1027;
	assert_int_equal(kv_records_split(&r, &key, &path, &why), -EINVAL);
	assert_string_equal(why, "the key is longer than 1024 bytes");
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines_and_the_last_without_end),
		cmocka_unit_test(test_nul_ends_records_that_have_newlines),
		cmocka_unit_test(test_too_long_is_skipped),
		cmocka_unit_test(test_read_error),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_split_knows_the_longest_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

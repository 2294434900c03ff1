#include "store/pattern.h"

#include <errno.h>
#include <string.h>

#include "test.h"

static struct kv_pattern *
pattern(const char *s)
{
	char text[KV_PATTERN_TEXT_BYTES];

	return kv_pattern_new(s, strlen(s), text);
}

static int
match(const char *pat, const char *key, size_t len)
{
	struct kv_pattern *p = pattern(pat);
	int rc;

	assert_non_null(p);
	rc = kv_pattern_match(p, key, len);
	kv_pattern_free(p);
	return rc;
}

static void
searched_not_anchored(void **state)
{
	(void)state;
	assert_int_equal(match("b+", "abbc", 4), 1);
	assert_int_equal(match("^b", "abbc", 4), 0);
	assert_int_equal(match("c$", "abbc", 4), 1);
	assert_int_equal(match("", "x", 1), 1);
}

static void
keys_are_bytes(void **state)
{
	(void)state;
	assert_int_equal(match("a\\x00b", "a\0b", 3), 1);
	assert_int_equal(match("\\xff", "\xff\xfe", 2), 1);
	assert_int_equal(match("^.$", "\xc3\xa4", 2), 0);
	assert_int_equal(match("a.b", "a\nb", 3), 0);
	assert_int_equal(match("(?s)a.b", "a\nb", 3), 1);
}

static void
a_bad_pattern_is_told_with_its_place(void **state)
{
	char text[KV_PATTERN_TEXT_BYTES];

	(void)state;
	assert_null(kv_pattern_new("ab(c", 4, text));
	assert_non_null(strstr(text, "byte 4"));
	assert_non_null(strstr(text, "parenthesis"));
	assert_null(kv_pattern_new("(*UTF)a", 7, text));
}

static void
a_too_long_or_deep_pattern_is_refused(void **state)
{
	static char big[KV_PATTERN_BYTES_MAX + 1];
	char text[KV_PATTERN_TEXT_BYTES];
	struct kv_pattern *p;

	(void)state;
	memset(big, 'a', sizeof(big));
	assert_null(kv_pattern_new(big, sizeof(big), text));
	p = kv_pattern_new(big, sizeof(big) - 1, text);
	assert_non_null(p);
	kv_pattern_free(p);
	memset(big, '(', 1000);
	memset(big + 1000, ')', 1000);
	assert_null(kv_pattern_new(big, 2000, text));
}

static void
a_hostile_pattern_stops(void **state)
{
	char key[1024];

	(void)state;
	memset(key, 'a', sizeof(key));
	assert_int_equal(match("(a+)+[xy]", key, sizeof(key)), -E2BIG);
	assert_int_equal(match("(a|aa)+[xy]", key, sizeof(key)), -E2BIG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(searched_not_anchored),
		cmocka_unit_test(keys_are_bytes),
		cmocka_unit_test(a_bad_pattern_is_told_with_its_place),
		cmocka_unit_test(a_too_long_or_deep_pattern_is_refused),
		cmocka_unit_test(a_hostile_pattern_stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

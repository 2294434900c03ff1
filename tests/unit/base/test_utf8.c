#include "test.h"

#include "base/utf8.h"

#include <errno.h>
#include <string.h>

#include "base/attr.h"

static void
test_characters(void **state)
{
	static const struct {
		const char *p;
		int len;
		uint32_t cp;
	} cases[] = {
		{ "a", 1, 'a' },
		{ "\x7f", 1, 0x7f },
		{ "\xc2\x80", 2, 0x80 },
		{ "\xc3\xa9", 2, 0xe9 },
		{ "\xe0\xa0\x80", 3, 0x800 },
		{ "\xed\x9f\xbf", 3, 0xd7ff },
		{ "\xee\x80\x80", 3, 0xe000 },
		{ "\xf0\x90\x80\x80", 4, 0x10000 },
		{ "\xf4\x8f\xbf\xbf", 4, 0x10ffff },
	};
	uint32_t cp;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		assert_int_equal(
			kv_utf8_next(cases[i].p, strlen(cases[i].p), &cp),
			cases[i].len);
		assert_int_equal(cp, cases[i].cp);
	}
}

static void
test_refused(void **state)
{
	static const char *const cases[] = {
		"\x80",             /* stray continuation */
		"\xc0\x80",         /* overlong NUL */
		"\xc1\xbf",         /* overlong */
		"\xe0\x9f\xbf",     /* overlong */
		"\xf0\x8f\xbf\xbf", /* overlong */
		"\xed\xa0\x80",     /* surrogate */
		"\xed\xbf\xbf",     /* surrogate */
		"\xf4\x90\x80\x80", /* above U+10FFFF */
		"\xf5\x80\x80\x80", /* above U+10FFFF */
		"\xff",             /* no lead byte */
		"\xc3",             /* cut */
		"\xe2\x82",         /* cut */
		"\xe2\x28\xa1",     /* not continued */
		"\xf0\x9f\x98",     /* cut */
	};
	uint32_t cp;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++)
		assert_int_equal(kv_utf8_next(cases[i], strlen(cases[i]), &cp),
				 -EILSEQ);
}

static void
test_whole_texts(void **state)
{
	(void)state;
	assert_true(kv_utf8_is_valid("", 0));
	assert_true(kv_utf8_is_valid("a\0b", 3));
	assert_true(kv_utf8_is_valid("\xd0\xba\xe9\x8d\xb5", 5));
	assert_false(kv_utf8_is_valid("\xd0\xba\xe9\x8d\xb5", 4));
	assert_false(kv_utf8_is_valid("ok\xff", 3));
}

static void
test_printable(void **state)
{
	static const uint32_t yes[] = { ' ', '~', 0xe9, 0x4e2d, 0x1f600 };
	static const uint32_t no[] = { 0,      '\n',    0x7f,   0x85,   0xa0,
				       0xad,   0x200b,  0x202e, 0x2028, 0xd800,
				       0xfeff, 0xe0001, 0xf0000 };

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(yes); i++)
		assert_true(kv_utf8_is_printable(yes[i]));
	for (size_t i = 0; i < KV_ARRAY_LEN(no); i++)
		assert_false(kv_utf8_is_printable(no[i]));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_characters),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_whole_texts),
		cmocka_unit_test(test_printable),
	};

	return cmocka_run_group_tests_name("cli/utf8", tests, NULL, NULL);
}

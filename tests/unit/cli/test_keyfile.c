#include "cli/keyfile.h"

#include "test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "kvpool.h"

static const char *
name_of(const void *p, size_t n)
{
	static char name[KV_KEYFILE_SIZE];
	const struct kv_key key = { p, n };

	memset(name, 0x7f, sizeof(name));
	return kv_keyfile_name(name, &key);
}

static unsigned
digit(char c)
{
	assert_non_null(strchr("0123456789ABCDEF", c));
	return (unsigned)(c <= '9' ? c - '0' : c - 'A' + 10);
}

/* What the header says: without "%/", and %XX as its byte. */
static size_t
decode(const char *name, char *key)
{
	size_t n = 0;

	for (; *name; name++) {
		if (*name != '%') {
			key[n++] = *name;
		} else if (name[1] == '/') {
			name++;
		} else {
			key[n++] = (char)(digit(name[1]) << 4 | digit(name[2]));
			name += 2;
		}
	}
	return n;
}

/* No part leaves the folder, is hidden, or is longer than any file system
 * takes; folders are told from files. */
static void
check_parts(const char *name)
{
	const char *slash;
	size_t n;

	assert_true(strlen(name) < KV_KEYFILE_SIZE);
	do {
		slash = strchrnul(name, '/');
		n = (size_t)(slash - name);
		assert_true(n > 0 && n <= KV_KEYFILE_PART_MAX + 1);
		assert_true(name[0] != '.' && name[0] != '-');
		assert_int_equal(name[n - 1] == '%', *slash == '/');
		name = slash + 1;
	} while (*slash);
}

static void
check(const void *p, size_t n)
{
	const char *name = name_of(p, n);
	char key[KV_KEYFILE_SIZE];

	check_parts(name);
	assert_int_equal(decode(name, key), n);
	assert_memory_equal(key, p, n);
}

static void
test_names(void **state)
{
	static const char *const cases[][2] = {
		{ "abcXYZ019@=+,:~_-.", "abcXYZ019@=+,:~_-." },
		{ "vllm@/disc/models", "vllm@%2Fdisc%2Fmodels" },
		{ "a b", "a%20b" },
		{ "a%2Fb", "a%252Fb" },
		{ "../../tmp/pwn", "%2E.%2F..%2Ftmp%2Fpwn" },
		{ ".", "%2E" },
		{ "..", "%2E." },
		{ "/etc/x", "%2Fetc%2Fx" },
		{ "-n", "%2Dn" },
		{ "a\nb", "a%0Ab" },
		{ "\xff", "%FF" },
		{ "\xd0\xba", "%D0%BA" },
		{ "*?[]'\"\\$`!", "%2A%3F%5B%5D%27%22%5C%24%60%21" },
	};

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		assert_string_equal(name_of(cases[i][0], strlen(cases[i][0])),
				    cases[i][1]);
		check(cases[i][0], strlen(cases[i][0]));
	}
	assert_string_equal(name_of("a\0b", 3), "a%00b");
}

static void
test_long_keys_become_folders(void **state)
{
	char key[KV_KEY_BYTES_MAX];

	(void)state;
	memset(key, 'a', sizeof(key));
	for (size_t n = 230; n <= sizeof(key); n++)
		check(key, n);
	assert_null(strchr(name_of(key, KV_KEYFILE_PART_MAX), '/'));
	assert_int_equal(strcspn(name_of(key, KV_KEYFILE_PART_MAX + 1), "/"),
			 KV_KEYFILE_PART_MAX + 1);
	/* What begins a part is no dot, wherever that is. */
	memset(key, '.', sizeof(key));
	for (size_t n = 1; n <= sizeof(key); n++)
		check(key, n);
	memset(key, 0xff, sizeof(key));
	check(key, sizeof(key));
}

static void
test_any_bytes_come_back(void **state)
{
	char key[KV_KEY_BYTES_MAX];
	struct kv_rng rng;
	size_t n;

	(void)state;
	kv_rng_seed(&rng, 7);
	for (unsigned i = 0; i < 20000; i++) {
		n = 1 + kv_rng_below(&rng, i % 16 ? 12 : sizeof(key));
		kv_rng_bytes(&rng, key, n);
		/* Half of the time of what is close to our own signs. */
		for (size_t j = 0; i % 2 && j < n; j++)
			key[j] = "%/.-2F"[(unsigned char)key[j] % 6];
		check(key, n);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_keys_become_folders),
		cmocka_unit_test(test_any_bytes_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "cli/keylist.h"

#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

/* Makes stdin and stderr files; what was said is read back by said(). */
static FILE *complaints;

static void
set_stdin(const void *p, size_t n)
{
	FILE *f = tmpfile();

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	rewind(f);
	if (stdin)
		fclose(stdin);
	stdin = f;
	rewind(complaints);
	assert_int_equal(ftruncate(fileno(complaints), 0), 0);
}

static const char *
said(void)
{
	static char buf[4096];
	ssize_t n = pread(fileno(complaints), buf, sizeof(buf) - 1, 0);

	buf[n > 0 ? n : 0] = '\0';
	return strchr(buf, ':') ? strchr(buf, ':') : buf;
}

static int
save_stderr(void **state)
{
	(void)state;
	complaints = tmpfile();
	return complaints && dup2(fileno(complaints), 2) == 2 ? 0 : -1;
}

static void
expect(const struct kv_keylist *l, size_t i, const char *key, size_t n)
{
	assert_true(i < l->n);
	assert_int_equal(l->keys[i].len, n);
	assert_memory_equal(l->keys[i].data, key, n);
}

static void
test_arguments_in_portions(void **state)
{
	size_t n = KV_KEYLIST_MAX + 2;
	char **args = calloc(n, sizeof(*args));
	struct kv_keylist *l = malloc(sizeof(*l));
	char a[] = "a", b[] = "bb";

	(void)state;
	assert_true(args && l);
	for (size_t i = 0; i < n; i++)
		args[i] = i % 2 ? b : a;
	kv_keylist_init(l, args, n, false);
	assert_true(kv_keylist_next(l));
	assert_int_equal(l->n, KV_KEYLIST_MAX);
	expect(l, 0, "a", 1);
	expect(l, KV_KEYLIST_MAX - 1, "bb", 2);
	assert_true(kv_keylist_next(l));
	assert_int_equal(l->n, 2);
	expect(l, 0, "a", 1);
	expect(l, 1, "bb", 2);
	assert_false(kv_keylist_next(l));
	assert_int_equal(l->code, 0);
	kv_keylist_fini(l);
	free(l);
	free(args);
}

static void
test_lines_in_portions(void **state)
{
	struct kv_keylist *l = malloc(sizeof(*l));
	char *text = malloc(8 * (KV_KEYLIST_MAX + 1));
	size_t n = 0;

	(void)state;
	assert_true(text && l);
	for (int i = 0; i <= KV_KEYLIST_MAX; i++)
		n += (size_t)sprintf(text + n, "k%d\n", i);
	set_stdin(text, n);
	kv_keylist_init(l, NULL, 0, false);
	assert_true(kv_keylist_next(l));
	assert_int_equal(l->n, KV_KEYLIST_MAX);
	expect(l, 0, "k0", 2);
	expect(l, 1000, "k1000", 5);
	assert_true(kv_keylist_next(l));
	assert_int_equal(l->n, 1);
	expect(l, 0, "k1024", 5);
	assert_false(kv_keylist_next(l));
	assert_false(kv_keylist_next(l));
	assert_int_equal(l->code, 0);
	kv_keylist_fini(l);
	free(l);
	free(text);
}

static void
test_nul_ends_keys(void **state)
{
	struct kv_keylist *l = malloc(sizeof(*l));

	(void)state;
	assert_non_null(l);
	set_stdin("a\nb\0c", 5);
	kv_keylist_init(l, NULL, 0, true);
	assert_true(kv_keylist_next(l));
	assert_int_equal(l->n, 2);
	expect(l, 0, "a\nb", 3);
	expect(l, 1, "c", 1);
	kv_keylist_fini(l);
	free(l);
}

static void
test_bad_lines_are_told_and_left_out(void **state)
{
	struct kv_keylist *l = malloc(sizeof(*l));
	char text[2 * KV_RECORDS_BYTES_MAX];
	size_t n = 0;

	(void)state;
	assert_non_null(l);
	n += (size_t)sprintf(text, "a\n\nb\n");
	memset(text + n, 'x', 1025);
	n += 1025;
	text[n++] = '\n';
	memset(text + n, 'y', KV_RECORDS_BYTES_MAX + 1);
	n += KV_RECORDS_BYTES_MAX + 1;
	n += (size_t)sprintf(text + n, "\nc\n");
	set_stdin(text, n);
	kv_keylist_init(l, NULL, 0, false);
	assert_true(kv_keylist_next(l));
	assert_int_equal(l->n, 3);
	expect(l, 0, "a", 1);
	expect(l, 1, "b", 1);
	expect(l, 2, "c", 1);
	assert_int_equal(l->code, EX_DATAERR);
	assert_non_null(strstr(said(), "stdin: line 2: the key is empty\n"));
	assert_non_null(strstr(said(), "stdin: line 4: the key is longer"));
	assert_non_null(strstr(said(), "stdin: line 5: the key is longer"));
	assert_false(kv_keylist_next(l));
	kv_keylist_fini(l);
	free(l);
}

static void
test_stdin_that_cannot_be_read(void **state)
{
	struct kv_keylist *l = malloc(sizeof(*l));

	(void)state;
	assert_non_null(l);
	set_stdin("", 0);
	fclose(stdin);
	stdin = fopen("/", "r");
	kv_keylist_init(l, NULL, 0, false);
	assert_false(kv_keylist_next(l));
	assert_int_equal(l->code, EX_NOINPUT);
	assert_string_equal(said(), ": stdin: Is a directory\n");
	kv_keylist_fini(l);
	free(l);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments_in_portions),
		cmocka_unit_test(test_lines_in_portions),
		cmocka_unit_test(test_nul_ends_keys),
		cmocka_unit_test(test_bad_lines_are_told_and_left_out),
		cmocka_unit_test(test_stdin_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, save_stderr, NULL);
}

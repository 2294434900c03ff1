#include "cli/gflags.h"

#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	FLAG_OFFLOAD,
	FLAG_TCP,
	FLAG_PORT,
	FLAG_COUNT,
	FLAG_TTL,
	FLAG_BYTES,
	FLAG_RATIO,
	FLAG_HOST,
	FLAG_OTHERS, /* another program's */
	FLAGS,
};

static const struct kv_gflags_flag flags[] = {
	[FLAG_OFFLOAD] = { "enable_offload", KV_GFLAGS_BOOL },
	[FLAG_TCP] = { "use_tcp_only", KV_GFLAGS_BOOL },
	[FLAG_PORT] = { "rpc_port", KV_GFLAGS_INT32 },
	[FLAG_COUNT] = { "count", KV_GFLAGS_UINT32 },
	[FLAG_TTL] = { "ttl", KV_GFLAGS_INT64 },
	[FLAG_BYTES] = { "quota_bytes", KV_GFLAGS_UINT64 },
	[FLAG_RATIO] = { "ratio", KV_GFLAGS_DOUBLE },
	[FLAG_HOST] = { "host", KV_GFLAGS_STRING },
	[FLAG_OTHERS] = { NULL, KV_GFLAGS_BOOL },
};

static struct kv_gflags_value values[FLAGS];
static char strays[256], err[256];
static size_t set_last;

static void
on_stray(void *arg, const char *word, const char *flag)
{
	size_t n = strlen(strays);

	(void)arg;
	snprintf(strays + n, sizeof(strays) - n, "%s<%s>", word,
		 flag ? flag : "");
}

static int
on_set(void *arg, size_t flag, char *text, size_t size)
{
	(void)arg;
	set_last = flag;
	if (flag != FLAG_TTL || strcmp(values[flag].text, "13") != 0)
		return 0;
	snprintf(text, size, "unlucky");
	return -ERANGE;
}

static struct kv_gflags g = {
	.flags = flags,
	.values = values,
	.count = FLAGS,
	.stray = on_stray,
	.set = on_set,
};

static int
parse(const char *const *words)
{
	char *argv[16], copies[16][160];
	int argc = 1;

	kv_gflags_fini(&g);
	strays[0] = err[0] = '\0';
	for (; words[argc - 1]; argc++) {
		assert_true(argc < 16);
		snprintf(copies[argc], sizeof(copies[0]), "%s",
			 words[argc - 1]);
		argv[argc] = copies[argc];
	}
	argv[0] = copies[0];
	return kv_gflags_words(&g, argc, argv, err, sizeof(err));
}

#define PARSE(...) parse((const char *const[]){ __VA_ARGS__, NULL })

static void
expect(size_t flag, const char *text)
{
	if (!text)
		assert_null(values[flag].text);
	else
		assert_string_equal(values[flag].text, text);
}

static int
teardown(void **state)
{
	(void)state;
	kv_gflags_fini(&g);
	return 0;
}

static void
test_every_spelling_of_a_value(void **state)
{
	static const char *const words[][2] = {
		{ "--rpc_port=5", NULL }, { "-rpc_port=5", NULL },
		{ "--rpc-port=5", NULL }, { "-rpc-port=5", NULL },
		{ "--rpc_port", "5" },    { "-rpc_port", "5" },
		{ "--rpc-port", "5" },    { "--rpc_port=0x5", NULL },
		{ "--rpc_port", "005" },  { "--rpc_port=+5", NULL },
	};

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(words); i++) {
		assert_int_equal(PARSE(words[i][0], words[i][1]), 0);
		expect(FLAG_PORT, "5");
		assert_int_equal(values[FLAG_PORT].source, KV_GFLAGS_COMMAND);
		assert_int_equal(set_last, FLAG_PORT);
		expect(FLAG_OFFLOAD, NULL);
	}
	assert_int_equal(PARSE("--host", "--rpc_port=5"), 0);
	expect(FLAG_HOST, "--rpc_port=5");
	expect(FLAG_PORT, NULL);
	assert_int_equal(PARSE("--host=a=b"), 0);
	expect(FLAG_HOST, "a=b");
	assert_int_equal(PARSE("--host="), 0);
	expect(FLAG_HOST, "");
	assert_int_equal(PARSE("--host", ""), 0);
	expect(FLAG_HOST, "");
	assert_string_equal(strays, "");
}

static void
test_booleans(void **state)
{
	static const char *const yes[] = {
		"--enable_offload",     "-enable_offload",
		"--enable-offload",     "--enable_offload=true",
		"--enable_offload=1",   "--enable_offload=T",
		"--enable_offload=YES", "--enable_offload=y",
	};
	static const char *const no[] = {
		"--noenable_offload",      "-noenable_offload",
		"--noenable-offload",      "--enable_offload=false",
		"--enable_offload=0",      "--enable_offload=F",
		"--enable_offload=No",     "--enable_offload=n",
		"--noenable_offload=true", /* the value does not count */
	};

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(yes); i++) {
		assert_int_equal(PARSE(yes[i]), 0);
		expect(FLAG_OFFLOAD, "true");
	}
	for (size_t i = 0; i < KV_ARRAY_LEN(no); i++) {
		assert_int_equal(PARSE(no[i]), 0);
		expect(FLAG_OFFLOAD, "false");
	}
}

static void
test_boolean_takes_no_word(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--enable_offload", "false", "--rpc_port", "5"),
			 0);
	expect(FLAG_OFFLOAD, "true");
	expect(FLAG_PORT, "5");
	assert_string_equal(strays, "false<enable_offload>");
	assert_int_equal(PARSE("--noenable_offload", "true"), 0);
	expect(FLAG_OFFLOAD, "false");
	assert_string_equal(strays, "true<enable_offload>");
	assert_int_equal(PARSE("--enable_offload=true", "false"), 0);
	assert_string_equal(strays, "false<>");
	assert_int_equal(PARSE("--enable_offload", "a", "b"), 0);
	assert_string_equal(strays, "a<enable_offload>b<>");
}

static void
test_words_that_are_no_flags(void **state)
{
	(void)state;
	assert_int_equal(PARSE("a", "-", "--rpc_port", "5", "", "--", "--x",
			       "--rpc_port=6"),
			 0);
	expect(FLAG_PORT, "5");
	assert_string_equal(strays, "a<>-<><>--x<>--rpc_port=6<>");
	assert_int_equal(PARSE("-", "-"), 0);
	assert_int_equal(PARSE("--host", "--"), 0);
	expect(FLAG_HOST, "--");
	assert_string_equal(strays, "");
}

static void
test_last_one_counts(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--rpc_port=5", "--rpc-port", "6",
			       "--enable_offload", "--noenable_offload"),
			 0);
	expect(FLAG_PORT, "6");
	expect(FLAG_OFFLOAD, "false");
}

static void
test_numbers(void **state)
{
	static const struct {
		const char *word, *want; /* NULL: none */
		size_t flag;
	} cases[] = {
		{ "--rpc_port=2147483647", "2147483647", FLAG_PORT },
		{ "--rpc_port=2147483648", NULL, FLAG_PORT },
		{ "--rpc_port=-2147483648", "-2147483648", FLAG_PORT },
		{ "--rpc_port=-2147483649", NULL, FLAG_PORT },
		{ "--rpc_port=5x", NULL, FLAG_PORT },
		{ "--rpc_port= 5", "5", FLAG_PORT },
		{ "--rpc_port=5 ", NULL, FLAG_PORT },
		{ "--rpc_port=", NULL, FLAG_PORT },
		{ "--rpc_port=true", NULL, FLAG_PORT },
		{ "--count=4294967295", "4294967295", FLAG_COUNT },
		{ "--count=4294967296", NULL, FLAG_COUNT },
		{ "--count=-1", NULL, FLAG_COUNT },
		{ "--ttl=-9223372036854775808", "-9223372036854775808",
		  FLAG_TTL },
		{ "--ttl=9223372036854775808", NULL, FLAG_TTL },
		{ "--quota_bytes=0xffffffffffffffff", "18446744073709551615",
		  FLAG_BYTES },
		{ "--quota_bytes=18446744073709551616", NULL, FLAG_BYTES },
		{ "--quota_bytes= -1", NULL, FLAG_BYTES },
		{ "--quota_bytes=1GB", NULL, FLAG_BYTES },
		{ "--ratio=0.90", "0.90", FLAG_RATIO },
		{ "--ratio=1e-3", "1e-3", FLAG_RATIO },
		{ "--ratio=1e999", NULL, FLAG_RATIO },
		{ "--ratio=0,9", NULL, FLAG_RATIO },
		{ "--enable_offload=on", NULL, FLAG_OFFLOAD },
		{ "--enable_offload=", NULL, FLAG_OFFLOAD },
		{ "--enable_offload=2", NULL, FLAG_OFFLOAD },
	};
	char want[160];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		const struct kv_gflags_flag *f = &flags[cases[i].flag];

		assert_int_equal(PARSE(cases[i].word),
				 cases[i].want ? 0 : -EINVAL);
		expect(cases[i].flag, cases[i].want);
		if (cases[i].want)
			continue;
		snprintf(want, sizeof(want),
			 "illegal value '%s' specified for %s flag '%s'",
			 strchr(cases[i].word, '=') + 1,
			 kv_gflags_type_name(f->type), f->name);
		assert_string_equal(err, want);
	}
}

static void
test_errors_in_the_words_of_gflags(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--nonsense=1"), -EINVAL);
	assert_string_equal(err, "unknown command line flag 'nonsense'");
	assert_int_equal(PARSE("--rpc_prot=1"), -EINVAL);
	assert_string_equal(err, "unknown command line flag 'rpc_prot', did "
				 "you mean 'rpc_port'?");
	assert_int_equal(PARSE("--no-enable_offload"), -EINVAL);
	assert_int_equal(PARSE("--nononsense"), -EINVAL);
	assert_int_equal(PARSE("---rpc_port=1"), -EINVAL);
	assert_string_equal(err, "unknown command line flag '-rpc_port', did "
				 "you mean 'rpc_port'?");
	assert_int_equal(PARSE("--=1"), -EINVAL);
	assert_string_equal(err, "unknown command line flag ''");
	assert_int_equal(PARSE("--Host=a"), -EINVAL);
	assert_int_equal(PARSE("--norpc_port"), -EINVAL);
	assert_string_equal(err, "boolean value (norpc_port) specified for "
				 "int32 command line flag");
	assert_int_equal(PARSE("--enable_offload", "--rpc-port"), -EINVAL);
	assert_string_equal(err, "flag '--rpc-port' is missing its argument");
	assert_int_equal(PARSE("--a\nb"), -EINVAL);
	assert_string_equal(err, "unknown command line flag 'a?b'");
	assert_int_equal(PARSE("--ttl=13", "--rpc_port=5"), -ERANGE);
	assert_string_equal(err, "unlucky");
	expect(FLAG_PORT, NULL);
}

static void
test_long_words(void **state)
{
	char word[160] = "--";

	(void)state;
	memset(word + 2, 'h', 150);
	assert_int_equal(PARSE(word), -EINVAL);
	assert_true(strlen(err) < 110);
	strcpy(word + 130, "=5");
	assert_int_equal(PARSE(word), -EINVAL);
	memset(word, 0, sizeof(word));
	strcpy(word, "--rpc_port=");
	memset(word + 11, '1', 100);
	assert_int_equal(PARSE(word), -EINVAL);
	assert_true(strlen(err) < 130);
}

static int
lines(const char *text)
{
	kv_gflags_fini(&g);
	err[0] = '\0';
	return kv_gflags_lines(&g, text, strlen(text), err, sizeof(err));
}

static void
test_lines(void **state)
{
	(void)state;
	assert_int_equal(lines("# flags\n\n  --rpc-port=5\r\n"
			       "-enable_offload\n\t# more\n--host=a b \n"
			       "--rpc_port=6"),
			 0);
	expect(FLAG_PORT, "6");
	expect(FLAG_OFFLOAD, "true");
	expect(FLAG_HOST, "a b ");
	assert_int_equal(values[FLAG_PORT].source, KV_GFLAGS_COMMAND);
	assert_int_equal(lines(""), 0);
	assert_int_equal(lines("\n"), 0);
}

static void
test_lines_that_are_wrong(void **state)
{
	char text[5000];

	(void)state;
	assert_int_equal(lines("--host=a\n--rpc_port\n"), -EINVAL);
	assert_string_equal(err, "2: flag 'rpc_port' is missing its argument");
	assert_int_equal(lines("--rpc_port 5\n"), -EINVAL);
	assert_string_equal(
		err,
		"1: unknown command line flag 'rpc_port 5', did you mean 'rpc_port'?");
	assert_int_equal(lines("mooncake_*\n--rpc_port=5\n"), -EINVAL);
	assert_string_equal(err, "1: 'mooncake_*' is no flag");
	assert_int_equal(lines("\n\n--ttl=13"), -ERANGE);
	assert_string_equal(err, "3: unlucky");
	memset(text, ' ', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(lines(text), -EINVAL);
	assert_string_equal(err, "1: too long");
	assert_int_equal(
		kv_gflags_lines(&g, "\n--host=a\0b", 11, err, sizeof(err)),
		-EINVAL);
	assert_string_equal(err, "2: a NUL byte");
}

static void
test_command_line_goes_before_a_file(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--rpc_port=5"), 0);
	assert_int_equal(kv_gflags_set(&g, FLAG_PORT, "6", KV_GFLAGS_FILE, err,
				       sizeof(err)),
			 0);
	expect(FLAG_PORT, "5");
	assert_int_equal(kv_gflags_set(&g, FLAG_HOST, "a", KV_GFLAGS_FILE, err,
				       sizeof(err)),
			 0);
	expect(FLAG_HOST, "a");
	assert_int_equal(kv_gflags_set(&g, FLAG_HOST, "b", KV_GFLAGS_FILE, err,
				       sizeof(err)),
			 0);
	expect(FLAG_HOST, "b");
	/* A value that does not count is looked at all the same. */
	assert_int_equal(kv_gflags_set(&g, FLAG_PORT, "x", KV_GFLAGS_FILE, err,
				       sizeof(err)),
			 -EINVAL);
	expect(FLAG_PORT, "5");
}

static void
test_find(void **state)
{
	(void)state;
	assert_int_equal(kv_gflags_find(&g, "rpc_port"), FLAG_PORT);
	assert_int_equal(kv_gflags_find(&g, "rpc-port"), FLAG_PORT);
	assert_int_equal(kv_gflags_find(&g, "rpc_por"), FLAGS);
	assert_int_equal(kv_gflags_find(&g, "rpc_ports"), FLAGS);
	assert_int_equal(kv_gflags_find(&g, ""), FLAGS);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_spelling_of_a_value),
		cmocka_unit_test(test_booleans),
		cmocka_unit_test(test_boolean_takes_no_word),
		cmocka_unit_test(test_words_that_are_no_flags),
		cmocka_unit_test(test_last_one_counts),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_errors_in_the_words_of_gflags),
		cmocka_unit_test(test_long_words),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_lines_that_are_wrong),
		cmocka_unit_test(test_command_line_goes_before_a_file),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

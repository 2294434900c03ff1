#include "cli/tool.h"

#include "test.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/opts.h"
#include "cli/out.h"

static FILE *complaints;

static int
save_stderr(void **state)
{
	(void)state;
	complaints = tmpfile();
	return complaints && dup2(fileno(complaints), 2) == 2 ? 0 : -1;
}

/* What went to stderr since the last time, less the program's name. */
static const char *
said(void)
{
	static char buf[2 * KV_TOOL_KEY_SIZE];
	size_t n = strlen(program_invocation_short_name);
	ssize_t len = pread(fileno(complaints), buf, sizeof(buf) - 1, 0);

	assert_int_equal(ftruncate(fileno(complaints), 0), 0);
	assert_int_equal(lseek(fileno(complaints), 0, SEEK_SET), 0);
	buf[len > 0 ? len : 0] = '\0';
	if (!buf[0])
		return buf;
	assert_memory_equal(buf, program_invocation_short_name, n);
	return buf + n;
}

static void
test_one_line_whatever_is_in_it(void **state)
{
	(void)state;
	errno = ENOENT;
	assert_int_equal(kv_tool_say(66, "a\nb: %m"), 66);
	assert_string_equal(said(), ": a?b: No such file or directory\n");
}

static void
test_what_fails_for_a_key(void **state)
{
	static const struct kv_key key = { "a\n\xff", 3 };

	(void)state;
	assert_int_equal(kv_tool_fail_key(&key, -KV_EMISS, 0), 1);
	assert_string_equal(said(), ": a\\n\\xff: no such key\n");
	assert_int_equal(kv_tool_fail_key(&key, -KV_ENOSPACE, 4ull << 30), 75);
	assert_string_equal(said(),
			    ": a\\n\\xff: no space in the pool, 4.0 GiB wanted;"
			    " `kvdiag pools` shows what is free or pinned\n");
	assert_int_equal(kv_tool_fail_key(&key, -KV_EUNREACHABLE, 0), 69);
	assert_non_null(strstr(said(), "; `kvdiag nodes` shows"));
	assert_int_equal(kv_tool_fail(-KV_ETIMEOUT), 75);
	assert_string_equal(said(),
			    ": deadline passed; --timeout gives it longer\n");
	assert_string_equal(kv_tool_hint(0), "");
	assert_string_equal(kv_tool_hint(-KV_EMISS), "");
}

static void
test_longest_key(void **state)
{
	char key[KV_KEY_BYTES_MAX], buf[KV_TOOL_KEY_SIZE];
	const struct kv_key k = { key, sizeof(key) };

	(void)state;
	memset(key, 0xff, sizeof(key));
	assert_int_equal(strlen(kv_tool_key(buf, &k)), 4 * sizeof(key));
	assert_int_equal(kv_tool_fail_key(&k, -KV_EMISS, 0), 1);
	assert_non_null(strstr(said(), "\\xff: no such key\n"));
}

static void
test_words(void **state)
{
	char buf[KV_TOOL_WORD_SIZE];

	(void)state;
	assert_string_equal(kv_tool_word(buf, 0), "ok");
	assert_string_equal(kv_tool_word(buf, -KV_EEXISTS), "exists");
	assert_string_equal(kv_tool_word(buf, -KV_EMISS), "miss");
	assert_string_equal(kv_tool_word(buf, KV_EUNREACHABLE), "unreachable");
	assert_string_equal(kv_tool_word(buf, -1000), "internal");
}

static void
test_worse(void **state)
{
	(void)state;
	assert_int_equal(kv_tool_worse(0, 0), 0);
	assert_int_equal(kv_tool_worse(0, 1), 1);
	assert_int_equal(kv_tool_worse(1, 0), 1);
	assert_int_equal(kv_tool_worse(1, 75), 75);
	assert_int_equal(kv_tool_worse(75, 1), 75);
	assert_int_equal(kv_tool_worse(69, 75), 69);
	assert_int_equal(kv_tool_worse(0, 75), 75);
}

static void
test_timeout(void **state)
{
	struct kv_opts o = { 0 };

	(void)state;
	assert_int_equal(kv_tool_timeout_ms(&o, 0), 10000);
	assert_in_range(kv_tool_timeout_ms(&o, 320 << 20), 20000, 20010);
	assert_int_equal(kv_tool_timeout_ms(&o, UINT64_MAX), UINT32_MAX);
	o.timeout_ms = 5;
	assert_int_equal(kv_tool_timeout_ms(&o, 320 << 20), 5);
}

static void
test_client_opts(void **state)
{
	struct kv_client_opts c;
	struct kv_opts o = { .timeout_ms = 7 };
	char err[256];

	(void)state;
	kv_conf_init(&o.conf);
	kv_tool_client_opts(&o, &c);
	assert_int_equal(c.size, sizeof(c));
	assert_null(c.master);
	assert_null(c.socket);
	assert_string_equal(c.tenant, "default");
	assert_int_equal(c.timeout_ms, 7);
	assert_int_equal(
		kv_conf_set(&o.conf, KV_CONF_SOCKET, "/s", err, sizeof(err)),
		0);
	assert_int_equal(kv_conf_set(&o.conf, KV_CONF_MASTER_SERVER_ADDRESS,
				     "a,b", err, sizeof(err)),
			 0);
	kv_tool_client_opts(&o, &c);
	assert_string_equal(c.master, "a,b");
	assert_string_equal(c.socket, "/s");
	assert_int_equal(
		kv_conf_set(&o.conf, KV_CONF_SOCKET, "", err, sizeof(err)), 0);
	kv_tool_client_opts(&o, &c);
	assert_string_equal(c.socket, "");
	/* The library speaks as the program does. */
	kv_warn("peer lost peer=%s", "n2");
	assert_string_equal(said(), ": peer lost peer=n2\n");
	kv_log_set_sink(NULL, NULL);
}

static int
must_not_run(void *input, struct kv_client *c)
{
	(void)input;
	(void)c;
	fail();
	return 0;
}

static void
test_main_without_a_pool(void **state)
{
	static const struct argp argp = { 0 };
	static char name[] = "kvtool", no_node[] = "--socket=";
	char *args[] = { name, no_node, NULL };
	const struct kv_opts_program program = { &argp, NULL, KV_CONF_TOOL };
	struct kv_opts o;

	(void)state;
	unsetenv("MOONCAKE_CONFIG_PATH");
	assert_int_equal(kv_tool_main(&o, &program, 2, args, must_not_run),
			 EX_UNAVAILABLE);
	assert_non_null(strstr(said(), ": no master is named"));
	kv_log_set_sink(NULL, NULL);
	setenv("MOONCAKE_CONFIG_PATH", "/nowhere/at/all", 1);
	assert_int_equal(kv_tool_main(&o, &program, 2, args, must_not_run),
			 EX_CONFIG);
	assert_non_null(strstr(said(), "/nowhere/at/all"));
	unsetenv("MOONCAKE_CONFIG_PATH");
}

static int
end_with(const char *path, int code)
{
	FILE *f = fopen(path, "w");
	struct kv_out *o;
	int rc;

	assert_non_null(f);
	o = kv_out_json_new(f);
	assert_non_null(o);
	kv_out_begin(o, KV_OUT_LIST, NULL);
	kv_out_string(o, NULL, "x");
	kv_out_end(o, KV_OUT_LIST);
	rc = kv_tool_end(o, code);
	fclose(f);
	return rc;
}

static void
test_end(void **state)
{
	(void)state;
	assert_int_equal(end_with("/dev/null", 0), 0);
	assert_int_equal(end_with("/dev/null", 1), 1);
	assert_string_equal(said(), "");
	assert_int_equal(end_with("/dev/full", 0), EX_IOERR);
	assert_string_equal(said(), ": stdout: No space left on device\n");
	assert_int_equal(end_with("/dev/full", 75), 75);
	said();
	assert_int_equal(kv_tool_end(NULL, 3), 3);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_line_whatever_is_in_it),
		cmocka_unit_test(test_what_fails_for_a_key),
		cmocka_unit_test(test_longest_key),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_worse),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_client_opts),
		cmocka_unit_test(test_main_without_a_pool),
		cmocka_unit_test(test_end),
	};

	return cmocka_run_group_tests(tests, save_stderr, NULL);
}

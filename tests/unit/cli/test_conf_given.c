/* Where the values of a configuration come from: keys known or not, options,
 * flags, files, the environment. */

#include "cli/conf.h"

#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"

#define GIB (1ll << 30)

/* One byte too many. */
#define LONG_TENANT                        \
	"0123456789abcdef0123456789abcdef" \
	"0123456789abcdef0123456789abcdef0"

/* One line each, after the other. */
static void
collect(void *arg, const char *text)
{
	char *out = arg;
	size_t n = strlen(out);

	snprintf(out + n, 8192 - n, "%s\n", text);
}

static void
test_unknown_keys_are_named_once(void **state)
{
	/* But not what others than vLLM read. */
	static const char text[] =
		"{\"local_hostname\": \"h\", \"Protocol\": \"h\","
		"\"Protocol\": 1, \"global-segment-size\": 1,"
		"\"master_adress\": 1, \"devicename\": 1,"
		"\"storage_root_dir\": {\"mode\": 5}}";
	char out[8192] = "", err[256];
	struct kv_conf c;

	(void)state;
	kv_conf_init(&c);
	c.warn = collect;
	c.warn_arg = out;
	assert_int_equal(kv_conf_parse(text, strlen(text), &c, err, 256), 0);
	assert_string_equal(
		out,
		"unknown key \"Protocol\" is ignored, did you mean "
		"\"protocol\"?\n"
		"unknown key \"global-segment-size\" is ignored, did you mean "
		"\"global_segment_size\"?\n"
		"unknown key \"master_adress\" is ignored\n"
		"unknown key \"devicename\" is ignored, did you mean "
		"\"device_name\"?\n");
}

static void
test_many_and_long_unknown_keys(void **state)
{
	char text[4096] = "{", out[8192] = "", err[256];
	size_t n = 1, lines = 0;
	struct kv_conf c;

	(void)state;
	for (int i = 0; i < 100; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "\"key%d\": %d,", i, i);
	snprintf(text + n, sizeof(text) - n, "\"%0100d\": 1}", 0);
	kv_conf_init(&c);
	c.warn = collect;
	c.warn_arg = out;
	assert_int_equal(kv_conf_parse(text, strlen(text), &c, err, 256), 0);
	for (const char *p = out; (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, 33);
	assert_non_null(strstr(out, "\nmore unknown keys are ignored\n"));

	snprintf(text, sizeof(text), "{\"%0100d\": 1}", 0);
	out[0] = '\0';
	assert_int_equal(kv_conf_parse(text, strlen(text), &c, err, 256), 0);
	snprintf(text, sizeof(text), "unknown key \"%064d...\" is ignored\n",
		 0);
	assert_string_equal(out, text);
}

static void
test_options_win_in_any_order(void **state)
{
	static const char file[] = "{\"protocol\": \"rdma\", \"mode\": "
				   "\"standalone-store\", "
				   "\"global_segment_size\": 0}";
	enum kv_conf_number size = KV_CONF_GLOBAL_SEGMENT_SIZE;
	struct kv_conf c;
	char err[256];

	(void)state;
	kv_conf_init(&c);
	assert_int_equal(kv_conf_set(&c, size, "8GiB", err, 256), 0);
	assert_int_equal(kv_conf_parse(file, strlen(file), &c, err, 256), 0);
	assert_int_equal(kv_conf_set(&c, KV_CONF_PROTOCOL, "tcp", err, 256), 0);
	assert_int_equal(c.global_segment_size, 8 * GIB);
	assert_string_equal(c.protocol, "tcp");
	assert_string_equal(c.mode, "standalone-store");
	assert_string_equal(kv_conf_source_name(&c, size), "option");
	assert_string_equal(kv_conf_source_name(&c, KV_CONF_PROTOCOL),
			    "option");
	assert_string_equal(kv_conf_source_name(&c, KV_CONF_MODE), "file");
	assert_string_equal(kv_conf_source_name(&c, KV_CONF_PORT), "default");
	/* The file's 0 is the engines'; the option's 8 GiB is this node's. */
	assert_int_equal(kv_conf_check(&c, err, 256), 0);
}

static void
test_bad_options(void **state)
{
	static const struct {
		enum kv_conf_number number;
		const char *text, *why;
	} cases[] = {
		{ KV_CONF_GLOBAL_SEGMENT_SIZE, "1.2.3gb",
		  "--global-segment-size: '1.2.3gb' is no size such as 512MB or "
		  "1.5GB" },
		{ KV_CONF_GLOBAL_SEGMENT_SIZE, "-1",
		  "--global-segment-size: '-1' is no size such as 512MB or "
		  "1.5GB" },
		{ KV_CONF_LOCAL_BUFFER_SIZE, "9999999999gb",
		  "--local-buffer-size: '9999999999gb' is too large" },
		{ KV_CONF_PORT, "http",
		  "--port: 'http' is no port (0..65535)" },
		{ KV_CONF_CLIENT_TTL, "",
		  "--client-ttl: '' is no duration such "
		  "as 10s or 500ms" },
		{ KV_CONF_TENANT_ID, " ", "--tenant: the name is empty" },
		{ KV_CONF_TENANT_ID, LONG_TENANT,
		  "--tenant: longer than 64 bytes" },
		{ KV_CONF_PROTOCOL, "foo",
		  "--protocol: 'foo' is none of auto, rdma, tcp" },
		{ KV_CONF_HUGEPAGES, "maybe",
		  "--hugepages: 'maybe' is neither yes nor no" },
	};
	struct kv_conf c;
	char err[256];

	(void)state;
	kv_conf_init(&c);
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		assert_int_equal(kv_conf_set(&c, cases[i].number, cases[i].text,
					     err, sizeof(err)),
				 -EINVAL);
		assert_string_equal(err, cases[i].why);
		assert_string_equal(kv_conf_source_name(&c, cases[i].number),
				    "default");
	}
	assert_int_equal(kv_conf_set(&c, KV_CONF_MODE, "xyz", err, 256), 0);
	assert_int_equal(kv_conf_check(&c, err, 256), -EINVAL);
	assert_string_equal(err,
			    "--mode: unknown Mooncake mode: 'xyz', neither "
			    "embedded nor standalone-store");
	kv_conf_init(&c);
	assert_int_equal(kv_conf_set(&c, KV_CONF_CLIENT_TTL, "99ms", err, 256),
			 0);
	assert_int_equal(kv_conf_check(&c, err, 256), -EINVAL);
	assert_string_equal(err,
			    "--client-ttl: client_ttl must be 100ms or more: "
			    "nodes send four heartbeats in that time");
}

static void
test_flags(void **state)
{
	enum kv_conf_number number = KV_CONF_HUGEPAGES;
	struct kv_conf c;
	char err[256];

	(void)state;
	kv_conf_init(&c);
	assert_int_equal(kv_conf_set(&c, number, NULL, err, 256), 0);
	assert_true(c.hugepages);
	assert_int_equal(kv_conf_set(&c, number, "No", err, 256), 0);
	assert_false(c.hugepages);
}

static void
test_values_are_shown(void **state)
{
	static const struct {
		enum kv_conf_number number;
		const char *text;
	} cases[] = {
		{ KV_CONF_GLOBAL_SEGMENT_SIZE, "4294967296" },
		{ KV_CONF_ENABLE_OFFLOAD, "false" },
		{ KV_CONF_TENANT_ID, "default" },
		{ KV_CONF_MODE, "embedded" },
		{ KV_CONF_RPC_PORT, "50051" },
		{ KV_CONF_CLIENT_TTL, "10s" },
	};
	struct kv_conf c;
	char text[KV_CONF_TEXT_SIZE], err[64];

	(void)state;
	kv_conf_init(&c);
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		kv_conf_show(&c, cases[i].number, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
	}
	assert_int_equal(kv_conf_set(&c, KV_CONF_CLIENT_TTL, "1.5s", err, 64),
			 0);
	kv_conf_show(&c, KV_CONF_CLIENT_TTL, text, sizeof(text));
	assert_string_equal(text, "1500000000ns");
}

/* An option needs one meaning within a program, and a key one in the file. */
static void
test_keys_do_not_collide(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KV_CONF_KEYS; i++) {
		const struct kv_conf_key *a = kv_conf_key(i);

		assert_non_null(a->option);
		assert_true(a->who != 0);
		for (unsigned j = 0; j < i; j++) {
			const struct kv_conf_key *b = kv_conf_key(j);

			assert_string_not_equal(a->name, b->name);
			if (a->who & b->who) {
				assert_string_not_equal(a->option, b->option);
				assert_true(!a->letter ||
					    a->letter != b->letter);
			}
		}
	}
}

/* A temporary file with that content; the caller unlinks it. */
static void
write_file(char *path, const char *text, size_t n)
{
	int fd;

	strcpy(path, "/tmp/kvconf-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, n), (ssize_t)n);
	assert_int_equal(close(fd), 0);
}

static void
test_load(void **state)
{
	static const char good[] = "{\"protocol\": \"tcp\", \"Mode\": 1}";
	static const char bad[] = "{\"protocol\":\n \"tcp\" \"mode\": 1}";
	char path[32], want[256], out[8192] = "", err[256];
	struct kv_conf c;

	(void)state;
	kv_conf_init(&c);
	c.warn = collect;
	c.warn_arg = out;
	write_file(path, good, strlen(good));
	assert_int_equal(kv_conf_load(path, &c, err, sizeof(err)), 0);
	unlink(path);
	assert_string_equal(c.protocol, "tcp");
	assert_string_equal(c.file, path);
	snprintf(want, sizeof(want),
		 "%s: unknown key \"Mode\" is ignored, did you mean "
		 "\"mode\"?\n",
		 path);
	assert_string_equal(out, want);

	write_file(path, bad, strlen(bad));
	assert_int_equal(kv_conf_load(path, &c, err, sizeof(err)), -EINVAL);
	unlink(path);
	snprintf(want, sizeof(want), "%s:2:8: expected ',' or '}'", path);
	assert_string_equal(err, want);

	write_file(path, "{\"mode\": \"x\"}", 13);
	assert_int_equal(kv_conf_load(path, &c, err, sizeof(err)), 0);
	unlink(path);
	assert_int_equal(kv_conf_check(&c, err, sizeof(err)), -EINVAL);
	snprintf(want, sizeof(want), "%s: unknown Mooncake mode: 'x'", path);
	assert_string_equal(err, want);
}

static void
test_load_that_fails(void **state)
{
	static char big[KV_CONF_FILE_BYTES_MAX + 1];
	char path[32], err[256];
	struct kv_conf c;

	(void)state;
	kv_conf_init(&c);
	assert_int_equal(kv_conf_load("/no/such.json", &c, err, 256), -ENOENT);
	assert_string_equal(err, "/no/such.json: No such file or directory");
	assert_int_equal(kv_conf_load("/tmp", &c, err, 256), -EISDIR);
	assert_string_equal(err, "/tmp: Is a directory");
	/* Endless, and yet bounded. */
	assert_int_equal(kv_conf_load("/dev/zero", &c, err, 256), -EFBIG);
	assert_string_equal(err, "/dev/zero: larger than 1048576 bytes");

	memset(big, ' ', sizeof(big));
	big[sizeof(big) - 3] = '{';
	big[sizeof(big) - 2] = '}';
	write_file(path, big, sizeof(big) - 1);
	assert_int_equal(kv_conf_load(path, &c, err, sizeof(err)), 0);
	unlink(path);
	assert_int_equal(kv_conf_parse(big, sizeof(big), &c, err, 256), -EFBIG);
}

static void
test_load_by_environment(void **state)
{
	static const char unset[] = "The environment variable "
				    "'MOONCAKE_CONFIG_PATH' is not set.";
	char path[32], err[256];
	struct kv_conf c;

	(void)state;
	kv_conf_init(&c);
	unsetenv("MOONCAKE_CONFIG_PATH");
	assert_int_equal(kv_conf_load(NULL, &c, err, sizeof(err)), -ENOENT);
	assert_string_equal(err, unset);
	setenv("MOONCAKE_CONFIG_PATH", "", 1);
	assert_null(kv_conf_env_path());
	assert_int_equal(kv_conf_load(NULL, &c, err, sizeof(err)), -ENOENT);
	assert_string_equal(err, unset);

	write_file(path, "{\"protocol\": \"tcp\"}", 19);
	setenv("MOONCAKE_CONFIG_PATH", path, 1);
	assert_int_equal(kv_conf_load(NULL, &c, err, sizeof(err)), 0);
	unlink(path);
	unsetenv("MOONCAKE_CONFIG_PATH");
	assert_string_equal(c.protocol, "tcp");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown_keys_are_named_once),
		cmocka_unit_test(test_many_and_long_unknown_keys),
		cmocka_unit_test(test_options_win_in_any_order),
		cmocka_unit_test(test_bad_options),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_values_are_shown),
		cmocka_unit_test(test_keys_do_not_collide),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_load_that_fails),
		cmocka_unit_test(test_load_by_environment),
	};

	return cmocka_run_group_tests_name("cli/conf, given", tests, NULL,
					   NULL);
}

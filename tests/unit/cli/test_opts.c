#include "cli/opts.h"

#include "test.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "kvpool.h"

/* A program: one option and one argument of its own. */
struct program {
	struct kv_opts common;
	uint64_t batch;
	const char *key;
};

static error_t
parse_own(int key, char *arg, struct argp_state *state)
{
	struct program *p = state->input;

	switch (key) {
	case 'b':
		p->batch = kv_opts_number(state, "--batch", arg, 1, 1024);
		return 0;
	case 'z':
		p->batch = kv_opts_size(state, "--bytes", arg, 1, 1 << 20);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 0)
			argp_usage(state);
		p->key = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option own_options[] = {
	{ .name = "batch", .key = 'b', .arg = "N", .doc = "keys of one call" },
	{ .name = "bytes", .key = 'z', .arg = "SIZE", .doc = "of a value" },
	{ 0 },
};

static const struct argp own = {
	.options = own_options,
	.parser = parse_own,
	.args_doc = "[KEY]",
	.doc = "Tries the options.",
};

static void
parse(struct program *p, unsigned who, const char *const *args)
{
	char *argv[16] = { NULL };
	int argc = 0;

	while (args[argc])
		argc++;
	assert_true(argc < 16);
	memcpy(argv, args, (size_t)argc * sizeof(*args));
	*p = (struct program){ .batch = 7 };
	kv_opts_parse(&p->common, &(struct kv_opts_program){ &own, p, who },
		      argc, argv);
}

static const char *const tool_args[] = {
	"/usr/bin/kvtool",
	"-m",
	"a:1,[fe80::1%eth0]:2",
	"--batch=16",
	"k",
	"--json",
	"--timeout",
	"1.5s",
	"-s",
	"/tmp/x.sock",
	"-v",
	"--tenant=t1",
	NULL,
};

static void
test_options_of_a_tool(void **state)
{
	char path[128];
	struct program p;

	(void)state;
	parse(&p, KV_CONF_TOOL, tool_args);
	assert_int_equal(p.batch, 16);
	assert_string_equal(p.key, "k");
	assert_string_equal(p.common.conf.master_server_address,
			    "a:1,[fe80::1%eth0]:2");
	assert_string_equal(p.common.conf.tenant_id, "t1");
	assert_int_equal(p.common.timeout_ms, 1500);
	assert_true(p.common.json);
	assert_true(kv_log_is_on(KV_LOG_INFO));
	assert_false(kv_log_is_on(KV_LOG_DEBUG));
	assert_int_equal(kv_opts_socket(&p.common, path, sizeof(path)), 11);
	assert_string_equal(path, "/tmp/x.sock");
	assert_int_equal(kv_opts_socket(&p.common, path, 11), -ENAMETOOLONG);
	*p.common.conf.socket = '\0';
	assert_int_equal(kv_opts_socket(&p.common, path, sizeof(path)), 0);
	assert_string_equal(path, "");
}

static const char *const daemon_args[] = {
	"kvclient",
	"--global-segment-size",
	"512MB",
	"--hugepages",
	"--enable-offload=no",
	"--http-port=9300",
	"--config=/dev/null",
	NULL,
};

static void
test_options_of_a_daemon(void **state)
{
	struct program p;

	(void)state;
	parse(&p, KV_CONF_CLIENT, daemon_args);
	assert_int_equal(p.common.conf.global_segment_size, 512 << 20);
	assert_true(p.common.conf.hugepages);
	assert_false(p.common.conf.enable_offload);
	/* Not kvmaster's key of that option. */
	assert_int_equal(p.common.conf.client_http_port, 9300);
	assert_int_equal(p.common.conf.http_port, 9003);
	assert_string_equal(p.common.config, "/dev/null");
	assert_int_equal(p.common.timeout_ms, 0);
	assert_int_equal(p.batch, 7);
	assert_true(kv_log_is_on(KV_LOG_INFO));
}

/* Parses and loads in a child; its exit code, what it wrote in OUT. */
static int
run(unsigned who, const char *const *args, char *out, size_t size)
{
	static char name[] = "kvtool";
	const char *argv[16] = { name };
	struct program p;
	int fds[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	for (int i = 0; i < 14 && args[i]; i++)
		argv[i + 1] = args[i];
	fflush(NULL);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], 1);
		dup2(fds[1], 2);
		close(fds[0]);
		close(fds[1]);
		program_invocation_short_name = name;
		parse(&p, who, argv);
		status = kv_opts_load(&p.common);
		fflush(NULL);
		_exit(status);
	}
	close(fds[1]);
	while ((got = read(fds[0], out + n, size - 1 - n)) > 0)
		n += (size_t)got;
	out[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

#define RUN(who, out, ...) \
	run(who, (const char *const[]){ __VA_ARGS__, NULL }, out, sizeof(out))

/* What comes of its flags is seen in test_mooncake. */
static void
test_daemon_by_the_name_of_mooncake(void **state)
{
	static const char *const args[] = { "/opt/mooncake_master", "-port",
					    "5", "--client_ttl=20", NULL };
	struct program p;

	(void)state;
	parse(&p, KV_CONF_MASTER, args);
	assert_int_equal(p.common.conf.rpc_port, 5);
	assert_int_equal(p.common.conf.client_ttl_ns, 20 * KV_NS_PER_S);
	assert_true(p.common.is_mooncake);
	assert_int_equal(setenv("MOONCAKE_CONFIG_PATH", "/nothing", 1), 0);
	assert_int_equal(kv_opts_load(&p.common), 0);
	p.common.is_mooncake = false;
	assert_int_equal(kv_opts_load(&p.common), 78);
	assert_int_equal(unsetenv("MOONCAKE_CONFIG_PATH"), 0);
	parse(&p, KV_CONF_CLIENT, daemon_args);
	assert_false(p.common.is_mooncake);
}

static void
test_bad_values_end_in_one_line_and_64(void **state)
{
	static const struct {
		unsigned who;
		const char *option, *value, *line;
	} cases[] = {
		{ KV_CONF_TOOL, "--batch", "x",
		  "kvtool: --batch: 'x' is no number from 1 to 1024\n" },
		{ KV_CONF_TOOL, "--batch", "0",
		  "kvtool: --batch: '0' is no number from 1 to 1024\n" },
		{ KV_CONF_TOOL, "--bytes", "1.2.3gb",
		  "kvtool: --bytes: '1.2.3gb' is no size such as 512MB or "
		  "1.5GB\n" },
		{ KV_CONF_TOOL, "--bytes", "2MB",
		  "kvtool: --bytes: '2MB' is not from 1 B to 1.0 MiB\n" },
		{ KV_CONF_TOOL, "--timeout", "soon",
		  "kvtool: --timeout: 'soon' is no duration such as 10s or "
		  "500ms\n" },
		{ KV_CONF_TOOL, "--timeout", "0",
		  "kvtool: --timeout: '0' is too short\n" },
		{ KV_CONF_TOOL, "--timeout", "9999d",
		  "kvtool: --timeout: '9999d' is too long\n" },
		{ KV_CONF_TOOL, "--master", "host:0",
		  "kvtool: --master: 'host:0': the port is not from 1 to "
		  "65535\n" },
		{ KV_CONF_TOOL, "-m", "a:1,,b:2",
		  "kvtool: --master: '': no host\n" },
		{ KV_CONF_CLIENT, "--port", "tcp://10.0.0.1:80",
		  "kvtool: --port: 'tcp://10.0.0.1:80' is no port "
		  "(0..65535)\n" },
		{ KV_CONF_CLIENT, "--global-segment-size", "lots",
		  "kvtool: --global-segment-size: 'lots' is no size such as "
		  "512MB or 1.5GB\n" },
		{ KV_CONF_DIALER, "--qps", "0",
		  "kvtool: --qps: '0' is no number from 1 to 4\n" },
		{ KV_CONF_DIALER, "--qps", "5",
		  "kvtool: --qps: '5' is no number from 1 to 4\n" },
		{ KV_CONF_DIALER, "--qps", "x",
		  "kvtool: --qps: 'x' is no number from 1 to 4\n" },
		{ KV_CONF_CLIENT, "--slice-size", "0",
		  "kvtool: --slice-size: 0 bytes are not from 64KB to 1GB\n" },
		{ KV_CONF_CLIENT, "--slice-size", "65535",
		  "kvtool: --slice-size: 65535 bytes are not from 64KB to "
		  "1GB\n" },
		{ KV_CONF_MOVER, "--slice-size", "2GB",
		  "kvtool: --slice-size: 2147483648 bytes are not from 64KB "
		  "to 1GB\n" },
		{ KV_CONF_MOVER, "--slice-size", "x",
		  "kvtool: --slice-size: 'x' is no size such as 512MB or "
		  "1.5GB\n" },
		{ KV_CONF_CLIENT, "--mode", "x'y",
		  "kvtool: --mode: unknown Mooncake mode: \"x'y\", neither "
		  "embedded nor standalone-store\n" },
	};
	char out[1024];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		assert_int_equal(
			RUN(cases[i].who, out, cases[i].option, cases[i].value),
			64);
		assert_string_equal(out, cases[i].line);
	}
}

/* --qps is for who dials, --slice-size for who moves bytes. */
static void
test_what_is_not_said_of_queue_pairs_is_the_environments(void **state)
{
	static const char *const none[] = { "kvtool", NULL };
	static const char *const both[] = { "kvtool", "--qps=4",
					    "--slice-size=64KB", NULL };
	char out[256];
	struct program p;

	(void)state;
	parse(&p, KV_CONF_DIALER | KV_CONF_MOVER, none);
	assert_int_equal(kv_opts_qps(&p.common), 0);
	assert_int_equal(kv_opts_slice_bytes(&p.common), 0);
	parse(&p, KV_CONF_DIALER | KV_CONF_MOVER, both);
	assert_int_equal(kv_opts_qps(&p.common), 4);
	assert_int_equal(kv_opts_slice_bytes(&p.common), 64 << 10);
	assert_int_equal(RUN(KV_CONF_TOOL, out, "--qps=2"), 64);
	assert_non_null(strstr(out, "unrecognized option"));
	assert_int_equal(
		RUN(KV_CONF_TOOL | KV_CONF_DIALER, out, "--slice-size=1MB"),
		64);
	assert_int_equal(RUN(KV_CONF_CLIENT, out, "--qps=2"), 64);
	assert_int_equal(
		RUN(KV_CONF_TOOL | KV_CONF_DIALER, out, "--qps=2", "--json"),
		0);
}

static void
test_socket_path_has_a_limit(void **state)
{
	char path[KV_SOCKPATH_BYTES_MAX + 2], out[1024];

	(void)state;
	memset(path, 'a', sizeof(path));
	path[KV_SOCKPATH_BYTES_MAX + 1] = '\0';
	assert_int_equal(RUN(KV_CONF_TOOL, out, "-s", path), 64);
	assert_string_equal(out, "kvtool: --socket: longer than 107 bytes\n");
	path[KV_SOCKPATH_BYTES_MAX] = '\0';
	assert_int_equal(RUN(KV_CONF_TOOL, out, "-s", path), 0);
}

static void
test_unknown_options_are_refused(void **state)
{
	char out[4096];

	(void)state;
	assert_int_equal(RUN(KV_CONF_TOOL, out, "--nonsense"), 64);
	assert_non_null(strstr(out, "unrecognized option '--nonsense'"));
	/* Others' options are none of this program's. */
	assert_int_equal(RUN(KV_CONF_TOOL, out, "--rpc-port=1"), 64);
	assert_int_equal(RUN(KV_CONF_MASTER, out, "--port=1"), 64);
	assert_int_equal(RUN(KV_CONF_MASTER, out, "--json"), 64);
	assert_int_equal(RUN(KV_CONF_TOOL, out, "one", "two"), 64);
}

static void
test_version_and_help(void **state)
{
	char out[8192];

	(void)state;
	assert_int_equal(RUN(KV_CONF_TOOL, out, "--version"), 0);
	assert_string_equal(out, "kvtool (kvpool) " KVPOOL_VERSION "\n");
	assert_int_equal(RUN(KV_CONF_TOOL, out, "--help"), 0);
	assert_non_null(strstr(out, "Usage: kvtool [OPTION...] [KEY]\n"
				    "Tries the options.\n"));
	assert_non_null(strstr(out, "-b, --batch=N"));
	assert_non_null(strstr(out, "\n Common options:\n"));
	assert_non_null(strstr(out, "-m, --master=HOST:PORT[,...]"));
	assert_null(strstr(out, "--rpc-port"));
	assert_int_equal(RUN(KV_CONF_MASTER, out, "--help"), 0);
	assert_non_null(strstr(out, "--rpc-port=PORT"));
	assert_null(strstr(out, "--master"));
	for (const char *p = out, *end; (end = strchr(p, '\n')); p = end + 1)
		assert_true(end - p <= 80);
}

static void
write_file(char *path, const char *text)
{
	ssize_t n = (ssize_t)strlen(text);
	int fd;

	strcpy(path, "/tmp/kvopts-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, (size_t)n), n);
	assert_int_equal(close(fd), 0);
}

static void
test_bad_files_end_in_one_line_and_78(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "{\"mode\": \"xyz\"}", ": unknown Mooncake mode: 'xyz'" },
		{ "{\"mode\":}", ":1:9: expected a value" },
		{ "{\"protocol\": []}",
		  ": protocol: must be a string, not list" },
		{ "{\"global_segment_size\": \"1.2.3gb\"}",
		  ": global_segment_size: Invalid numeric value '1.2.3' in: "
		  "'1.2.3gb'" },
		{ "{\"master_server_address\": \"m:x\"}",
		  ": master_server_address: 'm:x': the port is not from 1 to "
		  "65535" },
	};
	char path[32], out[1024], want[1024];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		write_file(path, cases[i].text);
		setenv("MOONCAKE_CONFIG_PATH", path, 1);
		assert_int_equal(RUN(KV_CONF_TOOL, out, "k"), 78);
		snprintf(want, sizeof(want), "kvtool: %s%s\n", path,
			 cases[i].why);
		assert_string_equal(out, want);
		unsetenv("MOONCAKE_CONFIG_PATH");
		assert_int_equal(RUN(KV_CONF_CLIENT, out, "--config", path),
				 78);
		assert_string_equal(out, want);
		unlink(path);
	}
	assert_int_equal(RUN(KV_CONF_CLIENT, out, "--config=/no/such"), 78);
	assert_string_equal(out,
			    "kvtool: /no/such: No such file or directory\n");
}

static void
test_options_win_over_the_file(void **state)
{
	char path[32], out[1024], want[1024];
	struct program p;

	(void)state;
	write_file(path, "{\"master_server_address\": \"file:1\", "
			 "\"socket\": \"/file\", \"hostname\": 1}");
	setenv("MOONCAKE_CONFIG_PATH", path, 1);
	assert_int_equal(RUN(KV_CONF_TOOL, out, "-m", "opt:2"), 0);
	snprintf(want, sizeof(want),
		 "kvtool: %s: unknown key \"hostname\" is ignored\n", path);
	assert_string_equal(out, want);
	parse(&p, KV_CONF_TOOL, tool_args);
	assert_int_equal(kv_opts_load(&p.common), 0);
	assert_string_equal(p.common.conf.master_server_address,
			    "a:1,[fe80::1%eth0]:2");
	assert_string_equal(p.common.conf.socket, "/tmp/x.sock");
	unsetenv("MOONCAKE_CONFIG_PATH");
	unlink(path);
}

/* Kubernetes sets such variables for every service of a namespace. */
static void
test_service_links_have_no_effect(void **state)
{
	static const char *const names[] = {
		"KVMASTER_PORT",
		"KVCLIENT_PORT",
		"KVPOOL_PORT",
		"MOONCAKE_MASTER_PORT",
		"MOONCAKE_MASTER_SERVICE_HOST",
		"MOONCAKE_MASTER",
		"KVTOOL_PORT",
	};
	const char *const argv[] = { "kvclient", NULL };
	struct program before, after;

	(void)state;
	parse(&before, KV_CONF_CLIENT, argv);
	assert_int_equal(kv_opts_load(&before.common), 0);
	for (size_t i = 0; i < KV_ARRAY_LEN(names); i++)
		setenv(names[i], "tcp://10.0.0.1:50051", 1);
	parse(&after, KV_CONF_CLIENT, argv);
	assert_int_equal(kv_opts_load(&after.common), 0);
	for (size_t i = 0; i < KV_ARRAY_LEN(names); i++)
		unsetenv(names[i]);
	assert_memory_equal(&before, &after, sizeof(before));
}

/* Only who asks on the command line means it. */
static void
test_rdma_is_asked_for_or_wished(void **state)
{
	static const char rdma[] = "{\"protocol\": \"rdma\"}";
	static const char other[] = "{\"protocol\": \"ascend\"}";
	struct kv_opts o = { .json = false };
	struct kv_conf *c = &o.conf;
	char err[64];

	(void)state;
	kv_conf_init(c);
	assert_int_equal(kv_opts_protocol(&o), KV_PROTOCOL_AUTO);
	assert_false(kv_conf_parse(other, strlen(other), c, err, sizeof(err)));
	assert_int_equal(kv_opts_protocol(&o), KV_PROTOCOL_AUTO);
	assert_false(kv_conf_parse(rdma, strlen(rdma), c, err, sizeof(err)));
	assert_int_equal(kv_opts_protocol(&o), KV_PROTOCOL_RDMA_OR_TCP);
	assert_false(kv_conf_set(c, KV_CONF_PROTOCOL, "rdma", err, 64));
	assert_int_equal(kv_opts_protocol(&o), KV_PROTOCOL_RDMA);
	o.is_mooncake = true;
	assert_int_equal(kv_opts_protocol(&o), KV_PROTOCOL_RDMA_OR_TCP);
	assert_false(kv_conf_set(c, KV_CONF_PROTOCOL, "tcp", err, 64));
	assert_int_equal(kv_opts_protocol(&o), KV_PROTOCOL_TCP);
}

static void
test_addresses(void **state)
{
	static const char *const good[] = {
		"h",
		"h:1",
		"h:65535",
		"10.9.0.1:50051",
		"[::1]",
		"[fd00:9::1]:50051",
		"[fe80::1%eth0]",
		"a-b.c_d.:5,[::]:6,x",
		"a,b,c,d",
	};
	static const char *const bad[] = {
		"",
		",",
		"a,",
		":1",
		"h:",
		"h:0",
		"h:65536",
		"h:-1",
		"h:1 ",
		"[::1",
		"[::1]x",
		"[::1]:",
		"[]:1",
		"[h]:1",
		"::1",
		"fe80::1:50051",
		"999.1.1.1",
		"10.1",
		"a..b",
		".a",
		"a,b,c,d,e",
		"http://h:1",
		"h h",
		"h/1",
		"tcp://10.0.0.1:80",
	};
	char err[512], name[512];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(good); i++)
		assert_int_equal(kv_opts_check_masters(good[i], err, 512), 0);
	for (size_t i = 0; i < KV_ARRAY_LEN(bad); i++)
		assert_int_equal(kv_opts_check_masters(bad[i], err, 512),
				 -EINVAL);
	memset(name, 'a', sizeof(name));
	name[400] = '\0';
	assert_int_equal(kv_opts_check_masters(name, err, 512), -EINVAL);
	assert_string_equal(err,
			    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa': too long");
}

static void
test_hosts(void **state)
{
	static const char *const good[] = {
		"h", "a-b.c_d.", "10.9.0.1", "::1", "[fd00:9::1]",
	};
	static const char *const bad[] = {
		"h:1",       "[::1]:1", "a b", "10.1", "[::1",
		"1.2.3.4:5", "http:",   "*",   "a,b",
	};
	char err[512], name[512];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(good); i++)
		assert_int_equal(kv_opts_check_host(good[i], err, 512), 0);
	for (size_t i = 0; i < KV_ARRAY_LEN(bad); i++)
		assert_int_equal(kv_opts_check_host(bad[i], err, 512), -EINVAL);
	assert_int_equal(kv_opts_check_host("h:1", err, 512), -EINVAL);
	assert_string_equal(err, "'h:1': the port is --port");
	memset(name, 'a', sizeof(name));
	name[121] = '\0';
	assert_int_equal(kv_opts_check_host(name, err, 512), -EINVAL);
	memset(name, '.', 121);
	for (size_t i = 0; i < 120; i += 2)
		name[i] = 'a';
	name[120] = '\0';
	assert_int_equal(kv_opts_check_host(name, err, 512), 0);
}

/* Else the first socket would become stdout, and take what is printed. */
static void
test_closed_descriptors_stay_unusable(void **state)
{
	const char *const argv[] = { "kvtool", NULL };
	struct program p;
	int status;
	pid_t pid;

	(void)state;
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(0);
		close(1);
		parse(&p, KV_CONF_TOOL, argv);
		if (open("/dev/null", O_RDWR) < 3)
			_exit(1);
		if (write(1, "x", 1) != -1 || errno != EBADF)
			_exit(2);
		if (read(0, &status, 1) != -1 || errno != EBADF)
			_exit(3);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
test_why_a_daemon_did_not_start(void **state)
{
	(void)state;
	assert_int_equal(kv_opts_exit_code(EINVAL), 64);
	assert_int_equal(kv_opts_exit_code(ENOMEM), 71);
	assert_int_equal(kv_opts_exit_code(EMFILE), 71);
	assert_int_equal(kv_opts_exit_code(EACCES), 77);
	assert_int_equal(kv_opts_exit_code(EADDRINUSE), 69);
}

static int
no_environment(void **state)
{
	(void)state;
	unsetenv("MOONCAKE_CONFIG_PATH");
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options_of_a_tool),
		cmocka_unit_test(test_options_of_a_daemon),
		cmocka_unit_test(test_daemon_by_the_name_of_mooncake),
		cmocka_unit_test(test_bad_values_end_in_one_line_and_64),
		cmocka_unit_test(
			test_what_is_not_said_of_queue_pairs_is_the_environments),
		cmocka_unit_test(test_socket_path_has_a_limit),
		cmocka_unit_test(test_unknown_options_are_refused),
		cmocka_unit_test(test_version_and_help),
		cmocka_unit_test(test_bad_files_end_in_one_line_and_78),
		cmocka_unit_test(test_options_win_over_the_file),
		cmocka_unit_test(test_service_links_have_no_effect),
		cmocka_unit_test(test_rdma_is_asked_for_or_wished),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_closed_descriptors_stay_unusable),
		cmocka_unit_test(test_why_a_daemon_did_not_start),
	};

	return cmocka_run_group_tests_name("cli/opts", tests, no_environment,
					   NULL);
}

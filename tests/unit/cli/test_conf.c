/* A configuration as text: what is accepted and what is refused. */

#include "cli/conf.h"

#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"

#define GIB (1ll << 30)

/* What kv_conf_parse and kv_conf_check make of TEXT; "" in ERR when fine. */
static int
load(const char *text, struct kv_conf *c, char *err, size_t size)
{
	size_t n = strlen(text);
	/* Of the very size, so that a sanitizer sees reads past it. */
	char *copy = malloc(n + !n);
	int rc;

	assert_non_null(copy);
	memcpy(copy, text, n);
	kv_conf_init(c);
	err[0] = '\0';
	rc = kv_conf_parse(copy, n, c, err, size);
	free(copy);
	return rc < 0 ? rc : kv_conf_check(c, err, size);
}

static void
refused(const char *text, const char *want)
{
	struct kv_conf c;
	char err[4096];

	assert_int_equal(load(text, &c, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, want);
}

static void
accepted(const char *text, struct kv_conf *c)
{
	char err[4096];

	load(text, c, err, sizeof(err));
	assert_string_equal(err, "");
}

static void
test_defaults_are_those_of_vllm(void **state)
{
	struct kv_conf c;

	(void)state;
	accepted("{}", &c);
	assert_string_equal(c.metadata_server, "");
	assert_string_equal(c.master_server_address, "");
	assert_string_equal(c.protocol, "auto");
	assert_string_equal(c.device_name, "");
	assert_string_equal(c.mode, "embedded");
	assert_int_equal(c.global_segment_size, 4 * GIB);
	assert_int_equal(c.local_buffer_size, 4 * GIB);
	assert_false(c.enable_offload);
	assert_string_equal(c.tenant_id, "default");
	assert_int_equal(c.rpc_port, 50051);
	assert_int_equal(c.port, 50052);
	assert_int_equal(c.http_port, 9003);
	assert_int_equal(c.client_http_port, 0);
	assert_int_equal(c.client_ttl_ns, 10 * KV_NS_PER_S);
	assert_false(c.hugepages);
}

/* The two files that llm-d ships. */
static void
test_files_from_the_field(void **state)
{
	struct kv_conf c;

	(void)state;
	accepted("{\"mode\": \"embedded\", \"metadata_server\": "
		 "\"P2PHANDSHAKE\", \"master_server_address\": "
		 "\"mooncake-master-store.mooncake.svc.cluster.local:50051\", "
		 "\"global_segment_size\": \"80GB\", \"local_buffer_size\": "
		 "\"4GB\", \"protocol\": \"rdma\", \"device_name\": \"\", "
		 "\"enable_offload\": false}",
		 &c);
	assert_int_equal(c.global_segment_size, 80 * GIB);
	assert_string_equal(
		c.master_server_address,
		"mooncake-master-store.mooncake.svc.cluster.local:50051");
	accepted("{\"mode\": \"standalone-store\", \"global_segment_size\": 0, "
		 "\"enable_offload\": true}",
		 &c);
	assert_string_equal(c.mode, "standalone-store");
	assert_int_equal(c.global_segment_size, 0);
	assert_true(c.enable_offload);
}

static void
test_sizes(void **state)
{
	static const struct {
		const char *json;
		int64_t bytes;
	} cases[] = {
		{ "1", 1 },
		{ "true", 1 },
		{ "1.5", 1 },
		{ "1e3", 1000 },
		{ "9007199254740993", 9007199254740993 },
		{ "\"4096\"", 4096 },
		{ "\"1b\"", 1 },
		{ "\"1kb\"", 1024 },
		{ "\"1MB\"", 1 << 20 },
		{ "\"80Gb\"", 80 * GIB },
		{ "\" 80 GB\\n\"", 80 * GIB },
		{ "\"80\\u00a0GB\"", 80 * GIB },
		{ "\"\\u30005\\u2003\"", 5 },
		{ "\"1.5GB\"", 3 * GIB / 2 },
		{ "\"0.3kb\"", 307 },
		{ "\".5kb\"", 512 },
		{ "\"5.\"", 5 },
		{ "\"1.9\"", 1 },
		/* float("…") rounds, and so does vLLM. */
		{ "\"9007199254740993\"", 9007199254740992 },
	};
	struct kv_conf c;
	char text[128];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		snprintf(text, sizeof(text), "{\"local_buffer_size\": %s}",
			 cases[i].json);
		accepted(text, &c);
		assert_int_equal(c.local_buffer_size, cases[i].bytes);
	}
}

static void
test_queue_pairs(void **state)
{
	struct kv_conf c;

	(void)state;
	accepted("{\"qps\": 3, \"slice_size\": \"2MB\"}", &c);
	assert_int_equal(c.qps, 3);
	assert_int_equal(c.slice_size, 2 << 20);
	accepted("{\"qps\": \"4\", \"slice_size\": 65536}", &c);
	assert_int_equal(c.qps, 4);
	assert_int_equal(c.slice_size, 65536);
	refused("{\"qps\": 0}", "qps: '0' is no number from 1 to 4");
	refused("{\"qps\": []}", "qps: must be a number, not list");
	refused("{\"slice_size\": 65535}",
		"slice_size: 65535 bytes are not from 64KB to 1GB");
	refused("{\"slice_size\": -1}",
		"slice_size: -1 bytes are not from 64KB to 1GB");
	refused("{\"slice_size\": null}",
		"slice_size: Unsupported type for size: <class 'NoneType'>");
}

static void
test_bad_sizes(void **state)
{
	static const struct {
		const char *json, *why;
	} cases[] = {
		{ "\"\"", "Size cannot be empty." },
		{ "\" \\t\"", "Size cannot be empty." },
		{ "\"1g\"", "Invalid format: '1g'" },
		{ "\"1GiB\"", "Invalid format: '1GiB'" },
		{ "\"1tb\"", "Invalid format: '1tb'" },
		{ "\" -1\"", "Invalid format: ' -1'" },
		{ "\"1 024\"", "Invalid format: '1 024'" },
		{ "\"1e3\"", "Invalid format: '1e3'" },
		{ "\"gb\"", "Invalid format: 'gb'" },
		{ "\"1\\ngb x\"", "Invalid format: '1?gb x'" },
		{ "\"1.2.3gb\"",
		  "Invalid numeric value '1.2.3' in: '1.2.3gb'" },
		{ "\" .KB\"", "Invalid numeric value '.' in: ' .KB'" },
		{ "\"1.2.3tb\"", "Invalid format: '1.2.3tb'" },
		{ "null", "Unsupported type for size: <class 'NoneType'>" },
		{ "[1]", "Unsupported type for size: <class 'list'>" },
		{ "{}", "Unsupported type for size: <class 'dict'>" },
		{ "NaN", "Unsupported type for size: <class 'float'>" },
		{ "1e400", "cannot convert float infinity to integer" },
		{ "-Infinity", "cannot convert float infinity to integer" },
	};
	char text[128], want[128];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		snprintf(text, sizeof(text), "{\"global_segment_size\": %s}",
			 cases[i].json);
		snprintf(want, sizeof(want), "global_segment_size: %s",
			 cases[i].why);
		refused(text, want);
	}
}

static void
test_sizes_beyond_64_bits(void **state)
{
	(void)state;
	refused("{\"global_segment_size\": 99999999999999999999}",
		"global_segment_size is beyond all memory");
	refused("{\"global_segment_size\": \"99999999999gb\"}",
		"global_segment_size is beyond all memory");
	refused("{\"local_buffer_size\": 1e19}",
		"local_buffer_size is beyond all memory");
	refused("{\"local_buffer_size\": -99999999999999999999}",
		"local_buffer_size must be > 0");
	refused("{\"global_segment_size\": -99999999999999999999}",
		"global_segment_size must not be negative");
}

static void
test_rules_between_values(void **state)
{
	struct kv_conf c;

	(void)state;
	refused("{\"local_buffer_size\": 0}", "local_buffer_size must be > 0");
	refused("{\"local_buffer_size\": false}",
		"local_buffer_size must be > 0");
	refused("{\"local_buffer_size\": -5}", "local_buffer_size must be > 0");
	refused("{\"local_buffer_size\": \"0.9b\"}",
		"local_buffer_size must be > 0");
	refused("{\"global_segment_size\": 0}",
		"embedded mode requires global_segment_size > 0");
	refused("{\"mode\": \"embedded\", \"global_segment_size\": \"0\"}",
		"embedded mode requires global_segment_size > 0");
	refused("{\"mode\": \"standalone-store\", "
		"\"global_segment_size\": 4096}",
		"standalone-store mode requires global_segment_size == 0");
	refused("{\"mode\": \"standalone-store\"}",
		"standalone-store mode requires global_segment_size == 0");
	/* vLLM lets this pass; nothing that follows could. */
	refused("{\"global_segment_size\": -1}",
		"global_segment_size must not be negative");
	refused("{\"mode\": \"standalone-store\", \"global_segment_size\": -1}",
		"standalone-store mode requires global_segment_size == 0");
	accepted("{\"mode\": \"standalone-store\", "
		 "\"global_segment_size\": false}",
		 &c);
}

static void
test_unknown_modes(void **state)
{
	static const struct {
		const char *json, *repr;
	} cases[] = {
		{ "\"xyz\"", "'xyz'" },
		{ "\"\"", "''" },
		{ "\"Embedded\"", "'Embedded'" },
		{ "\" embedded\"", "' embedded'" },
		{ "\"it's\"", "\"it's\"" },
		{ "\"a'\\\"\"", "'a\\'\"'" },
		{ "\"a\\nb\\u001b\"", "'a\\nb\\x1b'" },
		{ "5", "5" },
		{ "5.0", "5.0" },
		{ "null", "None" },
		{ "true", "True" },
		{ "[\"embedded\"]", "['embedded']" },
		{ "{\"a\": [1, null]}", "{'a': [1, None]}" },
	};
	char text[128], want[128];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		snprintf(text, sizeof(text), "{\"mode\": %s}", cases[i].json);
		snprintf(want, sizeof(want), "unknown Mooncake mode: %s",
			 cases[i].repr);
		refused(text, want);
	}
}

/* One byte too many. */
#define LONG_TENANT                        \
	"0123456789abcdef0123456789abcdef" \
	"0123456789abcdef0123456789abcdef0"

static void
test_tenants(void **state)
{
	struct kv_conf c;

	(void)state;
	accepted("{\"tenant_id\": null}", &c);
	assert_string_equal(c.tenant_id, "default");
	accepted("{\"tenant_id\": \" \\t\\u00a0\"}", &c);
	assert_string_equal(c.tenant_id, "default");
	accepted("{\"tenant_id\": \" team a\\n\"}", &c);
	assert_string_equal(c.tenant_id, "team a");
	refused("{\"tenant_id\": false}",
		"tenant_id must be a string or null, got bool: False");
	refused("{\"tenant_id\": 7}",
		"tenant_id must be a string or null, got int: 7");
	refused("{\"tenant_id\": [\"a\"]}",
		"tenant_id must be a string or null, got list: ['a']");
	refused("{\"tenant_id\": \"" LONG_TENANT "\"}",
		"tenant_id is longer than 64 bytes or not text");
}

static void
test_offload_is_a_truth_value(void **state)
{
	struct kv_conf c;

	(void)state;
	accepted("{\"enable_offload\": \"false\"}", &c);
	assert_true(c.enable_offload);
	accepted("{\"enable_offload\": 1}", &c);
	assert_true(c.enable_offload);
	accepted("{\"enable_offload\": [ ]}", &c);
	assert_false(c.enable_offload);
	accepted("{\"enable_offload\": null}", &c);
	assert_false(c.enable_offload);
}

/* Where several values are wrong, the first that vLLM looks at is named. */
static void
test_order_of_checks(void **state)
{
	(void)state;
	refused("{\"tenant_id\": 1, \"mode\": \"x\", \"local_buffer_size\": "
		"\"x\", \"global_segment_size\": \"y\"}",
		"global_segment_size: Invalid format: 'y'");
	refused("{\"tenant_id\": 1, \"mode\": \"x\", "
		"\"local_buffer_size\": \"x\"}",
		"local_buffer_size: Invalid format: 'x'");
	refused("{\"mode\": \"x\", \"tenant_id\": 1, "
		"\"local_buffer_size\": 0}",
		"tenant_id must be a string or null, got int: 1");
	refused("{\"local_buffer_size\": 0, \"mode\": \"x\"}",
		"unknown Mooncake mode: 'x'");
	refused("{\"global_segment_size\": 0, \"local_buffer_size\": 0}",
		"local_buffer_size must be > 0");
}

static void
test_wrong_types_and_texts(void **state)
{
	(void)state;
	refused("{\"protocol\": 5}", "protocol: must be a string, not int");
	refused("{\"device_name\": null}",
		"device_name: must be a string, not NoneType");
	refused("{\"host\": \"a\\u0000b\"}",
		"host: holds \\u0000 or half a surrogate pair");
	refused("{\"hugepages\": 1}",
		"hugepages: must be true or false, not int");
	refused("{\"rpc_port\": 65536}",
		"rpc_port: '65536' is no port (0..65535)");
	refused("{\"rpc_port\": -1}", "rpc_port: '-1' is no port (0..65535)");
	refused("{\"rpc_port\": true}", "rpc_port: must be a number, not bool");
	refused("{\"client_ttl\": \"soon\"}",
		"client_ttl: 'soon' is no duration such as 10s or 500ms");
	refused("{\n \"mode\": \"embedded\",\n}",
		"3:1: expected a key in double quotes");
	refused("", "1:1: expected a value");
	refused("[1]", "1:1: expected '{': the file holds one object");
}

static void
test_our_own_keys(void **state)
{
	struct kv_conf c;

	(void)state;
	accepted("{\"rpc_port\": 1234, \"port\": \"65535\", \"http_port\": 0, "
		 "\"client_http_port\": 9300, \"client_ttl\": 2.5, "
		 "\"hugepages\": true, \"host\": \"n1\", \"listen\": \"::\", "
		 "\"http_listen\": \"::1\", \"socket\": \"/tmp/s\"}",
		 &c);
	assert_int_equal(c.rpc_port, 1234);
	assert_int_equal(c.port, 65535);
	assert_int_equal(c.http_port, 0);
	assert_int_equal(c.client_http_port, 9300);
	assert_int_equal(c.client_ttl_ns, 2500 * KV_NS_PER_MS);
	assert_true(c.hugepages);
	assert_string_equal(c.host, "n1");
	assert_string_equal(c.listen, "::");
	assert_string_equal(c.http_listen, "::1");
	assert_string_equal(c.socket, "/tmp/s");
	accepted("{\"client_ttl\": \"500ms\"}", &c);
	assert_int_equal(c.client_ttl_ns, 500 * KV_NS_PER_MS);
}

static void
test_text_of_1023_bytes_is_the_limit(void **state)
{
	char text[1200];
	struct kv_conf c;

	(void)state;
	snprintf(text, sizeof(text), "{\"device_name\": \"%01023d\"}", 7);
	accepted(text, &c);
	assert_int_equal(strlen(c.device_name), 1023);
	snprintf(text, sizeof(text), "{\"device_name\": \"%01024d\"}", 7);
	refused(text, "device_name: longer than 1023 bytes");
}

static void
test_last_of_equal_keys_counts(void **state)
{
	struct kv_conf c;

	(void)state;
	accepted("{\"mode\": 5, \"protocol\": \"rdma\", \"protocol\": \"tcp\","
		 " \"mo\\u0064e\": \"embedded\"}",
		 &c);
	assert_string_equal(c.protocol, "tcp");
	assert_string_equal(c.mode, "embedded");
}

static void
test_failure_changes_nothing(void **state)
{
	static const char text[] = "{\"protocol\": \"tcp\", \"tenant_id\": 5}";
	struct kv_conf c, before;
	char err[256];

	(void)state;
	kv_conf_init(&c);
	before = c;
	assert_int_equal(kv_conf_parse(text, strlen(text), &c, err, 256),
			 -EINVAL);
	assert_memory_equal(&c, &before, sizeof(c));
	assert_int_equal(kv_conf_parse(text, strlen(text), &c, err, 10),
			 -EINVAL);
	assert_string_equal(err, "tenant_id");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_are_those_of_vllm),
		cmocka_unit_test(test_files_from_the_field),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_queue_pairs),
		cmocka_unit_test(test_bad_sizes),
		cmocka_unit_test(test_sizes_beyond_64_bits),
		cmocka_unit_test(test_rules_between_values),
		cmocka_unit_test(test_unknown_modes),
		cmocka_unit_test(test_tenants),
		cmocka_unit_test(test_offload_is_a_truth_value),
		cmocka_unit_test(test_order_of_checks),
		cmocka_unit_test(test_wrong_types_and_texts),
		cmocka_unit_test(test_our_own_keys),
		cmocka_unit_test(test_text_of_1023_bytes_is_the_limit),
		cmocka_unit_test(test_last_of_equal_keys_counts),
		cmocka_unit_test(test_failure_changes_nothing),
	};

	return cmocka_run_group_tests_name("cli/conf", tests, NULL, NULL);
}

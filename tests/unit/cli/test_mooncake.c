/* Flags of Mooncake: names, values, files of flags, refusals. */

#include "moonrig.h"

#include "test.h"

#include <string.h>
#include <unistd.h>

static void
test_names(void **state)
{
	(void)state;
	assert_true(kv_mooncake_is_name("mooncake_master", KV_CONF_MASTER));
	assert_true(kv_mooncake_is_name("/usr/bin/mooncake_master",
					KV_CONF_MASTER));
	assert_true(kv_mooncake_is_name("./mooncake_client", KV_CONF_CLIENT));
	assert_false(kv_mooncake_is_name("mooncake_client", KV_CONF_MASTER));
	assert_false(kv_mooncake_is_name("mooncake_master", KV_CONF_CLIENT));
	assert_false(kv_mooncake_is_name("mooncake_master/kvmaster",
					 KV_CONF_MASTER));
	assert_false(kv_mooncake_is_name("kvmaster", KV_CONF_MASTER));
	assert_false(kv_mooncake_is_name("mooncake_master", KV_CONF_TOOL));
	assert_false(kv_mooncake_is_name("", KV_CONF_MASTER));
}

static void
test_no_flags(void **state)
{
	(void)state;
	assert_int_equal(MASTER(NULL), 0);
	assert_string_equal(moonrig_argv, moonrig_master);
	assert_string_equal(moonrig_notes, "");
	assert_int_equal(CLIENT(NULL), 0);
	assert_string_equal(moonrig_argv, moonrig_client);
	assert_string_equal(moonrig_notes, "");
}

static void
test_ports_of_a_master(void **state)
{
	static const struct {
		const char *a, *b, *port;
	} cases[] = {
		{ "--port=5", NULL, "5" },
		{ "--rpc_port=6", NULL, "6" },
		{ "--port=5", "--rpc_port=6", "6" },
		{ "--rpc_port=6", "--port=5", "6" },
		{ "--rpc_port=0", "--port=5", "5" },
		{ "--port=0", NULL, "0" },
		{ "--rpc_port=0x1f90", NULL, "8080" },
	};
	const char *at;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		assert_int_equal(MASTER(cases[i].a, cases[i].b), 0);
		at = strstr(moonrig_argv, "--rpc-port=");
		assert_non_null(at);
		assert_int_equal(strcspn(at + 11, " "), strlen(cases[i].port));
		assert_memory_equal(at + 11, cases[i].port,
				    strlen(cases[i].port));
		assert_string_equal(moonrig_notes, "");
	}
}

static void
test_addresses_of_a_master(void **state)
{
	(void)state;
	assert_int_equal(MASTER("--rpc_address=10.0.0.7"), 0);
	assert_non_null(strstr(moonrig_argv, " --listen=10.0.0.7"));
	assert_int_equal(
		MASTER("--rpc_address=0.0.0.0", "--metrics_host", "0.0.0.0"),
		0);
	assert_string_equal(moonrig_argv, moonrig_master);
	assert_string_equal(moonrig_notes, "");
	assert_int_equal(MASTER("--rpc_interface=lo", "--rpc_address=1.2.3.4"),
			 0);
	assert_non_null(strstr(moonrig_argv, " --listen=127.0.0.1"));
	assert_int_equal(MASTER("--rpc_interface=nosuch0"), 64);
	assert_string_equal(moonrig_err,
			    "--rpc_interface=nosuch0: no interface of "
			    "this name has an IPv4 address");
	assert_int_equal(MASTER("--rpc_address=a b"), 64);
	assert_memory_equal(moonrig_err, "--rpc_address=a b: ", 19);
	assert_int_equal(MASTER("--metrics_host=127.0.0.1"), 0);
	assert_non_null(strstr(moonrig_argv, " --http-listen=127.0.0.1"));
	assert_int_equal(MASTER("--metrics_host=a:b:c"), 64);
}

static void
test_what_a_client_says(void **state)
{
	(void)state;
	assert_int_equal(
		CLIENT("--master_server_address=a:1,b:2", "--host=10.0.0.7",
		       "--port=5", "--global_segment_size=1.5 GB",
		       "--protocol=rdma", "--device_names=mlx5_0,mlx5_1",
		       "--metadata_server=P2PHANDSHAKE", "--tenant_id=t",
		       "--threads=100", "--enable_http_server", "--v=3"),
		0);
	assert_string_equal(
		moonrig_argv,
		"--master=a:1,b:2 --host=10.0.0.7 --port=5 "
		"--global-segment-size=1610612736 --protocol=rdma "
		"--device-name=mlx5_0,mlx5_1 --metadata-server=P2PHANDSHAKE "
		"--tenant=t --workers=64 --verbose --verbose --http-port=9300");
	assert_string_equal(moonrig_notes, "");
	assert_int_equal(CLIENT("--http_port=9400"), 0);
	assert_non_null(strstr(moonrig_argv, "--http-port=0"));
	assert_int_equal(CLIENT("--http_port=9400", "--enable_http_server=1"),
			 0);
	assert_non_null(strstr(moonrig_argv, "--http-port=9400"));
	assert_int_equal(CLIENT("--tenant_id=", "--metadata_server="), 0);
	assert_null(strstr(moonrig_argv, "--tenant"));
	assert_null(strstr(moonrig_argv, "--metadata"));
}

static void
test_options_of_our_own(void **state)
{
	const char *at;

	(void)state;
	assert_int_equal(CLIENT("--socket", "", "--socket-group=kv",
				"--hugepages", "--pool_file=/dev/shm/p",
				"-exist_grace=0"),
			 0);
	at = strstr(moonrig_argv, "--exist-grace");
	assert_non_null(at);
	assert_string_equal(at, "--exist-grace=0 --socket= --socket-group=kv "
				"--hugepages=true --pool-file=/dev/shm/p "
				"--http-port=0");
	assert_int_equal(MASTER("--exist_grace=2s", "-v=1"), 0);
	assert_string_equal(
		moonrig_argv,
		"--http-port=9003 --client-ttl=10s "
		"--exist-grace=2s --verbose --rpc-port=50051 --http-listen=");
	assert_int_equal(MASTER("--socket=x"), 64);
}

static void
test_boolean_with_a_word(void **state)
{
	(void)state;
	assert_int_equal(CLIENT("--enable-offload", "false"), 0);
	assert_string_equal(
		moonrig_notes,
		"--enable_offload is true: a boolean takes no word of its own, "
		"and 'false' is ignored; a value stands behind '='\n"
		"--enable_offload: there is no SSD tier: what leaves memory is "
		"gone");
	assert_int_equal(MASTER("serve", "--port", "5"), 0);
	assert_string_equal(moonrig_notes, "'serve' is no flag and is ignored");
}

static void
test_idle_flags_are_told_by_reason(void **state)
{
	(void)state;
	assert_int_equal(MASTER("--max_threads=2", "--rpc_thread_num=4",
				"--eviction_ratio=0.2",
				"--eviction_high_watermark_ratio=0.90",
				"--default_kv_lease_ttl=10s",
				"--default_kv_soft_pin_ttl=30m",
				"--logtostderr"),
			 0);
	assert_string_equal(moonrig_argv, moonrig_master);
	assert_string_equal(
		moonrig_notes,
		"--eviction_ratio: a node evicts when a put needs it, and as "
		"much as it needs\n"
		"--rpc_thread_num, --max_threads: a master is one thread; its "
		"connections last and do not wait for more to send");
}

static void
test_refusals(void **state)
{
	static const char *const refused[] = {
		"--enable_ha",
		"--allow_evict_soft_pinned_objects=false",
		"--noallow_evict_soft_pinned_objects",
		"--tenant_quota_connector_uri=/q.yaml",
		"--enable_cxl=true",
		"--enable_kv_events",
	};
	static const char *const accepted[] = {
		"--enable_ha=false",
		"--allow_evict_soft_pinned_objects",
		"--tenant_quota_connector_uri=",
		"--enable_cxl=0",
		"--noenable_kv_events",
	};

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(refused); i++) {
		assert_int_equal(MASTER(refused[i]), 64);
		assert_non_null(strstr(moonrig_err, " is refused: "));
	}
	assert_int_equal(MASTER("--enable_ha"), 64);
	assert_string_equal(
		moonrig_err,
		"--enable_ha=true is refused: masters need nothing behind "
		"them: start several, and name all of them to each "
		"client, as in A:50051,B:50051");
	for (size_t i = 0; i < KV_ARRAY_LEN(accepted); i++) {
		assert_int_equal(MASTER(accepted[i]), 0);
		assert_string_equal(moonrig_argv, moonrig_master);
		assert_string_equal(moonrig_notes, "");
	}
}

static void
test_bad_values(void **state)
{
	static const char *const master[] = {
		"--rpc_port=70000",
		"--port=-1",
		"--metrics_port=x",
		"--client_ttl=0",
		"--client_ttl=10s",
		"--default_kv_lease_ttl=soon",
		"--eviction_ratio=1.5",
		"--eviction_high_watermark_ratio=high",
		"--memory_allocator=slab",
		"--allocation_strategy=cxl",
		"--quota_bytes=-1",
		"--enable_offload=maybe",
		"--norpc_port",
		"--rpc_prot=5",
		"--host=a",
		"--http_port=8080",
		"--rpc_port",
	};
	static const char *const client[] = {
		"--port=70000",
		"--global_segment_size=much",
		"--global_segment_size=infinite",
		"--protocol=ascend",
		"--master_server_address=etcd://a:1",
		"--master_server_address=a:b:c",
		"--host=a:5",
		"--threads=0",
		"--http_port=65536",
		"--local_buffer_size=x",
		"--rpc_port=5",
		"--device_name=mlx5_0",
		"--config_path=m.yaml",
	};

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(master); i++) {
		assert_int_equal(MASTER(master[i]), 64);
		assert_true(strlen(moonrig_err) > 10);
	}
	for (size_t i = 0; i < KV_ARRAY_LEN(client); i++) {
		assert_int_equal(CLIENT(client[i]), 64);
		assert_true(strlen(moonrig_err) > 10);
	}
	assert_int_equal(CLIENT("--device_name=mlx5_0"), 64);
	assert_string_equal(moonrig_err,
			    "unknown command line flag 'device_name', "
			    "did you mean 'device_names'?");
	assert_int_equal(MASTER("--rpc_port=70000"), 64);
	assert_string_equal(moonrig_err,
			    "--rpc_port=70000: not from 0 to 65535");
}

static void
test_help_and_version(void **state)
{
	(void)state;
	assert_int_equal(MASTER("--port=5", "--help"), 0);
	assert_string_equal(moonrig_argv, "help");
	assert_int_equal(CLIENT("-helpshort"), 0);
	assert_string_equal(moonrig_argv, "help");
	assert_int_equal(CLIENT("--helpfull"), 0);
	assert_string_equal(moonrig_argv, "help");
	assert_int_equal(CLIENT("--version", "--protocol=x"), 0);
	assert_string_equal(moonrig_argv, "--version");
	assert_int_equal(MASTER("--help=false", "--noversion"), 0);
	assert_string_equal(moonrig_argv, moonrig_master);
}

static void
test_flagfile(void **state)
{
	(void)state;
	moonrig_file("flags", "# as typed\n--port=5\n--metrics_port=6\n");
	assert_int_equal(
		MASTER("--port=4", "--flagfile=flags", "--metrics_port=7"), 0);
	assert_string_equal(
		moonrig_argv,
		"--http-port=7 --client-ttl=10s --rpc-port=5 --http-listen=");
	assert_int_equal(MASTER("--flagfile="), 0);
	moonrig_file("more", "--port=8\n");
	assert_int_equal(MASTER("--flagfile=flags,more"), 0);
	assert_string_equal(moonrig_argv, "--http-port=6 --client-ttl=10s "
					  "--rpc-port=8 --http-listen=");
	assert_int_equal(MASTER("--flagfile=more,nothing"), 78);
	assert_int_equal(MASTER("--flagfile", "nothing"), 78);
	assert_string_equal(moonrig_err, "nothing: No such file or directory");
	moonrig_file("flags", "--port=5\n--prot=6\n");
	assert_int_equal(MASTER("--flagfile=flags"), 78);
	assert_string_equal(moonrig_err,
			    "flags:2: unknown command line flag 'prot'");
	moonrig_file("flags", "--flagfile=more\n");
	assert_int_equal(MASTER("--flagfile=flags"), 78);
	assert_string_equal(moonrig_err,
			    "flags:1: a file of flags may not name another "
			    "one");
	moonrig_file("flags", "--port=5\n");
	assert_int_equal(MASTER("--flagfile=flags", "--prot=1"), 64);
	moonrig_file("big", "#");
	assert_int_equal(truncate("big", (1 << 20) + 1), 0);
	assert_int_equal(MASTER("--flagfile=big"), 78);
	assert_string_equal(moonrig_err, "big: larger than 1048576 bytes");
}

static void
test_config_path(void **state)
{
	(void)state;
	moonrig_file("m.yaml", "rpc_port: 5\nmetrics_port: 6\n"
			       "client_live_ttl_sec: 20\nenable_offload: on\n"
			       "rpc_adress: 1.2.3.4\nhelp: true\nv: 2\n");
	assert_int_equal(MASTER("--config_path=m.yaml", "--metrics_port=7"), 0);
	assert_string_equal(
		moonrig_argv,
		"--http-port=7 --client-ttl=20s --rpc-port=5 --http-listen=");
	assert_string_equal(
		moonrig_notes,
		"m.yaml: unknown name 'rpc_adress' is ignored\n"
		"m.yaml: unknown name 'help' is ignored\n"
		"m.yaml: unknown name 'v' is ignored\n"
		"--enable_offload: there is no SSD tier: what leaves "
		"memory is gone");
	/* What is typed goes before what the file says by another name. */
	assert_int_equal(MASTER("--port=9", "--config_path=m.yaml",
				"--noenable_offload"),
			 0);
	assert_non_null(strstr(moonrig_argv, "--rpc-port=9 --http-listen="));
	assert_null(strstr(moonrig_notes, "SSD"));
	moonrig_file("m.json", "{\"rpc_port\": 5, \"enable_offload\": false}");
	assert_int_equal(MASTER("--config_path=m.json"), 0);
	assert_non_null(strstr(moonrig_argv, "--rpc-port=5 --http-listen="));
	assert_string_equal(moonrig_notes, "");
	assert_int_equal(MASTER("--config_path="), 0);
}

static void
test_config_path_that_is_bad(void **state)
{
	char text[4096] = "";

	(void)state;
	assert_int_equal(MASTER("--config_path=nothing.yaml"), 78);
	assert_string_equal(moonrig_err,
			    "nothing.yaml: No such file or directory");
	moonrig_file("flags", "rpc_port: 5\n");
	assert_int_equal(MASTER("--config_path=flags"), 78);
	assert_string_equal(moonrig_err,
			    "flags: a .yaml, .yml or .json file is "
			    "wanted");
	moonrig_file("m.yml", "rpc_port: 5\nmetrics_port: many\n");
	assert_int_equal(MASTER("--config_path=m.yml"), 78);
	assert_string_equal(moonrig_err,
			    "m.yml:2: illegal value 'many' specified for "
			    "int32 flag 'metrics_port'");
	assert_int_equal(MASTER("--config_path=m.yml", "--prot"), 64);
	moonrig_file("m.yml", "enable_ha: true\n");
	assert_int_equal(MASTER("--config_path=m.yml"), 64);
	/* Many mistakes are not told one by one for ever. */
	for (unsigned i = 0; i < 100; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "name%u: 1\n", i);
	moonrig_file("m.yml", text);
	assert_int_equal(MASTER("--config_path=m.yml"), 0);
	assert_non_null(strstr(moonrig_notes, "'name62' is ignored\nand more"));
	assert_null(strstr(moonrig_notes, "name63"));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_no_flags),
		cmocka_unit_test(test_ports_of_a_master),
		cmocka_unit_test(test_addresses_of_a_master),
		cmocka_unit_test(test_what_a_client_says),
		cmocka_unit_test(test_options_of_our_own),
		cmocka_unit_test(test_boolean_with_a_word),
		cmocka_unit_test(test_idle_flags_are_told_by_reason),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_bad_values),
		cmocka_unit_test(test_help_and_version),
		cmocka_unit_test(test_flagfile),
		cmocka_unit_test(test_config_path),
		cmocka_unit_test(test_config_path_that_is_bad),
	};

	return cmocka_run_group_tests(tests, moonrig_enter, moonrig_leave);
}

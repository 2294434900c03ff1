#include "cli/mooncake.h"

#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/kv.test_mooncake.XXXXXX";
static char argv_text[4096], notes[4096], err[2048];

static int
make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int
remove_dir(void **state)
{
	static const char *const names[] = { "m.yaml", "m.json", "m.yml",
					     "flags",  "more",   "big" };

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(names); i++)
		unlink(names[i]);
	return rmdir(dir);
}

static void
write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* The code; our words behind the first and the notes, joined. */
static int
translate(enum kv_conf_who who, const char *const *words)
{
	char *argv[64], copies[64][256];
	struct kv_mooncake m;
	size_t n = 0;
	int argc = 0, code;

	for (; words[argc]; argc++) {
		assert_true(argc < 63);
		snprintf(copies[argc], sizeof(copies[0]), "%s", words[argc]);
		argv[argc + 1] = copies[argc];
	}
	argv[0] = copies[63];
	strcpy(argv[0], "mooncake_x");
	argv_text[0] = notes[0] = err[0] = '\0';
	code = kv_mooncake_translate(who, argc + 1, argv, &m, err, sizeof(err));
	if (code) {
		assert_null(m.argv);
		assert_null(m.notes);
		assert_false(strchr(err, '\n'));
		return code;
	}
	assert_string_equal(m.argv[0], "mooncake_x");
	assert_null(m.argv[m.argc]);
	for (int i = 1; i < m.argc; i++)
		n += (size_t)snprintf(argv_text + n, sizeof(argv_text) - n,
				      "%s%s", i > 1 ? " " : "", m.argv[i]);
	n = 0;
	for (size_t i = 0; i < m.notes_n; i++)
		n += (size_t)snprintf(notes + n, sizeof(notes) - n, "%s%s",
				      i ? "\n" : "", m.notes[i].text);
	if (m.is_help)
		strcpy(argv_text, "help");
	kv_mooncake_fini(&m);
	return 0;
}

#define MASTER(...) \
	translate(KV_CONF_MASTER, (const char *const[]){ __VA_ARGS__, NULL })
#define CLIENT(...) \
	translate(KV_CONF_CLIENT, (const char *const[]){ __VA_ARGS__, NULL })

static const char master_plain[] =
	"--http-port=9003 --client-ttl=10s --rpc-port=50051 --http-listen=";
static const char client_plain[] =
	"--master=127.0.0.1:50051 --port=50052 "
	"--global-segment-size=4294967296 --protocol=tcp "
	"--metadata-server=http://127.0.0.1:8080/metadata --tenant=default "
	"--workers=2 --http-port=0";

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
	assert_string_equal(argv_text, master_plain);
	assert_string_equal(notes, "");
	assert_int_equal(CLIENT(NULL), 0);
	assert_string_equal(argv_text, client_plain);
	assert_string_equal(notes, "");
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
		at = strstr(argv_text, "--rpc-port=");
		assert_non_null(at);
		assert_int_equal(strcspn(at + 11, " "), strlen(cases[i].port));
		assert_memory_equal(at + 11, cases[i].port,
				    strlen(cases[i].port));
		assert_string_equal(notes, "");
	}
}

static void
test_addresses_of_a_master(void **state)
{
	(void)state;
	assert_int_equal(MASTER("--rpc_address=10.0.0.7"), 0);
	assert_non_null(strstr(argv_text, " --listen=10.0.0.7"));
	assert_int_equal(
		MASTER("--rpc_address=0.0.0.0", "--metrics_host", "0.0.0.0"),
		0);
	assert_string_equal(argv_text, master_plain);
	assert_string_equal(notes, "");
	assert_int_equal(MASTER("--rpc_interface=lo", "--rpc_address=1.2.3.4"),
			 0);
	assert_non_null(strstr(argv_text, " --listen=127.0.0.1"));
	assert_int_equal(MASTER("--rpc_interface=nosuch0"), 64);
	assert_string_equal(err, "--rpc_interface=nosuch0: no interface of "
				 "this name has an IPv4 address");
	assert_int_equal(MASTER("--rpc_address=a b"), 64);
	assert_memory_equal(err, "--rpc_address=a b: ", 19);
	assert_int_equal(MASTER("--metrics_host=127.0.0.1"), 0);
	assert_non_null(strstr(argv_text, " --http-listen=127.0.0.1"));
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
		argv_text,
		"--master=a:1,b:2 --host=10.0.0.7 --port=5 "
		"--global-segment-size=1610612736 --protocol=rdma "
		"--device-name=mlx5_0,mlx5_1 --metadata-server=P2PHANDSHAKE "
		"--tenant=t --workers=64 --verbose --verbose --http-port=9300");
	assert_string_equal(notes, "");
	assert_int_equal(CLIENT("--http_port=9400"), 0);
	assert_non_null(strstr(argv_text, "--http-port=0"));
	assert_int_equal(CLIENT("--http_port=9400", "--enable_http_server=1"),
			 0);
	assert_non_null(strstr(argv_text, "--http-port=9400"));
	assert_int_equal(CLIENT("--tenant_id=", "--metadata_server="), 0);
	assert_null(strstr(argv_text, "--tenant"));
	assert_null(strstr(argv_text, "--metadata"));
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
	at = strstr(argv_text, "--exist-grace");
	assert_non_null(at);
	assert_string_equal(at, "--exist-grace=0 --socket= --socket-group=kv "
				"--hugepages=true --pool-file=/dev/shm/p "
				"--http-port=0");
	assert_int_equal(MASTER("--exist_grace=2s", "-v=1"), 0);
	assert_string_equal(
		argv_text,
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
		notes,
		"--enable_offload is true: a boolean takes no word of its own, "
		"and 'false' is ignored; a value stands behind '='\n"
		"--enable_offload: there is no SSD tier: what leaves memory is "
		"gone");
	assert_int_equal(MASTER("serve", "--port", "5"), 0);
	assert_string_equal(notes, "'serve' is no flag and is ignored");
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
	assert_string_equal(argv_text, master_plain);
	assert_string_equal(
		notes,
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
		assert_non_null(strstr(err, " is refused: "));
	}
	assert_int_equal(MASTER("--enable_ha"), 64);
	assert_string_equal(
		err, "--enable_ha=true is refused: masters need nothing behind "
		     "them: start several, and name all of them to each "
		     "client, as in A:50051,B:50051");
	for (size_t i = 0; i < KV_ARRAY_LEN(accepted); i++) {
		assert_int_equal(MASTER(accepted[i]), 0);
		assert_string_equal(argv_text, master_plain);
		assert_string_equal(notes, "");
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
		assert_true(strlen(err) > 10);
	}
	for (size_t i = 0; i < KV_ARRAY_LEN(client); i++) {
		assert_int_equal(CLIENT(client[i]), 64);
		assert_true(strlen(err) > 10);
	}
	assert_int_equal(CLIENT("--device_name=mlx5_0"), 64);
	assert_string_equal(err, "unknown command line flag 'device_name', "
				 "did you mean 'device_names'?");
	assert_int_equal(MASTER("--rpc_port=70000"), 64);
	assert_string_equal(err, "--rpc_port=70000: not from 0 to 65535");
}

static void
test_help_and_version(void **state)
{
	(void)state;
	assert_int_equal(MASTER("--port=5", "--help"), 0);
	assert_string_equal(argv_text, "help");
	assert_int_equal(CLIENT("-helpshort"), 0);
	assert_string_equal(argv_text, "help");
	assert_int_equal(CLIENT("--helpfull"), 0);
	assert_string_equal(argv_text, "help");
	assert_int_equal(CLIENT("--version", "--protocol=x"), 0);
	assert_string_equal(argv_text, "--version");
	assert_int_equal(MASTER("--help=false", "--noversion"), 0);
	assert_string_equal(argv_text, master_plain);
}

static void
test_flagfile(void **state)
{
	(void)state;
	write_file("flags", "# as typed\n--port=5\n--metrics_port=6\n");
	assert_int_equal(
		MASTER("--port=4", "--flagfile=flags", "--metrics_port=7"), 0);
	assert_string_equal(
		argv_text,
		"--http-port=7 --client-ttl=10s --rpc-port=5 --http-listen=");
	assert_int_equal(MASTER("--flagfile="), 0);
	write_file("more", "--port=8\n");
	assert_int_equal(MASTER("--flagfile=flags,more"), 0);
	assert_string_equal(argv_text, "--http-port=6 --client-ttl=10s "
				       "--rpc-port=8 --http-listen=");
	assert_int_equal(MASTER("--flagfile=more,nothing"), 78);
	assert_int_equal(MASTER("--flagfile", "nothing"), 78);
	assert_string_equal(err, "nothing: No such file or directory");
	write_file("flags", "--port=5\n--prot=6\n");
	assert_int_equal(MASTER("--flagfile=flags"), 78);
	assert_string_equal(err, "flags:2: unknown command line flag 'prot'");
	write_file("flags", "--flagfile=more\n");
	assert_int_equal(MASTER("--flagfile=flags"), 78);
	assert_string_equal(err,
			    "flags:1: a file of flags may not name another "
			    "one");
	write_file("flags", "--port=5\n");
	assert_int_equal(MASTER("--flagfile=flags", "--prot=1"), 64);
	write_file("big", "#");
	assert_int_equal(truncate("big", (1 << 20) + 1), 0);
	assert_int_equal(MASTER("--flagfile=big"), 78);
	assert_string_equal(err, "big: larger than 1048576 bytes");
}

static void
test_config_path(void **state)
{
	(void)state;
	write_file("m.yaml", "rpc_port: 5\nmetrics_port: 6\n"
			     "client_live_ttl_sec: 20\nenable_offload: on\n"
			     "rpc_adress: 1.2.3.4\nhelp: true\nv: 2\n");
	assert_int_equal(MASTER("--config_path=m.yaml", "--metrics_port=7"), 0);
	assert_string_equal(
		argv_text,
		"--http-port=7 --client-ttl=20s --rpc-port=5 --http-listen=");
	assert_string_equal(
		notes, "m.yaml: unknown name 'rpc_adress' is ignored\n"
		       "m.yaml: unknown name 'help' is ignored\n"
		       "m.yaml: unknown name 'v' is ignored\n"
		       "--enable_offload: there is no SSD tier: what leaves "
		       "memory is gone");
	/* What is typed goes before what the file says by another name. */
	assert_int_equal(MASTER("--port=9", "--config_path=m.yaml",
				"--noenable_offload"),
			 0);
	assert_non_null(strstr(argv_text, "--rpc-port=9 --http-listen="));
	assert_null(strstr(notes, "SSD"));
	write_file("m.json", "{\"rpc_port\": 5, \"enable_offload\": false}");
	assert_int_equal(MASTER("--config_path=m.json"), 0);
	assert_non_null(strstr(argv_text, "--rpc-port=5 --http-listen="));
	assert_string_equal(notes, "");
	assert_int_equal(MASTER("--config_path="), 0);
}

static void
test_config_path_that_is_bad(void **state)
{
	char text[4096] = "";

	(void)state;
	assert_int_equal(MASTER("--config_path=nothing.yaml"), 78);
	assert_string_equal(err, "nothing.yaml: No such file or directory");
	write_file("flags", "rpc_port: 5\n");
	assert_int_equal(MASTER("--config_path=flags"), 78);
	assert_string_equal(err, "flags: a .yaml, .yml or .json file is "
				 "wanted");
	write_file("m.yml", "rpc_port: 5\nmetrics_port: many\n");
	assert_int_equal(MASTER("--config_path=m.yml"), 78);
	assert_string_equal(err, "m.yml:2: illegal value 'many' specified for "
				 "int32 flag 'metrics_port'");
	assert_int_equal(MASTER("--config_path=m.yml", "--prot"), 64);
	write_file("m.yml", "enable_ha: true\n");
	assert_int_equal(MASTER("--config_path=m.yml"), 64);
	/* Many mistakes are not told one by one for ever. */
	for (unsigned i = 0; i < 100; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "name%u: 1\n", i);
	write_file("m.yml", text);
	assert_int_equal(MASTER("--config_path=m.yml"), 0);
	assert_non_null(strstr(notes, "'name62' is ignored\nand more"));
	assert_null(strstr(notes, "name63"));
}

/* The command lines of those who use Mooncake, as they write them. */
static void
test_llm_d(void **state)
{
	(void)state;
	write_file("m.yaml",
		   "rpc_port: 50051\nrpc_thread_num: 4\n"
		   "rpc_address: \"0.0.0.0\"\nrpc_conn_timeout_seconds: 0\n"
		   "rpc_enable_tcp_no_delay: true\n"
		   "enable_metric_reporting: true\nmetrics_port: 9003\n"
		   "enable_http_metadata_server: true\n"
		   "http_metadata_server_host: \"0.0.0.0\"\n"
		   "http_metadata_server_port: 8080\n"
		   "default_kv_lease_ttl: 5000\n"
		   "default_kv_soft_pin_ttl: 1800000\n"
		   "allow_evict_soft_pinned_objects: true\n"
		   "eviction_ratio: 0.05\n"
		   "eviction_high_watermark_ratio: 0.95\n"
		   "memory_allocator: \"offset\"\n"
		   "allocation_strategy: \"random\"\n"
		   "cluster_id: \"mooncake_cluster\"\n"
		   "root_fs_dir: \"/data/mooncake-offload\"\n"
		   "enable_snapshot: true\nenable_snapshot_restore: true\n"
		   "snapshot_interval_seconds: 60\n"
		   "snapshot_retention_count: 3\n"
		   "snapshot_object_store_type: \"local\"\n");
	assert_int_equal(MASTER("--config_path=m.yaml", "--enable_offload"), 0);
	assert_string_equal(argv_text, master_plain);
	assert_string_equal(
		notes,
		"--enable_offload, --root_fs_dir: there is no SSD tier: what "
		"leaves memory is gone\n"
		"--enable_http_metadata_server: no metadata is served: nodes "
		"find each other by their masters\n"
		"--default_kv_lease_ttl: there are no leases: what is read is "
		"held while it is read, what was found leaves after the rest "
		"for --exist_grace, and a remove removes\n"
		"--eviction_high_watermark_ratio: a node evicts when a put "
		"needs it, and as much as it needs\n"
		"--rpc_thread_num: a master is one thread; its connections "
		"last and do not wait for more to send\n"
		"--enable_snapshot, --enable_snapshot_restore, "
		"--snapshot_interval_seconds, --snapshot_retention_count, "
		"--snapshot_object_store_type: a master stores nothing: nodes "
		"tell it what they hold, again after each start");
	assert_int_equal(
		CLIENT("--master_server_address=mooncake-master-store.mooncake"
		       ".svc.cluster.local:50051",
		       "--host=10.1.2.3", "--port=50052", "--protocol=rdma",
		       "--global_segment_size=40GB", "--enable_offload=true",
		       "--metadata_server=P2PHANDSHAKE"),
		0);
	assert_string_equal(
		argv_text,
		"--master=mooncake-master-store.mooncake.svc.cluster.local:"
		"50051 --host=10.1.2.3 --port=50052 "
		"--global-segment-size=42949672960 --protocol=rdma "
		"--metadata-server=P2PHANDSHAKE --tenant=default --workers=2 "
		"--http-port=0");
}

static void
test_sglang(void **state)
{
	(void)state;
	assert_int_equal(MASTER("-rpc_port=50051", "-metrics_port=9003",
				"-enable_metric_reporting", "-logtostderr",
				"-default_kv_lease_ttl=3600000",
				"-default_kv_soft_pin_ttl=3600000"),
			 0);
	assert_string_equal(argv_text, master_plain);
	assert_int_equal(MASTER("--port", "21000", "--metrics_port", "21001"),
			 0);
	assert_string_equal(argv_text, "--http-port=21001 --client-ttl=10s "
				       "--rpc-port=21000 --http-listen=");
	assert_int_equal(MASTER("--eviction_high_watermark_ratio=0.95"), 0);
	assert_int_equal(
		CLIENT("--host=127.0.0.1", "--port=21002",
		       "--master_server_address=127.0.0.1:21000",
		       "--metadata_server=http://127.0.0.1:21003/"
		       "metadata",
		       "--protocol=tcp",
		       "--device_names=", "--global_segment_size=1073741824",
		       "--enable_http_server=true", "--http_port=21004"),
		0);
	assert_string_equal(argv_text,
			    "--master=127.0.0.1:21000 --host=127.0.0.1 "
			    "--port=21002 --global-segment-size=1073741824 "
			    "--protocol=tcp "
			    "--metadata-server=http://127.0.0.1:21003/metadata "
			    "--tenant=default --workers=2 --http-port=21004");
	assert_string_equal(notes, "");
}

static void
test_others(void **state)
{
	(void)state;
	/* LMCache, vLLM, Mooncake's own tests and reports of its users. */
	assert_int_equal(MASTER("--port", "50052", "--max_threads", "64",
				"--metrics_port", "9004",
				"--enable_http_metadata_server=true",
				"--http_metadata_server_host=0.0.0.0",
				"--http_metadata_server_port=8080"),
			 0);
	assert_string_equal(argv_text, "--http-port=9004 --client-ttl=10s "
				       "--rpc-port=50052 --http-listen=");
	assert_int_equal(MASTER("--port=61351", "--max_threads=2",
				"--metrics_port=19003"),
			 0);
	assert_int_equal(MASTER("--enable_http_metadata_server=1",
				"--rpc_address=0.0.0.0", "-v=1"),
			 0);
	assert_int_equal(MASTER("--port", "50088",
				"--eviction_high_watermark_ratio", "0.9",
				"--eviction_ratio", "0.1",
				"--default_kv_lease_ttl", "11000"),
			 0);
	assert_int_equal(MASTER("--enable_offload", "--offload_on_evict",
				"--promotion_on_hit",
				"--promotion_admission_threshold=1",
				"--cluster_id=c", "--root_fs_dir=/d",
				"--client_ttl=30", "--log_dir=/l",
				"--minloglevel=1"),
			 0);
	assert_string_equal(argv_text, "--http-port=9003 --client-ttl=30s "
				       "--rpc-port=50051 --http-listen=");
	assert_int_equal(CLIENT("--master_server_address=127.0.0.1:61351",
				"--port=61352"),
			 0);
	assert_int_equal(CLIENT("--host=127.0.0.1",
				"--global_segment_size=128 MB",
				"--local_buffer_size=64 MB"),
			 0);
	assert_string_equal(notes, "--local_buffer_size: there is nothing to "
				   "buffer");
}

/* Every flag that a master must know, as llm-d and Mooncake's pages have it. */
static void
test_every_flag_of_a_master(void **state)
{
	static const char *const words[] = {
		"--rpc_port=1",
		"--port=1",
		"--rpc_thread_num=1",
		"--max_threads=1",
		"--rpc_address=127.0.0.1",
		"--rpc_interface=lo",
		"--rpc_conn_timeout_seconds=1",
		"--rpc_enable_tcp_no_delay=false",
		"--enable_metric_reporting=false",
		"--metrics_port=1",
		"--metrics_host=127.0.0.1",
		"--enable_http_metadata_server=true",
		"--http_metadata_server_port=1",
		"--http_metadata_server_host=h",
		"--default_kv_lease_ttl=1m",
		"--default_kv_soft_pin_ttl=1h",
		"--max_kv_soft_pin_ttl=1",
		"--allow_evict_soft_pinned_objects=true",
		"--eviction_ratio=0.1",
		"--eviction_high_watermark_ratio=0.7",
		"--client_ttl=5",
		"--enable_offload=true",
		"--offload_on_evict=true",
		"--offload_force_evict=true",
		"--offloading_queue_limit=5",
		"--offload_cap_ratio=0.8",
		"--promotion_on_hit=true",
		"--promotion_admission_threshold=1",
		"--promotion_queue_limit=1",
		"--promotion_max_per_heartbeat=2",
		"--root_fs_dir=/d",
		"--global_file_segment_size=5",
		"--cluster_id=c",
		"--memory_allocator=cachelib",
		"--allocation_strategy=free_ratio_first",
		"--put_start_discard_timeout_sec=1",
		"--put_start_release_timeout_sec=1",
		"--enable_disk_eviction=false",
		"--quota_bytes=1",
		"--enable_snapshot=true",
		"--enable_snapshot_restore=true",
		"--snapshot_interval_seconds=1",
		"--snapshot_child_timeout_seconds=1",
		"--snapshot_retention_count=1",
		"--snapshot_object_store_type=local",
		"--snapshot_payload_store_type=local",
		"--snapshot_payload_backend_type=local",
		"--snapshot_backend_type=local",
		"--snapshot_catalog_store_type=redis",
		"--snapshot_catalog_store_connstring=r",
		"--snapshot_catalog_backend_type=redis",
		"--snapshot_catalog_backend_connstring=r",
		"--snapshot_backup_dir=/d",
		"--enable_ha=false",
		"--ha_backend_type=k8s",
		"--ha_backend_connstring=k",
		"--etcd_endpoints=e",
		"--pod_name=p",
		"--pod_namespace=n",
		"--enable_oplog=true",
		"--oplog_poll_interval_ms=1",
		"--oplog_batch_max_entries=1",
		"--batch_oplog_retry_timeout_sec=1",
		"--enable_multi_tenants=true",
		"--tenant_quota_connector_type=etcd",
		"--dynamic_replication_mode=enforce",
		"--dynamic_replication_heat_window_seconds=1",
		"--dynamic_replication_admission_qps_threshold=0.1",
		"--dynamic_replication_max_memory_replicas=3",
		"--max_total_finished_tasks=1",
		"--max_total_pending_tasks=1",
		"--max_total_processing_tasks=1",
		"--pending_task_timeout_sec=1",
		"--processing_task_timeout_sec=1",
		"--max_retry_attempts=1",
		"--nof_eviction_ratio=0.1",
		"--nof_eviction_high_watermark_ratio=0.1",
		"--nof_heartbeat_interval_sec=1",
		"--nof_heartbeat_probe_timeout_ms=1",
		"--nof_heartbeat_failures_threshold=1",
		"--enable_cxl=false",
		"--cxl_path=/dev/dax1.0",
		"--cxl_size=1",
		"--enable_metadata_cleanup_on_timeout=true",
		"--enable_kv_events=false",
		"--kv_events_bind_endpoint=e",
		"--kv_events_backend_id=b",
		"--kv_events_emit_legacy_compat=false",
		"--kv_events_emit_object_key=false",
		"--kv_events_queue_capacity=1",
		"--kv_events_model_name=m",
		"--kv_events_tenant_id=t",
		"--kv_events_additional_salt=s",
		"--kv_events_lora_name=l",
		"--kv_events_block_size=16",
		"--kv_events_dp_rank=0",
		"--logtostderr=true",
		"--log_dir=/l",
		"--v=1",
		"--minloglevel=1",
	};

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(words); i++)
		assert_int_equal(MASTER(words[i]), 0);
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
		cmocka_unit_test(test_llm_d),
		cmocka_unit_test(test_sglang),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_every_flag_of_a_master),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

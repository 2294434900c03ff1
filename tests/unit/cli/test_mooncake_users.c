/* The command lines of those who use Mooncake, as they write them, and every
 * flag of its master. */

#include "moonrig.h"

#include "test.h"

/* The command lines of those who use Mooncake, as they write them. */
static void
test_llm_d(void **state)
{
	(void)state;
	moonrig_file("m.yaml",
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
	assert_string_equal(moonrig_argv, moonrig_master);
	assert_string_equal(
		moonrig_notes,
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
		moonrig_argv,
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
	assert_string_equal(moonrig_argv, moonrig_master);
	assert_int_equal(MASTER("--port", "21000", "--metrics_port", "21001"),
			 0);
	assert_string_equal(moonrig_argv, "--http-port=21001 --client-ttl=10s "
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
	assert_string_equal(moonrig_argv,
			    "--master=127.0.0.1:21000 --host=127.0.0.1 "
			    "--port=21002 --global-segment-size=1073741824 "
			    "--protocol=tcp "
			    "--metadata-server=http://127.0.0.1:21003/metadata "
			    "--tenant=default --workers=2 --http-port=21004");
	assert_string_equal(moonrig_notes, "");
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
	assert_string_equal(moonrig_argv, "--http-port=9004 --client-ttl=10s "
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
	assert_string_equal(moonrig_argv, "--http-port=9003 --client-ttl=30s "
					  "--rpc-port=50051 --http-listen=");
	assert_int_equal(CLIENT("--master_server_address=127.0.0.1:61351",
				"--port=61352"),
			 0);
	assert_int_equal(CLIENT("--host=127.0.0.1",
				"--global_segment_size=128 MB",
				"--local_buffer_size=64 MB"),
			 0);
	assert_string_equal(moonrig_notes,
			    "--local_buffer_size: there is nothing to "
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
		cmocka_unit_test(test_llm_d),
		cmocka_unit_test(test_sglang),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_every_flag_of_a_master),
	};

	return cmocka_run_group_tests(tests, moonrig_enter, moonrig_leave);
}

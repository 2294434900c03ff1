#!/bin/sh
# kvmaster and kvclient by the names of Mooncake's programs: command lines as
# llm-d, SGLang, LMCache, vLLM and Mooncake's own tests write them, at the ports
# that they name; less memory than they ask for.

# Those ports, /run and a name for the master are there for this test alone.
if [ -z "${KV_TEST_ALONE:-}" ] && unshare -nm true 2>/dev/null; then
	KV_TEST_ALONE=1 exec unshare -nm "$0" "$@"
fi
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
require ip mount perl
[ "${KV_TEST_ALONE:-}" ] || skip_all 'no name spaces here'
cd "$T" || exit 70

POD_IP=10.1.2.3
STORE=mooncake-master-store.mooncake.svc.cluster.local
printf '%s\n' '127.0.0.1 localhost' "$POD_IP $STORE" >hosts
if ! { ip link set lo up && ip addr add $POD_IP/32 dev lo &&
	mount -t tmpfs none /run && mount --bind hosts /etc/hosts; } 2>err; then
	skip_all "no name spaces here: $(cat err)"
fi
# No connection of a tool takes one of those ports for its own end.
echo 32768 49999 >/proc/sys/net/ipv4/ip_local_port_range
mkdir bin
ln -s "$KV_BIN/kvmaster" bin/mooncake_master
ln -s "$KV_BIN/kvclient" bin/mooncake_client
PATH=$T/bin:$PATH

# What engines of the same pod read; the daemons here do not.
MOONCAKE_CONFIG_PATH=$T/engine.json
MOONCAKE_MASTER_PORT=tcp://10.0.0.1:50051
MC_MS_AUTO_DISC=0
export MOONCAKE_CONFIG_PATH MOONCAKE_MASTER_PORT MC_MS_AUTO_DISC
echo '{"local_buffer_size": -1, "rpc_port": "none"' >engine.json
# The tools take no part in that.
tool()
{
	env -u MOONCAKE_CONFIG_PATH "$@"
}

# daemon NAME COMMAND...
daemon()
{
	daemon_name=$1
	if launch "$@"; then
		shift
		pass "$*"
	else
		shift
		fail "$*"
		diag "$(tail "$daemon_name.log")"
	fi
}

# ends NAME...
ends()
{
	for name; do
		end "$name"
		is $end_status 0 "$name ends well"
	done
}

# http URL: the status
http()
{
	perl "$TOP/tests/lib/http.pl" GET "$1" 2>&1
}

# works MASTER: a value goes in through the socket and comes out at the master.
live()
{
	tool kvdiag --socket= -m "$1" nodes | grep -q " live "
}
works()
{
	ok 'the node is there' try_for 20 live "$1"
	head -c 300000 /dev/urandom >in
	ok 'put, through the usual socket' tool kvput k in
	ok 'get, from the master' tool kvget --socket= -m "$1" -o got k
	ok 'the same' cmp in got
}

# ---- llm-d: the shared master and client ----

cat >master.yaml <<'Y'
# mooncake-master-store-config
rpc_port: 50051
rpc_thread_num: 4
rpc_address: "0.0.0.0"
rpc_conn_timeout_seconds: 0
rpc_enable_tcp_no_delay: true
enable_metric_reporting: true
metrics_port: 9003
enable_http_metadata_server: true
http_metadata_server_host: "0.0.0.0"
http_metadata_server_port: 8080
default_kv_lease_ttl: 5000
default_kv_soft_pin_ttl: 1800000
allow_evict_soft_pinned_objects: true
eviction_ratio: 0.05
eviction_high_watermark_ratio: 0.95
memory_allocator: "offset"
allocation_strategy: "random"
cluster_id: "mooncake_cluster"
root_fs_dir: "/data/mooncake-offload"
enable_snapshot: true
enable_snapshot_restore: true
snapshot_interval_seconds: 60
snapshot_retention_count: 3
snapshot_object_store_type: "local"
Y
daemon llmd-master mooncake_master --config_path="$T/master.yaml" \
	--enable_offload
like "$(cat llmd-master.log)" ' mooncake_master\[[0-9]+\]: ready .*:50051 http=9003 client_ttl=10000ms' \
	'at the ports of the manifest'
is "$(grep -c ' warn ' llmd-master.log)" 2 'two things are missed'
like "$(cat llmd-master.log)" ' warn .*--enable_offload, --root_fs_dir: there is no SSD tier' \
	'the SSD tier'
like "$(cat llmd-master.log)" ' warn .*--enable_http_metadata_server: no metadata is served' \
	'and the metadata server'
is "$(wc -l <llmd-master.log)" 7 'with what does nothing, a line a reason'
is "$(http http://127.0.0.1:9003/health)" 200 'readiness'
is "$(http http://$POD_IP:9003/metrics)" 200 'metrics, at the address of the pod'
daemon llmd-client mooncake_client --master_server_address=$STORE:50051 \
	--host=$POD_IP --port=50052 --protocol=rdma --global_segment_size=40MB \
	--enable_offload=true --metadata_server=P2PHANDSHAKE
works $STORE:50051
is "$(tool kvdiag --socket= -m $STORE nodes | grep -c " $POD_IP:50052 ")" 1 \
	'at the address of the pod'
is "$(grep -c ' warn ' llmd-client.log)" 2 'two lines warn'
like "$(cat llmd-client.log)" ' warn .*no RDMA, values go by TCP: ' \
	'of the device that is missed'
like "$(cat llmd-client.log)" ' warn .*--enable_offload: there is no SSD tier' \
	'of what is missed'
ends llmd-client llmd-master

# ---- SGLang: the shared base, and its test services ----

daemon sglang-master mooncake_master -rpc_port=50051 -metrics_port=9003 \
	-enable_metric_reporting -logtostderr -default_kv_lease_ttl=3600000 \
	-default_kv_soft_pin_ttl=3600000
is "$(http http://127.0.0.1:9003/get_all_segments)" 200 'asked for its segments'
ends sglang-master
daemon sglang-test mooncake_master --port 21000 --metrics_port 21001
is "$(wc -l <sglang-test.log)" 1 'nothing to tell'
is "$(http http://127.0.0.1:21001/metrics)" 200 'metrics'
like "$(cat body)" '^master_key_count [0-9]+$' 'a name, a value, no label'
daemon sglang-client mooncake_client --host=127.0.0.1 --port=21002 \
	--master_server_address=127.0.0.1:21000 \
	--metadata_server=http://127.0.0.1:21003/metadata --protocol=tcp \
	--device_names= --global_segment_size=67108864 \
	--enable_http_server=true --http_port=21004
unlike "$(cat sglang-client.log)" ' warn |: --' 'nothing to tell'
works 127.0.0.1:21000
is "$(http http://127.0.0.1:21004/health)" 200 'the node over HTTP'
ends sglang-client sglang-test

# ---- LMCache, vLLM, Mooncake's own tests ----

daemon lmcache mooncake_master -port 50052 -max_threads 64 -metrics_port 9004 \
	--enable_http_metadata_server=true \
	--http_metadata_server_host=0.0.0.0 --http_metadata_server_port=8080
is "$(http http://127.0.0.1:9004/health)" 200 'there it is'
ends lmcache
daemon vllm mooncake_master --port 50051
ends vllm
daemon test-cli mooncake_master --port=61351 --max_threads=2 \
	--metrics_port=19003
daemon test-client mooncake_client --master_server_address=127.0.0.1:61351 \
	--port=61352 --global_segment_size '128 MB' --local_buffer_size='64 MB'
works 127.0.0.1:61351
ends test-client test-cli

# ---- spelling ----

# A boolean takes no word of its own: gflags leaves it to the program.
daemon word mooncake_master --enable-offload false --nologtostderr --v=1 \
	--rpc_interface=lo --metrics_host=127.0.0.7 --exist_grace=2s
like "$(cat word.log)" " warn .*--enable_offload is true: .* 'false' is ignored" \
	'which says what it takes that for'
like "$(cat word.log)" ' ready addr=127.0.0.1:50051 ' 'the address of lo'
is "$(http http://127.0.0.7:9003/health)" 200 'HTTP where it is asked for'
like "$(http http://127.0.0.1:9003/health)" 'cannot connect' 'and only there'
ends word
printf '%s\n' '# for all' --port=50060 --metrics_port=0 >flags
daemon flagfile mooncake_master --port=1 --flagfile=flags
like "$(cat flagfile.log)" ' ready .*:50060 http=0 ' 'the last one counts'
ends flagfile
daemon own mooncake_client --socket="$T/own.sock" --hugepages=no \
	--pool-file="$T/pool" --global_segment_size=16MB --port=50070
ok 'options of our own' test -S own.sock
ends own

for prog in mooncake_master mooncake_client; do
	ok "$prog --version" $prog --version
	like "$(cat out)" "^$prog \\(kvpool\\) [0-9.]+\$" 'name and version'
	ok "$prog --help" $prog --help
	like "$(cat out)" '^  --port=int32 ' 'has flags'
	is "$(cat err)" '' 'is no complaint'
	exits 74 "$prog --help to a full disk" sh -c "$prog --help >/dev/full"
done

# refused CODE TEXT COMMAND...
refused()
{
	refused_code=$1
	refused_text=$2
	shift 2
	exits "$refused_code" "$*" timeout 10 "$@"
	is "$(cat err)" "$1: $refused_text" 'says why in one line'
}
refused 64 "unknown command line flag 'rpc_prot', did you mean 'rpc_port'?" \
	mooncake_master --rpc_prot=50051
refused 64 "unknown command line flag 'm'" mooncake_client -m a
refused 64 "illegal value 'x' specified for int32 flag 'port'" \
	mooncake_client --port x
refused 64 "flag '--port' is missing its argument" mooncake_master --port
refused 64 '--metrics_port=70000: not from 0 to 65535' \
	mooncake_master --metrics_port=70000
refused 64 '--enable_ha=true is refused: masters need nothing behind them: start several, and name all of them to each client, as in A:50051,B:50051' \
	mooncake_master --enable_ha --etcd_endpoints=e:2379
refused 64 '--protocol=ascend: none of tcp, rdma' \
	mooncake_client --protocol=ascend
refused 78 'none.yaml: No such file or directory' \
	mooncake_master --config_path=none.yaml
echo 'rpc_port: [1]' >bad.yaml
refused 78 'bad.yaml:1: a plain or quoted value on the same line is wanted' \
	mooncake_master --config_path=bad.yaml

# By our own names nothing of this is known.
exits 64 'kvmaster --rpc_port' kvmaster --rpc_port=5
done_testing

#!/bin/sh
# kvbench measures a pool that runs as it says, and leaves nothing there.
# shellcheck disable=SC2086 # QUICK and A are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/bench.sh"

QUICK='--size=256KB --batch=5 --time=5ms --rounds=1 --pieces=40'
start_master m
start_client a
start_client b
wait_nodes 2
A="--socket=$(socket a) --master=$MASTERS"
cd "$T" || exit 70

ok 'local' kvbench $A $QUICK --json local
is "$(figures)" 'get_copy GB/s copy
get_copy_mt GB/s half the threads
get_zero k objects/s get_copy
put_copy GB/s copy
put_4k us chain
get_4k us chain
exist_32 us chain
put_4k_awake us awake chain
get_4k_awake us awake chain
exist_32_awake us awake chain
publish_grow M keys/s bar
publish M keys/s bar
publish_bare M keys/s publish
raw_write GB/s writev
raw_write_own GB/s copy' 'fifteen figures above 0'
ok 'store' kvbench $A $QUICK --json store
is "$(figures)" 'tcp_get GB/s stream
tcp_put GB/s stream' 'two figures above 0'
ok 'exist' kvbench $A $QUICK --json --held=50000 exist
is "$(figures)" 'exist_32 us chain
exist_100k M keys/s probe' 'two figures above 0'
is "$(field exist_100k held)" 50000 'the second one with so many keys'
ok 'exist of few keys' kvbench $A $QUICK --json --held=100 exist
is "$(figures)" 'exist_32 us chain' 'is not exist_100k'
ok 'text' kvbench $A $QUICK --only=get_4k,put_4k local
like "$(cat out)" \
	'^  put_4k +- +[0-9.]+ +us +[0-9.]+ +chain +[0-9.]+ +less +1.25 +(yes|no)$' \
	'in columns'
unlike "$(cat out)" copy 'no more than was asked for'
ok 'more threads than objects' kvbench $A $QUICK --threads=8 \
	--only=put_copy,get_copy,get_copy_mt,get_zero,raw_write local
ok 'objects that threads share' kvbench $A --size=3MB --batch=3 --threads=3 \
	--time=5ms --rounds=1 --only=put_copy,get_copy_mt local
ok 'an object larger than a frame' kvbench $A --size=3MB --batch=2 \
	--time=5ms --rounds=1 store
ok 'a node without a master' kvbench --socket="$(socket a)" $QUICK local
ok 'another tenant, long keys' kvbench $A $QUICK --tenant=other \
	--key-length=1024 --only=put_copy local
# The master knows it a heartbeat later.
nothing_left()
{
	kvdiag $M --json pools | tr -d ' \n' |
		grep -q '"total":.*"used_bytes":0,"pinned_bytes":0,'
}
ok 'what it put is gone' try_for 10 nothing_left
for tenant in default other; do
	ok "keys of $tenant" kvdiag $M --tenant=$tenant keys
	is "$(cat out)" '' 'none'
done

exits 64 'no workload' kvbench $A
exits 64 'no such workload' kvbench $A remote
like "$(cat err)" "^kvbench: no workload 'remote': local, store, " 'says which'
exits 64 'two workloads' kvbench $A local store
exits 64 'no such figure' kvbench $A --only=put_copy,get local
like "$(cat err)" "^kvbench: --only: 'local' has no such figure: put_copy,get" \
	'says so'
exits 64 'a figure of another workload' kvbench $A --only=fill local
exits 64 'no threads' kvbench $A --threads=0 local
exits 64 'no number of keys' kvbench $A --held=10,x exist
exits 64 'too many numbers of keys' kvbench --held=2,3,4,5,6,7,8 bars
exits 69 'nobody there' kvbench --socket="$T/none" local
exits 69 'objects larger than the pool' \
	kvbench $A --size=300MB --batch=1 --rounds=1 --only=put_copy local
like "$(cat err)" '^kvbench: put: object too large' 'says so'
end_all
done_testing

#!/bin/sh
# kvbench measures what it says, beside its floors, and leaves nothing.
# shellcheck disable=SC2086 # QUICK and A are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

QUICK='--size=256KB --batch=5 --time=5ms --rounds=1'
start_master m
start_client a
start_client b
wait_nodes 2
A="--socket=$(socket a) --master=$MASTERS"
cd "$T" || exit 70

# numbers: of the last --json output, name and unit, and only if all are above 0.
numbers()
{
	tr -d ' \n' <"$T/out" | sed 's/{"name"/\n&/g' |
		sed -n '/"\(value\|floor\|ratio\)":\(0[,}]\|-\|null\)/d
			s/.*"name":"\([^"]*\)".*"unit":"\([^"]*\)".*/\1 \2/p'
}

ok 'local' kvbench $A $QUICK --json local
is "$(numbers)" 'put_copy GB/s
get_copy GB/s
get_zero kobjects/s
put_4k us
get_4k us
exist_32 us' 'six figures above 0'
ok 'store' kvbench $A $QUICK --json store
is "$(numbers)" 'tcp_put GB/s
tcp_get GB/s' 'two figures above 0'
ok 'text' kvbench $A $QUICK --only=get_4k,put_4k local
like "$(cat out)" '^  put_4k +[0-9.]+ +us +[0-9.]+ +chain +[0-9.]+$' 'in columns'
unlike "$(cat out)" copy 'no more than was asked for'
ok 'more threads than objects' kvbench $A $QUICK --threads=8 \
	--only=put_copy,get_copy,get_zero local
ok 'an object larger than a frame, and one thread each' kvbench $A \
	--size=3MB --batch=2 --threads=2 --time=5ms --rounds=1 store
ok 'a node without a master' kvbench --socket="$(socket a)" $QUICK local
ok 'another tenant, long keys' kvbench $A $QUICK --tenant=other \
	--key-length=1024 --only=put_copy local
ok 'what it put is gone' kvdiag $M --json pools
like "$(tr -d ' \n' <out)" '"total":.*"pinned_bytes":0,' 'nothing is pinned'
for tenant in default other; do
	ok "keys of $tenant" kvdiag $M --tenant=$tenant keys
	is "$(cat out)" '' 'none'
done

exits 64 'no workload' kvbench $A
exits 64 'no such workload' kvbench $A remote
exits 64 'no such figure' kvbench $A --only=put_copy,get local
like "$(cat err)" "^kvbench: --only: 'put_copy,get' has no such figure" 'says so'
exits 64 'no threads' kvbench $A --threads=0 local
exits 69 'nobody there' kvbench --socket="$T/none" local
exits 69 'objects larger than the pool' \
	kvbench $A --size=300MB --batch=1 --rounds=1 --only=put_copy local
like "$(cat err)" '^kvbench: put: object too large' 'says so'
end_all
done_testing

#!/bin/sh
# kvbench store where the pool is on other hosts: a stream over loopback would
# be no floor, so there is none, and kvbench says so.
# shellcheck disable=SC2086 # QUICK is several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
. "$(dirname "$0")/../lib/bench.sh"
netns_three

QUICK='--size=256KB --batch=5 --time=5ms --rounds=1 --timeout=60s'
MASTERS=10.9.0.9:20001
launch m ip netns exec "$NS-m" kvmaster --rpc-port=20001 --http-port=0 ||
	exit 70
launch a ip netns exec "$NS-a" kvclient --master=$MASTERS --host=10.9.0.1 \
	--port=20002 --socket="$T/a.sock" --global-segment-size=64MB || exit 70
bench()
{
	bench_host=$1
	shift
	ip netns exec "$NS-$bench_host" kvbench --socket= --master=$MASTERS \
		$QUICK "$@" store
}
is_live()
{
	ip netns exec "$NS-b" kvdiag --socket= --master=$MASTERS nodes |
		grep -q ' live '
}
try_for 30 is_live || exit 70
cd "$T" || exit 70

ok 'from another host' bench b --json
is "$(cat err)" "kvbench: no floor for tcp_get and tcp_put: nodes of the pool\
 are on other hosts, and a stream to this one goes another way" 'one line'
is "$(field tcp_get floor) $(field tcp_get ratio) $(field tcp_put met)" \
	'null null null' 'no floor'
unlike "$(field tcp_get value)" '^(0|null|-.*)$' 'but a value'
cp out far.json
ok 'a table of it' kvbench report far.json
like "$(cat out)" '^\| .*tcp_get.* [0-9.]+ GB/s \|' 'the value alone'
ok 'in text' bench b
like "$(cat out)" '^  tcp_put +- +[0-9.]+ +GB/s +- +stream +- +more +0.95 +-$' \
	'in columns'

# The node's address is one of this host's own, though not 127.0.0.1.
ok 'from its own host' bench a --json
is "$(cat err)" '' 'not a line'
is "$(figures)" 'tcp_get GB/s stream
tcp_put GB/s stream' 'with floors above 0'
end_all
done_testing

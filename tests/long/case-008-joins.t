#!/bin/sh
# Case-008: a master starts anew, and 24 nodes of 100,000 keys join and publish
# at once. None is suspected, exist stays quick, and all keys are back within
# seconds.
# shellcheck disable=SC2046,SC2086 # at and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
cd "$T" || exit 70

NODES=${KV_NODES:-24}
KEYS=${KV_KEYS:-100000}
TTL=10
start_master m --client-ttl=${TTL}s
i=0
while [ $i -lt "$NODES" ]; do
	start_client n$i --global-segment-size=64MB
	i=$((i + 1))
done
wait_nodes "$NODES"
i=0
while [ $i -lt "$NODES" ]; do
	watch put$i --do=put --once --prefix=n$i --keys="$KEYS" --batch=1000 \
		--size=16 --timeout-ms=20000 --prefer="$(addr n$i)" $(at n$i)
	[ "$(sum put$i 3)" -eq "$KEYS" ] || break
	i=$((i + 1))
done
is $i "$NODES" "$NODES nodes hold $KEYS keys each"

# Asked through a node, of keys of another one.
drive ask watch --do=exist --prefix=n1 --keys="$KEYS" --batch=100 \
	--pause-ms=5 --until="$T/stop" --seconds=120 $(at n0)
sleep 2
crash m
again m
started=$(now)
# The oldest heartbeat, and whoever is not live.
heard=0
all_back()
{
	kvdiag $M --json nodes >nodes.json || return
	oldest=$(sed -n 's/.*"heard_s": *\([0-9.]*\).*/\1/p' nodes.json |
		awk '$1 * 1000 > n { n = int($1 * 1000) } END { print n + 0 }')
	[ "$oldest" -le $heard ] || heard=$oldest
	! grep -q '"state": "s' nodes.json || : >suspected
	[ "$(kvdiag $M stats master | awk '$1 == "master_key_count" { print $2 }')" -eq \
		$((NODES * KEYS)) ]
}
ok 'all keys are back' try_for 30 all_back
back=$(($(now) - started))
sleep 3
: >"$T/stop"
driven ask 'exist: no call is late'
ok 'within seconds' test $back -le $((10000 * KV_SLOW))
ok 'no node is suspected' test ! -e suspected
ok 'no heartbeat is older than half the time to live' \
	test $heard -lt $((TTL * 500))
p99=$(awk '{ print $2 }' ask.json | sort -n |
	awk '{ a[NR] = $1 } END { print a[int(NR * 0.99)] }')
diag "back after $back ms; oldest heartbeat $heard ms; 99 of 100 exist calls" \
	"within $p99 ms"
ok 'exist: 99 of 100 within 100 ms' test "$p99" -le $((100 * KV_SLOW))
is "$(sum ask 4)$(sum ask 8)" 00 'exist: never no'
end_all
done_testing

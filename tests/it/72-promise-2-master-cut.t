#!/bin/sh
# Promise 2: a master that was cut off from all nodes for longer than its ttl
# has given them up. When it is back requesters find it sooner than nodes do;
# they miss nothing by it (case-011, towards the master).
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
netns_three

MASTERS=10.9.0.9:20001
launch m ip netns exec "$NS-m" kvmaster --rpc-port=20001 --http-port=0 \
	--client-ttl=2s || exit 70
for name in a b; do
	launch $name ip netns exec "$NS-$name" kvclient --master=$MASTERS \
		--port=20002 --socket="$T/$name.sock" \
		--global-segment-size=64MB || exit 70
done
both_live()
{
	[ "$(ip netns exec "$NS-m" kvdiag --socket= --master=$MASTERS nodes |
		grep -c ' live ')" -eq 2 ]
}
try_for 30 both_live || exit 70
# Its start is over: a miss is one.
sleep 2

# in_b NAME OPTION...: in b's host, all keys are a's
in_b()
{
	name=$1
	shift
	IN="ip netns exec $NS-b" drive "$name" watch $(at b) --prefix=k \
		--keys=64 --batch=16 --size=100k "$@"
}
in_b put --do=put --once --prefer=10.9.0.1:20002
driven put 'puts'
is "$(IN="ip netns exec $NS-a" && stat a keys)" 64 'all of them are at a'
for round in 1 2; do
	for what in get exist; do
		in_b $what --do=$what --until="$T/stop$round" --seconds=60 \
			--pause-ms=10
	done
	ip -n "$NS" link set vm down
	sleep 5
	healed=$(now)
	ip -n "$NS" link set vm up
	ok 'the nodes are back' try_for 10 both_live
	sleep 1
	: >"$T/stop$round"
	for what in get exist; do
		driven $what "$what: round $round"
		is "$(sum $what 4 "$healed")$(sum $what 8 "$healed")" 00 \
			"$what: nothing is missed"
		ok "$what: all is found" test "$(sum $what 3 "$healed")" -gt 0
	done
done
is "$(grep -c 'reason="silent for longer than the ttl"' "$T/m.log")" 4 \
	'both were given up, twice'
end_all
done_testing

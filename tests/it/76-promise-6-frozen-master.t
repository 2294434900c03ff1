#!/bin/sh
# Promise 6, case-007: a master that does not answer (SIGSTOP), for longer than
# its --client-ttl. Who knows the nodes goes on without it, who does not is told
# by the deadline; when it runs again nothing of what was put is missed, and no
# node was given up for time in which the master slept.
# shellcheck disable=SC2046,SC2086 # at and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
cd "$T" || exit 70

DEADLINE=3000 # ms
echo value >in
start_master m --client-ttl=3s
start_client a
start_client b
wait_nodes 2
for node in a b; do
	watch put-$node --do=put --once --prefix=on-$node --keys=100 \
		--size=20k --prefer="$(addr $node)" $(at $node)
	is "$(sum put-$node 3)" 100 "100 keys are put at $node"
done

# calls NAME NODE [OPTION...]
calls()
{
	name=$1 node=$2
	shift 2
	drive $name watch $(at $node) --seconds=$((9 + KV_SLOW / 2)) \
		--timeout-ms=$DEADLINE --pause-ms=10 --size=20k --keys=100 "$@"
}
calls local a --prefix=on-a
calls other a --prefix=on-b
calls far - --prefix=on-a
calls exist b --do=exist --prefix=on-a
calls put-local a --do=put --prefix=new-local --keys=100000 --size=2k
calls put-far - --do=put --prefix=new-far --keys=100000 --size=2k
sleep 1

starving
stopped=$(now)
freeze m
# Each session, and each requester, notices it once.
settled=$((stopped + 2000 + 500 * KV_SLOW))
sleep 3
timely=0
for command in 'kvget on-a/0' 'kvput new in' 'kvdiag nodes' 'kvrm on-a/0'; do
	before=$(now)
	exits 69 "$command: a newcomer is told" \
		$command --socket= --master="$MASTERS" --timeout=1s
	is "$(wc -l <err)" 1 'in one line'
	took=$(($(now) - before))
	[ $took -le $((1000 + 500 * KV_SLOW)) ] || diag "$command: $took ms"
	[ $took -gt $((1000 + 500 * KV_SLOW)) ] || timely=$((timely + 1))
done
is $timely 4 'by the deadline'
before=$(now)
ok 'one with a node has what that holds' \
	kvget --socket="$(socket a)" --master="$MASTERS" -o got on-a/0
ok 'and can put there' \
	kvput --socket="$(socket a)" --master="$MASTERS" --timeout=3s new-one in
ok 'by the deadline' test $(($(now) - before)) -le $((2500 + 1000 * KV_SLOW))
ok 'that counts as unpublished' test "$(stat a puts_unpublished)" -gt 0
going=$(now)
thaw m

for name in local other far exist put-local put-far; do
	driven $name "$name: each call ends by its deadline"
	is "$(sum $name 4)$(sum $name 8)" 00 "$name: nothing is missed, or fails"
	ok "$name: it goes on meanwhile" \
		test "$(sum $name 3 $settled "$going")" -gt 0
	ok "$name: without waiting each time" within \
		"$(max $name 2 $settled "$going")" $((400 * KV_SLOW))
done
stopped_s=$(((going - stopped) / 1000))
is "$(grep -c 'this master was stopped for' m.log)" 1 'one line says for how long'
like "$(cat m.log)" "was stopped for ($stopped_s|$((stopped_s + 1))) s: " 'that'
unlike "$(cat m.log)" 'node lost' 'no node was lost by it'
wait_nodes 2

# What was put meanwhile is found from everywhere.
for name in local far; do
	n=$(($(sum put-$name 3) + $(sum put-$name 7)))
	for node in b -; do
		watch all --once --prefix=new-$name --keys=$n --size=2k \
			--batch=1000 $(at $node)
		is "$(sum all 3)" $n "put-$name: all $n are found at $node"
	done
done
ok 'also what the tool has put' kvget $M -o got new-one
end_all
done_testing

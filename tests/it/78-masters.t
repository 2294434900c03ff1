#!/bin/sh
# Two masters, of which either is killed, stopped, and started again, in the
# middle of a load that looks at every byte: no call fails or takes longer than
# a second, what was put is found at each moment, with its value.
# shellcheck disable=SC2046,SC2086 # at and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

MOST=$((1000 + 350 * (KV_SLOW - 1))) # ms of a call

# All nodes have sessions with both masters.
whole()
{
	kvdiag $M --json nodes >"$T/nodes" &&
		[ "$(json "$T/nodes" | grep -o '"sessions":2' | wc -l)" -eq 3 ]
}

# load NAME: at each node, and at none.
load()
{
	starving
	for node in a b c -; do
		drive "$1-$node" hammer $(at $node) --prefix="$1-$node" \
			--seconds=$SECONDS_OF_LOAD --threads=2 --keys=60 \
			--size-max=600k --timeout-ms=5000 --strict --durable
		drive "$1-get-$node" watch $(at $node) --prefix=kept \
			--keys=60 --seconds=$SECONDS_OF_LOAD --pause-ms=5
		drive "$1-exist-$node" watch $(at $node) --prefix=kept \
			--do=exist --keys=60 --seconds=$SECONDS_OF_LOAD \
			--pause-ms=5
	done
}

# slowest NAME: ms of any call of a hammer
slowest()
{
	grep -o '"ms_max":[0-9]*' "$T/$1.json" | cut -d: -f2 | sort -n |
		tail -n 1
}

loaded()
{
	for node in a b c -; do
		driven "$1-$node" "$1: nothing is lost or false at $node"
		ok "$1: no call takes long at $node" \
			within "$(slowest "$1-$node")" $MOST
		for what in get exist; do
			name=$1-$what-$node
			driven "$name" "$1: $what at $node"
			is "$(sum "$name" 4) $(sum "$name" 8)" '0 0' \
				"$1: $what finds all at $node"
			ok "$1: $what takes not long at $node" \
				within "$(max "$name" 2)" $MOST
		done
	done
}

start_master first
start_master second
for node in a b c; do
	start_client $node
done
wait_nodes 3
ok 'each node has two sessions' try_for 10 whole
watch kept --do=put --once --prefix=kept --keys=60 $(at b)
is "$(sum kept 3)" 60 'what is kept is put'

SECONDS_OF_LOAD=$(secs 10)
load killed
end=$(($(date +%s) + SECONDS_OF_LOAD - 3))
while [ "$(date +%s)" -lt $end ]; do
	for master in first second; do
		crash $master
		rand 10
		sleep 0.$rnd
		again $master
		try_for 10 whole || fail "$master is found again"
		sleep 1 # so long may requesters take to look for it again
	done
done
loaded killed

load stopped
end=$(($(date +%s) + SECONDS_OF_LOAD - 5))
while [ "$(date +%s)" -lt $end ]; do
	for master in first second; do
		freeze $master
		rand 3
		sleep $rnd.5
		thaw $master
		sleep 1 # it says what it knew before, for a moment
		try_for 10 whole || fail "$master is found again"
	done
done
loaded stopped

# One is gone for good: who comes now finds all as well.
for master in first second; do
	crash $master
	watch new --once --prefix=kept --keys=60 $(at -)
	is "$(sum new 3)" 60 "without the $master one a newcomer finds all"
	ok 'in time' within "$(max new 2)" $MOST
	again $master
	# At once, and alone: it knows nothing but what it is told now.
	[ $master = second ] && other=first || other=second
	crash $other
	watch new --once --prefix=kept --keys=60 $(at -)
	is "$(sum new 3)" 60 "so does one with the $master one, back, alone"
	again $other
	try_for 10 whole
done
wait_nodes 3
for node in a b c; do
	ok "$node holds nothing for anybody" try_for 5 idle $node
done
end_all
done_testing

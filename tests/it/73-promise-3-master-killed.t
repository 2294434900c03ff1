#!/bin/sh
# Promise 3: kill -9 of the master, and its restart or failover, loses no
# object. In the middle of puts and gets, several times.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

SECONDS_OF_LOAD=$(secs 6)

# hammers PREFIX: one at each node and one remote; they look for all that
# they ever put in the end.
hammers()
{
	for node in a b c -; do
		drive "$1-$node" hammer $(at $node) \
			--prefix="$1-$node" --seconds="$SECONDS_OF_LOAD" \
			--threads=2 --keys=60 --size-max=600k \
			--timeout-ms=3000 --verify=15
	done
}

# kill_masters NAME...: one after the other, for up to a second each.
kill_masters()
{
	end=$(($(date +%s) + SECONDS_OF_LOAD - 1))
	while [ "$(date +%s)" -lt $end ]; do
		for master; do
			rand 10
			sleep 0.$rnd
			crash "$master"
			rand 10
			sleep 0.$rnd
			again "$master"
		done
	done
}

# nodes: all of a pool.
nodes()
{
	for node in a b c; do
		start_client $node
	done
	wait_nodes 3
}

start_master m
nodes
hammers one
kill_masters m
for node in a b c -; do
	driven "one-$node" "killed and restarted: nothing of $node is lost"
done
end_all

# Two masters, of which there is always one, but not always the same.
MASTERS=
start_master first
start_master second
nodes
hammers two
kill_masters first second
for node in a b c -; do
	driven "two-$node" "killed in turn: nothing of $node is lost"
done
watch before --do=put --once --prefix=kept --keys=50 $(at a)
crash first
watch after --once --prefix=kept --keys=50 $(at b)
is "$(sum after 3)" 50 'without the first one, what was put is got'
watch new --do=put --once --prefix=new --keys=50 $(at -)
is "$(sum new 3)" 50 'and more is put'
watch got --once --prefix=new --keys=50 $(at c)
is "$(sum got 3)" 50 'and got elsewhere'
crash second
again first
wait_nodes 3 # until they have told it what they hold
watch back --once --prefix=kept --keys=50 $(at b)
is "$(sum back 3)" 50 'the first one alone, back again: what was put is got'
watch back --once --prefix=new --keys=50 $(at -)
is "$(sum back 3)" 50 'also what was put without it'
end_all
done_testing

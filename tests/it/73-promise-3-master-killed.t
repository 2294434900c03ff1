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

start_master m
for node in a b c; do
	start_client $node
done
wait_nodes 3
hammers one
kill_masters m
for node in a b c -; do
	driven "one-$node" "killed and restarted: nothing of $node is lost"
done
end_all
done_testing

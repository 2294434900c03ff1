#!/bin/sh
# Promise 1: a get returns the whole value that was put, or a miss. Two writers
# of one key at different nodes (case-001): everybody sees one of the two.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

start_master m
for node in a b c; do
	start_client $node --global-segment-size=64MB
done
wait_nodes 3

# race NAME WRITERS REPLICAS ROUNDS [OPTION...]: six of them, two at a and b
race()
{
	name=$1 writers=$2 replicas=$3 rounds=$4
	shift 4
	party=0
	for node in a b c a b -; do
		drive "$name$party" race --file="$T/$name" --prefix="$name" \
			--parties=6 --party=$party --writers="$writers" \
			--replicas="$replicas" --rounds="$(secs "$rounds")" \
			$(at $node) "$@"
		party=$((party + 1))
	done
	while [ $party -gt 0 ]; do
		party=$((party - 1))
		driven "$name$party" "$name: party $party"
	done
}

race two 2 1 40
race six 6 1 40
race copies 3 2 30
race at-one-node 4 1 20 --prefer="$(addr c)"
race small 6 2 1500 --size-max=100000 # the pool gets full

end_all
done_testing

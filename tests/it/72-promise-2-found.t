#!/bin/sh
# Promise 2: after a put returned 0 with the master up, every node's get finds
# it, and every node's exist.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

start_master m
for node in a b c; do
	start_client $node
done
wait_nodes 3

# One writes, five read from the moment when its put has returned.
party=0
for node in a b c a b -; do
	drive "found$party" race --file="$T/found" --prefix=found \
		--parties=6 --party=$party --writers=1 \
		--rounds="$(secs 150)" --size-max=300k $(at $node)
	party=$((party + 1))
done
for party in 0 1 2 3 4 5; do
	driven "found$party" "found: party $party"
done

# Nothing is removed, there is room for all: what was put is never missed.
# Embedded nodes join; they stay until all others are done.
for node in a b -; do
	drive "durable$node" hammer $(at $node) --strict --durable \
		--seconds="$(secs 5)" --prefix="durable$node" --keys=50 \
		--size-max=1000k --threads=2
done
drive durable-own hammer $(at -) --strict --durable --seconds="$(secs 5)" \
	--prefix=durable-own --keys=50 --size-max=1000k --threads=2 \
	--segment-bytes=64MB --wait-file="$T/done"
for node in a b -; do
	driven "durable$node" "what was put at $node is found"
done
: >"$T/done"
driven durable-own 'what an embedded node has put is found'
end_all
done_testing

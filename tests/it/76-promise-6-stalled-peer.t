#!/bin/sh
# Promise 6: a peer that stops reading or writing (SIGSTOP, in the middle of
# whatever it does) stalls nobody else, and what is held for it has a bound.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

start_master m
for node in a b; do
	start_client $node --global-segment-size=128MB
done
wait_nodes 2

# More of them than a node has threads that move bytes.
stop=
for i in 1 2 3 4 5 6; do
	where=-
	[ $i -le 2 ] && where=a
	drive stopped$i hammer $(at $where) --seconds=60 --threads=2 \
		--size-max=6MB --keys=30 --prefix=any
	stop="$stop stopped$i"
done
sleep 1
for i in $stop; do
	freeze "$i"
	rand 10
	sleep 0.0$rnd
done

# What nobody has held before them goes its way.
for node in a b; do
	drive at-$node hammer $(at $node) --strict --seconds="$(secs 4)" \
		--keys=40 --prefix=mine-$node --threads=2
done
drive far hammer $(at -) --strict --seconds="$(secs 4)" --keys=40 \
	--prefix=mine-far --threads=2 --size-max=3MB
# Of the frozen ones' keys any may be under way for ever: those time out.
drive same hammer $(at b) --seconds="$(secs 4)" --keys=30 --prefix=any \
	--size-max=6MB --threads=2 --timeout-ms=2000
for name in at-a at-b far same; do
	driven $name "$name: as if the frozen ones were not there"
done
for node in a b; do
	ok "$node: pinned bytes have a bound" \
		test "$(stat $node pinned_bytes)" -le $((64 << 20))
done

# Some go on, the others die.
for i in 1 3 5; do
	thaw stopped$i
done
for i in 2 4 6; do
	crash stopped$i
done
sleep 1
for i in 1 3 5; do
	ok "$i goes on" kill -0 "$(pid_of stopped$i)"
	crash stopped$i
done
for node in a b; do
	ok "$node holds nothing for anybody" try_for $((2 * KV_SLOW)) idle $node
done

# A frozen one that only reads, and never comes back.
drive stopped watch $(at -) --prefix=big --do=put --once --keys=8 --batch=8 \
	--size=6MB --prefer="$(addr a)"
driven stopped '48 MB are put'
drive stopped watch $(at -) --prefix=big --keys=8 --batch=8 --size=6MB \
	--seconds=60
sleep 0.5
freeze stopped
drive at-a hammer $(at a) --strict --seconds="$(secs 2)" --keys=40 \
	--prefix=more --threads=2
driven at-a 'a reader that sleeps in the middle stalls nobody'
# Its connection is lost after ten seconds in which nothing was read.
ok 'nor does it hold anything for ever' try_for $((14 * KV_SLOW)) idle a
crash stopped
end_all
done_testing

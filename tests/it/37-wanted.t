#!/bin/sh
# Keys that somebody was told to exist leave a full node after the others, though
# they are older: told by a master, or by the node where there is none.
# shellcheck disable=SC2046,SC2086 # A and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

head -c 1048576 /dev/urandom >"$T/in"

# fill PREFIX N: in this order
fill()
{
	fill_i=0
	while [ $fill_i -lt "$2" ]; do
		printf '%s%s\t%s\n' "$1" $fill_i "$T/in"
		fill_i=$((fill_i + 1))
	done >"$T/lines"
	kvput $A --batch "$T/lines"
}

# left: of the eight keys, those that are there. Nobody is asked whether they
# exist, that would be a mark.
left()
{
	kvdiag $A keys '^k[0-7]$' | grep -o '\<k[0-7]\>' | sort | tr '\n' ' '
}

# A master passes the marks on with its next tick.
is_marked()
{
	kvdiag $M stats master | grep -q 'kvpool_master_wanted_total  *2$'
}

for with in 'no master' 'a master'; do
	[ "$with" = 'no master' ] || start_master m --exist-grace=600s
	launch a kvclient --port=0 --socket="$T/a.sock" --host=127.0.0.2 \
		--global-segment-size=16MB --exist-grace=600s \
		${MASTERS:+--master=$MASTERS} || exit 70
	A="--socket=$(socket a) --timeout=60s"
	[ "$with" = 'no master' ] || wait_nodes 1
	ok "$with: eight keys" fill k 8
	exits 1 "$with: whether two of them exist" \
		kvget $A --exist k0 none k3
	is "$(cat "$T/out")" "$(printf 'k0\t1\nnone\t0\nk3\t1')" 'they do'
	[ "$with" = 'no master' ] ||
		ok "$with: passes it on" try_for 10 is_marked
	ok "$with: eight more, for which there is room" fill fit 8
	is "$(left)" 'k0 k1 k2 k3 k4 k5 k6 k7 ' 'all are there'
	ok "$with: five more" fill more 5
	is "$(left)" 'k0 k3 k7 ' 'the oldest are gone, but for the two'
	ok "$with: fourteen more" fill last 14
	is "$(left)" 'k0 k3 ' 'then all others, older or not'
	ok "$with: two more" fill late 2
	is "$(left)" 'k0 k3 ' 'but these'
	end a
done
end_all
done_testing

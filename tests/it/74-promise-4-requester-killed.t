#!/bin/sh
# Promise 4: kill -9 of a requester at any point frees everything that it held
# within a second of its end, and leaves no readable partial object.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

start_master m
start_client a --global-segment-size=64MB
start_client b --global-segment-size=64MB
wait_nodes 2
head -c 3000000 /dev/urandom >"$T/in"
# shellcheck disable=SC2086 # M is several words
kvput $M --prefer "$(addr a)" pinned "$T/in" || exit 70

# hold WHAT TARGET KEY: until the holder has what it wants.
hold()
{
	: >"$T/holder.json"
	"$P/holder" --do="$1" --target="$2" --key="$3" --size=5MB \
		>"$T/holder.json" 2>"$T/holder.err" &
	echo $! >"$T/holder.pid"
	promise_drivers="$promise_drivers holder"
	try_for $((10 * KV_SLOW)) grep -q '^held' "$T/holder.json" ||
		diag "$(cat "$T/holder.err")"
	child=$(cut -d ' ' -f 3 <"$T/holder.json")
}

held()
{
	! idle a
}

# Nothing of it can be read, nowhere.
absent()
{
	for node in a b; do
		kvget -s "$(socket $node)" -m "$MASTERS" "$1" >"$T/got"
		[ $? -eq 1 ] && [ ! -s "$T/got" ] || return 1
	done
	kvget -s "$(socket b)" -m "$MASTERS" --exist "$1" >/dev/null
	[ $? -eq 1 ]
}

# Within a second; kvdiag itself takes its time.
comes_back()
{
	try_for "$KV_SLOW" idle a
}

free=$(stat a free_bytes)
for what in reserve half full pin; do
	hold $what "$(socket a)" "key-$what"
	ok "$what: something is held" try_for 2 held
	ok "$what: and cannot be read" absent "key-$what"
	crash holder
	ok "$what: it is free a second after the end" comes_back
	ok "$what: nothing is readable" absent "key-$what"
done
is "$(stat a free_bytes)" "$free" 'all space is there again'

# The bytes of a remote one come, and go, on a data connection.
for what in reserve half pin; do
	hold $what "$(addr a)" "far-$what"
	[ $what = pin ] || ok "far $what: something is held" try_for 2 held
	ok "far $what: and cannot be read" absent "far-$what"
	crash holder
	ok "far $what: it is free a second after the end" comes_back
	ok "far $what: nothing is readable" absent "far-$what"
done
is "$(stat a free_bytes)" "$free" 'all space is there again'

# Once it has said that all is there, the object is whole, or is not.
hold commit "$(socket a)" committed
crash holder
ok 'commit: nothing is held' comes_back
if kvget -s "$(socket a)" -m "$MASTERS" committed >"$T/got"; then
	is "$(wc -c <"$T/got")" $((5 << 20)) 'commit: it is whole'
	# shellcheck disable=SC2086 # M is several words
	ok 'commit: and is removed' kvrm $M committed
else
	ok 'commit: it is absent' absent committed
fi
is "$(stat a free_bytes)" "$free" 'all space is there again'

# A child keeps its sockets open. The process is gone all the same.
hold fork "$(socket a)" forked
ok 'fork: something is held' try_for 2 held
crash holder
ok 'fork: the child lives' kill -0 "$child"
ok 'fork: it is free a second after the end of the parent' comes_back
ok 'fork: nothing is readable' absent forked
kill -9 "$child"

# It lives on without its connection, and can still write to what it was
# granted: that stays its own, until it says or ends.
hold close "$(socket a)" closed
sleep 1
ok 'close: what a living process may write to is not free' held
ok 'close: and cannot be read' absent closed
crash holder
ok 'close: it is free a second after the end' comes_back
hold return "$(socket a)" returned
ok 'return: given back on another connection' comes_back
crash holder

# The library in the middle of whatever it does, again and again.
n=0
while [ $n -lt "$(secs 10)" ]; do
	for node in a -; do
		drive victim hammer $(at $node) --seconds=60 --threads=3 \
			--size-max=5MB --keys=40 --prefix=any
		rand 9
		sleep 0.$rnd
		crash victim
		comes_back || break 2
	done
	n=$((n + 1))
done
is $n "$(secs 10)" 'killed at any point: everything comes back'
drive reader hammer $(at b) --seconds=2 --keys=40 --size-max=5MB --prefix=any \
	--strict
driven reader 'what it left is whole'
end_all
done_testing

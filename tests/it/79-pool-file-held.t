#!/bin/sh
# --pool-file: what a requester views or fills when its kvclient is killed is
# not used again before that requester is gone, stopped or not, over several
# lives of the kvclient; and nobody ever sees a wrong byte.
# shellcheck disable=SC2046,SC2086 # at, via and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

MB=1048576

start_master m
start_client a --global-segment-size=64MB --pool-file="$T/pool"
wait_nodes 1

# hold NAME WHAT [OPTION...]: a holder in the background.
hold()
{
	hold=$1
	: >"$T/$hold.held"
	"$P/holder" --target="$(socket a)" --do="$2" --key="$hold" \
		--seed=$$ "--size=$3" --pinned="${4:-}" >"$T/$hold.held" \
		2>"$T/$hold.err" &
	echo $! >"$T/$hold.pid"
	promise_drivers="$promise_drivers $hold"
	try_for 10 grep -q '^held' "$T/$hold.held" ||
		diag "$hold: $(cat "$T/$hold.err")"
}

# lives NAME...: a test, none of them has ended.
lives()
{
	dead=
	for name; do
		kill -0 "$(pid_of "$name")" 2>/dev/null ||
			dead="$dead $name: $(cat "$T/$name.err")"
	done
	is "$dead" '' "$what: all who hold something find their bytes"
}

# Fills the pool more than once, and looks at everything.
load()
{
	drive "load$1" hammer $(at a) --prefix="load$1" --keys=400 \
		--size-max=600k --threads=3 --seconds=3 --strict
	driven "load$1" "$what: no wrong byte, no error"
	watch "full$1" --do=put --once --prefix="full$1" --keys=100 \
		--batch=25 --size=1MB $(at a)
	is "$(sum "full$1" 3)" 100 "$what: the pool takes more than its size"
}

watch put --do=put --once --prefix=v --keys=8 --batch=8 --size=1MB $(at a)
is "$(sum put 3)" 8 'eight values to be viewed'
watch put --do=put --once --prefix=w --keys=1 --batch=1 --size=1MB $(at a)

# Views of the library, of which the process looks at each byte in the end; one
# that is pinned by hand; space that is filled again and again; one that is
# stopped in the middle of that; one that was given up by its process.
drive views watch --do=view --hold --prefix=v --keys=8 --batch=1 --size=1MB \
	--until="$T/seen" $(at a)
all_viewed()
{
	[ "$(wc -l <"$T/views.json")" -eq 8 ]
}
try_for 10 all_viewed
is "$(sum views 3)" 8 'eight are viewed'
hold pinned pin 0 w/0
hold filled refill $((2 * MB))
hold stopped refill $((3 * MB))
hold reserved reserve $((1 * MB))
sleep 0.1
freeze stopped
HELD=$((6 * MB))
VIEWED=$((9 * MB))

what='before'
load 0
crash a
again a
what='one life later'
ok "$what: what was reserved is held" test "$(stat a held_bytes)" -ge $HELD
ok "$what: what was viewed is pinned" \
	test "$(stat a pinned_bytes)" -ge $VIEWED
load 1
lives filled pinned reserved views
end a
again a
what='two lives later, after an end'
ok "$what: still held" test "$(stat a held_bytes)" -ge $HELD
ok "$what: still pinned" test "$(stat a pinned_bytes)" -ge $VIEWED
load 2
crash a
again a
what='three lives later'
thaw stopped
load 3
lives filled pinned reserved views stopped
is "$(stat a held_bytes)" $HELD "$what: still held, and nothing else"

# One of them goes: what it held comes back, no more than that.
held_is()
{
	[ "$(stat a held_bytes)" -eq "$1" ]
}
what='killed one after the other'
for name in filled reserved; do
	crash $name
done
sleep 1.5
# The first life has more than one process: none of it is free before all are.
is "$(stat a held_bytes)" $HELD "$what: held as long as one of that life is there"
: >"$T/seen"
driven views 'what was viewed has not changed'
crash stopped
crash pinned
ok 'with the last of them all is free' try_for 10 held_is 0
ok 'and nothing is pinned' try_for 10 idle a
what='after all'
load 4

# Requesters stopped at random in the middle of whatever they do.
what='stopped at random'
for round in 1 2 3 4 5 6; do
	drive stop hammer $(at a) --prefix=stop --keys=50 --size-max=4MB \
		--threads=3 --seconds=4
	rand 9
	sleep 0.$rnd
	freeze stop
	crash a
	again a
	drive "meet$round" hammer $(at a) --prefix=meet --keys=300 \
		--size-max=1MB --threads=2 --seconds=2 --strict
	sleep 1
	thaw stop
	driven "meet$round" "$what: others see no wrong byte ($round)"
	driven stop "$what: nor does it itself ($round)"
done
ok 'all is free' try_for 10 held_is 0

# Who lives and goes on lets go of the old mapping by itself.
what='goes on'
drive on hammer $(at a) --prefix=on --keys=50 --size-max=4MB --threads=3 \
	--seconds=8
for round in 1 2 3; do
	sleep 0.5
	crash a
	again a
done
ok "$what: all is free while it runs" try_for 5 held_is 0
kill -0 "$(pid_of on)" || diag 'it has ended'
driven on "$what: no wrong byte"
ok 'and nothing is pinned' try_for 10 idle a
is "$(stat a adopted_bad)" 0 'nothing adopted was damaged'
end_all
done_testing

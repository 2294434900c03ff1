#!/bin/sh
# Case-009: a node with two million keys dies. Its keys are answered with no
# from the moment that it is declared dead, and neither the clean-up nor anything
# else keeps others waiting.
# shellcheck disable=SC2046,SC2086 # at and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
cd "$T" || exit 70

KEYS=${KV_KEYS:-2000000}
start_master m --client-ttl=3s
start_client large --global-segment-size=2GB
start_client small --global-segment-size=64MB
wait_nodes 2
watch put-large --do=put --once --prefix=large --keys="$KEYS" --batch=1000 \
	--size=64 --timeout-ms=20000 --prefer="$(addr large)" $(at large)
is "$(sum put-large 3)" "$KEYS" "one node holds $KEYS keys"
watch put-few --do=put --once --prefix=few --keys=10000 --batch=1000 --size=64 \
	--prefer="$(addr small)" $(at small)
is "$(sum put-few 3)" 10000 'another one 10,000'

drive own watch --do=exist --prefix=few --keys=10000 --batch=100 \
	--pause-ms=10 --until="$T/stop" --seconds=120 $(at small)
drive theirs watch --do=exist --prefix=large --keys="$KEYS" --batch=100 \
	--pause-ms=10 --until="$T/stop" --seconds=120 $(at small)
drive put watch --do=put --prefix=new --keys=1000 --batch=1 --size=64 \
	--pause-ms=1000 --until="$T/stop" --seconds=120 $(at small)
sleep 3
killed=$(now)
crash large
left()
{
	kvdiag $M stats master | awk '$1 == "master_key_count" { print $2 }'
}
gone()
{
	[ "$(left)" -le 11000 ]
}
ok 'the entries go' try_for 60 gone
went=$(now)
sleep 1
: >"$T/stop"
for name in own theirs put; do
	driven $name "$name: no call is late"
done
floor=$(max own 2 0 $killed)
diag "entries gone after $((went - killed)) ms; longest call before $floor ms," \
	"after $(max own 2 $killed) (own) $(max theirs 2 $killed) (its keys)" \
	"$(max put 2 $killed) ms (put)"
for name in own theirs; do
	ok "$name: no call takes 50 ms longer than before" test \
		"$(max $name 2 $killed)" -le $((floor + 50 * KV_SLOW))
done
is "$(sum own 4)$(sum own 8)" 00 'own: always yes'
is "$(sum put 8)" 0 'puts go on'
# A second to notice it.
is "$(sum theirs 3 $((killed + 4000 * KV_SLOW)))" 0 \
	'its keys: no, once it is declared dead'
wait_nodes 1
unlike "$(kvdiag $M nodes)" '127\.0\.0\.3.* (suspect|silent)' 'nobody else expires'
end_all
done_testing

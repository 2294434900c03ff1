#!/bin/sh
# Promise 5, case-010: an owner that does not answer (SIGSTOP) costs its readers
# one wait within the deadline, not one a call; other owners keep their speed;
# when it runs again its keys hit soon.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

DEADLINE=2000 # ms
start_master m
for node in a b c; do
	start_client $node
done
wait_nodes 3
for node in a c; do
	watch put-$node --do=put --once --prefix=on-$node --keys=200 --size=20k \
		--prefer="$(addr $node)" $(at b)
	is "$(sum put-$node 3)" 200 "200 keys are put at $node"
done
watch put-both --do=put --once --prefix=both --replicas=2 --size=20k \
	--prefer="$(addr a)" $(at c)

# calls NAME [OPTION...]: from b, all the time
calls()
{
	name=$1
	shift
	drive "$name" watch $(at b) --until="$T/stop" --seconds=120 \
		--timeout-ms=$DEADLINE --pause-ms=5 --size=20k "$@"
}
calls on-a --threads=4 --keys=200 --prefix=on-a
calls on-c --keys=200 --prefix=on-c
calls both --prefix=both
calls exist --do=exist --keys=200 --prefix=on-a
# It is the local node of this one, which has to do without it.
calls local --prefix=on-c --keys=200 --threads=2 $(at a)
calls local-put --do=put --prefix=local-put --keys=1000000 $(at a)
ok 'all of them have something' try_for 20 \
	hit on-a on-c both exist local local-put 0

starving
stopped=$(now)
freeze a
sleep 4
# Within the deadline somebody has felt it.
settled=$((stopped + DEADLINE + 500))
drive puts watch --do=put --prefix=puts --prefer="$(addr a)" $(at b) \
	--timeout-ms=$DEADLINE --seconds=1 --batch=5
driven puts 'puts that prefer it go elsewhere'
is "$(sum puts 8)$(sum puts 4)" 00 'all of them'
going=$(now)
thaw a
# The bound is for busy machines; a back-off that is too long does not fit.
ok 'on-a: all hits soon after it runs again' try_for $((5 * KV_SLOW)) heals on-a
healed=$(now)
sleep 1
: >"$T/stop"
for name in on-a on-c both exist local local-put; do
	driven $name "$name: each call ends by its deadline"
done

ok 'on-a: hits before' test "$(sum on-a 3 0 "$stopped")" -gt 0
ok 'on-a: later calls do not wait again' within \
	"$(max on-a 2 $settled "$going")" $((400 * KV_SLOW))
is "$(sum on-a 8 $settled "$going")" 0 'on-a: they miss'
is "$(sum exist 3 $settled "$going")" 0 'exist: no'
is "$(sum on-c 4)$(sum on-c 8)" 00 'on-c: nothing is missed'
ok 'on-c: full speed' within "$(max on-c 2)" $((500 * KV_SLOW))
is "$(sum both 4)$(sum both 8)" 00 'both: the other copy is read'
ok 'both: later calls do not wait again' within \
	"$(max both 2 $settled "$going")" $((400 * KV_SLOW))
is "$(sum local 4)$(sum local 8)" 00 'local: all is read elsewhere'
is "$(sum local-put 8 $settled)" 0 'local: and put elsewhere'
for name in local local-put; do
	ok "$name: later calls do not wait again" within \
		"$(max $name 2 $settled "$going")" $((400 * KV_SLOW))
done
is "$(sum on-a 4 "$healed")$(sum on-a 8 "$healed")" 00 'on-a: and it stays so'
ok 'on-a: hits then' test "$(sum on-a 3 "$healed")" -gt 0
wait_nodes 3
end_all
done_testing

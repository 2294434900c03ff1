#!/bin/sh
# Promise 5: kill -9 of an owner loses only what it owned; readers get misses or
# other replicas in a bounded time. Its keys are misses after the first failed
# read, for the whole host; puts go elsewhere within the same call (case-004).
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

start_master m
for node in a b c; do
	start_client $node
done
wait_nodes 3

# put PREFIX [OPTION...]: 100 keys, of which a holds a copy
put()
{
	prefix=$1
	shift
	watch "put-$prefix" --do=put --once --prefix="$prefix" \
		--prefer="$(addr a)" $(at c) "$@"
	is "$(sum "put-$prefix" 3)" 100 "$prefix: 100 keys are put"
}
put single
put double --replicas=2

# In the middle of gets, big ones, from a node and from far away.
drive load-c hammer $(at c) --seconds="$(secs 7)" --prefix=load --keys=40 \
	--size-max=4MB --threads=2
drive load-far hammer $(at -) --seconds="$(secs 7)" --prefix=load --keys=40 \
	--size-max=4MB --threads=2
for kind in single double; do
	drive $kind-c watch $(at c) --seconds=$((8 + KV_SLOW)) \
		--prefix=$kind --threads=2
	drive $kind-far watch $(at -) --seconds=$((8 + KV_SLOW)) \
		--prefix=$kind --threads=2
done
sleep 1
starving
before=$(now)
crash a
after=$(now)
sleep 2

# Somebody on this host has seen it; others need not see it themselves.
watch exist --do=exist --once --prefix=single $(at -)
is "$(sum exist 3)" 0 'single: nothing exists'
watch get --once --prefix=single $(at -)
is "$(sum get 3)" 0 'single: nothing is got'
ok 'and that is fast' within "$(max get 2)" $((500 * KV_SLOW))
watch again --do=put --once --prefix=single --prefer="$(addr a)" $(at c) \
	--batch=1
is "$(sum again 3)" 100 'single: put again, elsewhere'
watch other --do=put --once --prefix=other --prefer="$(addr a)" $(at -)
is "$(sum other 3)" 100 'other keys: put elsewhere by a newcomer'

for where in c far; do
	driven single-$where "single: calls of $where are bounded"
	driven double-$where "double: calls of $where are bounded"
	is "$(sum double-$where 4)" 0 "double: $where misses nothing"
	is "$(sum double-$where 8)" 0 "double: nor fails"
	ok "single: hits of $where before" \
		test "$(sum single-$where 3 0 "$before")" -gt 0
	ok "single: misses of $where are fast after a moment" within \
		"$(max single-$where 2 $((after + 1000 * KV_SLOW)))" \
		$((500 * KV_SLOW))
	ok "single: $where hits what was put again" \
		test "$(tail -n 1 "$T/single-$where.json" |
			cut -d ' ' -f 3)" -eq 20
done

again a
wait_nodes 3
watch back --do=put --once --prefix=back --prefer="$(addr a)" $(at c)
is "$(sum back 3)" 100 'the owner is back: 100 keys are put'
ok 'there' test "$(stat a keys)" -ge 90
driven load-c 'the load at c'
driven load-far 'the load from far away'
# case-022: who is down is told once, and not for each call.
for log in m.log b.log c.log load-c.err load-far.err; do
	ok "$log is short" test "$(wc -l <"$T/$log")" -le 100
done
like "$(cat "$T/m.log")" 'warn .*127\.0\.0\.2' 'the master says who it was'
end_all
done_testing

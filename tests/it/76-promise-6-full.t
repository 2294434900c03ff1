#!/bin/sh
# Promise 6: full memory gives clear errors for each key, and nothing waits
# beyond its deadline.
# shellcheck disable=SC2046,SC2086 # at and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

# For what moves more than the pool in one call.
LONG=--timeout-ms=$((5000 * KV_SLOW))
start_master m
start_client a --global-segment-size=64MB
wait_nodes 1

# Half of the pool may be pinned by all, and by one who is alone.
watch put --do=put --once --prefix=k --keys=50 --batch=50 --size=1MB $(at a)
is "$(sum put 3)" 50 '50 MB of 64 are put'
drive views watch --do=view --hold --prefix=k --keys=50 --batch=1 --size=1MB \
	--until="$T/seen" $(at a)
all_tried()
{
	[ "$(wc -l <"$T/views.json")" -eq 50 ]
}
try_for 10 all_tried
is "$(($(sum views 3) + $(sum views 5)))" 50 'views: each is had, or EBUSY'
ok 'views: as many as half of the pool' test "$(sum views 3)" -ge 28
ok 'views: and not more' test "$(sum views 3)" -le 32
ok 'pinned bytes are what is viewed' \
	test "$(stat a pinned_bytes)" -ge $(($(sum views 3) << 20))
watch get --once --prefix=k --keys=50 --batch=50 --size=1MB $(at a)
is "$(sum get 3)" 50 'copying gets go on, of all keys in a batch'
watch get --once --prefix=k --keys=50 --batch=50 --size=1MB $(at -)
is "$(sum get 3)" 50 'and from far away'
watch other --do=view --once --prefix=k --keys=50 --batch=1 --size=1MB $(at a)
ok 'another process may pin something' test "$(sum other 3)" -gt 0
is "$(($(sum other 3) + $(sum other 5)))" 50 'or is told EBUSY'
watch more --do=put --once --prefix=more --keys=60 --batch=7 --size=1MB $(at a)
is "$(sum more 3)" 60 'puts go on, in what can be evicted'
watch again --once --prefix=k --keys=50 --batch=50 --size=1MB $(at a)
is "$(sum again 3)" "$(sum views 3)" 'the pinned ones are there, and no others'
: >"$T/seen"
driven views 'what was viewed has not changed'
ok 'nothing is pinned any more' try_for 5 idle a
watch last --do=put --once --prefix=last --keys=62 --batch=62 --size=1MB \
	$LONG $(at a)
is "$(sum last 3)" 62 'a batch as large as the pool'

# Larger than the pool: in parts, or not.
watch huge --do=put --once --prefix=huge --keys=200 --batch=200 --size=1MB \
	$LONG $(at a)
is "$(($(sum huge 3) + $(sum huge 6)))" 200 'larger: each is put, or ENOSPACE'
ok 'larger: most are put' test "$(sum huge 3)" -ge 32
watch giant --do=put --once --prefix=giant --keys=1 --batch=1 --size=65MB \
	$LONG $(at a)
like "$(cat "$T/giant.json")" ' 0 0 0 0 0 1 ETOOBIG' \
	'an object larger than the pool: ETOOBIG'
watch giant --do=put --once --prefix=giant --keys=1 --batch=1 --size=65MB \
	$LONG $(at -)
like "$(cat "$T/giant.json")" ' 0 0 0 0 0 1 ETOOBIG' 'from far away, too'
watch whole --do=put --once --prefix=whole --keys=1 --batch=1 --size=63MB \
	$LONG $(at -)
is "$(sum whole 3)" 1 'one as large as the pool'
watch whole --once --prefix=whole --keys=1 --batch=1 --size=63MB $LONG \
	$(at -)
is "$(sum whole 3)" 1 'is read'

# Hard-pinned ones never leave.
watch hard --do=put --once --prefix=hard --keys=100 --batch=5 --size=1MB \
	--hard-pin $(at a)
is "$(($(sum hard 3) + $(sum hard 6)))" 100 'hard: each is put, or ENOSPACE'
ok 'hard: as many as fit' test "$(sum hard 3)" -ge 60
for where in a -; do
	watch soft --do=put --once --prefix=soft --keys=20 --size=1MB \
		$(at $where)
	is "$(sum soft 6)" 20 "hard: others get ENOSPACE at $where"
	ok 'hard: at once' test "$(max soft 2)" -le $((1000 * KV_SLOW))
done
watch hits --once --prefix=hard --keys=100 --batch=10 --size=1MB $(at -)
is "$(sum hits 3)" "$(sum hard 3)" 'hard: all of them are read'
exits 75 'hard: a plain removal is refused' kvrm $M hard/0
ok 'hard: a forced one is not' kvrm $M --force hard/0 hard/1 hard/2
watch soft --do=put --once --prefix=soft --keys=3 --size=900k $(at a)
is "$(sum soft 3)" 3 'hard: there is room then'

# Another node has room: nobody hears of the full one.
start_client b --global-segment-size=64MB
wait_nodes 2
watch elsewhere --do=put --once --prefix=elsewhere --keys=40 --size=1MB \
	--prefer="$(addr a)" $(at a)
is "$(sum elsewhere 3)" 40 'a full node is passed over'

# Deadlines that cannot be kept.
drive hasty watch --do=put --prefix=hasty --keys=1000000 --size=2MB --batch=10 \
	--timeout-ms=1 --seconds=1 $(at b)
driven hasty 'a deadline of 1 ms'
drive hasty watch --prefix=hasty --keys=100 --size=2MB --batch=10 \
	--timeout-ms=1 --open-timeout-ms=9000 --seconds=1 $(at -)
driven hasty 'and for gets'
for node in a b; do
	ok "$node holds nothing for anybody" try_for 5 idle $node
done
end_all
done_testing

#!/bin/sh
# kvbench bars: every figure, with daemons of its own, of which nothing is left.
# shellcheck disable=SC2086 # QUICK is several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/bench.sh"
PATH=$KV_BIN:$PATH
# What is configured here does not matter.
export MOONCAKE_CONFIG_PATH="$T/none.json"

QUICK='--size=256KB --batch=5 --time=5ms --rounds=1 --pieces=40 --age=50ms
	--pool-size=256MB --held=1000,51000 --timeout=60s --client-ttl=2s'
MANY='get_copy GB/s copy
get_copy_mt GB/s half the threads
get_zero k objects/s get_copy
put_copy GB/s copy
put_4k us chain
get_4k us chain
exist_32 us chain
put_4k_awake us awake chain
get_4k_awake us awake chain
exist_32_awake us awake chain
publish_grow M keys/s bar
publish M keys/s bar
publish_bare M keys/s publish'
RAW='raw_write GB/s writev
raw_write_own GB/s copy'
ROOM='put_fresh GB/s copy
fill % pool
full_put_4k us empty pool
full_put_copy us empty pool'
TCP='tcp_get GB/s stream
tcp_put GB/s stream'
GROW='master_mem bytes bar
node_mem bytes bar
grow_stall ms bar
grow_stall_bare ms bar
exist_100k M keys/s probe
grow_put_4k us fewest keys
grow_get_4k us fewest keys
grow_put_1000 us fewest keys
grow_get_1000 us fewest keys
grow_exist us fewest keys'

# daemons: those that a kvbench of ours has started
daemons()
{
	grep -l "@kvbench-$1-" /proc/[0-9]*/cmdline 2>/dev/null
}

# only NAMES OPTION...
only()
{
	only_names=$(printf '%s\n' "$1" | cut -d ' ' -f 1 | paste -sd ,)
	shift
	kvbench $QUICK --json --only="$only_names" "$@" bars
}

ok 'one host' only "$MANY"
is "$(figures)" "$MANY" 'its figures are above 0'
# Long enough for a daemon to have something to do.
ok 'nothing to do' only idle --time=200ms
is "$(figures)" 'idle % of a core bar' 'its figure is above 0'
ok 'raw transfers' only "$RAW"
is "$(figures)" "$RAW" 'their figures are above 0'
ok 'fresh, filling and full pools' only "$ROOM"
is "$(figures)" "$ROOM" 'their figures are above 0'
ok 'how cost grows' only "$GROW"
is "$(figures)" "$GROW" 'its figures are above 0'
is "$(field exist_100k held) $(field grow_exist held)" '51000 51000' \
	'with so many keys'

if unshare -n true 2>/dev/null && command -v ip >/dev/null; then
	ok 'over a veth pair' only "$TCP"
	is "$(figures)" "$TCP" 'its figures are above 0'
	is "$(ip link show kvb0 2>&1 | grep -c mtu)" 0 'the link is gone'
else
	skip 'over a veth pair' 'no network name spaces may be made here'
fi

exits 69 'more keys than a pool has room for' only exist_100k \
	--pool-size=16MB --held=100,70000
like "$(cat "$T/err")" 'keys are there: is the pool too small' 'says so'
exits 64 'a fresh pool without room for a batch' only put_fresh \
	--pool-size=16MB --size=4MB --rounds=2
# The other figures are measured all the same.
exits 69 'one figure fails' only 'fill
exist_100k' --pool-size=16MB --held=100,70000
is "$(figures)" 'fill % pool' 'the other one is there'

# Killed, it leaves no daemon.
kvbench $QUICK --time=60s --only=idle bars >"$T/killed" 2>&1 &
pid=$!
tries=0
until [ -n "$(daemons $pid)" ] || [ $tries -gt 200 ]; do
	sleep 0.05
	tries=$((tries + 1))
done
like "$(daemons $pid)" cmdline 'it has a kvclient'
kill -9 $pid
wait $pid 2>/dev/null
while [ -n "$(daemons $pid)" ] && [ $tries -lt 600 ]; do
	sleep 0.05
	tries=$((tries + 1))
done
is "$(daemons $pid)" '' 'which ends with it'

# Daemons that cannot start are told of.
mkdir "$T/bin"
cp "$KV_BIN/kvbench" "$T/bin/"
exits 69 'no kvmaster' env PATH=/usr/bin:/bin "$T/bin/kvbench" $QUICK \
	--only=idle bars
like "$(cat "$T/err")" '^kvbench: kvmaster does not start: cannot run it: ' \
	'says so'
printf '#!/bin/sh\necho no luck today >&2\nexit 1\n' >"$T/bin/kvmaster"
chmod +x "$T/bin/kvmaster"
exits 69 'a kvmaster that fails' "$T/bin/kvbench" $QUICK --only=idle bars
is "$(cat "$T/err")" 'kvbench: kvmaster does not start: no luck today' 'says why'
done_testing

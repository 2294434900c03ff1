#!/bin/sh
# kvbench link: two sides, or a kvclient as the other one; every figure is above
# 0, and what goes wrong is told in a line.
# shellcheck disable=SC2086 # QUICK is several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/bench.sh"
cd "$T" || exit 70

QUICK='--time=5ms --rounds=2 --memory=8MB --protocol=tcp'
listeners=
end_listeners()
{
	for listener in $listeners; do
		kill -9 "$listener" 2>/dev/null
	done
}
at_exit end_listeners

# listen [OPTION...]: its pid in $side, what others name it in $at
listen()
{
	: >listen.out
	kvbench --memory=8MB "$@" link --listen=127.0.0.1:0 >listen.out \
		2>listen.err &
	side=$!
	listeners="$listeners $side"
	try_for 10 grep -q '^    kvbench link ' listen.out || {
		diag "no listener: $(cat listen.err)"
		exit 70
	}
	at=$(sed -n 's/^    kvbench link //p' listen.out)
}

# ended CODE NAME: the listener, with that exit code
ended()
{
	ended_status=0
	wait "$side" || ended_status=$?
	is "$ended_status" "$1" "$2"
}

listen
ok 'two sides' kvbench $QUICK --json --size=5,64k,1MB --depth=1,3 link "$at"
is "$(link_figures | grep -v ' stream$')" 'write 5 1 tcp
write 65536 1 tcp
write 1048576 1 tcp
read 5 1 tcp
read 65536 1 tcp
read 1048576 1 tcp
send 5 1 unix
send 65536 1 unix
write 5 3 tcp
write 65536 3 tcp
write 1048576 3 tcp
read 5 3 tcp
read 65536 3 tcp
read 1048576 3 tcp
send 5 3 unix
send 65536 3 unix' 'each operation, size and depth, all above 0'
is "$(link_figures | grep -c ' stream$')" 16 'a stream beside each'
is "$(bench_rows | grep -c '"far_cpu_s_per_gb":[0-9]')" 32 \
	'and CPU of the other side'
is "$(bench_rows | grep -c '"floor_name":"stream","ratio":[0-9]')" 12 \
	'what goes over TCP has a ratio'
cp out link.json
ok 'report reads it' kvbench report link.json
like "$(cat out)" '^\| .tcp_write_1MB_x3. \|  \|  \| [0-9.]+ GB/s \([0-9.]+\)' \
	'as one more table'
ended 0 'the listening side ends with it'
like "$(cat listen.err)" '^kvbench: 127.0.0.1:[0-9]+: is done' 'and says so'

listen --keep
ok 'sizes that nobody named' kvbench --time=1ms --rounds=1 --memory=100MB \
	--json --protocol=tcp --only=write link "$at"
is "$(bench_rows | sed -n '$s/.*"size_bytes":\([0-9]*\).*/\1/p')" 4194304 \
	'are as large as there is memory for'
ok 'text' kvbench $QUICK --size=1k,2MB --only=read,send link "$at"
like "$(cat out)" '^  read +2.0 MiB +1 +tcp +[0-9.]+ +[0-9.]+ .*[0-9.]+$' 'in columns'
unlike "$(cat out)" write 'no more than was asked for'
exits 64 'more than the other side has' \
	kvbench --memory=16MB --size=9MB link "$at"
like "$(cat err)" '^kvbench: 9.0 MiB in 8.0 MiB of memory: both sides ' 'says so'
kill -TERM "$side"
ended 0 'a signal ends the listening side'

listen --local
ok 'ways of one host' kvbench $QUICK --json --local --size=4k \
	--only=write link "$at"
is "$(link_figures)" 'write 4096 1 stream
write 4096 1 copy
write 4096 1 shm' 'shared memory, beside copies'
ended 0 'and they end'

listen
kvbench --time=60s --rounds=1 --memory=8MB --size=512k --protocol=tcp \
	link "$at" >lost.out 2>lost.err &
lost=$!
try_for 10 grep -q 'measures$' listen.err || diag 'nobody came'
sleep 0.3
kill -9 "$side"
lost_status=0
wait "$lost" || lost_status=$?
is "$lost_status" 69 'a side that is killed in the middle'
like "$(cat lost.err)" "^kvbench: (write of 512.0 KiB|$at: (stream|write of 512.0 KiB by tcp)): " \
	'is told of'
is "$(wc -l <lost.err)" 1 'in one line'

listen
kill -STOP "$side"
exits 69 'a side that is stopped' kvbench $QUICK --timeout=500ms link "$at"
is "$(wc -l <err)" 1 'is told of in one line'
kill -CONT "$side"
ok 'when it goes on' kvbench $QUICK --size=4 link "$at"
ended 0 'all is well again'

exits 69 'nobody there' kvbench $QUICK link "$at"
is "$(cat err)" "kvbench: $at: nobody answers there; start 'kvbench link \
--listen' on that side" 'says what to do'
exits 64 'no address' kvbench $QUICK link unix:x
exits 64 'no other side' kvbench $QUICK link
exits 64 'both sides at once' kvbench --listen link "$at"
exits 64 'no size' kvbench --size=4,x link "$at"
exits 64 'no depth' kvbench --depth=65 link "$at"
like "$(cat err)" "^kvbench: --depth: '65' is not between 1 and 64" \
	'a number of calls, not of bytes'
exits 64 'an option of link alone' kvbench --keep local
like "$(cat err)" '^kvbench: local: --depth, --keep, .* are of link' 'says so'
exits 64 'an address beside --listen' kvbench link --listen 127.0.0.1
like "$(cat err)" 'listen at an address: --listen=127.0.0.1' 'says how'
exits 68 'a name that no host has' kvbench link nobody.invalid
like "$(cat err)" '^kvbench: nobody.invalid: no host has this name' 'says so'
exits 64 'no operation' kvbench --only=write,push link "$at"
exits 64 'larger than memory' kvbench --memory=1MB --size=2MB link "$at"
exits 69 'no RDMA' kvbench --protocol=rdma --device-name=none_0 link "$at"
like "$(cat err)" '^kvbench: --protocol=rdma: ' 'says why'

# Without a device there is nothing to compare with; with one it is compared.
if kvdiag devices >devices.out 2>&1; then
	skip 'perftest without a device' 'there is one'
else
	exits 69 'perftest without a device' kvbench --perftest --memory=1MB \
		link --listen=127.0.0.1:0
	like "$(cat err)" '^kvbench: --perftest: this machine has no RDMA device' \
		'says so'
fi
listen
exits 69 'perftest that the other side did not agree to' \
	kvbench $QUICK --perftest link "$at"
like "$(cat err)" '^kvbench: --perftest: ' 'is not run'
exits 64 'no operation of this other side' kvbench $QUICK --only=put link "$at"
like "$(cat err)" '^kvbench: --only=put: of .* there is write, read and send' \
	'says what there is'
exits 64 'nothing but too large messages' kvbench $QUICK --size=2MB,4MB \
	--only=send link "$at"
is "$(cut -d: -f2 err)" ' send of 2.0 MiB is left out
 send of 4.0 MiB is left out
 nothing is left to measure' 'says why'
ok 'a message that is too large' kvbench $QUICK --size=4,2MB --json link "$at"
is "$(cat err)" 'kvbench: send of 2.0 MiB is left out: at most 1000000 bytes are a message' \
	'is told of once'
ended 0 'it still listened'

start_master m
start_client a
start_client b
wait_nodes 2
at=$(addr b)
ok 'a kvclient' kvbench $QUICK --master="$MASTERS" --json --size=5,64k,2MB \
	--depth=1,2 link "$at"
is "$(link_figures | grep -v ' stream$')" 'put 5 1 tcp
put 65536 1 tcp
put 2097152 1 tcp
get 5 1 tcp
get 65536 1 tcp
get 2097152 1 tcp
put 5 2 tcp
put 65536 2 tcp
put 2097152 2 tcp
get 5 2 tcp
get 65536 2 tcp
get 2097152 2 tcp' 'puts and gets, all above 0'
is "$(bench_rows | grep -c '"floor_name":"stream","ratio":[0-9]')" 12 \
	'beside a stream'
ok 'keys' kvdiag $M keys
is "$(cat out)" '' 'nothing is left there'
exits 69 'a kvclient of no master that is named' kvbench $QUICK --socket= \
	link "$at"
is "$(cat err)" "kvbench: $at: a kvclient: name its masters with --master" \
	'says what to do'
exits 64 'an operation of an engine' kvbench $QUICK --master="$MASTERS" \
	--only=write link "$at"
like "$(cat err)" '^kvbench: --only=write: of .* there is put and get' \
	'is none of a kvclient'
exits 76 'a master' kvbench $QUICK --master="$MASTERS" link "$MASTERS"
like "$(cat err)" 'refuses: a master\?' 'is none'
end_all
done_testing

#!/bin/sh
# kvclient as a process: what it serves, how it starts, how it ends.
. "$(dirname "$0")/../lib/tap.sh"
require python3 setsid
cd "$TOP" || exit 70
sock=$T/run/s
mkdir "$T/run"

raw()
{
	python3 tests/python/kvraw.py "$@"
}

# start NAME [OPTION...]: a kvclient; $pid, $addr, its log in $T/NAME.
start()
{
	log=$T/$1
	shift
	: >"$log"
	"$KV_BIN/kvclient" --global-segment-size 32MB --port 0 \
		--socket "$sock" --host 127.0.0.1 "$@" 2>"$log" &
	pid=$!
	at_exit "kill -KILL $pid 2>/dev/null"
	for _ in $(seq 200); do
		grep -q ' ready ' "$log" && break
		sleep 0.05
	done
	addr=$(sed -n 's/.* ready addr=\([^ ]*\).*/\1/p' "$log")
}

# ended WITHIN_TENTHS: the exit code of $pid, or "late".
ended()
{
	for _ in $(seq "$1"); do
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	if kill -0 $pid 2>/dev/null; then
		code=late
		return
	fi
	code=0
	wait $pid || code=$?
}

# becomes VALUE COMMAND...: what the command prints becomes VALUE in 5 s.
becomes()
{
	want=$1
	shift
	for _ in $(seq 50); do
		got=$("$@" 2>&1)
		[ "$got" = "$want" ] && break
		sleep 0.1
	done
	is "$got" "$want" "$*"
}

# ---- what it serves ----

start serves
like "$addr" '^127\.0\.0\.1:[0-9]+$' 'the ready line says where it listens'
ok 'a small value through the socket' raw "$sock" put k1 hello
is "$(raw "$addr" get k1)" hello 'and out over TCP'
ok 'a small value over TCP' raw "$addr" put k2 world
is "$(raw "$sock" get k2)" world 'and out through the socket'
ok 'a large value over a data connection' raw "$addr" tcp k3 3000000
ok 'a large value in place' raw "$sock" shm k4 3000000
not_ok 'a miss' raw "$addr" get nothing
like "$(cat "$T/err")" 'status 1$' 'is status 1'
not_ok 'attaching over TCP' raw "$addr" shm k5 1000
like "$(cat "$T/err")" 'status 13$' 'is denied'

# ---- a requester that is killed ----

: >"$T/held"
python3 tests/python/kvraw.py "$sock" hold k4 >"$T/held" &
holder=$!
at_exit "kill -KILL $holder 2>/dev/null"
for _ in $(seq 100); do
	grep -q holding "$T/held" && break
	sleep 0.05
done
is "$(raw "$addr" stat pins grants)" '1 1' 'it holds a pin and a grant'
kill -KILL $holder
wait $holder 2>/dev/null
becomes '0 0' raw "$addr" stat pins grants
is "$(raw "$addr" stat processes_lost)" 1 'its end was noticed'
not_ok 'what it had not committed is not there' raw "$addr" get held

# ---- a socket that is removed ----

for what in "$sock" "$sock $sock.lock"; do
	# shellcheck disable=SC2086 # two words
	rm $what
	becomes hello raw "$sock" get k1
	is "$(stat -c %a "$sock")" 600 'it is made again as it was'
	ok 'with its lock' test -e "$sock.lock"
done
is "$(grep -c "warn .* socket $sock was gone: it is made again" "$log")" 2 \
	'the log says so'

# ---- the end ----

kill -TERM $pid
ended 50
is "$code" 0 'SIGTERM ends it with 0'
not_ok 'its socket is gone' test -e "$sock"

start drains
: >"$T/waits"
python3 tests/python/kvraw.py "$sock" wait late >"$T/waits" 2>&1 &
waiter=$!
at_exit "kill -KILL $waiter 2>/dev/null"
for _ in $(seq 100); do
	grep -q waiting "$T/waits" && break
	sleep 0.05
done
kill -TERM $pid
ended 10
is "$code" late 'a put under way is waited for'
kill -TERM $pid
ended 20
is "$code" 0 'a second signal ends it at once'
kill -KILL $waiter 2>/dev/null
wait $waiter 2>/dev/null

start hangs_up
kill -HUP $pid
kill -PIPE $pid
sleep 0.2
ok 'SIGHUP and SIGPIPE are ignored' raw "$addr" put k v
kill -INT $pid
ended 50
is "$code" 0 'SIGINT ends it with 0'

start without --socket '' --exist-grace 0
like "$(cat "$log")" 'ready .*socket=none' 'an empty socket is none'
ok 'others reach it' raw "$addr" put k v
kill -TERM $pid
ended 50
is "$code" 0 'and it ends well'

if unshare -pf true 2>/dev/null; then
	: >"$T/one"
	unshare -pf --kill-child "$KV_BIN/kvclient" --port 0 \
		--global-segment-size 32MB --socket "$sock" 2>"$T/one" &
	pid=$!
	at_exit "kill -KILL $pid 2>/dev/null"
	for _ in $(seq 100); do
		grep -q ' ready ' "$T/one" && break
		sleep 0.05
	done
	like "$(cat "$T/one")" 'kvclient\[1\]: ready' 'it runs as PID 1'
	kill -TERM "$(pgrep -P $pid)"
	ended 50
	is "$code" 0 'SIGTERM ends it as PID 1 too'
else
	skip 'as PID 1' 'no new pid name space here'
fi

# ---- how it starts ----

start killed
kill -KILL $pid
wait $pid 2>/dev/null
ok 'a killed one leaves its socket' test -S "$sock"
start again
ok 'the next one takes its place' raw "$sock" put k v

# one_line CODE REGEX NAME OPTION...: it ends so, with one line that says why.
one_line()
{
	what=$3
	pattern=$2
	code=$1
	shift 3
	exits "$code" "$what" timeout 10 "$KV_BIN/kvclient" "$@"
	is "$(wc -l <"$T/err")" 1 "$what: one line"
	like "$(cat "$T/err")" "$pattern" "$what: the reason"
}

small='--global-segment-size 32MB'
# shellcheck disable=SC2086 # several words
{
	one_line 69 "already running, pid $pid" 'a socket that is in use' \
		$small --port 0 --socket "$sock"
	one_line 69 'in use' 'a port that is taken' \
		$small --port "${addr##*:}" --socket "$T/run/t"
	one_line 64 'no group nosuchgroup' 'a group that does not exist' \
		$small --port 0 --socket "$T/run/t" --socket-group nosuchgroup
	one_line 64 'in brackets' 'a master that is no address' \
		$small --port 0 --socket "$T/run/t" --master a:b:c
	one_line 71 'does not fit' 'more memory than there is' \
		--global-segment-size 900TB --port 0 --socket "$T/run/t"
	one_line 71 'needs [0-9]* huge pages, [0-9]* are free; echo ' \
		'more huge pages than there are' --hugepages \
		--global-segment-size 900TB --port 0 --socket "$T/run/t"
	one_line 64 'more than 0' 'no memory' \
		--global-segment-size 0 --port 0 --socket "$T/run/t"
}
kill -TERM $pid
ended 50

printf '{"global_segment_size": "16MB", "master_server_address": "%s"}' \
	nosuch.invalid:1 >"$T/config"
: >"$T/waiting"
"$KV_BIN/kvclient" --config "$T/config" --port 0 --socket "$sock" \
	2>"$T/waiting" &
pid=$!
at_exit "kill -KILL $pid 2>/dev/null"
for _ in $(seq 100); do
	grep -q 'no session' "$T/waiting" && break
	sleep 0.05
done
like "$(cat "$T/waiting")" 'ready .*pool="16.0 MiB" master=nosuch.invalid:1' \
	'the configuration file is read'
like "$(cat "$T/waiting")" 'nosuch.invalid:1: cannot resolve the name: ' \
	'a master that does not resolve is waited for'
ok 'and its own keys are served meanwhile' raw "$sock" put k v
kill -TERM $pid
ended 50
is "$code" 0 'waiting for a master does not keep it from ending'
done_testing

#!/bin/sh
# Raw transfers between two network name spaces, which are two hosts to an
# engine: case-020 of batches, IPv6, a link that is cut, a peer that is killed.
. "$(dirname "$0")/../lib/tap.sh"
require ip
a=kvt-$$a
b=kvt-$$b
io=$KV_BIN/tests/it/engineio
bytes=$((4 * 1024 * 32768)) # what 4 threads of it use

stop_server()
{
	exec 9>&-
	[ -z "${server:-}" ] || kill -9 "$server" 2>/dev/null || :
	wait 2>/dev/null || :
}

remove_spaces()
{
	stop_server
	ip netns del $a 2>/dev/null || :
	ip netns del $b 2>/dev/null || :
}
at_exit remove_spaces

{ ip netns add $a && ip netns add $b; } 2>/dev/null ||
	skip_all 'no network name spaces may be made here'
ip -n $a link add va type veth peer name vb netns $b ||
	skip_all 'no veth pair may be made here'
for side in "$a va 1" "$b vb 2"; do
	# shellcheck disable=SC2086 # three words
	set -- $side
	ip -n "$1" addr add "10.9.0.$3/24" dev "$2"
	ip -n "$1" addr add "fd00:9::$3/64" dev "$2" nodad
	ip -n "$1" link set "$2" up
	ip -n "$1" link set lo up
done

# start LISTEN: an engine in the second one, its port
start()
{
	rm -f "$T/in" "$T/port"
	mkfifo "$T/in"
	ip netns exec $b "$io" serve "$1" $bytes <"$T/in" >"$T/port" \
		2>"$T/server.err" &
	server=$!
	exec 9>"$T/in"
	tries=0
	while [ ! -s "$T/port" ] && [ $tries -lt 100 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
	read -r port _ <"$T/port"
}

here()
{
	ip netns exec $a "$io" "$@"
}

start '[::]:0'
ok 'path' here path "10.9.0.2:$port"
like "$(cat "$T/out")" '^tcp: another host or network name space; no RDMA: .' \
	'it says why no better one'
ok 'path over IPv6' here path "[fd00:9::2]:$port"

# The same by kvdiag, which needs no pool; and case-019: what a process may not
# do to another one, kvdiag may not do where that process is.
# there WORD...: how a process in the second one would reach the engine there
there()
{
	if ip netns exec $b "$@" "$KV_BIN/kvdiag" --json \
		links "127.0.0.1:$port" >"$T/out" 2>"$T/err"; then
		tr -d '\n' <"$T/out" |
			sed 's/.*"path": *"\([^"]*\)", *"why": *"\(.*\)".*/\1: \2/'
	else
		echo "exit status $? $(cat "$T/err")"
	fi
}
ok 'kvdiag links' ip netns exec $a "$KV_BIN/kvdiag" links "10.9.0.2:$port"
like "$(tr -s ' \n' ' ' <"$T/out")" \
	"^engine 10.9.0.2:$port path tcp why another host or network name space" \
	'says it, too'
like "$(there env)" '^attach: ' 'on one host: cross-memory attach'
for how in 'unshare -Ur' 'unshare -pf --mount-proc' \
	'setpriv --reuid 65534 --clear-groups'; do
	# shellcheck disable=SC2086 # several words
	if ip netns exec $b $how test -x "$KV_BIN/kvdiag" 2>/dev/null; then
		like "$(there $how)" '^tcp: .' "$how: not, and why"
	else
		skip "$how" 'not permitted here'
	fi
done
exits 69 'where no engine is' "$KV_BIN/kvdiag" --timeout=1s \
	links 127.0.0.1:1
like "$(cat "$T/err")" '^kvdiag: links: engine 127.0.0.1:1: ' 'a line says so'
exits 64 'at what is no address' "$KV_BIN/kvdiag" links 'a b'
exits 69 'variables of Mooncake' env MC_NONSENSE=1 MC_OTHER=2 MC_MTU=1024 \
	"$KV_BIN/kvdiag" --timeout=1s links 127.0.0.1:1
like "$(cat "$T/err")" \
	'variables that mean nothing to kvpool: MC_NONSENSE, MC_OTHER$' \
	'are named by engines, too, if they mean nothing here'
is "$(grep -c MC_ "$T/err")" 1 'once'

# case-020; 64 MiB of memory each, used again by the larger batches.
ok 'batches of 1 to 65536 pieces from 4 threads' here batch \
	"10.9.0.2:$port" 4 65536 10000 8192 4096 1
is "$(grep -c ': 0 wrong bytes$' "$T/out")" 5 'every byte is right'
ok 'batches over IPv6' here batch "[fd00:9::2]:$port" 2 1000 1000
is "$(grep -c ': 0 wrong bytes$' "$T/out")" 2 'every byte is right'

# The cable is pulled: no answer of any kind, not even a reset.
cut_link()
{
	sleep 0.3
	ip -n $b link set vb down
}
cut_link &
ok 'the link is cut in the middle' here flood "10.9.0.2:$port" $bytes 1500
wait $!
like "$(cat "$T/out")" '^ETIMEOUT after (1[5-9]|2[0-9])[0-9][0-9] ms$' \
	'the deadline ends it'
ip -n $b link set vb up
ip -n $b addr add fd00:9::2/64 dev vb nodad 2>/dev/null || :
ok 'afterwards all is well' here batch "10.9.0.2:$port" 1 100

kill -9 "$server"
wait "$server" 2>/dev/null || :
ok 'a dead peer' here flood "10.9.0.2:$port" 4096 5000
like "$(cat "$T/out")" '^EUNREACHABLE ' 'cannot be reached'
before=$port
start "[::]:$port"
is "$port" "$before" 'a successor at the same port'
ok 'is met' here batch "10.9.0.2:$port" 1 100
stop_server
server=
done_testing

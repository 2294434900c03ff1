#!/bin/sh
# case-012: descriptors used up by strangers, at each kind of port of kvmaster
# and kvclient. Who is connected is served, nothing spins, one line says which
# limit it was, and all goes on when there are descriptors again.
# shellcheck disable=SC2046,SC2086 # at, M and others are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
require perl prlimit
cd "$T" || exit 70

master_http=$(free_port)
start m --rpc-port prlimit --nofile=64 kvmaster --listen=127.0.0.1 \
	--http-port="$master_http"
master=127.0.0.1:$cluster_port
MASTERS=$master
M="--socket= --master=$MASTERS"

# node NAME HOST
node()
{
	start "$1" --port prlimit --nofile=64 kvclient --master=$MASTERS \
		--host="$2" --socket="$T/$1.sock" --global-segment-size=32MB \
		--http-port="$(free_port)"
	cluster_ports="$cluster_ports $1:$cluster_port"
}
node a 127.0.0.2
node b 127.0.0.3
wait_nodes 2
for name in a b; do
	watch put-$name --do=put --once --prefix=on-$name --keys=20 \
		--size=100k --prefer="$(addr $name)" $(at b)
	is "$(sum put-$name 3)" 20 "20 keys are put at $name"
done

cat >flood.pl <<'E2'
use IO::Socket::INET;
use IO::Socket::UNIX;
my @all = map {
	$ARGV[0] =~ m|^/| ? IO::Socket::UNIX->new($ARGV[0])
		: IO::Socket::INET->new($ARGV[0]) or die
} 1 .. 200;
syswrite STDOUT, "open\n";
sleep 60;
E2
floods=

# flood ADDRESS: 200 connections that say nothing, until ebb.
flood()
{
	: >flood.out
	perl flood.pl "$1" >flood.out 2>&1 &
	floods="$floods $!"
	try_for 10 grep -q open flood.out || diag "$(cat flood.out)"
}
ebb()
{
	[ -z "$floods" ] || kill $floods
	wait $floods 2>/dev/null
	floods=
}
at_exit ebb

# says NAME WHERE
says()
{
	ok "$1: says which limit it is" try_for 5 grep -q \
		" err .*$2: all 64 .*descriptors .*; raise .*(ulimit -n)" "$1.log"
}

# spins NAME...: ticks of a processor in a second, of the one with most.
spins()
{
	for spins_name; do
		awk '{ print $14 + $15 }' "/proc/$(pid_of "$spins_name")/stat"
	done >before
	sleep 1
	for spins_name; do
		awk '{ print $14 + $15 }' "/proc/$(pid_of "$spins_name")/stat"
	done | paste before - | awk '$2 - $1 > n { n = $2 - $1 } END { print n + 0 }'
}

NEAR="--socket=$T/b.sock --master=$MASTERS"

# These have their connections before.
LOAD="--keys=20 --size=100k --seconds=5 --pause-ms=20"
drive near watch --prefix=on-b $LOAD $(at b)
drive far watch --prefix=on-a $LOAD $(at -)
drive puts watch --do=put --prefix=new --keys=100000 --size=1k --pause-ms=20 \
	--prefer="$(addr a)" --seconds=5 $(at -)
sleep 0.3

full=$(now)
flood $master
flood "$(addr a)"
flood "$T/b.sock"
says m "on $master"
says a 'on .*'
says b "on unix:$T/b.sock"
ok 'none of them spins' test "$(spins m a b)" -le 20
exits 69 'who comes to the master is turned away' kvget --timeout=1s $M on-a/0
exits 69 'who comes to the socket is' kvget --timeout=1s $NEAR on-b/0
like "$(cat err)" "^kvget: $T/b.sock: no kvclient answers there: " 'and told'
for name in near far puts; do
	driven $name "$name: goes on on its connections"
	is "$(sum $name 4)$(sum $name 8)" 00 "$name: nothing fails"
	ok "$name: meanwhile" test "$(sum $name 3 $((full + 500)))" -gt 20
done
is "$(sum puts 8)$(stat a puts_unpublished)" 00 'and is published'
ebb

healed()
{
	for on in b/0 a/0; do
		kvget $NEAR -o got on-$on && kvget $M -o got on-$on || return
	done
}
ok 'all goes on when they are gone' try_for 8 healed
for name in m a b; do
	is "$(grep -c 'descriptors are in use' $name.log)" 1 "$name: one line"
	ok "$name: and one that it is over" try_for 2 \
		grep -q 'info .*new connections on .* again' $name.log
done

# A newcomer cannot reach it, tells, and the master finds it so; but who has a
# connection there is served, whatever others say.
drive far watch --prefix=on-a --keys=20 --size=100k --seconds=6 \
	--pause-ms=20 $(at -)
sleep 0.5
flood "$(addr a)"
full=$(now)
suspected()
{
	kvget --timeout=1s $M -o got on-a/0
	kvdiag $M nodes | grep -q suspect
}
ok 'a newcomer makes it suspect' try_for 8 suspected
told=$(now)
driven far 'far: goes on on its connections'
is "$(sum far 4)$(sum far 8)" 00 'far: nothing fails'
ok 'far: meanwhile' test "$(sum far 3 $((told + 100)))" -gt 10
diag "suspect after $((told - full)) ms, then $(sum far 3 "$told") calls"
ebb
ok 'all goes on when they are gone' try_for 8 healed
wait_nodes 2

# So is who puts, where there is no other node.
start alone --rpc-port kvmaster --listen=127.0.0.1 --http-port=0
alone=127.0.0.1:$cluster_port
start c --port prlimit --nofile=64 kvclient --master=$alone --host=127.0.0.4 \
	--socket="$T/c.sock" --global-segment-size=32MB
M="--socket= --master=$alone"
ok 'a node alone' try_for 10 kvput $M first got
drive puts watch --do=put --prefix=new --keys=100000 --size=1k --pause-ms=20 \
	--seconds=5 --master=$alone
sleep 0.5
flood "127.0.0.4:$cluster_port"
alone_suspected()
{
	kvget --timeout=1s $M -o got first
	kvdiag $M nodes | grep -q suspect
}
ok 'a newcomer makes it suspect' try_for 8 alone_suspected
told=$(now)
driven puts 'puts: go on on their connections'
is "$(sum puts 8)" 0 'puts: nothing fails'
ok 'puts: meanwhile' test "$(sum puts 3 $((told + 1500)))" -gt 10
ebb
M="--socket= --master=$master"

# HTTP has its own way to accept.
flood "127.0.0.1:$master_http"
for name in a b; do
	flood "127.0.0.1:$(sed -n 's/.* ready .* http=\([0-9]*\) .*/\1/p' $name.log)"
done
for name in m a b; do
	says $name 'HTTP connections on port [0-9]*'
done
ok 'none of them spins' test "$(spins m a b)" -le 20
ebb
ok 'all goes on when they are gone' try_for 8 healed
ok 'HTTP too' perl "$TOP/tests/lib/http.pl" GET \
	"http://127.0.0.1:$master_http/health"
end_all
done_testing

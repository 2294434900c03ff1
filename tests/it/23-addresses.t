#!/bin/sh
# What a node or a master may be called: IPv6, a name that does not resolve, one
# name for two nodes, one address for two nodes, no address, a name that means
# every host.
# shellcheck disable=SC2086 # M and others are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
cd "$T" || exit 70
head -c 300000 /dev/urandom >in

# node NAME OPTION...
node()
{
	start "$@" --global-segment-size=32MB
}

# ---- IPv6 ----

has_ipv6=1
grep -q '^0*1 ' /proc/net/if_inet6 2>/dev/null || has_ipv6=
if [ "$has_ipv6" ]; then
	start m6 --rpc-port kvmaster --listen=::1 --http-port=0
	MASTERS="[::1]:$cluster_port"
	M="--socket= --master=$MASTERS"
	like "$(cat m6.log)" "ready addr=\\[::1\\]:$cluster_port " 'kvmaster'
	for host in ::1 '[::1]'; do
		name=n$((${#host} / 5))
		node $name --port kvclient --master=$MASTERS --host="$host" \
			--socket="$T/$name.sock"
		like "$(cat $name.log)" " ready addr=\\[::1\\]:$cluster_port " \
			"kvclient --host=$host"
	done
	wait_nodes 2
	ok 'IPv6: put' kvput $M -r 2 k in
	ok 'get from afar' kvget $M -o got k
	ok 'the same' cmp in got
	ok 'get at a node' kvget --socket="$T/n0.sock" --master=$MASTERS k
	ok 'kvdiag links' kvdiag $M links
	is "$(grep -c ' \[::1\]:[0-9]* *tcp ' out)" 2 'they go over IPv6'
	for port in '' 50051; do
		exits 64 "without brackets${port:+, with a port}" \
			kvget --socket= -m "::1${port:+:$port}" k
		like "$(cat err)" "^kvget: --master: '::1.*in brackets, as in" \
			'says how'
		is "$(wc -l <err)" 1 'in a line'
	done
	end_all
else
	skip 'IPv6' 'no IPv6 here'
fi
MASTERS=

# ---- what is no address ----

# refused OPTION VALUE WHY
refused()
{
	exits 64 "kvclient $1='$2'" timeout 5 kvclient --port=0 --socket="$T/x" \
		--global-segment-size=16MB "$1=$2"
	is "$(cat err)" "kvclient: $1: $3" 'one line says why'
}
refused --host 'a b' "'a b': that is no host name"
refused --host host:1 "'host:1': the port is --port"
refused --host '[::1]:1' "'[::1]:1': the port is --port"
refused --host 10.1 "'10.1': that is no IPv4 address"
refused --master a..b "'a..b': that is no host name"
refused --master host:0 "'host:0': the port is not from 1 to 65535"
refused --master '' "'': no host"
refused --master a,b,c,d,e 'more than 4 addresses'
for command in 'kvput k in' 'kvget k' 'kvget --exist k' 'kvrm k' 'kvdiag nodes'; do
	exits 64 "$command, a bad master" $command --socket= --master=300.0.0.1
	is "$(cat err)" "${command%% *}: --master: '300.0.0.1': that is no IPv4 address" \
		'one line'
done

# ---- a name that does not resolve ----

port=$(free_port)
for command in 'kvput k in' 'kvget k' 'kvget --exist k' 'kvrm k' \
	'kvdiag nodes'; do
	exits 69 "$command, no such name" \
		$command --socket= --master=nobody.invalid --timeout=1s
	is "$(wc -l <err)" 1 'one line'
	like "$(cat err)" "^${command%% *}: .*nobody\\.invalid" 'which names it'
done
exits 69 'kvmaster, no such name' timeout 5 kvmaster --listen=nobody.invalid
like "$(cat err)" 'nobody\.invalid:[0-9]*: cannot resolve the name: ' 'says so'

# One of several is enough, in whatever place.
start_master m
start a --port kvclient --master="nobody.invalid,$MASTERS" \
	--host=127.0.0.1 --socket="$T/a.sock" --global-segment-size=32MB
like "$(cat a.log)" 'ready ' 'a node with one good master of two is ready'
wait_nodes 1
ok 'put' kvput --socket="$T/a.sock" --master="nobody.invalid,$MASTERS" k in
ok 'get' kvget --socket= --master="nobody.invalid,$MASTERS" -o got k
ok 'the same' cmp in got
ok 'nobody.invalid is one line' try_for 3 grep -q \
	'no session with master=nobody.invalid:50051: cannot resolve the name' a.log
end a

# A node by a name that nobody knows (case-013).
start a --port kvclient --master="$MASTERS" --host=nobody.invalid \
	--socket="$T/a.sock" --global-segment-size=32MB
ok 'a node named nobody.invalid says so' try_for 5 grep -q \
	"warn .*addr=nobody.invalid:$cluster_port: cannot resolve the name: .*--host" \
	a.log
seen()
{
	kvdiag $M nodes | grep -q "^nobody.invalid  *127.0.0.1:$cluster_port  *live "
}
ok 'others are told what the master sees' try_for 10 seen
ok 'put there' kvput --socket="$T/a.sock" there in
ok 'get from elsewhere' kvget $M -o got there
ok 'the same' cmp in got
ok 'put from elsewhere' kvput $M elsewhere in
end a

# ---- two nodes of one name ----

for name in a b; do
	node $name --port kvclient --master=$MASTERS --host=127.0.0.5 \
		--socket="$T/$name.sock"
	cluster_ports="$cluster_ports $name:$cluster_port"
done
wait_nodes 2
for name in a b; do
	like "$(kvdiag $M nodes)" "^127\\.0\\.0\\.5 +$(addr $name) +live " \
		"one name, two nodes: $name has its row"
done
ok 'two copies' kvput $M -r 2 both in
is "$(kvdiag $M key both | grep -c ' 127\.0\.0\.5:[0-9]* ')" 2 'one on each'
for name in a b; do
	ok "prefer $name by its address" \
		kvput $M --prefer="$(addr $name)" on-$name in
	like "$(kvdiag $M key on-$name)" " $(addr $name) " 'it is there'
done
ok 'prefer any of them by the name' kvput $M --prefer=127.0.0.5 any in
end b KILL
ok 'one ends, what the other has is found' kvget $M -o got both
ok 'the same' cmp in got
ok 'and more is put' kvput $M --prefer=127.0.0.5 more in
end a
unlike "$(cat m.log)" 'two nodes have' 'nothing to complain of'
end_all

# ---- two nodes of one address, on two hosts ----

MASTERS=10.9.0.9:20001
is_netns=1
netns_init && netns m 9 && netns a 1 && netns b 2 || is_netns=
ip netns exec "$NS-m" true 2>/dev/null || is_netns=
if [ -z "$is_netns" ]; then
	skip 'two nodes of one address' 'network namespaces are not allowed here'
	done_testing
	exit
fi
launch mm ip netns exec "$NS-m" kvmaster --rpc-port=20001 --http-port=0 || exit 70
for name in a b; do
	launch $name ip netns exec "$NS-$name" kvclient --master=$MASTERS \
		--host=10.9.0.1 --port=20002 --socket="$T/$name.sock" \
		--global-segment-size=32MB || exit 70
done
warned='warn .*two nodes have addr=10\.9\.0\.1:20002, .* --host or --port$'
ok 'one address of two hosts: the master says so' try_for 5 \
	grep -q "$warned" mm.log
# Whose it really is: that one serves all; of the other nobody gets anything
# but its own host.
for i in 1 2 3 4 5 6; do
	ok "put $i" ip netns exec "$NS-m" \
		kvput --socket= --master=$MASTERS k$i in
	ok "get $i" ip netns exec "$NS-b" \
		kvget --socket= --master=$MASTERS -o got k$i
	ok 'the same' cmp in got
done
ok 'put at the other' kvput --socket="$T/b.sock" --timeout=5s own in
exits 1 'is a miss elsewhere' ip netns exec "$NS-m" \
	kvget --socket= --master=$MASTERS --timeout=5s own
ok 'and no secret' try_for 5 grep -q \
	'cannot be reached .*: another process has its address' mm.log
ok 'there it is' kvget --socket="$T/b.sock" -o got own
ok 'the same' cmp in got
for name in a b; do
	end $name
done

# ---- names that are 127.0.1.1 to their own host, or nothing (case-013) ----

if unshare -m true 2>/dev/null; then
	printf '127.0.1.1 own-name Own_Name OWN.Example\n' >hosts
	seen()
	{
		ip netns exec "$NS-m" kvdiag --socket= --master=$MASTERS nodes |
			grep -q "^$name  *10\.9\.0\.1:20002  *live "
	}
	loopback='is a loopback address'
	for own in "own-name $loopback" "Own_Name $loopback" \
		"OWN.Example $loopback" 'own.Nobody_1.invalid. cannot resolve'; do
		name=${own%% *}
		# shellcheck disable=SC2016 # for the inner shell
		launch a ip netns exec "$NS-a" unshare -m sh -c '
			mount --bind "$0" /etc/hosts
			exec kvclient "$@"' "$T/hosts" --master=$MASTERS \
			--host="$name" --port=20002 --socket="$T/a.sock" \
			--global-segment-size=32MB || exit 70
		ok "$name: the master tells others what it sees" try_for 10 seen
		like "$(cat a.log)" \
			"warn .*addr=$name:20002.* ${own#* }.*sees.*--host" \
			'a line says why, and what to do'
		ok 'put there' kvput --socket="$T/a.sock" --timeout=5s "$name" in
		ok 'get from another host' ip netns exec "$NS-b" kvget \
			--socket= --master=$MASTERS --timeout=5s -o got "$name"
		ok 'the same' cmp in got
		end a
	done
else
	skip 'a name that is 127.0.1.1' 'unshare: not permitted'
fi
end_all
done_testing

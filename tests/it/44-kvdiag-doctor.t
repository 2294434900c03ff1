#!/bin/sh
# kvdiag doctor: nothing on a pool that is well, and each fault that it knows,
# made for real, with what to do about it.
# shellcheck disable=SC2046,SC2086 # A, M and via are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

require python3 prlimit
perl -MJSON::PP -e 1 2>/dev/null || skip_all 'perl has no JSON::PP'
cd "$T" || exit 70

# Here every daemon should answer at once, but the machine may be busy.
diagnose()
{
	kvdiag --timeout=4s "$@" doctor
}
# finds CODE NAME REGEX OPTION...: doctor exits so and says that.
finds()
{
	finds_code=$1
	finds_name=$2
	finds_what=$3
	shift 3
	exits "$finds_code" "$finds_name" diagnose "$@"
	like "$(cat out)" "$finds_what" "$finds_name: says so, and what to do"
}
# near NAME: without the time that via gives.
near()
{
	echo "--socket=$(socket "$1") --master=$MASTERS"
}
well()
{
	grep -v '^ok ' out
}

# ---- no pool ----

exits 69 'no master, no node' diagnose --socket=
like "$(cat out)" '^fault +masters: no master is named; --master HOST:PORT' \
	'says what to name'
is "$(cat err)" '' 'and nothing besides'
port=$(free_port)
exits 69 'a port on which nobody listens' kvdiag --timeout=500ms --socket= \
	--master=127.0.0.1:$port doctor
like "$(cat out)" "^fault +masters: .*:$port: nobody listens there .*; start kvmaster there" \
	'says so'
exits 69 'a socket that is not there' diagnose --socket="$T/none"
like "$(cat out)" '^fault +local node: .*/none: .*no such socket; start kvclient' \
	'says so'
exits 69 'a name that is not known' diagnose --socket= \
	--master=nobody.invalid:1
like "$(cat out)" '^fault +masters: .* resolve .*; correct the name' 'says so'
start alone --port kvclient --socket="$T/alone.sock" \
	--global-segment-size=32MB
finds 1 'a node without a master' \
	'^warning +masters: no master is named, nor does the kvclient .*; --master' \
	--socket="$T/alone.sock"
end alone
exits 64 'an option that is not known' kvdiag doctor --nonsense
exits 78 'a configuration that is none' kvdiag doctor /dev/null

# ---- a pool that is well ----

http=$(free_port)
start_master m --http-port=$http
finds 1 'a pool without nodes' '^fault +members: no node is in the pool.*; start kvclient' $M
start_client a
start_client b
wait_nodes 2
A=$(near a)
ok 'a fresh pool' diagnose $A
is "$(well)" '' 'is well in each line'
for check in memory 'RDMA devices' 'locked memory' descriptors 'raw transfers' 'local node' \
	masters versions clocks members nodes addresses pools room \
	'key spaces'; do
	like "$(cat out)" "^ok +$check: ." "$check"
done
like "$(cat out)" '^ok +members: 2 nodes' 'in numbers'
ok 'without options for masters' diagnose --socket="$(socket a)"
like "$(cat out)" '^ok +masters: 1 of 1' 'the node names them'
ok 'as JSON' diagnose --json $A
cat >rows.pl <<'P'
use JSON::PP;
local $/;
my $v = JSON::PP->new->utf8->decode(<STDIN>);
print "$_->{level} $_->{check}\n" for grep { $_->{fact} && !$_->{advice} } @$v;
P
is "$(perl rows.pl <out | sort -u | wc -l)" 15 'has the same'

# ---- this host ----

exits 1 'few descriptors' prlimit --nofile=200 kvdiag --timeout=4s $A doctor
like "$(cat out)" '^warning +descriptors: .* 200 open.*; .ulimit -n' 'says so'
start_client c
prlimit --nofile=40 --pid="$(pid_of c)"
finds 1 'few descriptors of the kvclient' \
	'^(warning|fault) +descriptors: the kvclient .* of the 40 .*; .ulimit -n' \
	$(near c)
end c
configured()
{
	printf '{"master_server_address": "%s", "global_segment_size": "%s"%s}' \
		"$MASTERS" "$1" "$2" >conf
	kvdiag --socket= --timeout=4s doctor conf
}
ok 'a configured pool that fits' configured 64MB ''
like "$(cat out)" '^ok +memory: the configured pool of 64.0 MiB fits' 'says so'
exits 1 'one that does not' configured 900000GB ''
like "$(cat out)" '^fault +memory: a pool of 878.9 TiB does not fit: .*; ask for [0-9]+MB' \
	'says so'
exits 1 'one of huge pages' configured 900000GB ', "hugepages": true'
like "$(cat out)" '^fault +huge pages: .* needs [0-9]* huge pages, .* echo ' \
	'says so'
# A control group of 100 MB, of version 1 or 2.
grouped()
{
	for limit in memory/kv_doctor.$$/memory.limit_in_bytes \
		kv_doctor.$$/memory.max; do
		group=/sys/fs/cgroup/${limit%/*}
		[ -e "${group%/*}/cgroup.procs" ] || continue
		mkdir "$group" && echo 100000000 >"/sys/fs/cgroup/$limit" &&
			return
		rmdir "$group"
	done
	return 1
}
cat >enter <<'E'
echo $$ >"$1/cgroup.procs" || exit 70
shift
exec "$@"
E
if grouped 2>/dev/null; then
	at_exit "rmdir '$group'"
	configured 32MB '' >out2 # writes conf
	exits 0 'a pool that fits into its control group' \
		sh enter "$group" kvdiag --socket= --timeout=4s doctor conf
	configured 512MB '' >out2
	exits 1 'one that does not' \
		sh enter "$group" kvdiag --socket= --timeout=4s doctor conf
	like "$(cat out)" '^fault +memory: a pool of 512.0 MiB does not fit: the control group leaves [89][0-9.]* MiB of its 95.4 MiB.*; ask for [0-9]*MB at most, or raise .*/kv_doctor' \
		'says so'
	# The one of the kvclient counts, whichever kvdiag is in.
	start grouped --port sh enter "$group" kvclient \
		--socket="$T/grouped.sock" --global-segment-size=48MB
	in_group=$(near grouped)
	memory()
	{
		diagnose $in_group >now
		grep -E "$1" now
	}
	ok 'a kvclient in a control group' try_for 10 memory \
		'^ok +memory: the kvclient .* 48.0 MiB .0 B .*, and [234][0-9.]* MiB are left'
	echo 70000000 >"/sys/fs/cgroup/$limit"
	ok 'that leaves too little' memory \
		'^fault +memory: the kvclient .* only [0-9.]+ MiB are left .*; give it a smaller'
	end grouped
else
	skip 'a control group' 'none can be made here'
fi
mkdir fs
if mount -t tmpfs -o size=16m kv_test fs 2>/dev/null; then
	at_exit "umount -l '$T/fs'"
	exits 1 'one in a small tmpfs' configured 64MB \
		", \"pool_file\": \"$T/fs/pool\""
	like "$(cat out)" '^fault +pool file: .*/fs/pool has 16.0 MiB left; ask for less' \
		'says so'
	is "$(ls fs)" '' 'and leaves nothing'
	ok 'one that fits there' configured 8MB \
		", \"pool_file\": \"$T/fs/pool\""
	like "$(cat out)" '^ok +pool file: .*/fs/pool has room' 'says so'
	mount -o remount,size=220m "$T/fs"
	# Stopped while its pages come, others take the rest.
	for _ in 1 2 3 4 5; do
		rm -f fs/*
		kvclient --master="$MASTERS" --host=127.0.0.20 --port=0 \
			--socket="$T/short.sock" --pool-file="$T/fs/pool" \
			--global-segment-size=200MB 2>short.log &
		echo $! >short.pid
		cluster_names="short $cluster_names"
		until grep -q ' ready ' short.log; do
			sleep 0.005
		done
		freeze short
		head -c 220M /dev/zero >fs/others 2>/dev/null
		thaw short
		try_for 20 grep -E 'pool ends at|of the pool is there' short.log
		grep -q 'pool ends at' short.log && break
		end short
	done
	wait_nodes 3
	finds 1 'a node that got less than it asked for' \
		'^fault +pools: 127.0.0.20 has [0-9.]+ MiB of its 200.0 MiB, and no more comes; see its log' \
		$(near short)
	end short
	wait_nodes 2
else
	skip 'a small tmpfs' 'cannot mount one'
fi
exits 1 'one in a folder that is not there' configured 8MB \
	", \"pool_file\": \"$T/none/pool\""
like "$(cat out)" '^fault +pool file: .*/none/pool: .*No such file' 'says so'

# ---- masters ----

finds 1 'the HTTP port of a master' \
	'^fault +masters: .*HTTP port.*; name the master.s RPC port' \
	--socket="$(socket a)" --master=127.0.0.1:$http
finds 1 'the port of a node' \
	'^fault +masters: .* is the port of a node.*; name the master' \
	--socket= --master="$(addr b)"
kill -STOP "$(pid_of m)"
exits 1 'a master that is stopped' kvdiag --timeout=500ms \
	--socket="$(socket a)" doctor
like "$(cat out)" '^fault +masters: .*: no answer in time.*; start kvmaster' \
	'says so'
kill -CONT "$(pid_of m)"

port=$(free_port)
launch old python3 "$TOP/tests/python/kvfake.py" $port 0.0.9 -7200000 ||
	diag "$(cat old.log)"
finds 1 'a master of another release' \
	"^warning +versions: 127.0.0.1:$port runs version 0.0.9, this kvdiag is .*; run one release" \
	--socket= --master=127.0.0.1:$port
like "$(cat out)" "^warning +clocks: the clock of 127.0.0.1:$port is (2h00m|1h59m) behind that of this host; start NTP" \
	'and with another clock'
end old
port=$(free_port)
launch new python3 "$TOP/tests/python/kvfake.py" $port refuse
exits 69 'a master of another protocol' diagnose --socket= \
	--master=127.0.0.1:$port
like "$(cat out)" '^fault +masters: .*version.*; run one release' 'says so'
end new

one=$MASTERS
start_master m2
finds 1 'nodes that know one master of two' \
	"^fault +members: node 127.0.0.2 .* is not known to master ${MASTERS#*,}; name all masters" \
	--socket= --master="$MASTERS"
end m2
MASTERS=$one
M="--socket= --master=$MASTERS --timeout=60s"

# ---- nodes ----

start_client lost --host=192.0.2.1
has_three()
{
	[ "$(kvdiag $M nodes | grep -c ' live ')" -eq 3 ]
}
ok 'a node at an address of nobody' try_for 20 has_three
finds 1 'that address' \
	'^fault +addresses: 192.0.2.1 is alive, .* 192.0.2.1:[0-9]+ does not answer here: [^;]+; start it with --host' \
	--socket= --master="$MASTERS" --timeout=1s
end lost

kill -STOP "$(pid_of b)"
silent()
{
	kvdiag --timeout=500ms $A doctor >now
	grep -Eq '^fault +nodes: 127.0.0.3 .* is (silent|suspect): .*; see its log' \
		now
}
ok 'a node that is stopped' try_for 30 silent
kill -CONT "$(pid_of b)"
wait_nodes 2
ok 'is well when it goes on' try_for 20 diagnose $A

start_client tiny --global-segment-size=2MB
wait_nodes 3
finds 1 'a node with next to no memory' \
	'^warning +pools: 127.0.0.[0-9]* has next to no memory: 2.0 MiB; give it more' $A
end tiny

# Alone in its pool, so that nothing goes elsewhere.
MASTERS=
start_master m3
start_client full --global-segment-size=32MB
wait_nodes 1
F=$(near full)
head -c 1000000 /dev/urandom >value
# fill NAME N OPTION...
fill()
{
	fill_name=$1
	seq "$2" | sed "s|.*|$fill_name/&\tvalue|" >list
	shift 2
	from list kvput $F --batch "$@" >put.out 2>&1
}
fill hard 40 --hard-pin
is_full()
{
	diagnose $F >now
	grep -Eq '^fault +room: .* is full and nothing may leave: .* keys, 3[0-9] of them hard-pinned, .*; .kvrm --force' now
}
ok 'a node full of pinned keys' try_for 20 is_full
ok 'remove them' kvrm $F --force --all
fill plain 90
is_small()
{
	diagnose $F >now
	grep -Eq '^warning +room: .* is too small for what is put: .* keys were evicted, .*; add memory' now
}
ok 'a node that evicts what was just put' try_for 20 is_small
end full
end m3
MASTERS=$one

# ---- key spaces ----

# keys SEED RANK: 1,100 of an engine, as vLLM makes them.
keys()
{
	perl -MDigest::SHA=sha256_hex -e '
		printf "model\@tp_rank:%d\@%s\n", $ARGV[1],
			sha256_hex("$ARGV[0] $_") for 1 .. 1100' "$1" "$2"
}
engine()
{
	keys "$1" "$2" | sed 's/$/\tsmall/' >list
	from list kvput $(via "$3") --batch >put.out 2>&1
}
asks()
{
	keys "$1" "$2" >asked
	from asked kvget $(via "$3") --exist >exist.out 2>&1
}
echo x >small
engine 1 0 a
engine 1 1 a
for i in 1 2 3 4 5 6; do
	asks "none$i" 0 a
	asks "none$i" 1 a
done
ok 'two ranks of one engine, that asked in vain' diagnose $A
like "$(cat out)" '^ok +key spaces: nothing to compare' 'have keys of their own'
engine 2 0 b
finds 1 'another engine, whose seed is another' \
	"^warning +key spaces: 2 processes put 2200 keys like 'model@tp_rank:0@#', [0-9]{5} keys were asked for, and none .*; .*PYTHONHASHSEED" $A
exits 1 'seen by the other side' diagnose $(near b)
ok 'one reads what another has put' kvget $(via b) -o got \
	"$(keys 1 0 | head -n 1)"
ok 'then their keys meet' diagnose $A
like "$(cat out)" '^ok +key spaces: of 3300 keys looked at [0-9]+ were read' \
	'says so'
like "$(kvdiag $A stats local)" '^ *gets_shared +1$' 'counted by the node'
end_all

# ---- two hosts ----

hosts()
{
	netns_init && netns m 9 && netns a 1 && netns b 2 &&
		ip netns exec "$NS-m" true
}
# on HOST PROGRAM...
on()
{
	on_host=$1
	shift
	ip netns exec "$NS-$on_host" "$@"
}
# beyond NAME HOST ADDRESS [MASTER]: a node there that says it is at ADDRESS.
beyond()
{
	launch "$1" ip netns exec "$NS-$2" kvclient \
		--master="${4:-10.9.0.9}:20001" --host="$3" --port=20002 --socket="$T/$1.sock" \
		--global-segment-size=32MB || exit 70
}
tells()
{
	on b kvdiag --timeout=1s --socket= --master=10.9.0.9:20001 doctor >now
	grep -Eq "$1" now
}
if hosts 2>/dev/null; then
	launch far ip netns exec "$NS-m" kvmaster --rpc-port=20001 \
		--http-port=0 || exit 70
	beyond loop m 127.0.0.1 127.0.0.1
	ok 'a node that is known by a loopback address' try_for 20 tells \
		'^fault +members: 10.9.0.9:20001 knows 1 node, of which it names 0 here: .*; start them with --host'
	end loop
	beyond one a 10.9.0.1
	beyond two b 10.9.0.1
	ok 'two nodes at one address' try_for 20 tells \
		'^fault +addresses: .* address 10.9.0.1:20002 does not answer here: another node does; start it with --host'
	is "$(grep -c '^fault ' now)" 1 'which one of them has'
	end two
	ok 'one of them alone is well' try_for 20 tells '^ok +addresses: 1 of 1'
	ip -n "$NS-a" link set eth0 down
	ok 'a cut link' try_for 20 tells \
		'^fault +(nodes|addresses): 10.9.0.1 .*(silent|suspect|does not answer here: no answer in time)'
	ip -n "$NS-a" link set eth0 up
	end_all
else
	skip 'two hosts' 'network namespaces are not allowed here'
fi
done_testing

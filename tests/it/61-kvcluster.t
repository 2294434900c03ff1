#!/bin/sh
# scripts/kvcluster starts pools, ends them, and leaves nothing, however it ends.
. "$(dirname "$0")/../lib/tap.sh"

kvcluster=$TOP/scripts/kvcluster
dir=$T/pool
cd "$T" || exit 70
unset MOONCAKE_CONFIG_PATH KVCLUSTER_DIR
head -c 300000 /dev/urandom >value

pid_of()
{
	cut -d ' ' -f 1 "$dir/$1.pid"
}

# Nobody may have waited for it: a zombie is gone.
is_gone()
{
	! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status"
}

# What a command wrote.
same()
{
	mv "$T/out" "$T/got"
	ok "$1" cmp "$T/got" value
}

# A test that ends early leaves nothing either.
stop_rest()
{
	[ ! -e "$dir/cluster" ] || "$kvcluster" stop --dir="$dir" >&2
}
at_exit stop_rest

exits 64 'no command' "$kvcluster"
exits 64 'no such command' "$kvcluster" begin
exits 64 'no such option' "$kvcluster" start --fast
exits 64 'no number' "$kvcluster" start -n two
exits 64 'too many' "$kvcluster" start -n 201
exits 64 'a folder too long for a socket' "$kvcluster" start \
	--dir="/tmp/$(printf '%0100d' 0)"
exits 69 'no programs' "$kvcluster" start --bin=/usr/share --dir="$dir"
for command in stop status env 'exec n1 true'; do
	# shellcheck disable=SC2086 # several words
	exits 69 "$command: nothing was started" \
		"$kvcluster" ${command%% *} --dir="$dir" ${command#"${command%% *}"}
done
ok 'help' "$kvcluster" --help
unlike "$(expand "$T/out")" '.{81}' 'of 80 columns'

ok 'start' "$kvcluster" start -n 2 --size=64MB --dir="$dir"
like "$(cat "$T/out")" '^master    127\.0\.0\.1:[0-9]+$' 'says where the master is'
like "$(cat "$T/out")" "^n2 .* socket $dir/n2.sock$" 'and the nodes'
like "$(cat "$T/err")" '^\$ kvclient .*--global-segment-size=64MB' \
	'shows what it runs'
exits 69 'once' "$kvcluster" start --dir="$dir"
ok 'status' "$kvcluster" status --dir="$dir"
ok 'put on a node' "$kvcluster" exec --dir="$dir" n1 kvput key value
ok 'get on another' "$kvcluster" exec --dir="$dir" n2 kvget key
same 'the same bytes'
ok 'get without a node' "$kvcluster" exec --dir="$dir" m kvget key
exits 64 'no such node' "$kvcluster" exec --dir="$dir" n3 true
exits 7 'the exit status is that of the command' \
	"$kvcluster" exec --dir="$dir" n1 sh -c 'exit 7'
# shellcheck disable=SC2016 # for the inner shell
ok 'env' sh -c 'eval "$("$0" env --dir="$1")" && kvget --exist key' \
	"$kvcluster" "$dir"
pid=$(pid_of n1)
ok 'stop' "$kvcluster" stop --dir="$dir"
ok 'they are gone' is_gone "$pid"
ok 'nothing is left' test ! -e "$dir"

mkdir "$dir" && : >"$dir/mine"
ok 'start again, in a folder that is there' \
	"$kvcluster" start -n 1 --size=64MB --dir="$dir"
kill -9 "$(pid_of n1)"
sleep 0.2
exits 1 'status: one does not run' "$kvcluster" status --dir="$dir"
exits 1 'stop: one had ended' "$kvcluster" stop --dir="$dir"
like "$(cat "$T/err")" 'n1 had ended' 'and says which'
is "$(cd "$dir" && echo *)" 'm.log mine n1.log' 'the logs are left'
rm -r "$dir"

# Somebody may have one of the ports.
for base in 2$((1000 + $$ % 8000)) 3$((1000 + $$ % 800)) 24$((100 + $$ % 800)); do
	"$kvcluster" start -n 1 --size=64MB --dir="$dir" --port="$base" \
		>from 2>&1 && break
	rm -rf "$dir"
done
like "$(cat from)" "^master .*:$base$" 'ports from one on: the master'
like "$(cat from)" "^metrics .*:$((base + 1))/" 'its HTTP'
like "$(cat from)" "^n1 .*:$((base + 2))," 'the node'
ok 'stop' "$kvcluster" stop --dir="$dir"

exits 7 'run' "$kvcluster" run -n 1 --size=64MB --dir="$dir" -- \
	sh -c 'kvdiag nodes && exit 7'
like "$(cat "$T/out")" ' live ' 'finds the pool'
ok 'nothing is left' test ! -e "$dir"

# run_until SIGNAL: a pool until the script gets it.
run_until()
{
	: >run.out # what the last one said is no sign
	"$kvcluster" run -n 1 --size=64MB --dir="$dir" >run.out 2>&1 &
	run_pid=$!
	until grep -q '^the end' run.out; do
		is_gone $run_pid && cat run.out && return 1
		sleep 0.05
	done
	run_node=$(pid_of n1)
	kill "-$1" $run_pid
	wait $run_pid
}
exits 0 'run until it is told to end' run_until TERM
ok 'nothing is left' test ! -e "$dir"
ok 'nobody is left' is_gone "$run_node"
exits 137 'a crash' run_until KILL
not_ok 'leaves a node' is_gone "$run_node"
ok 'until stop' "$kvcluster" stop --dir="$dir"
ok 'nothing is left' test ! -e "$dir"
ok 'nobody is left' is_gone "$run_node"

can_netns=1
ip netns add "kvtest-$$" 2>/dev/null || can_netns=
# It cannot be entered from a chroot.
ip netns exec "kvtest-$$" true 2>/dev/null || can_netns=
ip netns del "kvtest-$$" 2>/dev/null
if [ -z "$can_netns" ]; then
	skip 'network namespaces' 'this machine does not let us use one'
	done_testing
	exit
fi
ok 'start in network namespaces' \
	"$kvcluster" start --netns -n 2 --size=64MB --dir="$dir"
ns=$(sed -n 's/^network   //p' "$T/out")
is "$(echo "$ns" | wc -l)" 3 'one for the master, two for the nodes'
ok 'put on a node' "$kvcluster" exec --dir="$dir" n1 kvput key value
ok 'get on another' "$kvcluster" exec --dir="$dir" n2 kvget key
same 'the same bytes'
exits 69 'env is of no use here' "$kvcluster" env --dir="$dir"
like "$(cat "$T/err")" 'exec --dir=.* n1 bash$' 'and says what is'
ok 'a master without a port has the usual one' "$kvcluster" exec \
	--dir="$dir" n2 kvdiag --socket= --master=10.77.0.1,10.77.0.9 nodes
is "$(grep -c ' live ' "$T/out")" 2 'and is asked'
ip -n "$(echo "$ns" | grep 'n1$')" link set eth0 down
exits 1 'a node that is cut off' "$kvcluster" exec --dir="$dir" n2 \
	kvget --timeout 5s key
kill -9 "$(pid_of m)"
exits 1 'stop' "$kvcluster" stop --dir="$dir"
is "$(ip netns list | grep -F "$ns")" '' 'no namespace is left'
rm -r "$dir"
done_testing

#!/bin/sh
# One of two hosts is frozen or killed in the middle of a transfer, and all links
# between them are cut for half a minute: calls end, nothing is held for the
# dead, and what comes later is right.
# shellcheck disable=SC2086 # A and M are several words
VM_LIMIT=400
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
start_master m
start_node n b
wait_nodes 1
try_for 60 grep -q 'the pool is served by RDMA' n.log
head -c 67108864 </dev/urandom >value
shape 0 rate 160mbit
shape 1 rate 160mbit
ok 'a value' $A kvput --protocol=tcp $M key value

get()
{
	$A kvget --protocol=rdma $M key >got
}

# under_way COMMAND...: in the background, as $call, until bytes are moved. A
# connection that is late has no rails: again then.
under_way()
{
	enough=$(($(packets 0) + 500))
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		"$@" >got 2>err &
		call=$!
		while kill -0 $call 2>/dev/null; do
			[ "$(packets 0)" -lt $enough ] || return 0
		done
		wait $call
	done
	fail 'bytes are moved'
}

# ended: its exit status, and how long it took from here
ended()
{
	from=$(date +%s)
	code=0
	wait $call 2>/dev/null || code=$?
	took=$(($(date +%s) - from))
}

# is_free: nobody holds anything in node n
is_free()
{
	$B kvdiag --json "--socket=$(socket n)" stats local >free
	! grep -Eq '"(pins|grants|pinned_bytes|reserved_bytes)": [^0]' free
}

# fine NAME: as if nothing had been
fine()
{
	ok "$1: a get" try_for 60 get
	ok "$1: equal" cmp got value
}

fine 'at first'
under_way $A kvget --protocol=rdma $M key
kill -STOP "$(pid_of n)"
sleep 3
kill -CONT "$(pid_of n)"
ended
if [ $code -eq 0 ]; then
	ok 'a get, the node is frozen for 3 s' cmp got value
else
	is "$(cat err)" 'kvget: key: no such key' \
		'a node frozen for 3 s is as good as none'
fi
fine 'it goes on'

# The NIC needs no requester that runs: the put may have been done.
for way in get put; do
	if [ $way = get ]; then
		under_way $A kvget --protocol=rdma $M key
	else
		under_way $A kvput --protocol=rdma $M other value
	fi
	kill -STOP $call
	sleep 3
	kill -KILL $call
	ended
	ok "a $way, frozen, then killed: nothing is held" try_for 10 is_free
done
if $A kvget --protocol=tcp $M other >got 2>err; then
	ok 'what was put is whole' cmp got value
else
	is "$(cat err)" 'kvget: other: no such key' 'nothing was put'
fi
fine 'after that'

under_way $A kvget --protocol=rdma $M key
end n KILL
ended
ok "a get, the node is killed: $code after $took s" \
	test $code -ne 0 -a $code -lt 126 -a $took -le 15
start_node n2 b
wait_nodes 1
try_for 60 grep -q 'the pool is served by RDMA' n2.log
ok 'another node has it' $A kvput --protocol=tcp $M key value
fine 'from there'

under_way $A kvget --protocol=rdma $M --timeout=8s key
for link in 0 1 ctl; do
	cut_link $link
done
ended
ok "a get, all is cut: $code after $took s" \
	test $code -ne 0 -a $code -lt 126 -a $took -le 16
sleep 25
for link in 0 1 ctl; do
	mend_link $link
done
fine 'all is back'
end_all
done_testing

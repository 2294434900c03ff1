#!/bin/sh
# Threads that put, get and remove, and look at every byte, while rails are cut,
# pulled out, lose packets, and come back; while the node is frozen, and killed;
# and while all links are cut for half a minute.
# shellcheck disable=SC2086 # A is several words
VM_LIMIT=500
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
start_master m
start_node n b
wait_nodes 1
try_for 60 grep -q 'the pool is served by RDMA' n.log
shape 0 rate 160mbit
shape 1 rate 160mbit

# load NAME SECONDS OPTION...: in the background, as $load
load()
{
	load_name=$1
	load_seconds=$2
	shift 2
	load_packets=$(($(packets 0) + $(packets 1)))
	$A "$KV_BIN/tests/promise/hammer" --master="$MASTERS" --threads=2 \
		--prefix="$load_name" --keys=40 --size-max=2MB --no-views \
		--seconds="$load_seconds" "$@" >load.out 2>load.err &
	load=$!
}

# loaded NAME: it ended well, and NICs had a part in it.
loaded()
{
	code=0
	wait $load || code=$?
	echo "# $(cat load.out)"
	is "$code" 0 "$1"
	[ $code -eq 0 ] || diag "$(tail -n 5 load.err)"
	sent=$(($(packets 0) + $(packets 1) - load_packets))
	ok "$1: $sent packets" test $sent -gt 2000
}

# While a rail is there no call fails, and nothing that was put is lost.
load cut 26 --strict --durable --remove=0 --timeout-ms=15000
for rail in 0 1 0 1; do
	sleep 3
	cut_link $rail
	sleep 2
	mend_link $rail
done
loaded 'rails are cut, and come back'

load pulled 26 --strict --durable --remove=0 --timeout-ms=15000
for rail in 0 1 0 1; do
	sleep 3
	unplug $rail
	sleep 2
	plug $rail
done
loaded 'rails are pulled out, and come back'

for rail in 0 1; do
	shape $rail rate 160mbit loss 1%
done
load lossy 20 --strict --durable --remove=0 --timeout-ms=20000
loaded '1 % loss'
for rail in 0 1; do
	shape $rail rate 160mbit
done

load frozen 15 --timeout-ms=4000
for _ in 1 2; do
	sleep 3
	kill -STOP "$(pid_of n)"
	sleep 3
	kill -CONT "$(pid_of n)"
done
loaded 'the node is frozen'

load severed 45 --timeout-ms=4000
sleep 4
for link in 0 1 ctl; do
	cut_link $link
done
sleep 30
for link in 0 1 ctl; do
	mend_link $link
done
loaded 'all is cut for half a minute'

load killed 12 --timeout-ms=4000
sleep 4
end n KILL
start_node n2 b
loaded 'the node is killed, and another one comes'
end_all
done_testing

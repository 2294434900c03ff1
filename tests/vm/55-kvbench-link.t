#!/bin/sh
# kvbench link between the hosts: each rail, both, TCP and perftest, all of
# which move bytes; the same to a kvclient; and a rail that is cut is left out.
# shellcheck disable=SC2086 # A, B and QUICK are several words
. "$(dirname "$0")/../lib/vm.sh"
. "$(dirname "$0")/../lib/bench.sh"

cd "$T" || exit 70
QUICK='--time=20ms --rounds=1 --memory=4MB'

# listen OPTION...: on host b
listen()
{
	$B kvbench --memory=4MB "$@" link --listen=10.76.0.2:50060 \
		>listen.out 2>listen.err &
	side=$!
	try_for 20 grep -q '^    kvbench link 10.76.0.2:50060' listen.out ||
		diag "no listener: $(cat listen.err)"
}

listen --perftest
ok 'two hosts' $A kvbench $QUICK --perftest --json --size=4k,256k \
	link 10.76.0.2
is "$(link_figures | cut -d' ' -f1,2,4)" 'write 4096 stream
write 4096 rxa0
write 4096 rxa1
write 4096 rdma
write 4096 tcp
write 4096 perftest:rxa0
write 4096 perftest:rxa1
write 262144 stream
write 262144 rxa0
write 262144 rxa1
write 262144 rdma
write 262144 tcp
write 262144 perftest:rxa0
write 262144 perftest:rxa1
read 4096 stream
read 4096 rxa0
read 4096 rxa1
read 4096 rdma
read 4096 tcp
read 4096 perftest:rxa0
read 4096 perftest:rxa1
read 262144 stream
read 262144 rxa0
read 262144 rxa1
read 262144 rdma
read 262144 tcp
read 262144 perftest:rxa0
read 262144 perftest:rxa1
send 4096 stream
send 4096 rxa0
send 4096 rxa1
send 4096 rdma
send 4096 tcp
send 4096 perftest:rxa0
send 4096 perftest:rxa1
send 262144 stream
send 262144 rxa0
send 262144 rxa1
send 262144 rdma
send 262144 tcp
send 262144 perftest:rxa0
send 262144 perftest:rxa1' 'each path, perftest among them'
is "$(bench_rows | grep -c '"floor_name":"perftest","ratio":[0-9]')" 6 \
	'all rails stand beside all devices'
for rail in rxa0 rxa1; do
	is "$(bench_rows | grep "\"path\":\"$rail\"" |
		grep -c "\"floor_name\":\"perftest:$rail\",\"ratio\":[0-9]")" 6 \
		"$rail stands beside its own"
done
one=$(field perftest:rxa0_write_256KB_x1 value)
two=$(field perftest:rxa1_write_256KB_x1 value)
both=$(field rdma_write_256KB_x1 floor)
ok 'their sum' awk "BEGIN { d = $one + $two - $both; exit !(d * d < 0.0009) }"
wait $side
is $? 0 'the other side ends with it'

listen
before=$(packets 1)
ok 'messages by one rail' $A kvbench $QUICK --json --protocol=rdma \
	--device-name=rxa1 --size=4,4k --depth=1,4 --only=send link 10.76.0.2
is "$(link_figures)" 'send 4 1 stream
send 4 1 rxa1
send 4096 1 stream
send 4096 1 rxa1
send 4 4 stream
send 4 4 rxa1
send 4096 4 stream
send 4096 4 rxa1' 'each figure'
[ $(($(packets 1) - before)) -gt 100 ]
is $? 0 'they are what it sends'
wait $side

listen --protocol=tcp
ok 'one side has no RDMA' $A kvbench $QUICK --json --size=4k --only=write \
	link 10.76.0.2
is "$(link_figures)" 'write 4096 1 stream
write 4096 1 tcp' 'TCP is left'
is "$(grep -c '^kvbench: 10.76.0.2:50060 by rxa[01]: ' err)" 2 \
	'and why each rail is not is told'
wait $side

listen
cut_link 0
exits 69 'a rail that is cut' $A kvbench $QUICK --timeout=5s --protocol=rdma \
	--device-name=rxa0 --size=4k --only=write link 10.76.0.2
like "$(cat err)" '^kvbench: 10.76.0.2:50060 by rxa0: ' 'says so'
mend_link 0
kill $side
wait $side

start_master m
start_node n b
wait_nodes 1
try_for 60 grep -q 'served by RDMA' n.log
ok 'a kvclient' $A kvbench $QUICK --master="$MASTERS" --json --size=256k \
	link "$(addr n)"
is "$(link_figures)" 'put 262144 1 rxa0
put 262144 1 rxa1
put 262144 1 rdma
put 262144 1 tcp
get 262144 1 rxa0
get 262144 1 rxa1
get 262144 1 rdma
get 262144 1 tcp' 'each path'
end_all
done_testing

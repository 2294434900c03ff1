#!/bin/sh
# Values put by one host come back byte for byte from a node of the other one,
# by RDMA where it may be used, and then no byte of them goes elsewhere.
# shellcheck disable=SC2016,SC2086,SC2094 # A, B, M are several words
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
start_master m
start_node n b
wait_nodes 1
try_for 60 grep -q 'the pool is served by RDMA' n.log

# counter NAME: of node n
counter()
{
	$B kvdiag --json "--socket=$(socket n)" stats local |
		sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p"
}

# fetch PROTOCOL KEY: to the file got. A connection that takes more than half a
# second, as where all is emulated, is too late for RDMA.
fetch()
{
	$A kvget "--protocol=$1" $M "$2" >got
}

for size in 1 4096 65536 100000 1048577 33554432; do
	head -c $size </dev/urandom >$size
	ok "$size: put by TCP" $A kvput --protocol=tcp $M tcp$size $size
	ok "$size: get by TCP" fetch tcp tcp$size
	ok "$size: equal" cmp got $size
done
is "$(packets 0) $(packets 1)" '0 0' 'no rail was used'
is "$(counter rdma_rx_bytes) $(counter rdma_tx_bytes)" '0 0' 'says the node'

tcp="$(counter data_rx_bytes) $(counter data_tx_bytes)"
for size in 1 4096 65536 100000 1048577 33554432; do
	ok "$size: put by RDMA" \
		try_for 60 $A kvput --protocol=rdma $M rdma$size $size
	ok "$size: get by RDMA" try_for 60 fetch rdma rdma$size
	ok "$size: equal" cmp got $size
done
is "$(counter data_rx_bytes) $(counter data_tx_bytes)" "$tcp" 'none by TCP'
# Values of up to 64 KiB may go with the messages. A packet has 4 KiB at most.
big=$((100000 + 1048577 + 33554432))
for way in rx tx; do
	bytes=$(counter rdma_${way}_bytes)
	ok "$way: $bytes bytes by RDMA" test "$bytes" -ge $big
done
sent=$(($(packets 0) + $(packets 1)))
ok "$sent packets over the rails" test $sent -ge $((2 * big / 4096))

# ---- a node that may not lock its pool ----

chmod 755 "$T"
mkdir bin
cp "$KV_BIN/kvclient" bin
mkdir -m 777 open
start low --port $A prlimit --memlock=65536 \
	setpriv --reuid=65534 --regid=65534 --clear-groups bin/kvclient \
	--master="$MASTERS" --host=10.76.0.1 --socket="$T/open/low" \
	--global-segment-size=64MB
ok '64 KiB of locked memory' \
	try_for 30 grep -q 'the pool is not served by RDMA: ' low.log
like "$(cat low.log)" 'RDMA: 2 RDMA devices want a pool of 64\.0 MiB locked, 128\.0 MiB in all, but the limit of locked memory is 64\.0 KiB; `ulimit -l unlimited`' \
	'what would be enough, and how'
ok 'a value' $A kvput "--socket=$T/open/low" low 1048577
ok 'that goes by TCP' $B kvget $M low
mv out got
ok 'equal' cmp got 1048577
end_all
done_testing

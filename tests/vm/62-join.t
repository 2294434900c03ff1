#!/bin/sh
# Queue pairs that no connection manager connects: of ports that have no IP, only
# what the kernel makes of their hardware address; and where a container has no
# rdma_cm. Every value is compared.
# shellcheck disable=SC2086 # A, B and M are several words
VM_LIMIT=400
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
ip addr del 10.77.1.1/24 dev a1
ip addr del 10.77.1.2/24 dev b1
start_master m
start_node n b -v
wait_nodes 1
try_for 60 grep -q 'the pool is served by RDMA' n.log
head -c 33554432 </dev/urandom >value
puts=0

# Only by RDMA; a connection that is late has no rails: try_for.
get()
{
	$A "$@" kvget -v --protocol=rdma $M key >got 2>log
}
# Each time another key: what was given up is not what exists already.
put()
{
	puts=$((puts + 1))
	$A kvput -v --protocol=rdma "$@" $M key$puts value
}
put_by()
{
	put --device=$1
}
only()
{
	$A kvget -v --protocol=rdma --device=$1 $M key >got 2>log
}

# carried LINK: packets that it carried since the last time
carried()
{
	before=
	eval "before=\${before_$1:-0}"
	carried=$(packets "$1")
	eval "before_$1=$carried"
	carried=$((carried - before))
}

# moved NAME RAIL COMMAND...: the value, by that rail.
moved()
{
	name=$1
	rail=$2
	shift 2
	carried $rail
	ok "$name" try_for 60 "$@"
	carried $rail
	ok "$name: $carried packets on rail $rail" test $carried -gt 1000
}

equal()
{
	ok "$1: equal" cmp got value
}
stored()
{
	ok "$1: is there" $A kvget --protocol=tcp $M key$puts
	mv out got
	equal "$1"
}

ok 'a value' $A kvput --protocol=tcp $M key value
ok 'devices' $A kvdiag devices
like "$(cat out)" '^rxa1 .* fe80::[^ ]* .* yes: no IP on the port: connected without the connection manager$' \
	'a port without an IP'
moved 'a get' 1 only rxa1
equal 'a get'
like "$(cat log)" 'RDMA, 1 rail' 'by one rail'
moved 'a put' 1 put_by rxa1
stored 'a put'

moved 'a get by both' 1 get
equal 'a get by both'
like "$(cat log)" 'RDMA, 2 rails' 'one of each kind'
carried 0
moved 'another one' 0 get
(
	sleep 1.2
	cut_link 1
) &
cutter=$!
ok 'a put, the rail is cut' put
wait $cutter
stored 'a put, the rail is cut'
mend_link 1

# ---- where there is no rdma_cm ----

# six LINK: packets of IPv6 that have come to its end at host a
six()
{
	awk '$1 == "Ip6InReceives" { print $2 }' "/proc/net/dev_snmp6/a$1"
}

$A mv /dev/infiniband/rdma_cm /dev/infiniband/none
# The node takes one of its own that reaches it.
for index in 0 1; do
	sent=$(six 0)
	moved "a get, GID $index" 0 get env MC_GID_INDEX=$index
	equal "a get, GID $index"
	like "$(cat log)" 'no connection manager: .*; queue pairs are joined' \
		'by no connection manager'
	sent=$(($(six 0) - sent))
	if [ $index = 0 ]; then
		ok "$sent packets by IPv6" test $sent -gt 100
	else
		ok "$sent packets by IPv6" test $sent -lt 50
	fi
done
ok 'no such GID' $A env MC_GID_INDEX=77 kvget -v $M key
like "$(cat err)" 'TCP: rxa. port 1 to .*: the port has no such GID' 'is told'
mv out got
equal 'by TCP'
end_all
done_testing

#!/bin/sh
# Values put by a host come back byte for byte, from a node of another host.
# shellcheck disable=SC2086,SC2094 # A and M are several words; no file is read
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
start_master m
start_node n b
wait_nodes 1
for size in 1 4096 65536 1048577 33554432; do
	head -c $size </dev/urandom >$size
	ok "$size: put by TCP" $A kvput --protocol=tcp $M tcp$size $size
	ok "$size: get by TCP" $A kvget --protocol=tcp $M tcp$size
	mv out got
	ok "$size: equal" cmp got $size
done
is "$(packets 0) $(packets 1)" '0 0' 'no rail was used'
end_all
done_testing

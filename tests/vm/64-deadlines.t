#!/bin/sh
# Deadlines that expire in the middle of a transfer, and memory that is used for
# something else at once: it stays as it is, and no wrong value is ever put; also
# while a rail is cut, whose far end cannot be told of that.
# shellcheck disable=SC2086 # A, B are several words
VM_LIMIT=400
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
io=$KV_BIN/tests/vm/raildeadline
start_master m
start_node n b
wait_nodes 1
try_for 60 grep -q 'the pool is served by RDMA' n.log
shape 0 rate 160mbit
shape 1 rate 160mbit

# expires NAME BYTES MS
expires()
{
	before=$(($(packets 0) + $(packets 1)))
	ok "$1" $A "$io" "$MASTERS" "$2" "$3" 15
	said=$(tail -n 1 out)
	echo "# $said"
	like "$said" '^[0-9]+ gets, [1-9][0-9]* late; [0-9]+ puts, [1-9][0-9]* late: 0 wrong, 0 failed$' \
		"$1: some were late, nothing is wrong"
	sent=$(($(packets 0) + $(packets 1) - before))
	ok "$1: $sent packets" test $sent -gt 500
}

expires '8 MiB' 8388608 500
expires '200,000 bytes' 200000 40
(
	for rail in 0 1 0 1; do
		sleep 1.7
		cut_link $rail
		sleep 1.3
		mend_link $rail
	done
) &
expires 'rails are cut meanwhile' 8388608 500
wait $!
is_free()
{
	$B kvdiag --json "--socket=$(socket n)" stats local >free
	! grep -Eq '"(pins|grants|pinned_bytes|reserved_bytes)": [^0]' free
}
ok 'nothing is held' try_for 10 is_free
end_all
done_testing

#!/bin/sh
# Memory of every kind that pools and callers have is registered with real
# devices; what may not be locked or written to is refused in words.
# shellcheck disable=SC2016,SC2086 # no shell reads `ulimit`; A is several words
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
rdmamem="$KV_BIN/tests/vm/rdmamem"
all='ports: 2
buffer: registered
pool: registered'

# registers NAME KIND: 10 MiB, in chunks of 4.
registers()
{
	ok "$1" $A $rdmamem "$2" 10485760
	is "$(cat out)" "$all" 'is registered with two ports, in chunks'
}

registers 'private memory' private
registers 'a memfd' shared
registers 'a file of tmpfs' /dev/shm/file
echo 5 >/proc/sys/vm/nr_hugepages
registers 'huge pages' huge
ok 'a process that forks' $A $rdmamem fork 10485760
is "$(cat out)" "$all
fork: kept its pages
fork: lost a page" 'writes to those that the device has, while it has them'

ok 'memory that is only read' $A $rdmamem constant 10485760
like "$(cat out)" '^buffer: refused: Bad address$' 'is refused'
like "$(cat out)" '^pool: refused: rxa[01] registers no more than 0 B of a pool of 10\.0 MiB: Bad address; let a pool file lie on tmpfs or hugetlbfs$' \
	'as a pool, too'

chmod 755 "$T"
cp "$rdmamem" .
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
ok 'nobody, who may lock 15 MiB' \
	$A prlimit --memlock=15728640 $nobody ./rdmamem private 10485760
like "$(cat out)" '^buffer: refused: Cannot allocate memory$' \
	'may not for two devices'
like "$(cat out)" '^pool: refused: 2 RDMA devices want a pool of 10\.0 MiB locked, 20\.0 MiB in all, but the limit of locked memory is 15\.0 MiB; `ulimit -l unlimited`' \
	'and is told how to'
ok 'nobody, who may lock 20 MiB' \
	$A prlimit --memlock=20971520 $nobody ./rdmamem private 10485760
is "$(cat out)" "$all" 'may, one after the other'
done_testing

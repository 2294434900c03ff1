#!/bin/sh
# Objects go to the own node while it has room, from its first moment on.
# shellcheck disable=SC2086 # M is several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

start_master m
start_client a
cd "$T" || exit 70
head -c 100000 /dev/urandom >in
wait_nodes 1
sleep 1.2
start_client b
i=0
while [ $i -lt 20 ]; do
	i=$((i + 1))
	kvput --socket="$(socket b)" --master="$MASTERS" k$i in || break
done
is $i 20 'twenty objects are put by a node that is new'
ok 'the counters of that node' kvdiag --socket="$(socket b)" stats local
is "$(awk '$1 == "keys" { print $2 }' out)" 20 'say that it has them all'

# What the master knows of a node is not older than a tenth of a second.
kvput --socket="$(socket b)" last in
sleep 0.3
ok 'the pools' kvdiag $M --json pools
like "$(json out)" '"keys":21' 'and the master knows soon'
end_all
done_testing

#!/bin/sh
# perftest between the hosts: that verbs work here without any part of kvpool,
# how fast, and that two rails with a rate are as fast as twice one.
# shellcheck disable=SC2016,SC2086 # awk's $1; programs with their options
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
write='ib_write_bw -s 1048576 -n 20'
read='ib_read_bw --events -s 1048576 -n 20'
latency='ib_send_lat --events -s 4096 -n 300'

# best ORDER COMMAND...: the first of three in that order of sort; all are told.
best()
{
	order=$1
	shift
	for _ in 1 2 3; do
		perf 0 "$@" || return
	done >figures
	echo "# $*: $(tr '\n' ' ' <figures)"
	best=$(sort $order figures | head -n 1)
}

# positive NAME: the figure of `best`
positive()
{
	ok "$1" awk -v figure="$best" 'BEGIN { exit !(figure > 0) }'
}

best -rn $write
positive 'writes, MiB/s'
best -rn $read
positive 'reads, MiB/s'
best -n $latency
positive 'sends, µs'

# 40 Mbit/s are 4.77 MiB/s, of which headers take one part in 60. So slow, as
# this has to leave the processors idle.
shape 0 rate 40mbit
shape 1 rate 40mbit
perf 0 $read >one
perf 0 $read >two.0 &
other=$!
perf 1 $read >two.1
wait $other
echo "# with 40 Mbit/s: $(cat one); both at once: $(cat two.0) and $(cat two.1)"
ok 'a rail has the rate that it was given' \
	awk '{ exit !($1 > 4.2 && $1 < 4.8) }' one
ok 'two have twice as much' \
	awk '{ sum += $1 } END { exit !(sum > 1.8 * 4.69) }' two.0 two.1
done_testing

#!/bin/sh
# Promise 6, case-011: a host loses its power in the middle of puts and gets, so
# that nobody is told. Each call ends by its deadline, what was held comes back,
# and a fresh connection works after healing. Also towards the master.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
require ip ss

netns_init || skip_all 'network namespaces are not allowed here'
for name in m a b; do
	case $name in
	m) number=9 ;;
	a) number=1 ;;
	b) number=2 ;;
	esac
	netns $name "$number" || skip_all 'network namespaces are not allowed here'
done

# Its sockets are files, but the masters that a node names are in there.
kvdiag()
{
	ip netns exec "$NS-b" "$KV_BIN/kvdiag" "$@"
}

# The far side of the link of NAME: its host sees nothing.
cut()
{
	ip -n "$NS" link set "v$1" down
}
heal()
{
	ip -n "$NS" link set "v$1" up
}

MASTERS=10.9.0.9:20001
launch m ip netns exec "$NS-m" kvmaster --rpc-port=20001 --http-port=0 ||
	exit 70
# A host name that does not say where (case-013).
for name in a b; do
	launch $name ip netns exec "$NS-$name" kvclient --master=$MASTERS \
		--port=20002 --socket="$T/$name.sock" \
		--global-segment-size=256MB || exit 70
done
both_live()
{
	[ "$(kvdiag --socket= --master=$MASTERS nodes |
		grep -c ' live ')" -eq 2 ]
}
try_for 30 both_live || exit 70

# in_b NAME OPTION...: in b's host
in_b()
{
	name=$1
	shift
	IN="ip netns exec $NS-b" drive "$name" watch $(at b) \
		--timeout-ms=3000 "$@"
}

# load WHAT OPTION...: until $T/stop is there
load()
{
	what=$1
	shift
	in_b "$round-$what" --until="$T/stop" --seconds=120 "$@"
}

in_b put --do=put --once --prefix=k --keys=64 --batch=4 --size=3MB \
	--hard-pin --prefer=10.9.0.1:20002
driven put '192 MB are put from b to a'
is "$(sum put 3)" 64 'all of them'
is "$(stat a keys)" 64 'at a'

for round in get put master; do
	rm -f "$T/stop"
	load get --prefix=k --keys=64 --batch=4 --size=3MB
	load put --do=put --prefix=$round --keys=100000 --batch=2 --size=3MB \
		--prefer=10.9.0.1:20002
	load own --do=exist --prefix=$round --keys=100000 --batch=16
	ok "$round: gets hit and puts succeed" \
		try_for 20 hit $round-get $round-put 0
	side=a
	[ $round != master ] || side=m
	cut $side
	sleep 4
	heal $side
	# The bound is for busy machines; no back-off that is too long fits.
	ok "$round: also soon after it has healed" \
		try_for $((5 * KV_SLOW)) hit $round-get $round-put "$(now)"
	: >"$T/stop"
	for what in get put own; do
		driven $round-$what "$round: $what ends by its deadline"
	done
	for name in a b; do
		ok "$round: $name holds nothing for anybody" \
			try_for $((12 * KV_SLOW)) idle $name
	done
done

# Nobody is told again; what was under way is over for the kernel as well, in
# seconds and not in minutes. New attempts are none of it.
rm -f "$T/stop"
round=end
load put --do=put --prefix=end --keys=100000 --batch=2 --size=3MB \
	--prefer=10.9.0.1:20002
load get --prefix=k --keys=64 --batch=4 --size=3MB
ok 'end: gets hit and puts succeed' try_for 20 hit end-get end-put 0
cut a
stuck()
{
	for name in m a b; do
		ip netns exec "$NS-$name" ss -Htno | grep -v '^SYN-SENT' |
			grep 'timer:(on,' || :
	done
}
is_stuck()
{
	[ "$(stuck)" ]
}
not_stuck()
{
	! is_stuck
}
ok 'end: something is under way' try_for 5 is_stuck
sleep 4
: >"$T/stop"
for what in put get; do
	driven end-$what "end: $what ends by its deadline"
done
ok 'no socket is stuck in retransmission' try_for $((30 * KV_SLOW)) not_stuck
stuck | sed 's/^/# /'
heal a
ok 'all are back' try_for 30 both_live
end_all
done_testing

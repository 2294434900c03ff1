#!/bin/sh
# Two masters and two nodes, each on a host of its own, and the network between
# them cut, in the middle of a load that looks at every byte: a master from all,
# a node from a master, one way or both, each node from another master. No call
# fails, none takes longer than a second, and what was put is found at each
# moment, with its value.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
require ip

MOST=$((1000 + 350 * (KV_SLOW - 1))) # ms of a call
SECONDS_OF_LOAD=$(secs 9)
netns_init || skip_all 'network namespaces are not allowed here'
for host in a:1 b:2 r:3 m1:8 m2:9; do
	netns "${host%:*}" "${host#*:}" ||
		skip_all 'network namespaces are not allowed here'
done

MASTERS=10.9.0.8:20001,10.9.0.9:20001
for name in m1 m2; do
	launch $name ip netns exec "$NS-$name" kvmaster --rpc-port=20001 \
		--http-port=0 || exit 70
done
for name in a b; do
	launch $name ip netns exec "$NS-$name" kvclient --master=$MASTERS \
		--port=20002 --socket="$T/$name.sock" \
		--global-segment-size=256MB || exit 70
done

# Each master, asked alone, says that each node has sessions with both.
whole()
{
	for number in 8 9; do
		ip netns exec "$NS-r" kvdiag --socket= \
			--master=10.9.0.$number:20001 --json nodes >"$T/nodes" ||
			return 1
		[ "$(json "$T/nodes" | grep -o '"sessions":2' | wc -l)" \
			-eq 2 ] || return 1
	done
}

number()
{
	case $1 in
	a) echo 1 ;;
	b) echo 2 ;;
	m1) echo 8 ;;
	m2) echo 9 ;;
	esac
}

# deafen FROM TO: what one sends to the other goes nowhere. hear: it does.
deafen()
{
	ip -n "$NS-$1" neigh replace "10.9.0.$(number "$2")" dev eth0 \
		lladdr 02:00:00:00:00:99 nud permanent
}
hear()
{
	ip -n "$NS-$1" neigh del "10.9.0.$(number "$2")" dev eth0
}

# under_load NAME COMMAND...: which breaks something and mends it.
under_load()
{
	name=$1
	shift
	starving
	for node in a b -; do
		host=$node
		[ $node != - ] || host=r
		IN="ip netns exec $NS-$host"
		drive "$name-$node" hammer $(at $node) --prefix="$name-$node" \
			--seconds="$SECONDS_OF_LOAD" --threads=2 --keys=60 \
			--size-max=600k --timeout-ms=5000 --strict --durable
		drive "$name-get-$node" watch $(at $node) --prefix=kept \
			--keys=60 --seconds="$SECONDS_OF_LOAD" --pause-ms=5
	done
	IN=
	end=$(($(date +%s) + SECONDS_OF_LOAD - 5))
	while [ "$(date +%s)" -lt $end ]; do
		"$@"
		sleep 1
		try_for 15 whole || fail "$name: all is whole again"
	done
	for node in a b -; do
		driven "$name-$node" "$name: nothing is lost or false at $node"
		took=$(grep -o '"ms_max":[0-9]*' "$T/$name-$node.json" |
			cut -d: -f2 | sort -n | tail -n 1)
		ok "$name: no call takes long at $node: $took ms" \
			within "$took" $MOST
		[ "$took" -le $MOST ] || diag "$(cat "$T/$name-$node.json")"
		driven "$name-get-$node" "$name: get at $node"
		is "$(sum "$name-get-$node" 4) $(sum "$name-get-$node" 8)" \
			'0 0' "$name: get finds all at $node"
		took=$(max "$name-get-$node" 2)
		ok "$name: get takes not long at $node: $took ms" \
			within "$took" $MOST
	done
}

isolate()
{
	for master in m1 m2; do
		ip -n "$NS" link set "v$master" down
		sleep 2
		ip -n "$NS" link set "v$master" up
		sleep 1
		try_for 15 whole || fail "$master is back"
	done
}

one_way()
{
	for way in 'a m1' 'm1 a' 'b m2' 'm2 b'; do
		# shellcheck disable=SC2086 # two words
		deafen $way
		sleep 1.5
		# shellcheck disable=SC2086 # two words
		hear $way
		sleep 1
		try_for 15 whole || fail "whole again after $way"
	done
}

# Each node has a master that the other one has not.
split()
{
	deafen a m1
	deafen m1 a
	deafen b m2
	deafen m2 b
	sleep 3
	hear a m1
	hear m1 a
	hear b m2
	hear m2 b
}

ok 'each node has two sessions' try_for 30 whole
IN="ip netns exec $NS-b" watch kept --do=put --once --prefix=kept --keys=60 \
	$(at b)
is "$(sum kept 3)" 60 'what is kept is put'
under_load isolated isolate
under_load deaf one_way
under_load split split
for node in a b; do
	ok "$node holds nothing for anybody" try_for 5 idle $node
done
end_all
done_testing

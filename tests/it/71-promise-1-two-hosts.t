#!/bin/sh
# Promise 1, case-001: two writers of one key with different bytes, each on a
# host of its own. Every reader on every host sees one and the same whole value.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
netns_three

# One of them is known by IPv4, the other by IPv6.
MASTERS=10.9.0.9:20001
launch m ip netns exec "$NS-m" kvmaster --rpc-port=20001 --http-port=0 ||
	exit 70
launch a ip netns exec "$NS-a" kvclient --master=$MASTERS --host=10.9.0.1 \
	--port=20002 --socket="$T/a.sock" --global-segment-size=1GB || exit 70
launch b ip netns exec "$NS-b" kvclient --master='[fd00:9::9]:20001' \
	--host=fd00:9::2 --port=20002 --socket="$T/b.sock" \
	--global-segment-size=1GB || exit 70

# on NODE TOOL ARGUMENT...: from its host
on()
{
	on_node=$1 on_tool=$2
	shift 2
	ip netns exec "$NS-$on_node" "$on_tool" --socket="$T/$on_node.sock" \
		--master=$MASTERS "$@"
}
both_live()
{
	[ "$(on a kvdiag nodes | grep -c ' live ')" -eq 2 ]
}
try_for 30 both_live || exit 70
like "$(on b kvdiag nodes)" ' \[fd00:9::2\]:20002 +live ' 'one has IPv6'

# The writers, and two readers on each host.
party=0
ROUNDS=$(secs 60)
for node in a b a b a b; do
	IN="ip netns exec $NS-$node" drive race$party race --file="$T/race" \
		--prefix=k --parties=6 --party=$party --writers=2 \
		--rounds="$ROUNDS" --size-max=3MB $(at $node)
	party=$((party + 1))
done
while [ $party -gt 0 ]; do
	party=$((party - 1))
	driven race$party "party $party sees one value of each key"
done

# Different sizes, from the tools; and what the owners say of each.
head -c 3145728 /dev/zero | tr '\0' A >"$T/A"
head -c 2097152 /dev/zero | tr '\0' B >"$T/B"
odd=
copies=
i=0
while [ $i -lt 10 ]; do
	on a kvput "file$i" "$T/A" >"$T/put-a" 2>&1 &
	on b kvput "file$i" "$T/B" >"$T/put-b" 2>&1 || odd="$odd put-b$i"
	wait $! || odd="$odd put-a$i"
	on a kvget "file$i" -o "$T/got-a" || odd="$odd get-a$i"
	on b kvget "file$i" -o "$T/got-b" || odd="$odd get-b$i"
	cmp -s "$T/got-a" "$T/got-b" || odd="$odd differ$i"
	cmp -s "$T/got-a" "$T/A" || cmp -s "$T/got-a" "$T/B" ||
		odd="$odd mixed$i"
	on a kvdiag --json key "file$i" >"$T/key" || odd="$odd key$i"
	copies="$copies$(grep -c '"address"' "$T/key")"
	i=$((i + 1))
done
is "$odd" '' 'both puts succeed, all gets have one and the same whole value'
is "$copies" 1111111111 'of which there is one copy'
for node in a b; do
	ok "$node holds nothing for anybody" try_for 5 idle $node
done
end_all
done_testing

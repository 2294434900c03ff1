#!/bin/sh
# case-005: the link of a node is cut, something is removed, the link heals.
# Whoever removed was told that a node is away, and nobody gets an old byte
# after that, also when the master was started again meanwhile.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
netns_three

TTL=3
MASTERS=10.9.0.9:20001
launch m ip netns exec "$NS-m" kvmaster --rpc-port=20001 --http-port=0 \
	--client-ttl=$TTL || exit 70
for name in a b; do
	[ $name = a ] && host=10.9.0.1 || host=10.9.0.2
	launch $name ip netns exec "$NS-$name" kvclient --master=$MASTERS \
		--host="$host" --port=20002 --socket="$T/$name.sock" \
		--global-segment-size=256MB || exit 70
done

# on NODE TOOL ARGUMENT...: from its host
on()
{
	on_node=$1 on_tool=$2
	shift 2
	ip netns exec "$NS-$on_node" "$on_tool" --socket="$T/$on_node.sock" \
		--master=$MASTERS "$@"
}

live()
{
	[ "$(on b kvdiag nodes | grep -c ' live ')" -eq "$1" ]
}

cut()
{
	ip -n "$NS" link set va down
}

heal()
{
	ip -n "$NS" link set va up
}

# fill: 500 objects on each node
fill()
{
	head -n 500 "$T/lines" | on a kvput --batch - >/dev/null &&
		tail -n 500 "$T/lines" | on b kvput --batch - >/dev/null
}

# got NODE: how many of the keys in $T/keys a process there gets
got()
{
	rm -rf "$T/out.$1"
	mkdir "$T/out.$1"
	on "$1" kvget --batch "$T/out.$1" <"$T/keys" >/dev/null 2>&1
	find "$T/out.$1" -type f | wc -l
}

# met: a has a session
met()
{
	[ "$(stat a sessions)" -eq 1 ]
}

# heals_without KEYS NAME: from now on nobody at b gets one of them, before,
# while and after the link heals; and nobody at a when that is back
heals_without()
{
	cp "$1" "$T/keys"
	seen=0 rounds=0 more=15
	heal
	until [ $more -eq 0 ]; do
		seen=$((seen + $(got b)))
		live 2 && more=$((more - 1))
		rounds=$((rounds + 1))
		[ $rounds -lt 600 ] || break
	done
	is $seen 0 "$2: no old byte in $rounds rounds"
	# To the master it may have been live all the time; itself it serves its
	# host what it has until it has met the master again.
	ok "$2: the node is in the pool again" try_for 10 met
	is "$(got a)" 0 "$2: no old byte there"
	ok "$2: it is back" live 2
}

cd "$T" || exit 70
mkdir in
head -c 4096000 /dev/urandom | split -a 3 -b 4096 - in/k.
(cd in && ls) >all
awk '{ print $1 "\tin/" $1 }' all >lines
head -n 1 all >one
is "$(wc -l <all)" 1000 '1000 objects'
try_for 30 live 2 || exit 70

# removed WHEN WHAT OPTION...: cut, and removed at b
removed()
{
	when=$1
	shift
	ok "fill ($when, $*)" fill
	cp all keys
	[ "$(got b)" -eq 1000 ] || fail 'all are there'
	cut
	[ "$when" = soon ] || try_for 30 live 1
	on b kvrm "$@" >"$T/out" 2>"$T/err"
	is $? 75 "kvrm $*, $when: a node is away"
	like "$(cat "$T/err")" '^kvrm: 1 node .*pending' 'and kvrm says so'
}

removed soon --all --force
heals_without all 'all, forced'
removed late --all
heals_without all 'all, when the node had been given up'
removed soon "$(cat one)"
heals_without one 'a key'
removed late "$(cat one)"
heals_without one 'a key, when the node had been given up'
removed late --regex '^k\.'
heals_without all 'a pattern'

# All that was removed as a whole stays so though the master forgets.
removed late --all --force
crash m
again m
try_for 30 live 1 || exit 70
heals_without all 'all, and the master was started again'

# Of single keys only the master knows who has missed it. What the answer counts
# as away is not promised; removed again when all are there, it stays away.
removed late "$(cat one)"
crash m
again m
try_for 30 live 1 || exit 70
heal
ok 'the node is back' try_for 30 live 2
ok 'and has met the master' try_for 10 met
cp one keys
diag "of what was removed so came back: $(got b)"
on a kvrm --force "$(cat one)" >out 2>err
is $? 0 'a key, and the master was started again: removed once more'
is "$(cat err)" '' 'nobody is away'
heals_without one 'that key'
cp all keys
is "$(got b)" 999 'the others are there'

# What is put after all that is there.
ok 'fill again' fill
is "$(got a)" 1000 'all of it is there'
is "$(got b)" 1000 'for the other host, too'
ok 'nobody is away any more' on b kvrm --all
end_all
done_testing

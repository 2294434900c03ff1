#!/bin/sh
# case-005: a node is killed, something is removed, and the node adopts its pool
# file. What was removed does not come back with it.
# shellcheck disable=SC2046,SC2086 # via and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

start_master m
start_client a --pool-file="$T/pool"
start_client b
wait_nodes 2
A=$(via a)
B=$(via b)

# Whoever reaches no master is served by the node of his host.
LOCAL="--socket=$T/a.sock --master=127.0.0.1:1 --timeout=20s"

# got OPTION...: how many of the keys in $T/keys are read so
got()
{
	rm -rf "$T/got"
	mkdir "$T/got"
	from "$T/keys" kvget "$@" --batch "$T/got" >/dev/null 2>&1
	find "$T/got" -type f | wc -l
}

live()
{
	[ "$(kvdiag $M nodes 2>/dev/null | grep -c ' live ')" -eq "$1" ]
}

all_summed()
{
	[ "$(stat a unsummed_keys)" = 0 ]
}

cd "$T" || exit 70
mkdir in
head -c 4096000 /dev/urandom | split -a 3 -b 4096 - in/k.
(cd in && ls) >all
awk '{ print $1 "\tin/" $1 }' all >lines
head -n 1 all >one

# killed: 500 objects on each node, and a is gone
killed()
{
	head -n 500 lines | kvput $A --batch - >out 2>err
	tail -n 500 lines | kvput $B --batch - >out 2>>err
	cp all keys
	is "$(got $B)" 1000 '1000 objects are there'
	is "$(got $LOCAL)" 500 'half of them at a'
	try_for 30 all_summed
	crash a
}

# back KEYS WANT NAME: a is started; of these keys so many are read, by anybody,
# from its first moment on
back()
{
	cp "$1" keys
	seen=0 rounds=0
	eval "exec $(cat a.cmd)" >a.log 2>&1 &
	echo $! >a.pid
	cluster_names="a $cluster_names"
	until grep -q ' ready ' a.log && live 2 && [ $rounds -ge 10 ]; do
		for from in "$LOCAL" "$A" "$B"; do
			n=$(got $from)
			[ "$n" -le "$2" ] || seen=$((seen + n))
		done
		rounds=$((rounds + 1))
		[ $rounds -lt 300 ] || break
	done
	is $seen 0 "$3: no old byte in $rounds rounds"
	is "$(got $LOCAL)" "$2" "$3: $2 keys for a local process"
	is "$(got $B)" "$2" "$3: $2 keys for others"
}

# told NAME COMMAND...: it says that a is away
told()
{
	name=$1
	shift
	exits 75 "$name: a node is away" "$@"
	like "$(cat "$T/err")" '^kvrm: 1 node is away: pending' 'and it says so'
}

killed
told 'all' kvrm $M --all
back all 0 'all'

killed
told 'all, forced' kvrm $M --all --force
back all 0 'all, forced'

killed
told 'a key' kvrm $M "$(cat one)"
back one 0 'a key'
cp all keys
is "$(got $B)" 999 'the others are there'
ok 'nobody is away any more' kvrm $M --all

killed
told 'a pattern' kvrm $M --regex '^k\.aa'
grep '^k\.aa' all >some
back some 0 'a pattern'

# The generation is in the file: a master that knows nothing learns of it, and
# one that knows it tells the node.
killed
told 'all, forced' kvrm $M --all --force
crash m
again m
try_for 30 live 1 || exit 70
back all 0 'all, and the master was started again'

# The node had heard of the removal, and is killed while all are away: it knows.
killed
again a
try_for 30 live 2 || exit 70
# While it is being told of what it missed it counts as away.
ok 'all, and nobody is away' try_for 10 kvrm $M --all --force
crash a
crash m
cp all keys
again a
is "$(got $LOCAL)" 0 'what was removed before it was killed is not adopted'
again m
try_for 30 live 2 || exit 70
is "$(got $B)" 0 'nor after it has met a master'

# What was not removed is served, and without a master after a while.
killed
crash m
eval "exec $(cat a.cmd)" >a.log 2>&1 &
echo $! >a.pid
cluster_names="a $cluster_names"
are_500()
{
	[ "$(got $LOCAL)" -eq 500 ]
}
try_for 20 grep ' ready ' a.log
ok 'without a master all is served after two seconds' try_for 20 are_500
like "$(cat a.log)" 'is served: no master answers' 'and the log says so'
again m
try_for 30 live 2 || exit 70
is "$(got $B)" 1000 'and told to a master that comes'
end_all
done_testing

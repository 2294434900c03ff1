#!/bin/sh
# case-003: copies lie on different nodes; too few nodes, or room on too few of
# them, is a success with a line about it. A copy that is left is enough.
# shellcheck disable=SC2086 # A and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

start_master m
start_client a
start_client b --global-segment-size=16MB
wait_nodes 2
A=$(via a)
cd "$T" || exit 70
head -c 3000000 /dev/urandom >in

# on KEY: the nodes that have a copy, sorted.
on()
{
	kvdiag $M --json key "$1" | grep -o '"address": "[^"]*"' |
		cut -d '"' -f 4 | sort | xargs
}
both=$(printf '%s\n' "$(addr a)" "$(addr b)" | sort | xargs)

ok 'two copies' kvput $A -r 2 two in
is "$(cat err)" '' 'no warning'
is "$(on two)" "$both" 'on both'
ok 'three copies' kvput $A -r 3 three in
is "$(cat err)" 'kvput: three: wanted 3 copies, placed 2' 'a warning'
is "$(on three)" "$both" 'on both'
ok 'eight copies' kvput $A -r 8 --json eight in
like "$(json out)" '"replicas":2' 'JSON says how many'

# The second one is full of what cannot leave.
ok 'remove them' kvrm $A two three eight
i=0
while [ $i -lt 20 ] && kvput $A --hard-pin --prefer "$(addr b)" fill$i in &&
	on fill$i | grep -q "$(addr b)"; do
	i=$((i + 1))
done
ok "one node is full with $i objects" test $i -ge 4 -a $i -le 5
ok 'two copies then' kvput $A -r 2 full in
is "$(cat err)" 'kvput: full: wanted 2 copies, placed 1' 'a warning'
is "$(on full)" "$(addr a)" 'there is one'

ok 'remove all' kvrm $A --all --force
ok 'two copies' kvput $A -r 2 two in
ok 'three copies' kvput $A -r 3 three in
end b KILL
ok 'the copy that is left' kvget $A -o got two
ok 'is whole' cmp got in
ok 'the other one' kvget $M -o got three
ok 'is whole' cmp got in
end_all
done_testing

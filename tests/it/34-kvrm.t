#!/bin/sh
# kvrm: by key, by pattern, all; what is pinned, what is missing, who is away.
# shellcheck disable=SC2086 # A, B and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

start_master m
start_client a
start_client b
wait_nodes 2
A=$(via a)
B=$(via b)
cd "$T" || exit 70
echo value >in

for key in a1 a2 b1 b2 c1; do
	kvput $A -r 2 $key in || fail "put $key"
done
kvput $A --hard-pin h1 in || fail 'put h1'
kvput $B --hard-pin h2 in || fail 'put h2'
kvput $A --tenant other a1 in || fail 'put of another tenant'

ok 'one key' kvrm $A a1
is "$(cat out)|$(cat err)" 'removed  1|' 'its two copies are one object'
exits 1 'it is gone here' kvget $A --exist a1
exits 1 'and there' kvget $B --exist a1
ok 'that of another tenant is not' kvget $B --tenant other --exist a1
exits 1 'again' kvrm $A a1
is "$(cat out)|$(cat err)" 'removed  0|kvrm: a1: no such key' 'a line'
ok 'again with --force' kvrm $A -f a1
is "$(cat out)|$(cat err)" 'removed  0|' 'no line'
exits 1 'one that is there, one that is not' kvrm $B --json a2 absent
is "$(json out)" '{"removed":1,"missing":1,"kept":0,"undecided":0,"failed":0,"nodes_away":0}' 'JSON'

exits 75 'hard-pinned' kvrm $B h1
is "$(cat err)" 'kvrm: h1: hard-pinned; --force removes it' 'a line'
ok 'it stays' kvget $A --exist h1
ok 'hard-pinned, with --force' kvrm $B --force h1
exits 1 'it is gone' kvget $A --exist h1

ok 'by pattern' kvrm $M --regex '^b[0-9]$'
is "$(cat out)" 'removed  4' 'two copies of two'
exits 1 'by a pattern that matches nothing' kvrm $M --regex '^b[0-9]$'
is "$(cat out)|$(cat err)" 'removed  0|kvrm: no key matches' 'a line'
ok 'with --force' kvrm $M --force --regex '^b[0-9]$'
exits 75 'all' kvrm $A --all
is "$(cat out)" 'removed  2' 'but those hard-pinned'
is "$(cat err)" 'kvrm: 1 hard-pinned object left; --force removes it' 'a line'
exits 75 'by a pattern that only pinned ones match' kvrm $A --json --regex '^h'
is "$(json out)" \
	'{"removed":0,"missing":0,"kept":1,"undecided":0,"failed":0,"nodes_away":0}' 'JSON'
exits 64 'by an empty pattern' kvrm $A --regex ''
is "$(cat err)" \
	'kvrm: --regex: every key matches the empty pattern; --all removes all' \
	'which may be a mistake'
exits 64 'by a pattern that is none' kvrm $A --regex 'h(2'
is "$(cat err)" \
	'kvrm: --regex: the pattern is wrong at byte 3: missing closing parenthesis' \
	'why, and where'
is "$(kvdiag $M keys)" h2 'which stay'

# Of the keys that a pattern takes too much work on nothing is said but so.
for i in 1 2 3 4 5; do
	kvput $A "$(printf '%0900d' 0 | tr 0 a)$i" in || fail "put long key $i"
	kvput $B "zz$i" in || fail "put zz$i"
done
hard='^(a|aa)+$|^zz'
exits 75 'a list by a pattern that takes too much work' kvdiag $M keys "$hard"
is "$(sort out | tr '\n' ' ')" 'zz1 zz2 zz3 zz4 zz5 ' 'has what matches'
is "$(cat err)" \
	'kvdiag: 5 objects skipped: the pattern takes too much work on their keys' \
	'a line'
exits 75 'a removal by it' kvrm $M --json --regex "$hard"
is "$(json out)" \
	'{"removed":5,"missing":0,"kept":0,"undecided":5,"failed":0,"nodes_away":0}' \
	'removes what matches'
exits 75 'again' kvrm $A --regex "$hard"
is "$(cat err)" \
	'kvrm: 5 objects skipped: the pattern takes too much work on their keys' \
	'a line, and no more'
is "$(kvdiag $M keys ^aaa | wc -l)" 5 'which stay'
ok 'all by force' kvrm $A --all --force
is "$(kvdiag $M keys)" '' 'nothing stays'
ok 'all of nothing' kvrm $A --all
is "$(kvdiag $M --tenant other keys)" a1 'but what is of another tenant'

for args in '' '--all k' '--all --regex x' '--regex x k' '--bad' \
	'--timeout=x k'; do
	exits 64 "kvrm $args" kvrm $A $args
	ok 'says why in a line' test "$(wc -l <err)" -le 2
done

# A node that does not answer. What it has may come back with it.
kvput $A --prefer "$(addr a)" k1 in || fail 'put k1'
kvput $B --prefer "$(addr b)" k3 in || fail 'put k3'
kill -STOP "$(pid_of b)"
exits 75 'a node is away' kvrm $A --all
like "$(cat err)" '^kvrm: 1 node is away: pending' 'a line'
kill -CONT "$(pid_of b)"
wait_nodes 2
kvrm $A --all >again 2>&1
ok 'run again when it is back' test $? -eq 0
is "$(kvdiag $M keys)" '' 'nothing is left'

# No master answers: the own node alone is asked, which is not all.
kvput $A -r 2 two in || fail 'put two copies'
kill -STOP "$(pid_of m)"
exits 75 'one key, without a master' kvrm $A two
is "$(cat out)" 'removed  1' 'is removed here'
like "$(cat err)" '^kvrm: 1 node is away: pending' 'a line'
exits 75 'all, without a master' kvrm $A --all
exits 75 'kvdiag keys, without a master' kvdiag $A keys
exits 75 'kvdiag key, without a master' kvdiag $A key two
kill -CONT "$(pid_of m)"
wait_nodes 2
ok 'what the other one has is there still' kvget $A --exist two
ok 'and is removed when they are one again' try_for 5 kvrm $A -f two
exits 1 'from everywhere' kvget $B --exist two
ok 'without a named master the own node is all' kvrm -s "$(socket a)" --all
end_all
done_testing

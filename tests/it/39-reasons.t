#!/bin/sh
# What a tool says is why: somebody who does not answer, and what the tool itself
# lacks, never look like a key that does not exist.
# shellcheck disable=SC2086 # A and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

require prlimit
cd "$T" || exit 70
start_master m
start_client a
start_client b
wait_nodes 2
A=$(via a)
head -c 100000 /dev/urandom >in
for key in near far; do
	node=a
	[ $key = near ] || node=b
	ok "put one at $node" kvput $A --prefer "$(addr $node)" $key in
done

# got NAME: the last command wrote the value.
got()
{
	mv out value
	ok "$1" cmp value in
}

# unsure PATTERN: keys that others may have, while the master does not answer.
unsure()
{
	ok 'what the own node has is served' timeout 20 kvget $A near
	got 'whole'
	exits 69 'what it has not is no miss' timeout 20 kvget $A far
	like "$(cat err)" "^kvget: master $MASTERS: $1\$" 'the master is named'
	like "$(cat err)" '^kvget: far: not found here, and no master can be ' \
		'and what is known of the key'
	is "$(wc -l <err)" 2 'in two lines'
	printf 'near\nfar\n' >keys
	exits 69 'of a batch' from keys timeout 20 kvget $A --batch "dir $1"
	ok 'the rest is fetched' cmp "dir $1/near" in
	exits 1 'whether they exist' timeout 20 kvget $A --exist near far
	is "$(cat out)" "near	1${NEWLINE}far	0" 'is answered'
	for what in nodes pools; do
		exits 1 "kvdiag $what" timeout 20 kvdiag $A $what
		like "$(cat err)" "^kvdiag: $what: no master answers, only" \
			'shows what there is'
		like "$(cat out)" '127\.0\.0\.2 .*256.0 MiB' 'the own node'
		unlike "$(cat out)" '127\.0\.0\.3' 'alone'
	done
	exits 75 'kvdiag key' timeout 20 kvdiag $A --json key far
	like "$(cat out)" '"exists": null' 'does not know either'
}
NEWLINE='
'
end m KILL
unsure 'nobody listens there'
again m
wait_nodes 2
kill -STOP "$(pid_of m)"
unsure 'no answer in time'
kill -CONT "$(pid_of m)"
wait_nodes 2
# Their sessions may be those of before, which ended meanwhile.
ok 'the master answers again' try_for 30 kvdiag $M keys
exits 1 'with a master it is a miss' kvget $A none
is "$(cat err)" 'kvget: none: no such key' 'for sure'

# A tool that knows the socket alone asks the masters of that node.
S="--socket=$(socket a) --timeout=60s"
ok 'with the socket alone a key of another node' kvget $S far
got 'is found'
exits 1 'and one of nobody' kvget $S none
is "$(cat err)" 'kvget: none: no such key' 'for sure'
ok 'put by the socket alone' kvput $S -r 2 both in
ok 'nodes' kvdiag $S nodes
is "$(grep -c ' live ' out)" 2 'both'
ok 'keys' kvdiag $S keys
is "$(sort out | xargs)" 'both far near' 'of both'
ok 'stats' kvdiag $S stats master
ok 'links' kvdiag $S links
start lone --port kvclient --host=127.0.0.1 --socket="$T/lone.sock" \
	--global-segment-size=16MB
L="--socket=$(socket lone)"
ok 'a node that has no master' kvput $L own in
ok 'is a pool of its own' kvget $L own
got 'with its keys'
exits 1 'and no others' kvget $L far
is "$(cat err)" 'kvget: far: no such key' 'for sure'
ok 'its nodes' kvdiag $L nodes
is "$(grep -c ' live ' out)" 1 'are itself'
ok 'its pools' kvdiag $L --json pools
like "$(cat out)" '"pool_bytes": 16777216' 'the one'
ok 'its keys' kvdiag $L keys
is "$(cat out)" own 'the same'
ok 'its stats' kvdiag $L stats
exits 69 'those of its master' kvdiag $L stats master
like "$(cat err)" '^kvdiag: stats: there is no master; ' 'who is not there'
end lone

# Who answers, but speaks something else: in its own words, or, when the bytes
# of a greeting look to it like none at all, by closing.
foreign="(it does not speak kvpool's protocol|it closed the connection without \
an answer) \(is it an HTTP port\?\)"
http=$(free_port)
start web --rpc-port kvmaster --listen=127.0.0.1 --http-port="$http"
for where in '--socket=' "--socket=$(socket a)"; do
	exits 69 "an HTTP port, $where" \
		timeout 5 kvget $where --master=127.0.0.1:$http far
	like "$(cat err)" "^kvget: master 127.0.0.1:$http: $foreign" 'is told from a silent master'
done
begun=$(date +%s)
exits 69 'nodes' kvdiag --socket= --master=127.0.0.1:$http nodes
ok 'at once' test $(($(date +%s) - begun)) -le 5
launch stray kvclient --port=0 --socket= --global-segment-size=1MB \
	--master=127.0.0.1:$http
ok 'a node says so' try_for 10 grep -qE "no session with \
master=127.0.0.1:$http: $foreign" stray.log
end stray
end web

# The own node hangs: what the master says is shown all the same.
kill -STOP "$(pid_of a)"
began=$(date +%s)
exits 1 'nodes, when the own one hangs' timeout 20 kvdiag $A nodes
like "$(cat err)" "^kvdiag: $(socket a): no kvclient answers there: no answer" \
	'which is said'
is "$(wc -l <err)" 1 'in one line'
like "$(cat out)" '^127\.0\.0\.2 .* (silent|suspect) ' 'and shown'
like "$(cat out)" '^127\.0\.0\.3 .* live ' 'of that one alone'
exits 1 'pools' timeout 20 kvdiag $A pools
is "$(grep -c '^  127' out)" 2 'are there as well'
exits 69 'with the socket alone nothing is known' timeout 20 kvdiag $S nodes
ok 'none takes long' test $(($(date +%s) - began)) -le 15
kill -CONT "$(pid_of a)"
wait_nodes 2

# Out of descriptors, at any point.
for n in 4 5 6 7 8 9 10 11 12; do
	for what in near far '--exist near' '--exist far'; do
		tap_run prlimit --nofile=$n "$(command -v kvget)" $A $what
		case $tap_rc:$(cat err) in
		0:) pass "kvget $what with $n descriptors" ;;
		71:*'out of memory or file descriptors'*)
			pass "kvget $what with $n descriptors: says so" ;;
		*) fail "kvget $what with $n descriptors: $tap_rc"
			diag "$(cat err)" ;;
		esac
	done
done

# One thing fails, at each place where something can.
n=0
while [ $n -lt 500 ]; do
	n=$((n + 1))
	rm -f report
	tap_run env KV_FAULT=$n KV_FAULT_REPORT=report kvget $A far
	where=$(sed -n 's/^reached [0-9]* at //p' report 2>/dev/null)
	[ -n "$where" ] || break
	case $tap_rc in
	0) got "$n, $where: goes on" ;;
	69 | 71 | 75) pass "$n, $where: $tap_rc" ;;
	*)
		fail "$n, $where: exit status $tap_rc"
		diag "$(cat err)"
		;;
	esac
done
[ $n -gt 1 ] || skip 'a fault at each place' 'this build has no fault points'
end_all
done_testing

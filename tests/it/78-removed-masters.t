#!/bin/sh
# A master that has no nodes knows of a removal that the others do not. What is
# put after the next one stays, also when nodes find that master at last.
# shellcheck disable=SC2086 # A, B and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

two_sessions()
{
	kvdiag $M --json nodes >"$T/nodes" &&
		json "$T/nodes" | grep -q '"sessions":2'
}

start_master first
start_client a
start_master second
wait_nodes 1
A=$(via a) B=$(via b)
echo value >"$T/in"
ok 'put' kvput $A old "$T/in"
elsewhere="kvrm --socket= --master=${MASTERS#*,} --all --force"
ok 'all is removed where nobody is, then here' \
	"$KV_BIN/tests/it/removelate" --socket="$T/a.sock" \
	--master=$MASTERS --do="$elsewhere"
exits 1 'it is gone' kvget $A --exist old
ok 'put another one' kvput $A new "$T/in"
start_client b
wait_nodes 2
ok 'a node has both masters' try_for 20 two_sessions
ok 'what was put after that is there' kvget $A --exist new
ok 'for others as well' kvget $B --exist new

# The master that is asked first was started a moment ago: it knows little.
ok 'put where only the first master is known' kvput $A key "$T/in"
restart="kill -9 $(pid_of second); sleep 0.2
	$(cat "$T/second.cmd") >'$T/second.log' 2>&1 &
	echo \$! >'$T/second.pid'; sleep 0.5"
like "$("$KV_BIN/tests/it/removelate" --socket= --key=key --do="$restart" \
	--master="${MASTERS#*,},${MASTERS%,*}")" '^1 ' 'a key is removed'
exits 1 'it is gone' kvget $A --exist key
end second
end_all
done_testing

#!/bin/sh
# Promise 7: answers from the network never crash a program, whatever they are.
# A node with much room and all keys, and a master, that lie in every answer.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

CORPUS=$TOP/tests/corpus/fuzz_msg
LOAD=$(secs 8)
start_master m
start_client a --global-segment-size=64MB
wait_nodes 1

# evil NAME OPTION...: with its address in evil_addr; on another port when
# somebody has taken the first one
evil()
{
	evil_name=$1
	shift
	for _ in 1 2 3; do
		evil_addr=127.0.0.1:$(free_port)
		drive "$evil_name" evil --listen="$evil_addr" \
			--corpus="$CORPUS" --seconds=$((LOAD + 6)) "$@"
		grep -q '^running' "$T/$evil_name.err" && return
		driven_no_more "$evil_name"
	done
	diag "$evil_name does not start: $(cat "$T/$evil_name.err")"
	exit 70
}

evil node1 --join="$MASTERS" --prefix=h
evil node2 --join="$MASTERS" --prefix=h
evil master
evil_master=$evil_addr
sleep 1

# Requesters of all kinds, led to the liars by a good master, and by a bad one;
# a local node stands by some of them.
set -- --untrusted --seconds=$((LOAD - 1)) --threads=3 --prefix=h \
	--size-max=400k --timeout-ms=3000 --open-timeout-ms=9000
drive far hammer --master="$MASTERS" "$@"
drive near hammer $(at a) "$@"
drive near2 hammer --master="$evil_master,$MASTERS" --socket="$(socket a)" "$@"
drive own hammer --master="$MASTERS" --segment-bytes=32MB "$@"
# A node whose first master lies.
start b --port kvclient --master="$evil_master,$MASTERS" --host=127.0.0.9 \
	--socket="$T/b.sock" --global-segment-size=64MB
drive nearb hammer --socket="$T/b.sock" --master="$MASTERS" "$@"
timeouts=0
end=$(($(date +%s) + LOAD - 2))
while [ "$(date +%s)" -lt $end ]; do
	for tool in "kvdiag nodes" "kvdiag keys" "kvdiag key h/1" \
		"kvdiag links" "kvdiag doctor" "kvget h/1" \
		"kvget --exist h/1 h/2" "kvrm h/9"; do
		for master in "$MASTERS" "$evil_master"; do
			# shellcheck disable=SC2086 # tool is several words
			timeout $((20 * KV_SLOW)) $tool --socket= \
				--master="$master" --timeout=2s \
				>"$T/tool.out" 2>"$T/tool.err"
			tool_rc=$?
			[ $tool_rc -lt 124 ] || {
				timeouts=$((timeouts + 1))
				diag "$tool: $tool_rc $(tail -n 5 "$T/tool.err")"
			}
		done
	done
done
is $timeouts 0 'no tool crashed or hung'
for name in far near near2 own nearb; do
	driven $name "$name: neither crashed nor hung"
	diag "$(cut -c 1-300 "$T/$name.json")"
done
for name in m a b; do
	ok "$name lives" kill -0 "$(pid_of $name)"
done
for name in node1 node2 master; do
	driven $name "$name lied"
	diag "$(cat "$T/$name.json")"
done

# When they are gone all is well again, for b too, whose first master lied: what
# was left undecided is decided.
drive good hammer $(at a) --strict --seconds=1 --prefix=good
driven good 'afterwards nothing is left of it'
for name in a b; do
	ok "$name holds nothing for anybody" try_for $((5 * KV_SLOW)) idle $name
done
end_all
done_testing

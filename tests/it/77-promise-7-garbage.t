#!/bin/sh
# Promise 7: bytes from the network or a socket never crash a program, whatever
# they are. Rubbish at every port and socket, and requesters whose frames are
# good and whose deeds are not, while others go on as if nothing were.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

CORPUS=$TOP/tests/corpus/fuzz_msg
master_http=$(free_port)
start_master m --http-port="$master_http"
client_http=$(free_port)
start_client a --http-port="$client_http" --global-segment-size=64MB
start_client b --global-segment-size=64MB
wait_nodes 2

for node in a b -; do
	drive good$node hammer $(at $node) --strict --seconds="$(secs 8)" \
		--threads=2 --prefix=good$node --keys=60 --size-max=500k
done
sleep 1
for name in m a b; do
	rss $name >"$T/$name.rss"
	fds $name >"$T/$name.fds"
done

drive garbage garbage --seconds="$(secs 6)" --corpus="$CORPUS" --threads=2 \
	--targets="$MASTERS,$(addr a),$(socket a),$(addr b),$(socket b)" \
	--http="127.0.0.1:$master_http,127.0.0.1:$client_http"
for target in "$(addr a)" "$(socket a)" "$(socket b)"; do
	drive "crooked-${target##*[/:]}" crooked --target="$target" \
		--seconds="$(secs 6)"
done
driven garbage 'rubbish was thrown'
diag "$(cat "$T/garbage.json")"
for target in "$(addr a)" "$(socket a)" "$(socket b)"; do
	name=crooked-${target##*[/:]}
	driven "$name" "$name did its worst"
	diag "$(cat "$T/$name.json")"
done
for node in a b -; do
	driven good$node "good$node: as if nothing were"
done

few_fds()
{
	[ "$(fds "$1")" -le $(($(cat "$T/$1.fds") + 10)) ]
}
for name in m a b; do
	ok "$name lives" kill -0 "$(pid_of $name)"
	more=$(($(rss $name) - $(cat "$T/$name.rss")))
	diag "$name: $more kB more"
	# The sanitizers keep what was freed for a while.
	ok "$name: memory does not grow without bound" \
		test "$more" -le $((50000 + (KV_SLOW - 1) * 100000))
	# Idle strangers are sent away after ten seconds.
	ok "$name: descriptors come back" \
		try_for $((15 * KV_SLOW)) few_fds $name
	ok "$name: the log is not flooded" \
		test "$(wc -l <"$T/$name.log")" -le 500
done
for node in a b; do
	ok "$node holds nothing for anybody" try_for $((5 * KV_SLOW)) idle $node
done
end_all
done_testing

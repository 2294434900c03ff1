#!/bin/sh
# Raw transfers of engines over two rails: in pieces, with rails that are cut in
# the middle and come back, with deadlines, with a peer that is killed. Both
# hosts share a network name space, so engines are told not to be neighbours.
# shellcheck disable=SC2086,SC2094 # A is several words; port is read later
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
export ENGINEIO_PROTOCOL=rdma
io=$KV_BIN/tests/it/engineio
bytes=$((2 * 1024 * 32768)) # what 2 threads of it use

stop_server()
{
	exec 9>&-
	[ -z "${server:-}" ] || kill -9 "$server" 2>/dev/null || :
	wait 2>/dev/null || :
}
at_exit stop_server

# serve LISTEN: an engine on host b, its port
serve()
{
	rm -f in port
	mkfifo in
	$B "$io" serve "$1" $bytes <in >port 2>server.err &
	server=$!
	exec 9>in
	try_for 20 test -s port
	read -r port _ <port
}

# sent HOST N: packets that rail N of a host has sent
sent()
{
	cat "/sys/class/infiniband/rx$1$2/ports/1/hw_counters/sent_pkts"
}

is_flowing()
{
	[ $(($(sent a 0) + $(sent a 1))) -gt $((before + 1000)) ]
}

# flowing: waits until bytes leave host a by rails
flowing()
{
	before=$(($(sent a 0) + $(sent a 1)))
	try_for 20 is_flowing
}

# path_is REGEX NAME: within ten seconds, which is longer than rails rest
path_is()
{
	vm_look="$A $io path 10.76.0.2:$port"
	try_for 10 eval "$vm_look | grep -Eq -e '$1'" && pass "$2" && return
	fail "$2"
	diag "no match: $1"
	diag "$($vm_look 2>&1)"
}

right()
{
	is "$(grep -c ': 0 wrong bytes$' out)" "$1" 'every byte is right'
}

serve 10.76.0.2:0
path_is '^rdma: 2 rails$' 'both rails'
before=$(($(sent a 0) + $(sent a 1)))
ok '1000 pieces and more from 2 threads' \
	$A "$io" batch "10.76.0.2:$port" 2 1000 1 1024
right 3
# 64 MiB or more in packets of 4 KiB
ok 'went over the rails' \
	test $(($(sent a 0) + $(sent a 1) - before)) -gt 10000

(flowing; cut_link 0) &
ok 'a rail is cut in the middle' \
	$A "$io" batch "10.76.0.2:$port" 1 1000 1000 1000 1000
wait $!
right 4
cut_link 1
ok 'both are cut: by TCP' $A "$io" batch "10.76.0.2:$port" 1 100
right 1
path_is '^tcp: .*; no RDMA: .' 'it says why'
mend_link 0
mend_link 1
path_is '^rdma: 2 rails$' 'mended'

(flowing; cut_link 0; cut_link 1; cut_link ctl) &
ok 'all links are cut' $A "$io" flood "10.76.0.2:$port" $bytes 3000
wait $!
like "$(cat out)" '^ETIMEOUT after (2[89]|3[0-9])[0-9][0-9] ms$' \
	'the deadline ends it'
mend_link 0
mend_link 1
mend_link ctl
ok 'afterwards all is well' $A "$io" batch "10.76.0.2:$port" 1 100
right 1

(flowing; kill -9 $server) &
ok 'the peer is killed' $A "$io" flood "10.76.0.2:$port" $bytes 20000
wait $!
like "$(cat out)" '^(EUNREACHABLE|ECONNLOST) after [0-9]{1,4} ms$' \
	'it is noticed'
stop_server
serve "10.76.0.2:$port"
ok 'a successor is met' $A "$io" batch "10.76.0.2:$port" 1 100
right 1
stop_server
server=
done_testing

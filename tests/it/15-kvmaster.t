#!/bin/sh
# kvmaster as a process: how it starts and ends, and what it makes of nodes that
# vanish and of being stopped itself.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
require prlimit python3 timeout
cd "$T" || exit 70

# ---- the command line ----

ok 'kvmaster --version' kvmaster --version
like "$(cat out)" '^kvmaster \(kvpool\) [0-9.]+$' 'name and version'
ok 'kvmaster --help' kvmaster --help
is "$(expand out | grep -c '.\{81\}')" 0 'fits the screen'
is "$(cat err)" '' 'is no complaint'

# refused CODE PATTERN OPTION...: ends with the code and one line.
refused()
{
	refused_code=$1
	refused_text=$2
	shift 2
	exits "$refused_code" "kvmaster $*" timeout 5 kvmaster "$@"
	is "$(wc -l <err)" 1 'one line'
	like "$(cat err)" "$refused_text" 'says why'
}
refused 64 'no arguments' more
refused 64 '--rpc-port' --rpc-port 70000
refused 64 '--client-ttl' --client-ttl -1s
refused 64 '100ms or more' --client-ttl 1ms
refused 64 '--exist-grace' --exist-grace soon
refused 64 'the port is --rpc-port' --listen 127.0.0.1:5
refused 64 '--listen' --listen 'a b'
refused 64 'the port is --http-port' --listen 127.0.0.1 --rpc-port 0 \
	--http-listen 127.0.0.1:5
refused 69 'cannot resolve the name' --listen nowhere.invalid
echo '{"rpc_port": "high"}' >bad.json
refused 78 'bad.json' --config bad.json

# Kubernetes sets such for a service of this name.
KVMASTER_PORT=tcp://10.0.0.1:50051
export KVMASTER_PORT

# ---- start and end ----

start_master m1
is "$(wc -l <m1.log)" 1 'one line when it is ready'
like "$(cat m1.log)" "ready addr=127.0.0.1:$cluster_port " 'with its address'
refused 69 "127.0.0.1:$cluster_port.*in use" --listen 127.0.0.1 \
	--rpc-port "$cluster_port" --http-port 0

http=$(free_port)
start_master m0 --http-port "$http" --exist-grace 0
ok 'HTTP' python3 -c "import urllib.request as u
print(u.urlopen('http://127.0.0.1:$http/health').status)"
is "$(cat out)" 200 'is served'
refused 69 "port $http is in use" --listen 127.0.0.1 --rpc-port 0 --http-port "$http"
end m0
start_master m0 --http-port "$http" --http-listen 127.0.0.7
ok 'HTTP elsewhere' python3 -c "import urllib.request as u
print(u.urlopen('http://127.0.0.7:$http/health').status)"
is "$(cat out)" 200 'is served'
not_ok 'and not here' python3 -c "import socket
socket.create_connection(('127.0.0.1', $http))"
end m0
end m1
for n in 5 6 7 8; do
	tap_run prlimit --nofile=$n timeout 5 kvmaster --listen 127.0.0.1 \
		--rpc-port 0 --http-port "$http"
	is "$tap_rc:$(grep -c 'Too many open files$' err)" 71:1 \
		"$n descriptors: says so"
done
MASTERS=
start_master m1

# What a liveness probe of the port does.
python3 - "$cluster_port" <<'PY'
import socket, sys
for i in range(50):
    socket.create_connection(('127.0.0.1', int(sys.argv[1]))).close()
PY
# shellcheck disable=SC2086 # M is several words
ok 'it answers' kvdiag $M stats master
like "$(cat out)" 'kvpool_master_conns_accepted_total *5[0-9]$' \
	'also those who only look'
is "$(wc -l <m1.log)" 1 'of whom it says nothing'

# And what a scanner of ports does.
python3 - "$cluster_port" <<'PY'
import socket, sys
for i in range(50):
    s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
    s.sendall(b'GET / HTTP/1.1\r\n\r\n' + b'x' * 100)
    try:
        s.recv(1)
    except OSError:
        pass
PY
is "$(wc -l <m1.log)" 2 'strangers are one line, however many'

for signal in TERM INT; do
	end m1 $signal
	is $end_status 0 "SIG$signal: exit code 0"
	like "$(tail -n 2 m1.log | head -n 1)" 'ending signal=' 'and a line'
	like "$(tail -n 1 m1.log)" 'kvmaster.*: ended$' 'and another at its end'
	start_master m1
done
kill -HUP "$(pid_of m1)"
kill -PIPE "$(pid_of m1)"
# shellcheck disable=SC2086 # M is several words
ok 'SIGHUP and SIGPIPE are nothing' kvdiag $M stats master
end m1
MASTERS=

if unshare -pf --kill-child true 2>/dev/null; then
	unshare -pf --kill-child kvmaster --listen 127.0.0.1 --rpc-port 0 \
		--http-port 0 2>one.log &
	outer=$!
	try_for 5 grep -q ready one.log
	like "$(cat one.log)" 'kvmaster\[1\]: ready' 'as PID 1'
	kill -TERM "$(cat /proc/$outer/task/$outer/children)"
	code=0
	wait $outer || code=$?
	is $code 0 'SIGTERM ends it with 0 all the same'
else
	skip 'as PID 1' 'no PID name space here'
fi

if grep -q . /proc/net/if_inet6 2>/dev/null; then
	for host in ::1 '[::1]' ''; do
		start six --rpc-port kvmaster --http-port=0 --listen="$host"
		ok "IPv6, --listen '$host'" \
			kvdiag -s '' -m "[::1]:$cluster_port" stats master
		end six
	done
else
	skip 'IPv6' 'no IPv6 here'
fi

# ---- nodes ----

start_master m2 --client-ttl 2s
start_client a
start_client b
wait_nodes 2
is "$(grep -c 'node joined' m2.log)" 2 'a line for each node'

nodes_are()
{
	# shellcheck disable=SC2086 # M is several words
	[ "$(kvdiag $M nodes | sed 1d | wc -l)" -eq "$1" ]
}
end a KILL
ok 'a killed node is gone within a second' try_for 1 nodes_are 1
like "$(cat m2.log)" 'node lost .*its process is gone' 'and a line says so'
start_client a
wait_nodes 2

kill -STOP "$(pid_of m2)"
sleep 4
kill -CONT "$(pid_of m2)"
sleep 0.5
ok 'no node is lost while the master sleeps' nodes_are 2
is "$(grep -c 'this master was stopped for [34] s' m2.log)" 1 \
	'which is one line'
is "$(grep -c 'node lost' m2.log)" 1 'nobody was lost by it'
wait_nodes 2

kill -STOP "$(pid_of b)"
ok 'a node that is silent for the ttl is gone' try_for 4 nodes_are 1
kill -CONT "$(pid_of b)"
wait_nodes 2
pass 'and joins again when it goes on'

end a
ok 'a node that ends is gone at once' nodes_are 1
like "$(cat m2.log)" 'node left name=' 'it said so'
end_all
done_testing

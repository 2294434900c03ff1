# shellcheck shell=sh
# Daemons for shell tests. Source it after tap.sh:
#
#	. "$(dirname "$0")/../lib/cluster.sh"
#
#	start_master NAME [OPTION...]	kvmaster on a free port
#	start_client NAME [OPTION...]	kvclient in the pool of the masters; the
#					first one's node is called 127.0.0.2,
#					the next one's 127.0.0.3
#	wait_nodes N			until N nodes are live
#	end NAME [SIGNAL]		ends one (TERM), waits for it; its exit
#					status is in end_status
#	again NAME			starts one that has ended, as before
#	end_all				a test: all of them end well
#	pid_of NAME
#	socket NAME			of a client
#	addr NAME			of one that was live in wait_nodes
#	via NAME			options that lead to a client, and through
#					it to all others
#	try_for SECONDS COMMAND...	again and again until it succeeds
#
# MASTERS is the list of all masters so far; M the options that lead there and
# nowhere else, whatever else runs on this machine; PATH finds the programs that
# were built. What NAME says goes to
# $T/NAME.log. All are gone when the test ends, however it ends.

MASTERS=
M=--socket=
cluster_names=
cluster_hosts=1
cluster_ports=
PATH=$KV_BIN:$PATH
export PATH
unset MOONCAKE_CONFIG_PATH

pid_of()
{
	cat "$T/$1.pid"
}

socket()
{
	echo "$T/$1.sock"
}

via()
{
	echo "--socket=$T/$1.sock --master=$MASTERS --timeout=60s"
}

addr()
{
	cat "$T/$1.addr"
}

# claim PORT: for as long as this test runs, also while nobody listens there;
# not if another one has it.
claim()
{
	mkdir -p "$cluster_claims"
	(
		flock 9
		read -r cluster_pid <"$cluster_claims/$1"
		[ ! -d "/proc/${cluster_pid:-none}" ] &&
			echo $$ >"$cluster_claims/$1"
	) 2>/dev/null 9>"$cluster_claims/lock"
}
cluster_claims=${TMPDIR:-/tmp}/kv.ports.$(id -u)

# A TCP port on which nobody listens, and no other test of this user will. Not
# one that the kernel gives out.
free_port()
{
	while :; do
		cluster_port=$(od -An -N2 -tu2 /dev/urandom)
		cluster_port=$((20000 + cluster_port % 12000))
		cluster_hex=$(printf ':%04X ' $cluster_port)
		grep -qs " [0-9A-F]*$cluster_hex" /proc/net/tcp \
			/proc/net/tcp6 && continue
		claim $cluster_port && break
	done
	echo "$cluster_port"
}

try_for()
{
	cluster_left=$(($1 * 20))
	shift
	until "$@" >"$T/try.out" 2>&1; do
		cluster_left=$((cluster_left - 1))
		[ $cluster_left -gt 0 ] || return 1
		sleep 0.05
	done
}

# launch NAME COMMAND...: until its log says "ready", or it ends.
launch()
{
	cluster_name=$1
	shift
	for cluster_word; do
		printf "'%s' " "$cluster_word"
	done >"$T/$cluster_name.cmd"
	: >"$T/$cluster_name.log"
	"$@" >"$T/$cluster_name.log" 2>&1 &
	echo $! >"$T/$cluster_name.pid"
	cluster_tries=0
	until grep -q ' ready ' "$T/$cluster_name.log"; do
		cluster_tries=$((cluster_tries + 1))
		if [ $cluster_tries -gt 600 ] ||
			! kill -0 "$(pid_of "$cluster_name")" 2>/dev/null; then
			return 1
		fi
		sleep 0.05
	done
	cluster_names="$cluster_name $cluster_names"
}

# start NAME PORT_OPTION COMMAND...: with a free port, in cluster_port. Somebody
# may take the port before the daemon does; then there is another one.
start()
{
	cluster_start=$1
	cluster_option=$2
	shift 2
	for _ in 1 2 3; do
		cluster_port=$(free_port)
		launch "$cluster_start" "$@" "$cluster_option=$cluster_port" &&
			return
		grep -qi 'in use' "$T/$cluster_start.log" || break
	done
	diag "$cluster_start does not start: $(tail "$T/$cluster_start.log")"
	exit 70
}

# What its log said before goes to $T/NAME.old. Others know its port: where
# somebody has taken that for a while, it is waited for.
again()
{
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		cat "$T/$1.log" >>"$T/$1.old"
		eval "launch $1 $(cat "$T/$1.cmd")" && return
		grep -qi 'in use' "$T/$1.log" || break
		sleep 1
	done
	diag "$1 does not start again: $(tail "$T/$1.log")"
	exit 70
}

start_master()
{
	cluster_master=$1
	shift
	start "$cluster_master" --rpc-port kvmaster \
		--listen=127.0.0.1 --http-port=0 "$@"
	MASTERS=${MASTERS:+$MASTERS,}127.0.0.1:$cluster_port
	# Machines that run tests may have a lot to do besides.
	M="--socket= --master=$MASTERS --timeout=60s"
}

start_client()
{
	cluster_client=$1
	shift
	cluster_hosts=$((cluster_hosts + 1))
	start "$cluster_client" --port kvclient \
		--master="$MASTERS" --host=127.0.0.$cluster_hosts \
		--socket="$T/$cluster_client.sock" \
		--global-segment-size=256MB "$@"
	cluster_ports="$cluster_ports $cluster_client:$cluster_port"
}

has_nodes()
{
	# shellcheck disable=SC2086 # M is several words
	kvdiag $M nodes
	[ "$(grep -c ' live ' "$T/try.out")" -eq "$1" ]
}

wait_nodes()
{
	if ! try_for 30 has_nodes "$1"; then
		# shellcheck disable=SC2086 # M is several words
		diag "wanted $1 live nodes: $(kvdiag $M nodes 2>&1)"
		exit 70
	fi
	# Their ports are known; the rest of an address is the master's choice.
	for cluster_port in $cluster_ports; do
		cluster_addr=$(grep -o " [^ ]*:${cluster_port#*:} " \
			"$T/try.out") || continue
		echo "$cluster_addr" | tr -d ' ' >"$T/${cluster_port%:*}.addr"
	done
}

end()
{
	end_status=0
	kill "-${2:-TERM}" "$(pid_of "$1")"
	wait "$(pid_of "$1")" 2>/dev/null || end_status=$?
	cluster_names=$(printf '%s' "$cluster_names" | sed "s/\\<$1 //")
}

end_all()
{
	cluster_bad=
	for cluster_name in $cluster_names; do
		end "$cluster_name"
		[ $end_status -eq 0 ] ||
			cluster_bad="$cluster_bad $cluster_name=$end_status"
	done
	is "$cluster_bad" '' 'the daemons end well'
	for cluster_name in $cluster_bad; do
		diag "$(tail -n 40 "$T/${cluster_name%=*}.log")"
	done
}

# What is left when the test ends early.
cluster_kill()
{
	grep -lsx "$$" "$cluster_claims"/[0-9]* | xargs -r rm -f
	for cluster_name in $cluster_names; do
		kill -9 "$(pid_of "$cluster_name")" 2>/dev/null || :
		[ "${tap_failed:-0}" -eq 0 ] ||
			diag "$cluster_name: $(tail -n 20 "$T/$cluster_name.log")"
	done
}
at_exit cluster_kill

# from FILE COMMAND...: stdin is the file.
from()
{
	cluster_file=$1
	shift
	"$@" <"$cluster_file"
}

# json FILE: in one line without blanks, to be compared.
json()
{
	tr -d '\n ' <"$1"
}

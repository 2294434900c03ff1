# shellcheck shell=sh
# What the tests of the promises share. Source it after cluster.sh.
#
#	drive NAME PROGRAM [OPTION...]	a program of tests/promise in the
#					background, until it is at work
#	driven NAME WHAT		a test: waits for it, it ends with 0
#	watch NAME OPTION...		a watch from begin to end; its lines are
#					in $T/NAME.json
#	sum NAME COLUMN [FROM [TO]]	of the lines that watch wrote, those of
#					calls that began between these times
#	max NAME COLUMN [FROM [TO]]	the same (1: time, 2: ms, 3: status 0,
#					4: EMISS, 5: EBUSY, 6: ENOSPACE,
#					7: EEXISTS, 8: others)
#	hit NAME... FROM		whether each has had something since
#	heals NAME...			the same and nothing else, for a while:
#					their last 20 lines have status 0 only
#	within MS MOST			whether a call took no longer, but for what the
#					machine let one of ours wait for a
#					processor, since `starving`
#	starving			notes that, from now on
#	now				ms since 1970
#	at NODE				options that lead a driver there; with -
#					for NODE, to the masters only
#	crash NAME			kill -9, of a daemon or a driver
#	freeze NAME, thaw NAME		SIGSTOP, SIGCONT
#	rand N				a number below N, in rnd
#	stat NODE NAME			a counter or gauge of a node
#	idle NODE			whether nothing is pinned or reserved
#	rss NAME, fds NAME		memory in kB, open descriptors
#	netns NAME N			a network namespace with 10.9.0.N; in
#					it: ip netns exec "$NS-NAME"
#	IN				what goes before the commands of drive,
#					stat and idle:
#					IN="ip netns exec $NS-a"
#	netns_three			three of them: m (9), a (1) and b (2);
#					where there may be none the test is
#					skipped
#	secs N				N; ten times as much with KV_LONG=1
#
# KV_SLOW is how much slower than a release build this one may be, KV_SEED
# where random numbers begin: it is said first.

P=$KV_BIN/tests/promise
case ${BUILD:-release} in
asan) : "${KV_SLOW:=4}" ;;
tsan) : "${KV_SLOW:=10}" ;;
*) : "${KV_SLOW:=1}" ;;
esac
KV_SEED=${KV_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
export KV_SLOW
promise_seed=$KV_SEED
promise_drivers=
NS=kvp$$
echo "# KV_SEED=$KV_SEED KV_SLOW=$KV_SLOW"

secs()
{
	echo "$1${KV_LONG:+0}"
}

hit()
{
	for promise_from; do :; done
	for promise_name; do
		[ "$promise_name" != "$promise_from" ] || continue
		[ "$(sum "$promise_name" 3 "$promise_from")" -gt 0 ] ||
			return 1
	done
}

heals()
{
	for promise_name; do
		tail -n 20 "$T/$promise_name.json" |
			awk '$3 == 0 || $4 + $5 + $6 + $8 > 0 { bad = 1 }
			END { exit bad || NR < 20 }' || return 1
	done
}

rand()
{
	promise_seed=$(((promise_seed * 1103515245 + 12345) % 2147483648))
	rnd=$((promise_seed / 65536 % $1))
}

at()
{
	if [ "$1" = - ]; then
		echo "--master=$MASTERS"
	else
		echo "--master=$MASTERS --socket=$(socket "$1")"
	fi
}

# Says "running" when it is at work, or is then at its end.
drive()
{
	promise_name=$1
	promise_program=$2
	shift 2
	rand 1000000
	: >"$T/$promise_name.err"
	# shellcheck disable=SC2086 # ip netns exec NAME
	${IN:-} "$P/$promise_program" --seed=$((rnd + 1)) "$@" \
		>"$T/$promise_name.json" 2>"$T/$promise_name.err" &
	echo $! >"$T/$promise_name.pid"
	promise_drivers="$promise_drivers $promise_name"
	try_for 30 at_work "$promise_name"
}

watch()
{
	promise_watch=$1
	shift
	drive "$promise_watch" watch "$@"
	wait "$(pid_of "$promise_watch")" || diag "watch $*: exit status $?"
	promise_drivers=$(printf '%s' "$promise_drivers" |
		sed "s/ $promise_watch\\>//")
}

now()
{
	date +%s%3N
}

sum()
{
	awk -v c="$2" -v from="${3:-0}" -v to="${4:-9999999999999}" \
		'$1 >= from && $1 < to { n += $c } END { print n + 0 }' \
		"$T/$1.json"
}

max()
{
	awk -v c="$2" -v from="${3:-0}" -v to="${4:-9999999999999}" \
		'$1 >= from && $1 < to && $c > n { n = $c }
		END { print n + 0 }' "$T/$1.json"
}

starving()
{
	starving_end
	rm -f "$T/starved"
	perl "$TOP/tests/lib/starved.pl" "$T" &
	promise_starving=$!
}

starving_end()
{
	[ "$promise_starving" ] || return 0
	kill "$promise_starving"
	wait "$promise_starving" 2>/dev/null || :
	promise_starving=
}
promise_starving=

within()
{
	promise_starved=$(cat "$T/starved" 2>/dev/null || echo 0)
	[ "$1" -le $(($2 + promise_starved)) ] || {
		echo "$1 ms, at most $2 and $promise_starved" >&2
		return 1
	}
}

at_work()
{
	grep -q '^running' "$T/$1.err" || ! kill -0 "$(pid_of "$1")"
}

# It has ended, or does so soon; its exit status is in promise_rc.
driven_no_more()
{
	promise_rc=0
	wait "$(pid_of "$1")" || promise_rc=$?
	promise_drivers=$(printf '%s' "$promise_drivers" |
		sed "s/ $1\\>//")
}

driven()
{
	driven_no_more "$1"
	is $promise_rc 0 "$2"
	if [ $promise_rc -ne 0 ] || [ "${KV_VERBOSE:-}" ]; then
		diag "$(tail -n 15 "$T/$1.err")"
		diag "$(cat "$T/$1.json")"
	fi
}

crash()
{
	kill -9 "$(pid_of "$1")"
	wait "$(pid_of "$1")" 2>/dev/null
	cluster_names=$(printf '%s' "$cluster_names" | sed "s/\\<$1 //")
	promise_drivers=$(printf '%s' "$promise_drivers" |
		sed "s/ $1\\>//")
}

freeze()
{
	kill -STOP "$(pid_of "$1")"
}

thaw()
{
	kill -CONT "$(pid_of "$1")"
}

stat()
{
	# shellcheck disable=SC2086 # ip netns exec NAME
	${IN:-} kvdiag -s "$(socket "$1")" stats local |
		awk -v name="$2" '$1 == name { print $2 }'
}

# A driver that lives may hold something: for when there is none.
idle()
{
	# shellcheck disable=SC2086 # ip netns exec NAME
	${IN:-} kvdiag -s "$(socket "$1")" stats local >"$T/idle" &&
		awk '/^ *(grants|pins|pinned_bytes|zombie_bytes|hidden_keys) / {
			n += $2
			seen++
		}
		END { exit !(seen == 5 && n == 0) }' "$T/idle"
}

rss()
{
	awk '$1 == "VmRSS:" { print $2 }' "/proc/$(pid_of "$1")/status"
}

fds()
{
	# shellcheck disable=SC2012
	ls "/proc/$(pid_of "$1")/fd" | wc -l
}

netns()
{
	ip netns add "$NS-$1" || return
	promise_netns="$promise_netns $NS-$1"
	ip link add "v$1" netns "$NS" type veth peer name eth0 netns "$NS-$1"
	ip -n "$NS" link set "v$1" master br0 up
	ip -n "$NS-$1" link set lo up
	ip -n "$NS-$1" link set eth0 up
	ip -n "$NS-$1" addr add "10.9.0.$2/24" dev eth0
	ip -n "$NS-$1" addr add "fd00:9::$2/64" dev eth0 nodad
}

# Before the first of them: whether there can be any. They meet at a bridge.
netns_init()
{
	promise_netns=$NS
	ip netns add "$NS" 2>/dev/null || return
	ip -n "$NS" link add br0 type bridge && ip -n "$NS" link set br0 up
}

netns_three()
{
	require ip
	{ netns_init && netns m 9 && netns a 1 && netns b 2 &&
		ip netns exec "$NS-m" true 2>/dev/null; } ||
		skip_all 'network namespaces are not allowed here'
}

promise_end()
{
	starving_end
	for promise_name in $promise_drivers; do
		kill -9 "$(pid_of "$promise_name")" 2>/dev/null || :
	done
	for promise_name in $promise_netns; do
		ip netns del "$promise_name" 2>/dev/null || :
	done
}
promise_netns=
at_exit promise_end

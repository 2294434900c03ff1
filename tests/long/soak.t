#!/bin/sh
# A pool under all faults at once, until KV_SOAK_OPS keys (a million) were put,
# got, viewed, asked for or removed: masters, nodes and requesters are killed,
# stopped and cut off, in a pool that is full all the time. In the end no byte
# was wrong, no call was late, and everybody has what they had at the beginning:
# memory, descriptors, extents.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
require ip

OPS=${KV_SOAK_OPS:-1000000}
ROUND_SECONDS=20
no_netns='network namespaces are not allowed here'
for name in m n a b c r; do
	[ $name != m ] || netns_init || skip_all "$no_netns"
	case $name in
	m) netns m 11 ;;
	n) netns n 12 ;;
	a) netns a 1 ;;
	b) netns b 2 ;;
	c) netns c 3 ;;
	r) netns r 4 ;;
	esac || skip_all "$no_netns"
done

# master NAME, node NAME NUMBER SIZE [OPTION...]
master()
{
	launch "$1" ip netns exec "$NS-$1" kvmaster --rpc-port=20001 \
		--http-port=0 || exit 70
}
node()
{
	name=$1 number=$2 size=$3
	shift 3
	launch "$name" ip netns exec "$NS-$name" kvclient --master="$MASTERS" \
		--host="10.9.0.$number" --port=20002 --socket="$T/$name.sock" \
		--global-segment-size="$size" "$@" || exit 70
}
MASTERS=10.9.0.11:20001,10.9.0.12:20001
master m
master n
node a 1 24MB --pool-file="$T/a.pool"
node b 2 24MB
node c 3 16MB
# These nodes, and none of those that requesters have with them, to each master.
all_live()
{
	for number in 11 12; do
		ip netns exec "$NS-r" kvdiag --socket= \
			--master=10.9.0.$number:20001 nodes >"$T/nodes" &&
			[ "$(grep -c ' live ' "$T/nodes")" -eq 3 ] &&
			[ "$(wc -l <"$T/nodes")" -eq 4 ] || return 1
	done
}
try_for 30 all_live || exit 70

# hammer NAME HOST NODE [OPTION...]
hammer()
{
	name=$1 host=$2 where=$3
	shift 3
	IN="ip netns exec $NS-$host" drive "$name" hammer $(at "$where") \
		--seconds=$ROUND_SECONDS --threads=2 --keys=400 \
		--size-max=200k --timeout-ms=3000 --prefix=soak "$@"
}
victim()
{
	hammer victim b b --seconds=$((ROUND_SECONDS - $(date +%s) + begun))
}

# Nobody ever kills n and c: what they leak stays.
faults=0
fault()
{
	faults=$((faults + 1))
	rand 13
	case $rnd in
	0 | 1) what="crash a" ;;
	2 | 3) what="crash b" ;;
	4) what="crash m" ;;
	5) what="crash victim" ;;
	6) what="freeze c" ;;
	7) what="freeze a" ;;
	8) what="freeze n" ;;
	9) what="cut c" ;;
	10) what="cut a" ;;
	11) what="cut n" ;;
	12) what="cut r" ;;
	esac
	rand 20
	sleep "$((rnd / 10)).$((rnd % 10))" &
	patience=$!
	case $what in
	crash*) crash "${what#* }" ;;
	freeze*) freeze "${what#* }" ;;
	cut*) ip -n "$NS" link set "v${what#* }" down ;;
	esac
	wait $patience
	case $what in
	"crash victim") victim ;;
	crash*) again "${what#* }" ;;
	freeze*) thaw "${what#* }" ;;
	cut*) ip -n "$NS" link set "v${what#* }" up ;;
	esac
}

# Keys that the calls of a driver were about.
counted()
{
	sed 's/"calls":[0-9]*,//g; s/"ms_max":[0-9]*,*//g; s/{"wrong[^{]*//
		s/[^0-9]/ /g' "$T/$1.json" |
		awk '{ for (i = 1; i <= NF; i++) n += $i }
		END { print n + 0 }'
}

# Who was at work all the time: "kB descriptors".
held()
{
	echo "$(rss "$1") $(fds "$1")"
}

# not_more NAME BEFORE AFTER
not_more()
{
	is_fine=0
	[ "${3% *}" -le $((${2% *} + ${2% *} / 10 + 4096)) ] &&
		[ "${3#* }" -le $((${2#* } + 4)) ] || is_fine=1
	is $is_fine 0 "$1 keeps what it had: $2, then $3 (kB, descriptors)"
}

done_ops=0 rounds=0 odd=0 before_c='' before_n=''
while [ $done_ops -lt "$OPS" ]; do
	begun=$(date +%s)
	hammer at-a a a
	hammer at-c c c --hard-pin --remove=10
	hammer remote r -
	hammer embedded r - --segment-bytes=16MB
	victim
	while [ "$(date +%s)" -lt $((begun + ROUND_SECONDS - 3)) ]; do
		fault
		rand 10
		sleep 0.$rnd
	done
	for name in at-a at-c remote embedded victim; do
		wait "$(pid_of $name)" || {
			diag "round $rounds: $name: exit status $?" \
				"$(tail -n 15 "$T/$name.err" "$T/$name.json")"
			odd=$((odd + 1))
		}
		done_ops=$((done_ops + $(counted $name)))
	done
	promise_drivers=
	rounds=$((rounds + 1))
	for name in a b c; do
		IN="ip netns exec $NS-$name" try_for 10 idle $name || {
			diag "round $rounds: $name holds $(cat "$T/idle")"
			odd=$((odd + 1))
		}
	done
	# The first round fills what is filled once.
	before_c=${before_c:-$(held c)}
	before_n=${before_n:-$(held n)}
	diag "$rounds rounds, $done_ops keys, $faults faults, $odd odd"
	[ $odd -eq 0 ] || break
done
is $odd 0 'no wrong byte, no late call, nothing held'
not_more c "$before_c" "$(held c)"
not_more n "$before_n" "$(held n)"

try_for 30 all_live
# For a moment a master may still believe another one's word of a node that left.
ok 'all is removed' try_for 10 ip netns exec "$NS-r" kvrm --socket= \
	--master="$MASTERS" --all --force
empty()
{
	[ "$(stat "$1" keys)" -eq 0 ] && idle "$1"
}
for name in a b c; do
	IN="ip netns exec $NS-$name"
	ok "$name is empty" try_for 10 empty $name
	is "$(stat $name free_bytes)" "$(stat $name ready_bytes)" \
		'and every extent is free'
done
end_all
done_testing

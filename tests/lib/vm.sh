# shellcheck shell=sh
# A test that runs in a guest, where soft-RoCE gives it real verbs: sources
# this instead of tap.sh and cluster.sh, first of all:
#
#	. "$(dirname "$0")/../lib/vm.sh"
#
# and goes on in the guest from there, for 300 s at most, or $VM_LIMIT, with
# what tap.sh and cluster.sh have, and two hosts, a and b:
#
#	$A COMMAND..., $B COMMAND...	as on host a, on host b
#	start_node NAME HOST [OPTION...]	kvclient of host a or b
#
# A host sees its own RDMA devices and has a boot id and a name of its own. Two
# rails join them, and ctl, a link for everything else, which has no devices:
#
#	rail 0	a0 rxa0 10.77.0.1	b0 rxb0 10.77.0.2
#	rail 1	a1 rxa1 10.77.1.1	b1 rxb1 10.77.1.2
#	ctl	actl 10.76.0.1		bctl 10.76.0.2
#
#	shape LINK [WORD...]	it behaves so, in both directions: words of
#				tc-netem(8), as `rate 100mbit` or `loss 1%`;
#				none: as it was made
#	cut_link LINK		it loses whatever is sent, and nobody is told
#	mend_link LINK		as it was before
#	unplug LINK, plug LINK	its interfaces lose their carrier
#
#	packets RAIL		that its devices have sent so far
#	perf RAIL PROGRAM [OPTION...]
#				what a program of perftest says, from host a to
#				b: MiB/s on average, or the usual latency in µs
#
# A LINK is 0, 1 or ctl. Programs of nobody (setpriv) cannot enter $T.

if [ -z "${KV_GUEST-}" ]; then
	exec "$(dirname "$0")/guest" -t "${VM_LIMIT:-300}" -- \
		/bin/sh "$(realpath "$0")"
fi

. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

A="nsenter --mount=/run/hosts/a/mnt --uts=/run/hosts/a/uts --wdns=$T"
B="nsenter --mount=/run/hosts/b/mnt --uts=/run/hosts/b/uts --wdns=$T"

start_node()
{
	vm_node=$1
	if [ "$2" = a ]; then
		vm_host="$A kvclient --host=10.76.0.1"
	else
		vm_host="$B kvclient --host=10.76.0.2"
	fi
	shift 2
	# shellcheck disable=SC2086 # a list of words
	start "$vm_node" --port $vm_host --master="$MASTERS" \
		--socket="$T/$vm_node.sock" --global-segment-size=256MB "$@"
	cluster_ports="$cluster_ports $vm_node:$cluster_port"
}

# vm_tc LINK WORD...: both ends.
vm_tc()
{
	vm_link=$1
	shift
	{
		echo "qdisc replace dev a$vm_link root $*"
		echo "qdisc replace dev b$vm_link root $*"
	} | tc -batch -
}

shape()
{
	vm_link=$1
	shift
	eval "vm_shape_$vm_link='$*'"
	mend_link "$vm_link"
}

mend_link()
{
	eval "vm_words=\${vm_shape_$1-}"
	if [ -n "$vm_words" ]; then
		vm_tc "$1" netem limit 10000 "$vm_words"
	else
		vm_tc "$1" pfifo
	fi
}

cut_link()
{
	vm_tc "$1" netem limit 10000 loss 100%
}

unplug()
{
	ip link set "a$1" down
}

# The route of the end that was down went with it.
plug()
{
	vm_to=$(ip -4 -o addr show "a$1" | sed -n 's/.* inet \(.*\)\.1\/.*/\1/p')
	vm_table=$(ip rule | sed -n "s/.* to $vm_to\\.2 .* lookup //p")
	ip link set "a$1" up &&
		ip route add "$vm_to.2" dev "a$1" src "$vm_to.1" \
			table "$vm_table"
}

packets()
{
	cat "/sys/class/infiniband/rxa$1/ports/1/hw_counters/sent_pkts" \
		"/sys/class/infiniband/rxb$1/ports/1/hw_counters/sent_pkts" |
		awk '{ sum += $1 } END { print sum }'
}

# perftest counts a processor's cycles against its clock before it begins; where
# the processor was away meanwhile, its figure is `inf`.
perf()
{
	vm_file=$T/perf.$1
	vm_rail=$1
	vm_ends="-F -x 1 -p $((18500 + $1))"
	vm_hex=$(printf ':%04X 00000000:0000 0A' $((18500 + $1)))
	shift
	case $1 in
	*_lat) vm_column=5 ;;
	*) vm_column=4 ;;
	esac
	for _ in 1 2 3; do
		# shellcheck disable=SC2086 # lists of words
		$B timeout 60 "$@" -d "rxb$vm_rail" $vm_ends >/dev/null 2>&1 &
		until grep -q "$vm_hex" /proc/net/tcp || ! kill -0 $!; do
			sleep 0.05
		done
		# shellcheck disable=SC2086 # lists of words
		$A timeout 60 "$@" -d "rxa$vm_rail" $vm_ends 10.76.0.2 \
			>"$vm_file" 2>&1
		wait $!
		vm_figure=$(awk -v column=$vm_column '/^ #bytes/ {
			getline
			if (!/inf|nan/)
				print $column
		}' "$vm_file")
		[ -z "$vm_figure" ] || break
	done
	[ -n "$vm_figure" ] && echo "$vm_figure" && return
	diag "$*: $(tail -n 3 "$vm_file")"
	return 1
}

vm_failed()
{
	[ "$tap_failed" -gt 0 ] || return 0
	diag "kernel: $(dmesg | sed -n '/ cut here /,$p' | head -n 60)"
	diag "kernel: $(dmesg | tail -n 10)"
	for vm_file in /sys/class/infiniband/*/ports/1/hw_counters; do
		diag "$vm_file: $(cd "$vm_file" && grep -v '^0$' -- *)"
	done
}
at_exit vm_failed

#!/bin/sh
# kvdiag devices and doctor of devices that are real to everybody but the wire:
# each host has its own; ports that are pulled out, disabled, without an
# address; what nobody may open, and what he may not lock.
# shellcheck disable=SC2016,SC2086 # no shell reads `ulimit`; A is several words
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70

# says HOST REGEX NAME: kvdiag devices has such a line within two seconds; the
# kernel tells devices of their links when it has time.
says()
{
	case $1 in
	a) vm_look="$A kvdiag devices" ;;
	*) vm_look="$B kvdiag devices" ;;
	esac
	try_for 2 eval "$vm_look | grep -Eq -e '$2'" && pass "$3" && return
	fail "$3"
	diag "no match: $2"
	diag "$($vm_look 2>&1)"
}

ok 'devices' $A kvdiag devices
is "$(sed 1d out | tr -s ' ')" \
	'rxa0 1 active Ethernet 10 a0 10.77.0.1 1 - yes
rxa1 1 active Ethernet 10 a1 10.77.1.1 1 - yes' 'of host a'
is "$(cat err)" '' 'nothing else'
ok 'devices of host b' $B kvdiag devices
is "$(sed 1d out | tr -s ' ')" \
	'rxb0 1 active Ethernet 10 b0 10.77.0.2 1 - yes
rxb1 1 active Ethernet 10 b1 10.77.1.2 1 - yes' 'are others'
ok 'a white list' $A kvdiag --device='*1' --json devices
is "$(grep -c '"usable": true' out)" 1 'has one'
like "$(cat out)" '"device": "rxa1".*"gid": "10\.77\.1\.1", "gid_index": 1.*"mtu_bytes": 4096' \
	'in numbers'
exits 1 'a device of the other host' $A kvdiag --device=rxb0 devices
is "$(cat err)" "kvdiag: devices: no RDMA device is called 'rxb0'; there are rxa0, rxa1" \
	'is not here'
exits 69 'doctor' $A kvdiag --socket= doctor
like "$(cat out)" '^ok +RDMA devices: 2 ports can be used$' 'counts them'

# ---- ports ----

unplug 0
says a '^rxa0 +1 +down .* no: port down: it is disabled; `ip link set' \
	'an interface that is down'
says b '^rxb0 +1 +down .* no: port down: it finds nobody at the other end;' \
	'and the other end'
exits 69 'doctor with one' $B kvdiag --socket= doctor
like "$(cat out)" '^warning +RDMA devices: rxb0 port 1: port down:' 'warns'
like "$(cat out)" '^ok +RDMA devices: 1 port can be used$' 'has the other one'
plug 0
says a '^rxa0 +1 +active .* yes$' 'plugged in again'
says b '^rxb0 +1 +active .* yes$' 'on both hosts'
ip addr del 10.77.1.1/24 dev a1
says a '^rxa1 .* fe80::[^ ]* +0 .* yes: no IP on the port: connected without the connection manager$' \
	'no address'
ip addr add 10.77.1.1/24 dev a1
says a '^rxa1 .* yes$' 'an address'

# ---- somebody else than root ----

chmod 755 "$T"
mkdir bin
cp "$KV_BIN/kvdiag" bin
echo '{"global_segment_size": "256MB", "protocol": "rdma"}' >conf.json
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
locked="prlimit --memlock=65536"
exits 69 'nobody, who may lock all' \
	$A $nobody bin/kvdiag --socket= doctor conf.json
like "$(cat out)" '^ok +locked memory: the limit is unlimited$' 'may'
exits 69 'nobody, who may lock 64 KiB' \
	$A $locked $nobody bin/kvdiag --socket= doctor conf.json
like "$(cat out)" '^warning +locked memory: 2 RDMA devices want a pool of 256\.0 MiB locked, 512\.0 MiB in all, but the limit of locked memory is 64\.0 KiB; `ulimit -l unlimited`.*LimitMEMLOCK=infinity.*IPC_LOCK' \
	'what is wanted, what there is, and how to raise it'
exits 69 'root' $A $locked kvdiag --socket= doctor conf.json
like "$(cat out)" '^ok +locked memory:' 'has no limit'
$A chmod 600 /dev/infiniband/uverbs0
exits 1 'nobody, who may open one' $A $nobody bin/kvdiag devices
like "$(cat out)" '^rxa0 .* no: cannot be opened: .* give this user or container /dev/infiniband$' \
	'why not the other'
like "$(cat out)" '^rxa1 .* yes$' 'which he may'
done_testing

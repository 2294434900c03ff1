#!/bin/sh
# kvdiag devices and what doctor says of them, on a machine without RDMA, with
# devices that are files, and without the libraries of verbs. That no program
# is linked with these.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

require readelf
cd "$T" || exit 70

for program in master client put get rm bench diag; do
	readelf -d "$KV_BIN/kv$program" >dynamic 2>&1
	like "$(cat dynamic)" 'NEEDED.*libc\.so' "kv$program: is read"
	unlike "$(cat dynamic)" 'ibverbs|rdmacm' "kv$program: not linked"
done
unlike "$(readelf -d "$KV_BIN/libkvpool.so")" 'ibverbs|rdmacm' \
	'libkvpool.so: not linked'

exits 64 'an argument too many' kvdiag devices all

# ---- a machine without ----

if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	none='kvdiag: this machine has no RDMA device; is its driver loaded?'
	exits 1 'no device' kvdiag devices
	is "$(cat out)|$(cat err)" "|$none" 'one line'
	exits 1 'as JSON' kvdiag --json devices
	is "$(cat out)|$(cat err)" "[]|$none" 'the same'
	exits 1 'a name' kvdiag --device='rxe0, mlx5_*' devices
	is "$(cat err)" "kvdiag: devices: no RDMA device is called 'rxe0' or 'mlx5_*'; there is none at all" \
		'that means nothing'
	exits 1 'all, in words' kvdiag --device=auto devices
	is "$(cat err)" "$none" 'is no name'
	echo '{"device_name": "mlx5_3"}' >conf.json
	exits 1 'a name of the configuration' \
		env MOONCAKE_CONFIG_PATH=conf.json kvdiag devices
	like "$(cat err)" "is called 'mlx5_3'" 'means nothing either'
	exits 1 'that an option overrides' \
		env MOONCAKE_CONFIG_PATH=conf.json kvdiag --device= devices
	is "$(cat err)" "$none" 'does'
	exits 69 'doctor' kvdiag --socket= doctor
	like "$(cat out)" '^ok +RDMA devices: there is none$' 'does not mind'
	exits 69 'doctor of who must have one' \
		kvdiag --socket= --protocol=rdma doctor
	like "$(cat out)" '^fault +RDMA devices: there is none, and --protocol=rdma wants one; .' \
		'finds none'
	unlike "$(cat out)" '(local node|masters): .*no RDMA' \
		'and blames nobody else'
	echo '{"protocol": "rdma"}' >conf.json
	exits 69 'doctor of a file that wishes for one' \
		kvdiag --socket= doctor conf.json
	like "$(cat out)" '^warning +RDMA devices: there is none, and protocol rdma in the file wants one; .' \
		'warns'
	exits 69 'doctor where it is forbidden' \
		env MC_FORCE_TCP=1 MC_GID_INDEX=x MC_FOO=1 kvdiag --socket= doctor
	like "$(cat out)" '^ok +RDMA devices: none is wanted: MC_FORCE_TCP is set$' \
		'says by what'
	like "$(cat err)" 'MC_GID_INDEX=x is ignored' 'and what was not understood'
	like "$(cat err)" 'mean nothing to kvpool: MC_FOO' 'or is not known'
	exits 1 'a name of the environment' \
		env MC_TE_FILTERS=mlx5_9 kvdiag devices
	like "$(cat err)" "is called 'mlx5_9'" 'means nothing either'
	exits 69 'doctor with a name' kvdiag --socket= --device=rxe0 doctor
	like "$(cat out)" "^warning +RDMA devices: no RDMA device is called 'rxe0'; there is none at all" \
		'does'
	echo '{"device_name": "mlx5_3", "protocol": "tcp"}' >conf.json
	exits 69 'doctor where TCP is wanted' kvdiag --socket= doctor conf.json
	like "$(cat out)" '^ok +RDMA devices: none is wanted' 'does not look'
fi

# ---- devices that are files ----

# with_devices COMMAND...: where the kernel seems to have two devices.
cat >with_devices <<'E'
#!/bin/sh
set -e
mount -t tmpfs kv /sys/class
mkdir -p /sys/class/infiniband/mlx5_0/device /sys/class/infiniband/mlx5_1
echo 1 >/sys/class/infiniband/mlx5_0/device/numa_node
exec "$@"
E
# without_verbs COMMAND...: and libibverbs seems not to be installed.
cat >without_verbs <<'E'
#!/bin/sh
set -e
layers=/sys/class/kv
for library in $(ldconfig -p | sed -n 's|.* => \(.*/libibverbs\.so\.1\)$|\1|p'); do
	folder=$(realpath "$(dirname "$library")")
	mkdir -p $layers/upper $layers/work
	mount -t overlay kv "$folder" -o \
		"lowerdir=$folder,upperdir=$layers/upper,workdir=$layers/work"
	rm -f "$folder"/libibverbs.so.*
done
exec "$@"
E
chmod +x with_devices without_verbs
apart()
{
	unshare -m ./with_devices "$@"
}
if ! apart true 2>/dev/null; then
	skip 'devices that are files' 'no mounts can be made'
	done_testing
	exit
fi
# Built without verbs, or its libraries are not here: see the unit tests.
apart kvdiag devices >out 2>err
if ! grep -q '^DEVICE' out; then
	skip 'devices that are files' "$(cat err)"
	done_testing
	exit
fi

exits 1 'devices of which verbs know nothing' apart kvdiag devices
like "$(cat out)" '^DEVICE +PORT +STATE +LINK +SPEED GBIT +INTERFACE +ADDRESS +GID +NUMA +USABLE$' \
	'a table'
like "$(cat out)" '^mlx5_0 +- +- +- +- +- +- +- +1 +no: the kernel has no verbs for programs; modprobe ib_uverbs$' \
	'why they cannot be used, and what helps'
is "$(cat err)" '' 'nothing else'
exits 1 'a white list' apart kvdiag --device='*_1' devices
like "$(cat out)" '^mlx5_0 .* no: not in the list of devices$' 'leaves one out'
like "$(cat out)" '^mlx5_1 .* no: the kernel' 'and not the other'
exits 1 'a name among them' apart kvdiag --device=mlx5_0,rxe0 devices
is "$(cat err)" "kvdiag: devices: no RDMA device is called 'rxe0'; there are mlx5_0, mlx5_1" \
	'says which there are'
exits 1 'a white list of the environment' \
	env MC_TE_FILTERS=mlx5_1 unshare -m ./with_devices kvdiag devices
like "$(cat out)" '^mlx5_0 .* no: not used: not in MC_TE_FILTERS or MC_MS_FILTERS$' \
	'leaves one out'
like "$(cat out)" '^mlx5_1 .* no: the kernel' 'and not the other'
exits 1 'none by the environment' \
	env MC_FORCE_TCP=1 unshare -m ./with_devices kvdiag devices
like "$(cat out)" '^mlx5_1 .* no: not used: MC_FORCE_TCP is set$' 'says so'
exits 1 'as JSON' apart kvdiag --json --device=mlx5_0 devices
like "$(tr -d '\n' <out)" \
	'"device": *"mlx5_0".*"numa_node": *1,.*"usable": *false' 'has numbers'
exits 69 'doctor' apart kvdiag --socket= --device=mlx5_0 doctor
like "$(cat out)" '^warning +RDMA devices: mlx5_0: the kernel has no .*; modprobe ib_uverbs$' \
	'warns of one'
unlike "$(cat out)" 'mlx5_1' 'not of what was left out'
like "$(cat out)" '^ok +locked memory: .* no RDMA device to use' \
	'needs nothing locked'

if apart ./without_verbs true 2>/dev/null; then
	exits 1 'without libraries' apart ./without_verbs kvdiag devices
	is "$(cat out)|$(cat err)" '|kvdiag: devices: libibverbs.so.1 is not installed (apt: libibverbs1 ibverbs-providers); install it, or say --protocol=tcp' \
		'says what to install'
	exits 69 'doctor without' apart ./without_verbs kvdiag --socket= doctor
	like "$(cat out)" '^warning +RDMA devices: libibverbs\.so\.1 is not .*; install it, or' \
		'says it, too'
	ok 'kvclient' apart ./without_verbs kvclient --version
else
	skip 'without libraries' 'no overlay can be mounted'
fi
done_testing

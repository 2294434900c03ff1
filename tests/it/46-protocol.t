#!/bin/sh
# Who chooses between RDMA and TCP, on a machine without RDMA: who asks for it
# on the command line gets an error, a file that engines read a warning.
# shellcheck disable=SC2086 # M is several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	echo '1..0 # SKIP this machine has RDMA devices'
	exit 0
fi
start_master m
start_client a
wait_nodes 1
cd "$T" || exit 70

head -c 300000 </dev/urandom >value
none='no RDMA: this machine has no RDMA device; is its driver loaded?'
warning='no RDMA, values go by TCP: this machine has no RDMA device; is its driver loaded?'

# What the last command wrote is the value.
same()
{
	cmp -s out value && echo same
}

exits 69 'RDMA or nothing' kvput --protocol=rdma $M k value
is "$(cat out)|$(cat err)" "|kvput: $none" 'says what is missing'
exits 69 'kvget' kvget --protocol=rdma $M k
exits 69 'kvrm' kvrm --protocol=rdma $M k
exits 69 'kvdiag of an engine' kvdiag --protocol=rdma links 127.0.0.1:1
exits 69 'kvdiag' kvdiag --protocol=rdma $M nodes
is "$(cat err)" "kvdiag: $none" 'in the same words'
exits 64 'neither' kvput --protocol=ib $M k value
is "$(cat err)" "kvput: --protocol: 'ib' is none of auto, rdma, tcp" 'says so'

ok 'by default it is not missed' kvput $M k value
is "$(cat out err)" '' 'nor spoken of'
ok 'where it is not wanted, neither' kvget --protocol=tcp $M k
is "$(same)" same 'equal'
is "$(cat err)" '' 'silent, too'

echo '{"protocol": "rdma"}' >conf.json
ok 'a file wishes for it' env MOONCAKE_CONFIG_PATH=conf.json kvget $M k
is "$(same)" same 'and TCP carries it'
is "$(cat err)" "kvget: $warning" 'with one warning'
ok 'an option overrides the file' \
	env MOONCAKE_CONFIG_PATH=conf.json kvget --protocol=auto $M k
is "$(cat err)" '' 'silent'
ok 'a device is named' kvget --device-name=mlx5_0 $M k
like "$(cat err)" "^kvget: no RDMA, values go by TCP: no RDMA device is called 'mlx5_0'" \
	'and missed'
echo '{"protocol": "ascend"}' >conf.json
ok 'a file with something else' env MOONCAKE_CONFIG_PATH=conf.json kvget $M k
is "$(cat err)" "kvget: conf.json: protocol: 'ascend' is not known here and taken for auto" \
	'is told what that means'
ok 'why TCP' kvget -vv $M k
like "$(cat err)" 'node 127\.0\.0\.[0-9]*: TCP: no RDMA here' 'is said, if asked for'
done_testing

#!/bin/sh
# What kvclient says of RDMA on a machine without, and with a device that cannot
# be used. (With real verbs: tests/vm.)
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

cd "$T" || exit 70
node='kvclient --global-segment-size=4MiB --socket= --port=0'

# log_of COMMAND...: what it logs in its first second, without its time.
log_of()
{
	timeout -s TERM 1 "$@" 2>&1 | sed 's/^[^ ]* //; s/\[[0-9]*\]//'
}

# shellcheck disable=SC2086 # several words
exits 69 'a device that nobody has' \
	$node --protocol=rdma --device-name=no_such_device
like "$(cat err)" 'err kvclient\[[0-9]+\]: --protocol: no RDMA: .*; .*' \
	'why, and what to do'

# shellcheck disable=SC2086
out=$(log_of $node --device-name=no_such_device)
like "$out" 'warn kvclient: no RDMA, values go by TCP: ' 'a name is a wish'
like "$out" 'ready addr=' 'and no more'
# shellcheck disable=SC2086
out=$(log_of $node --device-name=no_such_device --protocol=tcp)
unlike "$out" 'RDMA' 'who wants TCP does not look'
like "$out" 'ready addr=' 'and starts'

if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	# shellcheck disable=SC2086
	out=$(log_of $node)
	unlike "$out" 'RDMA' 'a machine without: no word'
	like "$out" 'ready addr=' 'it starts'
	# shellcheck disable=SC2086
	out=$(log_of $node -v)
	is "$(echo "$out" | grep RDMA | sed 's/TCP: .*/TCP/')" \
		'debug kvclient: no RDMA, values go by TCP' 'but for those who ask'
	# shellcheck disable=SC2086
	out=$(MC_FORCE_TCP=1 log_of $node)
	like "$out" 'info kvclient: no RDMA, values go by TCP: MC_FORCE_TCP is set' \
		'who forbids it hears that it counts'
	# shellcheck disable=SC2086
	out=$(MC_TE_FILTERS=typo log_of $node)
	like "$out" "warn kvclient: no RDMA, values go by TCP: no RDMA device is called 'typo'" \
		'a white list that means nothing'
	# shellcheck disable=SC2086
	out=$(echo '{"protocol": "rdma"}' >conf.json
		MOONCAKE_CONFIG_PATH=conf.json log_of $node)
	like "$out" 'warn kvclient: no RDMA, values go by TCP: ' \
		'the file is a wish'
	like "$out" 'ready addr=' 'it starts'
fi
done_testing

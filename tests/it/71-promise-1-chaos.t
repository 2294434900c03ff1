#!/bin/sh
# Promise 1: never other bytes, under any crash. Everything is killed at random
# and started again while others put, get, view and remove.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

SECONDS_OF_LOAD=$(secs 12)
start_master m
for node in a b c; do
	start_client $node --global-segment-size=48MB
done
wait_nodes 3

# hammer NAME NODE [OPTION...]
hammer()
{
	name=$1 node=$2
	shift 2
	drive "$name" hammer $(at "$node") --seconds="$SECONDS_OF_LOAD" \
		--threads=2 --keys=60 --size-max=1500k --timeout-ms=3000 \
		--prefix=chaos "$@"
}

hammer at-a a
hammer at-b b
hammer remote -
hammer embedded - --segment-bytes=32MB
hammer victim c

end=$(($(date +%s) + SECONDS_OF_LOAD - 2))
kills=0
while [ "$(date +%s)" -lt $end ]; do
	rand 9
	case $rnd in
	0 | 1) victim=a ;;
	2 | 3) victim=b ;;
	4) victim=c ;;
	5 | 6) victim=m ;;
	*) victim=victim ;;
	esac
	crash $victim
	kills=$((kills + 1))
	rand 5
	sleep 0.$rnd
	if [ $victim = victim ]; then
		hammer victim c
	else
		again $victim
	fi
	rand 8
	sleep 0.$rnd
done
diag "$kills kills"

for name in at-a at-b remote embedded victim; do
	driven $name "$name saw no wrong byte, no hang, no odd error"
done
wait_nodes 3
for node in a b c; do
	ok "$node holds nothing for anybody" try_for 5 idle $node
done
end_all
done_testing

#!/bin/sh
# A process whose memory NICs know forks, and its children end as they should:
# where the kernel copies such memory for them, and where they lack it.
# shellcheck disable=SC2086 # A and B are several words
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
io=$KV_BIN/tests/vm/railfork

# pair NAME [VARIABLE=VALUE]: in its environment
pair()
{
	pair_name=$1
	shift
	rm -f in b.out
	mkfifo in
	$B env "$@" "$io" 10.76.0.2:50071 <in >b.out 2>b.err &
	exec 9>in
	ok "$pair_name: the side that listens" try_for 20 grep -q forked b.out
	ok "$pair_name: the side that dials" \
		$A env "$@" "$io" 10.76.0.1:50072 10.76.0.2:50071 </dev/null
	exec 9>&-
	wait
	is "$(cat b.err)" '' "$pair_name: nothing else is said"
}

pair 'copied'
pair 'withheld' RDMAV_FORK_SAFE=1
done_testing

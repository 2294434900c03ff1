#!/bin/sh
# Promise 7: requests without end whose answers nobody reads cost a daemon no
# more than a bound, whatever they ask for.
# shellcheck disable=SC2046 # at gives several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
cd "$T" || exit 70
# What a sanitizer keeps back of what was freed is not held for anybody.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=16"

start_master m
start_client a --global-segment-size=64MB
wait_nodes 1
head -c 3000000 /dev/urandom >large
kvput $(via a) large large
echo small | kvput $(via a) small

# anon NAME: kB that are its own
anon()
{
	awk '$1 == "RssAnon:" { print $2 }' "/proc/$(pid_of "$1")/status"
}

is_less()
{
	[ "$(anon "$1")" -lt "$2" ]
}

# unread DAEMON TARGET REQUEST [KEY]: what was taken before the flood stood
# still may be done a little later, and is held until then.
unread()
{
	before=$(anon "$1")
	drive flood unread --target="$2" --what="$3" --key="${4:-}" --seconds=1
	diag "$3: $(($(anon "$1") - before)) kB, $(cat flood.json flood.err)"
	ok "$1: $3 through ${2##*[/:]}: taken" grep -q ':[1-9]' flood.json
	ok "$1: $3 through ${2##*[/:]}: held" try_for 5 is_less "$1" \
		$((before + 40000 * KV_SLOW))
	crash flood
}

for target in "$(socket a)" "$(addr a)"; do
	for what in ping stats nodes lookup keys regex remove; do
		unread a "$target" $what
	done
	unread a "$target" query large
done
unread a "$(socket a)" attach
unread a "$(socket a)" view small
unread a "$(addr a)" get small
for target in "$(socket a)" "$(addr a)"; do
	unread a "$target" put
	unread a "$target" twins
done
for what in ping stats nodes lookup keys query regex remove; do
	unread m "$MASTERS" $what large
done

# Requests that never come to their end are not waited for.
for name in a m; do
	target=$MASTERS
	[ $name = m ] || target=$(addr $name)
	drive halves-$name unread --target="$target" --halves=60
	is "$(cat halves-$name.json)" '{"halves":60}' "$name: 60 half requests"
	anon $name >$name.anon
done
for name in a m; do
	ok "$name: they are given up" try_for 20 is_less $name \
		$(($(cat $name.anon) - 40000))
	crash halves-$name
done
ok 'nothing is held for anybody' try_for $((5 * KV_SLOW)) idle a
ok 'all is as it was' kvget $(via a) -o got small
end_all
done_testing

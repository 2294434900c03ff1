#!/bin/sh
# Promise 2, beside a removal that an owner was not there to hear of: a put that
# returns 0 after it is found, also when the owner wakes up and removes what it
# was told to.
# shellcheck disable=SC2046,SC2086 # M is several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
cd "$T" || exit 70

start_master m
for node in a b c; do
	start_client $node
done
wait_nodes 3
head -c 3000000 /dev/urandom >large
echo small >small

removed_unheard()
{
	kvput $M --prefer "$(addr c)" "$1" large
	freeze c
	shift
	exits 75 "$*: an owner cannot be told" kvrm $M "$@"
}

beside_a_silent_owner()
{
	removed_unheard key key
	ok 'a put after that' kvput $M key small
	thaw c
	sleep 2
	ok 'is found' kvget $M -o got key
	ok 'with its value' cmp -s got small

	# Here the directory cannot know whether the owner still has it.
	removed_unheard pattern --regex '^pat'
	ok 'a put after that' kvput $M pattern small
	thaw c
	sleep 2
	ok 'is found' kvget $M -o got pattern
	ok 'with its value' cmp -s got small

	# While it is silent its value is neither there nor lost.
	kvput $M --prefer "$(addr c)" held large
	freeze c
	ok 'a put beside a silent owner' kvput $M held small
	thaw c
	sleep 2
	ok 'is found' kvget $M -o got held
	ok 'with its value' cmp -s got small
}

beside_a_silent_owner
wait_nodes 3
end_all

# The same with two masters, neither of which hears of it.
MASTERS=
start_master first
start_master second
for node in a b c; do
	start_client $node
done
wait_nodes 3
beside_a_silent_owner
wait_nodes 3
end_all
done_testing

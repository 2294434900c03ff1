#!/bin/sh
# Promise 2, after another process of the host could not reach the owner, and told
# the master: a put that returns 0 all the same is found.
# shellcheck disable=SC2086 # M is several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
cd "$T" || exit 70

# It proves no miss before that time has passed.
start_master m --client-ttl=2s
start_client n
wait_nodes 1
sleep 2.1
head -c 3000000 /dev/urandom >value

for i in 1 2 3; do
	freeze n
	kvput $M --timeout=4s key$i value 2>err
	code=$?
	ok "a put fails: $code" test $code -ne 0
	thaw n
	ok 'the next one does not' try_for 4 kvput $M key$i value
	ok 'what it put is found' kvget $M -o got key$i
	ok 'with its value' cmp -s got value
	ok 'and exists' kvget $M --exist key$i
done
end_all
done_testing

#!/bin/sh
# kvdiag: each subcommand as text and as JSON, and what it ends with.
# shellcheck disable=SC2086 # A and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

perl -MJSON::PP -e 1 2>/dev/null || skip_all 'perl has no JSON::PP'
cd "$T" || exit 70
start_master m --client-ttl=10s

exits 1 'nodes of an empty pool' kvdiag $M nodes
is "$(cat out)|$(cat err)" '|kvdiag: no node is in the pool' 'a line'
exits 1 'pools of an empty pool' kvdiag $M pools
exits 1 'links of an empty pool' kvdiag $M links
ok 'keys of an empty pool' kvdiag $M keys
is "$(cat out err)" '' 'none'

start_client a
start_client b
wait_nodes 2
A=$(via a)
head -c 100000 /dev/urandom >in
ok 'put two copies' kvput $A -r 2 twice in
ok 'put one, soft-pinned' kvput $A --soft-pin --prefer "$(addr b)" b/once in
ok 'put one, hard-pinned' kvput $A --hard-pin --prefer "$(addr a)" a/once in

# value NAME...: what the JSON of the last command has there.
cat >ask.pl <<'E'
use JSON::PP;
open(my $f, '<', shift) or die;
local $/;
my $v = JSON::PP->new->utf8->decode(<$f>);
for my $name (@ARGV) {
	$v = ref $v eq 'ARRAY' ? $name eq 'n' ? @$v : $v->[$name] : $v->{$name};
}
print !defined $v ? 'null' : JSON::PP::is_bool($v) ? $v ? 'true' : 'false' : $v;
E
value()
{
	perl ask.pl out "$@" 2>&1
}

ok 'nodes' kvdiag $M nodes
like "$(cat out)" '^NODE +ADDRESS +STATE +HEARD +POOL +KEYS +SESSIONS +MASTERS +BOOT$' \
	'a table'
is "$(wc -l <out)" 3 'a line for each'
ok 'nodes --json' kvdiag $M --json nodes
is "$(value n)" 2 'two'
is "$(value 0 state)$(value 1 state)" livelive 'live'
is "$(value 0 pool_bytes)" 268435456 'in bytes'
is "$(value 1 sessions) of $(value 1 masters)" '1 of 1' 'with its master'
is "$(printf '%s\n' "$(value 0 address)" "$(value 1 address)" | sort)" \
	"$(printf '%s\n' "$(addr a)" "$(addr b)" | sort)" 'their addresses'

# What each has is told with the next heartbeat.
has_keys()
{
	kvdiag $M --json pools >"$T/out"
	[ "$(value total keys)" = "$1" ]
}
ok 'the master hears of the keys' try_for 10 has_keys 4
ok 'pools' kvdiag $M pools
like "$(cat out)" '^total:$' 'with a total'
ok 'pools --json' kvdiag $M --json pools
is "$(value total pool_bytes)" 536870912 'of both'
is "$(value total keys)" 4 'copies'
used=$(value total used_bytes)
rest=$(($(value total ready_bytes) - $(value total free_bytes)))
is "$used" $rest 'used is what is ready and not free'
ok 'what was put, and some' test "$used" -ge 400000 -a "$used" -le 500000

ok 'keys' kvdiag $M keys
is "$(sort out)" "$(printf 'a/once\nb/once\ntwice')" 'each once'
ok 'keys that match' kvdiag $M keys '/on'
is "$(sort out)" "$(printf 'a/once\nb/once')" 'those'
exits 1 'keys that match nothing' kvdiag $M keys '^/'
ok 'keys --json' kvdiag $M --json keys
is "$(value n)" 3 'each once'

ok 'key' kvdiag $M key twice
like "$(cat out)" '^copies are +equal$' 'its copies are equal'
is "$(grep -c '97.7 KiB' out)" 3 'a line for each'
ok 'key --json' kvdiag $M --json key twice
is "$(value exists) $(value size_bytes) $(value copies n)" 'true 100000 2' \
	'the same'
is "$(value copies 0 checksum)" "$(value copies 1 checksum)" 'equal'
is "$(value copies 0 version)" "$(value copies 1 version)" 'of one put'
ok 'a soft-pinned key' kvdiag $M --json key b/once
is "$(value copies 0 pin)" soft 'is soft-pinned'
is "$(value copies 0 address)" "$(addr b)" 'where it was put'
ok 'a hard-pinned key' kvdiag $M --json key a/once
is "$(value copies 0 pin)" hard 'is hard-pinned'
exits 1 'a key that is not there' kvdiag $M --json key absent
is "$(value exists) $(value copies n)" 'false 0' 'no copies'
is "$(cat err)" 'kvdiag: absent: no such key' 'a line'

ok 'stats of the master' kvdiag $M stats master
ok 'have lines' test "$(wc -l <out)" -gt 5
ok 'stats of the local node' kvdiag $A --json stats local
is "$(value local hard_pinned_keys)" 1 'which has the hard-pinned key'
ok 'stats of the client' kvdiag $A --json stats client
ok 'all stats' kvdiag $A --json stats
like "$(value master)" HASH 'are those of the master'
like "$(value local)" HASH 'and of the node'
exits 69 'stats of no local node' kvdiag $M stats local
like "$(cat err)" '^kvdiag: stats: no kvclient runs on this host' 'says so'
ok 'stats as text' kvdiag $A stats
like "$(cat out)" 'segment="' 'have plain quotes'

ok 'links' kvdiag $A --json links
is "$(value n)" 2 'two'
is "$(printf '%s\n' "$(value 0 path)" "$(value 1 path)" | sort | xargs)" \
	'shm tcp' 'one of this host, one not'
is "$(grep -c '"why": "no RDMA here: ' out)" 1 'where it says why not by RDMA'
is "$(grep -c '"rails": null' out)" 2 'without rails'
is "$(value 0 status) $(value 1 status)" 'ok ok' 'both work'
ok 'links as text' kvdiag $M links
like "$(cat out)" ' no RDMA here: ' 'say why, too'
ok 'links of who wants no RDMA' kvdiag $M --protocol=tcp links
like "$(cat out)" ' no RDMA here: --protocol=tcp' 'say that'

# A node that does not answer: whoever asks it sees that, and a get that fails
# makes the master look.
kill -STOP "$(pid_of b)"
exits 1 'a link that does not work' kvdiag $A --json links
is "$(grep -c '"status": "ok"' out)" 1 'one of two'
kvget $M --timeout=2s b/once >got 2>&1
ok 'a get fails' test $? -ne 0
is_suspect()
{
	kvdiag $M nodes >"$T/nodes"
	[ $? -eq 1 ] && grep -q ' suspect ' "$T/nodes"
}
ok 'then the node is suspect' try_for 10 is_suspect
kill -CONT "$(pid_of b)"
wait_nodes 2
ok 'and live when it answers' kvdiag $M nodes
end b KILL
ok 'a dead one is forgotten' try_for 30 has_nodes 1
is "$(kvdiag $M keys | sort | xargs)" 'a/once twice' 'and so are its keys'

# Configuration: no daemon is asked.
printf '{"master_server_address": "h:1", "local_buffer_size": "1GB"}' >conf
ok 'config' kvdiag --json --tenant t config conf
is "$(grep -c '"source": "file"' out)" 2 'two from the file'
is "$(grep -c '"source": "option"' out)" 1 'one from an option'
like "$(cat out)" '"master_server_address", "value": "h:1"' 'with its value'
like "$(cat out)" '"local_buffer_size", "value": 1073741824' 'in bytes'
like "$(cat out)" '"client_ttl", "value": 10,' 'or seconds'
ok 'config from the environment' \
	env MOONCAKE_CONFIG_PATH=conf kvdiag --json config
is "$(grep -c '"source": "file"' out)" 2 'two from the file'
ok 'config without a file' kvdiag config
echo '{"mode": 1}' >conf
exits 78 'a bad config' kvdiag config conf
like "$(cat err)" '^kvdiag: conf: .*mode' 'says where'
exits 78 'no such config' kvdiag config absent
end_all
done_testing

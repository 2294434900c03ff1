#!/bin/sh
# Values of all sizes come back byte for byte: on one host by shared memory,
# from another node by TCP, and to a requester that has no node.
# shellcheck disable=SC2086,SC2094 # A, B, M are several words; s1 and 1 are not one
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

start_master m
start_client a
start_client b
wait_nodes 2
A=$(via a)
B=$(via b)
cd "$T" || exit 70

# same FILE NAME: the last command wrote these bytes.
same()
{
	mv "$T/out" "$T/got"
	ok "$2" cmp "$T/got" "$1"
}

for size in 0 1 4096 65535 65536 65537 3145728 104857600; do
	head -c $size </dev/urandom >$size
	ok "$size: put" kvput $A s$size $size
	is "$(cat out err)" '' "$size: put says nothing"
	ok "$size: get where it is" kvget $A s$size
	same $size "$size: equal"
	ok "$size: get from another node" kvget $B s$size
	same $size "$size: equal"
	ok "$size: get without a node" kvget $M s$size
	same $size "$size: equal"
	ok "$size: put without a node" kvput $M m$size $size
	ok "$size: get what was put so" kvget $A m$size
	same $size "$size: equal"
done

# shellcheck disable=SC2016 # for the inner shell
{
	ok 'kvput reads stdin' sh -c 'kvput "$@" <65537' - $M pipe
	ok "kvput reads a pipe" \
		sh -c 'cat 3145728 | kvput "$@"' - $M pipe2 -
}
ok 'get what was in the file' kvget $B pipe
same 65537 'equal'
ok 'get what was in the pipe' kvget $B pipe2
same 3145728 'equal'

ok 'put with -v' kvput $A -v verbose 4096
is "$(cat err)" 'kvput: verbose: stored, 4.0 KiB, on 1 node' 'says what it did'
ok 'a key that exists is a success' kvput $A s1 4096
is "$(cat out err)" '' 'which is not worth a word'
ok 'unless with -v' kvput $B -v s1 4096
like "$(cat err)" '^kvput: s1: exists already$' 'then it says so'
ok 'or with --json' kvput $B --json s1 4096
like "$(tr -d '\n ' <out)" '^\{"key":"s1","status":"exists",' 'it says exists'
ok 'the first value stays' kvget $B s1
same 1 'byte for byte'
ok 'a new key with --json' kvput $A --json new 4096
is "$(tr -d '\n ' <out)" \
	'{"key":"new","status":"ok","size_bytes":4096,"replicas":1}' 'ok'

exits 1 'a key that does not exist' kvget $A absent
is "$(cat out)|$(cat err)" '|kvget: absent: no such key' 'one line says so'

ok 'prefer a node by its address' \
	kvput $A --prefer "$(addr b)" there 4096
ok 'ask where it is' kvdiag $M key there
like "$(cat out)" "$(addr b)" 'it is there'
ok 'prefer a node by its name' \
	kvput $B --prefer 127.0.0.2 here 4096
ok 'ask where it is' kvdiag $M key here
like "$(cat out)" "$(addr a)" 'it is there'
ok 'prefer a node that is not there' \
	kvput $B --prefer nobody where 4096
is "$(cat err)" 'kvput: no node in the pool is called nobody: put elsewhere' \
	'says so'

ok 'another tenant' kvput $A --tenant t2 s1 65537
ok 'has its own value' kvget $B --tenant t2 s1
same 65537 'of that key'

truncate -s 290000000 large
exits 65 'a value larger than the pool' kvput $A huge large
like "$(cat err)" '^kvput: huge: .* too large .*276.6 MiB wanted; .*kvdiag' \
	'the line says what was wanted'
end_all
done_testing

#!/bin/sh
# Batches: many keys, their order, what fails in them, and how that is told.
# shellcheck disable=SC2086 # A, B and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

start_master m
start_client a
start_client b
wait_nodes 2
A=$(via a)
B=$(via b)
cd "$T" || exit 70

# Files of different sizes, one of them empty.
mkdir in
for i in 0 1 2 3 4 5 6 7 8 9; do
	head -c $((i * i * 20000)) /dev/urandom >in/$i
	printf 'dir/k%s\tin/%s\n' $i $i >>lines
done
cut -f 1 lines >keys
ok 'put a batch' kvput $A --batch lines
is "$(cat out err)" '' 'which says nothing'
ok 'get it on another node, keys from stdin' from keys kvget $B --batch got
for i in 0 1 2 3 4 5 6 7 8 9; do
	cmp "in/$i" "got/dir%2Fk$i" || break
done >cmp.out 2>&1
is "$(cat cmp.out)" '' 'all are equal'
is "$(find got -type f | wc -l)" 10 'and nothing else is there'
ok 'get some of it, keys as arguments' \
	kvget $M --json --batch got2 dir/k0 dir/k9
is "$(json out)" "$(printf %s \
	'[{"key":"dir/k0","status":"ok","size_bytes":0,"file":"got2/dir%2Fk0"},' \
	'{"key":"dir/k9","status":"ok","size_bytes":1620000,"file":"got2/dir%2Fk9"}]')" \
	'--json tells the files'
exits 1 'of a miss there is none' kvget $M --json --batch got2 dir/none
is "$(json out)" \
	'[{"key":"dir/none","status":"miss","size_bytes":0,"file":null}]' 'null'
ok 'equal' cmp in/9 got2/dir%2Fk9

# The first of equal keys wins.
printf 'twice\tin/3\ntwice\tin/4\n' >lines
ok 'the same key twice' kvput $A --json --batch lines
is "$(json out | sed 's/,"size_bytes":[0-9]*//g')" \
	"$(printf %s '[{"key":"twice","status":"ok","replicas":1},' \
		'{"key":"twice","status":"exists","replicas":null}]')" \
	'is a success'
ok 'get it' kvget $B -o got3 twice
ok 'the first one wins' cmp got3 in/3

# What fails has its line; the rest is done.
{
	printf 'good\tin/5\n'
	printf 'no tab\n'
	printf 'unreadable\tabsent\n'
	printf '\tin/1\n'
	printf '%01025d\tin/1\n' 0
	printf 'last\tin/6'
} >lines
exits 65 'bad lines' kvput $A --batch lines
is "$(wc -l <err)" 4 'have a line each'
like "$(cat err)" '^kvput: lines: line 2: no TAB' 'no TAB'
like "$(cat err)" '^kvput: unreadable: absent: No such file' 'no file'
like "$(cat err)" '^kvput: lines: line 4: the key is empty' 'no key'
like "$(cat err)" '^kvput: lines: line 5: the key is longer' 'a long key'
ok 'the others are there' kvget $M --exist good last
printf 'k\tabsent\n' >lines
exits 66 'an unreadable file alone' from lines kvput $A --batch --json
like "$(json out)" '"key":"k","status":"unreadable"' 'is in the JSON'
exits 66 'there is no list' kvput $A --batch absent
exits 66 'the list is a folder' kvput $A --batch .
printf 'missing1\ngood\n\nmissing2\n' >keys
exits 65 'misses and a bad line of kvget' from keys kvget $B --batch got4
is "$(grep -c 'no such key' err)" 2 'each miss has its line'
is "$(ls got4)" good 'what is there was fetched'
exits 1 'only misses' kvget $B --batch got4 missing1 good

exits 1 'exist' kvget $B --exist good missing last
is "$(cat out)" "$(printf 'good\t1\nmissing\t0\nlast\t1')" 'tells each'
ok 'all exist' kvget $M --exist good last
exits 1 'exist with --json' kvget $A --exist --json good missing
is "$(json out)" \
	'[{"key":"good","exists":true},{"key":"missing","exists":false}]' \
	'tells the same'
printf 'good\0missing\0' >keys
exits 1 'exist with NULs' from keys kvget $A --exist -0
is "$(tr '\0' ';' <out)" "$(printf 'good\t1;missing\t0;')" 'tells the same'

# More than goes into memory at once.
head -c 4000000 /dev/urandom >in/big
awk 'BEGIN { for (i = 10; i < 50; i++) print "big" i "\tin/big" }' >lines
cut -f 1 lines >keys
ok 'a large batch' kvput $A --batch lines
ok 'comes back' from keys kvget $B --batch got5
is "$(cat got5/* | cksum)" "$(cut -f 2 lines | xargs cat | cksum)" 'equal'

# Many small ones. How fast is for the benchmarks, but they must not take
# their time one by one.
mkdir small
i=0
while [ $i -lt 100 ]; do
	echo "value $i" >small/$i
	i=$((i + 1))
done
awk 'BEGIN {
	for (i = 0; i < 100000; i++)
		printf "key-%06d\tsmall/%d\n", i, i % 100
}' >lines
cut -f 1 lines >keys
before=$(date +%s)
ok '100,000 keys' kvput $A --batch lines
ok 'exist' from keys kvget --exist $B
is "$(grep -c '	1$' out)" 100000 'all of them'
ok 'come back' from keys kvget $B --batch got6
took=$(($(date +%s) - before))
is "$(sed 's|^|got6/|' keys | xargs cat | cksum)" \
	"$(cut -f 2 lines | xargs cat | cksum)" 'with their values'
case $BUILD in
asan | tsan) limit=300 ;;
*) limit=60 ;;
esac
ok "in $limit s ($took s)" test $took -le $limit
end_all
done_testing

#!/bin/sh
# case-017: keys are any bytes. Each comes back as it is from every program, in
# text and in JSON, and none leads out of the folder of kvget --batch.
# shellcheck disable=SC2086 # A and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

start_master m
start_client a
wait_nodes 1
A=$(via a)
cd "$T" || exit 70

cat >odd <<'E'
vllm@/disc/models/opt-125m/@1@0@3d29ad4a@metadata
a b
 a b 
a%2Fb
a+b
x?y&z=1#t
ключ/鍵
../../tmp/pwn
../pwn
/etc/x
-n
--help
.
..
a\nb
\n
a\tb
\t
\r\0033[31m
a\\b
'"$`!*
\0377\0376x
\0303
{"b64":"eA=="}
E
{
	head -c 255 /dev/zero | tr '\0' l && echo
	head -c 1024 /dev/zero | tr '\0' . && echo
	head -c 256 /dev/zero | tr '\0' x | sed 's/x/\\0377\\0001%\//g' && echo
} >>odd

# One by one, on the command line.
n=0
while IFS= read -r escaped; do
	n=$((n + 1))
	key=$(printf '%b.' "$escaped")
	key=${key%.}
	shown=$(printf %.40s "$escaped")
	echo "value $n" >in
	kvput $A -- "$key" in || fail "$shown: put"
	kvget $A -o got -- "$key" || fail "$shown: get"
	is "$(cat got)" "value $n" "$shown: comes back"
	kvget $A --exist -0 -- "$key" | tr '\0' '\n' >exist
	printf '%s\t1\n' "$key" | cmp -s - exist || fail "$shown: exist"
	printf '%s\0' "$key" >>all
done <odd
kvdiag $A -0 keys | sort -z >listed
sort -z all | cmp - listed >cmp.out 2>&1
is "$(cat cmp.out)" '' 'kvdiag -0 keys lists them all'
is "$(kvdiag $A keys | wc -l)" $n 'kvdiag keys has a line for each'

# JSON gives the bytes back.
cat >decode.pl <<'E'
use JSON::PP;
use MIME::Base64;
local $/;
my $json = JSON::PP->new->utf8->decode(<STDIN>);
for my $key (map { ref $_ && !exists $_->{b64} ? $_->{key} : $_ } @$json) {
	$key = ref $key ? decode_base64($key->{b64}) : $key;
	utf8::encode($key) if utf8::is_utf8($key);
	print "$key\0";
}
E
perl -e 'use JSON::PP' 2>/dev/null || skip_all 'perl has no JSON::PP'
kvdiag $A --json keys | perl decode.pl | sort -z | cmp - listed >cmp.out 2>&1
is "$(cat cmp.out)" '' 'kvdiag --json keys gives the bytes'
from all kvget $A --exist -0 --json | perl decode.pl | cmp - all >cmp.out 2>&1
is "$(cat cmp.out)" '' 'kvget --exist --json as well'

# All at once, into files below a folder.
mkdir -p w/x/dir
from all kvget $A --batch w/x/dir -0 --json >files
ok 'kvget --batch gets all' test $? -eq 0
perl decode.pl <files | cmp - all >cmp.out 2>&1
is "$(cat cmp.out)" '' '--json tells them all'
is "$(find w -type f | wc -l)" $n 'each has its own file'
is "$(find w -type f | grep -vc '^w/x/dir/')" 0 'below the folder'
find w/x/dir -type f -exec cat {} + | sort >got
seq -f 'value %g' $n | sort | cmp - got >cmp.out 2>&1
is "$(cat cmp.out)" '' 'with its value'
perl -MJSON::PP -e 'local $/; print map { "$_->{file}\0" }
	@{decode_json(<STDIN>)}' <files | xargs -0 cat >got
seq -f 'value %g' $n | cmp - got >cmp.out 2>&1
is "$(cat cmp.out)" '' '--json names the right file of each'

# What the manual says gives the key back.
find w/x/dir -type f | sed 's|^w/x/dir/||' >names
# shellcheck disable=SC2016 # for bash
bash -c 'while IFS= read -r name; do
	name=${name//%\//}; printf "%b\0" "${name//%/\\x}"
done' <names | sort -z | cmp - listed >cmp.out 2>&1
is "$(cat cmp.out)" '' 'the names give the keys back'

ok 'remove them all' xargs -0 -a all kvrm $A --
is "$(kvdiag $A keys)" '' 'they are gone'

# And back, by --batch.
echo value >in
sed -z 's/$/\tin/' all >lines
ok 'kvput --batch -0' kvput $A --batch -0 lines
kvdiag $A -0 keys | sort -z | cmp - listed >cmp.out 2>&1
is "$(cat cmp.out)" '' 'has the same keys'
ok 'remove all' kvrm $A --all
is "$(cat out)" "removed  $n" 'which were so many'

# A key with a NUL, from a line.
printf 'nul\0key\tin\n' >lines
printf 'nul\0key\n' >keys
ok 'a key with a NUL' kvput $A --batch lines
ok 'exists' from keys kvget $A --exist
is "$(cat out)" 'nul\x00key	1' 'as itself'
ok 'has a file' from keys kvget $A --batch dir
is "$(ls dir)" 'nul%00key' 'of its name'
is "$(kvdiag $A --json keys)" "$(printf '[\n  "nul\\u0000key"\n]')" 'is listed'
ok 'goes by a pattern' kvrm $A --regex '^nul\x00key$'

# What is no key, or no pattern.
exits 64 'kvput: an empty key' kvput $A '' in
is "$(cat err)" 'kvput: the key is empty' 'one line'
long=$(head -c 1025 /dev/zero | tr '\0' k)
for program in kvput kvget kvrm 'kvget --exist' 'kvget --batch=d' \
	'kvdiag key'; do
	exits 64 "$program: a key of 1025 bytes" $program $A "$long"
	like "$(cat err)" '^kv[a-z]*: the key has 1025 bytes' 'says so'
done
wrong='the pattern is wrong at byte 1: missing closing parenthesis'
exits 64 'kvrm: a bad pattern' kvrm $A --regex '('
is "$(cat err)" "kvrm: --regex: $wrong" 'one line'
exits 64 'kvdiag keys: a bad pattern' kvdiag $A keys '('
is "$(cat err)" "kvdiag: keys: $wrong" 'one line'

# A node without a master lists all that it has, page by page.
MASTERS=
start alone --port kvclient --socket="$T/alone.sock" \
	--global-segment-size=64MB
seq 9000 | sed 's/$/	in/' >lines
ok 'many keys' kvput --socket="$T/alone.sock" --batch lines
kvdiag --socket="$T/alone.sock" keys | sort -n >listed
seq 9000 | cmp - listed >compared 2>&1
is "$(cat compared)" "" "each is listed, once"
end_all
done_testing

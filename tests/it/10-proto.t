#!/bin/sh
# man/kvproto.7 says what lib/wire does: kvproto.py, which knows the page only,
# reads and writes the same frames.
. "$(dirname "$0")/../lib/tap.sh"
require python3
cd "$TOP" || exit 70
page=tests/python/kvproto.py
dump=$KV_BIN/tests/it/protodump
seeds=tests/corpus/fuzz_msg

# same NAME ONE OTHER: two files are equal.
same()
{
	if diff -u "$2" "$3" >"$T/diff"; then
		pass "$1"
	else
		fail "$1"
		diag "$(head -n 20 "$T/diff")"
	fi
}

python3 $page kinds >"$T/page"
"$dump" -k >"$T/code"
same 'types and their lengths' "$T/page" "$T/code"

python3 $page layout >"$T/page"
python3 $page headers lib/wire/proto*.h >"$T/code"
same 'fields of every struct' "$T/page" "$T/code"

python3 $page statuses >"$T/page"
{ tr '\n\t' '  ' <lib/base/status.def; echo; } | sed 's/KV_STATUS(/\n&/g' |
	sed -n 's/^KV_STATUS(\([0-9]*\), \([A-Z]*\),[^"]*"\([^"]*\)".*/\1 \2 \3/p' \
		>"$T/code"
same 'statuses' "$T/page" "$T/code"

# The example, 40 bytes, is what octal escapes are made of.
sed -n 's/^\(\([0-9a-f][0-9a-f]  *\)*[0-9a-f][0-9a-f]\)$/\1/p' man/kvproto.7 |
	tr -s ' ' '\n' | while read -r byte; do
	# shellcheck disable=SC2059
	printf "\\$(printf %03o "0x$byte")"
done >"$T/example"
is "$("$dump" "$T/example")" "example 40 PING id=7 flags=0 payload=0\
 body=0100000000000000 tail=" 'the example on the page'

mkdir "$T/seeds" "$T/again" "$T/random" "$T/random2"
python3 $page seeds "$T/seeds"
is "$(find "$T/seeds" -type f | wc -l)" "$("$dump" -k | wc -l)" \
	'a seed of each type'
bad=0
for f in "$T"/seeds/*; do
	cmp "$f" "$seeds/${f##*/}" >&2 || bad=$((bad + 1))
done
is $bad 0 'the seeds of the fuzzer are these'
python3 $page dump "$T"/seeds/* >"$T/page"
"$dump" "$T"/seeds/* >"$T/code"
same 'seeds are read alike' "$T/page" "$T/code"
"$dump" -o "$T/again" "$T"/seeds/*
ok 'seeds are written alike' diff -r "$T/seeds" "$T/again"

python3 $page random 1 "$T/random"
python3 $page dump "$T"/random/* >"$T/page"
"$dump" "$T"/random/* >"$T/code"
same 'other frames, good and damaged, are read alike' "$T/page" "$T/code"
like "$(cat "$T/code")" ' refused protocol$' 'some of them are refused'
like "$(cat "$T/code")" ' more [0-9]*$' 'some are not complete'
"$dump" -o "$T/random2" "$T"/random/*
bad=0
for f in "$T"/random2/*; do
	cmp "$f" "$T/random/${f##*/}" >&2 || bad=$((bad + 1))
done
is $bad 0 'the good ones are written alike'
done_testing

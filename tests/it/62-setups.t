#!/bin/sh
# The two set-ups run from their scripts: a master and engine processes that put
# and get, until they are told to end. The configuration that they print is one.
. "$(dirname "$0")/../lib/tap.sh"
require gcc

cd "$T" || exit 70
unset MOONCAKE_CONFIG_PATH KVCLUSTER_DIR
export TMPDIR="$T"
case ${BUILD:-release} in
asan) CFLAGS='-fsanitize=address,undefined' ;;
tsan) CFLAGS='-fsanitize=thread' ;;
*) CFLAGS= ;;
esac
export CFLAGS

# set_up NAME MODE: until both ranks have got blocks, then ^C.
set_up()
{
	: >set.out
	"$TOP/scripts/$1" >set.out 2>set.err &
	set_pid=$!
	set_tries=600
	until grep -q '^rank-0: .* got [1-9]' set.out &&
		grep -q '^rank-1: .* got [1-9]' set.out; do
		set_tries=$((set_tries - 1))
		if [ $set_tries -eq 0 ] || ! kill -0 $set_pid; then
			break
		fi
		sleep 0.05
	done
	sed -n '/^{/,/^}/p' set.out >config.json
	master=$(sed -n 's/^master *//p' set.out)
	ok "$1: its pool" "$KV_BIN/kvdiag" --socket= --master="$master" pools
	like "$(cat out)" "^  pool  *$3\$" "has $3"
	kill $set_pid
	set_status=0
	wait $set_pid || set_status=$?
	is $set_status 0 "$1: ends well when told so"
	is "$(grep -v '^\$ ' set.err)" '' 'with nothing to complain of'
	like "$(cat set.out)" '^rank-0: .* got [1-9].* missed 0 ' 'ranks get blocks'
	ok 'its configuration is one' "$KV_BIN/kvdiag" config config.json
	like "$(cat out)" "^mode  *$2  *file" "of mode $2"
	like "$(cat out)" "^master_server_address  *$master  *file" \
		'with the master'
	is "$(ls -d "$T"/kvranks.* 2>/dev/null)" '' 'nothing is left'
}

set_up embedded.sh embedded '256.0 MiB'
set_up standalone-store.sh standalone-store '256.0 MiB'
exits 64 'a bad option' "$TOP/scripts/embedded.sh" --fast
for script in embedded.sh standalone-store.sh setup demo; do
	ok "$script --help" "$TOP/scripts/$script" --help
	like "$(head -n 1 out)" "^$script" 'says what it is'
done
exits 64 'too many' "$TOP/scripts/standalone-store.sh" -n 10
done_testing

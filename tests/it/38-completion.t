#!/bin/sh
# bash completes what --help has.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

require bash
# words WORD...: what the last word may become.
words()
{
	# shellcheck disable=SC2016 # for bash
	bash -c '. "$TOP/scripts/completion.bash"
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		_kvpool "$1" "${!#}"
		echo "${COMPREPLY[@]}"' - "$@"
}

for program in kvput kvget kvrm kvdiag; do
	ok "$program --" words $program --
	like "$(cat "$T/out")" '(^| )--master( |$)' 'common options'
	$program --help | grep -oE '^ +(-., )?--[a-z-]+' |
		sed 's/.*--/--/' | sort >"$T/help"
	tr ' ' '\n' <"$T/out" | sort | cmp - "$T/help" >"$T/cmp" 2>&1
	is "$(cat "$T/cmp")" '' 'all that --help has'
done
is "$(words kvput --so)" '--soft-pin --socket' 'those that begin so'
is "$(words kvdiag p)" pools 'a subcommand'
is "$(words kvdiag d)" 'devices doctor' 'several'
is "$(words kvdiag --json k)" 'keys key' 'behind an option'
is "$(words kvdiag key k)" '' 'none behind a subcommand'
is "$(words kvdiag stats '')" 'master local client' 'but behind stats'
is "$(words kvdiag stats master '')" '' 'once'
is "$(words kvclient --mode =)" 'embedded standalone-store' 'what --mode= takes'
is "$(words kvclient --mode = st)" standalone-store 'that begins so'
is "$(words kvclient --protocol = r)" rdma 'what --protocol= takes'
is "$(words kvdiag --protocol '')" 'auto tcp rdma' 'what it takes behind a blank'
is "$(words kvclient --host = r)" '' 'nothing for one that takes anything'

mkdir "$T/bin" && ln -s "$KV_BIN/kvmaster" "$T/bin/mooncake_master" &&
	ln -s "$KV_BIN/kvclient" "$T/bin/mooncake_client" || exit 70
PATH=$T/bin:$PATH
is "$(words mooncake_master --rpc_p)" --rpc_port 'a flag of Mooncake'
is "$(words mooncake_client --enable_)" '--enable_http_server --enable_offload' \
	'several'
is "$(words mooncake_client --enable_offload = f)" false 'what a boolean takes'
is "$(words mooncake_client --protocol =)" 'tcp rdma' 'what --protocol= takes'
done_testing

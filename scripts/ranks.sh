# shellcheck shell=bash
# What embedded.sh and standalone-store.sh share: ranks of an engine that does
# not exist (tests/api/rank.c), and a pool for them.
#
#	ranks_open "$@"			the command line; makes $dir
#	ranks_pool [OPTION...]		a pool, as kvcluster starts it, in
#					$dir/pool; its master is in $master
#	ranks_start SEGMENT_BYTES [SOCKET]
#					$ranks of them
#	ranks_config MODE SEGMENT_SIZE	prints the configuration of an engine
#	ranks_wait			until ^C
#
# All are gone when the script ends, however it ends.

set -u
export TMPDIR="${TMPDIR:-/tmp}"
kvcluster=$(dirname "$0")/kvcluster
ranks=2
rank_pids=()
rank_is_up=
dir=

say()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

ranks_close()
{
	local code=$? pid

	trap '' HUP INT TERM
	trap - EXIT
	[ ${#rank_pids[@]} -eq 0 ] || kill "${rank_pids[@]}" 2>/dev/null
	for pid in "${rank_pids[@]}"; do
		wait "$pid" || code=1
	done
	if [ -f "$dir/pool/cluster" ]; then
		"$kvcluster" stop --dir="$dir/pool" || exit 1
	fi
	rm -rf "$dir"
	[ -z "$rank_is_up" ] || echo "stopped"
	exit "$code"
}

ranks_open()
{
	case ${1-} in
	-h | --help)
		sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | grep -v '^shellcheck'
		exit
		;;
	-n) [ $# -ne 2 ] || ranks=$2 ;;
	esac
	case $ranks:$# in
	[1-9]:0 | [1-9]:2) ;;
	*)
		say "usage: ${0##*/} [-n RANKS], 1 to 9"
		exit 64
		;;
	esac
	dir=$(mktemp -d "$TMPDIR/kvranks.XXXXXX") || exit 69
	trap ranks_close EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

ranks_pool()
{
	"$kvcluster" start --dir="$dir/pool" "$@" >"$dir/told" || exit
	bin=$(sed -n 's/^bin //p' "$dir/pool/cluster")
	master=$(sed -n 's/^master *//p' "$dir/told")
	cat "$dir/told"
}

# It sees no more of kvpool than what is installed.
rank_build()
{
	local top

	top=$(dirname "$0")/..
	ln -s "$bin/libkvpool.so" "$dir/libkvpool.so.0"
	# shellcheck disable=SC2086 # several words
	${CC:-cc} -O2 ${CFLAGS-} -I"$top/lib" -o "$dir/rank" \
		"$top/tests/api/rank.c" -L"$bin" -lkvpool \
		-Wl,-rpath,"$dir" || {
		say "rank.c does not build: a compiler, or \`make\` before?"
		exit 69
	}
}

ranks_start()
{
	local i

	rank_build
	for ((i = 0; i < ranks; i++)); do
		printf '$ rank rank-%d %s' $i "$master" >&2
		printf ' %q' "$@" >&2
		echo >&2
		"$dir/rank" rank-$i "$master" "$@" &
		rank_pids+=($!)
	done
}

ranks_config()
{
	cat <<-END
	mooncake_config.json of an engine here, for MOONCAKE_CONFIG_PATH:
	{
		"mode": "$1",
		"metadata_server": "P2PHANDSHAKE",
		"master_server_address": "$master",
		"protocol": "tcp",
		"device_name": "",
		"global_segment_size": $2,
		"local_buffer_size": "64MB"
	}
	END
}

# It is up: ^C is the way to end it well.
ranks_wait()
{
	rank_is_up=yes
	trap 'exit 0' INT TERM
	echo "It runs: each rank puts its 32 blocks again and again, and gets" \
		"those of all. ^C ends it."
	wait -n
	say "a rank ended"
	exit 1
}

#!/bin/sh
# A slice costs this process less than so many instructions, and nothing on its
# way allocates, locks or makes a system call (scripts/slice-cost).
. "$(dirname "$0")/../lib/tap.sh"

MOST=600
HARMLESS='__popcountdi2|memcpy|memset|__mem(cpy|set)_[a-z0-9_]*'

[ "$KV_BIN" = "$TOP/build" ] || skip_all 'counts those of a release build'
[ -x "$KV_BIN/tests/bench/bench_slice" ] || skip_all 'built without RDMA'
require valgrind

ok 'counted' "$TOP/scripts/slice-cost" -v "$KV_BIN"
sed 's/^/# /' "$T/out"
cp "$T/out" "$T/said"
for kind in write read alone; do
	cost=$(sed -n "s/^ *\([0-9]*\).* instructions a slice, $kind .*/\1/p" \
		"$T/said")
	ok "a slice costs $cost instructions, $kind, less than $MOST" \
		[ "$cost" -lt $MOST ]
done
calls=$(sed -n 's/^ *calls //p' "$T/said" | grep -Evx "$HARMLESS" | sort -u)
is "${calls:-nothing}" 'nothing' 'calls nothing that could take long'
done_testing

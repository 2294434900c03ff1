#!/bin/sh
# A slice costs this process less than so many instructions (scripts/slice-cost).
. "$(dirname "$0")/../lib/tap.sh"

MOST=600

[ "$KV_BIN" = "$TOP/build" ] || skip_all 'counts those of a release build'
[ -x "$KV_BIN/tests/bench/bench_slice" ] || skip_all 'built without RDMA'
require valgrind

ok 'counted' "$TOP/scripts/slice-cost" -v "$KV_BIN"
sed 's/^/# /' "$T/out"
cost=$(sed -n 's/^ *\([0-9]*\).* instructions a slice .*/\1/p' "$T/out")
ok "a slice costs $cost instructions, less than $MOST" [ "$cost" -lt $MOST ]
done_testing

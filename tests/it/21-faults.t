#!/bin/sh
# kvclient with one thing failing in it, at each place where something can
# fail: it starts or says why not, hangs nobody, works again, leaks nothing.
. "$(dirname "$0")/../lib/tap.sh"
play=$KV_BIN/tests/it/faultplay
step=${FAULT_STEP:-3} # 1: every place
export TSAN_OPTIONS="${TSAN_OPTIONS-} exitcode=96"

timeout 60 "$play" "$T" "$KV_BIN/kvclient" 1 >"$T/out" 2>&1
[ -e "$T/report" ] || skip_all 'this build has no fault points'

n=1
while [ "$n" -lt 2000 ]; do
	rm -f "$T"/*
	rc=0
	timeout 60 "$play" "$T" "$KV_BIN/kvclient" "$n" >"$T/out" 2>&1 || rc=$?
	where=$(sed -n 's/^reached [0-9]* at //p' "$T/report")
	[ -n "$where" ] || break
	if [ $rc -eq 2 ]; then
		like "$(cat "$T/log")" ' err ' "$n, $where: it says why not"
	elif [ $rc -eq 0 ]; then
		pass "$n, $where"
	else
		fail "$n, $where"
		diag "$(cat "$T/out" "$T/log")"
	fi
	n=$((n + step))
done
if [ "$rc" -eq 0 ]; then
	pass "without a fault, after $n"
else
	fail "without a fault, after $n"
	diag "$(cat "$T/out" "$T/log")"
fi
done_testing

#!/bin/sh
# kvclient --pool-file with one thing failing in it, at each place where
# something can fail: it starts or says why not, works again, and never shows
# other bytes; what it leaves the next one can take over.
. "$(dirname "$0")/../lib/tap.sh"
play=$KV_BIN/tests/it/faultplay
step=${FAULT_STEP:-5} # 1: every place
export TSAN_OPTIONS="${TSAN_OPTIONS-} exitcode=96"
mkdir "$T/run" "$T/keep"

run()
{
	rm -rf "$T/run"/*
	rc=0
	timeout 60 "$play" "$T/run" "$KV_BIN/kvclient" "$1" "$T/keep/pool" \
		>"$T/out" 2>&1 || rc=$?
}

run 1
[ -e "$T/run/report" ] || skip_all 'this build has no fault points'

n=1 adopted=0
while [ "$n" -lt 2000 ]; do
	run "$n"
	where=$(sed -n 's/^reached [0-9]* at //p' "$T/run/report")
	[ -n "$where" ] || break
	if [ $rc -eq 2 ]; then
		like "$(cat "$T/run/log")" ' err ' "$n, $where: it says why not"
	elif [ $rc -eq 0 ]; then
		pass "$n, $where"
	else
		fail "$n, $where"
		diag "$(cat "$T/out" "$T/run/log")"
	fi
	! grep -q 'adopted keys=[1-9]' "$T/run/log" || adopted=$((adopted + 1))
	n=$((n + step))
done
is $rc 0 "without a fault, after $n"
ok 'mostly there was something to take over' test $((adopted * 3)) -gt $((n / step))
done_testing

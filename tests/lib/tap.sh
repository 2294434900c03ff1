# shellcheck shell=sh
# TAP for shell tests. Source it first:
#
#	. "$(dirname "$0")/../lib/tap.sh"
#
# It sets KV_BIN (folder of the programs, absolute), TOP (top of the sources)
# and T (a temporary folder, removed at the end). A test is one of
#
#	ok NAME COMMAND...		the command succeeds
#	not_ok NAME COMMAND...		it fails, but by no signal
#	exits CODE NAME COMMAND...	it exits with CODE
#	is GOT WANT NAME		two strings are equal
#	like GOT REGEX NAME		a line of GOT matches an extended regex
#	unlike GOT REGEX NAME		no line does
#	pass NAME, fail NAME
#	skip NAME REASON
#
# What the command of ok, not_ok and exits wrote is left in $T/out and $T/err.
# A script says `plan N` first or `done_testing` last; without either, prove
# fails it. `skip_all REASON` ends it, `require PROGRAM...` does so when one
# is absent, `require_terminals` when none can be made. `at_exit COMMAND` adds a
# command that runs at the end, however the end comes; the one added last runs
# first.

tap_count=0
tap_failed=0
tap_at_exit=:
tap_name=${0##*/}

TOP=$(cd "$(dirname "$0")/../.." && pwd) || exit 70
KV_BIN=${KV_BIN:-build}
case $KV_BIN in
/*) ;;
*) KV_BIN=$TOP/$KV_BIN ;;
esac
T=$(mktemp -d "${TMPDIR:-/tmp}/kv.${tap_name%.t}.XXXXXX") || exit 70
export KV_BIN TOP T

tap_end()
{
	tap_status=$?
	trap '' HUP INT TERM
	trap - EXIT
	set +e
	eval "$tap_at_exit"
	cd / && rm -rf "$T"
	if [ "$tap_status" -eq 0 ] && [ "$tap_failed" -ne 0 ]; then
		tap_status=1
	fi
	exit "$tap_status"
}
trap tap_end EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

at_exit()
{
	tap_at_exit="$*
$tap_at_exit"
}

diag()
{
	printf '%s\n' "$*" | sed 's/^/# /' >&2
}

plan()
{
	echo "1..$1"
}

done_testing()
{
	echo "1..$tap_count"
}

skip_all()
{
	echo "1..0 # SKIP $*"
	exit 0
}

require()
{
	for tap_program in "$@"; do
		command -v "$tap_program" >/dev/null 2>&1 ||
			skip_all "$tap_program is not installed"
	done
}

require_terminals()
{
	require python3
	python3 -c 'import pty; pty.openpty()' 2>/dev/null ||
		skip_all 'there are no terminals here'
}

pass()
{
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $*"
}

fail()
{
	tap_count=$((tap_count + 1))
	tap_failed=$((tap_failed + 1))
	echo "not ok $tap_count - $*"
}

skip()
{
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}

# tap_run COMMAND...: leaves its exit status in tap_rc.
tap_run()
{
	tap_rc=0
	"$@" >"$T/out" 2>"$T/err" || tap_rc=$?
}

# tap_failed_run WANT: explains what the command did instead.
tap_failed_run()
{
	diag "exit status $tap_rc, wanted $1"
	diag "stdout: $(head -c 2000 "$T/out")"
	diag "stderr: $(tail -c 4000 "$T/err")"
}

exits()
{
	tap_want=$1
	tap_what=$2
	shift 2
	tap_run "$@"
	if [ "$tap_rc" -eq "$tap_want" ]; then
		pass "$tap_what"
	else
		fail "$tap_what"
		tap_failed_run "$tap_want"
	fi
}

ok()
{
	exits 0 "$@"
}

not_ok()
{
	tap_what=$1
	shift
	tap_run "$@"
	if [ "$tap_rc" -ne 0 ] && [ "$tap_rc" -lt 126 ]; then
		pass "$tap_what"
	else
		fail "$tap_what"
		tap_failed_run "1 to 125"
	fi
}

is()
{
	if [ "$1" = "$2" ]; then
		pass "$3"
	else
		fail "$3"
		diag "     got: $1"
		diag "expected: $2"
	fi
}

like()
{
	if printf '%s\n' "$1" | grep -Eq -e "$2"; then
		pass "$3"
	else
		fail "$3"
		diag "     got: $1"
		diag "no match: $2"
	fi
}

unlike()
{
	if printf '%s\n' "$1" | grep -Eq -e "$2"; then
		fail "$3"
		diag "     got: $1"
		diag " matches: $2"
	else
		pass "$3"
	fi
}

#!/bin/sh
# The helpers of shell tests fail what must fail.
# shellcheck disable=SC2016 # the text is for another shell
. "$(dirname "$0")/../lib/tap.sh"

# sub LINE...: runs a script of these lines that uses tap.sh; its output is
# in $T/out, its exit status in $rc.
mkdir -p "$T/tests/it" "$T/tests/lib"
cp "$TOP/tests/lib/tap.sh" "$T/tests/lib"
sub()
{
	printf '%s\n' '. "$(dirname "$0")/../lib/tap.sh"' "$@" \
		>"$T/tests/it/sub.t"
	rc=0
	sh "$T/tests/it/sub.t" >"$T/out" 2>"$T/err" || rc=$?
	got="$rc: $(tr '\n' ';' <"$T/out")"
}

sub 'ok a true' 'ok b false' 'done_testing'
is "$got" '1: ok 1 - a;not ok 2 - b;1..2;' 'ok'
sub 'not_ok a false' 'not_ok b true' 'done_testing'
is "$got" '1: ok 1 - a;not ok 2 - b;1..2;' 'not_ok'
sub 'not_ok a sh -c "kill -9 \$\$"' 'not_ok b "$T/absent"' 'done_testing'
is "$got" '1: not ok 1 - a;not ok 2 - b;1..2;' \
	'not_ok does not take a signal or an absent program for a failure'
sub 'exits 3 a sh -c "exit 3"' 'exits 3 b sh -c "exit 4"' 'plan 2'
is "$got" '1: ok 1 - a;not ok 2 - b;1..2;' 'exits'
sub 'is x x a' 'is x y b' 'is "" y c' 'done_testing'
is "$got" '1: ok 1 - a;not ok 2 - b;not ok 3 - c;1..3;' 'is'
sub 'like abc "^a.c$" a' 'like abc "^b" b' 'done_testing'
is "$got" '1: ok 1 - a;not ok 2 - b;1..2;' 'like'
sub 'unlike abc "^b" a' 'unlike abc b b' 'done_testing'
is "$got" '1: ok 1 - a;not ok 2 - b;1..2;' 'unlike'
sub 'pass a' 'fail b' 'skip c why' 'done_testing'
is "$got" '1: ok 1 - a;not ok 2 - b;ok 3 - c # SKIP why;1..3;' \
	'pass, fail, skip'
sub 'require sh' 'require kv-absent' 'fail a'
is "$got" '0: 1..0 # SKIP kv-absent is not installed;' 'require'
sub 'ok a sh -c "echo out; echo err >&2; exit 1"' 'done_testing'
like "$(cat "$T/err")" '# stdout: out' 'a failure shows stdout'
like "$(cat "$T/err")" '# stderr: err' 'a failure shows stderr'

sub 'at_exit echo first' 'at_exit echo last' 'echo "$T"' 'exit 5'
dir=$(head -n 1 "$T/out")
is "$got" "5: $dir;last;first;" 'at_exit: in reverse, exit status kept'
not_ok 'the temporary folder is gone' test -e "$dir"
sub 'at_exit echo gone' 'kill -TERM $$' 'sleep 5'
is "$got" '143: gone;' 'at_exit on a signal'
done_testing

#!/bin/sh
# scripts/setup on machines that lack packages, lack none, or are no Debian.
. "$(dirname "$0")/../lib/tap.sh"

# A machine: what is installed, who asks, what apt-get does.
bin=$T/bin
mkdir "$bin"
for program in sh sed env; do
	ln -s "$(command -v $program)" "$bin/$program"
done
cat >"$bin/id" <<'E'
#!/bin/sh
echo "$FAKE_UID"
E
cat >"$bin/dpkg-query" <<'E'
#!/bin/sh
[ "$1 $2" = '-W -f' ] || exit 2
shift 3
for package; do
	case " $FAKE_MISSING " in
	*" $package "*) code=1 ;;
	*) echo "installed $package" ;;
	esac
done
exit ${code:-0}
E
cat >"$bin/apt-get" <<'E'
#!/bin/sh
echo "apt-get $*" >>"$T/calls"
case " $* " in
*" $FAKE_FAILS "*)
	echo "E: cannot $FAKE_FAILS"
	exit 100
	;;
esac
E
chmod +x "$bin"/id "$bin"/dpkg-query "$bin"/apt-get

# setup MISSING UID FAILS [GROUP...]
setup()
{
	: >"$T/calls"
	(
		export FAKE_MISSING="$1" FAKE_UID="$2" FAKE_FAILS="$3" T
		shift 3
		PATH=$bin exec "$TOP/scripts/setup" "$@"
	)
}

for uid in 0 1000; do
	ok "nothing is missing, user $uid" setup '' $uid '' check lint
	is "$(cat "$T/out" "$T/err" "$T/calls")" '' 'silent'
done

exits 69 'two are missing, no root' setup 'libcjson-dev python3' 1000 '' check
is "$(cat "$T/out" "$T/calls")" '' 'nothing is installed'
is "$(sed 1d "$T/err")" "$(printf %s "sudo sh -c 'apt-get update && " \
	"apt-get install -y --no-install-recommends libcjson-dev python3'")" \
	'the one command is said'
is "$(wc -l <"$T/err")" 2 'and one line before'
sed -n 's/^sudo //p' "$T/err" >"$T/command"
ok 'it can be pasted' env PATH="$bin" T="$T" FAKE_FAILS=- sh "$T/command"
is "$(cat "$T/calls")" 'apt-get update
apt-get install -y --no-install-recommends libcjson-dev python3' \
	'and installs them'

ok 'two are missing, root' setup 'libcjson-dev python3' 0 - check
is "$(sed 's/ -[oq][^ ]*\( [A-Z][^ ]*=[^ ]*\)\{0,1\}//g' "$T/calls")" \
	'apt-get update
apt-get install -y --no-install-recommends libcjson-dev python3' \
	'they are installed'
is "$(cat "$T/out" "$T/err")" 'setup: installing libcjson-dev python3' \
	'with one line'
ok 'of another group' setup 'libcjson-dev python3' 0 - build
like "$(cat "$T/calls")" 'recommends libcjson-dev$' 'only what it needs'
ok 'an old package list' setup python3 0 update check
exits 69 'no such package' setup python3 0 install check
like "$(cat "$T/err")" '^E: cannot install$' 'says what apt-get said'
like "$(cat "$T/err")" '^setup: apt-get cannot install python3$' 'and which'

exits 64 'an unknown group' setup '' 0 '' chekc
rm "$bin/dpkg-query"
ok 'no Debian' setup '' 0 '' build
like "$(cat "$T/err")" '^setup: not a Debian system, so not checked: gcc ' \
	'says so'
done_testing

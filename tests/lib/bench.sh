# shellcheck shell=sh
# What the tests of kvbench share. Source it after tap.sh.
#
#	figures		name, unit and floor of each figure in the JSON that
#			ok or exits left in $T/out, if all its numbers are above 0
#	field NAME WHAT	a field of the first figure called NAME

bench_rows()
{
	tr -d '\n' <"$T/out" | sed 's/ *\([{}":,]\) */\1/g; s/{"name"/\n&/g' |
		grep '^{"name"'
}

figures()
{
	bench_rows | sed '/"\(value\|floor\|ratio\)":\(0[,}]\|-\|null\)/d
		s/.*"name":"\([^"]*\)".*"unit":"\([^"]*\)".*"floor_name":"\([^"]*\)".*/\1 \2 \3/'
}

field()
{
	bench_rows | grep "\"name\":\"$1\"" | head -n 1 |
		sed "s/.*\"$2\":\"\{0,1\}\([^\",}]*\).*/\1/"
}

# shellcheck shell=sh
# What the tests of kvbench share. Source it after tap.sh.
#
#	figures		name, unit and floor of each figure in the JSON that
#			ok or exits left in $T/out, if all its numbers are above 0
#	link_figures	operation, size, depth and path of each figure of kvbench
#			link, if none of its numbers is 0
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

link_figures()
{
	bench_rows | grep -v '"[a-z0-9_]*":[0.]*[,}]' |
		sed '/"value":null/d
		s/.*"op":"\([^"]*\)","path":"\([^"]*\)","size_bytes":\([0-9]*\),"depth":\([0-9]*\).*/\1 \3 \4 \2/'
}

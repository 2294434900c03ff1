#!/bin/sh
# Two rails of 160 Mbit/s: both carry a value; one that is cut in the middle costs
# nothing but speed, and is used again when it is back; loss costs nothing but
# time. Every value is compared.
# shellcheck disable=SC2086 # A and M are several words
VM_LIMIT=400
. "$(dirname "$0")/../lib/vm.sh"

cd "$T" || exit 70
start_master m
start_node n b -v
wait_nodes 1
try_for 60 grep -q 'the pool is served by RDMA' n.log
head -c 67108864 </dev/urandom >value
shape 0 rate 160mbit
shape 1 rate 160mbit
puts=0

# Only by RDMA; a connection that is late has no rails: try_for.
get()
{
	$A kvget -v --protocol=rdma $M key >got
}
put()
{
	puts=$((puts + 1))
	$A kvput -v --protocol=rdma $M key$puts value
}

# carried LINK: packets that it carried since the last time
carried()
{
	before=
	eval "before=\${before_$1:-0}"
	carried=$(packets "$1")
	eval "before_$1=$carried"
	carried=$((carried - before))
}

# moved NAME COMMAND...: the value, and both rails had a part of it.
moved()
{
	name=$1
	shift
	carried 0
	carried 1
	ok "$name" try_for 60 "$@"
	carried 0
	ok "$name: $carried packets on rail 0" test $carried -gt 1000
	carried 1
	ok "$name: $carried packets on rail 1" test $carried -gt 1000
}

equal()
{
	ok "$1: equal" cmp got value
}
stored()
{
	ok "$1: is there" $A kvget --protocol=tcp $M key$puts
	mv out got
	equal "$1"
	kvrm $M key$puts >out
}

ok 'a value' $A kvput --protocol=tcp $M key value
moved 'a get' get
equal 'a get'
moved 'a put' put
stored 'a put'

links()
{
	$A kvdiag $M links >links
	cat links
}
ok 'links' links
like "$(cat links)" ' rdma +2 ' 'it is reached by two rails'
for way in get put; do
	(
		sleep 1.2
		cut_link 0
	) &
	cutter=$!
	ok "a $way, a rail is cut" $way
	[ $way = put ] || equal "a $way, a rail is cut"
	wait $cutter
	[ $way = get ] || stored "a $way, a rail is cut"
	mend_link 0
done
sleep 5
moved 'it is back: a get' get
equal 'it is back: a get'

for rail in 0 1; do
	shape $rail rate 160mbit loss 1%
done
ok 'a get with 1 % loss' try_for 60 get
equal 'a get with 1 % loss'
ok 'a put with 1 % loss' try_for 60 put
stored 'a put with 1 % loss'
for rail in 0 1; do
	shape $rail
done
one_of_two()
{
	$A kvdiag $M links | grep -q 'rdma .* 1 of 2 rails: '
}
cut_link 1
ok 'a missing one is told' try_for 60 one_of_two
mend_link 1
end_all
done_testing

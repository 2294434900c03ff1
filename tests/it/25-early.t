#!/bin/sh
# A large pool serves while its pages still come: its ports are open early enough
# for any probe, and what is there already is used.
# shellcheck disable=SC2046,SC2086 # M is several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

[ "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)" -gt 8388608 ] ||
	skip_all 'less than 8 GiB of memory are free'

# number NAME: of what the node said.
number()
{
	awk -v name="$1" '$1 == name { print $2 }' "$T/out"
}

head -c 1000000 /dev/urandom >"$T/in"
start_master m
begin=$(date +%s%3N)
start_client a --global-segment-size=6GB
took=$(($(date +%s%3N) - begin))
# Over TCP, as the master sees it.
ok 'a put' try_for 10 kvput --socket= --master=$MASTERS key "$T/in"
ok 'is done' kvdiag -s "$(socket a)" stats local
ready=$(number ready_bytes)
is "$(number pool_bytes)" 6442450944 'in a pool of 6 GiB'
ok 'of which some is there' test "$ready" -gt 0
ok 'and not yet all' test "$ready" -lt 6442450944
ok 'the ports were open long before' test $took -lt 10000
ok 'it is read meanwhile' kvget $M -o "$T/got" key
ok 'and is the same' cmp "$T/in" "$T/got"
end_all
done_testing

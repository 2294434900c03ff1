#!/bin/sh
# --pool-file: what was put is there after kill -9 and after an end, whole or
# not at all (case-006); files that are something else are left alone.
# shellcheck disable=SC2046,SC2086 # at, via and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

OBJECTS=5000
MB=1048576

start_master m
start_client a --global-segment-size=256MB --pool-file="$T/pool"
wait_nodes 1
A=$(via a)

# sized SIZE: a with a pool of another size, and started.
sized()
{
	sed -i "s/--global-segment-size=[^']*' '--pool/--global-segment-size=$1' '--pool/" \
		"$T/a.cmd"
	again a
}

# said NAME: a number in what the last start said.
said()
{
	grep -o "$1=[0-9]*" "$T/a.log" | head -n 1 | cut -d = -f 2
}

all_checked()
{
	[ "$(stat a unchecked_keys)" = 0 ]
}

# got NAME: how many of the 5,000 are there; a test that they are what was put.
got()
{
	try_for 30 all_checked
	rm -rf "$T/out.d"
	from "$T/keys" kvget $A --batch "$T/out.d" >/dev/null 2>&1
	got=0 wrong=0
	(cd "$T/out.d" && cksum -- *) 2>/dev/null | sort >"$T/sums.out"
	got=$(wc -l <"$T/sums.out")
	wrong=$(comm -13 "$T/sums" "$T/sums.out" | wc -l)
	is "$wrong" 0 "$1: $got objects, all of them what was put"
}

cd "$T" || exit 70
mkdir in
# Small ones, which lie at the end of a pool, and larger ones from its start.
(cd in && head -c $((3499 * 9001)) /dev/urandom | split -a 3 -b 9001 - s.)
(cd in && head -c $((1500 * 40001)) /dev/urandom | split -a 3 -b 40001 - l.)
: >in/empty
(cd in && ls) >keys
(cd in && cksum -- *) >sums
sort -o sums sums
awk '{ print $1 "\tin/" $1 }' keys >lines
ok "$OBJECTS objects" kvput $A --batch lines
got 'before'
is "$got" $OBJECTS 'all are there'

# In the middle of puts and gets, by its own host and from far away.
drive near hammer $(at a) --prefix=near --keys=60 --size-max=300k --threads=2 \
	--seconds="$((25 * KV_SLOW))"
drive far hammer $(at -) --prefix=far --keys=40 --size-max=300k --threads=1 \
	--seconds="$((25 * KV_SLOW))"
lost=0 rounds=0
while [ $rounds -lt 30 ]; do
	rand 25
	sleep "$(printf '0.%02d' $rnd)"
	crash a
	again a
	rounds=$((rounds + 1))
	[ "$(said keys)" -ge $OBJECTS ] || lost=$((lost + 1))
done
is "$lost" 0 '30 times killed and started: never fewer are adopted'
driven near 'no wrong byte near'
driven far 'no wrong byte far away'
got 'after 30 kills'
is "$got" $OBJECTS 'all are there'
is "$(stat a held_bytes)" 0 'nothing is held for those who have gone'
is "$(stat a adopted_bad)" 0 'nothing was found damaged'

# While it starts, over and over.
end a
rounds=0
while [ $rounds -lt 20 ]; do
	eval "exec $(cat "$T/a.cmd")" >>"$T/a.old" 2>&1 &
	rand 60
	sleep "$(printf '0.%03d' $rnd)"
	kill -9 $!
	wait $! 2>/dev/null
	rounds=$((rounds + 1))
done
again a
ok 'killed 20 times while it starts: all are adopted' \
	test "$(said keys)" -ge $OBJECTS

# Ended well, nothing at all is dropped.
end a
is "$end_status" 0 'an end'
again a
is "$(said dropped)" 0 'an end loses nothing'
hammered=$(($(said keys) - OBJECTS))

# Other sizes.
end a
sized 128MB
got 'half the size'
ok 'what fits is there' test "$got" -ge 1500
is "$(said missing)" $((OBJECTS + hammered - $(said keys))) 'the others are counted'
is "$(wc -c <pool)" $((128 * MB)) 'the file is smaller'
end a
sized 512MB
was=$got
got 'four times that size'
ok 'the same are there' test "$got" -eq "$was"
is "$(wc -c <pool)" $((512 * MB)) 'the file is larger'
ok 'put again what is missing' kvput $A --batch lines
got 'all'
is "$got" $OBJECTS 'all are there'

# Damage: the bytes of a value.
end a
off=
sed -n 1000,1020p keys >some
while [ -z "$off" ] && read -r key; do
	# Found only if the bytes are in one line.
	bytes=$(head -c 12 "in/$key" | od -An -tx1 | tr -d ' \n')
	off=$(LC_ALL=C grep -obUaP "$(echo "$bytes" | sed 's/../\\x&/g')" pool |
		head -n 1 | cut -d : -f 1)
done <some
head -c 4096 /dev/urandom |
	dd of=pool bs=1 seek="$off" conv=notrunc status=none
again a
got '4 KiB overwritten'
ok 'at most three are lost' test "$got" -ge $((OBJECTS - 3))
ok 'at least one is' test "$got" -lt $OBJECTS
is "$(stat a adopted_bad)" $((OBJECTS - got)) 'and counted'
like "$(cat a.log)" "checked what was adopted keys=[0-9]* dropped=$((OBJECTS - got))" \
	'in one line'

# Of the index.
end a
head -c 4096 /dev/urandom |
	dd of=pool.index bs=1 seek=$((MB / 2)) conv=notrunc status=none
again a
was=$got
got '4 KiB of the index overwritten'
ok 'at most 16 are lost' test "$got" -ge $((was - 16))
is "$(said damaged)" 16 'and counted'

# Cut short.
end a
truncate -s $((20 * MB + 777)) pool
again a
got 'the file cut'
ok 'what was in the rest is there' test "$got" -gt 100
ok 'the others are counted' test "$(said missing)" -ge $((OBJECTS / 2))
end a
truncate -s $((MB / 2 + 100)) pool.index
again a
got 'the index cut'
end a
truncate -s 0 pool
again a
got 'the file cut to nothing'
is "$got" 1 'nothing is left but the value without bytes'
ok 'but it works' kvput $A --batch lines
got 'put again'
is "$got" $OBJECTS 'all are there'

# In use, of a later version, something else: refused and left alone.
sums()
{
	cksum pool pool.index 2>&1
}
refused()
{
	before=$(sums)
	exits "$1" "$2: refused" kvclient --port="$(free_port)" \
		--socket="$T/other.sock" --global-segment-size=256MB \
		--pool-file="$T/pool"
	like "$(cat err)" "$3" "$2: in words"
	is "$(wc -l <err)" 1 "$2: in one line"
	is "$(sums)" "$before" "$2: left as it is"
}
try_for 10 all_checked
refused 69 'in use' "pool is in use by pid $(pid_of a)\$"
end a
printf '\002' | dd of=pool.index bs=1 seek=8 conv=notrunc status=none
refused 69 'a later format' 'written by a later version: format 2'
printf '\001' | dd of=pool.index bs=1 seek=8 conv=notrunc status=none
mv pool.index elsewhere
refused 64 'without an index' 'no index beside it'
mv elsewhere pool.index
cp -p pool copy
mv pool original
mv copy pool
refused 64 'a copy' 'belongs to another file'
mv original pool
again a
got 'after all that'
is "$got" $OBJECTS 'all are there'
is "$(stat a adopted_bad)" 0 'nothing was found damaged'
end_all
done_testing

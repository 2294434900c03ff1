#!/bin/sh
# --pool-file where there is little room (case-024): refused in words at the
# start, less memory when others were faster, never SIGBUS; and on a machine
# that was booted anew: an empty start.
# shellcheck disable=SC2046,SC2086 # at, via and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"

MB=1048576

mkdir "$T/fs" || exit 70
mount -t tmpfs -o size=64m kv_test "$T/fs" 2>/dev/null ||
	skip_all 'cannot mount a tmpfs'
at_exit "umount -l '$T/fs'"
F=$T/fs/pool

start_master m

# Too large from the start.
exits 71 'a pool of 256MB on 64MB' kvclient --port="$(free_port)" \
	--socket="$T/x.sock" --global-segment-size=256MB --pool-file="$F"
like "$(cat "$T/err")" 'a pool of 256.0 MiB does not fit: the file system of .*/fs/pool has 6[0-9.]* MiB left; ask for less, or make room there' \
	'says what it wanted, and what there is'
is "$(ls "$T/fs")" '' 'and leaves nothing'
exits 64 'huge pages and a file' kvclient --port="$(free_port)" \
	--socket="$T/x.sock" --hugepages --pool-file="$F"
like "$(cat "$T/err")" 'give a path on a hugetlbfs' 'says what to do'

# Others fill the rest once it is there.
start_client a --global-segment-size=40MB --pool-file="$F"
wait_nodes 1
all_ready()
{
	[ "$(stat a ready_bytes)" = $(($1 * MB)) ]
}
ok 'all of it is there' try_for 10 all_ready 40
head -c 100M /dev/zero >"$T/fs/others" 2>/dev/null
what='others filled the rest'
drive load hammer $(at a) --prefix=load --keys=400 --size-max=600k \
	--threads=3 --seconds=3 --strict
driven load "$what: no wrong byte, no error"
# The index has an end then: something has to leave.
watch many --do=put --once --prefix=many --keys=12000 --batch=1000 --size=200 \
	$(at a)
is "$(sum many 3)" 12000 "$what: small puts go on"
ok "$what: the index has reached its end" test "$(stat a evicted_keys)" -gt 0
all_summed()
{
	[ "$(stat a unsummed_keys)" = 0 ]
}
try_for 10 all_summed
keys=$(stat a keys)
crash a
again a
is "$(stat a adopted)" "$keys" "$what: it starts again, with all it had"
drive load hammer $(at a) --prefix=load --keys=400 --size-max=600k \
	--threads=3 --seconds=2 --strict
driven load "$what: no wrong byte, no error"
end a
is "$end_status" 0 "$what: it ends well"

# Others are faster than its threads: stopped at once after it was ready.
what='others are faster'
rm "$T/fs"/*
sed -i "s/--global-segment-size=40MB/--global-segment-size=56MB/" "$T/a.cmd"
again a
freeze a
head -c 100M /dev/zero >"$T/fs/others" 2>/dev/null
thaw a
sleep 1
drive load hammer $(at a) --prefix=load --keys=100 --size-max=200k \
	--threads=3 --seconds=2
driven load "$what: no wrong byte"
ready=$(stat a ready_bytes)
ok "$what: it is alive, with $ready bytes" test "$ready" -le $((56 * MB))
end a
is "$end_status" 0 "$what: it ends well"
rm "$T/fs/others"
again a
ok "$what: with room again it has all" try_for 10 all_ready 56
watch put --do=put --once --prefix=p --keys=20 --batch=20 --size=1MB $(at a)
is "$(sum put 3)" 20 'twenty puts'
keys=$(stat a keys)
end a

# A file of huge pages.
pages=/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages
mkdir "$T/huge"
if [ "$(cat $pages 2>/dev/null || echo 0)" -ge 24 ] &&
	mount -t hugetlbfs -o pagesize=2M kv_test "$T/huge" 2>/dev/null; then
	at_exit "umount -l '$T/huge'"
	start_client h --global-segment-size=32MB --pool-file="$T/huge/pool"
	watch put --do=put --once --prefix=huge --keys=20 --batch=20 \
		--size=1MB $(at h)
	is "$(sum put 3)" 20 'huge pages: twenty puts'
	end h
	again h
	is "$(stat h adopted)" 20 'huge pages: they are there'
	watch get --once --prefix=huge --keys=20 --batch=20 --size=1MB $(at h)
	is "$(sum get 3)" 20 'huge pages: and are what was put'
	end h
else
	skip 'a file of huge pages' 'no huge pages are free'
fi

# Another boot of the kernel, as far as kvclient can see.
id=/proc/sys/kernel/random/boot_id
sed 's/^./f/; t; s/^f/e/' $id >"$T/boot_id"
if cmp -s $id "$T/boot_id"; then
	tr 0-9a-f 1-9a-f0 <$id >"$T/boot_id"
fi
if unshare -m sh -c "mount --bind '$T/boot_id' $id" 2>/dev/null; then
	again a
	is "$(stat a adopted)" "$keys" 'the same kernel: all are there'
	end a
	cp "$T/a.cmd" "$T/a.same"
	printf "%s" "'unshare' '-m' 'sh' '-c' 'mount --bind $T/boot_id $id &&
		exec \"\$@\"' 'sh' $(cat "$T/a.same")" >"$T/a.cmd"
	again a
	is "$(stat a adopted)" 0 'another kernel: nothing is'
	is "$(stat a free_bytes)" "$(stat a ready_bytes)" 'all is free'
	watch put --do=put --once --prefix=q --keys=20 --batch=20 \
		--size=1MB $(at a)
	is "$(sum put 3)" 20 'twenty puts'
	end a
	again a
	is "$(stat a adopted)" 20 'and again the same one: they are there'
else
	skip 'another kernel: nothing is there' 'cannot mount on boot_id'
fi
end_all
done_testing

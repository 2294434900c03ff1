#!/bin/sh
# case-016: under its final name there is the old file or the whole new one,
# whatever interrupts kvget; full disks and closed pipes end it well.
# shellcheck disable=SC2086,SC2016 # A is several words; sh -c has its own $
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

start_master m
start_client a --global-segment-size=512MB
wait_nodes 1
A=$(via a)
cd "$T" || exit 70

head -c 104857600 /dev/urandom >big
head -c 10485760 /dev/urandom >medium
ok 'put' kvput $A big big
for i in 1 2 3 4 5 6 7 8; do
	printf 'm%s\tmedium\n' $i
done | kvput $A --batch || fail 'put the others'

# Interrupted at some time; the later, the more of it is done.
for sig in INT TERM HUP KILL; do
	mkdir d
	echo old >d/file
	n=0
	parts=0
	for delay in 0.01 0.03 0.05 0.08 0.12 0.16 0.2 0.3 0.5; do
		kvget $A -o d/file big &
		pid=$!
		sleep $delay
		kill -$sig $pid 2>/dev/null
		wait $pid 2>/dev/null
		n=$((n + 1))
		cmp -s d/file big || [ "$(head -c 9 d/file)" = old ] ||
			parts=$((parts + 1))
	done
	is $parts 0 "$sig: the old file or the whole new one, $n times"
	[ $sig = KILL ] ||
		is "$(find d -name '.*' -type f)" '' "$sig: nothing is left"
	rm -r d
done

# A limit of file sizes.
mkdir small
echo old >small/file
limited()
{
	# shellcheck disable=SC3045 # of file sizes, POSIX has it
	(ulimit -f 100 && exec "$@")
}
exits 74 'a limit of file sizes' limited kvget $A -o small/file big
is "$(cat err)" 'kvget: big: small/file: File too large' \
	'the line has key, file and cause'
is "$(cat small/file)" old 'the old file stays'
exits 74 'in a batch' limited kvget $A --batch small m1
is "$(cat err)" 'kvget: m1: small/m1: File too large' 'a line'
is "$(find small -type f)" small/file 'nothing else is there'

# A full disk.
if mkdir full && mount -t tmpfs -o size=64m tmpfs full 2>/dev/null; then
	at_exit "umount '$T/full'"
	echo old >full/file
	exits 74 'a full disk' kvget $A -o full/file big
	is "$(cat err)" 'kvget: big: full/file: No space left on device' \
		'the line has key, file and cause'
	is "$(cat full/file)" old 'the old file stays'
	is "$(find full -type f)" full/file 'nothing else is there'
	exits 74 'a disk that is full half way of a batch' \
		kvget $A --batch full m1 m2 m3 m4 m5 m6 m7 m8
	is "$(grep -c 'No space left' err)" 2 'two do not fit, and are named'
	for f in full/m?; do
		cmp "$f" medium
	done >cmp.out 2>&1
	is "$(cat cmp.out)" '' 'the files that are there are whole'
	is "$(find full -type f -name 'm?' | wc -l)" 6 'all the others'
	is "$(find full -name '.*' -type f)" '' 'nothing else'
else
	skip 'a full disk' 'cannot mount'
fi

# Pipes and stdout.
kvget $A big 2>err | head -c 10 >out
is "$(head -c 10 big | cksum)" "$(cksum <out)" 'a reader that has enough'
is "$(cat err)" '' 'ends it quietly'
(
	trap '' PIPE
	kvget $A big 2>err
	echo $? >rc
) | head -c 10 >out
is "$(cat rc):$(cat err)" '74:' 'also where SIGPIPE is ignored'
exits 74 'stdout is closed' sh -c 'kvget "$@" >&-' - $A big
is "$(cat err)" 'kvget: big: stdout: Bad file descriptor' 'one line'
exits 74 'stdout is full' sh -c 'kvget "$@" >/dev/full' - $A big
exits 74 'kvdiag, stdout closed' sh -c 'kvdiag "$@" >&-' - $A nodes
exits 74 'kvdiag, stdout full' sh -c 'kvdiag "$@" >/dev/full' - $A nodes
ok 'a device is written to' kvget $A -o /dev/null m1
ok 'and is one still' test -c /dev/null

# What the file keeps.
echo old >kept
chmod 640 kept
ln -s kept link
ok 'replace through a link' kvget $A -o link m1
ok 'the link is one still' test -L link
ok 'its file is the new one' cmp kept medium
is "$(stat -c %a kept)" 640 'with the mode of the old one'
exits 74 'no such folder' kvget $A -o absent/file m1
like "$(cat err)" '^kvget: m1: absent/file: No such file' 'one line'
exits 73 'DIR is a file' kvget $A --batch kept m1
like "$(cat err)" '^kvget: kept: Not a directory' 'one line'

# The writer of a pipe is killed: its end looks as any, and what came is put.
mkfifo pipe
sh -c 'head -c 5 /dev/zero; kill -9 $$' >pipe 2>/dev/null &
ok 'a pipe that ends early' kvput $A short pipe
ok 'what came is there' kvget $A short -o got
is "$(stat -c %s got)" 5 'and no more'
end_all
done_testing

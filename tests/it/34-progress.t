#!/bin/sh
# The line on a terminal about work that takes long, by its parts: reading,
# putting, getting and writing, of many keys and of one.
# shellcheck disable=SC2086 # A is several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

require_terminals
start_master m
start_client a
wait_nodes 1
A=$(via a)
cd "$T" || exit 70

# seen.py COMMAND...: stderr is a terminal; what comes there goes to the file
# screen, a line for each time that it was overwritten.
cat >seen.py <<'E'
import os, pty, subprocess, sys

screen, tty = pty.openpty()
p = subprocess.Popen(sys.argv[1:], stderr=tty)
os.close(tty)
text = b''
try:
    while True:
        text += os.read(screen, 65536)
except OSError:
    pass
with open('screen', 'wb') as f:
    f.write(text.replace(b'\r', b'\n'))
sys.exit(p.wait())
E

# shows REGEX NAME: and at the end nothing of it is left.
shows()
{
	like "$(cat screen)" "$1" "$2"
	like "$(tail -n 1 screen)" '^ +$' 'and goes'
}

# slowly FILE BYTES: its bytes, so many each 0.1 seconds.
slowly()
{
	perl -e '$| = 1;
		open my $f, "<", $ARGV[0] or die;
		while (read $f, my $part, $ARGV[1]) {
			print $part;
			select undef, undef, undef, 0.1;
		}' "$1" "$2"
}

head -c 16000 /dev/urandom >in
head -c 4194304 /dev/urandom >big
mkfifo pipe
i=0
while [ $i -lt 4800 ]; do
	printf 'k%s\tin\n' $i
	i=$((i + 1))
done >lines
cut -f 1 lines >keys

slowly lines 2600 >pipe &
ok 'put many, which come slowly' timeout 60 python3 seen.py kvput $A --batch pipe
shows '^[0-9]+ keys  [0-9.]+ MiB  [0-9.]+ .*/s' 'the line tells of them'
slowly in 1000 >pipe &
printf 'a\tin\nb\tpipe\n' >two
ok 'put two, one of them slow' timeout 60 python3 seen.py kvput $A --batch two
shows '^0 keys  [0-9.]+ KiB  [0-9.]+ .*/s' 'the line tells what is read'
slowly keys 1700 >pipe &
ok 'get many' from pipe timeout 60 python3 seen.py kvget $A --batch got
shows '^[0-9]+ keys  [0-9.]+ MiB  [0-9.]+ .*/s' 'the line tells of them'

slowly big 262144 >pipe &
ok 'put one, from a pipe' timeout 60 python3 seen.py kvput $A big pipe
shows '^0 keys  [0-9.]+ MiB  [0-9.]+ .*/s' 'the line tells what is read'
slowly pipe 262144 >slow &
ok 'get one, into a pipe' timeout 60 python3 seen.py kvget $A -o pipe big
shows '^[01]/1 keys  [0-9.]+ MiB of 4.0 MiB  [0-9.]+ .*/s' \
	'the line tells what is written'
wait $!
ok 'it is all there' cmp slow big

ok 'short work' timeout 60 python3 seen.py kvget $A -o got2 big
is "$(cat screen)" '' 'has no line'
slowly big 262144 >pipe &
ok 'nor has --json' timeout 60 python3 seen.py kvput $A --json big2 pipe
is "$(cat screen)" '' 'of any work'
slowly big 262144 >pipe &
ok 'nor has what is no terminal' kvput $A big3 pipe
is "$(cat err)" '' 'of any work'
end_all
done_testing

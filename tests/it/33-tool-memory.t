#!/bin/sh
# kvget and kvput map no more of the local pool than they use, wherever in it
# that lies.
# shellcheck disable=SC2086 # A is several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

require python3
start_master m
start_client a --global-segment-size=512MB
wait_nodes 1
A=$(via a)
cd "$T" || exit 70

# Runs a program that says more than its stderr takes, and looks at it when that
# is full: kB of shared memory in its page table.
cat >shared.py <<'E'
import array, fcntl, os, re, subprocess, sys, termios, time

r, w = os.pipe()
fcntl.fcntl(w, 1031, 4096)  # F_SETPIPE_SZ
p = subprocess.Popen(sys.argv[1:], stderr=w)
os.close(w)
said, was, until = array.array('i', [0]), -1, time.time() + 60
while time.time() < until and (said[0] < 3000 or said[0] != was):
    was = said[0]
    time.sleep(0.1)
    fcntl.ioctl(r, termios.FIONREAD, said)
with open('/proc/%d/status' % p.pid) as f:
    print(re.search(r'RssShmem:\s*(\d+)', f.read()).group(1))
while os.read(r, 65536):
    pass
sys.exit(p.wait())
E

# Keys of 200 bytes: 30 of them are more than the pipe holds.
key()
{
	printf '%0200d' "$1"
}

head -c 1048576 /dev/urandom >in
i=0
while [ $i -lt 480 ]; do
	printf '%s\tin\n' "$(key $i)"
	i=$((i + 1))
done >lines
ok 'fill the pool' kvput $A --batch lines
i=480
set --
while [ $i -gt 0 ]; do
	i=$((i - 16))
	set -- "$@" "$(key $i)"
done
is $# 30 'every 16th of the keys'

# within LOW HIGH: of $T/out
within()
{
	kb=$(cat out)
	if [ "${kb:-0}" -ge "$1" ] && [ "${kb:-0}" -le "$2" ]; then
		pass "$3"
	else
		fail "$3"
		diag "$kb kB, wanted $1 to $2"
	fi
}

# The kernel may add some pages at the ends of a value.
used=30720
ok 'get them, from the end on' python3 shared.py kvget $A -v --batch got "$@"
within $used $((used + 30 * 64)) 'just them are mapped'
ok 'remove them' kvrm $A "$@"
for name; do
	printf '%s\tin\n' "$name"
done >again
ok 'put them again, into the gaps' python3 shared.py kvput $A -vv --batch again
within $used $((used + 30 * 64)) 'just the gaps are mapped'

# Where the pool does not fit into the address space its bytes come over TCP;
# the sanitizers need more of that than there is.
case ${BUILD:-release} in
asan | tsan) ;;
*)
	head -c 3000000 /dev/urandom >large
	ok 'a put without room for the mapping' prlimit --as=100000000 \
		kvput $A large large
	like "$(cat err)" 'cannot map the local node.s pool: .* .see ulimit -v' \
		'says why it takes the long way'
	ok 'and a get' prlimit --as=100000000 kvget $A -o long large
	ok 'with its bytes' cmp -s long large ;;
esac
end_all
done_testing

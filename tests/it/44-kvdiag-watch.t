#!/bin/sh
# kvdiag watch: in a terminal, which it gives back as it was; without one; for
# programs; and with what comes and goes meanwhile.
# shellcheck disable=SC2046,SC2086 # A, M and via are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

require_terminals
cd "$T" || exit 70

exits 69 'without a pool' timeout 20 kvdiag --socket= \
	--master=127.0.0.1:"$(free_port)" watch
like "$(cat err)" '^kvdiag: watch: no master answers' 'says so'
exits 64 'an interval for another' kvdiag --socket= -n 1 nodes
exits 64 'an interval that is none' kvdiag --socket= watch -n 0
exits 64 'an argument' kvdiag watch x

start_master m
start_client a
start_client b
wait_nodes 2
A="--socket=$(socket a) --master=$MASTERS"

# ---- without a terminal ----

# lines NAME N OPTION...: watches until the file has N lines, then ends it.
lines()
{
	lines_file=$1
	lines_n=$2
	shift 2
	kvdiag "$@" watch -n 0.2 >"$lines_file" 2>&1 &
	lines_pid=$!
	lines_left=400
	until [ "$(wc -l <"$lines_file")" -ge "$lines_n" ]; do
		lines_left=$((lines_left - 1))
		[ $lines_left -gt 0 ] || break
		sleep 0.05
	done
	kill -TERM $lines_pid
	wait $lines_pid
}
ok 'three pictures, then it is told to end' lines plain 27 $A
like "$(head -n 1 plain)" '^[0-9][0-9]:[0-9][0-9]:[0-9][0-9], each 200.* ms$' \
	'the time'
is "$(grep -c '^nodes:' plain)" "$(grep -c '^masters:' plain)" \
	'the same lines each time'
like "$(cat plain)" "^  127.0.0.3 +live +256.0 MiB" 'the nodes'
like "$(cat plain)" '^  all +- +512.0 MiB' 'and all of them'
is "$(tr -d '\n -~' <plain)" '' 'and nothing for terminals'

(
	i=0
	while [ $i -lt 600 ] && [ ! -e enough ]; do
		i=$((i + 1))
		echo value | kvput $A "key$i"
		kvget $A "key$i" >got
	done
) &
load=$!
ok 'as JSON, under load' lines json 12 --json $A
: >enough
wait $load
cat >objects.py <<'P'
import json
import sys
ups = 0
for line in open(sys.argv[1]):
    v = json.loads(line)
    assert v['masters'][0]['status'] == 'ok' and v['masters'][0]['nodes'] == 2
    assert len(v['nodes']) == 2 and v['time_s'] > 1e9
    t = v['total']
    assert t['pool_bytes'] == 1 << 29
    if t['puts_per_s']:
        ups += t['puts_per_s'] > 1 and t['put_bytes_per_s'] > 5
        assert t['puts_per_s'] == sum(n['puts_per_s'] for n in v['nodes'])
    ups += bool(t['hits_per_s'])
assert ups >= 2, ups
P
ok 'an object a line, with rates' python3 objects.py json
kvdiag $A watch -n 0.1 | head -n 1 >first
is "$(wc -l <first)" 1 'ends when its reader does'

# ---- in a terminal ----

cat >terminal.py <<'P'
"""Runs the words in a terminal; acts on what it shows; tells what became."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

act, words = sys.argv[1], sys.argv[2:]


def size(rows, columns):
    fcntl.ioctl(master, termios.TIOCSWINSZ,
                struct.pack('HHHH', rows, columns, 0, 0))


master, slave = pty.openpty()
size(12, 60)
before = termios.tcgetattr(slave)
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    os.execvp(words[0], words)
shown = b''


def show(seconds, until=None):
    global shown
    end = time.time() + seconds
    while time.time() < end:
        if until and until in shown:
            return True
        if select.select([master], [], [], 0.05)[0]:
            shown += os.read(master, 65536)
    return False


def screens():
    return shown.split(b'\x1b[H')[1:]


def fits(rows, columns, parts):
    for part in parts:
        lines = re.sub(rb'\x1b\[[?0-9]*[a-zA-Z]', b'', part).replace(
            b'\r', b'').split(b'\n')
        if len(lines) > rows or max(map(len, lines)) > columns:
            return f'{len(lines)} {max(map(len, lines))}'
    return 'fits'


print('shows', show(20, b'127.0.0.3'))
now = termios.tcgetattr(slave)
print('raw', not now[3] & (termios.ECHO | termios.ICANON))
print('page', shown.startswith(b'\x1b[?1049h'))
print('size', fits(12, 60, screens()))
if act == 'resize':
    count = len(screens())
    size(8, 40)
    show(3)
    print('again', fits(8, 40, screens()[count + 1:]),
          len(screens()) > count + 1)
    act = 'q'
if act == 'stop':
    os.write(master, b'\x1a')
    show(10, b'\x1b[?1049l')
    time.sleep(0.2)
    print('stopped', os.waitpid(pid, os.WUNTRACED)[1] >> 8 == signal.SIGSTOP,
          termios.tcgetattr(slave)[3] == before[3])
    shown = b''
    os.kill(pid, signal.SIGCONT)
    print('goes on', show(10, b'127.0.0.3'))
    act = 'q'
if act == 'q':
    os.write(master, b'xq')
elif act == 'ctrl-c':
    os.write(master, b'\x03')
elif act == 'term':
    os.kill(pid, signal.SIGTERM)
elif act == 'hangup':
    os.kill(pid, signal.SIGHUP)
show(10, b'\x1b[?1049l')
print('back', shown.endswith(b'\x1b[?25h\x1b[?1049l'),
      termios.tcgetattr(slave)[3] == before[3])
print('status', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
for act in q ctrl-c term hangup; do
	ok "a terminal, and $act" timeout 60 python3 terminal.py $act \
		kvdiag $A watch
	is "$(xargs <out)" \
		'shows True raw True page True size fits back True True status 0' \
		"$act ends it and gives the terminal back"
done
ok 'another size' timeout 60 python3 terminal.py resize kvdiag $A watch
like "$(cat out)" '^again fits True' 'is kept to'
like "$(cat out)" '^status 0' 'and it ends'
ok 'Ctrl-Z' timeout 60 python3 terminal.py stop kvdiag $A watch
like "$(cat out)" '^stopped True True' 'stops it, with the terminal given back'
like "$(cat out)" '^goes on True' 'and it goes on'
like "$(cat out)" '^back True True' 'and gives it back at last'

# ---- what comes and goes ----

kvdiag --json $A watch -n 0.2 >changes 2>&1 &
watch=$!
sees()
{
	tail -n 3 changes | grep -q "$1"
}
ok 'it sees two nodes' try_for 10 sees '"nodes": 2'
end b
ok 'one has left' try_for 20 sees '"nodes": 1'
start_client c
ok 'another has come' try_for 20 sees '"nodes": 2'
end m KILL
ok 'the master is gone' try_for 20 sees '"status": "[^o]'
like "$(tail -n 1 changes)" '"node": "127.0.0.2"' \
	'the node of this host is shown'
again m
ok 'it is back' try_for 20 sees '"status": "ok", "nodes": 2'
kill -TERM $watch
wait $watch
is $? 0 'and it ends well'
is "$(grep -vc '^{.*}$' changes)" 0 'each line is an object'
end_all
done_testing

#!/bin/sh
# case-015: socket files that are stale, in use, too long, or cannot be made:
# one daemon a socket, no name is cut, and no file of others is touched.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
require perl
cd "$T" || exit 70
echo value >in

# node NAME SOCKET
node()
{
	launch "$1" kvclient --port=0 --global-segment-size=16MB --socket="$2"
}

# taken NAME PATH PID: a newcomer leaves
taken()
{
	exits 69 "$1" timeout 10 kvclient --port=0 --socket="$2" \
		--global-segment-size=16MB
	like "$(cat err)" "cannot listen on $2: already running, pid $3\$" \
		'says who has it'
	is "$(wc -l <err)" 1 'in one line'
}

# ---- stale ----

stale()
{
	perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => shift,
		Listen => 1) or die' "$1"
}
stale s
exits 69 'nobody serves a stale socket' kvget --socket=s --timeout=1s k
ok 'a daemon takes its place' node first s
ok 'and serves' kvput --socket=s k in
end first KILL
ok 'killed, it leaves it' test -S s
ok 'for the next one' node second s
ok 'which serves' kvput --socket=s k in
taken 'while it does a newcomer leaves' s "$(pid_of second)"
exits 69 'whatever it is called' timeout 10 kvclient --port=0 \
	--global-segment-size=16MB --socket="$T/./s"
ok 'it serves as before' kvget --socket=s k
end second
is $end_status 0 'it ends well'
not_ok 'and takes its socket along' test -e s

# Several at once, over a stale one: one of them wins.
stale s
for i in 1 2 3 4; do
	kvclient --port=0 --global-segment-size=16MB --socket=s >"race$i.log" 2>&1 &
	echo $! >"race$i.pid"
	cluster_names="race$i $cluster_names"
done
settled()
{
	[ "$(cat race?.log | grep -c -e ' ready ' -e 'already running')" -eq 4 ]
}
ok 'four at once over a stale one' try_for 10 settled
is "$(cat race?.log | grep -c ' ready ')" 1 'one of them is there'
winner=$(grep -l ' ready ' race?.log)
winner=${winner%.log}
ok 'and serves' kvput --socket=s k in
for i in 1 2 3 4; do
	[ race$i != "$winner" ] || continue
	code=0
	wait "$(pid_of race$i)" || code=$?
	is $code 69 "$i: the others leave"
	like "$(cat race$i.log)" "already running, pid $(pid_of "$winner")\$" \
		'because of that one'
done
cluster_names="$winner "

# Somebody cleans up under its hands; the next one is not harmed by its end.
rm -f s s.lock
ok 'another one, the files were removed' node next s
end "$winner"
is $end_status 0 'the first ends'
ok 'the other has its socket' kvput --socket=s k in
end next
not_ok 'until its own end' test -e s

# ---- too long ----

long()
{
	printf '%s/' "$T"
	head -c $(($1 - ${#T} - 1)) /dev/zero | tr '\0' s
}
ok '107 bytes' node long "$(long 107)"
ok 'are a name' kvput --socket="$(long 107)" k in
is "$(find . -name 'sss*' | grep -cv lock)" 1 'the whole name'
end long
for n in 108 200 5000; do
	exits 64 "$n bytes" timeout 10 kvclient --port=0 \
		--global-segment-size=16MB --socket="$(long $n)"
	is "$(cat err)" 'kvclient: --socket: longer than 107 bytes' \
		'are too many: the line has the limit'
	exits 64 'also for those who ask' kvget --socket="$(long $n)" k
done
printf '{"socket": "%s"}' "$(long 108)" >conf
exits 64 'and from a file' timeout 10 kvclient --config=conf --port=0
like "$(cat err)" '107' 'with the limit'
is "$(find . -name 'sss*' -type s)" '' 'nothing is left'

# ---- where there can be none ----

# cannot CODE PATH PATTERN [COMMAND...]
cannot()
{
	cannot_code=$1 cannot_path=$2 cannot_text=$3
	shift 3
	exits "$cannot_code" "a socket at $cannot_path" timeout 10 "$@" kvclient \
		--port=0 --global-segment-size=16MB --socket="$cannot_path"
	is "$(wc -l <err)" 1 'one line'
	like "$(cat err)" "cannot listen on $cannot_path: .*$cannot_text" \
		'has path and reason'
}
cannot 64 "$T/absent/s" 'its folder does not exist'
cannot 69 "$T" 'no socket'
cannot 69 "$T/in" 'no socket'
is "$(cat in)" value 'the file is untouched'
cannot 69 "$T/in/s" 'Not a directory|folder'
if mkdir ro && mount -t tmpfs -o ro tmpfs ro 2>/dev/null; then
	at_exit "umount '$T/ro'"
	cannot 69 "$T/ro/s" 'Read-only file system'
else
	skip 'a read-only folder' 'cannot mount'
fi
if setpriv --reuid=65534 --clear-groups true 2>/dev/null; then
	chmod 755 .
	cannot 77 "$T/s" 'Permission denied' setpriv --reuid=65534 --clear-groups
else
	skip 'a folder that is not ours' 'cannot change the user'
fi
end_all
done_testing

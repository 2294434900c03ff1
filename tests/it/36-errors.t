#!/bin/sh
# Bad options, and nobody there: one line that says what is wrong, and the exit
# code that the manuals promise. --help and --version.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
cd "$T" || exit 70
echo value >in

for program in kvput kvget kvrm kvdiag; do
	ok "$program --version" $program --version
	like "$(cat out)" "^$program \\(kvpool\\) [0-9.]+$" 'name and version'
	ok "$program --help" $program --help
	is "$(expand out | grep -c '.\{81\}')" 0 'fits the screen'
	ok 'and is short' test "$(wc -l <out)" -le 34
	is "$(cat err)" '' 'is no complaint'
	exits 64 "$program --bad" $program --bad
	like "$(cat err)" "unrecognized option '--bad'" 'says so'
	exits 64 "$program without anything" $program
	is "$(wc -l <err)" 1 'one line'
done

# full COMMAND...: where stdout takes nothing.
full()
{
	"$@" >/dev/full
}
for program in kvmaster kvclient kvput kvget kvrm kvdiag kvbench; do
	for option in --help --version --usage; do
		exits 74 "$program $option to a full disk" full $program $option
		is "$(cat err)" "$program: stdout: No space left on device" \
			'says so'
	done
	exits 64 "$program --bad, there" full $program --bad
done

# usage CODE COMMAND...: ends with 64 and one line.
usage()
{
	exits 64 "$*" "$@"
	is "$(wc -l <err)" 1 'one line'
}
usage kvput k in more
usage kvput --batch lines more
usage kvput -0 k in
usage kvput -r 0 k in
usage kvput -r 9 k in
usage kvput -r x k in
usage kvput --soft-pin --hard-pin k in
usage kvput --timeout 1x k in
usage kvput --timeout 0 k in
usage kvput -m 'a b' k in
usage kvput -m host:99999 k in
usage kvput --qps 0 k in
usage kvput --qps 5 k in
usage kvget --qps x k
usage kvbench --slice-size 0 store
usage kvbench --slice-size 5TB store
usage kvclient --slice-size 1KB
usage kvput -m '' -s '' --tenant '' k in
usage kvget k l
usage kvget -0 k
usage kvget --json k
usage kvget -o f --batch d
usage kvget -o f --exist k
usage kvget --exist --batch d k
usage kvrm --all k
usage kvrm --regex x k
usage kvrm --regex x --all
usage kvdiag odd
usage kvdiag nodes more
usage kvdiag key
usage kvdiag key k more
usage kvdiag -0 nodes
usage kvdiag -0 --json keys
usage kvput -s "/tmp/$(head -c 103 /dev/zero | tr '\0' s)" k in
like "$(cat err)" '--socket: longer than 107 bytes' 'with the limit'

# Nobody there: who that is, at once.
port=$(free_port)
for command in 'kvput k in' 'kvput --batch in' 'kvget k' 'kvget --exist k' \
	'kvget --batch d k' 'kvrm k' 'kvrm --all' 'kvdiag nodes' \
	'kvdiag key k' 'kvdiag stats'; do
	# shellcheck disable=SC2086 # several words
	exits 69 "$command, no master" \
		$command --timeout=1s --socket= "--master=127.0.0.1:$port"
	is "$(wc -l <err)" 1 'one line'
	like "$(cat err)" "^kv[a-z]*: master 127.0.0.1:$port: " 'names it'
done
not_ok 'no folder was made' test -e d

exits 69 'a name that is none' \
	kvget --socket= -m "127.0.0.1:$port,no.such.host.invalid" --timeout=1s k
is "$(wc -l <err)" 1 'one line'
like "$(cat err)" '127.0.0.1:[0-9]+: nobody listens there' 'says it of each'
like "$(cat err)" 'no.such.host.invalid:50051: cannot resolve the name: ' \
	'and why'
exits 69 'neither socket nor master' kvget --socket= k
is "$(wc -l <err)" 1 'one line'

# case-015: sockets.
exits 69 'no socket' kvget -s "$T/absent" k
is "$(cat err)" "kvget: $T/absent: no kvclient answers there: no such socket" \
	'names it'
is "$(wc -l <err)" 1 'one line'
perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => shift, Listen => 1)
	or die' stale
exits 69 'a stale socket' kvget -s "$T/stale" --timeout=2s k
like "$(cat err)" "^kvget: $T/stale: " 'names it'
exits 69 'a file that is no socket' kvget -s "$T/in" k
is "$(cat err)" "kvget: $T/in: no kvclient answers there: it is no socket" \
	'says so'
longest=$T/$(head -c $((106 - ${#T})) /dev/zero | tr '\0' s)
exits 69 'a path of 107 bytes' kvget -s "$longest" k
like "$(cat err)" 'no such socket' 'is none too many'

# case-023: variables that Kubernetes sets; the daemons below have them, too.
export KVMASTER_PORT=tcp://10.0.0.1:50051 KVCLIENT_PORT=tcp://10.0.0.1:50052 \
	KVPOOL_PORT=tcp://10.0.0.1:1 MOONCAKE_MASTER_PORT=tcp://10.0.0.1:50051 \
	MOONCAKE_MASTER_SERVICE_HOST=10.0.0.1
exits 69 'KVCLIENT_PORT and the like mean nothing' \
	kvget --socket= -m "127.0.0.1:$port" --timeout=1s k
unlike "$(cat err)" '10\.0\.0\.1' 'not even a word'

# In Kubernetes the name of a service may come later than who needs it
# (case-014).
if unshare -m true 2>/dev/null; then
	start_master m
	cp /etc/hosts hosts
	# shellcheck disable=SC2016 # for the inner shell
	launch later unshare -m sh -c 'mount --bind hosts /etc/hosts
		exec kvclient "$@"' - --port=0 --socket="$T/later.sock" \
		--global-segment-size=16MB "--master=later.invalid:${MASTERS#*:}"
	ok 'kvclient with a name that nobody has' try_for 10 \
		grep 'later.invalid:[0-9]*: cannot resolve the name: ' later.log
	echo '127.0.0.1 later.invalid' >>hosts
	ok 'finds its master when somebody has it' wait_nodes 1
	end_all
else
	skip 'a name that comes later' 'unshare: not permitted'
fi

# The configuration file.
printf '{"master_server_address": "127.0.0.1:%s", "mode": "x"}' "$port" >conf
exits 78 'a bad file' env MOONCAKE_CONFIG_PATH=conf kvget k
like "$(cat err)" '^kvget: conf: ' 'named'
printf '{"master_server_address": "127.0.0.1:%s"}' "$port" >conf
exits 69 'a good file' env MOONCAKE_CONFIG_PATH=conf \
	kvget --socket= --timeout=1s k
like "$(cat err)" "master 127.0.0.1:$port: " 'is followed'
done_testing

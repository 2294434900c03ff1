#!/bin/sh
# Keys, values, batches and configuration files at their bounds and beyond: the
# documented result, or one line that says what is wrong, and the exit code.
# More of it: any bytes as keys in 32, sizes in 30, lines of --batch in 31,
# options in 36, ports in 15, 20 and 50, sockets in 24, addresses in 23.
# shellcheck disable=SC2046,SC2086 # at, A and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"
. "$(dirname "$0")/../lib/promise.sh"
cd "$T" || exit 70

http=$(free_port)
start_master m --http-port="$http"
start_client a --global-segment-size=128MB
start_client b --global-segment-size=128MB
wait_nodes 2
A=$(via a)
B=$(via b)
echo value >in

# ---- keys ----

longest=$(head -c 1024 /dev/zero | tr '\0' k)

# no_key TOOL [ARGUMENT...] KEY
no_key()
{
	exits 64 "$1: a key of $no_key_bytes bytes" "$@"
	is "$(cat err)" "$1: $no_key_says" 'one line says so'
	is "$(cat out)" '' 'and nothing else'
}
# query KEY: the HTTP status
query()
{
	perl "$TOP/tests/lib/http.pl" GET \
		"http://127.0.0.1:$http/query_key?key=$1"
}
for key in '' "k$longest"; do
	no_key_bytes=${#key}
	no_key_says="the key has ${#key} bytes, more than 1024"
	[ "$key" ] || no_key_says='the key is empty'
	no_key kvput $A "$key" in
	no_key kvget $A "$key"
	no_key kvget $A -o got "$key"
	no_key kvget $A --exist "$key"
	no_key kvget $A --batch d "$key"
	no_key kvrm $A "$key"
	no_key kvdiag $A key "$key"
	is "$(query "$key" 2>&1)" 400 'HTTP says 400'
	like "$(cat body)" '"a key has 1 to 1024 bytes"' 'and why'
	# Among others it is that one which fails.
	exits 64 'among others' kvget $A --exist none "$key" nothing
done
not_ok 'no file was made' ls got d
is "$(kvdiag $M keys)" '' 'nothing was stored'
ok 'a key of 1024 bytes' kvput $A "$longest" in
ok 'is one' kvget $B "$longest" -o got
ok 'the same' cmp in got
is "$(query "$longest")" 200 'over HTTP too'

# ---- values ----

: >nothing
ok 'an empty value' kvput $A empty nothing
ok 'exists' kvget $B --exist empty
ok 'is got' kvget $B -o got empty
is "$(wc -c <got)" 0 'with its no bytes'
ok 'kvdiag key' kvdiag $M --json key empty
like "$(json out)" '"exists":true,"size_bytes":0,"copies_are":"equal"' \
	'tells it from a miss'
is "$(query empty)" 200 'so does HTTP'
exits 1 'a miss' kvdiag $M --json key none
like "$(json out)" '"exists":false' 'is one'
is "$(query none)" 404 'over HTTP too'
printf x >one
ok 'one byte' kvput $A one one
ok 'is got' kvget $B -o got one
ok 'the same' cmp got one

# Too large for any pool, in a batch with others.
truncate -s 129M large
printf 'first\tin\nhuge\tlarge\nempty2\tnothing\nlast\tin\n' >lines
for where in "$A" "$M"; do
	exits 65 'one larger than the pool' kvput $where --batch --json lines
	is "$(json out | sed 's/,"size_bytes":[0-9]*,"replicas":[0-9]//g')" \
		"$(printf '[%s,%s,%s,%s]' '{"key":"first","status":"ok"}' \
			'{"key":"huge","status":"toobig"}' \
			'{"key":"empty2","status":"ok"}' \
			'{"key":"last","status":"ok"}')" 'fails alone'
	is "$(wc -l <err)" 1 'one line'
	like "$(cat err)" '^kvput: huge: .*too large.*129.0 MiB wanted' 'says why'
	exits 1 'the others are there' kvget $B --exist first empty2 last huge
	is "$(cut -f 2 out | xargs)" '1 1 1 0' 'and it is not'
	ok 'remove them' kvrm $A first empty2 last
done

# ---- batches ----

printf 'k\tone\nk\tin\nother\tin\nk\tone\n' >lines
ok 'the same key three times' kvput $M --batch --json lines
is "$(grep -c '"ok"' out) $(grep -c '"exists"' out)" '2 2' \
	'is put once, and exists'
ok 'get it' kvget $B -o got k
ok 'the first one' cmp got one
ok 'get it twice' kvget $B --batch d k other k
ok 'the first one' cmp d/k one
ok 'asked for twice' kvget $B --exist k k
is "$(cat out)" "$(printf 'k\t1\nk\t1')" 'answered twice'
ok 'removed twice' kvrm --force $B k k
exits 1 'it is gone' kvget $A --exist k

# In one call of the library; kvput makes many of it (31).
for where in a -; do
	for what in put exist get; do
		watch $what --do=$what --once --keys=100000 --batch=100000 \
			--size=200 --prefix="many$where" \
			--timeout-ms=$((10000 * KV_SLOW)) $(at $where)
		is "$(sum $what 3)" 100000 "100,000 keys in a call: $what at $where"
	done
done
watch none --once --keys=100000 --batch=100000 --size=200 --prefix=none $(at b)
is "$(sum none 4)" 100000 'and as many misses'

# ---- configuration ----

# config REASON JSON: nobody starts with it, and everybody says why.
config()
{
	printf '%s' "$2" >conf.json
	for config_program in "kvclient --socket=$T/x --port=0" kvmaster; do
		exits 78 "${config_program%% *}: $2" timeout 10 \
			$config_program --config=conf.json
		is "$(cat err)" "${config_program%% *}: conf.json$1" 'why'
	done
	for config_program in 'kvput k in' 'kvget k' 'kvrm k' 'kvdiag nodes' \
		'kvdiag config'; do
		exits 78 "$config_program: $2" \
			env MOONCAKE_CONFIG_PATH=conf.json $config_program
		is "$(cat err)" "${config_program%% *}: conf.json$1" 'why'
	done
}
config ": unknown Mooncake mode: 'xyz'" '{"mode": "xyz"}'
config ": global_segment_size: Invalid numeric value '1.2.3' in: '1.2.3gb'" \
	'{"global_segment_size": "1.2.3gb"}'
config ": local_buffer_size: Unsupported type for size: <class 'list'>" \
	'{"local_buffer_size": [4]}'
config ': local_buffer_size must be > 0' '{"local_buffer_size": 0}'
config ': embedded mode requires global_segment_size > 0' \
	'{"global_segment_size": 0}'
config ': standalone-store mode requires global_segment_size == 0' \
	'{"mode": "standalone-store"}'
config ': tenant_id must be a string or null, got bool: False' \
	'{"tenant_id": false}'
config ': master_server_address: must be a string, not int' \
	'{"master_server_address": 50051}'
config ": master_server_address: 'a b': that is no host name" \
	'{"master_server_address": "a b"}'
config ": host: 'h:1': the port is --port" '{"host": "h:1"}'
config ": port: '70000' is no port (0..65535)" '{"port": 70000}'
config ": client_ttl: 'soon' is no duration such as 10s or 500ms" \
	'{"client_ttl": "soon"}'
config ":1:1: expected '{': the file holds one object" '[]'
config ':1:1: expected a value' ''
config ':1:9: expected a value' '{"mode":'

# What would be taken for something else.
for args in --global-segment-size=1 --protocol=foo --tenant= ; do
	exits 64 "kvclient $args" timeout 10 kvclient --port=0 \
		--socket="$T/small.sock" $args
	is "$(wc -l <err)" 1 'a line'
done
long=$(head -c 65 /dev/zero | tr '\0' t)
exits 64 'a tenant of 65 bytes' kvput $A --tenant="$long" k in
is "$(cat err)" 'kvput: --tenant: longer than 64 bytes' 'names the option'

for where in absent .; do
	exits 78 "--config=$where" timeout 10 kvclient --config=$where
	like "$(cat err)" "^kvclient: $where: (No such file|Is a directory)" 'why'
done

# A key that nobody knows is a spelling mistake, or another program's.
printf '{"global_segment_size": "16MB", "global_segment_sise": 1, %s}' \
	'"local_hostname": "h"' >conf.json
launch unknown kvclient --config=conf.json --port=0 --socket="$T/unknown.sock"
like "$(cat unknown.log)" \
	'^kvclient: conf.json: unknown key "global_segment_sise" is ignored' \
	'an unknown key is a line'
unlike "$(cat unknown.log)" local_hostname 'but not one of Mooncake'
ok 'and it starts' kvput --socket="$T/unknown.sock" k in
end_all
done_testing

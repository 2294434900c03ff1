#!/bin/sh
# What the daemons say over HTTP: each path, metrics that Prometheus takes and
# the manuals list, keys of any bytes, and clients that ask for too much.
# shellcheck disable=SC2086 # A and M are several words
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

perl -MJSON::PP -MMIME::Base64 -MIO::Socket::INET -e 1 2>/dev/null ||
	skip_all 'perl has no JSON::PP'
cd "$T" || exit 70

# get PATH, post PATH: the status in $status, the body in the file body.
get()
{
	status=$(perl "$TOP/tests/lib/http.pl" "${2:-GET}" "$http$1" \
		${3:+"$3"} 2>&1)
}
post()
{
	get "$1" POST
}

# answers STATUS PATH [METHOD]
answers()
{
	get "$2" "${3:-GET}"
	is "$status" "$1" "${3:-GET} $2: $1"
}

body()
{
	cat body
}

# value FILE NAME...: what the JSON of the file has there.
cat >value.pl <<'E'
use JSON::PP;
open(my $f, '<', shift) or die;
local $/;
my $v = JSON::PP->new->utf8->decode(<$f>);
$v = ref $v eq 'ARRAY' ? $_ eq 'n' ? @$v : $v->[$_] : $v->{$_} for @ARGV;
print !defined $v ? 'null' : JSON::PP::is_bool($v) ? $v ? 'true' : 'false' : $v;
E
value()
{
	perl value.pl body "$@" 2>&1
}

# ---- a master alone ----

port=$(free_port)
http=http://127.0.0.1:$port
start_master m --http-port="$port"
like "$(cat m.log)" " ready .* http=$port " 'the ready line says where'
answers 200 /health
is "$(value status) $(value service_ready) $(value nodes)" 'ok true 0' \
	'well, and nobody there'
answers 200 /get_all_segments
is "$(body)" '' 'no segment'
answers 200 /get_all_keys
is "$(body)" '' 'no key'
answers 404 /query_key?key=none
is "$(value success) $(value error_code)" 'false -704' "in Mooncake's words"
answers 404 /none
like "$(value error_message)" 'nothing at this path' 'says what is wrong'
answers 405 /health DELETE
like "$(cat head)" '^Allow: GET, HEAD' 'says what it allows'
answers 405 /api/v1/remove_all GET
answers 400 /query_key
answers 400 '/query_key?key=%zz'
answers 200 /metrics HEAD
is "$(body)" '' 'HEAD has no body'
for word in role=leader ha_status=serving 'leader={"present":false}'; do
	answers 200 "/${word%%=*}"
	is "$(body)" "${word#*=}" "is ${word#*=}"
done

exits 69 'a second one for the port' timeout 10 kvmaster --listen 127.0.0.1 \
	--rpc-port 0 --http-port "$port"
is "$(wc -l <err)" 1 'one line'
like "$(cat err)" "--http-port: HTTP port $port is in use already" 'says why'
exits 69 'and a kvclient' timeout 10 kvclient --port 0 --socket "$T/x.sock" \
	--global-segment-size=32MB --http-port "$port"
like "$(cat err)" "--http-port: HTTP port $port is in use already" 'says why'

# ---- nodes ----

clientport=$(free_port)
start_client a --http-port="$clientport"
start_client b
wait_nodes 2
A="--socket=$(socket a) --master=$MASTERS"
get /get_all_segments
is "$(body)" "$(addr a)
$(addr b)" 'the nodes by their addresses'
get /get_segments_detail
is "$(value total_segments) $(value segments 1 segment_name)" \
	"2 $(addr b)" 'in detail'
is "$(value segments 0 size_bytes) $(value segments 0 status)" '268435456 OK' \
	'with size and status'
answers 200 "/query_segment?segment=$(addr a)"
like "$(body)" '^Capacity\(bytes\) : 268435456$' 'one node'
answers 200 "/api/v1/segments/status?segment=$(addr a)"
is "$(value status_name)" OK 'its status'
answers 404 /query_segment?segment=nobody

# ---- keys are bytes ----

cat >escape.pl <<'E'
$/ = "\0";
while (<STDIN>) {
	chomp;
	s/([^A-Za-z0-9_.~-])/sprintf '%%%02X', ord $1/gse;
	print "$_\n";
}
E
: >keys0
for key in 'vllm@/disc/models/opt-125m/@1@0@3d29ad4a@metadata' 'a b' 'a%2Fb' \
	'a+b' 'x?y&z=1#t' 'ключ/鍵' '../../tmp/pwn' '-n' 'a,b' '{"a":1}' \
	'new\nline' '\n' '\0377\0376' '\0001\0177' '\0134' '"'; do
	printf '%b\0' "$key" >>keys0
done
head -c 1024 /dev/zero | tr '\0' k >>keys0
printf '\0' >>keys0
echo value >v
perl -0ne 'chomp; print "$_\tv\0"' keys0 >lines
ok 'put them' from lines kvput $A --batch -0
printf 'n\0ul\tv\n' >lines
ok 'and one with a NUL' from lines kvput $A --batch
perl escape.pl <keys0 >escaped
echo 'n%00ul' >>escaped
count=$(wc -l <escaped)

bad=
while read -r key; do
	get "/query_key?key=$key"
	[ "$status $(value size_)" = '200 6' ] || bad="$bad $key=$status"
done <escaped
is "$bad" '' 'each is found'
like "$(value transport_endpoint_)" '^127\.0\.0\.[23]:[0-9]+$' 'and where'
is "$(value protocol_)" tcp 'and how'

get "/batch_query_keys?$(sed 's/^/key=/' escaped | tr '\n' '&')key=none"
cat >batch.pl <<'E'
use JSON::PP;
use MIME::Base64;
local $/;
my $data = JSON::PP->new->utf8->decode(<STDIN>)->{data};
for my $key (sort keys %$data) {
	my $v = $data->{$key};
	my $name = $v->{key} ? decode_base64($v->{key}{b64}) : $key;
	utf8::encode($name) if utf8::is_utf8($name);
	next unless $v->{ok} && $v->{values}[0]{size_} == 6;
	$name =~ s/([^A-Za-z0-9_.~-])/sprintf '%%%02X', ord $1/gse;
	print "$name\n";
}
E
perl batch.pl <body | sort >found
sort escaped | cmp - found >cmp.out 2>&1
is "$(cat cmp.out)" '' 'all of them at once'
is "$(value data none ok) $(value data none error)" 'false no such key' \
	'and one that is not there'

cat >list.pl <<'E'
use JSON::PP;
use MIME::Base64;
local $/;
for (@{JSON::PP->new->utf8->decode(<STDIN>)->{keys}}) {
	my $key = ref $_ ? decode_base64($_->{b64}) : $_;
	utf8::encode($key) if utf8::is_utf8($key);
	$key =~ s/([^A-Za-z0-9_.~-])/sprintf '%%%02X', ord $1/gse;
	print "$key\n";
}
E
get '/get_all_keys?json=1'
perl list.pl <body | sort | cmp - found >cmp.out 2>&1
is "$(cat cmp.out)" '' 'the list as JSON has them all'
is "$(value away n)" 0 'nobody was away'
get /get_all_keys GET 'Accept: application/json'
is "$(value keys n)" "$count" 'also by a header'
get /get_all_keys
is "$(wc -l <body)" "$count" 'as text a line for each'
ok 'as it is' grep -qxF 'vllm@/disc/models/opt-125m/@1@0@3d29ad4a@metadata' body
ok 'but for newlines' grep -qxF 'new%0Aline' body
ok 'and NULs' grep -qxF 'n%00ul' body

ok 'a key of a tenant' kvput $A --tenant=t mine v
get '/get_all_keys?tenant=t'
is "$(body)" mine 'in its list'
get '/query_key?key=mine'
is "$status" 404 'and not in the others'
ok 'two copies of a key' kvput $A -r 2 --tenant=t twice v
get '/get_all_keys?tenant_id=t'
is "$(sort body | tr '\n' ' ')" 'mine twice ' 'are one in the list'
get '/query_key?key=twice&tenant=t'
is "$(wc -l <body)" 2 'and two when asked for'

# ---- a long list ----

perl -e 'print "long/$_\tv\n" for 1 .. 20000' >lines
ok '20,000 keys' from lines kvput $A --tenant=long --batch
get '/get_all_keys?tenant=long'
is "$(sort -u body | grep -c '^long/')" 20000 'are listed'
get '/get_all_keys?tenant=long&json=1'
is "$(value keys n)" 20000 'also as JSON'

# A reader that stops in the middle holds up nobody.
cat >slow.pl <<'E'
use IO::Socket::INET;
my $s = IO::Socket::INET->new($ARGV[0]) or die;
print $s "GET /get_all_keys?tenant=long HTTP/1.1\r\nHost: x\r\n\r\n";
sysread $s, my $some, 100;
syswrite STDOUT, "reads\n";
sleep 60;
E
perl slow.pl "127.0.0.1:$port" >slow.out &
slow=$!
at_exit "kill $slow 2>/dev/null"
try_for 5 grep -q reads slow.out
answers 200 /health
kill $slow
wait $slow 2>/dev/null

# Half requests, more than there may be connections, hold up nobody either.
cat >half.pl <<'E'
use IO::Socket::INET;
my @all = map { IO::Socket::INET->new($ARGV[0]) or die "$_: $!" } 1 .. 600;
syswrite $_, "GET /health HTTP/1.1\r\nHost: x\r\nX-Half: " for @all;
syswrite STDOUT, "open\n";
sleep 60;
E
for half_port in "$port" "$clientport"; do
	perl half.pl "127.0.0.1:$half_port" >half.out 2>&1 &
	half=$!
	at_exit "kill $half 2>/dev/null"
	ok '600 half requests' try_for 10 grep -q open half.out
	ok 'health is told at once' timeout 3 perl "$TOP/tests/lib/http.pl" \
		GET "http://127.0.0.1:$half_port/health"
	kill $half
	wait $half 2>/dev/null
done

# ---- metrics ----

get /metrics
cp body master.prom
like "$(cat head)" '^Content-Type: text/plain; version=0.0.4' \
	'metrics by their type'
is "$(perl "$TOP/tests/lib/promlint.pl" <master.prom)" '' \
	'Prometheus would take them'
sum=$((count + 20000 + 2))
like "$(cat master.prom)" "^master_key_count $sum\$" 'how many keys'
like "$(cat master.prom)" "^mem_cache_nums_ $sum\$" 'all of them in memory'
like "$(cat master.prom)" '^master_active_clients 2$' 'how many nodes'
like "$(cat master.prom)" '^master_total_capacity_bytes 536870912$' 'how much'
like "$(cat master.prom)" \
	"^segment_total_capacity_bytes\\{segment=\"$(addr a)\"\\} 268435456\$" \
	'of each'
get /metrics/summary
is "$(wc -l <body)" 1 'a line for people'
like "$(body)" "Mem Storage: .* / 512.0 MiB .*\| Keys: $sum .*\| Clients: 2 " \
	'says how full it is'

http=http://127.0.0.1:$clientport
answers 200 /health
is "$(value status) $(value code) $(value masters)" 'healthy 0 1' 'of a node'
get /metrics
cp body client.prom
is "$(perl "$TOP/tests/lib/promlint.pl" <client.prom)" '' \
	'metrics of a node: Prometheus would take them'
like "$(cat client.prom)" '^kvpool_node_pool_bytes 268435456$' 'its pool'
like "$(cat client.prom)" '^kvpool_node_puts_ok_total [1-9]' 'what it stored'
get /metrics/summary
like "$(body)" '^Mem Storage: .* / 256.0 MiB \| Keys: ' 'its line for people'
answers 404 /get_all_keys

# The manuals name every metric and no other: of operations and actions the
# pattern.
names()
{
	sed -n '/^\.Ss Metrics/,/^\.Sh /s/^\.It Li //p' "$TOP/man/$1" |
		sed 's/ Ns Ar \(OP\|ACT\) Ns Li /\1/'
}
names kvmaster.8 >master.names
names kvclient.8 >client.names
ops='put_end\|get_replica_list\|exist_key'
acts='remove\|remove_by_regex\|remove_all\|mount_segment\|unmount_segment\|ping'
# missing NAMES OTHERS: those that are not among the others.
missing()
{
	sort -u "$2" >others
	sort -u "$1" | comm -23 - others
}
sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' master.prom |
	sed "s/^master_\\(batch_\\)\\{0,1\\}\\($ops\\)_/master_\\1OP_/
		s/^master_\\($acts\\)_\\([a-z]*_total\\)\$/master_ACT_\\2/" >shown
is "$(missing shown master.names)" '' 'kvmaster(8) names all metrics'
is "$(missing master.names shown)" '' 'and no others'
sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' client.prom >shown
is "$(missing shown client.names)" '' 'kvclient(8) names all metrics'
is "$(missing client.names shown)" '' 'and no others'

# ---- nodes that do not answer ----

http=http://127.0.0.1:$port
kill -STOP "$(pid_of b)"
get '/get_all_keys?tenant=t&json=1'
is "$(value away n)" 1 'a node that does not answer is named'
get '/get_all_keys?tenant=t'
like "$(cat head)" '^X-Kvpool-Away: [0-9a-f]{8}-' 'in the trailer too'
post /api/v1/remove_all?tenant=t
is "$status $(value success) $(value away n)" '503 false 1' \
	'no success without it'
kill -CONT "$(pid_of b)"
wait_nodes 2
post '/api/v1/remove_all?tenant=t&force=true'
is "$status $(value success)" '200 true' 'with it, all is removed'
get '/get_all_keys?tenant=t'
is "$(body)" '' 'and gone'
get /get_all_keys
is "$(wc -l <body)" "$count" "others' keys are not"
post /api/v1/remove_all
is "$(value removed_count)" "$count" 'unless they are asked for'
get '/api/v1/remove_all' POST 'Origin: http://evil.example'
is "$status" 403 'a web page may not'

end b KILL
gone()
{
	get /get_all_segments
	[ "$(body)" = "$(addr a)" ]
}
ok 'a killed node is no segment any more' try_for 5 gone

# ---- the end ----

cat >idle.pl <<'E'
use IO::Socket::INET;
my @s = map { IO::Socket::INET->new($ARGV[0]) or die } 1 .. 20;
print {$s[0]} "GET /health HT";
syswrite STDOUT, "idle\n";
sleep 60;
E
perl idle.pl "127.0.0.1:$port" >idle.out &
idle=$!
at_exit "kill $idle 2>/dev/null"
try_for 5 grep -q idle idle.out
end_all
kill $idle
wait $idle 2>/dev/null
done_testing

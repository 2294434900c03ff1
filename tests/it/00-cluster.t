#!/bin/sh
# The ports of tests: no two have the same one, and who starts again has its own.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cluster.sh"

start_master m
port=$cluster_port
# shellcheck disable=SC2016 # another test's shell expands it
not_ok 'another test does not get the port' sh -c '
	. "$TOP/tests/lib/tap.sh"
	. "$TOP/tests/lib/cluster.sh"
	claim "$1"' "$0" "$port"
end m
not_ok 'nor while nobody listens there' claim "$port"
perl -MIO::Socket::INET -e '
	my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1",
		LocalPort => $ARGV[0], ReuseAddr => 1) or die "$@";
	open my $f, ">", $ARGV[1];
	close $f;
	sleep 2;' "$port" "$T/taken" &
perl=$!
try_for 10 test -e "$T/taken" || exit 70
again m
like "$(cat "$T/m.old")" 'in use' 'somebody else has taken it'
like "$(cat "$T/m.log")" "ready addr=127.0.0.1:$port " 'it is waited for'
wait $perl
end_all
# A test that ended has none any more.
echo 4194305 >"$cluster_claims/$port"
ok 'a port of nobody' claim "$port"
done_testing

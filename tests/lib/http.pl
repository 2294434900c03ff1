# http.pl METHOD URL [HEADER...]: prints the status; the body goes to the file
# "body", headers and trailers to "head". Nothing is decoded or encoded.
use strict;
use warnings;
use IO::Socket::INET;

my ($method, $url, @headers) = @ARGV;
my ($host, $target) = $url =~ m{^http://([^/]+)(/.*)$}s or die "bad URL\n";
my $s = IO::Socket::INET->new(PeerAddr => $host, Timeout => 10)
	or die "cannot connect to $host: $@\n";
$SIG{ALRM} = sub { die "no answer in 60 s\n" };
alarm 60;
print $s "$method $target HTTP/1.1\r\nHost: $host\r\nConnection: close\r\n",
	map({"$_\r\n"} @headers), "Content-Length: 0\r\n\r\n";
my $got = do { local $/; <$s> };
defined $got or die "closed without an answer\n";
my ($head, $body) = split /\r\n\r\n/, $got, 2;
my ($status) = $head =~ m{^HTTP/1\.1 (\d+)} or die "no HTTP: $head\n";
if ($head =~ /^Transfer-Encoding: chunked\r?$/mi) {
	my ($rest, $n) = ($body);
	$body = '';
	while ($rest =~ s/^([0-9a-fA-F]+)\r\n//) {
		last unless $n = hex $1;
		length $rest >= $n + 2 or die "cut off\n";
		$body .= substr $rest, 0, $n;
		$rest = substr $rest, $n + 2;
	}
	defined $n && $n == 0 or die "cut off\n";
	$head .= "\r\n$rest";
} elsif ($head =~ /^Content-Length: (\d+)\r?$/mi && $method ne 'HEAD') {
	length $body == $1 or die "cut off\n";
}
for (['body', $body], ['head', $head]) {
	open my $f, '>:raw', $_->[0] or die "$_->[0]: $!\n";
	print $f $_->[1];
	close $f or die "$_->[0]: $!\n";
}
print "$status\n";

# promlint.pl <METRICS: complains of what is not Prometheus' text format 0.0.4;
# prints nothing if it is. Each family is described, in one piece, and no sample
# comes twice.
use strict;
use warnings;

my $name = qr/[a-zA-Z_:][a-zA-Z0-9_:]*/;
my $label = qr/[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"/;
my (%help, %type, %seen, $family);

sub complain
{
	print "line $.: @_\n";
}

sub enter
{
	my ($new) = @_;

	return if defined $family && $family eq $new;
	complain("$new is in several pieces") if exists $help{$new};
	$family = $new;
}

while (<STDIN>) {
	complain("no newline") unless chomp;
	if (/^# HELP ($name) (.*)$/) {
		enter($1);
		complain("$1 is described twice") if $help{$1}++;
		complain("help of $1: '$2'") if $2 !~ /^(?:[^\\]|\\[\\n])+$/;
	} elsif (/^# TYPE ($name) (counter|gauge)$/) {
		complain("$1: TYPE before HELP") unless $help{$1};
		complain("$1 has two types") if exists $type{$1};
		$type{$1} = $2;
	} elsif (/^($name)(\{$label(?:,$label)*\})? (\S+)$/) {
		my ($n, $l, $v) = ($1, $2 // '', $3);

		enter($n);
		complain("$n has no type") unless $type{$n};
		complain("$n$l comes twice") if $seen{"$n$l"}++;
		complain("$n is '$v'") unless $v =~ /^\d+(?:\.\d+)?$/;
		complain("$n: a counter's name ends in _total")
			if $n =~ /^kvpool_/ && $type{$n} &&
			($type{$n} eq 'counter') != ($n =~ /_total$/);
	} else {
		complain("what is '$_'?");
	}
}
complain('no metrics') unless %seen;
for (sort keys %help) {
	print "$_ has no type\n" unless $type{$_};
}

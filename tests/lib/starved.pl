# starved.pl FOLDER: how long the machine let a thread of the processes of
# FOLDER/*.pid wait for a processor, at most: ms, in FOLDER/starved. It ends
# with who began it.
use strict;
use warnings;
use Time::HiRes 'sleep';

my ($folder) = @ARGV;
my $parent = getppid();
my (%waited, $most);

# What all waits of a thread took, in ns. It is told when one is over.
sub look
{
	my ($thread) = @_;

	open(my $f, '<', "$thread/schedstat") or return;
	my ($ns) = (<$f> // '') =~ /^\d+ (\d+)/ or return;
	my $ms = ($ns - ($waited{$thread} // $ns)) / 1e6;

	$waited{$thread} = $ns;
	$most = $ms if $ms > $most;
}

sub look_at_all
{
	for my $file (glob("$folder/*.pid")) {
		open(my $f, '<', $file) or next;
		look($_) for map { glob("/proc/$_/task/*") }
			(<$f> // '') =~ /^(\d+)$/;
	}
}

for (my $said = -1, $most = 0; getppid() == $parent; sleep(0.2)) {
	look_at_all();
	next if $most <= $said;
	$said = $most;
	open(my $f, '>', "$folder/starved.new") or last;
	printf $f "%d\n", $most;
	close($f);
	rename("$folder/starved.new", "$folder/starved");
}

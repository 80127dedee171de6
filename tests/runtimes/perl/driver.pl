# SPDX-License-Identifier: Apache-2.0
# A driver for Perl, as small as one can be: codebox-runtime(7) has it as its example. Variables of the package stay.
use strict;
use warnings;
use IO::Handle;
use JSON::PP;

my $json = JSON::PP->new->utf8->canonical;
my ($count, $running) = (0, 0);

open(my $in, '<&=', 3) or die;
open(my $out, '>&=', 4) or die;
open(STDIN, '<', '/dev/null') or die;
delete $ENV{CODEBOX_FD};
$SIG{INT} = sub { die "interrupted\n" if $running };

sub send_frame {
	my $text = $json->encode({@_});
	STDOUT->flush;    # what was printed is in the pipe before the frame
	print {$out} pack('V', length $text), $text;
	$out->flush or exit 1;
}

sub receive {
	read($in, my $size, 4) == 4 or exit 0;
	read($in, my $text, unpack('V', $size));
	return $json->decode($text);
}

sub run {
	my ($m) = @_;
	my %done = (ev => 'done', id => $m->{id}, status => 'ok', count => ++$count);
	$running = 1;
	my $value = eval "package Cell; no strict; no warnings;\n#line 1 \"cell $count\"\n$m->{code}";
	my $error = $@;
	$running = 0;
	if ($error eq "interrupted\n") {
		$done{status} = 'interrupted';
	} elsif ($error ne '') {
		send_frame(ev => 'error', id => $m->{id}, name => 'Error', value => $error, traceback => $error);
		$done{status} = 'error';
	} elsif (defined $value) {
		send_frame(ev => 'result', id => $m->{id}, count => $count, data => { 'text/plain' => "$value" }, metadata => {});
	}
	send_frame(%done);
}

send_frame(ev => 'ready', language => 'perl', version => sprintf('%vd', $^V), kind => 'plain');
while (my $m = receive()) {
	my %reply = (ev => $m->{op}, id => $m->{id});
	if ($m->{op} eq 'run') { run($m) }
	elsif ($m->{op} eq 'session') { %ENV = (%ENV, %{ $m->{environment} }) }
	elsif ($m->{op} eq 'is_complete') { send_frame(%reply, status => 'complete', indent => '') }
	elsif ($m->{op} eq 'complete') { send_frame(%reply, matches => [], start => $m->{cursor}, end => $m->{cursor}) }
}

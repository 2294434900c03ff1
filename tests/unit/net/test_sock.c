/*
 * Listening and dialling over the real network, in a network of its own with
 * its own /etc/hosts and name server where that is allowed (as root).
 */

#include "net/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/addr.h"
#include "net/lookup.h"

#include "need.h"
#include "netpair.h"

static char folder[] = "/tmp/kv-sock-XXXXXX";

static void
put_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		abort();
}

static bool
replace_file(const char *path, const char *text)
{
	char copy[64];

	snprintf(copy, sizeof(copy), "%s/f", folder);
	put_file(copy, text);
	return !mount(copy, path, NULL, MS_BIND, NULL) && !unlink(copy);
}

static bool
set_up_loopback(void)
{
	struct ifreq req = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool is_good = !ioctl(fd, SIOCSIFFLAGS, &req);

	close(fd);
	return is_good;
}

static bool
isolate(void)
{
	/* The mount fails in a chroot; all but names works there. */
	return !unshare(CLONE_NEWNET) && set_up_loopback() &&
	       !unshare(CLONE_NEWNS) &&
	       !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       replace_file("/etc/nsswitch.conf", "hosts: files dns\n") &&
	       replace_file("/etc/hosts", "127.0.0.1 localhost\n"
					  "127.0.0.2 two_Hosts\n"
					  "127.0.0.3 two_Hosts\n") &&
	       replace_file("/etc/resolv.conf",
			    "nameserver 127.0.0.1\n"
			    "options timeout:2 attempts:1\n");
}

static uint64_t
ms_since(uint64_t start)
{
	struct kv_clock clock = { 0 };

	return (kv_clock_now(&clock) - start) / KV_NS_PER_MS;
}

static uint64_t
now(void)
{
	return ms_since(0) * KV_NS_PER_MS;
}

static int
port_of(const char *bound)
{
	return atoi(strrchr(bound, ':') + 1);
}

static const char *
with_port(const char *host, int port)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s:%d", host, port);
	return text;
}

/* A port that nobody listens on, and the kernel hands out last. */
static int
closed_port(void)
{
	struct netpair p;
	int port;

	netpair_listen(&p, "127.0.0.1:0");
	port = port_of(p.bound);
	netpair_close(&p);
	return port;
}

/* Listens, but its queue is full: more attempts hear nothing. */
struct black_hole {
	int fds[4];
	struct kv_timer drain;
};

static void
black_hole_open(struct black_hole *h, const char *host, int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port) };

	assert_int_equal(inet_pton(AF_INET, host, &in.sin_addr), 1);
	for (int i = 0; i < 4; i++) {
		h->fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (i > 0) {
			(void)connect(h->fds[i], (struct sockaddr *)&in,
				      sizeof(in));
			continue;
		}
		assert_int_equal(
			bind(h->fds[0], (struct sockaddr *)&in, sizeof(in)), 0);
		assert_int_equal(listen(h->fds[0], 0), 0);
	}
}

static void
black_hole_close(struct black_hole *h)
{
	for (int i = 0; i < 4; i++)
		close(h->fds[i]);
}

static void
an_empty_host_takes_both_families(void **state)
{
	static const char *const any[] = { ":0", "*:0", "[::]:0" };
	struct netpair p;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(any); i++) {
		int port;

		netpair_listen(&p, any[i]);
		assert_memory_equal(p.bound, "[::]:", 5);
		port = port_of(p.bound);
		assert_int_equal(
			netpair_dial(&p, with_port("127.0.0.1", port), 5000),
			0);
		NETPAIR_WAIT(&p, p.accepted == 1);
		assert_int_equal(
			netpair_dial(&p, with_port("[::1]", port), 5000), 0);
		NETPAIR_WAIT(&p, p.accepted == 2);
		netpair_close(&p);
	}
	netpair_open(&p, "0.0.0.0:0");
	netpair_close(&p);
	netpair_open(&p, "localhost:0");
	netpair_close(&p);
}

static struct kv_listener *
listen_again(struct netpair *p, const char *addr, int *err)
{
	char bound[KV_NET_BOUND_BYTES];

	return p->net->listen(p->net, p->loop, addr, NULL, NULL, bound, err);
}

static void
a_port_that_is_taken_is_refused(void **state)
{
	struct netpair p;
	int err = 0;

	(void)state;
	netpair_listen(&p, "*:0");
	assert_null(listen_again(&p, p.bound, &err));
	assert_int_equal(err, -EADDRINUSE);
	assert_null(listen_again(&p, with_port("127.0.0.1", port_of(p.bound)),
				 &err));
	assert_int_equal(err, -EADDRINUSE);
	assert_null(listen_again(&p, "192.0.2.1:0", &err));
	assert_int_equal(err, -EADDRNOTAVAIL);
	assert_null(listen_again(&p, "host", &err));
	assert_int_equal(err, -EINVAL);
	assert_null(listen_again(&p, "rdma:host:1", &err));
	assert_int_equal(err, -ENOTSUP);
	netpair_close(&p);
}

static void
a_port_can_be_used_again_at_once(void **state)
{
	struct netpair p;
	char addr[KV_NET_BOUND_BYTES];
	char c;

	(void)state;
	netpair_open(&p, "127.0.0.1:0");
	memcpy(addr, p.bound, sizeof(addr));
	/* Closed here first: this end is left in TIME-WAIT. */
	netpair_close_stream(&p.far);
	assert_int_equal(netpair_read(&p, p.near, &c, 1), 0);
	netpair_close(&p);
	netpair_open(&p, addr);
	netpair_close(&p);
}

static void
nobody_there_is_told_at_once(void **state)
{
	struct netpair p;
	uint64_t start = now();

	(void)state;
	netpair_listen(&p, "127.0.0.1:0");
	assert_int_equal(
		netpair_dial(&p, with_port("127.0.0.1", closed_port()), 5000),
		-ECONNREFUSED);
	assert_int_equal(netpair_dial(&p, "unix:/nonexistent/s", 5000),
			 -ECONNREFUSED);
	assert_true(ms_since(start) < 4000);
	assert_string_equal(kv_sock_error_text(-ECONNREFUSED),
			    "nobody listens there");
	netpair_close(&p);
}

static void
an_abstract_name_leaves_no_file_and_is_taken_once(void **state)
{
	struct netpair p, again;
	char addr[64];
	char c;

	(void)state;
	snprintf(addr, sizeof(addr), "unix:@kvpool-test-%d", (int)getpid());
	netpair_open(&p, addr);
	assert_true(p.peer.is_unix);
	assert_int_equal(p.peer.pid, getpid());
	assert_int_equal(netpair_write(p.near, "x"), 1);
	assert_int_equal(netpair_read(&p, p.far, &c, 1), 1);
	netpair_listen(&again, "127.0.0.1:0");
	assert_int_equal(netpair_dial(&again, addr, 5000), 0);
	netpair_close(&again);
	netpair_close(&p);
	netpair_open(&p, addr);
	netpair_close(&p);
}

/* Connects as another user, in a child; its exit status: 1 turned away. */
static pid_t
strange_user(const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	pid_t pid = fork();
	int fd;
	char c;

	if (pid == 0) {
		memcpy(un.sun_path + 1, name + 1, strlen(name) - 1);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (setuid(65534) || connect(fd, (void *)&un, sizeof(un)))
			_exit(2);
		_exit(read(fd, &c, 1) == 0);
	}
	return pid;
}

static void
an_abstract_name_is_not_for_other_users(void **state)
{
	char addr[64];
	struct netpair p;
	int status = -1;
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		skip();
		return;
	}
	snprintf(addr, sizeof(addr), "unix:@kvpool-user-%d", (int)getpid());
	netpair_listen(&p, addr);
	pid = strange_user(addr + strlen("unix:"));
	while (waitpid(pid, &status, WNOHANG) == 0)
		kv_loop_turn(p.loop,
			     kv_loop_refresh(p.loop) + 10 * KV_NS_PER_MS);
	assert_int_equal(status, W_EXITCODE(1, 0));
	assert_int_equal(p.accepted, 0);
	netpair_close(&p);
}

static void
what_is_no_address_to_dial_is_refused(void **state)
{
	static const char *const bad[] = { "",     "host",        ":80",
					   "*:80", "127.0.0.1:0", "::1:80" };
	struct netpair p;

	(void)state;
	netpair_listen(&p, "127.0.0.1:0");
	for (size_t i = 0; i < KV_ARRAY_LEN(bad); i++)
		assert_int_equal(netpair_dial(&p, bad[i], 5000), -EINVAL);
	assert_int_equal(netpair_dial(&p, "rdma:host:80", 5000), -ENOTSUP);
	netpair_close(&p);
}

static void
a_black_hole_costs_the_deadline_and_no_more(void **state)
{
	int port = closed_port();
	struct black_hole hole;
	struct netpair p;
	uint64_t start;

	(void)state;
	netpair_listen(&p, "127.0.0.1:0");
	black_hole_open(&hole, "127.0.0.1", port);
	start = now();
	assert_int_equal(netpair_dial(&p, with_port("127.0.0.1", port), 200),
			 -ETIMEDOUT);
	assert_in_range(ms_since(start), 198, 2000);
	/* A deadline that has passed. */
	assert_int_equal(netpair_dial(&p, with_port("127.0.0.1", port), 0),
			 -ETIMEDOUT);
	black_hole_close(&hole);
	netpair_close(&p);
}

/* Takes what is in its queue. */
static void
black_hole_drain(struct kv_timer *t)
{
	struct black_hole *h = KV_CONTAINER_OF(t, struct black_hole, drain);
	int fd;

	while ((fd = accept(h->fds[0], NULL, NULL)) >= 0)
		close(fd);
}

/* The kernel alone would need a second for the next one. */
static void
an_attempt_that_was_lost_is_made_again(void **state)
{
	struct black_hole hole = { .drain.fn = black_hole_drain };
	int port = closed_port();
	struct netpair p;
	uint64_t start;

	(void)state;
	netpair_listen(&p, "127.0.0.1:0");
	black_hole_open(&hole, "127.0.0.1", port);
	start = now();
	assert_int_equal(
		kv_loop_timer_set(p.loop, &hole.drain,
				  kv_loop_refresh(p.loop) + 100 * KV_NS_PER_MS),
		0);
	assert_int_equal(netpair_dial(&p, with_port("127.0.0.1", port), 5000),
			 0);
	assert_in_range(ms_since(start), 100, 800);
	black_hole_close(&hole);
	netpair_close(&p);
}

static void
must_not_be_called(void *arg, struct kv_stream *s, int status)
{
	(void)arg;
	(void)s;
	fail_msg("called with %d", status);
}

static void
cancelled_it_is_not_called(void **state)
{
	int port = closed_port();
	struct black_hole hole;
	struct netpair p;
	const char *addrs[3];
	char hole_addr[64];

	(void)state;
	netpair_listen(&p, "127.0.0.1:0");
	black_hole_open(&hole, "127.0.0.1", port);
	snprintf(hole_addr, sizeof(hole_addr), "127.0.0.1:%d", port);
	addrs[0] = p.bound; /* good */
	addrs[1] = hole_addr;
	addrs[2] = "bad";
	for (int turns = 0; turns < 2; turns++) {
		for (size_t i = 0; i < KV_ARRAY_LEN(addrs); i++) {
			uint64_t at = kv_loop_refresh(p.loop) + KV_NS_PER_MS;
			struct kv_dial *d =
				p.net->connect(p.net, p.loop, addrs[i], at,
					       must_not_be_called, NULL);

			assert_non_null(d);
			p.net->cancel(p.net, d);
			assert_true(kv_loop_turn(p.loop, at + KV_NS_PER_MS) >=
				    0);
		}
	}
	black_hole_close(&hole);
	netpair_close(&p);
}

static void
first_and_second_address(const char *name, char *first, char *second)
{
	struct kv_lookup_result r;
	struct kv_addr a;
	char err[KV_ADDR_ERROR_BYTES];

	assert_int_equal(kv_addr_parse(name, 1, &a, err, sizeof(err)), 0);
	assert_int_equal(kv_lookup_now(&a, &r), 0);
	assert_int_equal(r.n, 2);
	kv_lookup_name(&r.addrs[0], &a);
	strcpy(first, a.name);
	kv_lookup_name(&r.addrs[1], &a);
	strcpy(second, a.name);
}

static void
all_addresses_of_a_name_are_tried(void **state)
{
	char first[64], second[64], addr[80];
	struct black_hole hole;
	struct netpair p;
	uint64_t start;
	int port;

	(void)state;
	first_and_second_address("two_Hosts", first, second);
	snprintf(addr, sizeof(addr), "%s:0", second);
	netpair_listen(&p, addr);
	port = port_of(p.bound);
	/* Refused by the first one. */
	assert_int_equal(netpair_dial(&p, with_port("TWO_hosts", port), 5000),
			 0);
	NETPAIR_WAIT(&p, p.accepted == 1);
	/* Not a word from the first one: half of the time is left. */
	black_hole_open(&hole, first, port);
	start = now();
	assert_int_equal(netpair_dial(&p, with_port("two_Hosts", port), 2000),
			 0);
	assert_in_range(ms_since(start), 990, 1999);
	NETPAIR_WAIT(&p, p.accepted == 2);
	netpair_close_stream(&p.far);
	p.net->unlisten(p.net, p.listener);
	p.listener = listen_again(&p, "127.0.0.1:0", &port);
	port = port_of(p.bound);
	start = now();
	assert_int_equal(netpair_dial(&p, with_port("two_Hosts", port), 1000),
			 -ECONNREFUSED);
	assert_in_range(ms_since(start), 490, 999);
	black_hole_close(&hole);
	netpair_close(&p);
}

static void
a_name_that_does_not_resolve_is_told(void **state)
{
	struct netpair p;
	int err = 0;

	(void)state;
	netpair_listen(&p, "127.0.0.1:0");
	put_file("/etc/nsswitch.conf", "hosts: files\n");
	assert_int_equal(netpair_dial(&p, "no_such.Host.:1", 5000), -ENXIO);
	assert_string_equal(kv_sock_error_text(-ENXIO),
			    "cannot resolve the name: it is not known");
	assert_null(listen_again(&p, "no_such.Host.:1", &err));
	assert_int_equal(err, -ENXIO);
	/* The name server is not there. */
	put_file("/etc/nsswitch.conf", "hosts: files dns\n");
	assert_int_equal(netpair_dial(&p, "no_such.Host.:1", 5000), -ENONET);
	assert_string_equal(kv_sock_error_text(-ENONET),
			    "cannot resolve the name: no name server answers");
	assert_null(listen_again(&p, "no_such.Host.:1", &err));
	assert_int_equal(err, -ENONET);
	netpair_close(&p);
}

static int
count_threads(void)
{
	char text[64];
	int n = 0;
	FILE *f = fopen("/proc/self/status", "re");

	assert_non_null(f);
	while (fgets(text, sizeof(text), f))
		if (sscanf(text, "Threads: %d", &n) == 1)
			break;
	fclose(f);
	return n;
}

static void
count_timeouts(void *arg, struct kv_stream *s, int status)
{
	assert_null(s);
	assert_int_equal(status, -ENONET);
	++*(int *)arg;
}

/* A name server that never answers: a look-up takes two seconds or more. */
static void
a_slow_name_server_holds_nobody_up(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(53),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int silent = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct kv_dial *cancelled;
	struct netpair p;
	uint64_t at, start = now();
	int timeouts = 0;

	(void)state;
	assert_int_equal(bind(silent, (struct sockaddr *)&in, sizeof(in)), 0);
	netpair_listen(&p, "127.0.0.1:0");
	at = kv_loop_refresh(p.loop) + 100 * KV_NS_PER_MS;
	cancelled = p.net->connect(p.net, p.loop, "slow:1", at,
				   must_not_be_called, NULL);
	for (int i = 0; i < KV_LOOKUPS_MAX + 8; i++)
		assert_non_null(p.net->connect(p.net, p.loop, "slow:1", at,
					       count_timeouts, &timeouts));
	p.net->cancel(p.net, cancelled);
	assert_true(count_threads() <= KV_LOOKUPS_MAX + 3);
	NETPAIR_WAIT(&p, timeouts == KV_LOOKUPS_MAX + 8);
	assert_true(ms_since(start) < 1900);
	/* With all threads busy another name waits for its turn. */
	assert_int_equal(netpair_dial(&p,
				      with_port("localhost", port_of(p.bound)),
				      8000),
			 0);
	NETPAIR_WAIT(&p, p.far);
	close(silent);
	netpair_close(&p);
}

static void
nothing_connects_to_itself(void **state)
{
	struct netpair p;
	char range[32];
	int port = 23456;

	(void)state;
	netpair_listen(&p, "127.0.0.1:0");
	/* The one port that the kernel may choose is the one dialled. */
	snprintf(range, sizeof(range), "%d %d", port, port);
	put_file("/proc/sys/net/ipv4/ip_local_port_range", range);
	assert_int_equal(netpair_dial(&p, with_port("127.0.0.1", port), 2000),
			 -ECONNREFUSED);
	put_file("/proc/sys/net/ipv4/ip_local_port_range", "32768 60999");
	netpair_close(&p);
}

/* It has closed first: its end waits in TIME_WAIT, on the one port that there
 * was to choose. */
static void
a_port_that_was_dialled_from_can_be_listened_on(void **state)
{
	struct netpair p;
	int err = 0;

	(void)state;
	netpair_listen(&p, "127.0.0.1:0");
	put_file("/proc/sys/net/ipv4/ip_local_port_range", "23456 23456");
	assert_int_equal(netpair_dial(&p, p.bound, 2000), 0);
	put_file("/proc/sys/net/ipv4/ip_local_port_range", "32768 60999");
	NETPAIR_WAIT(&p, p.far);
	netpair_close_stream(&p.near);
	netpair_close_stream(&p.far);
	p.net->unlisten(p.net, p.listener);
	p.listener = listen_again(&p, "127.0.0.1:23456", &err);
	assert_int_equal(err, 0);
	assert_non_null(p.listener);
	netpair_close(&p);
}

static void
tcp_gives_up_on_a_silent_peer_within_seconds(void **state)
{
	struct netpair p;
	int tuned = 0;

	(void)state;
	netpair_open(&p, "127.0.0.1:0");
	for (int fd = 0; fd < 100; fd++) {
		socklen_t len = sizeof(int);
		int ms = 0, alive = 0, quick = 0;

		if (getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &len) ||
		    getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &alive, &len) ||
		    getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &quick, &len))
			continue;
		tuned += ms == KV_SOCK_STALL_MS && alive && quick &&
			 (fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	assert_int_equal(tuned, 2);
	netpair_close(&p);
}

int
main(void)
{
#define ALONE(t) \
	need_test(is_isolated, "root", t, netpair_fds_before, netpair_fds_after)
	const char *made = mkdtemp(folder);
	const bool is_isolated = made && isolate() && !rmdir(folder);
	const struct CMUnitTest tests[] = {
		NETPAIR_TIGHT(an_empty_host_takes_both_families),
		NETPAIR_TIGHT(a_port_that_is_taken_is_refused),
		NETPAIR_TIGHT(a_port_can_be_used_again_at_once),
		cmocka_unit_test(
			an_abstract_name_leaves_no_file_and_is_taken_once),
		NETPAIR_TIGHT(an_abstract_name_is_not_for_other_users),
		NETPAIR_TIGHT(nobody_there_is_told_at_once),
		NETPAIR_TIGHT(what_is_no_address_to_dial_is_refused),
		NETPAIR_TIGHT(an_attempt_that_was_lost_is_made_again),
		NETPAIR_TIGHT(a_black_hole_costs_the_deadline_and_no_more),
		NETPAIR_TIGHT(cancelled_it_is_not_called),
		ALONE(all_addresses_of_a_name_are_tried),
		ALONE(a_name_that_does_not_resolve_is_told),
		ALONE(a_slow_name_server_holds_nobody_up),
		ALONE(nothing_connects_to_itself),
		ALONE(a_port_that_was_dialled_from_can_be_listened_on),
		NETPAIR_TIGHT(tcp_gives_up_on_a_silent_peer_within_seconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

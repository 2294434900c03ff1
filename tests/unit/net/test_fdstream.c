#include "net/fdstream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"

#include "netpair.h"
#include "test.h"

static char folder[] = "/tmp/kv-fdstream-XXXXXX";
static char unix_addr[64];

static int
make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(unix_addr, sizeof(unix_addr), "unix:%s/s", folder);
	return 0;
}

static int
remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static void
exchange(const char *addr)
{
	struct netpair p;
	char buf[16];

	netpair_open(&p, addr);
	assert_int_equal(netpair_write(p.near, "ping"), 4);
	assert_int_equal(netpair_read(&p, p.far, buf, sizeof(buf)), 4);
	assert_memory_equal(buf, "ping", 4);
	assert_int_equal(netpair_write(p.far, "pong!"), 5);
	assert_int_equal(netpair_read(&p, p.near, buf, 3), 3);
	assert_int_equal(netpair_read(&p, p.near, buf, 3), 2);
	/* The end is an end here, and no signal there. */
	netpair_close_stream(&p.far);
	assert_int_equal(netpair_read(&p, p.near, buf, sizeof(buf)), 0);
	while (netpair_write(p.near, "x") > 0)
		;
	assert_true(netpair_write(p.near, "x") == -EPIPE ||
		    netpair_write(p.near, "x") == -ECONNRESET);
	netpair_close(&p);
}

static void
bytes_go_both_ways_and_end(void **state)
{
	(void)state;
	exchange("127.0.0.1:0");
	exchange("[::1]:0");
	exchange(unix_addr);
}

static void
count_ready(struct kv_stream *s, uint32_t events)
{
	(void)events;
	++*(int *)s->arg;
}

static void
readiness_is_told_while_it_is_wanted(void **state)
{
	struct netpair p;
	int calls = 0;

	(void)state;
	netpair_open(&p, unix_addr);
	p.far->ready = count_ready;
	p.far->arg = &calls;
	assert_int_equal(p.far->ops->want(p.far, EPOLLIN), 0);
	assert_int_equal(kv_loop_turn(p.loop, 0), 0);
	assert_int_equal(netpair_write(p.near, "x"), 1);
	assert_int_equal(kv_loop_turn(p.loop, 0), 1);
	assert_int_equal(kv_loop_turn(p.loop, 0), 1);
	/* Paused, not even the end of the peer is told. */
	assert_int_equal(p.far->ops->want(p.far, 0), 0);
	netpair_close_stream(&p.near);
	assert_int_equal(kv_loop_turn(p.loop, 0), 0);
	assert_int_equal(calls, 2);
	assert_int_equal(p.far->ops->want(p.far, EPOLLIN), 0);
	assert_int_equal(kv_loop_turn(p.loop, 0), 1);
	netpair_close(&p);
}

static void
a_full_stream_says_so_and_long_vectors_are_cut(void **state)
{
	enum {
		PIECES = 3000
	};
	static struct iovec iov[PIECES];
	static char block[1 << 16];
	struct iovec big = { .iov_base = block, .iov_len = sizeof(block) };
	struct netpair p;
	ssize_t n;
	int i;

	(void)state;
	netpair_open(&p, unix_addr);
	for (i = 0; i < PIECES; i++)
		iov[i] = (struct iovec){ .iov_base = block, .iov_len = 1 };
	assert_int_equal(p.near->ops->writev(p.near, iov, PIECES), 1024);
	assert_int_equal(p.far->ops->readv(p.far, iov, PIECES), 1024);
	do {
		n = p.near->ops->writev(p.near, &big, 1);
	} while (n > 0);
	assert_int_equal(n, -EAGAIN);
	netpair_close(&p);
}

/* Writes until the kernel takes no more; how much it took. */
static size_t
fill(struct kv_stream *s)
{
	static char block[1 << 16];
	struct iovec iov = { .iov_base = block, .iov_len = sizeof(block) };
	size_t sum = 0;
	ssize_t n;

	while ((n = s->ops->writev(s, &iov, 1)) > 0)
		sum += (size_t)n;
	assert_int_equal(n, -EAGAIN);
	return sum;
}

/* Reads to the end; how it ended. */
static ssize_t
drain(struct netpair *p, size_t *sum)
{
	static char block[1 << 16];
	ssize_t n;

	while ((n = netpair_read(p, p->far, block, sizeof(block))) > 0)
		*sum += (size_t)n;
	return n;
}

static void
what_is_reset_does_not_arrive_any_more(void **state)
{
	size_t sent, got = 0;
	struct netpair p;

	(void)state;
	netpair_open(&p, "127.0.0.1:0");
	sent = fill(p.near);
	netpair_close_stream(&p.near);
	assert_int_equal(drain(&p, &got), 0);
	assert_int_equal(got, sent);
	netpair_close(&p);
	netpair_open(&p, "127.0.0.1:0");
	sent = fill(p.near);
	p.near->ops->reset(p.near);
	p.near = NULL;
	got = 0;
	assert_int_equal(drain(&p, &got), -ECONNRESET);
	assert_true(got < sent);
	netpair_close(&p);
}

static void
a_descriptor_travels_with_the_next_bytes(void **state)
{
	int fd = memfd_create("t", MFD_CLOEXEC), got;
	struct netpair p;
	char buf[8];

	(void)state;
	assert_int_equal(write(fd, "hello", 5), 5);
	netpair_open(&p, unix_addr);
	assert_int_equal(p.near->ops->send_fd(p.near, fd), 0);
	assert_int_equal(p.near->ops->send_fd(p.near, fd), -EBUSY);
	assert_int_equal(p.far->ops->recv_fd(p.far), -1);
	assert_int_equal(netpair_write(p.near, "abc"), 3);
	assert_int_equal(netpair_read(&p, p.far, buf, sizeof(buf)), 3);
	got = p.far->ops->recv_fd(p.far);
	assert_true(got >= 0 && got != fd);
	assert_int_equal(p.far->ops->recv_fd(p.far), -1);
	assert_int_equal(pread(got, buf, sizeof(buf), 0), 5);
	assert_memory_equal(buf, "hello", 5);
	assert_true(fcntl(got, F_GETFD) & FD_CLOEXEC);
	close(got);
	/* Neither one that is not sent nor one that nobody takes is left. */
	assert_int_equal(p.near->ops->send_fd(p.near, fd), 0);
	assert_int_equal(netpair_write(p.near, "abc"), 3);
	assert_int_equal(netpair_read(&p, p.far, buf, sizeof(buf)), 3);
	assert_int_equal(p.near->ops->send_fd(p.near, fd), 0);
	netpair_close(&p);
	close(fd);
}

static void
tcp_carries_no_descriptor(void **state)
{
	struct netpair p;

	(void)state;
	netpair_open(&p, "127.0.0.1:0");
	assert_int_equal(p.near->ops->send_fd(p.near, 0), -ENOTSUP);
	assert_int_equal(p.near->ops->recv_fd(p.near), -1);
	netpair_close(&p);
}

/* What no program of ours would send: n descriptors at once. */
static void
send_many(int sock, int n)
{
	int fds[8] = { 0 };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(fds))];
	} control = { .bytes = { 0 } };
	char byte = 'x';
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	assert_int_equal(sendmsg(sock, &msg, 0), 1);
}

static int
connect_raw(const char *unix_path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", unix_path);
	assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	return fd;
}

static void
of_many_descriptors_one_is_kept(void **state)
{
	struct netpair p;
	int sock, before, got;
	char buf[8];

	(void)state;
	netpair_listen(&p, unix_addr);
	sock = connect_raw(unix_addr + strlen("unix:"));
	NETPAIR_WAIT(&p, p.far);
	before = netpair_count_fds();
	for (int i = 1; i <= 8; i++) {
		send_many(sock, i);
		assert_int_equal(netpair_read(&p, p.far, buf, 1), 1);
	}
	assert_int_equal(netpair_count_fds(), before + 1);
	got = p.far->ops->recv_fd(p.far);
	assert_true(got >= 0);
	close(got);
	close(sock);
	netpair_close(&p);
}

static void
tcp_peers_are_named_by_number(void **state)
{
	struct netpair p;
	struct kv_peer near;
	char addr[64];

	(void)state;
	/* A listener for both families; what comes by IPv4 is shown so. */
	netpair_listen(&p, "*:0");
	assert_memory_equal(p.bound, "[::]:", 5);
	assert_int_equal(netpair_dial(&p, strrchr(p.bound, ':'), 100), -EINVAL);
	snprintf(addr, sizeof(addr), "127.0.0.1%s", strrchr(p.bound, ':'));
	assert_int_equal(netpair_dial(&p, addr, 5000), 0);
	NETPAIR_WAIT(&p, p.far);
	p.net->peer(p.net, p.near, &near);
	assert_string_equal(near.addr, addr);
	assert_memory_equal(p.peer.addr, "127.0.0.1:", 10);
	assert_false(p.peer.is_unix);
	assert_int_equal(p.peer.pid, -1);
	assert_int_equal(p.peer.pidfd, -1);
	netpair_close(&p);
	netpair_open(&p, "[::1]:0");
	assert_memory_equal(p.peer.addr, "[::1]:", 6);
	netpair_close(&p);
}

static bool
is_over(int pidfd, int timeout_ms)
{
	struct pollfd pfd = { .fd = pidfd, .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1;
}

/* Connects, hands the socket to a child, and waits to be killed. */
static _Noreturn void
connect_and_fork(int told)
{
	int fd = connect_raw(unix_addr + strlen("unix:"));
	pid_t child = fork();

	if (child > 0)
		assert_int_equal(write(told, &child, sizeof(child)),
				 sizeof(child));
	for (;;)
		pause();
	close(fd);
}

static void
a_pidfd_tells_the_end_of_the_process_not_of_the_socket(void **state)
{
	struct netpair p;
	int told[2];
	pid_t pid, grandchild;
	char c;

	(void)state;
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	netpair_listen(&p, unix_addr);
	pid = fork();
	if (!pid)
		connect_and_fork(told[1]);
	NETPAIR_WAIT(&p, p.far);
	assert_true(p.peer.is_unix);
	assert_string_equal(p.peer.addr, "unix");
	assert_int_equal(p.peer.pid, pid);
	assert_int_equal(p.peer.uid, getuid());
	assert_int_equal(p.peer.gid, getgid());
	assert_true(p.peer.pidfd >= 0);
	assert_int_equal(read(told[0], &grandchild, sizeof(grandchild)),
			 sizeof(grandchild));
	assert_false(is_over(p.peer.pidfd, 0));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_true(is_over(p.peer.pidfd, 5000));
	/* The grandchild still holds the socket. */
	assert_int_equal(p.far->ops->readv(p.far,
					   &(struct iovec){ .iov_base = &c,
							    .iov_len = 1 },
					   1),
			 -EAGAIN);
	kill(grandchild, SIGKILL);
	assert_int_equal(netpair_read(&p, p.far, &c, 1), 0);
	close(told[0]);
	close(told[1]);
	netpair_close(&p);
}

static void
close_ends_it_although_a_child_holds_the_socket(void **state)
{
	struct netpair p;
	pid_t pid;
	char c;

	(void)state;
	netpair_open(&p, "127.0.0.1:0");
	pid = fork();
	if (!pid) {
		for (;;)
			pause();
	}
	netpair_close_stream(&p.far);
	assert_int_equal(netpair_read(&p, p.near, &c, 1), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	netpair_close(&p);
}

static void
a_stream_moves_to_another_loop(void **state)
{
	struct kv_loop *other = kv_loop_new(NULL);
	struct netpair p;
	int calls = 0;

	(void)state;
	netpair_open(&p, unix_addr);
	p.far->ready = count_ready;
	p.far->arg = &calls;
	assert_int_equal(p.far->ops->want(p.far, EPOLLIN), 0);
	assert_int_equal(netpair_write(p.near, "x"), 1);
	assert_int_equal(kv_loop_turn(p.loop, 0), 1);
	assert_int_equal(p.far->ops->want(p.far, 0), 0);
	p.far->ops->move(p.far, other);
	assert_int_equal(p.far->ops->want(p.far, EPOLLIN), 0);
	assert_int_equal(kv_loop_turn(p.loop, 0), 0);
	assert_int_equal(kv_loop_turn(other, 0), 1);
	assert_int_equal(calls, 2);
	netpair_close(&p);
	kv_loop_free(other);
}

static int
note_fds(void **state)
{
	static int count;

	count = netpair_count_fds();
	*state = &count;
	return 0;
}

static int
compare_fds(void **state)
{
	return netpair_count_fds() == *(int *)*state ? 0 : -1;
}

int
main(void)
{
#define TIGHT(t) cmocka_unit_test_setup_teardown(t, note_fds, compare_fds)
	const struct CMUnitTest tests[] = {
		TIGHT(bytes_go_both_ways_and_end),
		TIGHT(readiness_is_told_while_it_is_wanted),
		TIGHT(a_full_stream_says_so_and_long_vectors_are_cut),
		TIGHT(what_is_reset_does_not_arrive_any_more),
		TIGHT(a_descriptor_travels_with_the_next_bytes),
		TIGHT(tcp_carries_no_descriptor),
		TIGHT(of_many_descriptors_one_is_kept),
		TIGHT(tcp_peers_are_named_by_number),
		TIGHT(a_pidfd_tells_the_end_of_the_process_not_of_the_socket),
		TIGHT(close_ends_it_although_a_child_holds_the_socket),
		TIGHT(a_stream_moves_to_another_loop),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

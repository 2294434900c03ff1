#include "svc/floorcore.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "event/loop.h"
#include "mem/seg.h"

#define HUGE_BYTES (2ull << 20)

uint64_t
kv_floor_io_now(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

/* ---- memory ---- */

static size_t
whole(size_t bytes)
{
	return (bytes + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
}

char *
kv_floor_io_map(size_t bytes)
{
	size_t n = whole(bytes), head;
	char *p = mmap(NULL, n + HUGE_BYTES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *at;

	if (p == MAP_FAILED)
		return NULL;
	head = -(uintptr_t)p & (HUGE_BYTES - 1);
	at = mmap(p + head, n, PROT_READ | PROT_WRITE,
		  MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		munmap(p, n + HUGE_BYTES);
		return NULL;
	}
	if (head > 0)
		munmap(p, head);
	munmap(at + n, HUGE_BYTES - head);
	madvise(at, n, MADV_HUGEPAGE);
	madvise(at, n, MADV_DONTFORK);
	memset(at, 0x5a, n);
	return at;
}

void
kv_floor_io_unmap(char *p, size_t bytes)
{
	if (p)
		munmap(p, whole(bytes));
}

struct kv_seg *
kv_floor_io_share(size_t bytes, bool hugepages, char *err, size_t errlen)
{
	const struct kv_seg_opts o = { .bytes = bytes, .hugepages = hugepages };
	struct kv_seg *seg;
	int rc;

	if (kv_seg_open(&o, &seg, err, errlen) < 0)
		return NULL;
	rc = kv_seg_populate(seg, 0, seg->bytes);
	if (rc == 0)
		return seg;
	snprintf(err, errlen, "no %zu bytes of shared memory: %s", bytes,
		 strerror(-rc));
	kv_seg_close(seg);
	return NULL;
}

/* ---- bytes ---- */

int
kv_floor_io_wait(int epoll)
{
	struct epoll_event ev;

	while (epoll_wait(epoll, &ev, 1, -1) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

int
kv_floor_io_wait_awake(int epoll, bool *is_brisk)
{
	uint64_t start = kv_floor_io_now(), now = start;
	struct epoll_event ev;
	int rc = 0, n = 0;

	while (*is_brisk && n == 0 && now - start < KV_LOOP_AWAKE_NS) {
		sched_yield();
		n = epoll_wait(epoll, &ev, 1, 0);
		now = kv_floor_io_now();
	}
	if (n <= 0) {
		rc = kv_floor_io_wait(epoll);
		now = kv_floor_io_now();
	}
	*is_brisk = now - start < KV_LOOP_AWAKE_NS;
	return rc;
}

int
kv_floor_io_take(int epoll, int fd, void *buf, size_t n)
{
	char *at = buf;
	ssize_t got;
	int rc;

	while (n > 0) {
		got = recv(fd, at, n, MSG_DONTWAIT);
		if (got > 0) {
			at += got;
			n -= (size_t)got;
		} else if (got == 0) {
			return -ECONNRESET;
		} else if (errno != EAGAIN) {
			return -errno;
		} else {
			rc = kv_floor_io_wait(epoll);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

int
kv_floor_io_give(int fd, const void *buf, size_t n)
{
	const char *at = buf;
	ssize_t put;

	for (; n > 0; n -= (size_t)put, at += put) {
		put = send(fd, at, n, MSG_NOSIGNAL);
		if (put < 0 && errno == EINTR)
			put = 0;
		if (put < 0)
			return -errno;
	}
	return 0;
}

int
kv_floor_io_watch(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll >= 0)
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
	return epoll;
}

/* ---- TCP ---- */

void
kv_floor_io_nodelay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int
kv_floor_io_listen(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 &&
	    listen(fd, 1) == 0 &&
	    getsockname(fd, (struct sockaddr *)&a, &len) == 0) {
		*port = ntohs(a.sin_port);
		return fd;
	}
	err = errno;
	if (fd >= 0)
		close(fd);
	return -err;
}

int
kv_floor_io_dial(const char *addr, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port) };
	int fd, err;

	if (inet_pton(AF_INET, addr, &a.sin_addr) != 1)
		return -EINVAL;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0) {
		kv_floor_io_nodelay(fd);
		return fd;
	}
	err = errno;
	close(fd);
	return -err;
}

int
kv_floor_io_pair(int fds[2])
{
	uint16_t port = 0;
	int l = kv_floor_io_listen(&port), err;

	if (l < 0)
		return l;
	fds[0] = kv_floor_io_dial("127.0.0.1", port);
	fds[1] = fds[0] < 0 ? fds[0] : accept4(l, NULL, NULL, SOCK_CLOEXEC);
	err = fds[0] < 0 ? -fds[0] : errno;
	close(l);
	if (fds[1] >= 0) {
		kv_floor_io_nodelay(fds[1]);
		return 0;
	}
	if (fds[0] >= 0)
		close(fds[0]);
	return -err;
}

/* ---- processes ---- */

pid_t
kv_floor_io_fork(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	return 0;
}

void
kv_floor_io_end(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

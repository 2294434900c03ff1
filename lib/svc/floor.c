#include "svc/floor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/num.h"
#include "mem/copy.h"

#define HUGE_BYTES (2ull << 20)
#define CHAIN_MAX  (1u << 20)

struct kv_floor {
	size_t bytes;
	char *private;
	char *shared;
	bool use_memcpy;
};

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

/* Memory aligned to huge pages, faulted in. */
static char *
map(size_t bytes, int fd)
{
	char *p = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *at;

	if (p == MAP_FAILED)
		return NULL;
	at = p + (-(uintptr_t)p & (HUGE_BYTES - 1));
	at = mmap(at, bytes, PROT_READ | PROT_WRITE,
		  MAP_FIXED |
			  (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED),
		  fd, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, bytes, MADV_HUGEPAGE);
	memset(at, 0x5a, bytes);
	return at;
}

static void
copy(const struct kv_floor *f, char *dst, const char *src, size_t len)
{
	if (f->use_memcpy)
		memcpy(dst, src, len);
	else
		kv_copy(dst, src, len);
}

/* Best of three of each. */
static void
copy_choose(struct kv_floor *f)
{
	uint64_t best[2] = { UINT64_MAX, UINT64_MAX }, t;
	size_t off;
	unsigned i;

	for (i = 0; i < 6; i++) {
		f->use_memcpy = i % 2;
		t = now_ns();
		for (off = 0; off < f->bytes; off += HUGE_BYTES)
			copy(f, f->shared + off, f->private + off, HUGE_BYTES);
		t = now_ns() - t;
		if (t < best[i % 2])
			best[i % 2] = t;
	}
	f->use_memcpy = best[1] < best[0];
}

struct kv_floor *
kv_floor_new(size_t bytes)
{
	struct kv_floor *f = calloc(1, sizeof(*f));
	int fd;

	if (!f)
		return NULL;
	f->bytes = kv_round_up_u64(bytes, HUGE_BYTES);
	fd = memfd_create("kvpool-floor", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)f->bytes) < 0)
		goto fail;
	f->private = map(f->bytes, -1);
	f->shared = map(f->bytes, fd);
	if (!f->private || !f->shared)
		goto fail;
	close(fd);
	copy_choose(f);
	return f;

fail:
	if (fd >= 0)
		close(fd);
	kv_floor_free(f);
	return NULL;
}

void
kv_floor_free(struct kv_floor *f)
{
	if (!f)
		return;
	if (f->private)
		munmap(f->private, f->bytes);
	if (f->shared)
		munmap(f->shared, f->bytes);
	free(f);
}

char *
kv_floor_private(struct kv_floor *f)
{
	return f->private;
}

void
kv_floor_copy(const struct kv_floor *f, bool into_shared, size_t off,
	      size_t len)
{
	if (into_shared)
		copy(f, f->shared + off, f->private + off, len);
	else
		copy(f, f->private + off, f->shared + off, len);
}

/* ---- the chain ---- */

/* Exactly n bytes by epoll and non-blocking reads, as a daemon does it. */
static int
take(int epoll, int fd, char *buf, size_t n)
{
	struct epoll_event ev;
	ssize_t got;

	while (n > 0) {
		got = recv(fd, buf, n, MSG_DONTWAIT);
		if (got > 0)
			n -= (size_t)got;
		else if (got == 0)
			return -ECONNRESET;
		else if (errno != EAGAIN ||
			 (epoll_wait(epoll, &ev, 1, -1) < 0 && errno != EINTR))
			return -errno;
	}
	return 0;
}

static int
give(int fd, const char *buf, size_t n)
{
	ssize_t put;

	for (; n > 0; n -= (size_t)put) {
		put = send(fd, buf, n, MSG_NOSIGNAL);
		if (put < 0)
			return -errno;
	}
	return 0;
}

static int
watch(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll >= 0)
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
	return epoll;
}

/* A connected pair of TCP sockets over loopback. */
static int
tcp_pair(int fds[2])
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(a);
	int one = 1, l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fds[1] = -1;
	if (l >= 0 && fds[0] >= 0 &&
	    bind(l, (struct sockaddr *)&a, sizeof(a)) == 0 &&
	    listen(l, 1) == 0 &&
	    getsockname(l, (struct sockaddr *)&a, &len) == 0 &&
	    connect(fds[0], (struct sockaddr *)&a, sizeof(a)) == 0)
		fds[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	close(l);
	if (fds[1] < 0)
		return -errno;
	setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return 0;
}

/* Takes `in` bytes, lets the next one (fd >= 0) answer `mid`, gives `out`. */
static void
chain_serve(int fd, int next, size_t in, size_t mid, size_t out)
{
	char *buf = calloc(1, CHAIN_MAX);
	int epoll = watch(fd), epoll_next = next >= 0 ? watch(next) : -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (buf && take(epoll, fd, buf, in) == 0) {
		if (next >= 0 && (give(next, buf, mid) < 0 ||
				  take(epoll_next, next, buf, mid) < 0))
			break;
		if (give(fd, buf, out) < 0)
			break;
	}
	_exit(0);
}

int
kv_floor_chain_open(struct kv_floor_chain *c, bool over_tcp, size_t ask,
		    size_t hop, size_t back)
{
	int local[2], tcp[2] = { -1, -1 }, rc;

	*c = (struct kv_floor_chain){
		.fd = -1, .epoll = -1, .ask = ask, .hop = hop, .back = back
	};
	if (ask > CHAIN_MAX || hop > CHAIN_MAX || back > CHAIN_MAX)
		return -EINVAL;
	rc = over_tcp ? tcp_pair(local)
		      : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				   local);
	if (rc < 0)
		return -errno;
	if (hop > 0 && tcp_pair(tcp) < 0)
		return -errno;
	c->pids[0] = fork();
	if (c->pids[0] == 0) {
		close(local[0]);
		if (hop > 0)
			close(tcp[1]);
		chain_serve(local[1], tcp[0], ask, hop, back);
	}
	close(local[1]);
	if (hop > 0) {
		close(tcp[0]);
		c->pids[1] = fork();
		if (c->pids[1] == 0) {
			close(local[0]);
			chain_serve(tcp[1], -1, hop, 0, hop);
		}
		close(tcp[1]);
	}
	c->fd = local[0];
	c->epoll = watch(c->fd);
	c->buf = calloc(1, CHAIN_MAX);
	return c->pids[0] < 0 || c->pids[1] < 0 || c->epoll < 0 || !c->buf
		       ? -EAGAIN
		       : 0;
}

int64_t
kv_floor_chain_round(struct kv_floor_chain *c)
{
	uint64_t start = now_ns();
	int rc;

	rc = give(c->fd, c->buf, c->ask);
	if (rc == 0)
		rc = take(c->epoll, c->fd, c->buf, c->back);
	return rc < 0 ? rc : (int64_t)(now_ns() - start);
}

void
kv_floor_chain_close(struct kv_floor_chain *c)
{
	unsigned i;

	if (c->fd >= 0)
		close(c->fd);
	if (c->epoll >= 0)
		close(c->epoll);
	free(c->buf);
	for (i = 0; i < 2; i++)
		if (c->pids[i] > 0) {
			/* Others forked since then hold its socket open. */
			kill(c->pids[i], SIGKILL);
			waitpid(c->pids[i], NULL, 0);
		}
}

/* ---- the stream ---- */

static void
stream_drain(int fd, size_t bytes)
{
	char *to = map(bytes, -1);
	size_t off = 0;
	ssize_t got;

	send(fd, "", 1, MSG_NOSIGNAL); /* its memory is faulted in */
	while (to && off < bytes) {
		got = read(fd, to + off, kv_min_size(bytes - off, 1 << 20));
		if (got <= 0)
			break;
		off += (size_t)got;
	}
	send(fd, "", 1, MSG_NOSIGNAL);
	_exit(0);
}

int64_t
kv_floor_stream(struct kv_floor *f)
{
	uint64_t start;
	int fds[2], rc;
	pid_t pid;
	char end;

	rc = tcp_pair(fds);
	if (rc < 0)
		return rc;
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		stream_drain(fds[1], f->bytes);
	}
	close(fds[1]);
	if (pid < 0 || recv(fds[0], &end, 1, 0) < 0)
		rc = -EAGAIN;
	start = now_ns();
	if (rc == 0)
		rc = give(fds[0], f->shared, f->bytes);
	if (rc == 0 && recv(fds[0], &end, 1, 0) < 0)
		rc = -errno;
	start = now_ns() - start;
	close(fds[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return rc < 0 ? rc : (int64_t)start;
}

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/num.h"
#include "mem/room.h"
#include "mem/seg.h"
#include "net/lookup.h"
#include "svc/floor.h"
#include "svc/floorcore.h"

/* Bytes of one system call. */
#define CALL_BYTES (1u << 20)

#define BYTES_MAX (4ull << 30)

/* What the near side asks for; above 0: as many bytes follow. */
struct order {
	int64_t bytes;
};

/* Moves the next bytes of the buffer, which is a ring. */
static int
move(struct kv_floor_stream *s, bool give, uint64_t bytes)
{
	ssize_t n;

	for (; bytes > 0; bytes -= (uint64_t)n) {
		n = (ssize_t)kv_min_u64(kv_min_u64(bytes, CALL_BYTES),
					s->bytes - s->at);
		n = give ? send(s->fd, s->buf + s->at, (size_t)n, MSG_NOSIGNAL)
			 : recv(s->fd, s->buf + s->at, (size_t)n, 0);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0 || (n == 0 && !give))
			return n < 0 ? -errno : -ECONNRESET;
		s->at = (s->at + (size_t)n) % s->bytes;
	}
	return 0;
}

static int
recv_all(int fd, void *buf, size_t n)
{
	ssize_t got = recv(fd, buf, n, MSG_WAITALL);

	return got == (ssize_t)n ? 0 : got < 0 ? -errno : -ECONNRESET;
}

/* The far process, with memory of the pool's kind. */
static void
serve(struct kv_floor_stream *s, int netns, int told)
{
	struct kv_seg *seg;
	struct order o;
	uint16_t port;
	char err[256];
	int l;

	if (netns >= 0 && setns(netns, CLONE_NEWNET) < 0)
		_exit(1);
	seg = kv_floor_io_share(s->bytes, false, err, sizeof(err));
	l = kv_floor_io_listen(&port);
	if (!seg || l < 0 ||
	    write(told, &port, sizeof(port)) != (ssize_t)sizeof(port))
		_exit(1);
	s->buf = (char *)seg->base;
	s->fd = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	kv_floor_io_nodelay(s->fd);
	while (recv_all(s->fd, &o, sizeof(o)) == 0) {
		if (move(s, o.bytes < 0, (uint64_t)llabs(o.bytes)) < 0)
			break;
		if (o.bytes > 0 && send(s->fd, "", 1, MSG_NOSIGNAL) != 1)
			break;
	}
	_exit(0);
}

static bool
is_same_host(const union kv_sockaddr *a, const union kv_sockaddr *b)
{
	return a->sa.sa_family == b->sa.sa_family &&
	       (a->sa.sa_family == AF_INET
			? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr
			: IN6_ARE_ADDR_EQUAL(&a->in6.sin6_addr,
					     &b->in6.sin6_addr));
}

/* The kernel would come from the very address that it is to reach, as it does
 * when it is one of its own. Nothing is sent. */
static bool
is_own(const struct kv_lookup_addr *to)
{
	union kv_sockaddr from = { 0 };
	socklen_t len = sizeof(from);
	int fd = socket(to->addr.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is = fd >= 0 && connect(fd, &to->addr.sa, to->len) == 0 &&
		  getsockname(fd, &from.sa, &len) == 0 &&
		  is_same_host(&from, &to->addr);

	if (fd >= 0)
		close(fd);
	return is;
}

bool
kv_floor_stream_is_loopback(const char *addr)
{
	struct kv_lookup_result found;
	char err[KV_ADDR_ERROR_BYTES];
	struct kv_addr a;

	if (kv_addr_parse(addr, 0, &a, err, sizeof(err)) < 0)
		return false;
	return kv_addr_is_loopback(&a) ||
	       (a.kind == KV_ADDR_TCP && kv_lookup_now(&a, &found) == 0 &&
		found.n > 0 && is_own(&found.addrs[0]));
}

int
kv_floor_stream_open(struct kv_floor_stream *s, size_t bytes, int netns,
		     const char *addr)
{
	uint16_t port;
	int told[2];
	bool heard;

	*s = (struct kv_floor_stream){ .fd = -1 };
	s->bytes = kv_min_u64(kv_min_u64(bytes, BYTES_MAX),
			      kv_room_memory("") / 8);
	s->buf = kv_floor_io_map(s->bytes);
	if (!s->buf || pipe(told) < 0)
		return -errno;
	s->pid = kv_floor_io_fork();
	if (s->pid == 0) {
		close(told[0]);
		serve(s, netns, told[1]);
	}
	close(told[1]);
	heard = s->pid > 0 &&
		read(told[0], &port, sizeof(port)) == (ssize_t)sizeof(port);
	close(told[0]);
	if (!heard)
		return -EAGAIN;
	s->fd = kv_floor_io_dial(addr, port);
	return s->fd < 0 ? s->fd : 0;
}

static int64_t
order(struct kv_floor_stream *s, int64_t bytes)
{
	const struct order o = { bytes };
	uint64_t start = kv_floor_io_now();
	char end;
	int rc;

	rc = kv_floor_io_give(s->fd, &o, sizeof(o));
	if (rc == 0)
		rc = move(s, bytes > 0, (uint64_t)llabs(bytes));
	if (rc == 0 && bytes > 0)
		rc = recv_all(s->fd, &end, 1);
	return rc < 0 ? rc : (int64_t)(kv_floor_io_now() - start);
}

int64_t
kv_floor_stream_give(struct kv_floor_stream *s, uint64_t bytes)
{
	return order(s, (int64_t)bytes);
}

int64_t
kv_floor_stream_take(struct kv_floor_stream *s, uint64_t bytes)
{
	return order(s, -(int64_t)bytes);
}

void
kv_floor_stream_close(struct kv_floor_stream *s)
{
	if (!s->bytes)
		return;
	kv_floor_io_end(s->pid);
	if (s->fd >= 0)
		close(s->fd);
	kv_floor_io_unmap(s->buf, s->bytes);
	*s = (struct kv_floor_stream){ 0 };
}

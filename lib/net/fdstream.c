#include "net/fdstream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/limits.h"
#include "event/loop.h"
#include "net/lookup.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

struct fdstream {
	struct kv_stream base;
	struct kv_loop *loop;
	struct kv_io io;
	int fd;
	int tx_fd; /* leaves with the next bytes; ours */
	int rx_fd; /* came; nobody has asked for it yet */
	struct kv_peer peer;
};

/* Room for one descriptor, aligned as the kernel wants it. */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static struct fdstream *
from_base(struct kv_stream *s)
{
	return KV_CONTAINER_OF(s, struct fdstream, base);
}

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Padding lets a second one in; whoever sends more wants our descriptors. */
static void
keep_one(struct fdstream *f, struct msghdr *msg)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n, i;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (f->rx_fd < 0)
				f->rx_fd = fd;
			else
				close(fd);
		}
	}
}

/* The kernel only reads the vector. */
static struct iovec *
for_kernel(const struct iovec *iov)
{
	union {
		const struct iovec *in;
		struct iovec *out;
	} u = { .in = iov };

	return u.out;
}

static ssize_t
stream_readv(struct kv_stream *s, const struct iovec *iov, int n)
{
	struct fdstream *f = from_base(s);
	union control control;
	struct msghdr msg = {
		.msg_iov = for_kernel(iov),
		.msg_iovlen = (size_t)(n < IOV_MAX ? n : IOV_MAX),
	};
	ssize_t got;

	if (f->peer.is_unix) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
	}
	got = recvmsg(f->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return -errno;
	if (msg.msg_controllen)
		keep_one(f, &msg);
	return got;
}

static ssize_t
stream_writev(struct kv_stream *s, const struct iovec *iov, int n)
{
	struct fdstream *f = from_base(s);
	union control control = { .bytes = { 0 } };
	struct msghdr msg = {
		.msg_iov = for_kernel(iov),
		.msg_iovlen = (size_t)(n < IOV_MAX ? n : IOV_MAX),
	};
	struct cmsghdr *c;
	ssize_t sent;

	if (f->tx_fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_LEN(sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &f->tx_fd, sizeof(int));
	}
	sent = sendmsg(f->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0)
		return -errno;
	if (sent > 0)
		close_fd(&f->tx_fd);
	return sent;
}

static int
stream_want(struct kv_stream *s, uint32_t events)
{
	struct fdstream *f = from_base(s);

	if (f->io.loop)
		return kv_loop_io_mod(&f->io, events);
	if (!events)
		return 0;
	return kv_loop_io_add(f->loop, &f->io, f->fd, events);
}

static int
stream_send_fd(struct kv_stream *s, int fd)
{
	struct fdstream *f = from_base(s);

	if (!f->peer.is_unix)
		return -ENOTSUP;
	if (f->tx_fd >= 0)
		return -EBUSY;
	f->tx_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return f->tx_fd < 0 ? -errno : 0;
}

static int
stream_recv_fd(struct kv_stream *s)
{
	return kv_steal_fd(&from_base(s)->rx_fd);
}

static void
stream_move(struct kv_stream *s, struct kv_loop *loop)
{
	struct fdstream *f = from_base(s);

	assert(f->io.events == 0);
	kv_loop_io_del(&f->io);
	f->loop = loop;
}

static void
stream_close(struct kv_stream *s)
{
	struct fdstream *f = from_base(s);

	kv_loop_io_del(&f->io);
	/* A forked child may hold the socket: closing alone ends nothing. */
	shutdown(f->fd, SHUT_RDWR);
	close_fd(&f->fd);
	close_fd(&f->tx_fd);
	close_fd(&f->rx_fd);
	close_fd(&f->peer.pidfd);
	free(f);
}

static void
stream_reset(struct kv_stream *s)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	/* Of TCP; over a Unix socket everything has arrived. */
	(void)connect(from_base(s)->fd, &nobody, sizeof(nobody));
	stream_close(s);
}

static const struct kv_stream_ops ops = {
	.readv = stream_readv,
	.writev = stream_writev,
	.want = stream_want,
	.send_fd = stream_send_fd,
	.recv_fd = stream_recv_fd,
	.move = stream_move,
	.close = stream_close,
	.reset = stream_reset,
};

/* Whoever reads or writes meets the error itself. */
static void
on_ready(struct kv_io *io, uint32_t ready)
{
	struct fdstream *f = KV_CONTAINER_OF(io, struct fdstream, io);

	if (ready & (EPOLLERR | EPOLLHUP))
		ready |= io->events;
	f->base.ready(&f->base, ready & (EPOLLIN | EPOLLOUT));
}

static void
set_option(int fd, int level, int name, int value)
{
	/* Each of them is an improvement; without it the stream still works. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

/*
 * A peer that is gone without a word is noticed within KV_SOCK_STALL_MS, with
 * bytes on their way and without; the kernel's own patience is 15 minutes.
 */
static void
tune(int fd)
{
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, KV_SOCK_STALL_MS);
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KV_SOCK_STALL_MS / 2000);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KV_SOCK_STALL_MS / 5000);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

static void
identify(int fd, struct kv_peer *p)
{
	char text[KV_ADDR_TEXT_BYTES_MAX];
	struct kv_lookup_addr there = { .len = sizeof(there.addr) };
	socklen_t len = sizeof(int);
	struct kv_addr addr;
	struct ucred cred;
	int domain = 0;

	*p = (struct kv_peer){ .pid = -1, .pidfd = -1 };
	(void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
	p->is_unix = domain == AF_UNIX;
	if (!p->is_unix) {
		/* One that was reset already has no name any more. */
		(void)getpeername(fd, &there.addr.sa, &there.len);
		kv_lookup_name(&there, &addr);
		snprintf(p->addr, sizeof(p->addr), "%.63s",
			 kv_addr_format(&addr, text));
		return;
	}
	snprintf(p->addr, sizeof(p->addr), "unix");
	len = sizeof(cred);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return;
	p->pid = cred.pid;
	p->uid = cred.uid;
	p->gid = cred.gid;
}

/* Asked of the socket no other process can have taken the pid meanwhile. */
static int
open_pidfd(int fd, pid_t pid)
{
	socklen_t len = sizeof(int);
	int pidfd;

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len))
		return pidfd;
	if (errno == ENOPROTOOPT)
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	else
		pidfd = -1;
	return pidfd < 0 ? -errno : pidfd;
}

int
kv_fdstream_peer(struct kv_stream *s, struct kv_peer *out)
{
	struct fdstream *f = from_base(s);
	int err = 0;

	if (f->peer.is_unix && f->peer.pidfd < 0) {
		int pidfd = open_pidfd(f->fd, f->peer.pid);

		if (pidfd >= 0)
			f->peer.pidfd = pidfd;
		else if (pidfd == -EMFILE || pidfd == -ENFILE ||
			 pidfd == -ENOMEM)
			err = pidfd;
	}
	*out = f->peer;
	return err;
}

struct kv_stream *
kv_fdstream_new(struct kv_loop *loop, int fd)
{
	struct fdstream *f = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*f));

	if (!f) {
		close(fd);
		errno = ENOMEM;
		return NULL;
	}
	f->base.ops = &ops;
	f->loop = loop;
	f->io.fn = on_ready;
	f->fd = fd;
	f->tx_fd = f->rx_fd = -1;
	identify(fd, &f->peer);
	if (!f->peer.is_unix)
		tune(fd);
	return &f->base;
}

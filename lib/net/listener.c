#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "event/loop.h"
#include "net/fdstream.h"
#include "net/lookup.h"
#include "net/sock.h"
#include "net/unixsock.h"

#define STALL_NS (100 * KV_NS_PER_MS) /* without descriptors: a pause of */

/* Between two looks at the file of a Unix socket; the most, while it cannot be
 * made again. */
#define LOOK_NS     KV_NS_PER_S
#define LOOK_NS_MAX (60 * KV_NS_PER_S)

enum {
	BACKLOG = 4096,
	TURN_AWAY_MAX = 64 /* after each pause */
};

struct kv_listener {
	struct kv_loop *loop;
	kv_net_accept_fn *fn;
	void *arg;
	struct kv_io io;
	int fd;
	int spare_fd; /* given up to turn somebody away; -1: none to be had */
	bool is_stalled;
	struct kv_timer retry;
	struct kv_log_limit limit;
	bool is_unix;
	struct kv_unixsock file; /* when is_unix */
	gid_t group;             /* its */
	struct kv_timer look;
	uint64_t look_ns;
	char bound[KV_NET_BOUND_BYTES];
};

static int
accept_one(int fd)
{
	int got = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	return got < 0 ? -errno : got;
}

static int
open_spare(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void
turn_away(struct kv_listener *l)
{
	int fd = 0;

	if (l->spare_fd >= 0)
		close(l->spare_fd);
	for (int i = 0; i < TURN_AWAY_MAX && fd >= 0; i++) {
		fd = accept_one(l->fd);
		if (fd >= 0)
			close(fd);
	}
	l->spare_fd = open_spare();
}

static void
tell_stall(struct kv_listener *l, int err)
{
	uint64_t now = kv_loop_now(l->loop);
	struct rlimit limit = { 0 };

	errno = -err;
	if (err != -EMFILE) {
		kv_log_limited(&l->limit, now, KV_LOG_ERR,
			       "cannot accept connections on %s: %m", l->bound);
		return;
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	kv_log_limited(&l->limit, now, KV_LOG_ERR,
		       "no new connections on %s: all %llu file descriptors "
		       "are in use; raise the limit (ulimit -n)",
		       l->bound, (unsigned long long)limit.rlim_cur);
}

static void
stall(struct kv_listener *l, int err)
{
	if (!l->is_stalled)
		tell_stall(l, err);
	else if (err == -EMFILE || err == -ENFILE)
		turn_away(l);
	l->is_stalled = true;
	/* Without memory for a timer: no pause, rather than none to end it. */
	if (!kv_loop_timer_set(l->loop, &l->retry,
			       kv_loop_now(l->loop) + STALL_NS))
		(void)kv_loop_io_mod(&l->io, 0);
}

static void
on_retry(struct kv_timer *t)
{
	struct kv_listener *l = KV_CONTAINER_OF(t, struct kv_listener, retry);
	int err = kv_loop_io_mod(&l->io, EPOLLIN);

	if (err)
		stall(l, err);
}

/* Errors of the one connection, that is no more; the next one may be good. */
static bool
is_of_peer(int err)
{
	switch (-err) {
	case EAGAIN:
	case EINTR:
	case ECONNABORTED:
	case EPROTO:
	case EPERM:
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENONET:
	case ENOPROTOOPT:
	case EOPNOTSUPP:
	case ETIMEDOUT:
		return true;
	default:
		return false;
	}
}

/* A file's mode says who may connect; an abstract name has none, so it is for
 * the own user, and root. */
static bool
is_welcome(const struct kv_listener *l, const struct kv_peer *peer)
{
	return !l->is_unix || l->file.path[0] != '@' || peer->uid == 0 ||
	       peer->uid == geteuid();
}

/* One each turn: fn may end the listener. */
static void
on_ready(struct kv_io *io, uint32_t ready)
{
	struct kv_listener *l = KV_CONTAINER_OF(io, struct kv_listener, io);
	int fd = accept_one(l->fd);
	struct kv_stream *s;
	struct kv_peer peer;
	int err;

	(void)ready;
	if (fd < 0) {
		if (!is_of_peer(fd))
			stall(l, fd);
		return;
	}
	s = kv_fdstream_new(l->loop, fd);
	if (!s)
		return;
	err = kv_fdstream_peer(s, &peer);
	if (err) {
		s->ops->close(s);
		stall(l, err);
		return;
	}
	if (!is_welcome(l, &peer)) {
		s->ops->close(s);
		return;
	}
	if (l->is_stalled)
		kv_log_recovered(&l->limit, KV_LOG_INFO,
				 "new connections on %s again", l->bound);
	l->is_stalled = false;
	l->fn(l->arg, s, &peer);
}

static int
bind_address(const struct kv_lookup_addr *a)
{
	int off = 0, on = 1;
	kv_auto_close int fd =
		socket(a->addr.sa.sa_family,
		       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		return -errno;
	if (a->addr.sa.sa_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)))
		return -errno;
	if (bind(fd, &a->addr.sa, a->len) || listen(fd, BACKLOG))
		return -errno;
	return kv_steal_fd(&fd);
}

/* The first address that this host has; a port in use ends the search. */
static int
bind_tcp(const struct kv_addr *a)
{
	struct kv_lookup_result r;
	int fd = kv_lookup_now(a, &r);

	if (fd)
		return fd;
	for (int i = 0; i < r.n; i++) {
		fd = bind_address(&r.addrs[i]);
		if (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL)
			break;
	}
	return fd;
}

static int
open_tcp(struct kv_listener *l, const struct kv_addr *addr)
{
	struct kv_lookup_addr own = { .len = sizeof(own.addr) };
	char text[KV_ADDR_TEXT_BYTES_MAX];
	struct kv_addr bound;

	l->fd = bind_tcp(addr);
	if (l->fd < 0) {
		errno = -l->fd;
		if (errno == ENXIO || errno == ENONET)
			kv_err("cannot listen on %s: %s",
			       kv_addr_format(addr, text),
			       kv_sock_error_text(-errno));
		else
			kv_err("cannot listen on %s: %m%s",
			       kv_addr_format(addr, text),
			       errno == EADDRINUSE ? "; choose another port"
						   : "");
		return -errno;
	}
	if (getsockname(l->fd, &own.addr.sa, &own.len))
		return -errno;
	kv_lookup_name(&own, &bound);
	snprintf(l->bound, sizeof(l->bound), "%.127s",
		 kv_addr_format(&bound, text));
	return 0;
}

/* The file is gone: nobody can connect any more. 0 or -errno, logged. */
static int
open_again(struct kv_listener *l)
{
	int fd = kv_unixsock_rebind(&l->file, l->group), err;

	if (fd < 0)
		return fd;
	kv_loop_timer_del(&l->retry);
	kv_loop_io_del(&l->io);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = fd;
	err = listen(l->fd, BACKLOG) ? -errno : 0;
	if (!err)
		err = kv_loop_io_add(l->loop, &l->io, l->fd, EPOLLIN);
	if (!err) {
		kv_warn("the socket %s was gone: it is made again",
			l->file.path);
		return 0;
	}
	errno = -err;
	kv_err("cannot listen on %s: %m", l->bound);
	close(l->fd); /* else it would look like somebody else's */
	l->fd = -1;
	return err;
}

static void
on_look(struct kv_timer *t)
{
	struct kv_listener *l = KV_CONTAINER_OF(t, struct kv_listener, look);

	if ((kv_unixsock_is_there(&l->file) && l->fd >= 0) || !open_again(l))
		l->look_ns = LOOK_NS;
	else
		l->look_ns = kv_min_u64(2 * l->look_ns, LOOK_NS_MAX);
	(void)kv_loop_timer_set(l->loop, &l->look,
				kv_loop_now(l->loop) + l->look_ns);
}

static int
open_unix(struct kv_listener *l, const struct kv_addr *addr, gid_t group)
{
	l->fd = kv_unixsock_bind(&l->file, addr->name, group);
	if (l->fd < 0)
		return l->fd;
	l->is_unix = true;
	l->group = group;
	snprintf(l->bound, sizeof(l->bound), "unix:%s", l->file.path);
	if (listen(l->fd, BACKLOG)) {
		kv_err("cannot listen on %s: %m", l->bound);
		return -errno;
	}
	if (l->file.path[0] == '@')
		return 0;
	return kv_loop_timer_set(l->loop, &l->look,
				 kv_loop_now(l->loop) + l->look_ns);
}

static int
open_listener(struct kv_listener *l, const char *text, gid_t group)
{
	char why[KV_ADDR_ERROR_BYTES];
	struct kv_addr addr;
	int err = kv_addr_parse(text, 0, &addr, why, sizeof(why));

	if (err)
		kv_err("cannot listen: %s", why);
	else if (addr.kind == KV_ADDR_UNIX)
		err = open_unix(l, &addr, group);
	else
		err = open_tcp(l, &addr);
	if (err)
		return err;
	l->spare_fd = open_spare();
	return kv_loop_io_add(l->loop, &l->io, l->fd, EPOLLIN);
}

struct kv_listener *
kv_listener_new(struct kv_loop *loop, const char *addr, gid_t group,
		kv_net_accept_fn *fn, void *arg, int *err)
{
	struct kv_listener *l = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*l));

	if (!l) {
		*err = -ENOMEM;
		return NULL;
	}
	l->loop = loop;
	l->fn = fn;
	l->arg = arg;
	l->fd = l->spare_fd = -1;
	l->io.fn = on_ready;
	l->retry.fn = on_retry;
	l->look.fn = on_look;
	l->look_ns = LOOK_NS;
	*err = open_listener(l, addr, group);
	if (!*err)
		return l;
	kv_listener_free(l);
	return NULL;
}

const char *
kv_listener_bound(const struct kv_listener *l)
{
	return l->bound;
}

void
kv_listener_free(struct kv_listener *l)
{
	kv_loop_timer_del(&l->retry);
	kv_loop_timer_del(&l->look);
	kv_loop_io_del(&l->io);
	if (l->is_unix)
		kv_unixsock_unbind(&l->file);
	if (l->fd >= 0)
		close(l->fd);
	if (l->spare_fd >= 0)
		close(l->spare_fd);
	free(l);
}

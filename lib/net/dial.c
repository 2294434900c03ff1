#include "net/dial.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "event/loop.h"
#include "net/fdstream.h"
#include "net/lookup.h"

#define AGAIN_NS (10 * KV_NS_PER_MS) /* until something full is tried again */
/* What was lost, or met a full queue, the kernel sends again after a second,
 * which is too late for most: a new attempt is made before, then after twice as
 * long. */
#define LOST_NS (200 * KV_NS_PER_MS)

struct kv_dial {
	struct kv_loop *loop;
	kv_net_connect_fn *fn;
	void *arg;
	uint64_t deadline_ns;
	struct kv_addr addr;
	struct kv_lookup *lookup; /* NULL when none is under way */
	struct kv_lookup_result to;
	int next;          /* the address of `to` that is tried next */
	uint64_t until_ns; /* the one before it is tried so long */
	uint64_t lost_ns;
	int fd; /* -1 when none is being connected */
	struct kv_io io;
	struct kv_timer timer;
	struct kv_defer done;
	int status; /* told by done */
};

static void
drop_attempt(struct kv_dial *d)
{
	kv_loop_timer_del(&d->timer);
	kv_loop_io_del(&d->io);
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

/* status 0: d->fd is connected. */
static void
finish(struct kv_dial *d, int status)
{
	kv_loop_timer_del(&d->timer);
	kv_loop_io_del(&d->io);
	d->status = status;
	kv_loop_defer(d->loop, &d->done);
}

static void
on_done(struct kv_defer *defer)
{
	struct kv_dial *d = KV_CONTAINER_OF(defer, struct kv_dial, done);
	kv_net_connect_fn *fn = d->fn;
	void *arg = d->arg;
	struct kv_stream *s = NULL;
	int status = d->status;

	if (!status) {
		s = kv_fdstream_new(d->loop, kv_steal_fd(&d->fd));
		status = s ? 0 : -errno;
	}
	kv_dial_cancel(d);
	fn(arg, s, status);
}

/* fn will run at that time, at the latest when the deadline comes. */
static int
set_timer(struct kv_dial *d, uint64_t at, void (*fn)(struct kv_timer *t))
{
	d->timer.fn = fn;
	return kv_loop_timer_set(d->loop, &d->timer,
				 kv_min_u64(at, d->deadline_ns));
}

/*
 * Connecting to a free port of the own host the kernel may choose that very
 * port as the source: the socket is then connected to itself, and the daemon
 * that it waits for finds its port taken.
 */
static bool
is_own_end(int fd)
{
	union kv_sockaddr here = { 0 }, there = { 0 };
	socklen_t n = sizeof(here), m = sizeof(there);

	if (getsockname(fd, &here.sa, &n) || getpeername(fd, &there.sa, &m))
		return false;
	return here.sa.sa_family != AF_UNIX && n == m &&
	       !memcmp(&here, &there, n);
}

static void try_next(struct kv_dial *d, int last);

static void
on_connected(struct kv_io *io, uint32_t ready)
{
	struct kv_dial *d = KV_CONTAINER_OF(io, struct kv_dial, io);
	socklen_t len = sizeof(int);
	int err = 0;

	(void)ready;
	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	if (!err && is_own_end(d->fd))
		err = ECONNREFUSED;
	if (err)
		try_next(d, -err);
	else
		finish(d, 0);
}

static void on_attempt_over(struct kv_timer *t);

/* Of family `af`, or -errno. What is left of it in TIME_WAIT keeps no daemon
 * from listening on the port that the kernel chose for it. */
static int
open_socket(int af)
{
	const int on = 1;
	kv_auto_close int fd =
		socket(af, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		return -errno;
	return kv_steal_fd(&fd);
}

/* The address before the next one. 0: under way, or connected. */
static int
try_one(struct kv_dial *d)
{
	const struct kv_lookup_addr *to = &d->to.addrs[d->next - 1];
	uint64_t now = kv_loop_now(d->loop), over;
	int err;

	d->fd = open_socket(to->addr.sa.sa_family);
	if (d->fd < 0)
		return d->fd;
	if (!connect(d->fd, &to->addr.sa, to->len)) {
		finish(d, 0);
		return 0;
	}
	if (errno == EAGAIN) /* a Unix socket whose backlog is full */
		return set_timer(d, now + AGAIN_NS, on_attempt_over);
	if (errno == ENOENT) /* no file of a Unix socket */
		return -ECONNREFUSED;
	if (errno != EINPROGRESS)
		return -errno;
	err = kv_loop_io_add(d->loop, &d->io, d->fd, EPOLLOUT);
	over = kv_min_u64(now + d->lost_ns, d->until_ns);
	d->lost_ns *= 2;
	return err ? err : set_timer(d, over, on_attempt_over);
}

static void
on_attempt_over(struct kv_timer *t)
{
	struct kv_dial *d = KV_CONTAINER_OF(t, struct kv_dial, timer);
	int err = -ETIMEDOUT;

	if (kv_loop_now(d->loop) < d->until_ns) {
		drop_attempt(d);
		err = try_one(d);
	}
	if (err)
		try_next(d, err);
}

/* The attempt before ended with `last`. */
static void
try_next(struct kv_dial *d, int last)
{
	uint64_t now = kv_loop_now(d->loop);

	do {
		drop_attempt(d);
		if (now >= d->deadline_ns) {
			finish(d, -ETIMEDOUT);
			return;
		}
		if (d->next == d->to.n) {
			finish(d, last);
			return;
		}
		d->until_ns =
			now + (d->deadline_ns - now) / (d->to.n - d->next);
		d->lost_ns = LOST_NS;
		d->next++;
		last = try_one(d);
	} while (last);
}

static void
on_lookup(void *arg, int status, const struct kv_lookup_result *r)
{
	struct kv_dial *d = arg;

	d->lookup = NULL;
	if (status) {
		finish(d, status);
		return;
	}
	d->to = *r;
	try_next(d, 0);
}

static void
on_lookup_over(struct kv_timer *t)
{
	struct kv_dial *d = KV_CONTAINER_OF(t, struct kv_dial, timer);

	kv_lookup_cancel(kv_steal_ptr(&d->lookup));
	finish(d, -ENONET);
}

static void look_up(struct kv_dial *d);

static void
on_lookup_again(struct kv_timer *t)
{
	struct kv_dial *d = KV_CONTAINER_OF(t, struct kv_dial, timer);

	if (kv_loop_now(d->loop) >= d->deadline_ns)
		finish(d, -ENONET);
	else
		look_up(d);
}

static void
look_up(struct kv_dial *d)
{
	int err = 0;

	d->lookup = kv_lookup_start(d->loop, &d->addr, on_lookup, d);
	if (d->lookup)
		err = set_timer(d, d->deadline_ns, on_lookup_over);
	else if (errno == EAGAIN)
		err = set_timer(d, kv_loop_now(d->loop) + AGAIN_NS,
				on_lookup_again);
	else
		err = -errno;
	if (!err)
		return;
	if (d->lookup)
		kv_lookup_cancel(kv_steal_ptr(&d->lookup));
	finish(d, err);
}

static void
start(struct kv_dial *d, const char *addr)
{
	char why[KV_ADDR_ERROR_BYTES];
	int err = kv_addr_parse(addr, 0, &d->addr, why, sizeof(why));

	if (!err && d->addr.kind == KV_ADDR_TCP &&
	    (!d->addr.name[0] || !d->addr.port))
		err = -EINVAL;
	if (err) {
		finish(d, err);
		return;
	}
	if (d->addr.kind == KV_ADDR_TCP && !kv_addr_is_numeric(&d->addr)) {
		look_up(d);
		return;
	}
	err = kv_lookup_now(&d->addr, &d->to);
	if (err)
		finish(d, err);
	else
		try_next(d, 0);
}

struct kv_dial *
kv_dial_start(struct kv_loop *loop, const char *addr, uint64_t deadline_ns,
	      kv_net_connect_fn *fn, void *arg)
{
	struct kv_dial *d = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->loop = loop;
	d->fn = fn;
	d->arg = arg;
	d->deadline_ns = deadline_ns;
	d->fd = -1;
	d->io.fn = on_connected;
	d->done.fn = on_done;
	start(d, addr);
	return d;
}

void
kv_dial_cancel(struct kv_dial *d)
{
	if (d->lookup)
		kv_lookup_cancel(d->lookup);
	kv_loop_defer_del(&d->done);
	drop_attempt(d);
	free(d);
}

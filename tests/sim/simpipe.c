#include "simpipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/num.h"

/* What is on its way. */
struct packet {
	struct kv_list link;
	uint64_t at_ns;
	size_t bytes; /* 0: the end of the stream */
	bool reset;
};

void *
simpipe_alloc(size_t bytes)
{
	void *p = calloc(1, bytes);

	assert(p);
	return p;
}

void
simpipe_arm(struct simnet *sn, struct kv_timer *t, uint64_t at_ns)
{
	int rc = kv_loop_timer_set(sn->loop, t, at_ns);

	assert(rc == 0);
}

uint64_t
simpipe_arrival(struct simnet *sn, struct simnet_path *path, size_t bytes)
{
	uint64_t at = kv_loop_now(sn->loop);

	if (path->from == path->to)
		return at + sn->opts.local_ns;
	if (sn->opts.bytes_per_ns > 0) {
		double ns = (double)bytes / sn->opts.bytes_per_ns;

		path->free_ns = kv_max_u64(at, path->free_ns) + (uint64_t)ns;
		at = path->free_ns;
	}
	at += sn->opts.latency_ns + path->delay_ns;
	if (sn->opts.jitter_ns > 0)
		at += kv_rng_below(&sn->rng, sn->opts.jitter_ns);
	return at;
}

static struct simpipe_end *
other(struct simpipe_end *e)
{
	return e == &e->link->ends[0] ? &e->link->ends[1] : &e->link->ends[0];
}

static size_t
room(struct simpipe_end *e)
{
	const struct simpipe *out = &other(e)->in;

	return e->link->sn->opts.pipe_bytes - (size_t)(out->put - out->got);
}

/* What of its interest holds. */
static uint32_t
state(struct simpipe_end *e)
{
	uint32_t events = 0;

	if (e->shut || !e->want)
		return 0;
	if (e->in.reset)
		events |= EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLOUT;
	if (e->in.here > e->in.got || e->in.ended)
		events |= EPOLLIN;
	if (room(e) > 0)
		events |= EPOLLOUT;
	return events & (e->want | EPOLLERR | EPOLLHUP);
}

static void
notify(struct simpipe_end *e)
{
	if (state(e))
		kv_loop_defer(e->proc->loop, &e->defer);
}

static void
free_packets(struct simpipe *in)
{
	struct packet *p, *tmp;

	KV_LIST_FOREACH_SAFE(p, tmp, &in->packets, link) {
		kv_list_del(&p->link);
		free(p);
	}
	kv_loop_timer_del(&in->timer);
}

static void
release(struct simpipe_link *l)
{
	if (l->holds > 0 || !l->ends[0].freed || !l->ends[1].freed)
		return;
	for (int i = 0; i < 2; i++) {
		struct simpipe *in = &l->ends[i].in;

		free_packets(in);
		free(in->ring);
		while (in->n_fds > 0)
			close(in->fds[--in->n_fds]);
	}
	kv_list_del(&l->link);
	free(l);
}

static void
run_ready(struct kv_defer *d)
{
	struct simpipe_end *e = KV_CONTAINER_OF(d, struct simpipe_end, defer);
	struct simpipe_link *l = e->link;
	uint32_t events = state(e);

	if (!events)
		return;
	l->holds++;
	e->s.ready(&e->s, events);
	notify(e);
	l->holds--;
	release(l);
}

/* ---- on the way ---- */

static void
post(struct simpipe_end *to, size_t bytes, bool reset)
{
	struct simnet *sn = to->link->sn;
	struct simpipe *in = &to->in;
	struct packet *p = simpipe_alloc(sizeof(*p));

	p->bytes = bytes;
	p->reset = reset;
	p->at_ns =
		kv_max_u64(in->last_ns, simpipe_arrival(sn, in->path, bytes));
	in->last_ns = p->at_ns;
	if (kv_list_is_empty(&in->packets))
		simpipe_arm(sn, &in->timer, p->at_ns);
	kv_list_add_tail(&in->packets, &p->link);
}

static void
arrive(struct simpipe_end *e, const struct packet *p)
{
	e->in.here += p->bytes;
	if (p->reset)
		e->in.reset = true;
	else if (p->bytes == 0)
		e->in.ended = true;
	if (!e->shut)
		return;
	/* Nobody reads here any more: bytes are answered with a reset. */
	e->in.got = e->in.here;
	if (p->bytes > 0 && !e->in.reset) {
		e->in.reset = true;
		post(other(e), 0, true);
	}
}

static void
run_timer(struct kv_timer *t)
{
	struct simpipe *in = KV_CONTAINER_OF(t, struct simpipe, timer);
	struct simpipe_end *e = KV_CONTAINER_OF(in, struct simpipe_end, in);
	struct simnet *sn = e->link->sn;

	while (!in->path->cut) {
		struct packet *p =
			KV_LIST_FIRST(&in->packets, struct packet, link);

		if (!p)
			break;
		if (p->at_ns > kv_loop_now(sn->loop)) {
			simpipe_arm(sn, &in->timer, p->at_ns);
			break;
		}
		kv_list_del(&p->link);
		arrive(e, p);
		free(p);
	}
	notify(e);
	notify(other(e));
}

void
simpipe_resume(struct simpipe_end *e)
{
	if (!kv_list_is_empty(&e->in.packets))
		simpipe_arm(e->link->sn, &e->in.timer,
			    kv_loop_now(e->link->sn->loop));
}

static void
shut(struct simpipe_end *e, bool reset)
{
	bool unread = e->in.here > e->in.got;

	if (e->shut)
		return;
	e->shut = true;
	kv_loop_defer_del(&e->defer);
	e->in.got = e->in.here;
	post(other(e), 0, unread || reset);
	notify(other(e));
}

void
simpipe_shut(struct simpipe_end *e)
{
	shut(e, false);
}

void
simpipe_reset(struct simpipe_link *l)
{
	for (int i = 0; i < 2; i++) {
		struct simpipe *in = &l->ends[i].in;

		free_packets(in);
		in->put = in->here;
		in->reset = true;
	}
	notify(&l->ends[0]);
	notify(&l->ends[1]);
}

/* ---- streams ---- */

/* How much of n bytes this call takes. */
static size_t
share(struct simnet *sn, size_t n)
{
	if (!sn->opts.chunked || n == 0)
		return n;
	switch (kv_rng_below(&sn->rng, 8)) {
	case 0:
		return 0;
	case 1:
	case 2:
	case 3:
		return 1 + kv_rng_below(&sn->rng, kv_min_size(n, 64));
	default:
		return 1 + kv_rng_below(&sn->rng, n);
	}
}

/* Copies up to n bytes between pieces and the ring from `pos` on. */
static size_t
copy(struct simpipe_end *e, struct simpipe *p, bool in, const struct iovec *iov,
     size_t n)
{
	size_t cap = e->link->sn->opts.pipe_bytes, done = 0, off = 0;
	uint64_t pos = in ? p->put : p->got;

	while (done < n) {
		size_t at = (size_t)((pos + done) % cap);
		size_t part = kv_min_size(n - done, iov->iov_len - off);
		uint8_t *mem = (uint8_t *)iov->iov_base + off;

		part = kv_min_size(part, cap - at);
		if (in)
			memcpy(p->ring + at, mem, part);
		else
			memcpy(mem, p->ring + at, part);
		done += part;
		off += part;
		if (off == iov->iov_len) {
			iov++;
			off = 0;
		}
	}
	return n;
}

static size_t
sum_of(const struct iovec *iov, int n)
{
	size_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}

static ssize_t
do_readv(struct kv_stream *s, const struct iovec *iov, int n)
{
	struct simpipe_end *e = (struct simpipe_end *)s;
	struct simpipe *in = &e->in;
	size_t here = (size_t)(in->here - in->got), part;

	if (e->shut)
		return -ECONNRESET;
	if (here == 0 && in->reset)
		return -ECONNRESET;
	if (here == 0)
		return in->ended ? 0 : -EAGAIN;
	part = share(e->link->sn, kv_min_size(here, sum_of(iov, n)));
	if (part == 0)
		return -EAGAIN;
	copy(e, in, false, iov, part);
	in->got += part;
	notify(other(e));
	return (ssize_t)part;
}

static ssize_t
do_writev(struct kv_stream *s, const struct iovec *iov, int n)
{
	struct simpipe_end *e = (struct simpipe_end *)s;
	struct simpipe_end *to = other(e);
	size_t part;

	if (e->shut || (e->link->is_unix && e->in.ended))
		return -EPIPE;
	if (e->in.reset)
		return -ECONNRESET;
	part = share(e->link->sn, kv_min_size(room(e), sum_of(iov, n)));
	if (part == 0)
		return -EAGAIN;
	copy(e, &to->in, true, iov, part);
	to->in.put += part;
	post(to, part, false);
	return (ssize_t)part;
}

static int
do_want(struct kv_stream *s, uint32_t events)
{
	struct simpipe_end *e = (struct simpipe_end *)s;

	e->want = events;
	notify(e);
	return 0;
}

static int
do_send_fd(struct kv_stream *s, int fd)
{
	struct simpipe_end *e = (struct simpipe_end *)s;
	struct simpipe *out = &other(e)->in;

	if (!e->link->is_unix)
		return -ENOTSUP;
	if (out->n_fds == SIMPIPE_FDS_MAX)
		return -EBUSY;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	out->fd_at[out->n_fds] = out->put;
	out->fds[out->n_fds++] = fd;
	return 0;
}

static int
do_recv_fd(struct kv_stream *s)
{
	struct simpipe *in = &((struct simpipe_end *)s)->in;
	int fd = in->fds[0];

	if (in->n_fds == 0 || in->fd_at[0] >= in->got)
		return -1;
	in->n_fds--;
	memmove(in->fds, in->fds + 1, sizeof(in->fds) - sizeof(in->fds[0]));
	memmove(in->fd_at, in->fd_at + 1,
		sizeof(in->fd_at) - sizeof(in->fd_at[0]));
	return fd;
}

static void
do_close(struct kv_stream *s)
{
	struct simpipe_end *e = (struct simpipe_end *)s;

	assert(!e->freed);
	simpipe_shut(e);
	e->freed = true;
	e->link->sn->streams--;
	release(e->link);
}

static void
do_reset(struct kv_stream *s)
{
	struct simpipe_end *e = (struct simpipe_end *)s;
	struct simpipe *to = &other(e)->in;

	/* It would have been sent again. */
	if (!e->shut && !e->link->is_unix && to->path->cut) {
		free_packets(to);
		to->put = to->here;
	}
	if (!e->link->is_unix)
		shut(e, true);
	do_close(s);
}

static const struct kv_stream_ops stream_ops = {
	.readv = do_readv,
	.writev = do_writev,
	.want = do_want,
	.send_fd = do_send_fd,
	.recv_fd = do_recv_fd,
	.close = do_close,
	.reset = do_reset,
};

static void
end_init(struct simpipe_link *l, int i, struct simnet_proc *proc,
	 struct simnet_path *path)
{
	struct simpipe_end *e = &l->ends[i];

	e->s.ops = &stream_ops;
	e->link = l;
	e->proc = proc;
	e->defer.fn = run_ready;
	kv_list_init(&e->queue);
	e->in.path = path;
	e->in.timer.fn = run_timer;
	e->in.ring = simpipe_alloc(l->sn->opts.pipe_bytes);
	kv_list_init(&e->in.packets);
	l->sn->streams++;
}

struct simpipe_link *
simpipe_new(struct simnet_proc *dialler, struct simnet_proc *listener,
	    bool is_unix, struct simnet_path *to_dialler,
	    struct simnet_path *to_listener)
{
	struct simpipe_link *l = simpipe_alloc(sizeof(*l));

	l->sn = dialler->sn;
	l->is_unix = is_unix;
	end_init(l, 0, dialler, to_dialler);
	end_init(l, 1, listener, to_listener);
	kv_list_add_tail(&l->sn->links, &l->link);
	return l;
}

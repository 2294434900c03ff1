/*
 * Two queues (recvq.h, sendq.h) on a stream, and when to call whom. Owners are
 * called from ready(), turn() and kv_conn_close() only; these hold the
 * connection (enter, leave) so that a callback may free it.
 */
#include "net/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/num.h"
#include "net/conncore.h"

enum {
	MAGIC = 0x6b76636f,
	IOV_MAX_WRITE = 64,
	/* After so much of one connection it is the turn of others. */
	TURN_FRAMES = 256,
	TURN_BYTES = 4 << 20,
};

/* A frame or payload that has begun goes on within the one, and a frame is
 * there within the other. */
#define STALL_NS (10 * KV_NS_PER_S)
#define FRAME_NS (30 * KV_NS_PER_S)

static void
enter(struct kv_conn *c)
{
	KV_MAGIC_CHECK(c, MAGIC);
	c->depth++;
}

static void
leave(struct kv_conn *c)
{
	if (--c->depth > 0 || !c->gone)
		return;
	kv_recvq_fini(&c->in);
	kv_sendq_fini(&c->out);
	c->magic = 0;
	free(c);
}

void
kv_conn_schedule(struct kv_conn *c)
{
	if (!c->gone)
		kv_loop_defer(c->loop, &c->defer);
}

static void
close_stream(struct kv_conn *c)
{
	if (c->stream)
		c->stream->ops->close(c->stream);
	c->stream = NULL;
	c->full = false;
	kv_loop_timer_del(&c->begun.timer);
}

void
kv_conn_fail(struct kv_conn *c, int status)
{
	if (!c->stream)
		return;
	close_stream(c);
	c->status = status;
	kv_sendq_fail(&c->out, status, &c->done);
	kv_conn_schedule(c);
}

static void
update_want(struct kv_conn *c)
{
	uint32_t want = 0;
	int rc;

	if (!c->paused)
		want |= EPOLLIN;
	if (c->blocked)
		want |= EPOLLOUT;
	if (!c->stream || want == c->want)
		return;
	rc = c->stream->ops->want(c->stream, want);
	if (rc < 0)
		kv_conn_fail(c, rc);
	else
		c->want = want;
}

/* Hands over what was received. True when bytes are missing. */
static bool
hand_over(struct kv_conn *c, int *frames)
{
	while (c->stream && !c->paused) {
		struct kv_msg msg;
		int rc;

		if (*frames == 0) {
			c->again = true;
			return false;
		}
		rc = kv_recvq_next(&c->in, &msg);
		if (rc == KV_RECVQ_MORE)
			return true;
		if (rc == KV_RECVQ_MSG) {
			--*frames;
			c->msgs++;
			c->ops->on_msg(c, &msg);
			continue;
		}
		if (rc == KV_RECVQ_PAYLOAD)
			rc = c->ops->on_payload
				     ? c->ops->on_payload(c, &msg, c->in.iov,
							  KV_CONN_PIECES_MAX)
				     : -EPROTO;
		if (rc < 0)
			kv_conn_fail(c, rc);
		else if (c->stream)
			kv_recvq_place(&c->in, rc);
	}
	return false;
}

/* True when there may be more. */
static bool
read_some(struct kv_conn *c, size_t *bytes)
{
	struct iovec iov[KV_RECVQ_IOV_MAX];
	size_t asked = 0;
	ssize_t got;
	int n;

	n = kv_recvq_aim(&c->in, iov, &asked);
	if (n < 0) {
		kv_conn_fail(c, n);
		return false;
	}
	got = c->stream->ops->readv(c->stream, iov, n);
	if (got == -EAGAIN)
		return false;
	if (got <= 0) {
		kv_conn_fail(c, got < 0 ? (int)got : -ECONNRESET);
		return false;
	}
	c->last_rx = kv_loop_now(c->loop);
	kv_recvq_took(&c->in, (size_t)got);
	*bytes += (size_t)got;
	return (size_t)got == asked;
}

/* ---- what begins and does not end ---- */

static uint64_t
begun_due(const struct kv_conn *c)
{
	uint64_t due = kv_max_u64(c->last_rx, c->begun.since) + STALL_NS;

	/* The bytes of a value take the time that they take. */
	if (!c->in.has_payload)
		due = kv_min_u64(due, c->begun.since + FRAME_NS);
	return due;
}

static void
begun_watch(struct kv_conn *c)
{
	/* Without memory for it the next bytes try again. */
	(void)kv_loop_timer_set(c->loop, &c->begun.timer, begun_due(c));
}

static void
begun_note(struct kv_conn *c)
{
	c->begun.since = kv_loop_now(c->loop);
	c->begun.msgs = c->msgs;
	begun_watch(c);
}

static void
begun_late(struct kv_timer *t)
{
	struct kv_conn *c = KV_CONTAINER_OF(t, struct kv_conn, begun.timer);

	if (!c->stream || kv_recvq_is_empty(&c->in))
		return;
	/* Meanwhile another one began, or it is not the peer who waits. */
	if (c->begun.msgs != c->msgs || c->paused || c->again)
		begun_note(c);
	else if (kv_loop_now(c->loop) < begun_due(c))
		begun_watch(c);
	else
		kv_conn_fail(c, -ETIMEDOUT);
}

static void
receive(struct kv_conn *c)
{
	int frames = TURN_FRAMES;
	size_t bytes = 0;
	bool more = true;

	c->again = false;
	while (hand_over(c, &frames) && more) {
		if (bytes >= TURN_BYTES) {
			c->again = true;
			break;
		}
		more = read_some(c, &bytes);
	}
	if (c->again)
		kv_conn_schedule(c);
	if (c->stream && !c->begun.timer.loop && !kv_recvq_is_empty(&c->in))
		begun_note(c);
}

/* What the peer has sent is still read: it may say why it closed. */
static void
break_off(struct kv_conn *c, int status)
{
	c->broken = status == -EPIPE ? -ECONNRESET : status;
	c->full = false;
	kv_sendq_fail(&c->out, c->broken, &c->done);
	kv_conn_schedule(c);
}

void
kv_conn_write(struct kv_conn *c)
{
	struct iovec iov[IOV_MAX_WRITE];
	size_t bytes = 0;

	while (kv_conn_is_open(c) && !c->blocked &&
	       !kv_sendq_is_empty(&c->out)) {
		int n = kv_sendq_gather(&c->out, iov, IOV_MAX_WRITE);
		ssize_t took = c->stream->ops->writev(c->stream, iov, n);

		if (took < 0 && took != -EAGAIN) {
			break_off(c, (int)took);
			break;
		}
		if (took < 0)
			took = 0;
		bytes += (size_t)took;
		c->blocked = (size_t)took < kv_stream_iov_bytes(iov, n) ||
			     bytes >= TURN_BYTES;
		kv_sendq_advance(&c->out, (size_t)took, &c->done);
	}
	if (c->full && kv_sendq_bytes(&c->out) < KV_CONN_QUEUE_BYTES_LOW) {
		c->full = false;
		c->drained = true;
	}
	if (c->drained || !kv_list_is_empty(&c->done))
		kv_conn_schedule(c);
	update_want(c);
}

static void
call_sent(struct kv_conn *c)
{
	kv_list_splice_tail(&c->calling, &c->done);
	while (!kv_list_is_empty(&c->calling)) {
		struct kv_conn_sent *sent =
			KV_LIST_FIRST(&c->calling, struct kv_conn_sent, link);

		kv_list_del(&sent->link);
		sent->fn(sent, sent->status);
	}
}

static void
tell_close(struct kv_conn *c)
{
	if (c->gone || c->told)
		return;
	c->told = true;
	c->ops->on_close(c, c->status);
}

/* The work of a turn that is not the stream's: in time or left over. */
static void
turn(struct kv_defer *d)
{
	struct kv_conn *c = KV_CONTAINER_OF(d, struct kv_conn, defer);

	enter(c);
	call_sent(c);
	if (!c->stream) {
		tell_close(c);
	} else if (c->broken) {
		receive(c);
		if (!c->again)
			kv_conn_fail(c, c->broken);
	} else {
		if (c->again)
			receive(c);
		kv_conn_write(c);
		if (c->drained && kv_conn_is_open(c)) {
			c->drained = false;
			if (c->ops->on_drain)
				c->ops->on_drain(c);
		}
	}
	leave(c);
}

/* Nothing is left for the turn: it is not worth a poll of its own. */
static void
settle(struct kv_conn *c)
{
	if (c->stream && !c->broken && !c->again && !c->drained &&
	    kv_list_is_empty(&c->done))
		kv_loop_defer_del(&c->defer);
}

static void
ready(struct kv_stream *s, uint32_t events)
{
	struct kv_conn *c = s->arg;

	enter(c);
	if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
		c->blocked = false;
	/* else it has had its share of this turn */
	if (!c->again && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		receive(c);
	if (c->stream && !c->broken) {
		/* Answers leave with the call that brought the questions. */
		kv_conn_write(c);
		settle(c);
	}
	leave(c);
}

/* ---- life ---- */

struct kv_conn *
kv_conn_new(struct kv_loop *loop, struct kv_stream *s,
	    const struct kv_conn_ops *ops, void *arg)
{
	struct kv_conn *c = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*c));
	int rc = -ENOMEM;

	if (!c)
		goto close_stream;
	c->magic = MAGIC;
	c->loop = loop;
	c->stream = s;
	c->ops = ops;
	c->arg = arg;
	c->want = EPOLLIN;
	c->last_rx = kv_loop_now(loop);
	c->defer.fn = turn;
	c->begun.timer.fn = begun_late;
	kv_recvq_init(&c->in, s->ops->read_bytes);
	kv_sendq_init(&c->out);
	kv_list_init(&c->done);
	kv_list_init(&c->calling);
	s->ready = ready;
	s->arg = c;
	rc = s->ops->want(s, c->want);
	if (rc == 0)
		return c;
	free(c);
close_stream:
	s->ops->close(s);
	errno = -rc;
	return NULL;
}

void
kv_conn_close(struct kv_conn *c)
{
	if (!c || c->gone)
		return;
	enter(c);
	c->gone = true;
	close_stream(c);
	kv_sendq_fail(&c->out, -ECANCELED, &c->done);
	call_sent(c);
	kv_loop_defer_del(&c->defer);
	leave(c);
}

void
kv_conn_reset(struct kv_conn *c)
{
	struct kv_stream *s;

	if (!c || c->gone)
		return;
	s = kv_steal_ptr(&c->stream);
	if (s)
		s->ops->reset(s);
	kv_conn_close(c);
}

struct kv_stream *
kv_conn_detach(struct kv_conn *c)
{
	struct kv_stream *s = c->stream;

	if (!kv_conn_is_open(c) || !kv_recvq_is_empty(&c->in) ||
	    kv_sendq_bytes(&c->out) > 0 || !kv_list_is_empty(&c->done) ||
	    !kv_list_is_empty(&c->calling))
		return NULL;
	if (s->ops->want(s, 0) < 0)
		return NULL;
	s->ready = NULL;
	s->arg = NULL;
	c->stream = NULL;
	kv_conn_close(c);
	return s;
}

struct kv_conn *
kv_conn_of(const struct kv_stream *s)
{
	struct kv_conn *c = s->arg;

	assert(c->magic == MAGIC);
	return c;
}

void *
kv_conn_arg(const struct kv_conn *c)
{
	return c->arg;
}

void
kv_conn_set_arg(struct kv_conn *c, void *arg)
{
	c->arg = arg;
}

void
kv_conn_set_ops(struct kv_conn *c, const struct kv_conn_ops *ops, void *arg)
{
	c->ops = ops;
	c->arg = arg;
}

struct kv_loop *
kv_conn_loop(const struct kv_conn *c)
{
	return c->loop;
}

struct kv_stream *
kv_conn_stream(const struct kv_conn *c)
{
	return c->stream;
}

bool
kv_conn_is_open(const struct kv_conn *c)
{
	return c->stream && !c->broken;
}

int
kv_conn_error(const struct kv_conn *c)
{
	return c->broken ? c->broken : c->status;
}

bool
kv_conn_is_full(const struct kv_conn *c)
{
	return c->full;
}

uint64_t
kv_conn_last_rx(const struct kv_conn *c)
{
	return c->last_rx;
}

void
kv_conn_pause(struct kv_conn *c, bool pause)
{
	c->paused = pause;
	if (!pause && c->begun.timer.loop)
		begun_note(c);
	if (!pause && !kv_recvq_is_empty(&c->in))
		c->again = true;
	if (c->again)
		kv_conn_schedule(c);
	update_want(c);
}

int
kv_conn_send_fd(struct kv_conn *c, int fd)
{
	if (!kv_conn_is_open(c))
		return -ECONNRESET;
	return c->stream->ops->send_fd(c->stream, fd);
}

int
kv_conn_recv_fd(struct kv_conn *c)
{
	return c->stream ? c->stream->ops->recv_fd(c->stream) : -1;
}

void
kv_conn_flush(struct kv_conn *c)
{
	kv_conn_write(c);
	settle(c);
}

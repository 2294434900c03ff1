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

#include "base/fault.h"
#include "event/loop.h"
#include "net/recvq.h"
#include "net/sendq.h"
#include "net/stream.h"

enum {
	MAGIC = 0x6b76636f,
	IOV_MAX_WRITE = 64,
	/* After so much of one connection it is the turn of others. */
	TURN_FRAMES = 256,
	TURN_BYTES = 4 << 20,
	FLUSH_BYTES = 256 << 10, /* so much does not wait for the turn's end */
};

struct kv_conn {
	uint32_t magic;
	int depth; /* calls under way that still use this struct */
	struct kv_loop *loop;
	struct kv_stream *stream; /* NULL: CLOSED */
	const struct kv_conn_ops *ops;
	void *arg;
	int status;   /* CLOSED: why */
	int broken;   /* nothing can be written any more: why; else 0 */
	bool gone;    /* its owner closed it: free at depth 0 */
	bool told;    /* on_close was called */
	bool paused;  /* by the owner */
	bool again;   /* a turn's share was used up: go on in the next */
	bool blocked; /* the stream took less than there was */
	bool full;    /* above the high mark, not yet below the low one */
	bool drained; /* on_drain is due */
	uint32_t want;
	uint64_t last_rx;
	struct kv_recvq in;
	struct kv_sendq out;
	struct {
		enum kv_msg_type type;
		uint8_t flags;
		uint64_t id;
	} frame;                /* the one that is being built */
	struct kv_list done;    /* kv_conn_sent, called when that is safe */
	struct kv_list calling; /* in this one */
	struct kv_defer defer;
};

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

static void
schedule(struct kv_conn *c)
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
}

static void
fail(struct kv_conn *c, int status)
{
	if (!c->stream)
		return;
	close_stream(c);
	c->status = status;
	kv_sendq_fail(&c->out, status, &c->done);
	schedule(c);
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
		fail(c, rc);
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
			c->ops->on_msg(c, &msg);
			continue;
		}
		if (rc == KV_RECVQ_PAYLOAD)
			rc = c->ops->on_payload
				     ? c->ops->on_payload(c, &msg, c->in.iov,
							  KV_CONN_PIECES_MAX)
				     : -EPROTO;
		if (rc < 0)
			fail(c, rc);
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
		fail(c, n);
		return false;
	}
	got = c->stream->ops->readv(c->stream, iov, n);
	if (got == -EAGAIN)
		return false;
	if (got <= 0) {
		fail(c, got < 0 ? (int)got : -ECONNRESET);
		return false;
	}
	c->last_rx = kv_loop_now(c->loop);
	kv_recvq_took(&c->in, (size_t)got);
	*bytes += (size_t)got;
	return (size_t)got == asked;
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
		schedule(c);
}

/* What the peer has sent is still read: it may say why it closed. */
static void
break_off(struct kv_conn *c, int status)
{
	c->broken = status == -EPIPE ? -ECONNRESET : status;
	c->full = false;
	kv_sendq_fail(&c->out, c->broken, &c->done);
	schedule(c);
}

static void
write_out(struct kv_conn *c)
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
		schedule(c);
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
			fail(c, c->broken);
	} else {
		if (c->again)
			receive(c);
		write_out(c);
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
		write_out(c);
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
	kv_recvq_init(&c->in);
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
	if (!pause && !kv_recvq_is_empty(&c->in))
		c->again = true;
	if (c->again)
		schedule(c);
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

/* ---- sending ---- */

/* n bytes more of the frame that is being built. */
static void *
grow(struct kv_conn *c, size_t n)
{
	void *p;

	if (!kv_conn_is_open(c))
		return NULL;
	p = kv_sendq_grow(&c->out, n);
	if (!p)
		fail(c, -errno);
	return p;
}

void *
kv_conn_begin(struct kv_conn *c, enum kv_msg_type type, uint64_t id,
	      uint8_t flags)
{
	size_t body = kv_msg_body_bytes(type);
	uint8_t *p;

	assert(c->out.open == 0);
	p = grow(c, KV_HEADER_BYTES + body);
	if (!p)
		return NULL;
	c->frame.type = type;
	c->frame.flags = flags;
	c->frame.id = id;
	return memset(p + KV_HEADER_BYTES, 0, body);
}

void *
kv_conn_tail(struct kv_conn *c, size_t n)
{
	size_t room = KV_HEADER_BYTES + kv_msg_body_bytes(c->frame.type) +
		      kv_msg_tail_max(c->frame.type) - c->out.open;

	if (n > room) {
		fail(c, -EMSGSIZE);
		return NULL;
	}
	return grow(c, n);
}

void *
kv_conn_begin_tail(struct kv_conn *c, enum kv_msg_type type, uint64_t id,
		   uint8_t flags, size_t n, void **tail)
{
	void *p = NULL;

	if (kv_conn_begin(c, type, id, flags))
		p = kv_conn_tail(c, n);
	if (!p)
		return NULL;
	*tail = p;
	return kv_conn_body(c);
}

void *
kv_conn_body(struct kv_conn *c)
{
	assert(c->out.open > 0);
	return kv_sendq_frame(&c->out) + KV_HEADER_BYTES;
}

void
kv_conn_end(struct kv_conn *c)
{
	kv_conn_end_payload(c, NULL, 0, NULL);
}

static int
end_frame(struct kv_conn *c, const struct iovec *iov, int n,
	  struct kv_conn_sent *sent)
{
	size_t payload = kv_stream_iov_bytes(iov, n);
	int rc;

	if (!c->stream)
		return c->status;
	if (c->broken)
		return c->broken;
	assert(c->out.open > 0);
	assert(n <= KV_CONN_PIECES_MAX && payload <= KV_PAYLOAD_MAX);
	kv_msg_seal(kv_sendq_frame(&c->out), c->frame.type, c->frame.flags,
		    c->frame.id, c->out.open - KV_HEADER_BYTES,
		    (uint32_t)payload);
	rc = kv_sendq_end(&c->out, iov, n, sent);
	if (rc < 0)
		fail(c, rc);
	return rc;
}

void
kv_conn_end_payload(struct kv_conn *c, const struct iovec *iov, int n,
		    struct kv_conn_sent *sent)
{
	int rc = end_frame(c, iov, n, sent);

	if (rc < 0 && sent) {
		sent->status = rc;
		kv_list_add_tail(&c->done, &sent->link);
	}
	if (kv_sendq_bytes(&c->out) > KV_CONN_QUEUE_BYTES_HIGH)
		c->full = true;
	if (kv_sendq_bytes(&c->out) >= FLUSH_BYTES)
		write_out(c);
	schedule(c);
}

void
kv_conn_abort(struct kv_conn *c)
{
	kv_sendq_drop(&c->out);
}

void
kv_conn_flush(struct kv_conn *c)
{
	write_out(c);
	settle(c);
}

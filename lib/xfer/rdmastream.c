#include "xfer/rdmastream.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "xfer/rdmaidle.h"

/* Last words of one that was closed have so long to leave. */
#define LEAVE_NS KV_NS_PER_S

_Static_assert(KV_RDMASTREAM_DEPTH > KV_RDMASTREAM_CREDITS,
	       "a message that tells of credits has its place");

static struct kv_rdmastream *
from_base(struct kv_stream *base)
{
	return KV_CONTAINER_OF(base, struct kv_rdmastream, base);
}

/* ---- what is ready ---- */

static bool
may_write(const struct kv_rdmastream *s)
{
	return s->status < 0 ||
	       (s->credits > 0 && !kv_list_is_empty(&s->post->idle) &&
		kv_rdmaqp_room(s->qp) > 0);
}

static uint32_t
ready_events(const struct kv_rdmastream *s)
{
	uint32_t events = may_write(s) ? EPOLLOUT : 0;

	if (s->n_came > 0 || s->is_ended || s->status < 0)
		events |= EPOLLIN;
	return events & s->want;
}

/* Others have all letters. */
static void
letter_await(struct kv_rdmastream *s)
{
	if (s->want & EPOLLOUT && s->credits > 0 &&
	    kv_list_is_empty(&s->post->idle) && kv_list_is_empty(&s->link))
		kv_list_add_tail(&s->post->waiting, &s->link);
}

/* Something has changed for it. */
static void
look(struct kv_rdmastream *s)
{
	letter_await(s);
	if (s->is_closed ? s->letters == 0 : ready_events(s) != 0)
		kv_loop_defer(s->post->cq->loop, &s->turn);
}

static void
stream_free(struct kv_rdmastream *s)
{
	kv_loop_timer_del(&s->late);
	kv_rdmaqp_free(s->qp);
	kv_loop_defer_del(&s->turn);
	kv_rdmacm_give_up(s->conn);
	kv_list_del(&s->link);
	kv_list_del(&s->lru);
	free(s);
}

static void
turn(struct kv_defer *d)
{
	struct kv_rdmastream *s =
		KV_CONTAINER_OF(d, struct kv_rdmastream, turn);
	uint32_t events = ready_events(s);

	if (s->is_closed) {
		stream_free(s);
		return;
	}
	letter_await(s);
	if (events == 0)
		return;
	kv_loop_defer(s->post->cq->loop, &s->turn); /* level triggered */
	s->base.ready(&s->base, events);
}

static void
fail(struct kv_rdmastream *s, int status)
{
	if (s->status == 0)
		s->status = status;
	look(s);
}

/* ---- sending ---- */

static void
letter_done(struct kv_rdmawr *w, int status)
{
	struct kv_rdmaletter *l = KV_CONTAINER_OF(w, struct kv_rdmaletter, w);
	struct kv_rdmastream *s = l->s, *next;
	struct kv_rdmapost *p = s->post;

	kv_list_add_head(&p->idle, &l->link);
	s->letters--;
	if (status < 0)
		fail(s, -ECONNRESET);
	look(s);
	while ((next = KV_LIST_FIRST(&p->waiting, struct kv_rdmastream,
				     link))) {
		kv_list_del(&next->link);
		look(next);
	}
}

/* What it owes is told along. */
static void
address(struct kv_rdmastream *s, struct ibv_send_wr *wr)
{
	wr->opcode = s->owed ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	wr->imm_data = htobe32(s->owed);
	s->owed = 0;
}

static void credits_tell(struct kv_rdmastream *s);

static void
credit_done(struct kv_rdmawr *w, int status)
{
	struct kv_rdmastream *s =
		KV_CONTAINER_OF(w, struct kv_rdmastream, credit);

	s->is_telling = false;
	if (status < 0)
		fail(s, -ECONNRESET);
	credits_tell(s);
	look(s);
}

/* Half of them are told alone, if nothing goes that way. */
static void
credits_tell(struct kv_rdmastream *s)
{
	struct kv_rdmawr *w = &s->credit;

	if (s->owed < KV_RDMASTREAM_CREDITS / 2 || s->is_telling ||
	    s->status < 0 || kv_rdmaqp_room(s->qp) == 0)
		return;
	memset(w, 0, sizeof(*w));
	w->done = credit_done;
	address(s, &w->wr);
	s->is_telling = true;
	kv_rdmaqp_post(s->qp, &w, 1);
}

/* Copies as much as a message takes, from `skip` on. */
static uint32_t
letter_fill(uint8_t *to, const struct iovec *iov, int n, size_t skip)
{
	uint32_t done = 0;
	size_t len;
	int i;

	for (i = 0; i < n && done < KV_RDMASTREAM_BYTES; i++) {
		if (skip >= iov[i].iov_len) {
			skip -= iov[i].iov_len;
			continue;
		}
		len = kv_min_size(iov[i].iov_len - skip,
				  KV_RDMASTREAM_BYTES - done);
		memcpy(to + done, (const char *)iov[i].iov_base + skip, len);
		done += (uint32_t)len;
		skip = 0;
	}
	return done;
}

static struct kv_rdmaletter *
letter_write(struct kv_rdmastream *s, const struct iovec *iov, int n,
	     size_t skip)
{
	struct kv_rdmaletter *l =
		KV_LIST_FIRST(&s->post->idle, struct kv_rdmaletter, link);

	kv_list_del(&l->link);
	l->s = s;
	l->sge.length =
		letter_fill(s->post->memory + (size_t)(l - s->post->letters) *
						      KV_RDMASTREAM_BYTES,
			    iov, n, skip);
	address(s, &l->w.wr);
	s->letters++;
	s->credits--;
	return l;
}

static ssize_t
stream_writev(struct kv_stream *base, const struct iovec *iov, int n)
{
	struct kv_rdmastream *s = from_base(base);
	size_t all = kv_stream_iov_bytes(iov, n), done = 0;
	struct kv_rdmawr *wrs[KV_RDMASTREAM_CREDITS];
	struct kv_rdmaletter *l;
	unsigned room, n_wrs = 0;

	if (s->status < 0)
		return s->status;
	room = kv_rdmaqp_room(s->qp);
	while (done < all && s->credits > 0 && n_wrs < room &&
	       !kv_list_is_empty(&s->post->idle)) {
		l = letter_write(s, iov, n, done);
		done += l->sge.length;
		wrs[n_wrs++] = &l->w;
	}
	if (n_wrs == 0)
		return -EAGAIN;
	kv_rdmaqp_post(s->qp, wrs, n_wrs);
	kv_rdmaidle_use(s);
	return (ssize_t)done;
}

/* ---- receiving ---- */

static void
qp_recv(struct kv_rdmaqp *qp, const struct kv_rdmarecv *r)
{
	struct kv_rdmastream *s = qp->arg;
	unsigned at = (s->first + s->n_came) % KV_RDMASTREAM_CREDITS;

	s->credits += r->imm;
	if (r->imm > KV_RDMASTREAM_CREDITS ||
	    s->credits > KV_RDMASTREAM_CREDITS ||
	    (r->bytes > 0 && s->n_came == KV_RDMASTREAM_CREDITS)) {
		fail(s, -EPROTO);
		s->credits = 0;
		kv_rdmacq_give(qp->cq, r->receive);
		return;
	}
	if (r->bytes == 0 || s->is_closed) {
		kv_rdmacq_give(qp->cq, r->receive);
	} else {
		s->came[at] = *r;
		s->n_came++;
		kv_rdmaidle_use(s);
		kv_rdmaidle_hold(s->post);
	}
	look(s);
}

static void
first_give(struct kv_rdmastream *s)
{
	kv_rdmacq_give(s->post->cq, s->came[s->first].receive);
	s->first = (s->first + 1) % KV_RDMASTREAM_CREDITS;
	s->n_came--;
	s->post->held--;
	s->off = 0;
	s->owed++;
}

/* Copies some of the first message. */
static size_t
first_copy(struct kv_rdmastream *s, void *to, size_t room)
{
	const struct kv_rdmarecv *r = &s->came[s->first];
	size_t len = kv_min_size(room, r->bytes - s->off);

	memcpy(to, r->data + s->off, len);
	s->off += (uint32_t)len;
	if (s->off == r->bytes)
		first_give(s);
	return len;
}

static ssize_t
stream_readv(struct kv_stream *base, const struct iovec *iov, int n)
{
	struct kv_rdmastream *s = from_base(base);
	size_t done = 0, at;
	int i;

	if (s->n_came == 0 && s->is_ended)
		return 0;
	if (s->n_came == 0)
		return s->status < 0 ? s->status : -EAGAIN;
	for (i = 0; i < n; i++) {
		for (at = 0; at < iov[i].iov_len && s->n_came > 0;)
			at += first_copy(s, (char *)iov[i].iov_base + at,
					 iov[i].iov_len - at);
		done += at;
	}
	credits_tell(s);
	return (ssize_t)done;
}

/* ---- its end ---- */

static void
qp_imm(struct kv_rdmaqp *qp, uint32_t number)
{
	(void)number;
	fail(qp->arg, -EPROTO);
}

static void
qp_over(struct kv_rdmaqp *qp, int why)
{
	(void)why;
	fail(qp->arg, -ECONNRESET);
}

static const struct kv_rdmaqp_ops qp_ops = {
	.imm = qp_imm,
	.over = qp_over,
	.recv = qp_recv,
};

/* The stream ends behind what came. */
static void
conn_over(struct kv_rdmaconn *c, int why)
{
	struct kv_rdmastream *s = kv_rdmacm_arg(c);

	/* What was sent before is here. */
	kv_rdmacq_poll(s->post->cq);
	s->is_ended = why == -ECONNRESET;
	fail(s, why);
}

static const struct kv_rdmaconn_ops conn_ops = { .over = conn_over };

void
kv_rdmastream_lose(struct kv_rdmastream *s)
{
	kv_list_del(&s->lru);
	fail(s, -ECONNRESET);
	while (s->n_came > 0)
		first_give(s);
	kv_rdmaqp_free(kv_steal_ptr(&s->qp));
	kv_rdmacm_give_up(kv_steal_ptr(&s->conn));
}

static void
leave_late(struct kv_timer *t)
{
	stream_free(KV_CONTAINER_OF(t, struct kv_rdmastream, late));
}

static void
let_go(struct kv_rdmastream *s)
{
	s->is_closed = true;
	s->want = 0;
	kv_loop_defer_del(&s->turn);
	while (s->n_came > 0)
		first_give(s);
	kv_list_del(&s->link);
	kv_list_del(&s->lru);
}

static void
stream_reset(struct kv_stream *base)
{
	struct kv_rdmastream *s = from_base(base);

	let_go(s);
	stream_free(s);
}

/* What was written leaves. */
static void
stream_close(struct kv_stream *base)
{
	struct kv_rdmastream *s = from_base(base);
	struct kv_loop *loop = s->post->cq->loop;

	let_go(s);
	s->late.fn = leave_late;
	if (s->letters == 0 || s->status < 0 ||
	    kv_loop_timer_set(loop, &s->late, kv_loop_now(loop) + LEAVE_NS) < 0)
		stream_free(s);
	else
		kv_list_add_tail(&s->post->leaving, &s->link);
}

static int
stream_want(struct kv_stream *base, uint32_t events)
{
	struct kv_rdmastream *s = from_base(base);

	s->want = events;
	look(s);
	return 0;
}

static int
stream_send_fd(struct kv_stream *base, int fd)
{
	(void)base;
	(void)fd;
	return -ENOTSUP;
}

static int
stream_recv_fd(struct kv_stream *base)
{
	(void)base;
	return -1;
}

static const struct kv_stream_ops stream_ops = {
	.read_bytes = 2 * KV_RDMASTREAM_BYTES,
	.readv = stream_readv,
	.writev = stream_writev,
	.want = stream_want,
	.send_fd = stream_send_fd,
	.recv_fd = stream_recv_fd,
	.close = stream_close,
	.reset = stream_reset,
};

/* ---- making ---- */

struct kv_rdmastream *
kv_rdmastream_new(struct kv_rdmapost *p)
{
	const struct kv_rdmaqp_opts o = {
		.depth = KV_RDMASTREAM_DEPTH,
		.ops = &qp_ops,
	};
	struct kv_rdmastream *s =
		KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*s));

	if (!s) {
		errno = ENOMEM;
		return NULL;
	}
	s->base.ops = &stream_ops;
	s->post = p;
	s->turn.fn = turn;
	s->credits = KV_RDMASTREAM_CREDITS;
	kv_list_init(&s->link);
	kv_list_init(&s->lru);
	s->qp = kv_rdmaqp_new(p->cq, &o);
	if (!s->qp) {
		free(s);
		return NULL;
	}
	s->qp->arg = s;
	return s;
}

struct kv_rdmaqp *
kv_rdmastream_qp(struct kv_rdmastream *s)
{
	return s->qp;
}

struct kv_stream *
kv_rdmastream_base(struct kv_rdmastream *s)
{
	return &s->base;
}

void
kv_rdmastream_up(struct kv_rdmastream *s, struct kv_rdmaconn *c)
{
	s->conn = c;
	kv_rdmacm_pass(c, &conn_ops, s);
	kv_rdmaidle_use(s);
	look(s);
}

const struct sockaddr *
kv_rdmastream_peer(const struct kv_rdmastream *s)
{
	return kv_rdmacm_peer(s->conn);
}

static int
post_make(struct kv_rdmapost *p, unsigned messages)
{
	size_t bytes = (size_t)messages * KV_RDMASTREAM_BYTES;
	unsigned i;
	int rc;

	p->letters = calloc(messages, sizeof(*p->letters));
	p->memory = kv_rdmamr_pages(bytes);
	if (!p->letters || !p->memory)
		return -ENOMEM;
	rc = kv_rdmamr_register(&p->mr, &p->cq->port, 1, p->memory, bytes,
				KV_RDMAREGION_NEAR);
	if (rc < 0)
		return rc;
	for (i = 0; i < messages; i++) {
		struct kv_rdmaletter *l = &p->letters[i];

		l->sge.addr = (uintptr_t)p->memory +
			      (uint64_t)i * KV_RDMASTREAM_BYTES;
		l->sge.lkey = p->mr.near.keys[p->cq->port->number];
		l->w.wr.sg_list = &l->sge;
		l->w.wr.num_sge = 1;
		l->w.done = letter_done;
		kv_list_add_tail(&p->idle, &l->link);
	}
	return 0;
}

struct kv_rdmapost *
kv_rdmastream_post_new(struct kv_rdmacq *cq, unsigned messages)
{
	struct kv_rdmapost *p = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*p));
	int rc;

	assert(cq->recv_bytes == KV_RDMASTREAM_BYTES);
	if (!p) {
		errno = ENOMEM;
		return NULL;
	}
	p->cq = cq;
	kv_list_init(&p->idle);
	kv_list_init(&p->waiting);
	kv_list_init(&p->leaving);
	kv_rdmaidle_init(p);
	rc = post_make(p, messages);
	if (rc == 0)
		return p;
	kv_rdmastream_post_free(p);
	errno = -rc;
	return NULL;
}

void
kv_rdmastream_post_free(struct kv_rdmapost *p)
{
	struct kv_rdmastream *s;

	if (!p)
		return;
	while ((s = KV_LIST_FIRST(&p->leaving, struct kv_rdmastream, link)))
		stream_free(s);
	kv_loop_timer_del(&p->shortage);
	kv_rdmamr_give_up(&p->mr);
	free(p->memory);
	free(p->letters);
	free(p);
}

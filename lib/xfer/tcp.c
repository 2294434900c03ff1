#include "xfer/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/status.h"
#include "xfer/lane.h"

enum {
	LANES_MAX = 4,
	LANE_BYTES = 8 << 20, /* another connection for each */
	FRAMES_MAX = 4,       /* under way on each */
	FRAME_BYTES = 4 << 20,
};

struct slot;

struct frame {
	struct kv_call call;
	struct kv_conn_sent sent;
	struct slot *slot;
	bool unanswered;
	bool unsent; /* the connection may still read the memory */
	uint64_t bytes;
	/* READ: where the answer goes. */
	int n;
	struct iovec iov[KV_XFER_PIECES_MAX];
};

struct slot {
	struct kv_lane lane;
	struct kv_tcp *t;
	struct frame frames[FRAMES_MAX];
};

struct kv_tcp {
	struct kv_id own, boot;
	struct kv_loop *loop;
	struct slot *slots[LANES_MAX];
	const struct kv_tcp_move *m; /* the call under way */
	int status;                  /* of it */
	bool ended;                  /* nothing more is for this path */
	unsigned busy;               /* frames */
	struct kv_slice slice;
	char addr[];
};

struct kv_tcp *
kv_tcp_new(const struct kv_tcp_opts *opts)
{
	size_t len = strlen(opts->addr) + 1;
	struct kv_tcp *t =
		KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*t) + len);

	if (!t)
		return NULL;
	memcpy(t->addr, opts->addr, len);
	t->own = *opts->own;
	t->boot = *opts->boot;
	t->loop = kv_loop_new(NULL);
	if (t->loop)
		return t;
	free(t);
	return NULL;
}

static void
close_lanes(struct kv_tcp *t)
{
	for (int i = 0; i < LANES_MAX; i++)
		if (t->slots[i])
			kv_lane_close(&t->slots[i]->lane);
}

void
kv_tcp_free(struct kv_tcp *t)
{
	if (!t)
		return;
	close_lanes(t);
	for (int i = 0; i < LANES_MAX; i++)
		free(t->slots[i]);
	kv_loop_free(t->loop);
	free(t);
}

/* ---- frames ---- */

static void
fail(struct kv_tcp *t, int status)
{
	if (t->status == 0)
		t->status = status;
}

static bool
is_busy(const struct frame *f)
{
	return f->unanswered || f->unsent;
}

static void
frame_step(struct frame *f, int status)
{
	struct kv_tcp *t = f->slot->t;

	if (status < 0)
		fail(t, status);
	if (!is_busy(f))
		t->busy--;
}

static int
check_answer(const struct frame *f, const struct kv_msg *msg)
{
	const struct kv_xfer_r *r = msg->body;
	uint64_t want = f->slot->t->m->op == KV_ENGINE_READ ? f->bytes : 0;

	if (msg->type != KV_MSG_XFER_R)
		return -EPROTO;
	if (r->status != 0)
		return msg->payload ? -EPROTO : -kv_status_errno(r->status);
	return msg->payload == want ? 0 : -EPROTO;
}

static void
on_answer(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct frame *f = KV_CONTAINER_OF(call, struct frame, call);

	f->unanswered = false;
	frame_step(f, status < 0 ? status : check_answer(f, msg));
}

static void
on_sent(struct kv_conn_sent *sent, int status)
{
	struct frame *f = KV_CONTAINER_OF(sent, struct frame, sent);

	f->unsent = false;
	frame_step(f, status);
}

/* The bytes of a READ. */
static int
on_payload(struct kv_lane *lane, const struct kv_msg *msg, struct iovec *iov)
{
	struct slot *s = KV_CONTAINER_OF(lane, struct slot, lane);

	for (int i = 0; i < FRAMES_MAX; i++) {
		struct frame *f = &s->frames[i];

		if (!f->unanswered || f->call.id != msg->id)
			continue;
		if (check_answer(f, msg))
			return -EPROTO;
		memcpy(iov, f->iov, (size_t)f->n * sizeof(*iov));
		return f->n;
	}
	return -EPROTO;
}

static struct frame *
free_frame(struct slot *s)
{
	for (int i = 0; i < FRAMES_MAX; i++)
		if (!is_busy(&s->frames[i]))
			return &s->frames[i];
	return NULL;
}

/* Sends the batch. */
static int
frame_send(struct slot *s, struct frame *f)
{
	const struct kv_slice *b = &s->t->slice;
	size_t tail_len = (size_t)b->n_remote * sizeof(b->pieces[0]);
	bool write = s->t->m->op == KV_ENGINE_WRITE;
	struct kv_conn *conn = s->lane.conn;
	struct kv_xfer *body;
	void *tail;

	memset(&f->call, 0, sizeof(f->call));
	f->call.fn = on_answer;
	if (!kv_rpc_begin(&s->lane.rpc, &f->call, KV_MSG_XFER, UINT64_MAX))
		return -ECONNRESET;
	tail = kv_conn_tail(conn, tail_len);
	if (!tail) {
		kv_rpc_cancel(&f->call);
		return -ECONNRESET;
	}
	memcpy(tail, b->pieces, tail_len);
	body = kv_conn_body(conn);
	body->op = write ? KV_XFER_WRITE : KV_XFER_READ;
	body->count = kv_le32((uint32_t)b->n_remote);
	f->slot = s;
	f->bytes = b->bytes;
	f->unanswered = true;
	f->unsent = write;
	s->t->busy++;
	if (write) {
		f->sent.fn = on_sent;
		kv_conn_end_payload(conn, b->local, b->n_local, &f->sent);
		return 0;
	}
	f->n = b->n_local;
	memcpy(f->iov, b->local, (size_t)f->n * sizeof(f->iov[0]));
	kv_conn_end(conn);
	return 0;
}

/* As many frames as may be under way. */
static void
pump(struct slot *s)
{
	struct kv_tcp *t = s->t;
	struct frame *f;

	while (s->lane.state == KV_LANE_READY && t->status == 0 && !t->ended &&
	       (f = free_frame(s))) {
		struct kv_slice_cursor next = *t->m->cursor;
		int rc;

		kv_slice_gather(&t->slice, t->m->table, KV_SLICE_TCP, &next,
				FRAME_BYTES);
		if (t->slice.path != KV_SLICE_TCP) {
			t->ended = true;
			return;
		}
		rc = frame_send(s, f);
		if (rc)
			fail(t, rc);
		*t->m->cursor = next;
		t->ended = next.left == 0;
	}
}

/* ---- connections ---- */

static void
dial(struct slot *s)
{
	struct kv_tcp *t = s->t;

	static const struct kv_lane_ops ops = { .on_payload = on_payload };

	kv_lane_close(&s->lane);
	kv_lane_init(&s->lane, t->loop, &t->own, &t->boot);
	s->lane.ops = &ops;
	kv_lane_dial(&s->lane, t->addr, t->m->wait->deadline_ns);
}

static struct slot *
slot_new(struct kv_tcp *t)
{
	struct slot *s = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*s));

	if (s)
		s->t = t;
	return s;
}

/* As many as the bytes are worth. A connection that was lost while nobody
 * looked is made again. */
static int
open_lanes(struct kv_tcp *t)
{
	uint64_t want = 1 + t->m->cursor->left / LANE_BYTES;

	if (kv_loop_turn(t->loop, 0) < 0)
		return -EIO;
	for (unsigned i = 0; i < LANES_MAX && i < want; i++) {
		struct slot *s = t->slots[i];

		if (!s)
			s = t->slots[i] = slot_new(t);
		if (!s)
			return i > 0 ? 0 : -ENOMEM;
		if (s->lane.state != KV_LANE_READY)
			dial(s);
	}
	return 0;
}

/* 0 while there is one that may still serve. */
static int
check_lanes(const struct kv_tcp *t)
{
	int status = -ENOMEM;

	for (int i = 0; i < LANES_MAX; i++) {
		const struct slot *s = t->slots[i];

		if (!s || s->lane.state == KV_LANE_CLOSED)
			continue;
		if (s->lane.state != KV_LANE_LOST)
			return 0;
		status = s->lane.status;
	}
	return status;
}

/* Those that came too late to be of use. */
static void
close_unready(struct kv_tcp *t)
{
	for (int i = 0; i < LANES_MAX; i++)
		if (t->slots[i] && t->slots[i]->lane.state != KV_LANE_READY)
			kv_lane_close(&t->slots[i]->lane);
}

static int
move(struct kv_tcp *t)
{
	int rc = open_lanes(t);

	while (rc == 0) {
		for (int i = 0; i < LANES_MAX; i++)
			if (t->slots[i])
				pump(t->slots[i]);
		if (t->status)
			return t->status;
		if (t->ended && t->busy == 0)
			return 0;
		rc = check_lanes(t);
		if (rc == 0)
			rc = kv_wait_turn(t->m->wait, t->loop);
	}
	return rc;
}

int
kv_tcp_move(struct kv_tcp *t, const struct kv_tcp_move *m)
{
	int rc;

	t->m = m;
	t->status = 0;
	t->ended = false;
	rc = move(t);
	if (rc)
		close_lanes(t);
	else
		close_unready(t);
	t->m = NULL;
	return rc;
}

#include "xfer/railset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "xfer/lane.h"
#include "xfer/rdmalink.h"

/* Who waits for memory that is in use is not made to wait longer. */
#define AWAITED_NS (500 * KV_NS_PER_MS)

struct kv_railset {
	struct kv_lane lane;
	struct kv_loop *loop;
	bool owns_loop;
	struct kv_rdmaloop *rails;
	struct kv_rdmalink *link; /* while the lane is READY, if the peer has
				   * RDMA */
	struct kv_railnote notes;
	struct kv_rdma *rdma;
	uint16_t port;
	struct kv_rdmaxfer xfer;
	bool is_over; /* xfer */
	int status;   /* of it */
	char why[KV_RAILSET_WHY_BYTES];
};

/* ---- beside the connection ---- */

static void
on_settled(struct kv_rdmalink *link)
{
	(void)link;
}

static int
on_ready(struct kv_lane *lane)
{
	static const struct kv_rdmalink_ops ops = { .settled = on_settled };
	struct kv_railset *s = KV_CONTAINER_OF(lane, struct kv_railset, lane);
	const struct kv_rdmalink_opts opts = {
		.dials = true,
		.token = lane->token,
		.ops = &ops,
		.arg = s,
	};

	if (!(lane->features & KV_FEATURE_RDMA))
		return 0;
	s->link = kv_rdmalink_new(s->rails, lane->conn, &opts);
	return s->link ? 0 : -errno;
}

static int
on_take(struct kv_lane *lane, const struct kv_msg *msg)
{
	struct kv_railset *s = KV_CONTAINER_OF(lane, struct kv_railset, lane);

	if (!kv_rdmalink_is_for(msg->type))
		return 0;
	return s->link && kv_rdmalink_take(s->link, msg) ? 1 : -EPROTO;
}

static void
on_leave(struct kv_lane *lane)
{
	struct kv_railset *s = KV_CONTAINER_OF(lane, struct kv_railset, lane);

	kv_rdmalink_free(kv_steal_ptr(&s->link));
}

/* ---- life ---- */

struct kv_railset *
kv_railset_new(const struct kv_railset_opts *o)
{
	static const struct kv_lane_ops ops = {
		.ready = on_ready,
		.take = on_take,
		.leave = on_leave,
	};
	struct kv_railset *s = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->rdma = o->rdma;
	s->port = o->port;
	s->owns_loop = !o->loop;
	s->loop = o->loop ? o->loop : kv_loop_new(NULL);
	if (!s->loop)
		goto free_set;
	s->rails = kv_rdmaloop_new(o->rdma, s->loop, false);
	if (!s->rails)
		goto free_loop;
	kv_lane_init(&s->lane, s->loop, o->own, o->boot);
	s->lane.features = KV_FEATURE_RDMA | KV_FEATURE_CALL;
	s->lane.ops = &ops;
	return s;
free_loop:
	if (s->owns_loop)
		kv_loop_free(s->loop);
free_set:
	free(s);
	return NULL;
}

void
kv_railset_free(struct kv_railset *s)
{
	if (!s)
		return;
	kv_railnote_close(&s->notes);
	kv_lane_close(&s->lane);
	kv_rdmaloop_free(s->rails);
	if (s->owns_loop)
		kv_loop_free(s->loop);
	free(s);
}

void
kv_railset_dial(struct kv_railset *s, const char *addr, uint64_t deadline_ns)
{
	kv_lane_dial(&s->lane, addr, deadline_ns);
}

void
kv_railset_greet(struct kv_railset *s, struct kv_stream *stream,
		 uint64_t deadline_ns)
{
	kv_lane_greet(&s->lane, stream, deadline_ns);
}

/* ---- rails ---- */

static void
say_why(struct kv_railset *s, const char *why)
{
	snprintf(s->why, sizeof(s->why), "%s", why);
}

const char *
kv_railset_why(const struct kv_railset *s)
{
	return s->why;
}

unsigned
kv_railset_rails(const struct kv_railset *s)
{
	return s->link ? kv_rdmalink_rails(s->link) : 0;
}

int
kv_railset_settle(struct kv_railset *s, const struct kv_wait *wait)
{
	int rc = kv_loop_turn(s->loop, 0);

	if (rc >= 0)
		rc = kv_lane_settle(&s->lane, wait);
	while (rc == 0 && s->link && !kv_rdmalink_is_settled(s->link))
		rc = kv_wait_turn(wait, s->loop);
	if (rc)
		return rc;
	if (s->lane.state != KV_LANE_READY)
		return s->lane.status;
	if (kv_railset_rails(s) > 0)
		return 0;
	if (!s->link)
		say_why(s, "the peer has no RDMA");
	else if (kv_rdmalink_why(s->link)[0])
		say_why(s, kv_rdmalink_why(s->link));
	else
		say_why(s, "no port of the peer can be reached");
	return 1;
}

/* ---- transfers ---- */

static void
on_done(struct kv_rdmaxfer *x, int status)
{
	struct kv_railset *s = KV_CONTAINER_OF(x, struct kv_railset, xfer);

	s->is_over = true;
	s->status = status;
}

static void
start(struct kv_railset *s, const struct kv_railbatch *b)
{
	s->is_over = false;
	s->xfer = (struct kv_rdmaxfer){
		.kind = b->op == KV_ENGINE_READ ? KV_RDMAXFER_READ
						: KV_RDMAXFER_WRITE_ALONE,
		.near = b->near,
		.far = b->far,
		.bytes = b->bytes,
		.done = on_done,
	};
	kv_rdmalink_start(s->link, &s->xfer);
}

static int
outcome(struct kv_railset *s)
{
	if (s->lane.state != KV_LANE_READY)
		return s->lane.status;
	switch (-s->status) {
	case 0:
	case EACCES:
		return s->status;
	case EHOSTUNREACH:
		if (kv_rdmalink_why(s->link)[0]) {
			say_why(s, kv_rdmalink_why(s->link));
			return 1;
		}
		break;
	default:
		break;
	}
	say_why(s, strerrordesc_np(-s->status));
	return 1;
}

int
kv_railset_move(struct kv_railset *s, const struct kv_railbatch *b,
		const struct kv_wait *wait)
{
	uint64_t patient_until = kv_wait_now(wait) + AWAITED_NS;
	int rc = 0;

	if (!s->link)
		return s->lane.status;
	start(s, b);
	while (rc == 0 && !s->is_over) {
		rc = kv_wait_turn(wait, s->loop);
		if (rc == 0 && !s->is_over &&
		    kv_wait_now(wait) >= patient_until &&
		    kv_railbatch_is_awaited(b))
			rc = -EBUSY;
	}
	if (s->is_over)
		rc = outcome(s);
	if (rc)
		kv_lane_close(&s->lane);
	return rc;
}

/* ---- messages ---- */

int
kv_railset_note(struct kv_railset *s, const struct kv_railnote_text *note,
		const struct kv_wait *wait)
{
	struct kv_railnote_to to = {
		.rdma = s->rdma,
		.loop = s->loop,
		.own = &s->lane.own,
		.boot = &s->lane.boot,
		.port = s->port,
	};
	int rc;

	if (s->port == 0 || !(s->lane.features & KV_FEATURE_CALL) || !s->link ||
	    !kv_rdmalink_path(s->link, &to.near, &to.far))
		return 1;
	rc = kv_railnote_open(&s->notes, &to, wait);
	if (rc == 0)
		rc = kv_railnote_send(&s->notes.lane, note, wait);
	return rc == -ESTALE ? 1 : rc;
}

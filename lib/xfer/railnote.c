#include "xfer/railnote.h"

#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/status.h"
#include "net/stream.h"
#include "xfer/rdmacall.h"

#define DIAL_NS KV_NS_PER_S
#define REST_NS (5 * KV_NS_PER_S)

enum {
	/* Of a port, 8 KiB each; for one connection. */
	RECEIVES = 32,
	SENDS = 16,
	STREAMS = 2,
};

/* ---- a message ---- */

static int
take_noted(void *arg, const struct kv_msg *msg)
{
	const struct kv_note_r *r = msg->body;

	(void)arg;
	if (msg->type != KV_MSG_NOTE_R)
		return -EPROTO;
	return -kv_status_errno(r->status);
}

int
kv_railnote_send(struct kv_lane *lane, const struct kv_railnote_text *note,
		 const struct kv_wait *wait)
{
	struct kv_lane_ask ask = { .take = take_noted };
	size_t name_len = strlen(note->name);
	struct kv_note *body;
	uint8_t *tail;

	if (!kv_lane_begin(lane, &ask, KV_MSG_NOTE))
		return -ESTALE;
	tail = kv_conn_tail(lane->conn, name_len + note->text_len);
	if (!tail) {
		kv_rpc_cancel(&ask.call);
		return -ECONNRESET;
	}
	body = kv_conn_body(lane->conn);
	body->name_len = kv_le16((uint16_t)name_len);
	body->text_len = kv_le32((uint32_t)note->text_len);
	memcpy(tail, note->name, name_len);
	if (note->text_len)
		memcpy(tail + name_len, note->text, note->text_len);
	return kv_lane_finish(lane, &ask, wait);
}

/* ---- its queue pair ---- */

static void
on_dialled(void *arg, struct kv_stream *s, int status)
{
	struct kv_railnote *n = arg;

	n->dial = NULL;
	if (s) {
		kv_lane_greet(&n->lane, s, n->lane.deadline_ns);
		return;
	}
	n->lane.state = KV_LANE_LOST;
	n->lane.status = status;
}

static int
dial(struct kv_railnote *n, const struct kv_railnote_to *to,
     const struct kv_wait *wait)
{
	const struct kv_rdmacall_to at = {
		.from = to->near,
		.to = to->far,
		.port = to->port,
		.deadline_ns = kv_min_u64(kv_wait_now(wait) + DIAL_NS,
					  wait->deadline_ns),
	};
	int rc = 0;

	kv_lane_init(&n->lane, to->loop, to->own, to->boot);
	n->lane.deadline_ns = at.deadline_ns;
	n->dial = kv_rdmacall_dial(n->call, &at, on_dialled, n);
	if (!n->dial)
		return -errno;
	while (rc == 0 && n->dial)
		rc = kv_wait_turn(wait, to->loop);
	return rc ? rc : kv_lane_settle(&n->lane, wait);
}

static void
lane_close(struct kv_railnote *n)
{
	if (n->dial)
		kv_rdmacall_cancel(kv_steal_ptr(&n->dial));
	kv_lane_close(&n->lane);
}

int
kv_railnote_open(struct kv_railnote *n, const struct kv_railnote_to *to,
		 const struct kv_wait *wait)
{
	const struct kv_rdmacall_opts o = {
		.rdma = to->rdma,
		.loop = to->loop,
		.receives = RECEIVES,
		.sends = SENDS,
		.streams = STREAMS,
	};
	int rc;

	if (n->lane.state == KV_LANE_READY)
		return 0;
	if (kv_wait_now(wait) < n->from_ns)
		return 1;
	lane_close(n);
	if (!n->call)
		n->call = kv_rdmacall_new(&o);
	rc = n->call ? dial(n, to, wait) : -errno;
	if (rc == 0)
		return 0;
	lane_close(n);
	kv_debug("engine: messages go by TCP: %s", strerrordesc_np(-rc));
	n->from_ns = kv_wait_now(wait) + REST_NS;
	rc = kv_wait_check(wait);
	return rc ? rc : 1;
}

void
kv_railnote_close(struct kv_railnote *n)
{
	lane_close(n);
	kv_rdmacall_free(kv_steal_ptr(&n->call));
}

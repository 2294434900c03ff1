#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/num.h"
#include "kvpool.h"
#include "xfer/servecore.h"

/* A READ while its bytes leave. */
struct reading {
	struct kv_list link;
	struct kv_conn_sent sent;
	struct kv_serveconn *c;
	struct kv_region_hold hold;
};

struct xfer {
	enum kv_xfer_op op;
	int n;
	const struct kv_xfer_piece *pieces;
	uint64_t bytes; /* of all pieces */
};

static int
parse(const struct kv_msg *msg, struct xfer *x)
{
	const struct kv_xfer *body = msg->body;
	uint32_t count = kv_get32(body->count);
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	x->op = body->op;
	x->pieces = kv_cut_array(&cut, count, sizeof(*x->pieces));
	if (!kv_cut_done(&cut) || count > KV_XFER_PIECES_MAX)
		return -EPROTO;
	if (x->op != KV_XFER_WRITE && x->op != KV_XFER_READ)
		return -EPROTO;
	x->n = (int)count;
	x->bytes = 0;
	for (int i = 0; i < x->n; i++)
		if (kv_add_u64(x->bytes, kv_get64(x->pieces[i].len), &x->bytes))
			return -EPROTO;
	if (x->bytes > KV_PAYLOAD_MAX ||
	    msg->payload != (x->op == KV_XFER_WRITE ? x->bytes : 0))
		return -EPROTO;
	return 0;
}

/* Leaves out pieces without bytes; returns how many stay. */
static int
squeeze(struct iovec *iov, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++)
		if (iov[i].iov_len > 0)
			iov[kept++] = iov[i];
	return kept;
}

static void
answer(struct kv_serveconn *c, uint64_t id, int status)
{
	struct kv_xfer_r *r = kv_conn_begin(c->conn, KV_MSG_XFER_R, id, 0);

	if (!r)
		return;
	r->status = (uint8_t)status;
	kv_conn_end(c->conn);
}

static int
hold_write(struct kv_serveconn *c, const struct xfer *x, struct iovec *iov)
{
	int rc;

	if (!c->hold)
		c->hold = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*c->hold));
	if (!c->hold) {
		c->verdict = KV_ENOMEM;
		return 0;
	}
	rc = kv_region_hold(c->regions, x->pieces, x->n, iov, c->hold);
	c->verdict = rc ? KV_EINVALID : KV_OK;
	return rc ? 0 : squeeze(iov, x->n);
}

int
kv_servexfer_place(struct kv_serveconn *c, const struct kv_msg *msg,
		   struct iovec *iov)
{
	struct xfer x;
	int rc = parse(msg, &x);

	return rc ? rc : hold_write(c, &x, iov);
}

/* ---- reads ---- */

static void
reading_free(struct reading *rd)
{
	kv_region_release(rd->c->regions, &rd->hold);
	kv_list_del(&rd->link);
	rd->c->n_reads--;
	free(rd);
}

/* Also called while the connection is closed. */
static void
on_sent(struct kv_conn_sent *sent, int status)
{
	struct reading *rd = KV_CONTAINER_OF(sent, struct reading, sent);
	struct kv_serveconn *c = rd->c;

	reading_free(rd);
	if (status == 0)
		kv_serve_pace(c);
}

static void
read_out(struct kv_serveconn *c, uint64_t id, const struct xfer *x)
{
	struct reading *rd = KV_FAULT_POINT() ? NULL : malloc(sizeof(*rd));
	struct iovec iov[KV_XFER_PIECES_MAX];
	int n;

	if (!rd) {
		answer(c, id, KV_ENOMEM);
		return;
	}
	if (kv_region_hold(c->regions, x->pieces, x->n, iov, &rd->hold)) {
		free(rd);
		answer(c, id, KV_EINVALID);
		return;
	}
	rd->c = c;
	rd->sent.fn = on_sent;
	kv_list_add_tail(&c->reads, &rd->link);
	c->n_reads++;
	n = squeeze(iov, x->n);
	if (kv_conn_begin(c->conn, KV_MSG_XFER_R, id, 0))
		kv_conn_end_payload(c->conn, iov, n, &rd->sent);
	else
		reading_free(rd);
}

/* A WRITE without a byte was never placed. */
static void
finish_write(struct kv_serveconn *c, const struct kv_msg *msg,
	     const struct xfer *x)
{
	struct iovec iov[KV_XFER_PIECES_MAX];

	if (msg->payload == 0)
		hold_write(c, x, iov);
	if (c->hold)
		kv_region_release(c->regions, c->hold);
	answer(c, msg->id, c->verdict);
}

int
kv_servexfer_take(struct kv_serveconn *c, const struct kv_msg *msg)
{
	struct xfer x;
	int rc = parse(msg, &x);

	if (rc)
		return rc;
	if (x.op == KV_XFER_WRITE)
		finish_write(c, msg, &x);
	else
		read_out(c, msg->id, &x);
	return 0;
}

bool
kv_servexfer_touches(const struct kv_serveconn *c, const struct kv_region *r)
{
	struct reading *rd;

	if (c->hold && kv_region_is_held(c->hold, r))
		return true;
	KV_LIST_FOREACH(rd, &c->reads, link)
		if (kv_region_is_held(&rd->hold, r))
			return true;
	return false;
}

void
kv_servexfer_fini(struct kv_serveconn *c)
{
	assert(c->n_reads == 0);
	if (c->hold)
		kv_region_release(c->regions, c->hold);
	free(c->hold);
}

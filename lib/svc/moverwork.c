#include "svc/moverwork.h"

#include <errno.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/num.h"
#include "base/status.h"
#include "net/hello.h"
#include "net/stream.h"
#include "wire/msg.h"

/* A value leaves in frames of at most so many bytes, so that the values of
 * one connection take turns. */
#define FRAME_BYTES_MAX (UINT64_C(16) << 20)

static void
move_return(struct kv_moverwork *w, struct kv_move *m, int status)
{
	m->status = status;
	m->is_parked = false;
	kv_list_del(&m->list);
	if (m->kind == KV_MOVE_EXPECT)
		kv_htab_del(&w->grants, &m->node);
	m->mail.fn = kv_mover_move_back;
	kv_mbox_post(w->home, &m->mail);
}

static void
list_return(struct kv_moverwork *w, struct kv_list *list, int status)
{
	struct kv_move *m;

	while ((m = KV_LIST_FIRST(list, struct kv_move, list)))
		move_return(w, m, status);
}

/* After this no byte of any of its moves is touched. */
static void
dataconn_end(struct kv_dataconn *dc, int status)
{
	struct kv_conn *c = dc->conn;

	if (!c)
		return;
	dc->conn = NULL;
	dc->status = status;
	dc->filling = NULL;
	if (dc->work->reading == dc)
		dc->work->reading = NULL;
	kv_list_del(&dc->linked);
	kv_rdmalink_free(dc->link); /* calls transfer_done for what it has */
	dc->link = NULL;
	kv_conn_close(c); /* calls move_sent for what is in its queue */
	list_return(dc->work, &dc->expected, status);
	list_return(dc->work, &dc->pushes, status);
	assert(kv_list_is_empty(&dc->sending));
	dc->gone.fn = kv_mover_dataconn_gone;
	kv_mbox_post(dc->work->home, &dc->gone);
}

/* The ranges of the pool for bytes [m->moved, m->moved + bytes) of a value.
 * Returns how many, at most max. */
static int
move_iov(const struct kv_move *m, void *pool, uint64_t bytes, struct iovec *iov,
	 int max)
{
	uint64_t skip = m->skip + m->moved;
	unsigned i;
	int n = 0;

	for (i = 0; i < m->n_ext && bytes && n < max; i++) {
		const struct kv_extent *e = &m->ext[i];
		uint64_t len;

		if (skip >= e->len) {
			skip -= e->len;
			continue;
		}
		len = kv_min_u64(e->len - skip, bytes);
		iov[n].iov_base = (char *)pool + e->off + skip;
		iov[n].iov_len = len;
		n++;
		bytes -= len;
		skip = 0;
	}
	return n;
}

static struct kv_move *
grant_find(struct kv_moverwork *w, uint64_t ref)
{
	struct kv_htab_node *n = kv_htab_first(&w->grants, ref);

	return n ? KV_CONTAINER_OF(n, struct kv_move, node) : NULL;
}

static int
dataconn_on_payload(struct kv_conn *c, const struct kv_msg *msg,
		    struct iovec *iov, int max)
{
	struct kv_dataconn *dc = kv_conn_arg(c);
	struct kv_moverwork *w = dc->work;
	const struct kv_data *d = msg->body;
	struct kv_move *m;

	if (msg->type != KV_MSG_DATA)
		return -EPROTO;
	m = grant_find(w, kv_get64(d->ref));
	if (!m) {
		/* The grant was told on another connection, and its mail may
		 * be waiting behind this one's bytes. */
		w->reading = dc;
		kv_mbox_drain(w->mbox);
		if (w->reading != dc)
			return -ECANCELED;
		w->reading = NULL;
		m = grant_find(w, kv_get64(d->ref));
	}
	if (!m) {
		kv_stats_add(&w->stats, KV_STAT_DATA_DROPPED_BYTES,
			     msg->payload);
		return 0;
	}
	if (m->dc != dc || kv_get64(d->off) != m->moved ||
	    msg->payload > m->bytes - m->moved)
		return -EPROTO;
	dc->filling = m;
	return move_iov(m, w->pool, msg->payload, iov, max);
}

static void
dataconn_on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct kv_dataconn *dc = kv_conn_arg(c);
	struct kv_move *m = dc->filling;

	if (msg->type != KV_MSG_DATA) {
		if (!dc->link || !kv_rdmalink_take(dc->link, msg))
			dataconn_end(dc, -ECONNRESET);
		return;
	}
	if (!m)
		return;
	dc->filling = NULL;
	m->moved += msg->payload;
	kv_stats_add(&dc->work->stats, KV_STAT_DATA_RX_BYTES, msg->payload);
	if (m->moved == m->bytes)
		move_return(dc->work, m, 0);
}

static void
dataconn_on_close(struct kv_conn *c, int status)
{
	(void)status;
	dataconn_end(kv_conn_arg(c), -ECONNRESET);
}

static void dataconn_pump(struct kv_dataconn *dc);

/* A frame of the value has left, or never will. */
static void
move_sent(struct kv_conn_sent *sent, int status)
{
	struct kv_move *m = KV_CONTAINER_OF(sent, struct kv_move, sent);
	struct kv_dataconn *dc = m->dc;

	m->is_sending = false;
	if (status < 0) {
		move_return(dc->work, m, -ECONNRESET);
	} else if (m->moved == m->bytes) {
		move_return(dc->work, m, 0);
	} else {
		kv_list_del(&m->list);
		kv_list_add_tail(&dc->pushes, &m->list);
	}
	if (dc->conn)
		dataconn_pump(dc);
}

static bool
move_send(struct kv_dataconn *dc, struct kv_move *m)
{
	uint64_t len = kv_min_u64(m->bytes - m->moved, FRAME_BYTES_MAX);
	struct iovec iov[KV_CONN_PIECES_MAX];
	struct kv_data *d;
	int n;

	_Static_assert(KV_CONN_PIECES_MAX >= KV_EXTENTS_MAX,
		       "a value in one frame");
	d = kv_conn_begin(dc->conn, KV_MSG_DATA, 0, 0);
	if (!d)
		return false; /* it is closed, and will say so */
	d->ref = kv_le64(m->ref);
	d->off = kv_le64(m->moved);
	d->index = kv_le32(m->index);
	n = move_iov(m, dc->work->pool, len, iov, KV_CONN_PIECES_MAX);
	m->moved += len;
	m->is_sending = true;
	m->sent.fn = move_sent;
	kv_list_del(&m->list);
	kv_list_add_tail(&dc->sending, &m->list);
	kv_stats_add(&dc->work->stats, KV_STAT_DATA_TX_BYTES, len);
	kv_conn_end_payload(dc->conn, iov, n, &m->sent);
	return true;
}

static void
dataconn_pump(struct kv_dataconn *dc)
{
	struct kv_move *m;

	while (!kv_conn_is_full(dc->conn) &&
	       (m = KV_LIST_FIRST(&dc->pushes, struct kv_move, list)))
		if (!move_send(dc, m))
			return;
}

static void
dataconn_on_drain(struct kv_conn *c)
{
	dataconn_pump(kv_conn_arg(c));
}

static const struct kv_conn_ops dataconn_ops = {
	.on_msg = dataconn_on_msg,
	.on_payload = dataconn_on_payload,
	.on_close = dataconn_on_close,
	.on_drain = dataconn_on_drain,
};

/* ---- by RDMA ---- */

static void
dataconn_link(struct kv_dataconn *dc)
{
	const struct kv_rdmalink_opts o = { .token = dc->token };

	dc->link = kv_rdmalink_new(dc->work->rdmaloop, dc->conn, &o);
	if (dc->link)
		kv_list_add_tail(&dc->work->links, &dc->linked);
	else
		kv_warn("no RDMA beside a data connection: %m");
}

/* Where to dial; before the pool is registered nowhere. */
static void
dataconn_tell(struct kv_dataconn *dc)
{
	if (kv_rdmaregion_is_complete(dc->work->region))
		kv_rdmalink_tell(dc->link);
	else if (kv_conn_begin(dc->conn, KV_MSG_RAILS, 0, 0))
		kv_conn_end(dc->conn);
}

static void
transfer_done(struct kv_rdmaxfer *x, int status)
{
	struct kv_transfermove *t =
		KV_CONTAINER_OF(x, struct kv_transfermove, xfer);
	struct kv_dataconn *dc = t->move.dc;

	if (status == 0)
		kv_stats_add(&dc->work->stats,
			     x->kind == KV_RDMAXFER_READ
				     ? KV_STAT_RDMA_RX_BYTES
				     : KV_STAT_RDMA_TX_BYTES,
			     x->bytes);
	else if (!dc->conn)
		status = dc->status;
	move_return(dc->work, &t->move, status);
}

static int
transfer_start(struct kv_dataconn *dc, struct kv_move *m)
{
	struct kv_transfermove *t =
		KV_CONTAINER_OF(m, struct kv_transfermove, move);

	if (!dc->link)
		return -EHOSTUNREACH;
	t->xfer.done = transfer_done;
	kv_rdmalink_start(dc->link, &t->xfer);
	return 0;
}

static void
transfer_cancel(struct kv_move *m)
{
	kv_rdmalink_cancel(
		&KV_CONTAINER_OF(m, struct kv_transfermove, move)->xfer);
}

void
kv_moverwork_begin(struct kv_mail *mail)
{
	struct kv_moverwork *w =
		KV_CONTAINER_OF(mail, struct kv_moverwork, begin);

	w->rdmaloop = kv_rdmaloop_new(w->rdma, w->loop, true);
	if (!w->rdmaloop)
		kv_warn("a thread that moves bytes goes without RDMA: %m");
}

void
kv_moverwork_registered(struct kv_mail *mail)
{
	struct kv_moverwork *w =
		KV_CONTAINER_OF(mail, struct kv_moverwork, registered);
	struct kv_dataconn *dc;

	KV_LIST_FOREACH(dc, &w->links, linked)
		dataconn_tell(dc);
}

void
kv_moverwork_end(struct kv_mail *mail)
{
	struct kv_moverwork *w =
		KV_CONTAINER_OF(mail, struct kv_moverwork, end);

	kv_rdmaloop_free(w->rdmaloop);
	w->rdmaloop = NULL;
}

/* ---- mail ---- */

void
kv_moverwork_adopt(struct kv_mail *mail)
{
	struct kv_dataconn *dc =
		KV_CONTAINER_OF(mail, struct kv_dataconn, adopt);
	struct kv_hello_reply reply = { .boot = &dc->boot, .token = dc->token };

	dc->conn = kv_conn_new(dc->work->loop, dc->stream, &dataconn_ops, dc);
	dc->stream = NULL;
	if (!dc->conn) {
		dc->gone.fn = kv_mover_dataconn_gone;
		kv_mbox_post(dc->work->home, &dc->gone);
		return;
	}
	kv_stats_add(&dc->work->stats, KV_STAT_DATA_CONNS, 1);
	if (dc->asks_rdma && dc->work->rdmaloop)
		dataconn_link(dc);
	if (dc->link)
		reply.features |= KV_FEATURE_RDMA;
	kv_hello_welcome(dc->conn, dc->hello, &reply);
	if (dc->link)
		dataconn_tell(dc);
}

void
kv_moverwork_close(struct kv_mail *mail)
{
	struct kv_dataconn *dc =
		KV_CONTAINER_OF(mail, struct kv_dataconn, close);

	dataconn_end(dc, -ECANCELED);
	mail->fn = kv_mover_dataconn_closed;
	kv_mbox_post(dc->work->home, mail);
}

void
kv_moverwork_take(struct kv_mail *mail)
{
	struct kv_move *m = KV_CONTAINER_OF(mail, struct kv_move, mail);
	struct kv_dataconn *dc = m->dc;
	int rc = dc->conn ? 0 : -ECONNRESET;

	if (rc == 0 && m->kind == KV_MOVE_EXPECT)
		rc = kv_htab_add(&dc->work->grants, &m->node, m->ref);
	if (rc == 0 && m->kind == KV_MOVE_TRANSFER)
		rc = transfer_start(dc, m);
	if (rc < 0) {
		m->status = rc;
		mail->fn = kv_mover_move_back;
		kv_mbox_post(dc->work->home, mail);
		return;
	}
	m->is_parked = true;
	if (m->kind == KV_MOVE_EXPECT) {
		kv_list_add_tail(&dc->expected, &m->list);
	} else if (m->kind == KV_MOVE_PUSH) {
		kv_list_add_tail(&dc->pushes, &m->list);
		dataconn_pump(dc);
	}
}

void
kv_moverwork_cancel(struct kv_mail *mail)
{
	struct kv_move *m = KV_CONTAINER_OF(mail, struct kv_move, cancel);
	struct kv_dataconn *dc = m->dc;

	if (m->is_parked && (m->is_sending || dc->filling == m))
		dataconn_end(dc, -ECANCELED);
	else if (m->is_parked && m->kind == KV_MOVE_TRANSFER)
		transfer_cancel(m);
	else if (m->is_parked)
		move_return(dc->work, m, -ECANCELED);
	mail->fn = kv_mover_cancel_back;
	kv_mbox_post(dc->work->home, mail);
}

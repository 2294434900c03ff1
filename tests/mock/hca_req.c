/* The requester: sends what is posted, again if need be, until it is answered.
 */

#include "hca_internal.h"

#include <string.h>

enum {
	FOR_EVER = 7, /* as a number of tries */
};

#define TIMEOUT_UNIT_NS 4096ull

static struct hca_wqe *
wqe_at(const struct hca_qp *qp, uint64_t i)
{
	return &qp->sq[i % qp->cap.max_send_wr];
}

static bool
is_running(const struct hca_qp *qp)
{
	return (qp->qp.state == IBV_QPS_RTS || qp->qp.state == IBV_QPS_SQD) &&
	       !qp->dev->removed;
}

/* Sent, and not complete. */
static bool
is_outstanding(const struct hca_qp *qp)
{
	return qp->done < qp->next ||
	       (qp->next < qp->posted && wqe_at(qp, qp->next)->sent);
}

/* ---- the end of requests ---- */

static void
check_drained(struct hca_qp *qp)
{
	if (!qp->draining || is_outstanding(qp))
		return;
	qp->draining = false;
	if (qp->attr.en_sqd_async_notify)
		hca_qp_event(qp, IBV_EVENT_SQ_DRAINED);
}

/* In order, and none after one that failed. */
static void
finish(struct hca_qp *qp)
{
	while (is_running(qp) && qp->done < qp->posted) {
		const struct hca_wqe *w = wqe_at(qp, qp->done);

		if (w->status != IBV_WC_SUCCESS) {
			hca_complete_send(qp, w->status);
			hca_qp_end(qp);
			return;
		}
		if (w->opcode == IBV_WR_RDMA_READ ? !w->read_done
						  : qp->acked <= qp->done)
			break;
		hca_complete_send(qp, IBV_WC_SUCCESS);
	}
	/* It was being sent again, for nothing. */
	if (qp->next < qp->done) {
		kv_loop_timer_del(&qp->tx);
		qp->next = qp->done;
	}
	check_drained(qp);
}

/* True: it failed here, as was wanted. */
static bool
hits_fault(struct hca_wqe *w, uint64_t moved)
{
	if (w->fault.status == IBV_WC_SUCCESS || moved < w->fails_at)
		return false;
	w->status = w->fault.status;
	return true;
}

/* ---- time-outs ---- */

static void
arm_retry(struct hca_qp *qp)
{
	if (qp->attr.timeout == 0)
		return;
	hca_arm(qp->hca, &qp->retry,
		hca_now(qp->hca) + (TIMEOUT_UNIT_NS << qp->attr.timeout));
}

/* Something has come back: the time runs anew for what is still out. */
static void
rearm_retry(struct hca_qp *qp)
{
	if (is_outstanding(qp) && !qp->rnr.loop)
		arm_retry(qp);
	else
		kv_loop_timer_del(&qp->retry);
}

/* All from there on is sent again. */
static void
rewind_to(struct hca_qp *qp, uint64_t msn, uint64_t off)
{
	kv_loop_timer_del(&qp->tx);
	for (uint64_t i = msn; i <= qp->next && i < qp->posted; i++) {
		struct hca_wqe *w = wqe_at(qp, i);

		if (w->is_out)
			qp->reads_out--;
		w->is_out = false;
		w->sent = i == msn && w->opcode != IBV_WR_RDMA_READ ? off : 0;
	}
	qp->next = msn;
}

static void
run_retry(struct kv_timer *t)
{
	struct hca_qp *qp = KV_CONTAINER_OF(t, struct hca_qp, retry);
	uint64_t off = qp->acked == qp->done ? qp->acked_off : 0;

	if (qp->attr.retry_cnt != FOR_EVER &&
	    qp->retries++ >= qp->attr.retry_cnt) {
		wqe_at(qp, qp->done)->status = IBV_WC_RETRY_EXC_ERR;
		finish(qp);
		return;
	}
	rewind_to(qp, qp->done, off);
	arm_retry(qp);
	hca_req_pump(qp);
}

/* What the responder asks for when it has no receive, in 10 us. */
static uint64_t
rnr_ns(unsigned code)
{
	static const uint32_t units[32] = {
		65536, 1,    2,    3,     4,     6,     8,     12,
		16,    24,   32,   48,    64,    96,    128,   192,
		256,   384,  512,  768,   1024,  1536,  2048,  3072,
		4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return units[code & 31] * 10 * KV_NS_PER_US;
}

static void
run_rnr(struct kv_timer *t)
{
	hca_req_pump(KV_CONTAINER_OF(t, struct hca_qp, rnr));
}

/* ---- sending ---- */

/* The next request, if it may be sent now. */
static struct hca_wqe *
sendable(const struct hca_qp *qp)
{
	struct hca_wqe *w;

	if (!is_running(qp) || qp->next == qp->posted)
		return NULL;
	w = wqe_at(qp, qp->next);
	if (w->status != IBV_WC_SUCCESS)
		return NULL;
	if (qp->qp.state == IBV_QPS_SQD && w->sent == 0)
		return NULL;
	if ((w->flags & IBV_SEND_FENCE) && qp->reads_out)
		return NULL;
	if (w->opcode == IBV_WR_RDMA_READ &&
	    qp->reads_out >= qp->attr.max_rd_atomic)
		return NULL;
	return w;
}

static void
check_next(struct hca_qp *qp)
{
	struct hca_wqe *w = wqe_at(qp, qp->next);

	if (w->opcode == IBV_WR_RDMA_READ && qp->attr.max_rd_atomic == 0)
		w->status = IBV_WC_LOC_QP_OP_ERR;
	hits_fault(w, w->sent);
}

void
hca_req_pump(struct hca_qp *qp)
{
	const struct hca_wqe *w;
	uint64_t at;

	if (qp->tx.loop || qp->rnr.loop)
		return;
	if (is_running(qp) && qp->next < qp->posted)
		check_next(qp);
	finish(qp);
	w = sendable(qp);
	if (!w)
		return;
	qp->tx_len = 0;
	if (w->opcode != IBV_WR_RDMA_READ)
		qp->tx_len = hca_piece(qp->port, w->total - w->sent);
	at = hca_leave(qp->port, qp->tx_len);
	hca_arm(qp->hca, &qp->tx,
		at + hca_upto(qp->hca, qp->hca->opts.jitter_ns));
}

static bool
fill(struct hca_qp *qp, const struct hca_wqe *w, struct hca_packet *p)
{
	struct hca_part part = {
		.dev = qp->dev,
		.pd = qp->qp.pd,
		.sge = w->sge,
		.n_sge = w->n_sge,
		.off = w->sent,
		.len = p->len,
	};

	if (!w->inlined)
		return hca_gather(&part, p->bytes);
	memcpy(p->bytes, w->inlined + w->sent, p->len);
	return true;
}

/* The piece that is leaving; NULL: it could not be read. */
static struct hca_packet *
packet_of(struct hca_qp *qp, const struct hca_wqe *w)
{
	bool is_send =
		w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM;
	bool is_read = w->opcode == IBV_WR_RDMA_READ;
	struct hca_packet *p = hca_packet_new(qp,
					      is_send   ? HCA_SEND
					      : is_read ? HCA_READ
							: HCA_WRITE,
					      qp->tx_len);

	p->msn = qp->next;
	p->off = is_read ? w->got : w->sent;
	p->total = w->total;
	p->far = w->far;
	p->rkey = w->rkey;
	p->imm = w->imm;
	p->has_imm = w->opcode == IBV_WR_SEND_WITH_IMM ||
		     w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	p->solicited = w->flags & IBV_SEND_SOLICITED;
	p->last = is_read || w->sent + p->len == w->total;
	if (is_read || fill(qp, w, p))
		return p;
	hca_packet_free(p);
	return NULL;
}

static void
run_tx(struct kv_timer *t)
{
	struct hca_qp *qp = KV_CONTAINER_OF(t, struct hca_qp, tx);
	struct hca_wqe *w = wqe_at(qp, qp->next);
	struct hca_packet *p = packet_of(qp, w);

	if (!p) {
		w->status = IBV_WC_LOC_PROT_ERR;
		finish(qp);
		return;
	}
	w->sent += p->len;
	if (w->opcode == IBV_WR_RDMA_READ) {
		w->is_out = true;
		qp->reads_out++;
	} else {
		hits_fault(w, w->sent);
	}
	if (p->last)
		qp->next++;
	hca_packet_send(p, &qp->arrives_ns);
	if (!qp->retry.loop)
		arm_retry(qp);
	finish(qp);
	hca_req_pump(qp);
}

/* ---- answers ---- */

static void
progress(struct hca_qp *qp)
{
	qp->retries = qp->rnr_tries = 0;
	qp->moved = true;
}

/* Has come to the other end: all before this byte of this message. */
static void
take_ack(struct hca_qp *qp, uint64_t msn, uint64_t off)
{
	if (msn < qp->acked || (msn == qp->acked && off <= qp->acked_off))
		return;
	qp->acked = msn;
	qp->acked_off = off;
	progress(qp);
}

static void
take_data(struct hca_qp *qp, const struct hca_packet *p)
{
	struct hca_wqe *w = wqe_at(qp, p->msn);
	struct hca_part part = {
		.dev = qp->dev,
		.pd = qp->qp.pd,
		.sge = w->sge,
		.n_sge = w->n_sge,
		.off = p->off,
		.len = p->len,
	};

	if (!w->is_out || p->off != w->got)
		return;
	if (!hca_scatter(&part, p->bytes)) {
		w->status = IBV_WC_LOC_PROT_ERR;
		return;
	}
	w->got += p->len;
	hits_fault(w, w->got);
	if (p->last) {
		w->read_done = true;
		w->is_out = false;
		qp->reads_out--;
		take_ack(qp, p->msn + 1, 0);
	}
	progress(qp);
}

static void
take_rnr(struct hca_qp *qp, const struct hca_packet *p)
{
	rewind_to(qp, p->msn, p->off);
	if (qp->attr.rnr_retry != FOR_EVER &&
	    qp->rnr_tries++ >= qp->attr.rnr_retry) {
		wqe_at(qp, p->msn)->status = IBV_WC_RNR_RETRY_EXC_ERR;
		return;
	}
	kv_loop_timer_del(&qp->retry);
	hca_arm(qp->hca, &qp->rnr, hca_now(qp->hca) + rnr_ns(p->rnr_timer));
}

void
hca_req_answer(struct hca_qp *qp, const struct hca_packet *p)
{
	bool is_known = p->msn >= qp->done &&
			(p->msn < qp->next ||
			 (p->msn == qp->next && qp->next < qp->posted));

	if (p->msn > qp->posted) /* of an earlier life of this QP */
		return;
	qp->moved = false;
	take_ack(qp, p->msn, p->kind == HCA_DATA ? 0 : p->off);
	if (is_known && p->kind == HCA_DATA)
		take_data(qp, p);
	else if (is_known && p->kind == HCA_RNR)
		take_rnr(qp, p);
	else if (is_known && p->kind == HCA_GAP)
		rewind_to(qp, p->msn, p->off);
	else if (is_known && p->kind == HCA_NAK)
		wqe_at(qp, p->msn)->status = p->status;
	finish(qp);
	if (qp->moved && is_running(qp))
		rearm_retry(qp);
	hca_req_pump(qp);
}

void
hca_req_init(struct hca_qp *qp)
{
	qp->tx.fn = run_tx;
	qp->retry.fn = run_retry;
	qp->rnr.fn = run_rnr;
}

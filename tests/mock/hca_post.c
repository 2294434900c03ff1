/* Requests into the queues, and their completions out of them. */

#include "hca_internal.h"

#include <string.h>

/* ---- posting ---- */

static bool
is_known(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_WRITE ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND ||
	       opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_READ;
}

static int
check_send(const struct hca_qp *qp, const struct ibv_send_wr *wr)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	unsigned max_sge = qp->cap.max_send_sge;

	if (qp->dev->removed)
		return EIO;
	if (qp->qp.state < IBV_QPS_RTS || !is_known(wr->opcode))
		return EINVAL;
	if (is_inline && wr->opcode == IBV_WR_RDMA_READ)
		return EINVAL;
	if (is_inline &&
	    hca_sge_bytes(wr->sg_list, wr->num_sge) > qp->cap.max_inline_data)
		return ENOMEM;
	if (wr->num_sge < 0 || (unsigned)wr->num_sge > max_sge)
		return EINVAL;
	return qp->posted - qp->freed >= qp->cap.max_send_wr ? ENOMEM : 0;
}

static void
copy_inline(struct hca_wqe *w, const struct ibv_send_wr *wr)
{
	uint8_t *p = w->inlined;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *s = &wr->sg_list[i];

		memcpy(p, (const void *)(uintptr_t)s->addr, s->length);
		p += s->length;
	}
}

/* Whether this one is to fail, and where. */
static void
draw_fault(struct hca_qp *qp, struct hca_wqe *w)
{
	struct hca_fault *f;

	if (qp->qp.state == IBV_QPS_ERR)
		return;
	f = &qp->port->fault;
	if (f->nth ? --f->nth == 0 : hca_chance(qp->hca, f->chance)) {
		w->fault = *f;
		if (hca_upto(qp->hca, 3)) /* else at once */
			w->fails_at = hca_upto(qp->hca, w->total);
	}
}

static void
enqueue(struct hca_qp *qp, const struct ibv_send_wr *wr)
{
	size_t i = qp->posted % qp->cap.max_send_wr;
	struct hca_wqe *w = &qp->sq[i];
	unsigned max_sge = qp->cap.max_send_sge ? qp->cap.max_send_sge : 1;

	*w = (struct hca_wqe){
		.wr_id = wr->wr_id,
		.opcode = wr->opcode,
		.flags = wr->send_flags,
		.imm = wr->imm_data,
		.far = wr->wr.rdma.remote_addr,
		.rkey = wr->wr.rdma.rkey,
		.n_sge = wr->num_sge,
		.sge = &qp->sges[i * max_sge],
		.total = hca_sge_bytes(wr->sg_list, wr->num_sge),
	};
	if (wr->send_flags & IBV_SEND_INLINE) {
		w->inlined = &qp->inlined[i * qp->cap.max_inline_data];
		copy_inline(w, wr);
	} else {
		for (int k = 0; k < wr->num_sge; k++)
			w->sge[k] = wr->sg_list[k];
	}
	if (w->total > HCA_MSG_BYTES_MAX)
		w->status = IBV_WC_LOC_LEN_ERR;
	draw_fault(qp, w);
	qp->posted++;
}

int
hca_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
	      struct ibv_send_wr **bad)
{
	struct hca_qp *qp = (struct hca_qp *)ibqp;
	int err = 0;

	for (; wr; wr = wr->next) {
		err = check_send(qp, wr);
		if (err) {
			*bad = wr;
			break;
		}
		enqueue(qp, wr);
	}
	if (ibqp->state == IBV_QPS_ERR)
		hca_flush_arm(qp);
	else
		hca_req_pump(qp);
	return err;
}

int
hca_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
	      struct ibv_recv_wr **bad)
{
	struct hca_qp *qp = (struct hca_qp *)ibqp;
	int err;

	*bad = wr;
	if (qp->dev->removed)
		return EIO;
	if (ibqp->srq || ibqp->state == IBV_QPS_RESET)
		return EINVAL;
	err = hca_ring_post(&qp->rq, wr, bad);
	if (ibqp->state == IBV_QPS_ERR)
		hca_flush_arm(qp);
	return err;
}

/* ---- completing ---- */

/* Of an error nothing else can be relied on. */
static struct ibv_wc
failed(struct hca_qp *qp, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	kv_rng_bytes(&qp->hca->rng, &wc, sizeof(wc));
	wc.wr_id = wr_id;
	wc.status = status;
	wc.vendor_err = 0;
	wc.qp_num = qp->qp.qp_num;
	return wc;
}

static enum ibv_wc_opcode
done_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	default:
		return IBV_WC_SEND;
	}
}

/* The oldest request. */
void
hca_complete_send(struct hca_qp *qp, enum ibv_wc_status status)
{
	const struct hca_wqe *w = &qp->sq[qp->done % qp->cap.max_send_wr];
	struct hca_cqe e = { .qp = qp, .sent = ++qp->done };

	if (status != IBV_WC_SUCCESS) {
		e.wc = failed(qp, w->wr_id, status);
		if (status == w->fault.status)
			e.wc.vendor_err = w->fault.vendor_err;
	} else if (qp->sig_all || (w->flags & IBV_SEND_SIGNALED)) {
		e.wc = (struct ibv_wc){
			.wr_id = w->wr_id,
			.opcode = done_opcode(w->opcode),
			.byte_len = (uint32_t)w->total,
			.qp_num = qp->qp.qp_num,
		};
	} else {
		return;
	}
	hca_cq_push((struct hca_cq *)qp->qp.send_cq, &e, false);
}

/* The current receive. */
void
hca_complete_recv(struct hca_qp *qp, enum ibv_wc_status status,
		  const struct hca_packet *p)
{
	struct hca_cqe e = { .qp = qp, .taken = qp->recvs };

	assert(qp->has_cur);
	qp->has_cur = false;
	if (status != IBV_WC_SUCCESS)
		e.wc = failed(qp, qp->cur.wr_id, status);
	else
		e.wc = (struct ibv_wc){
			.wr_id = qp->cur.wr_id,
			.opcode = p->kind == HCA_WRITE
					  ? IBV_WC_RECV_RDMA_WITH_IMM
					  : IBV_WC_RECV,
			.byte_len = (uint32_t)p->total,
			.imm_data = p->has_imm ? p->imm : 0,
			.wc_flags = p->has_imm ? IBV_WC_WITH_IMM : 0,
			.qp_num = qp->qp.qp_num,
			.src_qp = qp->attr.dest_qp_num,
		};
	hca_cq_push((struct hca_cq *)qp->qp.recv_cq, &e,
		    status == IBV_WC_SUCCESS && p->solicited);
}

/* ---- flushing ---- */

void
hca_flush_arm(struct hca_qp *qp)
{
	if (!qp->flush.loop && qp->ctx->proc->loop && !qp->dev->removed)
		hca_arm(qp->hca, &qp->flush,
			hca_now(qp->hca) +
				hca_upto(qp->hca, qp->hca->opts.flush_ns));
}

void
hca_flush_run(struct kv_timer *t)
{
	struct hca_qp *qp = KV_CONTAINER_OF(t, struct hca_qp, flush);

	while (qp->done < qp->posted)
		hca_complete_send(qp, IBV_WC_WR_FLUSH_ERR);
	if (qp->has_cur)
		hca_complete_recv(qp, IBV_WC_WR_FLUSH_ERR, NULL);
	/* Shared ones stay, for others. */
	while (!qp->qp.srq && hca_recv_take(qp))
		hca_complete_recv(qp, IBV_WC_WR_FLUSH_ERR, NULL);
	if (qp->qp.srq && !qp->told_last) {
		qp->told_last = true;
		hca_qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
}

/* Queue pairs: their making, their states, their end. */

#include "hca_internal.h"

#include <stdlib.h>

#include "base/num.h"

/* ---- making and ending ---- */

static int
check_init(const struct hca_ctx *ctx, const struct ibv_qp_init_attr *a)
{
	const struct ibv_qp_cap *cap = &a->cap;

	if (ctx->dev->removed)
		return EIO;
	if (a->qp_type != IBV_QPT_RC)
		return EOPNOTSUPP;
	if (!a->send_cq || !a->recv_cq || a->send_cq->context != &ctx->ctx ||
	    a->recv_cq->context != &ctx->ctx ||
	    (a->srq && a->srq->context != &ctx->ctx))
		return EINVAL;
	if (cap->max_send_wr > HCA_QP_WR_MAX ||
	    cap->max_recv_wr > HCA_QP_WR_MAX ||
	    cap->max_send_sge > HCA_SGE_MAX ||
	    cap->max_recv_sge > HCA_SGE_MAX ||
	    cap->max_inline_data > HCA_INLINE_MAX)
		return EINVAL;
	return 0;
}

static void
queues_init(struct hca_qp *qp)
{
	const struct ibv_qp_cap *cap = &qp->cap;
	size_t n = cap->max_send_wr;

	if (qp->qp.srq) {
		qp->recvs = &((struct hca_srq *)qp->qp.srq)->ring;
		((struct hca_srq *)qp->qp.srq)->n_qps++;
	} else {
		hca_ring_init(&qp->rq, cap->max_recv_wr, cap->max_recv_sge);
		qp->recvs = &qp->rq;
	}
	qp->sq = hca_alloc((n + 1) * sizeof(*qp->sq));
	/* One at least for each: inline data is told as one piece. */
	qp->sges = hca_alloc((n + 1) * kv_max_u64(cap->max_send_sge, 1) *
			     sizeof(*qp->sges));
	qp->inlined = hca_alloc(n * cap->max_inline_data + 1);
}

static struct ibv_qp *
create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct hca_ctx *ctx = (struct hca_ctx *)pd->context;
	struct hca_qp *qp;

	errno = check_init(ctx, attr);
	if (errno)
		return NULL;
	qp = hca_alloc(sizeof(*qp));
	qp->hca = ctx->proc->hca;
	qp->ctx = ctx;
	qp->dev = ctx->dev;
	qp->cap = attr->cap;
	qp->sig_all = attr->sq_sig_all;
	qp->qp.context = pd->context;
	qp->qp.qp_context = attr->qp_context;
	qp->qp.pd = pd;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.srq = attr->srq;
	qp->qp.qp_num = qp->hca->next_qpn++;
	qp->qp.qp_type = IBV_QPT_RC;
	qp->qp.state = IBV_QPS_RESET;
	queues_init(qp);
	hca_req_init(qp);
	hca_resp_init(qp);
	qp->flush.fn = hca_flush_run;
	((struct hca_cq *)attr->send_cq)->n_qps++;
	((struct hca_cq *)attr->recv_cq)->n_qps++;
	((struct hca_pd *)pd)->n_objects++;
	ctx->n_objects++;
	kv_list_add_tail(&qp->dev->qps, &qp->link);
	return &qp->qp;
}

/* What completed before is gone with it. */
static void
completions_forget(struct hca_qp *qp)
{
	hca_cq_forget((struct hca_cq *)qp->qp.send_cq, qp);
	hca_cq_forget((struct hca_cq *)qp->qp.recv_cq, qp);
}

static int
destroy_qp(struct ibv_qp *ibqp)
{
	struct hca_qp *qp = (struct hca_qp *)ibqp;

	hca_qp_still(qp);
	completions_forget(qp);
	hca_async_drop(qp->ctx, qp);
	assert(qp->async_unacked == 0); /* else it hangs */
	if (qp->has_cur) /* of a shared queue: nobody tells of it any more */
		qp->recvs->freed++;
	if (ibqp->srq)
		((struct hca_srq *)ibqp->srq)->n_qps--;
	((struct hca_cq *)ibqp->send_cq)->n_qps--;
	((struct hca_cq *)ibqp->recv_cq)->n_qps--;
	((struct hca_pd *)ibqp->pd)->n_objects--;
	qp->ctx->n_objects--;
	kv_list_del(&qp->link);
	hca_ring_fini(&qp->rq);
	free(qp->sq);
	free(qp->sges);
	free(qp->inlined);
	free(qp);
	return 0;
}

struct hca_qp *
hca_qp_find(struct hca_dev *dev, uint32_t qpn)
{
	struct hca_qp *qp;

	KV_LIST_FOREACH(qp, &dev->qps, link)
		if (qp->qp.qp_num == qpn)
			return qp;
	return NULL;
}

void
hca_qp_event(struct hca_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event event = {
		.event_type = type,
		.element.qp = &qp->qp,
	};

	hca_async(qp->ctx, &event);
}

void
hca_qp_still(struct hca_qp *qp)
{
	kv_loop_timer_del(&qp->tx);
	kv_loop_timer_del(&qp->retry);
	kv_loop_timer_del(&qp->rnr);
	kv_loop_timer_del(&qp->flush);
	hca_resp_drop(qp);
	hca_resp_place_all(qp);
	qp->qp.state = IBV_QPS_ERR;
}

void
hca_qp_end(struct hca_qp *qp)
{
	if (qp->qp.state == IBV_QPS_ERR)
		return;
	hca_qp_still(qp);
	hca_flush_arm(qp);
}

/* ---- states ---- */

/* What the standard wants told, and lets be told, for RC. */
static const struct {
	enum ibv_qp_state from, to;
	int required, optional;
} moves[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		  IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
		  IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		  IBV_QP_PATH_MIG_STATE },
};

static bool
may_move(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	mask &= ~IBV_QP_STATE;
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return (mask & ~IBV_QP_CUR_STATE) == 0;
	for (size_t i = 0; i < KV_ARRAY_LEN(moves); i++)
		if (moves[i].from == from && moves[i].to == to)
			return (mask & moves[i].required) ==
				       moves[i].required &&
			       !(mask &
				 ~(moves[i].required | moves[i].optional));
	return false;
}

static bool
has_good_address(const struct hca_qp *qp, const struct ibv_ah_attr *ah)
{
	if (ah->port_num != qp->port->num)
		return false;
	if (!ah->is_global)
		return qp->port->opts.infiniband;
	return ah->grh.sgid_index < qp->port->n_gids;
}

static bool
are_good(struct hca_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	const struct hca_port *port =
		mask & IBV_QP_PORT ? hca_port_of(qp->dev, a->port_num)
				   : qp->port;

	if ((mask & IBV_QP_CUR_STATE) && a->cur_qp_state != qp->qp.state)
		return false;
	if ((mask & IBV_QP_PORT) && !port)
		return false;
	if ((mask & IBV_QP_PKEY_INDEX) && a->pkey_index >= port->opts.pkeys)
		return false;
	if ((mask & IBV_QP_AV) && !has_good_address(qp, &a->ah_attr))
		return false;
	if ((mask & IBV_QP_PATH_MTU) &&
	    (a->path_mtu < IBV_MTU_256 || a->path_mtu > qp->port->opts.mtu))
		return false;
	if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) &&
	    a->max_rd_atomic > HCA_RD_ATOMIC_MAX)
		return false;
	if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
	    a->max_dest_rd_atomic > HCA_RD_ATOMIC_MAX)
		return false;
	return !((mask & IBV_QP_TIMEOUT) && a->timeout > 31) &&
	       !((mask & IBV_QP_RETRY_CNT) && a->retry_cnt > 7) &&
	       !((mask & IBV_QP_RNR_RETRY) && a->rnr_retry > 7) &&
	       !((mask & IBV_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31);
}

static bool
is_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && gid->raw[1] == 0x80;
}

/* Who is at the far end of the way. */
static struct hca_port *
peer_of(struct hca_qp *qp, const struct ibv_ah_attr *ah)
{
	const struct hca_port *port = qp->port;

	if (!ah->is_global)
		return hca_port_by_lid(qp->port, ah->dlid);
	/* An IP stack has no way from one kind to the other. */
	if (!port->opts.infiniband &&
	    is_local(&port->gids[ah->grh.sgid_index].gid) !=
		    is_local(&ah->grh.dgid))
		return NULL;
	return hca_port_by_gid(qp->port, &ah->grh.dgid);
}

static void
take_attrs(struct hca_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_attr *to = &qp->attr;

#define TAKE(bit, field)  \
	if (mask & (bit)) \
	to->field = a->field
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_AV, ah_attr);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
#undef TAKE
	if (mask & IBV_QP_PORT)
		qp->port = hca_port_of(qp->dev, a->port_num);
	if (mask & IBV_QP_AV)
		qp->peer = peer_of(qp, &a->ah_attr);
}

/* As if it were made anew, but for its number. */
static void
reset(struct hca_qp *qp)
{
	hca_qp_still(qp);
	completions_forget(qp);
	if (qp->has_cur && qp->qp.srq)
		qp->recvs->freed++;
	qp->has_cur = false;
	if (!qp->qp.srq)
		qp->rq.posted = qp->rq.taken = qp->rq.freed = 0;
	qp->posted = qp->next = qp->done = qp->freed = 0;
	qp->acked = qp->acked_off = 0;
	qp->reads_out = qp->retries = qp->rnr_tries = 0;
	qp->expect = qp->expect_off = 0;
	qp->gap_told = qp->refusing = qp->told_last = qp->draining = false;
	qp->is_heard = false;
	qp->port = qp->peer = NULL;
	qp->attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET };
}

static int
modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct hca_qp *qp = (struct hca_qp *)ibqp;
	enum ibv_qp_state from = ibqp->state;
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;

	if (qp->dev->removed)
		return EIO;
	if (!may_move(from, to, mask) || !are_good(qp, attr, mask))
		return EINVAL;
	if (to == IBV_QPS_ERR) {
		hca_qp_end(qp);
		return 0;
	}
	if (to == IBV_QPS_RESET)
		reset(qp);
	take_attrs(qp, attr, mask);
	ibqp->state = to;
	qp->draining = to == IBV_QPS_SQD && from == IBV_QPS_RTS;
	hca_req_pump(qp);
	return 0;
}

static int
query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
	 struct ibv_qp_init_attr *init)
{
	struct hca_qp *qp = (struct hca_qp *)ibqp;

	(void)mask;
	if (qp->dev->removed)
		return EIO;
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = ibqp->state;
	attr->cap = qp->cap;
	attr->sq_draining = qp->draining;
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibqp->qp_context,
		.send_cq = ibqp->send_cq,
		.recv_cq = ibqp->recv_cq,
		.srq = ibqp->srq,
		.cap = qp->cap,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = qp->sig_all,
	};
	return 0;
}

void
hca_qp_calls(struct kv_rdmaverbs *v)
{
	v->create_qp = create_qp;
	v->modify_qp = modify_qp;
	v->query_qp = query_qp;
	v->destroy_qp = destroy_qp;
}

/* Receives: those of a QP, and those that QPs share. */

#include "hca_internal.h"

#include <stdlib.h>
#include <string.h>

void
hca_ring_init(struct hca_ring *r, unsigned max_wr, unsigned max_sge)
{
	r->max_wr = max_wr;
	r->max_sge = max_sge;
	r->slots = hca_alloc((max_wr + 1) * sizeof(*r->slots));
	r->sges = hca_alloc((max_wr * max_sge + 1) * sizeof(*r->sges));
}

void
hca_ring_fini(struct hca_ring *r)
{
	free(r->slots);
	free(r->sges);
}

static int
post_one(struct hca_ring *r, const struct ibv_recv_wr *wr)
{
	unsigned i = r->max_wr ? (unsigned)(r->posted % r->max_wr) : 0;
	struct hca_recv *slot = &r->slots[i];

	if (wr->num_sge < 0 || (unsigned)wr->num_sge > r->max_sge)
		return EINVAL;
	if (r->posted - r->freed >= r->max_wr)
		return ENOMEM;
	slot->wr_id = wr->wr_id;
	slot->n_sge = wr->num_sge;
	slot->sge = &r->sges[i * r->max_sge];
	for (int k = 0; k < wr->num_sge; k++)
		slot->sge[k] = wr->sg_list[k];
	r->posted++;
	return 0;
}

int
hca_ring_post(struct hca_ring *r, struct ibv_recv_wr *wr,
	      struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		int err = post_one(r, wr);

		if (err) {
			*bad = wr;
			return err;
		}
	}
	return 0;
}

static struct ibv_srq *
create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct hca_ctx *ctx = (struct hca_ctx *)pd->context;
	struct hca_srq *srq;

	errno = 0;
	if (ctx->dev->removed)
		errno = EIO;
	else if (attr->attr.max_wr < 1 || attr->attr.max_wr > HCA_SRQ_WR_MAX ||
		 attr->attr.max_sge > HCA_SGE_MAX)
		errno = EINVAL;
	if (errno)
		return NULL;
	srq = hca_alloc(sizeof(*srq));
	hca_ring_init(&srq->ring, attr->attr.max_wr, attr->attr.max_sge);
	srq->srq.context = pd->context;
	srq->srq.srq_context = attr->srq_context;
	srq->srq.pd = pd;
	((struct hca_pd *)pd)->n_objects++;
	ctx->n_objects++;
	return &srq->srq;
}

/* Fewer than the limit are left: told once, until it is set again. */
static void
check_limit(struct hca_srq *srq)
{
	struct ibv_async_event event = {
		.event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
		.element.srq = &srq->srq,
	};

	if (srq->ring.posted - srq->ring.taken >= srq->limit)
		return;
	srq->limit = 0;
	hca_async((struct hca_ctx *)srq->srq.context, &event);
}

void
hca_srq_lose(struct ibv_srq *ibsrq)
{
	struct hca_ctx *ctx = (struct hca_ctx *)ibsrq->context;
	struct ibv_async_event event = {
		.event_type = IBV_EVENT_SRQ_ERR,
		.element.srq = ibsrq,
	};
	struct hca_qp *qp;

	hca_async(ctx, &event);
	KV_LIST_FOREACH(qp, &ctx->dev->qps, link)
		if (qp->qp.srq == ibsrq)
			hca_qp_end(qp);
}

/* The limit only: no device of today makes a shared queue longer. */
static int
modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct hca_srq *srq = (struct hca_srq *)ibsrq;

	if (((struct hca_ctx *)ibsrq->context)->dev->removed)
		return EIO;
	if (mask != IBV_SRQ_LIMIT || attr->srq_limit >= srq->ring.max_wr)
		return EINVAL;
	srq->limit = attr->srq_limit;
	check_limit(srq);
	return 0;
}

static int
destroy_srq(struct ibv_srq *ibsrq)
{
	struct hca_srq *srq = (struct hca_srq *)ibsrq;
	struct hca_ctx *ctx = (struct hca_ctx *)ibsrq->context;

	if (srq->n_qps)
		return EBUSY;
	hca_async_drop(ctx, srq);
	assert(srq->async_unacked == 0); /* else it hangs */
	((struct hca_pd *)ibsrq->pd)->n_objects--;
	ctx->n_objects--;
	hca_ring_fini(&srq->ring);
	free(srq);
	return 0;
}

int
hca_srq_post(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
	     struct ibv_recv_wr **bad)
{
	struct hca_srq *srq = (struct hca_srq *)ibsrq;

	if (((struct hca_ctx *)ibsrq->context)->dev->removed) {
		*bad = wr;
		return EIO;
	}
	return hca_ring_post(&srq->ring, wr, bad);
}

bool
hca_recv_take(struct hca_qp *qp)
{
	struct hca_ring *r = qp->recvs;

	if (r->taken == r->posted)
		return false;
	/* A copy: shared slots are used again in any order. */
	qp->cur = r->slots[r->taken++ % r->max_wr];
	for (int i = 0; i < qp->cur.n_sge; i++)
		qp->cur_sge[i] = qp->cur.sge[i];
	qp->cur.sge = qp->cur_sge;
	qp->has_cur = true;
	if (qp->qp.srq)
		check_limit((struct hca_srq *)qp->qp.srq);
	return true;
}

void
hca_srq_calls(struct kv_rdmaverbs *v)
{
	v->create_srq = create_srq;
	v->modify_srq = modify_srq;
	v->destroy_srq = destroy_srq;
}

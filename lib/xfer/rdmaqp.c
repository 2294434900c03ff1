#include "xfer/rdmaqp.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "xfer/rdmaplan.h"

/* The n-th of a life, from 1 on: a million a second for twelve days. */
#define LIFE_SHIFT 40

static int
errno_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_WR_FLUSH_ERR:
		return -ECANCELED;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return -ETIMEDOUT;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return -EACCES;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return -EFAULT;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return -ENOBUFS;
	default:
		return -EIO;
	}
}

static struct kv_rdmawr **
place(const struct kv_rdmaqp *qp, uint64_t n)
{
	return &qp->posted[n & (qp->depth - 1)];
}

/* All before the n-th have come back, with this status. */
static void
come_back(struct kv_rdmaqp *qp, uint64_t n, int status)
{
	struct kv_rdmawr *w;

	while (qp->tail < n) {
		w = *place(qp, qp->tail);
		qp->tail++;
		w->done(w, status);
	}
}

/* ---- its end ---- */

static void
is_over(struct kv_defer *d)
{
	struct kv_rdmaqp *qp = KV_CONTAINER_OF(d, struct kv_rdmaqp, over);

	qp->state = KV_RDMAQP_OVER;
	qp->ops->over(qp, qp->why);
}

/* Without it the NIC touches nothing, whatever had been posted. */
static void
destroy(struct kv_rdmaqp *qp)
{
	if (!qp->qp)
		return;
	qp->cq->port->v->destroy_qp(qp->qp);
	qp->qp = NULL;
	kv_rdmacq_del(qp->cq, qp);
}

/* Nobody will say what became of what was posted. */
static void
cut_short(struct kv_rdmaqp *qp, int status)
{
	destroy(qp);
	come_back(qp, qp->head, status);
	kv_loop_defer(qp->cq->loop, &qp->over);
}

/*
 * In the state ERR a NIC touches nothing more, and what was posted and has not
 * ended is flushed. What ended well and unsignalled is not told: so one more
 * is posted, which is flushed after all the others.
 */
static void
end(struct kv_rdmaqp *qp, int why)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_send_wr last = {
		.wr_id = qp->life | (qp->head + 1),
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (qp->state >= KV_RDMAQP_ENDING)
		return;
	qp->state = KV_RDMAQP_ENDING;
	qp->why = why;
	if (qp->cq->is_lost ||
	    qp->cq->port->v->modify_qp(qp->qp, &attr, IBV_QP_STATE) != 0 ||
	    ibv_post_send(qp->qp, &last, &bad) != 0)
		cut_short(qp, -EIO);
	else
		kv_rdmacq_wake(qp->cq);
}

void
kv_rdmaqp_fence(struct kv_rdmaqp *qp)
{
	end(qp, -ECANCELED);
}

void
kv_rdmaqp_lost(struct kv_rdmaqp *qp)
{
	end(qp, -EIO);
	if (qp->qp)
		cut_short(qp, -EIO);
}

/* True: the receive is kept. */
static KV_NOINLINE bool
receive_take(struct kv_rdmaqp *qp, const struct ibv_wc *wc)
{
	struct kv_rdmacq *c = qp->cq;
	bool has_imm = wc->wc_flags & IBV_WC_WITH_IMM;
	struct kv_rdmarecv r = {
		.receive = (unsigned)wc->wr_id,
		.bytes = wc->byte_len,
		.imm = has_imm ? be32toh(wc->imm_data) : 0,
	};

	if (wc->status != IBV_WC_SUCCESS)
		return false;
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		qp->ops->imm(qp, r.imm);
		return false;
	}
	if (!qp->ops->recv || !c->memory)
		return false;
	r.data = c->memory + (size_t)r.receive * c->recv_bytes;
	qp->ops->recv(qp, &r);
	return true;
}

static bool
has_failed(const struct kv_rdmaqp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int rc = qp->cq->port->v->query_qp(qp->qp, &attr, IBV_QP_STATE, &init);

	return rc != 0 || attr.qp_state != IBV_QPS_RTS;
}

/*
 * Soft-RoCE, as of Linux 6.1, tells of a READ whose answers it has mixed up,
 * after it had asked again, that it succeeded, if anything, and then ends the
 * queue pair. So of a READ that has succeeded it waits for what comes next;
 * where that is the end, what came before is not believed.
 */
static bool
is_doubtful(const struct kv_rdmaqp *qp, uint64_t n)
{
	return qp->is_soft && n <= qp->head &&
	       (*place(qp, n - 1))->wr.opcode == IBV_WR_RDMA_READ;
}

static KV_NOINLINE void
doubt(struct kv_rdmaqp *qp, uint64_t n)
{
	come_back(qp, n - 1, 0);
	if (n < qp->head)
		return;
	/* Nothing comes next. */
	if (has_failed(qp))
		end(qp, -EIO);
	else
		come_back(qp, n, 0);
}

/* Of those before one that was told so: they were not signalled, and did not
 * fail. */
static int
unsignalled(const struct kv_rdmaqp *qp, int status)
{
	return status == -ECANCELED && qp->is_soft ? status : 0;
}

/* The n-th has failed, or is the last one of end(). */
static KV_NOINLINE void
failure_take(struct kv_rdmaqp *qp, uint64_t n, int status)
{
	assert(n > qp->tail && n <= qp->head + 1);
	if (n == qp->head + 1) {
		come_back(qp, qp->head, unsignalled(qp, status));
		kv_loop_defer(qp->cq->loop, &qp->over);
		return;
	}
	come_back(qp, n - 1, unsignalled(qp, status));
	end(qp, status);
	come_back(qp, n, status);
}

bool
kv_rdmaqp_take(struct kv_rdmaqp *qp, const struct ibv_wc *wc)
{
	uint64_t n = wc->wr_id - qp->life;

	if (wc->wr_id < KV_RDMACQ_RECEIVES_MAX)
		return receive_take(qp, wc);
	if (wc->wr_id >> LIFE_SHIFT != qp->life >> LIFE_SHIFT)
		return false;
	if (wc->status == IBV_WC_SUCCESS && is_doubtful(qp, n))
		doubt(qp, n);
	else if (wc->status == IBV_WC_SUCCESS && n <= qp->head)
		come_back(qp, n, 0);
	else
		failure_take(qp, n, errno_of(wc->status));
	return false;
}

/* ---- posting ---- */

/* Links them. The last one is told, and so is one of each quarter of the queue.
 */
static void
chain(const struct kv_rdmaqp *qp, struct kv_rdmawr *const *wrs, unsigned n)
{
	uint64_t head = qp->head, life = qp->life, mask = qp->depth - 1;
	struct kv_rdmawr **posted = qp->posted;
	struct ibv_send_wr *wr = &wrs[0]->wr;
	uint64_t i, often = mask / 4;

	for (i = 0;; i++) {
		posted[head++ & mask] = wrs[i];
		wr->wr_id = life | head;
		if (i + 1 == n)
			break;
		wr->send_flags = (i & often) == often ? IBV_SEND_SIGNALED : 0;
		wr->next = &wrs[i + 1]->wr;
		wr = wr->next;
	}
	wr->send_flags = IBV_SEND_SIGNALED;
	wr->next = NULL;
}

static KV_NOINLINE void
post_refused(struct kv_rdmawr *const *wrs, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		wrs[i]->done(wrs[i], -ECANCELED);
}

/* From that one on. */
static KV_NOINLINE void
post_failed(struct kv_rdmaqp *qp, struct kv_rdmawr *const *wrs, unsigned n,
	    const struct ibv_send_wr *bad)
{
	unsigned i;

	for (i = 0; i < n && &wrs[i]->wr != bad; i++)
		;
	qp->head += i;
	end(qp, -EIO);
	for (; i < n; i++)
		wrs[i]->done(wrs[i], -EIO);
}

void
kv_rdmaqp_post(struct kv_rdmaqp *qp, struct kv_rdmawr *const *wrs, unsigned n)
{
	struct ibv_send_wr *bad = NULL;

	assert(n > 0);
	if (n > kv_rdmaqp_room(qp)) {
		post_refused(wrs, n);
		return;
	}
	chain(qp, wrs, n);
	if (ibv_post_send(qp->qp, &wrs[0]->wr, &bad) == 0) {
		qp->head += n;
		kv_rdmacq_wake(qp->cq);
		return;
	}
	post_failed(qp, wrs, n, bad);
}

/* ---- making ---- */

void
kv_rdmaqp_ready(struct kv_rdmaqp *qp)
{
	if (qp->state == KV_RDMAQP_MAKING)
		qp->state = KV_RDMAQP_READY;
}

/* Of the NIC's work, and the last one of end(). */
static int
qp_make(struct kv_rdmaqp *qp)
{
	struct kv_rdmacq *c = qp->cq;
	struct ibv_qp_init_attr attr = {
		.send_cq = c->cq,
		.recv_cq = c->cq,
		.srq = c->srq,
		.cap = { .max_send_wr = qp->depth + 1,
			 .max_send_sge = KV_RDMAPLAN_NEAR_MAX },
		.qp_type = IBV_QPT_RC,
	};
	int rc;

	if (c->promised + qp->depth + 1 > c->cqe)
		return -ENOSPC;
	qp->posted = calloc(qp->depth, sizeof(*qp->posted));
	if (!qp->posted)
		return -ENOMEM;
	qp->qp = c->port->v->create_qp(c->port->pd, &attr);
	if (!qp->qp)
		return -errno;
	rc = kv_rdmacq_add(c, qp, qp->qp->qp_num);
	if (rc < 0) {
		c->port->v->destroy_qp(kv_steal_ptr(&qp->qp));
		return rc;
	}
	c->promised += qp->depth + 1;
	qp->is_soft = c->port->is_soft;
	qp->life = (uint64_t)++c->lives << LIFE_SHIFT;
	return 0;
}

struct kv_rdmaqp *
kv_rdmaqp_new(struct kv_rdmacq *cq, const struct kv_rdmaqp_opts *opts)
{
	struct kv_rdmaqp *qp = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*qp));
	int rc;

	if (!qp) {
		errno = ENOMEM;
		return NULL;
	}
	qp->cq = cq;
	qp->ops = opts->ops;
	qp->arg = opts->arg;
	qp->depth = opts->depth;
	qp->over.fn = is_over;
	rc = qp_make(qp);
	if (rc == 0)
		return qp;
	free(qp->posted);
	free(qp);
	errno = -rc;
	return NULL;
}

void
kv_rdmaqp_free(struct kv_rdmaqp *qp)
{
	if (!qp)
		return;
	/* What it has of the queue is taken out, or it could be taken for
	 * another one's that has its number. */
	end(qp, -ECANCELED);
	if (qp->qp)
		cut_short(qp, -ECANCELED);
	kv_loop_defer_del(&qp->over);
	qp->cq->promised -= qp->depth + 1;
	free(qp->posted);
	free(qp);
}

/* Completion queues and the channels that tell of them. */

#include "hca_internal.h"

#include <stdlib.h>

struct event {
	struct kv_list link;
	struct hca_cq *cq;
};

static struct ibv_comp_channel *
create_comp_channel(struct ibv_context *ibctx)
{
	struct hca_ctx *ctx = (struct hca_ctx *)ibctx;
	struct hca_channel *ch;

	if (ctx->dev->removed) {
		errno = EIO;
		return NULL;
	}
	ch = hca_alloc(sizeof(*ch));
	ch->ch.context = ibctx;
	ch->ch.fd = hca_fd_new();
	kv_list_init(&ch->events);
	kv_list_add_tail(&ctx->channels, &ch->link);
	ctx->n_objects++;
	return &ch->ch;
}

static int
destroy_comp_channel(struct ibv_comp_channel *ibch)
{
	struct hca_channel *ch = (struct hca_channel *)ibch;
	struct hca_ctx *ctx = (struct hca_ctx *)ibch->context;

	if (ch->n_cqs)
		return EBUSY;
	hca_fd_free(ctx->proc, ibch->fd);
	kv_list_del(&ch->link);
	ctx->n_objects--;
	free(ch);
	return 0;
}

static struct ibv_cq *
create_cq(struct ibv_context *ibctx, int cqe, void *arg,
	  struct ibv_comp_channel *ch, int vector)
{
	struct hca_ctx *ctx = (struct hca_ctx *)ibctx;
	struct hca_cq *cq;

	errno = 0;
	if (ctx->dev->removed)
		errno = EIO;
	else if (cqe < 1 || cqe > HCA_CQE_MAX || vector < 0 ||
		 vector >= ibctx->num_comp_vectors ||
		 (ch && ch->context != ibctx))
		errno = EINVAL;
	if (errno)
		return NULL;
	cq = hca_alloc(sizeof(*cq));
	cq->cqes = hca_alloc((size_t)cqe * sizeof(*cq->cqes));
	cq->cq.context = ibctx;
	cq->cq.channel = ch;
	cq->cq.cq_context = arg;
	cq->cq.cqe = cqe;
	cq->ctx = ctx;
	if (ch)
		((struct hca_channel *)ch)->n_cqs++;
	ctx->n_objects++;
	return &cq->cq;
}

static void
channel_show(struct hca_channel *ch)
{
	struct hca_ctx *ctx = (struct hca_ctx *)ch->ch.context;

	hca_fd_ready(ctx->proc, ch->ch.fd, !kv_list_is_empty(&ch->events));
}

static void
events_drop(struct hca_cq *cq)
{
	struct hca_channel *ch = (struct hca_channel *)cq->cq.channel;
	struct event *e, *tmp;

	KV_LIST_FOREACH_SAFE(e, tmp, &ch->events, link) {
		if (e->cq != cq)
			continue;
		kv_list_del(&e->link);
		free(e);
	}
	channel_show(ch);
	ch->n_cqs--;
}

static int
destroy_cq(struct ibv_cq *ibcq)
{
	struct hca_cq *cq = (struct hca_cq *)ibcq;

	if (cq->n_qps)
		return EBUSY;
	hca_async_drop(cq->ctx, cq);
	if (ibcq->channel)
		events_drop(cq);
	assert(cq->unacked == 0 && cq->async_unacked == 0); /* it hangs */
	cq->ctx->n_objects--;
	free(cq->cqes);
	free(cq);
	return 0;
}

static int
get_cq_event(struct ibv_comp_channel *ibch, struct ibv_cq **cq, void **arg)
{
	struct hca_channel *ch = (struct hca_channel *)ibch;
	struct event *e = KV_LIST_FIRST(&ch->events, struct event, link);

	if (!e)
		return hca_again(ibch->fd);
	e->cq->unacked++;
	*cq = &e->cq->cq;
	*arg = e->cq->cq.cq_context;
	kv_list_del(&e->link);
	free(e);
	channel_show(ch);
	return 0;
}

static void
ack_cq_events(struct ibv_cq *ibcq, unsigned n)
{
	struct hca_cq *cq = (struct hca_cq *)ibcq;

	assert(n <= cq->unacked);
	cq->unacked -= n;
}

int
hca_cq_notify(struct ibv_cq *ibcq, int solicited_only)
{
	struct hca_cq *cq = (struct hca_cq *)ibcq;

	/* Asked for all once, it is not taken back by less. */
	cq->solicited_only =
		solicited_only && (!cq->armed || cq->solicited_only);
	cq->armed = true;
	return 0;
}

static void
tell(struct hca_cq *cq, bool solicited)
{
	struct event *e;

	if (!cq->armed || !cq->cq.channel || (cq->solicited_only && !solicited))
		return;
	cq->armed = false;
	e = hca_alloc(sizeof(*e));
	e->cq = cq;
	kv_list_add_tail(&((struct hca_channel *)cq->cq.channel)->events,
			 &e->link);
	channel_show((struct hca_channel *)cq->cq.channel);
}

/* ---- completions ---- */

/* The queue is lost, and all that complete into it. */
static void
overrun(struct hca_cq *cq)
{
	struct ibv_async_event event = {
		.event_type = IBV_EVENT_CQ_ERR,
		.element.cq = &cq->cq,
	};
	struct hca_qp *qp;

	cq->overrun = true;
	hca_async(cq->ctx, &event);
	KV_LIST_FOREACH(qp, &cq->ctx->dev->qps, link) {
		if (qp->qp.send_cq != &cq->cq && qp->qp.recv_cq != &cq->cq)
			continue;
		hca_qp_event(qp, IBV_EVENT_QP_FATAL);
		hca_qp_end(qp);
	}
}

void
hca_cq_lose(struct ibv_cq *cq)
{
	overrun((struct hca_cq *)cq);
}

void
hca_cq_push(struct hca_cq *cq, const struct hca_cqe *e, bool solicited)
{
	unsigned cap = (unsigned)cq->cq.cqe;

	if (cq->overrun || !cq->ctx->proc->loop)
		return;
	if (cq->count == cap) {
		overrun(cq);
		return;
	}
	cq->cqes[(cq->head + cq->count++) % cap] = *e;
	tell(cq, solicited || e->wc.status != IBV_WC_SUCCESS);
}

/* What the completion stood for may be posted anew. */
static void
release(const struct hca_cqe *e)
{
	if (e->taken)
		e->taken->freed++;
	else
		e->qp->freed = e->sent;
}

int
hca_cq_poll(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct hca_cq *cq = (struct hca_cq *)ibcq;
	unsigned cap = (unsigned)ibcq->cqe;
	int got = 0;

	while (got < n && cq->count) {
		const struct hca_cqe *e = &cq->cqes[cq->head];

		wc[got++] = e->wc;
		release(e);
		cq->head = (cq->head + 1) % cap;
		cq->count--;
	}
	return got;
}

void
hca_cq_forget(struct hca_cq *cq, const struct hca_qp *qp)
{
	unsigned cap = (unsigned)cq->cq.cqe, kept = 0;

	for (unsigned i = 0; i < cq->count; i++) {
		const struct hca_cqe *e = &cq->cqes[(cq->head + i) % cap];

		if (e->qp == qp)
			release(e);
		else
			cq->cqes[(cq->head + kept++) % cap] = *e;
	}
	cq->count = kept;
}

void
hca_cq_calls(struct kv_rdmaverbs *v)
{
	v->create_comp_channel = create_comp_channel;
	v->destroy_comp_channel = destroy_comp_channel;
	v->create_cq = create_cq;
	v->destroy_cq = destroy_cq;
	v->get_cq_event = get_cq_event;
	v->ack_cq_events = ack_cq_events;
}

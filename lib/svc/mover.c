#include "svc/mover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "event/worker.h"
#include "net/stream.h"
#include "svc/moverwork.h"

struct kv_mover {
	struct kv_mover_opts opts;
	struct kv_mbox mbox; /* home */
	struct kv_list dataconns;
	unsigned n;    /* workers, at least one */
	bool has_rdma; /* or may have, soon */
	struct kv_moverwork work[];
};

static int
work_init(struct kv_moverwork *w, struct kv_mover *m, unsigned i)
{
	char name[24];
	int rc;

	w->home = &m->mbox;
	w->pool = m->opts.pool;
	w->rdma = m->opts.rdma;
	w->region = m->opts.region;
	kv_list_init(&w->links);
	kv_htab_init(&w->grants);
	if (m->opts.workers == 0) {
		w->loop = m->opts.loop;
		w->mbox = &w->own;
		rc = kv_mbox_init(&w->own, w->loop);
		return rc;
	}
	snprintf(name, sizeof(name), "mover-%u", i);
	w->thread = kv_worker_start(name, KV_WORKER_NO_CPU, NULL, NULL);
	if (!w->thread)
		return -errno;
	w->mbox = kv_worker_mbox(w->thread);
	w->loop = kv_worker_loop(w->thread);
	return 0;
}

static void
work_post(struct kv_moverwork *w, struct kv_mail *mail,
	  void (*fn)(struct kv_mail *mail))
{
	mail->fn = fn;
	kv_mbox_post(w->mbox, mail);
}

/* Its connections are closed. */
static void
work_fini(struct kv_moverwork *w)
{
	if (w->begin.fn)
		work_post(w, &w->end, kv_moverwork_end);
	if (w->thread) {
		kv_worker_stop(w->thread);
		kv_worker_join(w->thread);
	} else if (w->mbox) {
		kv_mbox_fini(&w->own);
	}
	kv_htab_fini(&w->grants);
}

struct kv_mover *
kv_mover_new(const struct kv_mover_opts *opts)
{
	unsigned n = opts->workers ? opts->workers : 1;
	struct kv_mover *m;
	unsigned i;
	int rc;

	m = KV_FAULT_POINT() ? NULL
			     : calloc(1, sizeof(*m) + n * sizeof(m->work[0]));
	if (!m) {
		errno = ENOMEM;
		return NULL;
	}
	m->opts = *opts;
	m->has_rdma = opts->rdma != NULL;
	kv_list_init(&m->dataconns);
	rc = kv_mbox_init(&m->mbox, opts->loop);
	if (rc < 0)
		goto free_mover;
	for (; m->n < n; m->n++) {
		rc = work_init(&m->work[m->n], m, m->n);
		if (rc < 0)
			goto fini_work;
	}
	for (i = 0; i < n && m->has_rdma; i++)
		work_post(&m->work[i], &m->work[i].begin, kv_moverwork_begin);
	return m;

fini_work:
	while (m->n-- > 0)
		work_fini(&m->work[m->n]);
	kv_mbox_fini(&m->mbox);
free_mover:
	free(m);
	errno = -rc;
	return NULL;
}

void
kv_mover_free(struct kv_mover *m)
{
	struct kv_dataconn *dc;
	unsigned i;

	if (!m)
		return;
	KV_LIST_FOREACH(dc, &m->dataconns, list)
		kv_mover_close(dc);
	for (i = 0; i < m->n; i++)
		work_fini(&m->work[i]);
	kv_mbox_fini(&m->mbox);
	assert(kv_list_is_empty(&m->dataconns));
	free(m);
}

void
kv_mover_registered(struct kv_mover *m, bool is_complete)
{
	unsigned i;

	assert(m->opts.rdma);
	m->has_rdma = is_complete;
	for (i = 0; i < m->n && is_complete; i++)
		work_post(&m->work[i], &m->work[i].registered,
			  kv_moverwork_registered);
}

static struct kv_moverwork *
work_choose(struct kv_mover *m)
{
	struct kv_moverwork *best = &m->work[0];
	unsigned i;

	for (i = 1; i < m->n; i++)
		if (m->work[i].dataconns < best->dataconns)
			best = &m->work[i];
	return best;
}

struct kv_dataconn *
kv_mover_adopt(struct kv_mover *m, struct kv_stream *s,
	       const struct kv_mover_hello *hello, void *owner)
{
	struct kv_moverwork *w = work_choose(m);
	struct kv_dataconn *dc;

	dc = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*dc));
	if (!dc) {
		s->ops->close(s);
		errno = ENOMEM;
		return NULL;
	}
	if (w->loop != m->opts.loop)
		s->ops->move(s, w->loop);
	dc->mover = m;
	dc->work = w;
	dc->boot = *hello->boot;
	dc->hello = hello->id;
	dc->token = hello->token;
	dc->asks_rdma = hello->asks_rdma && m->has_rdma;
	dc->owner = owner;
	dc->stream = s;
	kv_list_init(&dc->expected);
	kv_list_init(&dc->pushes);
	kv_list_init(&dc->sending);
	kv_list_init(&dc->linked);
	kv_list_add_tail(&m->dataconns, &dc->list);
	w->dataconns++;
	dc->adopt.fn = kv_moverwork_adopt;
	kv_mbox_post(w->mbox, &dc->adopt);
	return dc;
}

uint64_t
kv_mover_token(const struct kv_dataconn *dc)
{
	return dc->token;
}

void
kv_mover_close(struct kv_dataconn *dc)
{
	if (dc->is_closing || dc->is_gone)
		return;
	dc->is_closing = true;
	dc->is_close_out = true;
	dc->close.fn = kv_moverwork_close;
	kv_mbox_post(dc->work->mbox, &dc->close);
}

/* The worker has nothing of it any more, and no mail is on its way. */
static void
dataconn_check(struct kv_dataconn *dc)
{
	if (!dc->is_gone || dc->is_close_out || dc->moves)
		return;
	dc->mover->opts.closed(dc->owner, dc);
	kv_list_del(&dc->list);
	dc->work->dataconns--;
	free(dc);
}

void
kv_mover_dataconn_gone(struct kv_mail *mail)
{
	struct kv_dataconn *dc =
		KV_CONTAINER_OF(mail, struct kv_dataconn, gone);

	dc->is_gone = true;
	dataconn_check(dc);
}

void
kv_mover_dataconn_closed(struct kv_mail *mail)
{
	struct kv_dataconn *dc =
		KV_CONTAINER_OF(mail, struct kv_dataconn, close);

	dc->is_close_out = false;
	dataconn_check(dc);
}

bool
kv_mover_has_rdma(const struct kv_dataconn *dc)
{
	return dc->asks_rdma &&
	       kv_rdmaregion_is_complete(dc->mover->opts.region);
}

static int
move_post(struct kv_dataconn *dc, struct kv_move *m, enum kv_move_kind kind)
{
	if (dc->is_closing || dc->is_gone)
		return -ECONNRESET;
	assert(m->bytes > 0);
	m->status = 0;
	m->kind = (uint8_t)kind;
	m->is_out = true;
	m->is_cancelling = false;
	m->is_parked = false;
	m->is_sending = false;
	m->dc = dc;
	m->moved = 0;
	kv_list_init(&m->list);
	dc->moves++;
	m->mail.fn = kv_moverwork_take;
	kv_mbox_post(dc->work->mbox, &m->mail);
	return 0;
}

int
kv_mover_expect(struct kv_dataconn *dc, struct kv_move *m)
{
	return move_post(dc, m, KV_MOVE_EXPECT);
}

int
kv_mover_push(struct kv_dataconn *dc, struct kv_move *m)
{
	return move_post(dc, m, KV_MOVE_PUSH);
}

int
kv_mover_transfer(struct kv_dataconn *dc, struct kv_transfermove *t)
{
	assert(dc->asks_rdma);
	t->move.bytes = t->xfer.bytes;
	return move_post(dc, &t->move, KV_MOVE_TRANSFER);
}

void
kv_mover_cancel(struct kv_move *m)
{
	if (!m->is_out || m->is_cancelling)
		return;
	m->is_cancelling = true;
	m->cancel.fn = kv_moverwork_cancel;
	kv_mbox_post(m->dc->work->mbox, &m->cancel);
}

static void
move_check(struct kv_move *m)
{
	struct kv_dataconn *dc = m->dc;

	if (m->is_out || m->is_cancelling)
		return;
	m->done(m);
	dc->moves--;
	dataconn_check(dc);
}

void
kv_mover_move_back(struct kv_mail *mail)
{
	struct kv_move *m = KV_CONTAINER_OF(mail, struct kv_move, mail);

	m->is_out = false;
	move_check(m);
}

void
kv_mover_cancel_back(struct kv_mail *mail)
{
	struct kv_move *m = KV_CONTAINER_OF(mail, struct kv_move, cancel);

	m->is_cancelling = false;
	move_check(m);
}

void
kv_mover_stats(const struct kv_mover *m, struct kv_stats_set *sum)
{
	unsigned i;

	for (i = 0; i < m->n; i++)
		kv_stats_sum(sum, &m->work[i].stats);
}

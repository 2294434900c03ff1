/* Transfers of the other side. See rdmalinkcore.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "xfer/rdmalinkcore.h"

static struct kv_list *
line_of(struct kv_rdmalink *l, uint32_t number)
{
	return &l->ends[number % KV_RDMALINK_LINES];
}

static struct kv_rdmaend *
find(struct kv_rdmalink *l, uint32_t number)
{
	struct kv_rdmaend *e;

	KV_LIST_FOREACH(e, line_of(l, number), link)
		if (e->number == number)
			return e;
	return NULL;
}

static void
is_over(struct kv_defer *d)
{
	struct kv_rdmaend *e = KV_CONTAINER_OF(d, struct kv_rdmaend, over);

	kv_list_del(&e->link);
	e->to = NULL;
	e->done(e, e->status);
}

/* Nothing of that number counts any more. */
static void
end_over(struct kv_rdmalink *l, struct kv_rdmaend *e, int status)
{
	kv_list_del(&e->link);
	kv_list_add_tail(&l->ends_over, &e->link);
	e->status = status;
	kv_loop_defer(l->loop, &e->over);
}

void
kv_rdmaend_await(struct kv_rdmalink *l, struct kv_rdmaend *e)
{
	do
		e->number = l->next_number++ % KV_RDMALINK_NUMBERS;
	while (find(l, e->number));
	e->to = l;
	e->round = e->ends = e->total = 0;
	e->is_given_up = false;
	e->status = 0;
	e->over = (struct kv_defer){ .fn = is_over };
	kv_list_add_tail(line_of(l, e->number), &e->link);
}

void
kv_rdmaend_forget(struct kv_rdmaend *e)
{
	if (!e->to)
		return;
	kv_loop_defer_del(&e->over);
	kv_list_del(&e->link);
	e->to = NULL;
}

static void
protocol_broken(struct kv_rdmalink *l)
{
	uint64_t bits = l->up;

	kv_warn("rdma: ends of a transfer that do not add up: its queue pairs "
		"are given up");
	while (bits)
		kv_rdmarail_die(l->slots[kv_rdmalink_pop(&bits)], -EPROTO);
}

void
kv_rdmaend_imm(struct kv_rdmalink *l, uint32_t imm)
{
	struct kv_rdmaend *e = find(l, imm % KV_RDMALINK_NUMBERS);
	unsigned round =
		imm >> KV_RAIL_NUMBER_BITS & ((1u << KV_RAIL_ROUND_BITS) - 1);
	unsigned total = imm >> (KV_RAIL_NUMBER_BITS + KV_RAIL_ROUND_BITS);

	if (!e || e->is_given_up || round != e->round)
		return;
	if (total == 0 || (e->ends > 0 && total != e->total)) {
		protocol_broken(l);
		return;
	}
	e->total = (uint8_t)total;
	if (++e->ends == total)
		end_over(l, e, 0);
}

/* ---- QPFENCE ---- */

/* Those that are to be fenced; how many of them are not dead yet. */
static unsigned
qps_fence(struct kv_rdmalink *l, const struct kv_le32 *qps, uint32_t n)
{
	struct kv_rdmaslot *s;
	unsigned owed = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		s = kv_rdmarail_find(l, kv_get32(qps[i]));
		/* Without a queue pair nothing is touched for it. */
		if (!s || !s->qp || s->is_owed)
			continue;
		s->is_owed = true;
		owed++;
		kv_rdmarail_die(s, -ECANCELED);
	}
	return owed;
}

static void
xfers_begin_again(struct kv_rdmalink *l, const struct kv_qpfence_xfer *xfers,
		  uint32_t n)
{
	struct kv_rdmaend *e;
	uint32_t i;

	for (i = 0; i < n; i++) {
		e = find(l, kv_get32(xfers[i].number));
		if (!e)
			continue;
		e->round = xfers[i].round;
		e->ends = e->total = 0;
		e->is_given_up |= xfers[i].status != 0;
	}
}

static bool
xfers_are_good(const struct kv_qpfence_xfer *xfers, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (kv_get32(xfers[i].number) >= KV_RDMALINK_NUMBERS ||
		    xfers[i].round >= KV_RDMALINK_ROUNDS || xfers[i].zero[0] ||
		    xfers[i].zero[1])
			return false;
	return true;
}

/* Those that have not ended; the others need no answer. */
static uint32_t
xfers_settle(struct kv_rdmalink *l, const struct kv_qpfence_xfer *xfers,
	     uint32_t n, struct kv_le32 *out)
{
	struct kv_rdmaend *e;
	uint32_t i, n_open = 0;

	for (i = 0; i < n; i++) {
		e = find(l, kv_get32(xfers[i].number));
		if (!e)
			continue;
		if (e->is_given_up)
			end_over(l, e, -EIO);
		else
			out[n_open++] = xfers[i].number;
	}
	return n_open;
}

/* Nothing is touched for those queue pairs any more. */
static void
answer(struct kv_rdmalink *l)
{
	size_t qps_bytes = l->n_fence_qps * sizeof(struct kv_le32);
	kv_auto_free uint8_t *tail = kv_steal_ptr(&l->fence);
	const struct kv_qpfence_xfer *xfers = (void *)(tail + qps_bytes);
	struct kv_qpfence_r *body;
	uint32_t n;
	void *out;

	/* In the place of the records, which are longer. */
	n = xfers_settle(l, xfers, l->n_fence_xfers,
			 (void *)(tail + qps_bytes));
	body = kv_conn_begin_tail(l->c, KV_MSG_QPFENCE_R, l->fence_id, 0,
				  qps_bytes + n * sizeof(struct kv_le32), &out);
	if (!body)
		return;
	*body = (struct kv_qpfence_r){ kv_le32(l->n_fence_qps), kv_le32(n) };
	memcpy(out, tail, qps_bytes + n * sizeof(struct kv_le32));
	kv_conn_end(l->c);
}

void
kv_rdmaend_dead(struct kv_rdmalink *l)
{
	if (--l->owed == 0 && !l->is_closing)
		answer(l);
}

bool
kv_rdmaend_fence(struct kv_rdmalink *l, const struct kv_msg *msg)
{
	const struct kv_qpfence *body = msg->body;
	const struct kv_qpfence_xfer *xfers;
	const struct kv_le32 *qps;
	struct kv_cut cut;

	l->n_fence_qps = kv_get32(body->qps);
	l->n_fence_xfers = kv_get32(body->xfers);
	kv_cut_init(&cut, msg);
	qps = kv_cut_array(&cut, l->n_fence_qps, sizeof(*qps));
	xfers = kv_cut_array(&cut, l->n_fence_xfers, sizeof(*xfers));
	if (!kv_cut_done(&cut) || l->fence ||
	    l->n_fence_qps > KV_RDMALINK_SLOTS ||
	    !xfers_are_good(xfers, l->n_fence_xfers))
		return false;
	l->fence = KV_FAULT_POINT() ? NULL : malloc(msg->tail_len + 1);
	if (!l->fence)
		return false;
	memcpy(l->fence, msg->tail, msg->tail_len);
	l->fence_id = msg->id;
	xfers_begin_again(l, xfers, l->n_fence_xfers);
	/* One more, until all are known. */
	l->owed = 1 + qps_fence(l, qps, l->n_fence_qps);
	kv_rdmaend_dead(l);
	return true;
}

/* ---- life ---- */

void
kv_rdmaend_init(struct kv_rdmalink *l)
{
	unsigned i;

	for (i = 0; i < KV_RDMALINK_LINES; i++)
		kv_list_init(&l->ends[i]);
	kv_list_init(&l->ends_over);
}

static void
over_all(struct kv_list *list, bool is_known)
{
	struct kv_rdmaend *e;

	while ((e = KV_LIST_FIRST(list, struct kv_rdmaend, link))) {
		kv_loop_defer_del(&e->over);
		if (!is_known)
			e->status = -ECANCELED;
		is_over(&e->over);
	}
}

void
kv_rdmaend_fini(struct kv_rdmalink *l)
{
	unsigned i;

	for (i = 0; i < KV_RDMALINK_LINES; i++)
		over_all(&l->ends[i], false);
	over_all(&l->ends_over, true);
	free(kv_steal_ptr(&l->fence));
}

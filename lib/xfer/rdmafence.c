/*
 * What the other side is to fence for transfers of this one, and has: one
 * QPFENCE at a time, and what fails meanwhile is in the next one. See
 * rdmalinkcore.h.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/num.h"
#include "base/status.h"
#include "xfer/rdmalinkcore.h"

enum {
	XFERS_MAX = 4096, /* of one message */
};

static bool
has_writes(const struct kv_list *list, uint64_t bit)
{
	struct kv_rdmaxfer *x;

	KV_LIST_FOREACH(x, list, link)
		if (x->kind != KV_RDMAXFER_READ && x->qps & bit)
			return true;
	return false;
}

void
kv_rdmafence_collect(struct kv_rdmaslot *s)
{
	uint64_t bit = kv_rdmaslot_bit(s);

	if (has_writes(&s->l->queue, bit) || has_writes(&s->l->flying, bit))
		s->l->collected |= bit;
}

/* ---- asking ---- */

static bool
is_to_ask(const struct kv_rdmalink *l, const struct kv_rdmaxfer *x)
{
	if (x->kind != KV_RDMAXFER_WRITE || x->is_asked ||
	    x->state != KV_RDMAXFER_MOVING)
		return false;
	if (x->status < 0)
		return x->is_fenced && !x->is_told;
	return x->has_ended && x->qps & l->collected;
}

/* Chooses them; how many. */
static unsigned
ask_in(struct kv_rdmalink *l, struct kv_list *list, unsigned n)
{
	struct kv_rdmaxfer *x;

	KV_LIST_FOREACH(x, list, link) {
		if (n == XFERS_MAX || !is_to_ask(l, x))
			continue;
		if (x->status == 0 && x->round + 1 == KV_RDMALINK_ROUNDS) {
			kv_rdmamove_abort(x, -EIO);
			continue;
		}
		x->is_asked = true;
		n++;
	}
	return n;
}

static void
tell_in(struct kv_list *list, struct kv_qpfence_xfer **to)
{
	struct kv_rdmaxfer *x;

	KV_LIST_FOREACH(x, list, link) {
		if (!x->is_asked)
			continue;
		x->has_ended = false;
		x->to_end = 0;
		x->is_telling = x->status < 0;
		if (!x->is_telling)
			x->round++;
		*(*to)++ = (struct kv_qpfence_xfer){
			.number = kv_le32(x->number),
			.round = x->round,
			.status = (uint8_t)(x->status ? kv_status_from_errno(
								x->status)
						      : 0),
		};
	}
}

static void
unask_in(struct kv_list *list)
{
	struct kv_rdmaxfer *x;

	KV_LIST_FOREACH(x, list, link)
		x->is_asked = false;
}

bool
kv_rdmafence_send(struct kv_rdmalink *l)
{
	uint64_t bits = l->collected;
	unsigned n_qps, n;
	struct kv_qpfence_xfer *xfers;
	struct kv_qpfence *body;
	struct kv_le32 *qps;
	void *tail;

	if (l->is_fencing || !kv_conn_is_open(l->c))
		return true;
	if (kv_conn_is_full(l->c))
		return false;
	n_qps = (unsigned)__builtin_popcountll(bits);
	n = ask_in(l, &l->flying, ask_in(l, &l->queue, 0));
	l->has_to_tell = n == XFERS_MAX;
	if (n == 0 && n_qps == 0)
		return true;
	body = kv_conn_begin_tail(l->c, KV_MSG_QPFENCE, ++l->fences, 0,
				  n_qps * sizeof(*qps) + n * sizeof(*xfers),
				  &tail);
	if (!body) {
		unask_in(&l->queue);
		unask_in(&l->flying);
		return true;
	}
	*body = (struct kv_qpfence){ kv_le32(n_qps), kv_le32(n) };
	for (qps = tail; bits; qps++)
		*qps = kv_le32(l->slots[kv_rdmalink_pop(&bits)]->id);
	xfers = (void *)qps;
	tell_in(&l->queue, &xfers);
	tell_in(&l->flying, &xfers);
	kv_conn_end(l->c);
	l->is_fencing = true;
	l->sent = l->collected;
	l->collected = 0;
	return true;
}

/* ---- the answer ---- */

static unsigned
count_asked(const struct kv_list *list)
{
	struct kv_rdmaxfer *x;
	unsigned n = 0;

	KV_LIST_FOREACH(x, list, link)
		n += x->is_asked;
	return n;
}

static bool
is_among(const struct kv_le32 *numbers, uint32_t n, uint32_t number)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (kv_get32(numbers[i]) == number)
			return true;
	return false;
}

static void
answered_in(struct kv_list *list, const struct kv_le32 *open, uint32_t n)
{
	struct kv_rdmaxfer *x;

	KV_LIST_FOREACH(x, list, link) {
		if (!x->is_asked)
			continue;
		x->is_asked = false;
		/* It may have been given up meanwhile, and is to be told. */
		if (x->is_telling)
			x->is_told = true;
		else if (!is_among(open, n, x->number))
			kv_rdmamove_there(x);
	}
}

/* The names as they were sent. */
static bool
qps_are_same(const struct kv_rdmalink *l, const struct kv_le32 *qps, uint32_t n)
{
	uint64_t bits = l->sent;

	if (n != (unsigned)__builtin_popcountll(bits))
		return false;
	for (; bits; qps++)
		if (kv_get32(*qps) != l->slots[kv_rdmalink_pop(&bits)]->id)
			return false;
	return true;
}

bool
kv_rdmafence_answer(struct kv_rdmalink *l, const struct kv_msg *msg)
{
	const struct kv_qpfence_r *body = msg->body;
	uint32_t n_qps = kv_get32(body->qps), n = kv_get32(body->xfers);
	const struct kv_le32 *qps, *xfers;
	uint64_t bits = l->sent;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	qps = kv_cut_array(&cut, n_qps, sizeof(*qps));
	xfers = kv_cut_array(&cut, n, sizeof(*xfers));
	if (!kv_cut_done(&cut) || !l->is_fencing || msg->id != l->fences ||
	    !qps_are_same(l, qps, n_qps) ||
	    n > count_asked(&l->queue) + count_asked(&l->flying))
		return false;
	answered_in(&l->queue, xfers, n);
	answered_in(&l->flying, xfers, n);
	l->is_fencing = false;
	l->sent = 0;
	while (bits)
		kv_rdmarail_settle(l->slots[kv_rdmalink_pop(&bits)]);
	l->has_failed = l->is_changed = true;
	kv_rdmamove_wake(l);
	return true;
}

/*
 * Queue pairs are bounded: what was not used for longest gives its own to
 * others, and is dialled again when it is wanted. See rdmalinkcore.h.
 */
#include <errno.h>

#include "base/attr.h"
#include "base/log.h"
#include "xfer/rdmalinkcore.h"

#define UNUSED_NS (1 * KV_NS_PER_S)

/* ---- which one ---- */

void
kv_rdmarest_use(struct kv_rdmalink *l)
{
	l->used_ns = kv_loop_now(l->loop);
	kv_list_del(&l->lru);
	kv_list_add_tail(&l->rl->lru, &l->lru);
}

static bool
has_just_said(const struct kv_rdmalink *l)
{
	return l->said_ns && kv_loop_now(l->loop) < l->said_ns + UNUSED_NS;
}

static bool
awaits(const struct kv_rdmalink *l)
{
	unsigned i;

	for (i = 0; i < KV_RDMALINK_LINES; i++)
		if (!kv_list_is_empty(&l->ends[i]))
			return true;
	return !kv_list_is_empty(&l->ends_over);
}

static bool
has_loose_ends(const struct kv_rdmalink *l)
{
	const struct kv_rdmaslot *s;
	unsigned i;

	for (i = 0; i < KV_RDMALINK_SLOTS; i++) {
		s = l->slots[i];
		if (s && (s->state >= KV_RDMASLOT_DYING || s->busy))
			return true;
	}
	return l->is_fencing || l->fence || l->collected || l->waiting;
}

static bool
was_used(const struct kv_rdmalink *l)
{
	return kv_loop_now(l->loop) < l->used_ns + UNUSED_NS;
}

/* Somebody has work for it, or had a moment ago. */
static bool
is_used(const struct kv_rdmalink *l)
{
	return was_used(l) || !kv_list_is_empty(&l->queue) ||
	       !kv_list_is_empty(&l->flying) || !kv_list_is_empty(&l->over) ||
	       awaits(l) || has_loose_ends(l) ||
	       (l->o.ops && l->o.ops->is_used && l->o.ops->is_used(l));
}

static bool
has_qp_of(const struct kv_rdmalink *l, const struct kv_rdmacq *cq)
{
	unsigned i;

	for (i = 0; i < KV_RDMALINK_SLOTS; i++)
		if (l->slots[i] && l->slots[i]->qp && l->slots[i]->qp->cq == cq)
			return true;
	return false;
}

/* NULL: there is none, or room is to come: somebody was asked to leave. */
static struct kv_rdmalink *
find(const struct kv_rdmalink *for_whom, const struct kv_rdmacq *cq)
{
	struct kv_rdmalink *l;

	KV_LIST_FOREACH(l, &for_whom->rl->lru, lru) {
		if (was_used(l))
			return NULL;
		if (l == for_whom || !has_qp_of(l, cq))
			continue;
		if (l->is_resting && has_just_said(l))
			return NULL;
		if (!l->is_resting && !is_used(l))
			return l;
	}
	return NULL;
}

/* ---- to rest, and back ---- */

/* RAILS without ports: who listens does not now; who dials would again. */
static void
say_none(struct kv_rdmalink *l)
{
	l->said_ns = kv_loop_now(l->loop);
	if (kv_conn_begin(l->c, KV_MSG_RAILS, 0, 0))
		kv_conn_end(l->c);
}

static void
qps_drop(struct kv_rdmalink *l)
{
	struct kv_rdmaslot *s;
	unsigned i;

	for (i = 0; i < KV_RDMALINK_SLOTS; i++) {
		s = l->slots[i];
		if (!s)
			continue;
		kv_rdmarail_die(s, -EDQUOT);
		kv_rdmarail_cut(s);
	}
}

bool
kv_rdmarest_room(const struct kv_rdmalink *for_whom, const struct kv_rdmacq *cq)
{
	struct kv_rdmalink *l = find(for_whom, cq);

	if (!l)
		return false;
	kv_debug("rdma: the queue pairs of a peer that is idle go to another");
	l->is_resting = true;
	if (!l->o.dials)
		say_none(l);
	/* What the other side does unseen, it ends by itself. */
	if (l->o.is_unseen)
		return false;
	qps_drop(l);
	return true;
}

bool
kv_rdmarest_wake(struct kv_rdmalink *l)
{
	bool is_begun = l->is_resting;

	if (l->is_closing)
		return false;
	kv_rdmarest_use(l);
	l->is_resting = false;
	if (is_begun && l->o.dials)
		kv_rdmadial_again(l);
	else if (is_begun)
		kv_rdmalink_tell(l);
	if (l->o.dials && l->is_told && !l->up && !has_just_said(l) &&
	    (l->n_recs == 0 || l->is_leaving)) {
		is_begun = true;
		say_none(l);
	}
	return is_begun;
}

bool
kv_rdmarest_wish(struct kv_rdmalink *l, const struct kv_msg *msg)
{
	const struct kv_rails *body = msg->body;

	if (kv_get32(body->count) != 0 || kv_get32(body->zero) != 0 ||
	    msg->tail_len != 0)
		return false;
	if (l->is_resting)
		(void)kv_rdmarest_wake(l);
	return true;
}

/* ---- the other side wants its own back ---- */

static void
on_leave(struct kv_timer *t)
{
	struct kv_rdmalink *l = KV_CONTAINER_OF(t, struct kv_rdmalink, leave);

	if (l->up && is_used(l))
		(void)kv_loop_timer_set(l->loop, t,
					kv_loop_now(l->loop) + UNUSED_NS / 4);
	else
		kv_rdmadial_leave(l);
}

bool
kv_rdmarest_leave(struct kv_rdmalink *l)
{
	if (!l->up || !is_used(l))
		return false;
	l->is_leaving = true;
	return kv_loop_timer_set(l->loop, &l->leave,
				 kv_loop_now(l->loop) + UNUSED_NS / 4) == 0;
}

bool
kv_rdmarest_stay(struct kv_rdmalink *l)
{
	bool was_leaving = l->is_leaving;

	l->is_leaving = false;
	kv_loop_timer_del(&l->leave);
	return was_leaving;
}

/* ---- life ---- */

void
kv_rdmarest_init(struct kv_rdmalink *l)
{
	l->leave.fn = on_leave;
	l->used_ns = kv_loop_now(l->loop);
	kv_list_add_tail(&l->rl->lru, &l->lru);
}

void
kv_rdmarest_fini(struct kv_rdmalink *l)
{
	kv_loop_timer_del(&l->leave);
	kv_list_del(&l->lru);
}

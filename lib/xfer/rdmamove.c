/* Transfers of this side. See rdmalinkcore.h. */
#include <assert.h>
#include <errno.h>

#include "base/attr.h"
#include "xfer/rdmalinkcore.h"

enum {
	RAMP_BYTES = 64 << 10, /* smaller slices say nothing of a rail */
};

#define WATCH_NS   (250 * KV_NS_PER_MS)
#define SILENCE_NS (1 * KV_NS_PER_S)

/* ---- its end ---- */

static void
is_over(struct kv_defer *d)
{
	struct kv_rdmaxfer *x = KV_CONTAINER_OF(d, struct kv_rdmaxfer, over);

	kv_list_del(&x->link);
	x->to = NULL;
	x->done(x, x->status);
}

/* All that it waits for has come. */
static bool
is_finished(const struct kv_rdmalink *l, const struct kv_rdmaxfer *x)
{
	bool is_read = x->kind == KV_RDMAXFER_READ;

	if (x->out > 0 || x->is_asked || (!is_read && x->qps & l->waiting))
		return false;
	if (x->state == KV_RDMAXFER_THERE)
		return true;
	if (x->status < 0)
		return x->kind != KV_RDMAXFER_WRITE || x->is_told;
	return x->plan.left == 0 && kv_list_is_empty(&x->again) &&
	       (is_read || (x->has_ended && x->to_end == 0));
}

static void
finish(struct kv_rdmalink *l, struct kv_rdmaxfer *x)
{
	kv_rdmarest_use(l);
	kv_list_del(&x->link);
	x->state = KV_RDMAXFER_OVER;
	kv_list_add_tail(&l->over, &x->link);
	kv_loop_defer(l->loop, &x->over);
}

static void
list_look(struct kv_rdmalink *l, struct kv_list *list)
{
	struct kv_rdmaxfer *x, *tmp;

	KV_LIST_FOREACH_SAFE(x, tmp, list, link)
		if (is_finished(l, x))
			finish(l, x);
}

/* ---- slices ---- */

void
kv_rdmamove_release(struct kv_rdmaslice *s)
{
	struct kv_rdmaslot *slot = s->slot;

	s->x = NULL;
	slot->idle[--slot->busy] = s;
	if (slot->state == KV_RDMASLOT_DEAD && slot->busy == 0)
		kv_rdmarail_settle(slot);
}

static void
drop_rest(struct kv_rdmalink *l, struct kv_rdmaxfer *x)
{
	struct kv_rdmaslice *s;

	l->left -= x->plan.left;
	x->plan.left = 0;
	x->to_end = 0;
	while ((s = KV_LIST_FIRST(&x->again, struct kv_rdmaslice, link))) {
		l->left -= s->part.far.len;
		kv_list_del(&s->link);
		kv_rdmamove_release(s);
	}
}

void
kv_rdmamove_abort(struct kv_rdmaxfer *x, int status)
{
	struct kv_rdmalink *l = x->to;

	if (x->state != KV_RDMAXFER_MOVING || x->status < 0)
		return;
	x->status = status;
	drop_rest(l, x);
	l->has_aborted = true;
	kv_rdmamove_wake(l);
}

void
kv_rdmamove_there(struct kv_rdmaxfer *x)
{
	if (x->state != KV_RDMAXFER_MOVING || x->status < 0)
		return;
	x->state = KV_RDMAXFER_THERE;
	drop_rest(x->to, x);
}

static KV_NOINLINE void
slice_failed(struct kv_rdmaslice *s, int status)
{
	struct kv_rdmaxfer *x = s->x;
	struct kv_rdmalink *l = x->to;
	bool is_ours = status == -EACCES || status == -EFAULT;

	kv_rdmarail_die(s->slot, status);
	if (is_ours)
		kv_rdmamove_abort(x, status);
	if (!s->slot->is_innocent && ++s->failures >= KV_RDMALINK_TRIES)
		kv_rdmamove_abort(x, -EIO);
	if (s->is_end || x->status < 0 || x->state != KV_RDMAXFER_MOVING) {
		kv_rdmamove_release(s);
		return;
	}
	kv_list_add_tail(&x->again, &s->link);
	l->left += s->part.far.len;
	l->has_failed = true;
}

/* Full slices show what a rail takes. */
static void
ramp(struct kv_rdmalink *l, struct kv_rdmarail *rail, uint64_t bytes)
{
	if (rail->ramp >= 1 || bytes < RAMP_BYTES)
		return;
	rail->ramp = rail->ramp >= 0.5 ? 1 : 2 * rail->ramp;
	kv_rdmarail_share(l, rail);
}

void
kv_rdmamove_done(struct kv_rdmawr *w, int status)
{
	struct kv_rdmaslice *s = KV_CONTAINER_OF(w, struct kv_rdmaslice, w);
	struct kv_rdmaslot *slot = s->slot;
	struct kv_rdmarail *rail = slot->rail;
	struct kv_rdmaxfer *x = s->x;
	struct kv_rdmalink *l = x->to;

	slot->progress_ns = kv_loop_now(l->loop);
	if (rail) {
		slot->under_way -= s->part.far.len;
		kv_rdmashare_done(&l->share, slot->at, slot->progress_ns,
				  s->part.far.len);
		if (status == 0)
			ramp(l, rail, s->part.far.len);
	}
	if (status == 0)
		kv_rdmamove_release(s);
	else
		slice_failed(s, status);
	if (--x->out == 0 && is_finished(l, x))
		finish(l, x);
	kv_rdmamove_wake(l);
}

/* ---- the pump ---- */

static struct kv_rdmaxfer *
aborted_first(const struct kv_list *list)
{
	struct kv_rdmaxfer *x;

	KV_LIST_FOREACH(x, list, link)
		if (x->status < 0 && !x->is_fenced)
			return x;
	return NULL;
}

static bool
has_part(const struct kv_rdmaslot *s, const struct kv_rdmaxfer *x)
{
	unsigned i;

	if (x->kind != KV_RDMAXFER_READ)
		return x->qps & kv_rdmaslot_bit(s);
	for (i = 0; i < KV_RDMALINK_DEPTH && s->busy; i++)
		if (s->slices[i].x == x)
			return true;
	return false;
}

/* What is under way of it is stopped; of a read that failed it may end. */
static void
parts_fence(struct kv_rdmalink *l, struct kv_rdmaxfer *x)
{
	uint64_t bits = l->up;
	struct kv_rdmaslot *s;

	x->is_fenced = true;
	l->is_changed = true;
	l->has_to_tell |= x->kind == KV_RDMAXFER_WRITE;
	if (x->kind == KV_RDMAXFER_READ && x->status != -ECANCELED)
		return;
	while (bits) {
		s = l->slots[kv_rdmalink_pop(&bits)];
		if (!has_part(s, x))
			continue;
		s->is_innocent = true;
		kv_rdmarail_die(s, -ECANCELED);
	}
}

static void
aborted_fence(struct kv_rdmalink *l)
{
	struct kv_rdmaxfer *x;

	l->has_aborted = false;
	while ((x = aborted_first(&l->queue)) ||
	       (x = aborted_first(&l->flying)))
		parts_fence(l, x);
}

static void
watch_arm(struct kv_rdmalink *l, bool is_pending)
{
	unsigned i;

	for (i = 0; i < KV_RDMALINK_SLOTS && !is_pending; i++)
		is_pending = l->slots[i] && l->slots[i]->qp &&
			     (l->slots[i]->busy ||
			      l->slots[i]->state == KV_RDMASLOT_DYING);
	if (is_pending)
		(void)kv_loop_timer_set(l->loop, &l->watch,
					kv_loop_now(l->loop) + WATCH_NS);
}

static void
on_pump(struct kv_defer *d)
{
	struct kv_rdmalink *l = KV_CONTAINER_OF(d, struct kv_rdmalink, pump);
	bool is_pending;

	do {
		if (l->has_aborted)
			aborted_fence(l);
		if (l->has_failed)
			kv_rdmafeed_again(l);
		kv_rdmafeed_queue(l);
		kv_rdmafeed_post(l);
	} while (l->has_aborted);
	if (l->is_changed) {
		l->is_changed = false;
		list_look(l, &l->queue);
		list_look(l, &l->flying);
	}
	is_pending = (l->collected || l->has_to_tell) && !kv_rdmafence_send(l);
	if (!l->watch.loop)
		watch_arm(l, is_pending);
}

void
kv_rdmamove_wake(struct kv_rdmalink *l)
{
	if (!l->pump.loop && !l->is_closing)
		kv_loop_defer(l->loop, &l->pump);
}

/* A NIC that swallows work is not waited for. */
static void
on_watch(struct kv_timer *t)
{
	struct kv_rdmalink *l = KV_CONTAINER_OF(t, struct kv_rdmalink, watch);
	uint64_t now = kv_loop_now(l->loop);
	struct kv_rdmaslot *s;
	unsigned i;

	for (i = 0; i < KV_RDMALINK_SLOTS; i++) {
		s = l->slots[i];
		if (!s || !s->qp || now - s->progress_ns < SILENCE_NS)
			continue;
		if (s->state == KV_RDMASLOT_UP && s->busy)
			kv_rdmarail_die(s, -ETIMEDOUT);
		else if (s->state == KV_RDMASLOT_DYING)
			kv_rdmarail_cut(s);
	}
	kv_rdmamove_wake(l);
}

/* ---- for others ---- */

static void
forget_in(struct kv_list *list, uint64_t bit)
{
	struct kv_rdmaxfer *x;

	KV_LIST_FOREACH(x, list, link) {
		if (!(x->qps & bit))
			continue;
		x->qps &= ~bit;
		/* What goes to others instead is to be proven, too. */
		if (x->kind == KV_RDMAXFER_WRITE_ALONE) {
			x->has_ended = false;
			x->to_end = 0;
		}
	}
}

void
kv_rdmamove_forget(struct kv_rdmaslot *s)
{
	struct kv_rdmalink *l = s->l;

	forget_in(&l->queue, kv_rdmaslot_bit(s));
	forget_in(&l->flying, kv_rdmaslot_bit(s));
	l->has_failed = true;
	l->is_changed = true;
	kv_rdmamove_wake(l);
}

/* Its first transfer: from now on queue pairs have slices. */
static void
begin_to_move(struct kv_rdmalink *l)
{
	uint64_t bits = l->up;
	struct kv_rdmaslot *s;

	l->moves = true;
	while (bits) {
		s = l->slots[kv_rdmalink_pop(&bits)];
		if (!kv_rdmarail_equip(s))
			kv_rdmarail_die(s, -ENOMEM);
	}
}

void
kv_rdmamove_start(struct kv_rdmalink *l, struct kv_rdmaxfer *x)
{
	assert(x->bytes > 0 && x->number < KV_RDMALINK_NUMBERS);
	x->to = l;
	kv_rdmaplan_init(&x->plan, x->near, x->far, x->bytes);
	kv_list_init(&x->again);
	kv_rdmafeed_ports(x);
	x->opcode = x->kind == KV_RDMAXFER_READ ? IBV_WR_RDMA_READ
						: IBV_WR_RDMA_WRITE;
	x->qps = x->to_end = 0;
	x->out = 0;
	x->round = x->ends = 0;
	x->state = KV_RDMAXFER_MOVING;
	x->is_asked = x->is_told = x->is_fenced = x->has_ended = false;
	x->status = 0;
	x->over = (struct kv_defer){ .fn = is_over };
	kv_list_add_tail(&l->queue, &x->link);
	if (l->is_closing) {
		x->plan.left = 0;
		x->status = -ECANCELED;
		return;
	}
	l->left += x->bytes;
	if (!l->moves)
		begin_to_move(l);
	kv_rdmamove_wake(l);
}

void
kv_rdmamove_cancel(struct kv_rdmaxfer *x)
{
	if (x->to)
		kv_rdmamove_abort(x, -ECANCELED);
}

void
kv_rdmamove_init(struct kv_rdmalink *l)
{
	kv_list_init(&l->queue);
	kv_list_init(&l->flying);
	kv_list_init(&l->over);
	l->pump.fn = on_pump;
	l->watch.fn = on_watch;
}

static void
over_all(struct kv_list *list, int status)
{
	struct kv_rdmaxfer *x;

	while ((x = KV_LIST_FIRST(list, struct kv_rdmaxfer, link))) {
		kv_loop_defer_del(&x->over);
		if (x->state != KV_RDMAXFER_OVER && x->status == 0)
			x->status = status;
		drop_rest(x->to, x);
		is_over(&x->over);
	}
}

void
kv_rdmamove_fini(struct kv_rdmalink *l)
{
	kv_loop_defer_del(&l->pump);
	kv_loop_timer_del(&l->watch);
	while (!kv_list_is_empty(&l->over) || !kv_list_is_empty(&l->queue) ||
	       !kv_list_is_empty(&l->flying)) {
		over_all(&l->over, 0);
		over_all(&l->flying, -ECANCELED);
		over_all(&l->queue, -ECANCELED);
	}
}

/* Work requests of transfers: which queue pair takes what. See rdmalinkcore.h.
 */
#include <endian.h>
#include <errno.h>

#include "base/attr.h"
#include "base/num.h"
#include "xfer/rdmalinkcore.h"

enum {
	PROOF_BYTES = 8, /* that a read takes to prove writes before it */
};

/* ---- which rails ---- */

static uint16_t
ports_of(const struct kv_rdmamem *m)
{
	uint16_t ports = 0;
	unsigned i;

	for (i = 0; i < KV_RDMA_PORTS_MAX; i++)
		ports |= (uint16_t)((m->keys[i] != 0) << i);
	return ports;
}

/* Those that can be used for all of the list, and that are distant from some of
 * it. */
static uint16_t
ports_of_list(const struct kv_rdmarange *list, uint64_t bytes,
	      uint16_t *distant)
{
	const struct kv_rdmamem *last = NULL;
	uint16_t ports = UINT16_MAX;

	*distant = 0;
	for (; bytes > 0; bytes -= list->len, list++) {
		if (list->len == 0 || list->mem == last)
			continue;
		last = list->mem;
		ports &= ports_of(last);
		*distant |= last->distant;
	}
	return ports;
}

void
kv_rdmafeed_ports(struct kv_rdmaxfer *x)
{
	uint16_t any;

	x->near_ports = ports_of_list(x->near, x->bytes, &x->distant_ports);
	/* Where the other side's memory is, it does not tell. */
	x->far_ports = ports_of_list(x->far, x->bytes, &any);
	x->rails_as_of = 0;
}

static void
rails_find(const struct kv_rdmalink *l, struct kv_rdmaxfer *x)
{
	const struct kv_rdmarail *rail = l->rails;
	unsigned i;

	x->rails_as_of = l->rails_changed;
	x->rails = x->distant = 0;
	for (i = 0; i < l->n_rails; i++, rail++) {
		if (!rail->up || !(x->near_ports >> rail->near & 1) ||
		    !(x->far_ports >> rail->far & 1))
			continue;
		x->rails |= (uint16_t)(1u << i);
		if (x->distant_ports >> rail->near & 1)
			x->distant |= (uint16_t)(1u << i);
	}
}

/* Those that can be used for it; found out again when rails have changed. */
static uint32_t
rails_of(const struct kv_rdmalink *l, struct kv_rdmaxfer *x)
{
	if (x->rails_as_of != l->rails_changed)
		rails_find(l, x);
	if (!x->distant)
		return x->rails;
	return kv_rdmashare_near(&l->share, x->rails, x->distant,
				 kv_max_u64(x->bytes, l->left));
}

/* ---- posting ---- */

/* Of one that is used. */
static KV_INLINE struct kv_rdmaslot *
rail_slot(const struct kv_rdmalink *l, unsigned rail)
{
	uint64_t bits = l->rails[rail].up;
	struct kv_rdmaslot *s, *best = l->slots[kv_rdmalink_pop(&bits)];

	while (bits) {
		s = l->slots[kv_rdmalink_pop(&bits)];
		if (s->busy < best->busy)
			best = s;
	}
	return best->busy < KV_RDMALINK_DEPTH ? best : NULL;
}

/* For the next slice, of at most *bytes. NULL: for now none takes one. */
static KV_INLINE struct kv_rdmaslot *
slot_pick(const struct kv_rdmalink *l, uint32_t rails, uint64_t now,
	  uint64_t *bytes)
{
	struct kv_rdmaslot *s;
	int at;

	while (kv_rdmashare_is_open(&l->share, rails)) {
		at = kv_rdmashare_pick(&l->share, rails, l->left, now, bytes);
		if (at < 0)
			return NULL;
		s = rail_slot(l, (unsigned)at);
		if (s)
			return s;
		rails &= ~(1u << at);
	}
	return NULL;
}

static KV_INLINE struct kv_rdmaslice *
slice_new(struct kv_rdmaslot *slot, struct kv_rdmaxfer *x, uint64_t now)
{
	struct kv_rdmaslice *s = slot->idle[slot->busy];

	s->x = x;
	s->is_end = false;
	s->failures = 0;
	if (slot->busy++ == 0)
		slot->progress_ns = now;
	slot->chain[slot->n_chain++] = &s->w;
	slot->l->chained |= kv_rdmaslot_bit(slot);
	x->out++;
	x->qps |= kv_rdmaslot_bit(slot);
	return s;
}

static struct ibv_sge
sge_of(const struct kv_rdmarange *r, unsigned port)
{
	return (struct ibv_sge){
		.addr = r->addr,
		.length = (uint32_t)r->len,
		.lkey = r->mem->keys[port],
	};
}

static KV_INLINE void
slice_fill(struct kv_rdmaslot *slot, struct kv_rdmaslice *s, uint8_t opcode,
	   uint64_t now)
{
	const struct kv_rdmapart *part = &s->part;
	unsigned i, n = part->n_near, port = slot->near;
	struct ibv_send_wr *wr = &s->w.wr;
	struct kv_rdmalink *l = slot->l;
	uint64_t bytes = part->far.len;

	s->sges[0] = sge_of(&part->near[0], port);
	for (i = 1; i < n; i++)
		s->sges[i] = sge_of(&part->near[i], port);
	wr->opcode = opcode;
	wr->num_sge = (int)n;
	wr->wr.rdma.remote_addr = part->far.addr;
	wr->wr.rdma.rkey = part->far.mem->keys[slot->far];
	slot->under_way += bytes;
	l->left -= bytes;
	kv_rdmashare_post(&l->share, slot->at, now, bytes);
}

/* The first that failed and may be posted again, for nothing of it can arrive
 * any more. */
static struct kv_rdmaslice *
failed_first(const struct kv_rdmalink *l, const struct kv_rdmaxfer *x)
{
	bool is_read = x->kind == KV_RDMAXFER_READ;
	struct kv_rdmaslice *s;

	KV_LIST_FOREACH(s, &x->again, link)
		if (is_read || !(l->waiting & kv_rdmaslot_bit(s->slot)))
			return s;
	return NULL;
}

/* Puts what failed on another queue pair, once it may. False: none takes it
 * for now. */
static bool
feed_again(struct kv_rdmalink *l, struct kv_rdmaxfer *x, uint32_t rails,
	   uint64_t now)
{
	struct kv_rdmaslice *s, *old;
	struct kv_rdmaslot *slot;
	uint64_t any;

	while ((old = failed_first(l, x))) {
		slot = slot_pick(l, rails, now, &any);
		if (!slot)
			return false;
		s = slice_new(slot, x, now);
		s->part = old->part;
		s->failures = old->failures;
		slice_fill(slot, s, x->opcode, now);
		kv_list_del(&old->link);
		kv_rdmamove_release(old);
	}
	return true;
}

/* The same of what is left. */
static bool
feed_rest(struct kv_rdmalink *l, struct kv_rdmaxfer *x, uint32_t rails,
	  uint64_t now)
{
	struct kv_rdmaslice *s;
	struct kv_rdmaslot *slot;
	uint64_t bytes;

	while (x->plan.left > 0) {
		slot = slot_pick(l, rails, now, &bytes);
		if (!slot)
			return false;
		s = slice_new(slot, x, now);
		kv_rdmaplan_take(&x->plan, bytes, &s->part);
		slice_fill(slot, s, x->opcode, now);
	}
	return true;
}

static void
end_post(struct kv_rdmaslot *slot, struct kv_rdmaxfer *x)
{
	uint64_t now = kv_loop_now(slot->l->loop);
	struct kv_rdmaslice *s = slice_new(slot, x, now);
	const struct kv_rdmarange *far = x->far;

	s->is_end = true;
	s->part.far.len = 0;
	if (x->kind == KV_RDMAXFER_WRITE) {
		s->w.wr = (struct ibv_send_wr){
			.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			.sg_list = s->sges,
			.imm_data = htobe32(
				kv_rdmaend_word(x->number, x->round, x->ends)),
		};
		return;
	}
	while (far->len == 0)
		far++;
	s->sges[0] = (struct ibv_sge){
		.addr = (uintptr_t)slot->l->rl->scrap,
		.length = (uint32_t)kv_min_u64(far->len, PROOF_BYTES),
		.lkey = slot->l->rl->scrap_mr.near.keys[slot->near],
	};
	s->w.wr = (struct ibv_send_wr){
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = s->sges,
		.num_sge = 1,
		.wr.rdma.remote_addr = far->addr,
		.wr.rdma.rkey = far->mem->keys[slot->far],
	};
}

/* Everything of it is posted. When it was written again, all by queue pairs
 * that are gone, any one brings the end. */
static void
ends_begin(const struct kv_rdmalink *l, struct kv_rdmaxfer *x)
{
	x->has_ended = true;
	x->to_end = x->qps;
	if (!x->to_end && x->kind == KV_RDMAXFER_WRITE)
		x->to_end = l->up & -l->up;
	x->ends = (uint8_t)__builtin_popcountll(x->to_end);
}

static void
feed_ends(struct kv_rdmalink *l, struct kv_rdmaxfer *x)
{
	uint64_t bits, bit;
	struct kv_rdmaslot *slot;

	if (x->kind == KV_RDMAXFER_READ || x->is_asked || x->qps & l->waiting)
		return;
	if (!x->has_ended)
		ends_begin(l, x);
	for (bits = x->to_end; bits;) {
		slot = l->slots[kv_rdmalink_pop(&bits)];
		bit = kv_rdmaslot_bit(slot);
		if (slot->busy == KV_RDMALINK_DEPTH)
			continue;
		x->to_end &= ~bit;
		end_post(slot, x);
	}
}

static bool
is_posted(const struct kv_rdmaxfer *x)
{
	return x->plan.left == 0 && kv_list_is_empty(&x->again) &&
	       (x->kind == KV_RDMAXFER_READ || (x->has_ended && !x->to_end));
}

/* False: none of its rails takes anything for now. */
static bool
feed(struct kv_rdmalink *l, struct kv_rdmaxfer *x, uint32_t rails)
{
	uint64_t now = kv_loop_now(l->loop);

	if (!rails) {
		kv_rdmamove_abort(x, l->up ? -EACCES : -EHOSTUNREACH);
		return true;
	}
	if (!kv_list_is_empty(&x->again) && !feed_again(l, x, rails, now))
		return false;
	if (!feed_rest(l, x, rails, now))
		return false;
	if (kv_list_is_empty(&x->again))
		feed_ends(l, x);
	return true;
}

/* ---- all of them ---- */

void
kv_rdmafeed_again(struct kv_rdmalink *l)
{
	struct kv_rdmaxfer *x, *tmp;

	l->has_failed = false;
	KV_LIST_FOREACH_SAFE(x, tmp, &l->flying, link) {
		if (x->status < 0 || is_posted(x))
			continue;
		kv_list_del(&x->link);
		kv_list_add_head(&l->queue, &x->link);
	}
}

/* The other side has to say first what it has. */
static bool
waits_for_fence(const struct kv_rdmalink *l, const struct kv_rdmaxfer *x)
{
	return x->is_asked || (x->has_ended && x->qps & l->waiting &&
			       x->kind == KV_RDMAXFER_WRITE);
}

void
kv_rdmafeed_queue(struct kv_rdmalink *l)
{
	uint32_t rails;
	struct kv_rdmaxfer *x, *tmp;

	KV_LIST_FOREACH_SAFE(x, tmp, &l->queue, link) {
		if (x->status < 0 || x->state != KV_RDMAXFER_MOVING ||
		    waits_for_fence(l, x))
			continue;
		rails = rails_of(l, x);
		if (!feed(l, x, rails)) {
			if (rails == l->rails_up)
				return;
			continue;
		}
		if (x->status == 0 && !is_posted(x))
			continue;
		kv_list_del(&x->link);
		kv_list_add_tail(&l->flying, &x->link);
	}
}

void
kv_rdmafeed_post(struct kv_rdmalink *l)
{
	struct kv_rdmaslot *s;
	unsigned n;

	while (l->chained) {
		s = l->slots[kv_rdmalink_pop(&l->chained)];
		n = s->n_chain;
		s->n_chain = 0;
		kv_rdmaqp_post(s->qp, s->chain, n);
	}
}

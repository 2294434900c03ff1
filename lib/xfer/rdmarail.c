/* Queue pairs of a rail: made, lost and forgotten. See rdmalinkcore.h. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "xfer/rdmalinkcore.h"

enum {
	ACCEPT_MS = 1000,
	RAMP_PARTS = 4, /* a rail that returns begins with such a part of it */
};

/* ---- slots ---- */

struct kv_rdmaslot *
kv_rdmarail_slot(struct kv_rdmalink *l, struct kv_rdmarail *rail, uint32_t id)
{
	struct kv_rdmaslot *s;
	unsigned i;

	for (i = 0; i < KV_RDMALINK_SLOTS && l->slots[i]; i++)
		;
	if (i == KV_RDMALINK_SLOTS)
		return NULL;
	s = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->l = l;
	s->index = i;
	s->bit = UINT64_C(1) << i;
	s->rail = rail;
	s->at = (uint8_t)(rail - l->rails);
	s->id = id;
	s->near = rail->near;
	s->far = rail->far;
	l->slots[i] = s;
	rail->slots |= kv_rdmaslot_bit(s);
	return s;
}

void
kv_rdmarail_free(struct kv_rdmaslot *s)
{
	assert(!s->conn && !s->join && !s->qp);
	s->l->slots[s->index] = NULL;
	free(s->slices);
	free(s);
}

/* Work of a join is among that of its queue pair. */
static void
disconnect(struct kv_rdmaslot *s)
{
	kv_rdmacm_give_up(kv_steal_ptr(&s->conn));
	kv_rdmaqp_free(kv_steal_ptr(&s->qp));
	kv_rdmajoin_free(kv_steal_ptr(&s->join));
}

void
kv_rdmarail_close(struct kv_rdmaslot *s)
{
	kv_rdmarail_die(s, -ECANCELED);
	disconnect(s);
}

struct kv_rdmaslot *
kv_rdmarail_find(const struct kv_rdmalink *l, uint32_t id)
{
	unsigned i;

	for (i = 0; i < KV_RDMALINK_SLOTS; i++)
		if (l->slots[i] && l->slots[i]->id == id)
			return l->slots[i];
	return NULL;
}

bool
kv_rdmarail_equip(struct kv_rdmaslot *s)
{
	unsigned i;

	if (s->slices)
		return true;
	s->slices = KV_FAULT_POINT()
			    ? NULL
			    : calloc(KV_RDMALINK_DEPTH, sizeof(*s->slices));
	if (!s->slices)
		return false;
	for (i = 0; i < KV_RDMALINK_DEPTH; i++) {
		s->slices[i].slot = s;
		s->slices[i].w.done = kv_rdmamove_done;
		s->slices[i].w.wr.sg_list = s->slices[i].sges;
		s->idle[i] = &s->slices[i];
	}
	return true;
}

void
kv_rdmarail_share(struct kv_rdmalink *l, struct kv_rdmarail *rail)
{
	unsigned i = (unsigned)(rail - l->rails);

	kv_rdmashare_speed(&l->share, i,
			   rail->up ? rail->speed * rail->ramp : 0);
	l->rails_up &= ~(1u << i);
	l->rails_up |= (uint32_t)(rail->up != 0) << i;
	l->rails_changed++;
	if (i >= l->n_rails)
		l->n_rails = i + 1;
}

/* ---- its end ---- */

void
kv_rdmarail_settle(struct kv_rdmaslot *s)
{
	struct kv_rdmalink *l = s->l;
	uint64_t bit = kv_rdmaslot_bit(s);

	if (s->state != KV_RDMASLOT_DEAD || (l->collected | l->sent) & bit)
		return;
	if (l->waiting & bit) {
		l->waiting &= ~bit;
		kv_rdmamove_forget(s);
	}
	if (s->busy == 0)
		kv_rdmarail_free(s);
}

static void
dead(struct kv_rdmaslot *s)
{
	struct kv_rdmalink *l = s->l;
	bool is_owed = s->is_owed;

	s->state = KV_RDMASLOT_DEAD;
	s->is_owed = false;
	kv_rdmarail_settle(s);
	if (is_owed)
		kv_rdmaend_dead(l);
}

void
kv_rdmarail_die(struct kv_rdmaslot *s, int why)
{
	struct kv_rdmalink *l = s->l;
	struct kv_rdmarail *rail = s->rail;
	uint64_t bit = kv_rdmaslot_bit(s);

	if (s->state >= KV_RDMASLOT_DYING)
		return;
	s->state = KV_RDMASLOT_DYING;
	s->rail = NULL;
	l->up &= ~bit;
	l->waiting |= bit;
	kv_rdmafence_collect(s);
	s->progress_ns = kv_loop_now(l->loop);
	if (rail) {
		kv_rdmashare_drop(&l->share, (unsigned)(rail - l->rails),
				  s->progress_ns, s->under_way);
		rail->slots &= ~bit;
		rail->up &= ~bit;
		if (!rail->up)
			rail->ramp = 1.0 / RAMP_PARTS;
		kv_rdmarail_share(l, rail);
		kv_rdmadial_lost(l, rail, s, why);
	}
	kv_rdmamove_wake(l);
	if (s->qp)
		kv_rdmaqp_fence(s->qp);
}

void
kv_rdmarail_drop(struct kv_rdmaslot *s, int why)
{
	kv_rdmarail_die(s, why);
	if (s->qp || s->state == KV_RDMASLOT_DEAD)
		return;
	disconnect(s);
	dead(s);
}

/* The other side hears by the connection what does not pass that port. */
static void
port_drop(struct kv_rdmaslot *s, int why)
{
	if (s->conn)
		kv_rdmajoin_say(s->l->c, kv_le32(s->id),
				kv_status_from_errno(why));
	kv_rdmarail_drop(s, why);
}

void
kv_rdmarail_port_lost(struct kv_rdmalink *l, unsigned port, int why)
{
	struct kv_rdmarail *rail;
	uint64_t bits;

	for (rail = l->rails; rail < l->rails + l->n_rails; rail++) {
		bits = rail->near == port ? rail->slots : 0;
		while (bits)
			port_drop(l->slots[kv_rdmalink_pop(&bits)], why);
	}
}

static void
on_imm(struct kv_rdmaqp *qp, uint32_t imm)
{
	struct kv_rdmaslot *s = qp->arg;

	/* Also of one that has ended meanwhile: the bytes are there. */
	kv_rdmarest_use(s->l);
	kv_rdmaend_imm(s->l, imm);
}

void
kv_rdmarail_cut(struct kv_rdmaslot *s)
{
	disconnect(s);
	dead(s);
}

static void
on_qp_over(struct kv_rdmaqp *qp, int why)
{
	struct kv_rdmaslot *s = qp->arg;

	kv_rdmarail_die(s, why);
	kv_rdmarail_cut(s);
}

static const struct kv_rdmaqp_ops qp_ops = {
	.imm = on_imm,
	.over = on_qp_over,
};

/* ---- making ---- */

int
kv_rdmarail_make(struct kv_rdmaslot *s)
{
	const struct kv_rdmaqp_opts o = {
		.depth = KV_RDMALINK_DEPTH,
		.ops = &qp_ops,
		.arg = s,
	};
	struct kv_rdmaloop *rl = s->l->rl;
	struct kv_rdmacq *cq = rl->cqs[s->rail->near];

	if (!cq || cq->is_lost || rl->is_gone[s->rail->near])
		return -ENODEV;
	s->qp = kv_rdmaqp_new(cq, &o);
	if (!s->qp && errno == ENOSPC && kv_rdmarest_room(s->l, cq))
		s->qp = kv_rdmaqp_new(cq, &o);
	if (!s->qp)
		return -errno;
	kv_rdmarest_use(s->l);
	return 0;
}

static struct kv_rdmaqp *
on_make(struct kv_rdmaconn *c, const char *device, unsigned port)
{
	struct kv_rdmaslot *s = kv_rdmacm_arg(c);

	/* The other side was told of that port, and takes its keys for it. */
	if (s->state != KV_RDMASLOT_MAKING ||
	    kv_rdma_number(s->l->rl->r, device, port) != s->rail->near ||
	    kv_rdmarail_make(s) < 0)
		return NULL;
	return s->qp;
}

void
kv_rdmarail_ready(struct kv_rdmaslot *s)
{
	struct kv_rdmalink *l = s->l;
	struct kv_rdmarail *rail = s->rail;

	if (s->state != KV_RDMASLOT_MAKING)
		return;
	if (rail->far != s->far && rail->up) {
		kv_rdmarail_die(s, -ECANCELED);
		return;
	}
	if (l->moves && !kv_rdmarail_equip(s)) {
		kv_rdmarail_die(s, -ENOMEM);
		return;
	}
	rail->far = s->far;
	rail->by_join = s->by_join;
	s->state = KV_RDMASLOT_UP;
	rail->up |= kv_rdmaslot_bit(s);
	l->up |= kv_rdmaslot_bit(s);
	kv_rdmarail_share(l, rail);
	kv_rdmadial_up(rail);
	kv_rdmadial_look(l);
	kv_rdmamove_wake(l);
}

static void
on_ready(struct kv_rdmaconn *c, const void *word, size_t bytes)
{
	(void)word;
	(void)bytes;
	kv_rdmarail_ready(kv_rdmacm_arg(c));
}

static void
on_conn_over(struct kv_rdmaconn *c, int why)
{
	struct kv_rdmaslot *s = kv_rdmacm_arg(c);

	/* Its queues do not say so. */
	if (why == -ENODEV && s->qp)
		s->l->rl->is_gone[s->qp->cq->port->number] = true;
	kv_rdmacm_give_up(kv_steal_ptr(&s->conn));
	kv_rdmarail_drop(s, why);
}

const struct kv_rdmaconn_ops kv_rdmarail_conn_ops = {
	.make = on_make,
	.ready = on_ready,
	.over = on_conn_over,
};

/* ---- being dialled ---- */

/* The rail of these two ports. NULL: there are too many. */
static struct kv_rdmarail *
rail_of(struct kv_rdmalink *l, uint8_t near, uint8_t far)
{
	struct kv_rdmarail *rail, *spare = NULL;

	for (rail = l->rails; rail < l->rails + KV_RDMALINK_RAILS; rail++) {
		if (rail->is_used && rail->near == near && rail->far == far)
			return rail;
		if (!rail->slots && (!spare || !rail->is_used))
			spare = spare && !spare->is_used ? spare : rail;
	}
	if (!spare)
		return NULL;
	*spare = (struct kv_rdmarail){
		.is_used = true,
		.near = near,
		.far = far,
		.speed = kv_rdmadial_speed(l->rl->watch.devs[near].mbit_per_s),
		.ramp = 1,
	};
	return spare;
}

/* One that the other side has forgotten, if there are too many: it never keeps
 * more than two. */
static void
make_room(struct kv_rdmalink *l, const struct kv_rdmarail *rail)
{
	struct kv_rdmaslot *s, *oldest = NULL;
	uint64_t bits = rail->slots;

	if (__builtin_popcountll(bits) < KV_RDMALINK_QPS_MAX)
		return;
	while (bits) {
		s = l->slots[kv_rdmalink_pop(&bits)];
		if (!oldest || s->id < oldest->id)
			oldest = s;
	}
	if (oldest)
		kv_rdmarail_drop(oldest, -ECANCELED);
}

struct kv_rdmaslot *
kv_rdmarail_place(struct kv_rdmalink *l, unsigned near, uint8_t far,
		  uint32_t id)
{
	struct kv_rdmarail *rail = NULL;

	if (!l->is_closing && !l->is_resting && !kv_rdmarail_find(l, id))
		rail = rail_of(l, (uint8_t)near, far);
	if (!rail)
		return NULL;
	make_room(l, rail);
	return kv_rdmarail_slot(l, rail, id);
}

static int
accept_slot(struct kv_rdmaslot *s, struct kv_rdmaconn *c, uint8_t mtu)
{
	const struct kv_rdmaconn_opts o = {
		.ops = &kv_rdmarail_conn_ops,
		.arg = s,
		.deadline_ns =
			kv_loop_now(s->l->loop) + ACCEPT_MS * KV_NS_PER_MS,
		.mtu = (uint8_t)kv_min_u64(
			mtu, s->l->rl->r->nics[s->rail->near].mtu),
	};
	int rc = kv_rdmarail_make(s);

	if (rc < 0) {
		kv_rdmacm_refuse(c);
		return rc;
	}
	s->conn = c;
	return kv_rdmacm_accept(c, s->qp, &o);
}

void
kv_rdmarail_asked(struct kv_rdmalink *l, struct kv_rdmaconn *c, unsigned number,
		  const struct kv_rail_word *word)
{
	struct kv_rdmaslot *s =
		kv_rdmarail_place(l, number, word->near, kv_get32(word->qp));
	int rc;

	if (!s) {
		kv_rdmacm_refuse(c);
		return;
	}
	rc = accept_slot(s, c, word->mtu);
	if (rc == 0)
		return;
	kv_rdmacm_give_up(kv_steal_ptr(&s->conn));
	kv_rdmarail_drop(s, rc);
}

/* Queue pairs of a rail that no connection manager connects. See
 * rdmalinkcore.h. */
#include <errno.h>

#include "xfer/rdmalinkcore.h"

#define JOIN_NS (1 * KV_NS_PER_S)

enum {
	PSNS = 1 << 24,
};

static void
on_ready(struct kv_rdmajoin *j)
{
	kv_rdmarail_ready(kv_rdmajoin_arg(j));
}

/* It is freed with its queue pair, which is not gone at once. */
static void
on_over(struct kv_rdmajoin *j, int why)
{
	kv_rdmarail_drop(kv_rdmajoin_arg(j), why);
}

static struct kv_rdmajoin_opts
opts_of(struct kv_rdmaslot *s, uint8_t near, uint8_t far,
	const uint8_t *towards)
{
	struct kv_rdmalink *l = s->l;

	return (struct kv_rdmajoin_opts){
		.c = l->c,
		.qp = s->qp,
		.name = {
			.qp = kv_le32(s->id),
			.psn = kv_le32((uint32_t)kv_rng_below(&l->rng, PSNS)),
			.near = near,
			.far = far,
		},
		.towards = towards,
		.deadline_ns = kv_loop_now(l->loop) + JOIN_NS,
		.ready = on_ready,
		.over = on_over,
		.arg = s,
	};
}

int
kv_rdmarailjoin_dial(struct kv_rdmaslot *s)
{
	struct kv_rdmajoin_opts o;
	int rc = kv_rdmarail_make(s);

	if (rc < 0)
		return rc;
	o = opts_of(s, s->rail->near, s->far, s->rail->to.ip);
	s->join = kv_rdmajoin_dial(&o);
	return s->join ? 0 : -errno;
}

static int
accept_slot(struct kv_rdmaslot *s, const struct kv_qpjoin *q)
{
	struct kv_rdmajoin_opts o;
	int rc = kv_rdmarail_make(s);

	if (rc < 0)
		return rc;
	o = opts_of(s, q->near, q->far, q->gid);
	s->join = kv_rdmajoin_accept(&o, q);
	return s->join ? 0 : -errno;
}

static bool
on_asked(struct kv_rdmalink *l, const struct kv_qpjoin *q)
{
	struct kv_rdmaslot *s;
	int rc = -ENOSPC;

	if (!kv_rdmajoin_is_good(q) || q->status != 0 ||
	    q->near >= KV_RAILS_MAX || q->far >= l->rl->r->n ||
	    kv_rdmarail_find(l, kv_get32(q->qp)))
		return false;
	s = kv_rdmarail_place(l, q->far, q->near, kv_get32(q->qp));
	if (s) {
		s->by_join = true;
		rc = accept_slot(s, q);
	}
	if (rc == 0)
		return true;
	kv_rdmajoin_refuse(l->c, q, rc);
	if (s)
		kv_rdmarail_drop(s, rc);
	return true;
}

/* The join of that name, if it was not given up meanwhile. */
static struct kv_rdmajoin *
find(const struct kv_rdmalink *l, struct kv_le32 id)
{
	struct kv_rdmaslot *s = kv_rdmarail_find(l, kv_get32(id));

	return s ? s->join : NULL;
}

static bool
on_answer(struct kv_rdmalink *l, const struct kv_qpjoin *q)
{
	struct kv_rdmajoin *j = find(l, q->qp);

	return kv_rdmajoin_is_good(q) && (!j || kv_rdmajoin_answer(j, q));
}

static bool
on_state(struct kv_rdmalink *l, const struct kv_qpstate *q)
{
	struct kv_rdmaslot *s = kv_rdmarail_find(l, kv_get32(q->qp));

	if (q->zero[0] || q->zero[1] || q->zero[2])
		return false;
	if (s && s->join)
		return kv_rdmajoin_state(s->join, q->status);
	if (s && s->conn && q->status != 0)
		kv_rdmarail_drop(s, -ECONNRESET);
	return true;
}

bool
kv_rdmarailjoin_take(struct kv_rdmalink *l, const struct kv_msg *msg)
{
	switch (msg->type) {
	case KV_MSG_QPJOIN:
		return !l->o.dials && on_asked(l, msg->body);
	case KV_MSG_QPJOIN_R:
		return l->o.dials && on_answer(l, msg->body);
	default:
		return on_state(l, msg->body);
	}
}

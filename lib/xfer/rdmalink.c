#include "xfer/rdmalink.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "xfer/rdmalinkcore.h"

struct kv_rdmalink *
kv_rdmalink_new(struct kv_rdmaloop *rl, struct kv_conn *c,
		const struct kv_rdmalink_opts *o)
{
	struct kv_rdmalink *l = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*l));

	if (!l) {
		errno = ENOMEM;
		return NULL;
	}
	l->rl = rl;
	l->loop = rl->loop;
	l->c = c;
	l->o = *o;
	l->rails_changed = 1;
	kv_rng_seed(&l->rng, o->token);
	kv_rdmashare_init(&l->share, rl->r->env.slice_bytes, KV_RDMALINK_LEAST,
			  KV_RDMALINK_DEEP);
	kv_rdmadial_init(l);
	kv_rdmamove_init(l);
	kv_rdmaend_init(l);
	kv_rdmarest_init(l);
	if (!o->dials && kv_htab_add(&rl->links, &l->node, o->token) < 0) {
		kv_rdmarest_fini(l);
		free(l);
		errno = ENOMEM;
		return NULL;
	}
	kv_list_add_tail(&rl->all, &l->in_all);
	return l;
}

/* Without queue pairs nothing is touched. Who is told then may begin something
 * else on the link, which is over at once. */
void
kv_rdmalink_free(struct kv_rdmalink *l)
{
	unsigned i;

	if (!l)
		return;
	l->is_closing = true;
	kv_list_del(&l->in_all);
	if (!l->o.dials)
		kv_htab_del(&l->rl->links, &l->node);
	kv_rdmadial_fini(l);
	for (i = 0; i < KV_RDMALINK_SLOTS; i++)
		if (l->slots[i])
			kv_rdmarail_close(l->slots[i]);
	kv_rdmamove_fini(l);
	kv_rdmaend_fini(l);
	for (i = 0; i < KV_RDMALINK_SLOTS; i++)
		if (l->slots[i])
			kv_rdmarail_free(l->slots[i]);
	kv_rdmarest_fini(l);
	free(l);
}

void *
kv_rdmalink_arg(const struct kv_rdmalink *l)
{
	return l->o.arg;
}

void
kv_rdmalink_tell(struct kv_rdmalink *l)
{
	struct kv_rail_rec recs[KV_RAILS_MAX];
	unsigned n = kv_rdmaloop_rails(l->rl, recs);
	struct kv_rails *body;
	void *tail;

	l->is_told = true;
	body = kv_conn_begin_tail(l->c, KV_MSG_RAILS, 0, 0, n * sizeof(recs[0]),
				  &tail);
	if (!body)
		return;
	body->count = kv_le32(n);
	if (n > 0)
		memcpy(tail, recs, n * sizeof(recs[0]));
	kv_conn_end(l->c);
}

bool
kv_rdmalink_take(struct kv_rdmalink *l, const struct kv_msg *msg)
{
	switch (msg->type) {
	case KV_MSG_RAILS:
		return l->o.dials ? kv_rdmadial_take(l, msg)
				  : kv_rdmarest_wish(l, msg);
	case KV_MSG_QPFENCE:
		return kv_rdmaend_fence(l, msg);
	case KV_MSG_QPFENCE_R:
		return kv_rdmafence_answer(l, msg);
	case KV_MSG_QPJOIN:
	case KV_MSG_QPJOIN_R:
	case KV_MSG_QPSTATE:
		return kv_rdmarailjoin_take(l, msg);
	default:
		return false;
	}
}

bool
kv_rdmalink_wake(struct kv_rdmalink *l)
{
	return kv_rdmarest_wake(l);
}

void
kv_rdmalink_start(struct kv_rdmalink *l, struct kv_rdmaxfer *x)
{
	kv_rdmarest_use(l);
	kv_rdmamove_start(l, x);
}

void
kv_rdmalink_cancel(struct kv_rdmaxfer *x)
{
	kv_rdmamove_cancel(x);
}

void
kv_rdmalink_await(struct kv_rdmalink *l, struct kv_rdmaend *e)
{
	kv_rdmarest_use(l);
	kv_rdmaend_await(l, e);
}

void
kv_rdmalink_forget(struct kv_rdmaend *e)
{
	kv_rdmaend_forget(e);
}

unsigned
kv_rdmalink_rails(const struct kv_rdmalink *l)
{
	unsigned i, n = 0;

	for (i = 0; i < l->n_rails; i++)
		n += l->rails[i].up != 0;
	return n;
}

unsigned
kv_rdmalink_pairs(const struct kv_rdmalink *l, char *why, size_t n)
{
	const struct kv_rdmarail *rail, *missing = NULL;
	unsigned pairs = 0;

	for (rail = l->rails; rail < l->rails + l->n_rails; rail++) {
		pairs += rail->is_used;
		if (rail->is_used && !rail->up && !missing)
			missing = rail;
	}
	*why = '\0';
	if (missing)
		kv_rdmadial_why(l, missing, why, n);
	return pairs;
}

bool
kv_rdmalink_path(const struct kv_rdmalink *l, struct in6_addr *near,
		 struct in6_addr *far)
{
	const struct kv_rdmarail *rail;

	for (rail = l->rails; rail < l->rails + l->n_rails; rail++) {
		if (!rail->up || !l->o.dials || rail->by_join)
			continue;
		*near = l->rl->watch.devs[rail->near].ips[0];
		memcpy(far, rail->to.ip, sizeof(*far));
		return true;
	}
	return false;
}

bool
kv_rdmalink_is_settled(const struct kv_rdmalink *l)
{
	return l->is_settled;
}

const char *
kv_rdmalink_why(const struct kv_rdmalink *l)
{
	return l->why;
}

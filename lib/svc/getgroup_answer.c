#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/getgroupcore.h"
#include "svc/vec.h"

/* Bytes of the value that the item takes; -1: they do not fit. */
static int64_t
item_takes(const struct kv_get_item *it, uint64_t room, uint64_t size)
{
	if (it->is_part)
		return (int64_t)kv_min_u64(room,
					   size > it->off ? size - it->off : 0);
	return size <= room ? (int64_t)size : -1;
}

struct answer {
	struct kv_map_values v;
	struct kv_hub_map *map;
	struct kv_le64 *pins; /* to be released */
	uint32_t n_pins;
	struct kv_vec_batch copies; /* out of the mapping, for all keys */
};

/* What was asked for is to be copied out of the pool's mapping. */
static int
copy_extents(struct kv_getop *op, const struct kv_get_item *it,
	     struct answer *a, unsigned n_ext, uint64_t len)
{
	uint64_t at = 0, part;
	const char *p;
	unsigned i;

	for (i = 0; i < n_ext && at < len; i++, at += part) {
		part = kv_min_u64(kv_get64(a->v.ext[i].len), len - at);
		p = kv_hub_map_at(op->ch->hub, a->map,
				  kv_get64(a->v.ext[i].off), part, false);
		if (!p)
			return -kv_status_from_errno(errno);
		kv_vec_batch_scatter(&a->copies, it->bufs, it->nbufs, at, p,
				     part);
	}
	return at == len ? 0 : -KV_EPROTO;
}

/* One found value; its bytes, except those that are still to come. */
static int
value_take(struct kv_getgroup *g, size_t at, const struct kv_get_ent_r *e,
	   struct answer *a)
{
	struct kv_getop *op = g->op;
	struct kv_get_item *it = &op->items[g->base.idx[at]];
	struct kv_getop_key *k = &op->keys[g->base.idx[at]];
	int64_t len;
	int rc = 0;

	it->size_total = kv_get64(e->size);
	len = item_takes(it, k->room, it->size_total);
	if (len < 0)
		return -KV_EPROTO; /* the owner had to refuse it */
	switch (e->how) {
	case KV_HOW_NONE:
		rc = len == 0 ? 0 : -KV_EPROTO;
		break;
	case KV_HOW_INLINE:
		if ((int64_t)kv_get32(e->inline_len) != len)
			return -KV_EPROTO;
		kv_vec_scatter(it->bufs, it->nbufs, 0, a->v.bytes,
			       (uint64_t)len);
		break;
	case KV_HOW_EXTENTS:
		if (!a->map)
			return -KV_EPROTO;
		rc = copy_extents(op, it, a, kv_get16(e->extents),
				  (uint64_t)len);
		break;
	case KV_HOW_DATA:
		if (g->is_rdma || g->base.is_fast)
			return -KV_EPROTO;
		k->want = (uint64_t)len;
		k->is_coming = true;
		g->coming++;
		kv_getgroup_data_check(g, at);
		return 0;
	case KV_HOW_RDMA:
		if (!g->is_rdma || len == 0)
			return -KV_EPROTO;
		k->want = (uint64_t)len;
		k->is_coming = true;
		g->coming++;
		return 0;
	default:
		return -KV_EPROTO;
	}
	if (rc < 0)
		return rc;
	it->len = (uint64_t)len;
	kv_getop_result(op, g->base.idx[at], 0);
	return 0;
}

/* What an owner says of a key that it did not give. */
static void
value_refused(struct kv_getgroup *g, size_t at, const struct kv_get_ent_r *e)
{
	struct kv_getop *op = g->op;
	struct kv_getop_key *k = &op->keys[g->base.idx[at]];

	switch (e->status) {
	case KV_EBUSY:
		k->is_busy = true;
		break;
	case KV_ETRANSFER:
		if (g->is_rdma && !op->ch->hub->rdma_only)
			k->is_busy = k->by_data = true;
		else
			k->state = KV_GETOP_WAITS;
		break;
	case KV_ETOOBIG:
		op->items[g->base.idx[at]].size_total = kv_get64(e->size);
		kv_getop_result(op, g->base.idx[at], -KV_ETOOBIG);
		break;
	case KV_EINVALID:
		kv_getop_result(op, g->base.idx[at], -KV_EINVALID);
		break;
	default: /* a miss here, or trouble: another owner may do better */
		k->state = KV_GETOP_WAITS;
	}
}

static int
answer_take(struct kv_getgroup *g, struct answer *a)
{
	const struct kv_get_ent_r *e = a->v.ent;
	size_t at;
	int rc = 0;

	for (at = g->base.pos; at < g->base.end; at++, e++) {
		if (e->status != KV_OK)
			value_refused(g, at, e);
		else if (rc == 0)
			rc = value_take(g, at, e, a);
		if (e->how == KV_HOW_EXTENTS)
			a->pins[a->n_pins++] = e->pin;
		a->v.ext += kv_get16(e->extents);
		a->v.bytes += kv_get32(e->inline_len);
	}
	kv_vec_batch_flush(&a->copies);
	return rc;
}

static int
frame_take(struct kv_getgroup *g, const struct kv_msg *msg)
{
	struct answer a;
	const struct kv_get_r *r = msg->body;
	int rc;

	if (msg->type != KV_MSG_GET_R)
		return -KV_EPROTO;
	if (r->status != KV_OK) {
		kv_getgroup_rdma_forget(g);
		return kv_status_of_peer(r->status);
	}
	a.map = NULL;
	a.n_pins = 0;
	a.copies.n = 0;
	a.copies.copier = g->op->ch->hub->copier;
	if (kv_map_values_parse(msg, g->base.end - g->base.pos, &a.v) < 0)
		return -KV_EPROTO;
	a.pins = KV_FAULT_POINT()
			 ? NULL
			 : calloc(g->base.end - g->base.pos, sizeof(*a.pins));
	if (!a.pins)
		return -KV_ENOMEM;
	if (g->base.to->is_local)
		a.map = kv_hub_map_ref(g->op->ch->hub, &g->base.to->boot);
	rc = answer_take(g, &a);
	kv_link_unpin(g->base.to, a.pins, a.n_pins);
	if (a.map)
		kv_hub_map_unref(g->op->ch->hub, a.map);
	free(a.pins);
	return rc;
}

void
kv_getgroup_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_getgroup *g =
		KV_CONTAINER_OF(call, struct kv_getgroup, base.call);

	if (kv_group_lost_fast(&g->base, status)) {
		kv_getgroup_again(g);
		return;
	}
	if (status < 0) {
		kv_getgroup_fail(&g->base, -kv_status_from_errno(status));
		return;
	}
	status = frame_take(g, msg);
	g->answered = true;
	/* What is still to come does not come that way. */
	g->base.is_fast = false;
	kv_rpc_cancel(&g->base.ping);
	if (status < 0)
		kv_getgroup_fail(&g->base, status);
	else if (g->is_rdma ? kv_getgroup_rdma_answered(g) : g->coming == 0)
		kv_getgroup_frame_done(g);
	else
		kv_getgroup_watch(g);
}

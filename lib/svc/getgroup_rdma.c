#include <errno.h>

#include "base/num.h"
#include "svc/getgroupcore.h"

/* The transfer of this frame has ended, and GET_R is here. What was given up
 * comes by DATA. */
static void
settle(struct kv_getgroup *g)
{
	struct kv_getop *op = g->op;
	struct kv_hub_stats more = { 0 };
	struct kv_getop_key *k;
	size_t at, i;

	for (at = g->base.pos; at < g->base.end; at++) {
		i = g->base.idx[at];
		k = &op->keys[i];
		if (!k->is_coming)
			continue;
		k->is_coming = false;
		if (g->end_status == 0) {
			kv_windows_unpack(&g->windows, at - g->base.pos,
					  k->want);
			op->items[i].len = k->want;
			more.rdma_get_bytes += k->want;
			kv_getop_result(op, i, 0);
		} else if (op->ch->hub->rdma_only) {
			k->state = KV_GETOP_WAITS;
		} else {
			k->is_busy = k->by_data = true;
		}
	}
	g->coming = 0;
	kv_hub_count(op->ch->hub, &more);
}

static void
ended(struct kv_rdmaend *e, int status)
{
	struct kv_getgroup *g = KV_CONTAINER_OF(e, struct kv_getgroup, end);

	/* The link went, or this group itself sees to it: then the receiver is
	 * told, or was taken off. */
	if (status == -ECANCELED || g->is_pausing)
		return;
	g->has_ended = true;
	g->end_status = status;
	if (!g->answered) {
		kv_getgroup_watch(g);
		return;
	}
	settle(g);
	kv_getgroup_frame_done(g);
}

void
kv_getgroup_rdma_await(struct kv_getgroup *g)
{
	g->has_ended = false;
	g->end.done = ended;
	kv_rdmalink_await(g->base.to->rails, &g->end);
}

static void
ignored(struct kv_rdmaend *e, int status)
{
	(void)e;
	(void)status;
}

void
kv_getgroup_rdma_ignore(struct kv_getgroup *g)
{
	g->end.done = ignored;
}

void
kv_getgroup_rdma_forget(struct kv_getgroup *g)
{
	kv_rdmalink_forget(&g->end);
}

bool
kv_getgroup_rdma_answered(struct kv_getgroup *g)
{
	if (g->coming == 0) {
		kv_getgroup_rdma_forget(g);
		return true;
	}
	if (!g->has_ended)
		return false;
	settle(g);
	return true;
}

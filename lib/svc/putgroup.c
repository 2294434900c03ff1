#include "svc/putgroupcore.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"
#include "svc/gentable.h"

/* An owner that is silent for so long, at most and at least, is given up. (It
 * may itself be waiting a second for a master.) */
#define STALL_NS       (5 * KV_NS_PER_S)
#define STALL_LEAST_NS (1500 * KV_NS_PER_MS)
/* So often the fast end is tried: that it is lost is seen by what is sent. */
#define FAST_NS   (300 * KV_NS_PER_MS)
#define OLD_TRIES 4 /* of one owner; others remove all meanwhile */

/* ---- the end of a group ---- */

/* Returns whether frames of it are still in the data connection's queue. */
static bool
group_free(struct kv_putgroup *g)
{
	bool is_sending = kv_putgroup_fill_leave(g);

	kv_group_fini(&g->base);
	kv_windows_fini(&g->windows);
	free(g->filled);
	free(g);
	return is_sending;
}

/* Nobody reads its values when it returns. */
static void
group_drop(struct kv_putgroup *g, int status)
{
	struct kv_link *to = g->base.to;
	size_t i;

	for (i = g->base.pos; i < g->base.n; i++)
		kv_putop_result(g->op, g->base.idx[i], g->pick.node, status);
	if (g->is_read)
		kv_link_drop_data(to, status);
	if (group_free(g))
		kv_link_drop_data(to, status);
}

void
kv_putgroup_fail(struct kv_group *base, int status)
{
	struct kv_putgroup *g = kv_putgroup_of(base);
	struct kv_putop *op = g->op;

	if (!base->to->is_local)
		kv_chan_report(op->ch, &op->cands[g->pick.node].boot, status);
	group_drop(g, status);
	kv_putop_group_ended(op);
}

static void
group_end(struct kv_group *base)
{
	struct kv_putgroup *g = kv_putgroup_of(base);
	struct kv_putop *op = g->op;

	group_free(g);
	kv_putop_group_ended(op);
}

/* An owner that was asked must not come to it later. */
void
kv_putgroup_drop_all(struct kv_putop *op, int status)
{
	struct kv_group *base;
	struct kv_link *to;
	bool is_asked;

	while ((base = KV_LIST_FIRST(&op->groups, struct kv_group, link))) {
		to = base->to;
		is_asked = !to->is_local && kv_rpc_is_under_way(&base->call);
		to->users++;
		group_drop(kv_putgroup_of(base), status);
		if (is_asked)
			kv_link_drop(to, status);
		to->users--;
	}
}

/* The frame is asked again. Who has it already may read the same bytes where
 * they were until the call is over, but not in the ring, where others come. */
static void
group_go_on(struct kv_putgroup *g)
{
	g->is_lost = false;
	if (g->is_read && kv_windows_are_packed(&g->windows))
		kv_link_drop_data(g->base.to, -KV_ETIMEOUT);
	kv_windows_fini(&g->windows);
	kv_group_next(&g->base);
}

static void
group_stalls(struct kv_timer *t)
{
	struct kv_putgroup *g =
		KV_CONTAINER_OF(t, struct kv_putgroup, base.timer);
	struct kv_link *to = g->base.to;

	if (g->is_lost) {
		group_go_on(g);
		return;
	}
	if ((g->is_rdma || g->base.is_fast) && kv_group_is_there(&g->base)) {
		kv_putgroup_watch(g);
		return;
	}
	if (g->base.is_fast) { /* it is asked again by ctl */
		kv_link_fast_fail(to, -KV_ETIMEOUT);
		return;
	}
	to->users++;
	kv_putgroup_fail(&g->base, -KV_ETIMEOUT);
	kv_link_drop(to, -KV_ETIMEOUT);
	to->users--;
}

/* The frame's request was lost. It carries the same id the next time: an owner
 * that had it already says what became of it, when that is over. */
static void
group_again(struct kv_putgroup *g)
{
	struct kv_loop *loop = g->op->ch->loop;

	g->is_lost = true;
	g->base.timer.fn = group_stalls;
	kv_loop_timer_set(loop, &g->base.timer, kv_loop_now(loop));
}

/* The local one is waited for while it is faulting its pool in. */
static bool
is_patient(const struct kv_putgroup *g)
{
	struct kv_hub_node n;

	return g->base.to->is_local &&
	       (!kv_hub_node(g->op->ch->hub, &g->base.to->boot, &n) ||
		n.ready_bytes < n.pool_bytes || n.pool_bytes == 0);
}

/* Values that NICs read are not seen to go: the owner is asked in between. */
void
kv_putgroup_watch(struct kv_putgroup *g)
{
	struct kv_chan *ch = g->op->ch;
	uint64_t part = g->is_rdma ? 2 : 1, until;

	if (is_patient(g))
		return;
	if (g->base.is_fast)
		until = kv_loop_now(ch->loop) + FAST_NS;
	else
		until = kv_chan_patience(ch, g->op->deadline,
					 STALL_LEAST_NS / part,
					 STALL_NS / part);
	g->base.timer.fn = group_stalls;
	kv_loop_timer_set(ch->loop, &g->base.timer, until);
}

/* ---- the answer ---- */

/* A value that the owner could not read is sent to it. */
static bool
is_to_go_by_data(struct kv_putgroup *g, size_t i, int status)
{
	size_t n = g->base.n;

	if (status != -KV_ETRANSFER || g->op->ch->hub->rdma_only ||
	    !kv_group_add(&g->base, g->base.idx[g->base.pos + i]))
		return false;
	if (g->by_data_at == 0)
		g->by_data_at = n;
	return true;
}

static void
rdma_count(struct kv_putgroup *g, const uint8_t *statuses)
{
	struct kv_hub_stats more = { 0 };
	uint64_t size;
	size_t i;

	if (!g->is_rdma)
		return;
	for (i = g->base.pos; i < g->base.end; i++) {
		size = g->op->keys[g->base.idx[i]].size;
		if (statuses[i - g->base.pos] == KV_OK &&
		    !kv_putgroup_is_inline(g, size))
			more.rdma_put_bytes += size;
	}
	kv_hub_count(g->op->ch->hub, &more);
}

static int
statuses_take(struct kv_putgroup *g, const struct kv_msg *msg)
{
	const struct kv_put_r *r = msg->body;
	size_t i, count = g->base.end - g->base.pos;
	int st;

	if (msg->type != KV_MSG_PUT_R)
		return -KV_EPROTO;
	if (r->status != KV_OK)
		return kv_status_of_peer(r->status);
	if (kv_get32(r->count) != count || msg->tail_len != count)
		return -KV_EPROTO;
	for (i = 0; i < count; i++) {
		st = -msg->tail[i];
		if (g->is_rdma && is_to_go_by_data(g, i, st))
			continue;
		kv_putop_result(g->op, g->base.idx[g->base.pos + i],
				g->pick.node, st);
	}
	rdma_count(g, msg->tail);
	return 0;
}

/* All was removed, of which this process had not heard: it is put after that.
 */
static bool
is_to_be_put_again(struct kv_putgroup *g, const struct kv_msg *msg)
{
	const struct kv_put_r *r = msg->body;
	struct kv_generation newer;

	if (msg->type != KV_MSG_PUT_R || r->status != KV_EBUSY)
		return false;
	newer = kv_gentable_parse(&r->generation);
	if (newer.number == 0 || ++g->n_old >= OLD_TRIES)
		return false;
	kv_hub_heard(g->op->ch->hub, newer);
	return true;
}

void
kv_putgroup_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_putgroup *g =
		KV_CONTAINER_OF(call, struct kv_putgroup, base.call);

	if (kv_group_lost_fast(&g->base, status)) {
		group_again(g);
		return;
	}
	if (status < 0) {
		kv_putgroup_fail(&g->base, -kv_status_from_errno(status));
		return;
	}
	if (msg->flags & KV_FLAG_MORE) {
		if (g->is_rdma || g->base.is_fast) {
			kv_putgroup_fail(&g->base, -KV_EPROTO);
			return;
		}
		status = kv_putgroup_fill(g, msg);
		if (status < 0) {
			kv_link_ungrant(g->base.to, msg);
			kv_putgroup_fail(&g->base, status);
		} else {
			kv_putgroup_watch(g);
		}
		return;
	}
	g->is_read = false;
	kv_windows_fini(&g->windows);
	if (is_to_be_put_again(g, msg)) {
		kv_putgroup_send(&g->base);
		return;
	}
	status = statuses_take(g, msg);
	if (status < 0) {
		kv_putgroup_fail(&g->base, status);
		return;
	}
	if (!g->base.to->is_local)
		kv_chan_report(g->op->ch, &g->base.to->boot, 0);
	g->base.pos = g->base.end;
	kv_group_next(&g->base);
}

/* ---- making groups ---- */

static const struct kv_group_ops ops = {
	.send = kv_putgroup_send,
	.fail = kv_putgroup_fail,
	.end = group_end,
};

static struct kv_putgroup *
group_find(struct kv_putop *op, struct kv_link *to, struct kv_place_pick pick)
{
	struct kv_putgroup *g;
	struct kv_group *base;

	KV_LIST_FOREACH(base, &op->groups, link) {
		g = kv_putgroup_of(base);
		if (base->to == to && g->pick.no_evict == pick.no_evict)
			return g;
	}
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->op = op;
	g->pick = pick;
	g->base.ops = &ops;
	g->base.deadline = op->deadline;
	kv_list_init(&g->sendings);
	kv_group_init(&g->base, to, &op->groups);
	return g;
}

bool
kv_putgroup_add(struct kv_putop *op, struct kv_link *to,
		struct kv_place_pick pick, uint32_t i)
{
	struct kv_putgroup *g = group_find(op, to, pick);

	return g && kv_group_add(&g->base, i);
}

void
kv_putgroup_start_all(struct kv_putop *op)
{
	kv_group_start_all(&op->groups, &op->starting);
}

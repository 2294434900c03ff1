#include "svc/getgroupcore.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "svc/vec.h"

/* An owner that is silent for so long, at most and at least, is given up. */
#define STALL_NS       (2 * KV_NS_PER_S)
#define STALL_LEAST_NS (200 * KV_NS_PER_MS)
/* Too much is pinned: ask again after so long. */
#define BUSY_NS KV_NS_PER_MS
#define LONG_NS (20 * KV_NS_PER_MS) /* asked again for so long */

/* ---- groups ---- */

static void
group_free(struct kv_getgroup *g)
{
	kv_link_rx_del(&g->rx);
	kv_windows_fini(&g->windows);
	kv_group_fini(&g->base);
	free(g);
}

/* What comes in an answer is not. */
static bool
is_moving(const struct kv_getgroup *g)
{
	if (g->base.is_fast && !g->is_rdma)
		return false;
	return (g->rx.to && (!g->answered || g->coming > 0)) || g->end.to;
}

/* The owner failed: its keys wait for another one. Nothing of this group
 * reaches a buffer when it returns. */
static void
group_drop(struct kv_getgroup *g, int status)
{
	struct kv_getop *op = g->op;
	struct kv_link *to = g->base.to;
	size_t i;

	for (i = g->base.pos; i < g->base.n; i++)
		if (op->keys[g->base.idx[i]].state == KV_GETOP_ASKED)
			op->keys[g->base.idx[i]].state = KV_GETOP_WAITS;
	kv_rpc_cancel(&g->base.call); /* or it is asked again by another way */
	if (is_moving(g)) {
		kv_link_rx_del(&g->rx);
		kv_getgroup_rdma_ignore(g);
		kv_link_drop_data(to, status);
	}
	group_free(g);
}

/* Leaves the keys that have no result, to be asked from the first on. */
static void
group_keep(struct kv_getgroup *g)
{
	struct kv_getop_key *k;
	size_t i, n = 0;

	for (i = 0; i < g->base.n; i++) {
		k = &g->op->keys[g->base.idx[i]];
		if (i < g->base.end && k->state != KV_GETOP_ASKED)
			continue;
		k->is_busy = false;
		g->base.idx[n++] = g->base.idx[i];
	}
	g->base.n = n;
	g->base.pos = g->base.end = 0;
}

/* A connection broke, which says little of the owner: whether it is there is
 * known as soon as another one is made, or refused. */
static bool
group_is_tried_again(struct kv_getgroup *g, int status)
{
	if (status != -KV_ECONNLOST || g->was_lost)
		return false;
	g->was_lost = true;
	kv_rpc_cancel(&g->base.call);
	kv_rpc_cancel(&g->base.ping);
	group_keep(g);
	kv_getgroup_again(g);
	return true;
}

void
kv_getgroup_fail(struct kv_group *base, int status)
{
	struct kv_getgroup *g = kv_getgroup_of(base);
	struct kv_getop *op = g->op;

	if (group_is_tried_again(g, status))
		return;
	kv_getop_lacks(op, status);
	if (!base->to->is_local)
		kv_chan_report(op->ch, &g->boot, status);
	group_drop(g, status);
	kv_getop_group_ended(op);
}

static void
group_end(struct kv_group *base)
{
	struct kv_getgroup *g = kv_getgroup_of(base);
	struct kv_getop *op = g->op;

	group_free(g);
	kv_getop_group_ended(op);
}

/* After a pause. What was asked before does not come any more then. */
static void
group_go_on(struct kv_getgroup *g)
{
	g->is_pausing = false;
	if (g->end.to) {
		kv_getgroup_rdma_ignore(g);
		kv_link_drop_data(g->base.to, -KV_ETIMEOUT);
	}
	kv_windows_fini(&g->windows);
	kv_group_next(&g->base);
}

static void
group_stalls(struct kv_timer *t)
{
	struct kv_getgroup *g =
		KV_CONTAINER_OF(t, struct kv_getgroup, base.timer);
	struct kv_link *to = g->base.to;
	struct kv_getop *op = g->op;

	if (g->is_pausing) {
		group_go_on(g);
		return;
	}
	if (g->is_rdma && kv_group_is_there(&g->base)) {
		kv_getgroup_watch(g);
		return;
	}
	if (g->base.is_fast) { /* it is asked again by ctl */
		kv_link_fast_fail(to, -KV_ETIMEOUT);
		return;
	}
	if (!to->is_local)
		kv_chan_report(op->ch, &g->boot, -KV_ETIMEOUT);
	group_drop(g, -KV_ETIMEOUT);
	/* It answers nobody: later calls dial again rather than wait. */
	kv_link_drop(to, -KV_ETIMEOUT);
	kv_getop_group_ended(op);
}

static void
group_wait(struct kv_getgroup *g, uint64_t until)
{
	g->base.timer.fn = group_stalls;
	kv_loop_timer_set(g->op->ch->loop, &g->base.timer, until);
}

void
kv_getgroup_again(struct kv_getgroup *g)
{
	kv_link_rx_del(&g->rx);
	g->is_pausing = true;
	group_wait(g, kv_loop_now(g->op->ch->loop));
}

/* Bytes that NICs write are not seen: the owner is asked in between. */
void
kv_getgroup_watch(struct kv_getgroup *g)
{
	uint64_t part = g->is_rdma || g->base.is_fast ? 2 : 1;

	group_wait(g, kv_chan_patience(g->op->ch, g->op->deadline,
				       STALL_LEAST_NS / part, STALL_NS / part));
}

/* Keys that met KV_EBUSY, or failed by RDMA, are put at the front of what is
 * left to ask. */
static bool
group_rewind(struct kv_getgroup *g)
{
	struct kv_getop *op = g->op;
	size_t i, n = 0;

	for (i = 0; i < g->base.n; i++) {
		if (!op->keys[g->base.idx[i]].is_busy)
			continue;
		op->keys[g->base.idx[i]].is_busy = false;
		g->base.idx[n++] = g->base.idx[i];
	}
	g->base.n = n;
	g->base.pos = g->base.end = 0;
	return n > 0;
}

static void
group_pause(struct kv_getgroup *g)
{
	struct kv_chan *ch = g->op->ch;
	uint64_t now = kv_loop_now(ch->loop);

	if (g->busy_ns == 0)
		g->busy_ns = now;
	/* They are asked next, for what is not here. */
	if (now > g->busy_ns + LONG_NS)
		kv_chan_watch_masters(ch);
	g->is_pausing = true;
	group_wait(g, now + BUSY_NS);
}

void
kv_getgroup_frame_done(struct kv_getgroup *g)
{
	kv_link_rx_del(&g->rx);
	kv_windows_fini(&g->windows);
	kv_loop_timer_del(&g->base.timer);
	if (!g->base.to->is_local)
		kv_chan_report(g->op->ch, &g->boot, 0);
	g->base.pos = g->base.end;
	if (g->base.pos == g->base.n && group_rewind(g)) {
		group_pause(g);
		return;
	}
	kv_group_next(&g->base);
}

/* ---- bytes by DATA ---- */

static int
data_coming(struct kv_link_rx *rx, const struct kv_msg *msg, struct iovec *iov,
	    int max)
{
	struct kv_getgroup *g = KV_CONTAINER_OF(rx, struct kv_getgroup, rx);
	const struct kv_data *d = msg->body;
	size_t at = g->base.pos + kv_get32(d->index);
	const struct kv_get_item *it;
	struct kv_getop_key *k;

	if (g->is_rdma || g->base.is_fast || at >= g->base.end ||
	    at < g->base.pos)
		return -EPROTO;
	it = &g->op->items[g->base.idx[at]];
	k = &g->op->keys[g->base.idx[at]];
	if (k->state != KV_GETOP_ASKED || kv_get64(d->off) != k->got ||
	    msg->payload > k->room - k->got)
		return -EPROTO;
	kv_getgroup_watch(g);
	return kv_vec_iov(it->bufs, it->nbufs, k->got, msg->payload, iov, max);
}

void
kv_getgroup_data_check(struct kv_getgroup *g, size_t at)
{
	struct kv_getop_key *k = &g->op->keys[g->base.idx[at]];

	if (!k->is_coming || k->got != k->want)
		return;
	k->is_coming = false;
	g->coming--;
	g->op->items[g->base.idx[at]].len = k->got;
	kv_getop_result(g->op, g->base.idx[at], 0);
}

static void
data_came(struct kv_link_rx *rx, const struct kv_msg *msg)
{
	struct kv_getgroup *g = KV_CONTAINER_OF(rx, struct kv_getgroup, rx);
	const struct kv_data *d = msg->body;
	size_t at = g->base.pos + kv_get32(d->index);

	if (at >= g->base.end || at < g->base.pos)
		return;
	g->op->keys[g->base.idx[at]].got += msg->payload;
	kv_getgroup_data_check(g, at);
	if (g->answered && g->coming == 0)
		kv_getgroup_frame_done(g);
}

static void
data_lost(struct kv_link_rx *rx, int status)
{
	kv_getgroup_fail(&KV_CONTAINER_OF(rx, struct kv_getgroup, rx)->base,
			 status);
}

void
kv_getgroup_data_expect(struct kv_getgroup *g)
{
	g->rx.ref = g->base.call.id;
	g->rx.payload = data_coming;
	g->rx.got = data_came;
	g->rx.lost = data_lost;
	kv_link_rx_add(g->base.to, &g->rx);
}

/* ---- making groups ---- */

static const struct kv_group_ops ops = {
	.send = kv_getgroup_send,
	.fail = kv_getgroup_fail,
	.end = group_end,
};

static struct kv_getgroup *
group_find(struct kv_getop *op, struct kv_link *to, const struct kv_id *boot)
{
	struct kv_group *base = kv_group_find(&op->groups, to);
	struct kv_getgroup *g;

	if (base)
		return kv_getgroup_of(base);
	g = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->op = op;
	g->boot = *boot;
	g->base.ops = &ops;
	g->base.deadline = op->deadline;
	kv_group_init(&g->base, to, &op->groups);
	return g;
}

bool
kv_getgroup_add(struct kv_getop *op, struct kv_link *to,
		const struct kv_id *boot, uint32_t i)
{
	struct kv_getgroup *g = group_find(op, to, boot);

	op->keys[i].by_data = false;
	if (g && kv_group_add(&g->base, i))
		return true;
	kv_getop_lacks(op, -KV_ENOMEM);
	return false;
}

void
kv_getgroup_start_all(struct kv_getop *op)
{
	kv_group_start_all(&op->groups, &op->starting);
}

void
kv_getgroup_drop_all(struct kv_getop *op, int status)
{
	struct kv_group *base;

	while ((base = KV_LIST_FIRST(&op->groups, struct kv_group, link)))
		group_drop(kv_getgroup_of(base), status);
}

#include "svc/nodepush.h"

#include <errno.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/nodewindow.h"
#include "wire/msg.h"

/* Bytes may be on their way a little longer than the requester waits: when it
 * has closed the data connection there is nothing to cancel. */
#define LATE_NS (1 * KV_NS_PER_S)

struct get_move {
	struct kv_move move;
	struct get *get;
	uint64_t pin;
};

/* Bytes on their way out. */
struct get {
	struct kv_list all;  /* node->gets */
	struct kv_list link; /* peer->gets */
	struct kv_node *node;
	struct kv_nodepeer *peer; /* NULL: lost */
	struct kv_proc *proc;
	struct kv_timer timer;
	unsigned count;
	unsigned weight; /* that, and windows and pieces as such */
	unsigned out;    /* moves not done, and who starts it */
	/* NULL: values go by themselves. Else of `moves` the pins count. */
	struct kv_transfermove *transfer;
	struct get_move moves[];
};

/* All of a GET, by RDMA. */
struct transfer {
	struct kv_transfermove move;
	struct get *get;
	struct kv_rdmarange *far, *near;
	unsigned n_far, n_near, n_near_max;
	struct kv_rdmamem mems[]; /* the requester's windows */
};

static void
get_drop(struct get *g)
{
	struct kv_node *node = g->node;

	if (--g->out)
		return;
	kv_loop_timer_del(&g->timer);
	kv_list_del(&g->all);
	kv_list_del(&g->link);
	node->n_keys -= g->weight;
	if (g->peer) {
		g->peer->requests--;
		g->peer->n_keys -= g->weight;
	}
	kv_proc_unref(g->proc);
	free(g);
	kv_node_drained(node);
}

static void
get_late(struct kv_timer *t)
{
	struct get *g = KV_CONTAINER_OF(t, struct get, timer);
	unsigned i;

	if (g->transfer) {
		kv_mover_cancel(&g->transfer->move);
		return;
	}
	for (i = 0; i < g->count; i++)
		kv_mover_cancel(&g->moves[i].move);
}

void
kv_nodepush_peer_lost(struct kv_nodepeer *peer)
{
	struct get *g;

	/* Its data connections are closed with it: the moves come back. */
	while ((g = KV_LIST_FIRST(&peer->gets, struct get, link))) {
		kv_list_del(&g->link);
		g->peer = NULL;
	}
}

static void
get_moved(struct kv_move *m)
{
	struct get_move *gm = KV_CONTAINER_OF(m, struct get_move, move);

	kv_proc_unpin(gm->get->proc, gm->pin);
	get_drop(gm->get);
}

/* With room for `extra` bytes behind the moves. */
static struct get *
get_new(const struct kv_nodepush *push, size_t extra)
{
	struct kv_nodepeer *peer = push->peer;
	const struct kv_get *m = push->msg->body;
	struct kv_node *node = peer->node;
	unsigned count = push->pushes;
	uint64_t budget_ms =
		kv_min_u64(kv_get32(m->budget_ms), KV_BUDGET_MS_MAX);
	struct get *g;

	g = KV_FAULT_POINT()
		    ? NULL
		    : calloc(1,
			     sizeof(*g) + count * sizeof(g->moves[0]) + extra);
	if (!g)
		return NULL;
	g->timer.fn = get_late;
	if (kv_loop_timer_set(node->loop, &g->timer,
			      kv_loop_now(node->loop) + LATE_NS +
				      budget_ms * KV_NS_PER_MS) < 0) {
		free(g);
		return NULL;
	}
	g->node = node;
	g->peer = peer;
	g->proc = peer->proc;
	g->count = count;
	g->weight = count + push->weight;
	g->out = 1;
	kv_proc_ref(g->proc);
	kv_list_add_tail(&node->gets, &g->all);
	kv_list_add_tail(&peer->gets, &g->link);
	peer->requests++;
	peer->n_keys += g->weight;
	node->n_keys += g->weight;
	return g;
}

static void
plan_fail(struct kv_nodepeer *peer, struct kv_nodeget_plan *p, int rc)
{
	kv_proc_unpin(peer->proc, p->pin);
	p->status = (uint8_t)kv_status_from_errno(rc);
	p->how = KV_HOW_NONE;
}

static void
get_send(const struct kv_nodepush *push, struct kv_dataconn *dc)
{
	struct kv_nodeget_plan *plan = push->peer->node->plan;
	struct get *g = get_new(push, 0);
	struct get_move *gm = g ? g->moves : NULL;
	unsigned i;

	for (i = 0; i < push->n; i++) {
		struct kv_nodeget_plan *p = &plan[i];
		int rc = -ENOMEM;

		if (p->how != KV_HOW_DATA)
			continue;
		if (gm) {
			gm->get = g;
			gm->pin = p->pin;
			gm->move.ext = kv_index_extents(p->object);
			gm->move.n_ext = p->object->n_ext;
			gm->move.skip = p->off;
			gm->move.bytes = p->bytes;
			gm->move.ref = push->msg->id;
			gm->move.index = i;
			gm->move.done = get_moved;
			rc = kv_mover_push(dc, &gm->move);
		}
		if (rc < 0) {
			plan_fail(push->peer, p, rc);
			continue;
		}
		g->out++;
		gm++;
	}
	if (g)
		get_drop(g);
}

/* ---- by RDMA ---- */

/* All is written, or the requester was told that it will not be. */
static void
get_written(struct kv_move *m)
{
	struct transfer *t = KV_CONTAINER_OF(m, struct transfer, move.move);
	struct get *g = t->get;
	unsigned i;

	for (i = 0; i < g->count; i++)
		kv_proc_unpin(g->proc, g->moves[i].pin);
	get_drop(g);
}

static struct kv_nodewindow_value
plan_value(const struct kv_nodeget_plan *p)
{
	return (struct kv_nodewindow_value){
		.ext = kv_index_extents(p->object),
		.n_ext = p->object->n_ext,
		.skip = p->off,
		.bytes = p->bytes,
	};
}

/* One block for all of it: the transfer, the windows, the ranges. */
static struct transfer *
transfer_new(const struct kv_nodepush *push)
{
	const struct kv_rdmaregion *pool = push->peer->node->o.region;
	const struct kv_nodeget_plan *plan = push->peer->node->plan;
	size_t windows = push->windows->count, far = 0;
	struct kv_nodewindow_value v;
	struct transfer *t;
	struct get *g;
	unsigned i, near = 0;

	for (i = 0; i < push->n; i++) {
		if (plan[i].how != KV_HOW_RDMA)
			continue;
		v = plan_value(&plan[i]);
		near += kv_nodewindow_near_max(pool, &v);
		far += plan[i].n_pieces;
	}
	g = get_new(push, sizeof(*t) + windows * sizeof(t->mems[0]) +
				  (far + near) * sizeof(t->far[0]));
	if (!g)
		return NULL;
	t = (void *)&g->moves[g->count];
	t->get = g;
	t->far = (void *)&t->mems[windows];
	t->near = t->far + far;
	t->n_near_max = near;
	g->transfer = &t->move;
	kv_nodewindow_mems(push->windows, t->mems);
	return t;
}

static void
transfer_add(struct transfer *t, unsigned i, const struct kv_nodeget_plan *p)
{
	const struct kv_rdmaregion *pool = t->get->node->o.region;
	const struct kv_nodewindow_value v = plan_value(p);

	t->get->moves[i].pin = p->pin;
	t->n_far += kv_nodewindow_far(t->mems, p->pieces, p->bytes,
				      t->far + t->n_far);
	t->n_near += kv_nodewindow_near(pool, &v, t->near + t->n_near,
					t->n_near_max - t->n_near);
	t->move.xfer.bytes += p->bytes;
}

static void
get_write(const struct kv_nodepush *push, struct kv_dataconn *dc)
{
	struct kv_nodeget_plan *plan = push->peer->node->plan;
	const struct kv_get *m = push->msg->body;
	struct transfer *t = transfer_new(push);
	unsigned i, at = 0;
	int rc = -ENOMEM;

	for (i = 0; t && i < push->n; i++)
		if (plan[i].how == KV_HOW_RDMA)
			transfer_add(t, at++, &plan[i]);
	if (t) {
		t->move.xfer.kind = KV_RDMAXFER_WRITE;
		t->move.xfer.number = kv_get32(m->number);
		t->move.xfer.far = t->far;
		t->move.xfer.near = t->near;
		t->move.move.done = get_written;
		rc = kv_mover_transfer(dc, &t->move);
	}
	for (i = 0; rc < 0 && i < push->n; i++)
		if (plan[i].how == KV_HOW_RDMA)
			plan_fail(push->peer, &plan[i], rc);
	if (rc == 0)
		t->get->out++;
	if (t)
		get_drop(t->get);
}

void
kv_nodepush_start(const struct kv_nodepush *push)
{
	const struct kv_get *m = push->msg->body;
	struct kv_dataconn *dc =
		kv_nodepeer_data(push->peer, kv_get64(m->data_token));

	if (m->mode == KV_MODE_RDMA)
		get_write(push, dc);
	else
		get_send(push, dc);
}

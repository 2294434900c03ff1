#include "svc/nodepush.h"

#include <errno.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
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
	unsigned out; /* moves not done, and who starts it */
	struct get_move moves[];
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
	node->n_keys -= g->count;
	if (g->peer) {
		g->peer->requests--;
		g->peer->n_keys -= g->count;
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

static struct get *
get_new(struct kv_nodepeer *peer, unsigned count, uint32_t budget_ms)
{
	struct kv_node *node = peer->node;
	struct get *g;

	g = KV_FAULT_POINT()
		    ? NULL
		    : calloc(1, sizeof(*g) + count * sizeof(g->moves[0]));
	if (!g)
		return NULL;
	g->timer.fn = get_late;
	if (kv_loop_timer_set(node->loop, &g->timer,
			      kv_loop_now(node->loop) + LATE_NS +
				      kv_min_u64(budget_ms, KV_BUDGET_MS_MAX) *
					      KV_NS_PER_MS) < 0) {
		free(g);
		return NULL;
	}
	g->node = node;
	g->peer = peer;
	g->proc = peer->proc;
	g->count = count;
	g->out = 1;
	kv_proc_ref(g->proc);
	kv_list_add_tail(&node->gets, &g->all);
	kv_list_add_tail(&peer->gets, &g->link);
	peer->requests++;
	peer->n_keys += count;
	node->n_keys += count;
	return g;
}

void
kv_nodepush_start(struct kv_nodepeer *peer, const struct kv_msg *msg,
		  unsigned n, unsigned pushes)
{
	struct kv_nodeget_plan *plan = peer->node->plan;
	const struct kv_get *m = msg->body;
	struct kv_dataconn *dc =
		kv_nodepeer_data(peer, kv_get64(m->data_token));
	struct get *g = get_new(peer, pushes, kv_get32(m->budget_ms));
	struct get_move *gm = g ? g->moves : NULL;
	unsigned i;

	for (i = 0; i < n; i++) {
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
			gm->move.ref = msg->id;
			gm->move.index = i;
			gm->move.done = get_moved;
			rc = kv_mover_push(dc, &gm->move);
		}
		if (rc < 0) {
			kv_proc_unpin(peer->proc, p->pin);
			p->status = (uint8_t)kv_status_from_errno(rc);
			p->how = KV_HOW_NONE;
			continue;
		}
		g->out++;
		gm++;
	}
	if (g)
		get_drop(g);
}

/*
 * What was removed as a whole stays removed: generations of tenants at a node,
 * and what it adopted from a pool file until masters have said what of it still
 * counts.
 *
 * Another generation hides all that the tenant has here at once; it is dropped
 * in slices of about SLICE_NS.
 */

#include <string.h>

#include "base/attr.h"
#include "base/num.h"
#include "store/tenants.h"
#include "svc/gentable.h"
#include "svc/putkey.h"
#include "svc/session.h"
#include "wire/map.h"
#include "wire/msg.h"

#define SLICE_NS (1 * KV_NS_PER_MS)
/* Without a master what was adopted is served after this. */
#define WITHHELD_NS (2 * KV_NS_PER_S)
/* So long a master may take to tell what was missed. */
#define MISSED_NS (30 * KV_NS_PER_S)

enum {
	STEP = 64,            /* objects between two looks at the clock */
	SLICE_OBJECTS = 1024, /* where the clock stands still */
};

/* ---- dropping what is outdated ---- */

static void
purge_visit(void *arg, struct kv_object *o)
{
	struct kv_node *node = arg;

	kv_stats_add(&node->stats, KV_STAT_OUTDATED, 1);
	kv_nodeadmin_drop(node, o);
}

static void
purge_turn(struct kv_defer *d)
{
	struct kv_node *node = KV_CONTAINER_OF(d, struct kv_node, gen.purge);
	uint64_t start = kv_loop_refresh(node->loop);
	unsigned n = 0;

	do {
		node->gen.cursor = kv_index_scan_outdated(
			node->index, node->gen.cursor, STEP, purge_visit, node);
		n += STEP;
	} while (node->gen.cursor && n < SLICE_OBJECTS &&
		 kv_loop_refresh(node->loop) - start < SLICE_NS);
	if (!node->gen.cursor) {
		if (!node->gen.must_restart)
			return;
		node->gen.must_restart = false;
	}
	kv_loop_defer(node->loop, d);
}

void
kv_nodegen_purge(struct kv_node *node)
{
	node->gen.must_restart = node->gen.cursor != 0;
	kv_loop_defer(node->loop, &node->gen.purge);
}

void
kv_nodegen_outdate(struct kv_node *node, unsigned tenant)
{
	struct kv_tenants *t = kv_index_tenants(node->index);
	const char *name;
	size_t len;

	name = kv_tenants_name(t, tenant, &len);
	/* First: what is killed in between must not adopt what is older. */
	kv_nodekept_generation(node, name, len,
			       kv_generation_get(&node->gen.known, name, len),
			       kv_tenants_epoch(t, tenant) + 1);
	kv_tenants_outdate(t, tenant);
	kv_putkey_outdated(node);
}

/* ---- generations ---- */

struct kv_generation
kv_nodegen_get(const struct kv_node *node, unsigned tenant)
{
	const char *name;
	size_t len;

	name = kv_tenants_name(kv_index_tenants(node->index), tenant, &len);
	return kv_generation_get(&node->gen.known, name, len);
}

/* All masters hear of it, and so all nodes. */
static void
tell(struct kv_node *node, const char *name, size_t len, struct kv_generation g)
{
	unsigned i;

	for (i = 0; i < node->n_sessions; i++)
		if (kv_session_is_live(node, i))
			kv_gentable_tell(node->sessions[i]->conn, name, len, g);
}

/* What came since the node was asked to remove all, for the sake of this
 * generation, or of two that it stands for, is not older. */
static bool
was_emptied_for(const struct kv_node *node, struct kv_generation g)
{
	const struct kv_generation *e = node->gen.emptied;
	unsigned i, j;

	for (i = 0; i < KV_NODEGEN_EMPTIED && e[i].number > 0; i++)
		for (j = 0; j <= i; j++)
			if (kv_generation_is_equal(
				    kv_generation_merge(e[i], e[j]), g))
				return true;
	return false;
}

void
kv_nodegen_learn(struct kv_node *node, const char *name, size_t len,
		 struct kv_generation heard)
{
	const struct kv_tenants *t = kv_index_tenants(node->index);
	struct kv_generation g;
	int rc, tenant;

	if (len == 0) {
		name = "default";
		len = strlen(name);
	}
	rc = kv_generation_learn(&node->gen.known, name, len, heard);
	if (rc < 0)
		kv_log_limited(&node->bad_log, kv_loop_now(node->loop),
			       KV_LOG_WARN,
			       "cannot remember the generation of a tenant: %s",
			       strerror(-rc));
	if (rc <= 0)
		return;
	g = kv_generation_get(&node->gen.known, name, len);
	tenant = kv_tenants_find(t, name, len);
	if (tenant < 0 || was_emptied_for(node, heard) ||
	    was_emptied_for(node, g)) {
		kv_nodekept_generation(
			node, name, len, g,
			tenant < 0 ? 0 : kv_tenants_epoch(t, (unsigned)tenant));
	} else {
		kv_nodegen_outdate(node, (unsigned)tenant);
		kv_nodegen_purge(node);
	}
	tell(node, name, len, g);
}

void
kv_nodegen_emptied(struct kv_node *node, struct kv_generation g)
{
	/* One that is forgotten too early is emptied for once more. */
	if (g.number > 0)
		node->gen.emptied[node->gen.n_emptied++ % KV_NODEGEN_EMPTIED] =
			g;
}

bool
kv_nodegen_take(struct kv_node *node, struct kv_cut *cut, unsigned count)
{
	struct kv_map_generation m;
	unsigned i;

	for (i = 0; i < count && kv_map_generation_take(cut, &m); i++)
		kv_nodegen_learn(node, m.tenant, m.ent->tenant_len,
				 kv_gentable_parse(&m.ent->generation));
	return !cut->bad;
}

bool
kv_nodegen_msg(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_generation_news *m = msg->body;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	return kv_nodegen_take(peer->node, &cut, kv_get32(m->count)) &&
	       kv_cut_done(&cut);
}

/* ---- what is withheld ---- */

bool
kv_nodegen_is_early(const struct kv_node *node)
{
	return kv_index_is_withheld(node->index) && kv_node_sessions(node) == 0;
}

static void
release(struct kv_node *node, const char *why)
{
	struct kv_index_stats st;

	kv_loop_timer_del(&node->gen.hold);
	if (!kv_index_is_withheld(node->index))
		return;
	kv_index_withhold(node->index, false);
	kv_index_stats(node->index, &st);
	if (st.keys > 0)
		kv_info("what was adopted is served: %s", why);
}

static void
hold_late(struct kv_timer *t)
{
	struct kv_node *node = KV_CONTAINER_OF(t, struct kv_node, gen.hold);

	if (kv_node_sessions(node) > 0)
		return; /* it will say, or its session ends */
	release(node, "no master answers");
	kv_nodeput_early(node);
}

static void
hold(struct kv_node *node)
{
	if (kv_index_is_withheld(node->index) && !node->gen.hold.loop &&
	    kv_loop_timer_set(node->loop, &node->gen.hold,
			      kv_loop_now(node->loop) + WITHHELD_NS) < 0)
		release(node, "out of memory");
}

void
kv_nodegen_settle(struct kv_node *node)
{
	struct kv_session *s;
	unsigned i, owing = 0;

	for (i = 0; i < node->n_sessions; i++)
		owing += kv_session_is_live(node, i) &&
			 node->sessions[i]->missed > 0;
	if (owing == 0 && kv_node_sessions(node) > 0)
		release(node, "a master said what of it counts");
	hold(node);
	for (i = 0; i < node->n_sessions; i++) {
		s = node->sessions[i];
		if (!kv_session_is_live(node, i) || s->missed > 0 ||
		    s->has_published || kv_index_is_withheld(node->index))
			continue;
		s->has_published = true;
		kv_publish_start(s);
	}
	kv_nodeput_early(node);
}

bool
kv_nodegen_joined(struct kv_session *s, const struct kv_msg *msg)
{
	const struct kv_join_r *r = msg->body;
	struct kv_cut cut;

	s->live_ns = kv_loop_now(s->node->loop);
	s->missed = kv_get32(r->missed);
	s->has_published = false;
	kv_cut_init(&cut, msg);
	if (!kv_nodegen_take(s->node, &cut, kv_get16(r->generations)) ||
	    !kv_cut_done(&cut))
		return false;
	kv_nodegen_settle(s->node);
	return true;
}

bool
kv_nodegen_is_owed(const struct kv_session *s)
{
	return s->missed > 0 &&
	       kv_loop_now(s->node->loop) > s->live_ns + MISSED_NS;
}

void
kv_nodegen_told(struct kv_nodepeer *peer)
{
	struct kv_node *node = peer->node;
	unsigned i;

	for (i = 0; i < node->n_sessions; i++)
		if (node->sessions[i]->peer == peer &&
		    node->sessions[i]->missed > 0)
			node->sessions[i]->missed--;
	kv_nodegen_settle(node);
}

/* ---- start and end ---- */

int
kv_nodegen_start(struct kv_node *node)
{
	int rc;

	node->gen.purge.fn = purge_turn;
	node->gen.hold.fn = hold_late;
	rc = kv_nodekept_generations(node, &node->gen.known);
	if (rc < 0)
		return rc;
	/* Also when nothing was adopted: puts wait for the same word. */
	if (node->kept && node->o.masters[0]) {
		kv_index_withhold(node->index, true);
		hold(node);
	}
	return 0;
}

void
kv_nodegen_stop(struct kv_node *node)
{
	kv_loop_defer_del(&node->gen.purge);
	kv_loop_timer_del(&node->gen.hold);
}

void
kv_nodegen_fini(struct kv_node *node)
{
	kv_nodegen_stop(node);
	kv_generation_fini(&node->gen.known);
}

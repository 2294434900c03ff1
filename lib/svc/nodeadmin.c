/*
 * Removing and listing at a node. What must look at all keys does so in slices
 * of about SLICE_NS, so that gets and puts go on in between.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "net/answer.h"
#include "store/pattern.h"
#include "svc/gentable.h"
#include "svc/nodecore.h"
#include "wire/msg.h"

#define SLICE_NS (1 * KV_NS_PER_MS)

enum {
	/* Objects between two looks at the clock; what a pattern costs is not
	 * known before. */
	STEP = 16,
	STEP_MATCH = 1,
	SLICE_OBJECTS = 1024, /* where the clock stands still */
	PAGE_KEYS_MAX = 4096,
	PAGE_BYTES_MAX = KV_TAIL_MAX / 2, /* one more step surely fits */
};

void
kv_nodeadmin_drop(struct kv_node *node, struct kv_object *o)
{
	kv_session_withdraw(node, o);
	kv_index_drop(node->index, o);
}

/* A removal is of what is withheld, too. True: it was. */
static bool
lift(struct kv_node *node)
{
	bool is_withheld = kv_index_is_withheld(node->index);

	kv_index_withhold(node->index, false);
	return is_withheld;
}

/* What a scan looks for, and what it could not say. */
struct match {
	unsigned tenant;
	struct kv_pattern *pattern; /* NULL: all */
	uint64_t undecided;         /* keys on which it takes too much */
};

static unsigned
match_step(const struct match *m)
{
	return m->pattern ? STEP_MATCH : STEP;
}

static bool
match_is(struct match *m, const struct kv_object *o)
{
	int rc = 1;

	if (o->tenant != m->tenant)
		return false;
	if (m->pattern)
		rc = kv_pattern_match(m->pattern, o->key, o->key_len);
	m->undecided += rc < 0;
	return rc > 0;
}

static bool
may_remove(const struct kv_object *o, bool force)
{
	return force || !(o->flags & KV_OBJ_HARD_PIN);
}

/* ---- REMOVE ---- */

struct sweep {
	struct kv_nodejob job;
	struct match match;
	uint64_t cursor;
	uint64_t removed;
	uint32_t kept; /* for their hard pins */
	bool force;
	bool is_all;
	bool is_missed;   /* KV_REMOVE_MISSED */
	bool is_outdated; /* what is to go is, all of it */
	bool is_done;
	struct kv_generation generation; /* for the sake of which it goes */
};

static void
remove_answer(struct kv_nodepeer *peer, uint64_t id, int status,
	      const struct sweep *sw)
{
	struct kv_remove_r *r;

	kv_stats_add(&peer->node->stats, KV_STAT_REMOVED, sw->removed);
	r = kv_conn_begin(peer->conn, KV_MSG_REMOVE_R, id, 0);
	if (!r)
		return;
	r->status = (uint8_t)status;
	r->removed = kv_le64(sw->removed);
	r->kept = kv_le32(sw->kept);
	r->undecided = kv_le64(sw->match.undecided);
	kv_conn_end(peer->conn);
}

static void
sweep_outdated(void *arg, struct kv_object *o)
{
	struct sweep *sw = arg;

	if (o->tenant != sw->match.tenant)
		return;
	kv_nodeadmin_drop(sw->job.peer->node, o);
	sw->removed++;
}

static void
sweep_visit(void *arg, struct kv_object *o)
{
	struct sweep *sw = arg;

	if (!match_is(&sw->match, o))
		return;
	if (!may_remove(o, sw->force)) {
		sw->kept++;
		return;
	}
	kv_nodeadmin_drop(sw->job.peer->node, o);
	sw->removed++;
}

/* All of it is over. */
static void
sweep_done(struct sweep *sw)
{
	struct kv_nodepeer *peer = sw->job.peer;

	sw->is_done = true;
	if (sw->is_all && sw->kept == 0 && !sw->is_outdated)
		kv_nodegen_emptied(peer->node, sw->generation);
	remove_answer(peer, sw->job.id, KV_OK, sw);
	if (sw->is_missed)
		kv_nodegen_told(peer);
}

static bool
sweep_step(struct kv_nodejob *job)
{
	struct sweep *sw = KV_CONTAINER_OF(job, struct sweep, job);
	struct kv_node *node = job->peer->node;
	uint64_t start = kv_loop_refresh(node->loop);
	unsigned step = match_step(&sw->match), n = 0;
	bool is_withheld = lift(node);

	do {
		sw->cursor = sw->is_outdated
				     ? kv_index_scan_outdated(
					       node->index, sw->cursor, step,
					       sweep_outdated, sw)
				     : kv_index_scan(node->index, sw->cursor,
						     step, sweep_visit, sw);
		n += step;
	} while (sw->cursor && n < SLICE_OBJECTS &&
		 kv_loop_refresh(node->loop) - start < SLICE_NS);
	kv_index_withhold(node->index, is_withheld);
	if (!sw->cursor)
		sweep_done(sw);
	return sw->cursor;
}

static void
sweep_free(struct kv_nodejob *job)
{
	struct sweep *sw = KV_CONTAINER_OF(job, struct sweep, job);

	if (sw->is_outdated && !sw->is_done)
		kv_nodegen_purge(job->peer->node);
	kv_pattern_free(sw->match.pattern);
	free(sw);
}

/* A REMOVE, taken apart. */
struct removal {
	struct kv_nodepeer *peer;
	uint64_t id;
	bool force;
	bool is_missed;
	struct kv_generation generation; /* ALL: 0: none */
	struct kv_generation known;      /* here, of the tenant */
	int tenant; /* -ENOENT: nothing is stored under it */
	uint64_t seed;
	uint32_t count;
};

static int
remove_key(const struct removal *rm, const uint8_t *key, size_t len)
{
	struct kv_node *node = rm->peer->node;
	struct kv_object *o;
	bool is_withheld;

	if (rm->tenant < 0)
		return KV_EMISS;
	is_withheld = lift(node);
	o = kv_index_find(node->index, kv_key_hash(rm->seed, key, len),
			  (unsigned)rm->tenant, key, len);
	kv_index_withhold(node->index, is_withheld);
	if (!o || (o->flags & KV_OBJ_HIDDEN))
		return KV_EMISS;
	if (!may_remove(o, rm->force)) {
		/* Told too late, a master has taken it for gone. */
		(void)kv_session_publish(node, o);
		return KV_EBUSY;
	}
	kv_nodeadmin_drop(node, o);
	return KV_OK;
}

static bool
remove_keys(const struct removal *rm, struct kv_cut *cut)
{
	const struct kv_le16 *lens;
	struct kv_remove_r *r;
	uint64_t removed = 0;
	const uint8_t *keys;
	uint32_t kept = 0;
	size_t bytes = 0;
	uint8_t *statuses;
	void *tail;
	uint32_t i;

	lens = kv_cut_array(cut, rm->count, sizeof(*lens));
	for (i = 0; lens && i < rm->count; i++)
		bytes += kv_get16(lens[i]);
	keys = kv_cut_take(cut, bytes);
	if (!lens || !kv_cut_done(cut))
		return false;
	r = kv_conn_begin_tail(rm->peer->conn, KV_MSG_REMOVE_R, rm->id, 0,
			       rm->count, &tail);
	if (!r)
		return true;
	statuses = tail;
	for (i = 0; i < rm->count; i++) {
		statuses[i] = (uint8_t)remove_key(rm, keys, kv_get16(lens[i]));
		removed += statuses[i] == KV_OK;
		kept += statuses[i] == KV_EBUSY;
		keys += kv_get16(lens[i]);
	}
	kv_stats_add(&rm->peer->node->stats, KV_STAT_REMOVED, removed);
	r->count = kv_le32(rm->count);
	r->removed = kv_le64(removed);
	r->kept = kv_le32(kept);
	kv_conn_end(rm->peer->conn);
	if (rm->is_missed)
		kv_nodegen_told(rm->peer);
	return true;
}

static void
remove_nothing(const struct removal *rm)
{
	static const struct sweep nothing;

	remove_answer(rm->peer, rm->id, KV_OK, &nothing);
	if (rm->is_missed)
		kv_nodegen_told(rm->peer);
}

/* Nothing of the tenant is found from now on, if nothing is to be kept. */
static void
sweep_hide(struct sweep *sw, struct kv_node *node)
{
	struct kv_index_stats st;

	kv_index_stats(node->index, &st);
	if (!sw->is_all || (st.hard_pinned > 0 && !sw->force))
		return;
	sw->is_outdated = true;
	kv_nodegen_outdate(node, sw->match.tenant);
	kv_nodegen_emptied(node, sw->generation);
}

/* pattern NULL: all. */
static void
remove_matching(const struct removal *rm, const void *pattern, size_t len)
{
	static const struct sweep nothing;
	char text[KV_PATTERN_TEXT_BYTES] = "";
	struct kv_pattern *p = NULL;
	struct sweep *sw;

	if (kv_nodepeer_is_busy(rm->peer, 0)) {
		kv_answer_error(rm->peer->conn, rm->id, KV_EBUSY, NULL);
		return;
	}
	if (pattern) {
		p = kv_pattern_new(pattern, len, text);
		if (!p) {
			kv_answer_error(rm->peer->conn, rm->id, KV_EINVALID,
					text);
			return;
		}
	}
	if (rm->tenant < 0) {
		kv_nodegen_emptied(rm->peer->node, rm->generation);
		kv_pattern_free(p);
		remove_nothing(rm);
		return;
	}
	sw = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*sw));
	if (!sw) {
		kv_pattern_free(p);
		remove_answer(rm->peer, rm->id, KV_ENOMEM, &nothing);
		return;
	}
	sw->match.tenant = (unsigned)rm->tenant;
	sw->match.pattern = p;
	sw->force = rm->force;
	sw->is_all = !p;
	sw->is_missed = rm->is_missed;
	sw->generation = rm->generation;
	sweep_hide(sw, rm->peer->node);
	sw->job.step = sweep_step;
	sw->job.free = sweep_free;
	kv_nodejob_start(&sw->job, rm->peer, rm->id);
}

/*
 * The generation that it begins is not above what holds here: so it is over,
 * and a master has come to it late; or another one came first. What is here
 * may be newer than this one, and that may be older: whoever asks knows, and
 * asks again.
 */
static void
remove_late(const struct removal *rm)
{
	struct kv_remove_r *r;

	if (rm->is_missed ||
	    kv_generation_is_equal(rm->known, rm->generation)) {
		remove_nothing(rm);
		return;
	}
	r = kv_conn_begin(rm->peer->conn, KV_MSG_REMOVE_R, rm->id, 0);
	if (!r)
		return;
	r->status = KV_EBUSY;
	r->generation = kv_gentable_build(rm->known);
	kv_conn_end(rm->peer->conn);
}

bool
kv_nodeadmin_remove(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_remove *m = msg->body;
	struct removal rm = {
		.peer = peer,
		.id = msg->id,
		.force = m->flags & KV_REMOVE_FORCE,
		.is_missed = m->flags & KV_REMOVE_MISSED,
		.generation = kv_gentable_parse(&m->generation),
		.count = kv_get32(m->count),
	};
	const void *pattern;
	const char *tenant;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	tenant = kv_cut_take(&cut, m->tenant_len);
	if (!tenant)
		return false;
	rm.tenant = kv_nodeinfo_tenant(peer, tenant, m->tenant_len);
	rm.seed = kv_key_seed(tenant, m->tenant_len);
	if (rm.tenant == -EACCES) {
		kv_answer_error(peer->conn, msg->id, KV_EDENIED, NULL);
		return true;
	}
	/* A requester that asks the node itself removes but here. */
	if (peer->from != KV_FROM_MASTER)
		rm.generation.number = 0;
	rm.known = kv_generation_get(&peer->node->gen.known, tenant,
				     m->tenant_len);
	switch (m->op) {
	case KV_REMOVE_KEYS:
		return remove_keys(&rm, &cut);
	case KV_REMOVE_REGEX:
		pattern = kv_cut_take(&cut, rm.count);
		if (!kv_cut_done(&cut))
			return false;
		remove_matching(&rm, pattern, rm.count);
		return true;
	case KV_REMOVE_ALL:
		if (!kv_cut_done(&cut))
			return false;
		if (rm.generation.number > 0 &&
		    rm.known.number >= rm.generation.number)
			remove_late(&rm);
		else
			remove_matching(&rm, NULL, 0);
		return true;
	default:
		return false;
	}
}

/* ---- KEYS ---- */

struct page {
	struct match match;
	struct kv_bytes ents;
	struct kv_bytes keys;
	uint32_t count;
	bool is_broken; /* out of memory */
};

static void
page_visit(void *arg, struct kv_object *o)
{
	struct page *pg = arg;
	struct kv_keys_ent e = { 0 };

	if (!match_is(&pg->match, o))
		return;
	e.size = kv_le64(o->size);
	e.key_len = kv_le16(o->key_len);
	if (o->flags & KV_OBJ_SOFT_PIN)
		e.flags |= KV_PUT_SOFT_PIN;
	if (o->flags & KV_OBJ_HARD_PIN)
		e.flags |= KV_PUT_HARD_PIN;
	if (o->flags & KV_OBJ_SHARED)
		e.flags |= KV_KEYS_SHARED;
	e.putter = kv_le16(o->putter);
	if (kv_bytes_append(&pg->ents, &e, sizeof(e)) < 0 ||
	    kv_bytes_append(&pg->keys, o->key, o->key_len) < 0)
		pg->is_broken = true;
	else
		pg->count++;
}

/* Fills the page; where to go on. Whoever asks comes back for the next one, so
 * one slice a request will do. */
static uint64_t
page_scan(struct kv_node *node, struct page *pg, uint64_t cursor,
	  uint32_t limit)
{
	uint64_t start = kv_loop_refresh(node->loop);
	unsigned step = match_step(&pg->match), n = 0;

	do {
		cursor = kv_index_scan(node->index, cursor, step, page_visit,
				       pg);
		n += step;
	} while (cursor && !pg->is_broken && pg->count < limit &&
		 pg->ents.len + pg->keys.len < PAGE_BYTES_MAX &&
		 n < SLICE_OBJECTS * 16 &&
		 kv_loop_refresh(node->loop) - start < SLICE_NS);
	return cursor;
}

static void
page_answer(struct kv_nodepeer *peer, uint64_t id, const struct page *pg,
	    uint64_t cursor)
{
	size_t bytes = pg->ents.len + pg->keys.len;
	struct kv_keys_r *r;
	void *tail;

	if (pg->is_broken || bytes > KV_TAIL_MAX) {
		kv_answer_error(peer->conn, id, KV_ENOMEM, NULL);
		return;
	}
	r = kv_conn_begin_tail(peer->conn, KV_MSG_KEYS_R, id, 0, bytes, &tail);
	if (!r)
		return;
	r->node = peer->node->boot;
	if (cursor)
		r->next = peer->node->boot;
	r->cursor = kv_le64(cursor);
	r->count = kv_le32(pg->count);
	r->undecided = kv_le64(pg->match.undecided);
	if (pg->ents.len)
		memcpy(tail, pg->ents.data, pg->ents.len);
	if (pg->keys.len)
		memcpy((char *)tail + pg->ents.len, pg->keys.data,
		       pg->keys.len);
	kv_conn_end(peer->conn);
}

bool
kv_nodeadmin_keys(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_keys *m = msg->body;
	size_t pattern_len = kv_get16(m->pattern_len);
	uint32_t limit = kv_get32(m->limit);
	char text[KV_PATTERN_TEXT_BYTES] = "";
	uint64_t cursor = kv_get64(m->cursor);
	struct page pg = { 0 };
	const char *tenant;
	const void *pattern;
	struct kv_cut cut;
	int number;

	kv_cut_init(&cut, msg);
	tenant = kv_cut_take(&cut, m->tenant_len);
	pattern = kv_cut_take(&cut, pattern_len);
	if (!kv_cut_done(&cut))
		return false;
	number = kv_nodeinfo_tenant(peer, tenant, m->tenant_len);
	if (number == -EACCES) {
		kv_answer_error(peer->conn, msg->id, KV_EDENIED, NULL);
		return true;
	}
	if (pattern_len)
		pg.match.pattern = kv_pattern_new(pattern, pattern_len, text);
	if (pattern_len && !pg.match.pattern) {
		kv_answer_error(peer->conn, msg->id, KV_EINVALID, text);
		return true;
	}
	pg.match.tenant = (unsigned)number;
	limit = limit && limit < PAGE_KEYS_MAX ? limit : PAGE_KEYS_MAX;
	if (number >= 0)
		cursor = page_scan(peer->node, &pg, cursor, limit);
	else
		cursor = 0;
	page_answer(peer, msg->id, &pg, cursor);
	kv_pattern_free(pg.match.pattern);
	kv_bytes_fini(&pg.ents);
	kv_bytes_fini(&pg.keys);
	return true;
}

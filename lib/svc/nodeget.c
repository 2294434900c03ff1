/*
 * GET at a node: every key is looked up and planned, then the answer is built
 * in one piece. Small values ride in it. A process of this host gets the
 * extents, pinned until RELEASE; for others the bytes are sent (nodepush.h).
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/nodecore.h"
#include "svc/nodepush.h"
#include "svc/nodewindow.h"
#include "wire/msg.h"

/* Keys between the steps of fetching memory. Of 10^7 objects a get waits for
 * eight lines and their pages otherwise, one after the other: 0.7 us a key. */
#define AHEAD      8
#define NUMBER_MAX ((1u << KV_RAIL_NUMBER_BITS) - 1) /* of a transfer */
/* What is hidden for longer is a miss. */
#define HIDDEN_NS (200 * KV_NS_PER_MS)
/* One of several masters may be silent meanwhile, and the others have named
 * it. */
#define HIDDEN_LONG_NS (1500 * KV_NS_PER_MS)

struct kv_nodeget_plan *
kv_nodeget_plan_new(void)
{
	if (KV_FAULT_POINT())
		return NULL;
	return calloc(KV_BATCH_KEYS_MAX, sizeof(struct kv_nodeget_plan));
}

/* How many extents lie under [off, off + bytes) of a value. With out: them. */
static unsigned
extents_cut(const struct kv_object *o, uint64_t off, uint64_t bytes,
	    struct kv_extent_le *out)
{
	const struct kv_extent *e = kv_index_extents(o);
	unsigned i, n = 0;
	uint64_t len;

	for (i = 0; i < o->n_ext && bytes; i++) {
		if (off >= e[i].len) {
			off -= e[i].len;
			continue;
		}
		len = kv_min_u64(e[i].len - off, bytes);
		if (out) {
			out[n].off = kv_le64(e[i].off + off);
			out[n].len = kv_le64(len);
		}
		n++;
		bytes -= len;
		off = 0;
	}
	return n;
}

static void
value_copy(const struct kv_node *node, const struct kv_nodeget_plan *p,
	   uint8_t *out)
{
	const struct kv_extent *e = kv_index_extents(p->object);
	const uint8_t *pool = node->o.pool;
	uint64_t off = p->off, left = p->bytes, len;

	for (; left; e++) {
		if (off >= e->len) {
			off -= e->len;
			continue;
		}
		len = kv_min_u64(e->len - off, left);
		memcpy(out, pool + e->off + off, len);
		out += len;
		left -= len;
		off = 0;
	}
}

/* One GET, while it is planned. */
struct planner {
	struct kv_nodepeer *peer;
	const struct kv_get *msg;
	uint64_t inline_max;
	size_t room; /* left in the answer */
	bool has_data;
	bool has_rdma;
	unsigned pushes;
	struct kv_map_windows windows; /* KV_MODE_RDMA */
	size_t pieces;
};

/* It is there, and is to be read in place or sent. */
static int
plan_pin(struct planner *g, struct kv_nodeget_plan *p)
{
	struct kv_proc *proc = g->peer->proc;
	bool is_shm = g->msg->mode == KV_MODE_SHM;
	bool is_rdma = g->msg->mode == KV_MODE_RDMA;
	unsigned n_ext = 0;
	size_t need;

	if (is_shm)
		n_ext = extents_cut(p->object, p->off, p->bytes, NULL);
	else if (!g->has_data)
		return KV_ECONNLOST;
	else if (is_rdma && !g->has_rdma)
		return KV_ETRANSFER;
	need = n_ext * sizeof(struct kv_extent_le);
	if (need > g->room || !kv_proc_has_room(proc, p->object)) {
		kv_stats_add(&proc->node->stats, KV_STAT_GETS_BUSY, 1);
		return KV_EBUSY;
	}
	p->pin = kv_proc_pin(proc, p->object,
			     g->msg->flags & KV_GET_ZERO_COPY ? 0
							      : g->peer->token);
	if (!p->pin)
		return KV_ENOMEM;
	p->n_ext = (uint16_t)n_ext;
	g->room -= need;
	g->pushes += !is_shm;
	p->n_ext = (uint16_t)n_ext;
	p->how = is_shm ? KV_HOW_EXTENTS : is_rdma ? KV_HOW_RDMA : KV_HOW_DATA;
	return KV_OK;
}

/* The master may have named this node already, and its verdict be on its way
 * here: who comes to copy it asks again. */
static int
hidden_status(const struct planner *g, const struct kv_object *o)
{
	const struct kv_node *node = g->peer->node;
	uint64_t most = node->n_sessions > 1 ? HIDDEN_LONG_NS : HIDDEN_NS;

	if (g->msg->flags & KV_GET_ZERO_COPY ||
	    kv_loop_now(node->loop) > o->used_ns + most)
		return KV_EMISS;
	return KV_EBUSY;
}

static int
plan_key(struct planner *g, const struct kv_get_ent *ent,
	 struct kv_nodeget_plan *p)
{
	struct kv_node *node = g->peer->node;
	uint64_t len = kv_get64(ent->len);
	bool is_range = ent->flags & KV_ENT_RANGE;
	struct kv_object *o;

	p->how = KV_HOW_NONE;
	p->n_ext = 0;
	p->pin = 0;
	p->object = NULL;
	o = kv_index_find(node->index, p->hash, g->peer->tenant, p->key,
			  kv_get16(ent->key_len));
	if (!o)
		return KV_EMISS;
	if (o->flags & KV_OBJ_HIDDEN)
		return hidden_status(g, o);
	if (o->flags & KV_OBJ_UNCHECKED)
		return KV_ENOMEM; /* or it would have been checked */
	p->object = o;
	p->off = is_range ? kv_min_u64(kv_get64(ent->off), o->size) : 0;
	p->bytes = kv_min_u64(len, o->size - p->off);
	if (!is_range && len < o->size)
		return KV_ETOOBIG;
	if (!(g->msg->flags & KV_GET_ZERO_COPY) && p->bytes <= g->inline_max &&
	    p->bytes <= g->room) {
		kv_index_touch(node->index, o, kv_loop_now(node->loop));
		g->room -= p->bytes;
		p->how = KV_HOW_INLINE;
		return KV_OK;
	}
	if (g->msg->mode != KV_MODE_SHM && p->bytes == 0) {
		p->how = KV_HOW_INLINE;
		return KV_OK;
	}
	return plan_pin(g, p);
}

static void
get_count(const struct kv_nodepeer *peer, unsigned n)
{
	const struct kv_nodeget_plan *plan = peer->node->plan;
	struct kv_stats_set *stats = &peer->node->stats;
	uint16_t reader = kv_node_putter(&peer->boot);
	uint64_t hits = 0, bytes = 0, shared = 0;
	struct kv_object *o;
	unsigned i;

	for (i = 0; i < n; i++) {
		o = plan[i].object;
		hits += o != NULL;
		if (o && o->putter && o->putter != reader) {
			o->flags |= KV_OBJ_SHARED;
			shared++;
		}
		if (plan[i].status == KV_OK)
			bytes += plan[i].bytes;
	}
	kv_stats_add(stats, KV_STAT_GETS, n);
	kv_stats_add(stats, KV_STAT_GETS_HIT, hits);
	kv_stats_add(stats, KV_STAT_GETS_SHARED, shared);
	kv_stats_add(stats, KV_STAT_GET_BYTES, bytes);
}

/* Where the parts of GET_R begin. */
struct answer {
	struct kv_get_ent_r *ents;
	struct kv_extent_le *exts;
	uint8_t *values;
};

static bool
answer_begin(struct kv_conn *c, uint64_t id, const struct kv_nodeget_plan *plan,
	     unsigned n, struct answer *a)
{
	size_t exts = 0, values = 0;
	struct kv_get_r *r;
	void *tail;
	unsigned i;

	for (i = 0; i < n; i++) {
		exts += plan[i].n_ext;
		values += plan[i].how == KV_HOW_INLINE ? plan[i].bytes : 0;
	}
	r = kv_conn_begin_tail(
		c, KV_MSG_GET_R, id, 0,
		n * sizeof(*a->ents) + exts * sizeof(*a->exts) + values, &tail);
	if (!r)
		return false;
	a->ents = tail;
	a->exts = (void *)(a->ents + n);
	a->values = (void *)(a->exts + exts);
	r->count = kv_le32(n);
	return true;
}

/* Asks for the beginning of a small value: the rest comes by itself. */
static void
value_prefetch(const struct kv_node *node, const struct kv_nodeget_plan *p)
{
	const char *from = node->o.pool;
	uint64_t i;

	if (p->how != KV_HOW_INLINE || p->bytes == 0)
		return;
	from += kv_index_extents(p->object)->off + p->off;
	for (i = 0; i < 256 && i < p->bytes; i += 64)
		__builtin_prefetch(from + i);
}

static void
get_answer(struct kv_nodepeer *peer, uint64_t id, unsigned n)
{
	const struct kv_nodeget_plan *p = peer->node->plan;
	struct answer a;
	unsigned i;

	if (!answer_begin(peer->conn, id, p, n, &a)) {
		/* Nobody will hear of these pins, so nobody would release
		 * them. */
		for (i = 0; i < n; i++)
			if (p[i].how == KV_HOW_EXTENTS)
				kv_proc_unpin(peer->proc, p[i].pin);
		return;
	}
	for (i = 0; i < n; i++, p++) {
		struct kv_get_ent_r *e = &a.ents[i];

		if (i + AHEAD < n)
			value_prefetch(peer->node, p + AHEAD);
		memset(e, 0, sizeof(*e));
		e->status = p->status;
		e->how = p->how;
		if (p->object)
			e->size = kv_le64(p->object->size);
		if (p->how == KV_HOW_EXTENTS) {
			e->pin = kv_le64(p->pin);
			e->extents = kv_le16(p->n_ext);
			a.exts += extents_cut(p->object, p->off, p->bytes,
					      a.exts);
		} else if (p->how == KV_HOW_INLINE) {
			e->inline_len = kv_le32((uint32_t)p->bytes);
			value_copy(peer->node, p, a.values);
			a.values += p->bytes;
		}
	}
	kv_conn_end(peer->conn);
}

static void
get_refuse(struct kv_nodepeer *peer, uint64_t id, int status)
{
	struct kv_get_r *r = kv_conn_begin(peer->conn, KV_MSG_GET_R, id, 0);

	if (!r)
		return;
	r->status = (uint8_t)status;
	kv_conn_end(peer->conn);
}

static int
get_check(struct kv_nodepeer *peer, const struct kv_get *m, unsigned weight)
{
	uint32_t n = kv_get32(m->count);

	if (n == 0 || n > KV_BATCH_KEYS_MAX || m->mode < KV_MODE_SHM ||
	    m->mode > KV_MODE_RDMA)
		return KV_EINVALID;
	if (m->mode == KV_MODE_RDMA && kv_get32(m->number) > NUMBER_MAX)
		return KV_EINVALID;
	if (m->mode == KV_MODE_SHM && !peer->proc->is_attached)
		return KV_EDENIED;
	return kv_nodepeer_is_busy(peer, n + weight) ? KV_EBUSY : KV_OK;
}

/* Takes windows, entries, keys and pieces apart. False: broken. */
static bool
plan_begin(struct planner *g, const struct kv_msg *msg,
	   const struct kv_get_ent **ents, uint32_t n)
{
	struct kv_nodeget_plan *plan = g->peer->node->plan;
	bool is_rdma = g->msg->mode == KV_MODE_RDMA;
	struct kv_cut cut;
	uint32_t i;

	kv_cut_init(&cut, msg);
	if (is_rdma && !kv_map_windows_take(&cut, kv_get32(g->msg->windows),
					    g->msg->ports, &g->windows))
		return false;
	*ents = kv_cut_array(&cut, n, sizeof(**ents));
	if (!*ents)
		return false;
	if (n > KV_BATCH_KEYS_MAX)
		return true;
	for (i = 0; i < n; i++) {
		uint16_t len = kv_get16((*ents)[i].key_len);

		plan[i].key = kv_cut_take(&cut, len);
		if (!plan[i].key)
			return false;
		plan[i].hash = kv_key_hash(g->peer->seed, plan[i].key, len);
	}
	for (i = 0; is_rdma && i < n; i++) {
		plan[i].n_pieces = kv_get32((*ents)[i].pieces);
		g->pieces += plan[i].n_pieces;
		plan[i].pieces =
			kv_map_pieces_take(&cut, &g->windows, plan[i].n_pieces,
					   kv_get64((*ents)[i].len));
	}
	return kv_cut_done(&cut);
}

struct kv_hash
kv_nodeget_hash(const struct kv_node *node, unsigned i)
{
	return node->plan[i].hash;
}

/* Plans all keys, while memory of those after them is on its way. Returns how
 * many are to be pushed. */
static unsigned
plan_all(struct planner *g, const struct kv_get_ent *ents, uint32_t n)
{
	struct kv_node *node = g->peer->node;
	struct kv_nodeget_plan *plan = node->plan;
	uint32_t i, at;

	for (i = 0; i < n + 3 * AHEAD; i++) {
		if (i < n)
			kv_index_prefetch(node->index, plan[i].hash);
		at = i - AHEAD;
		if (at < n)
			kv_index_prefetch_object(node->index, plan[at].hash);
		at -= AHEAD;
		if (at < n)
			kv_index_prefetch_order(node->index, plan[at].hash);
		at -= AHEAD;
		if (at < n)
			plan[at].status =
				(uint8_t)plan_key(g, &ents[at], &plan[at]);
	}
	return g->pushes;
}

static bool
get_run(struct kv_nodepeer *peer, const struct kv_msg *msg, bool is_checked)
{
	const struct kv_get *m = msg->body;
	struct kv_node *node = peer->node;
	uint32_t n = kv_get32(m->count);
	struct planner g = { .peer = peer, .msg = m };
	struct kv_nodepush push = {
		.peer = peer,
		.msg = msg,
		.n = n,
		.windows = &g.windows,
	};
	struct kv_dataconn *dc;
	const struct kv_get_ent *ents;
	int status;

	if (!plan_begin(&g, msg, &ents, n))
		return false;
	push.weight = kv_nodewindow_weight(g.windows.count, g.pieces);
	status = get_check(peer, m, push.weight);
	if (status != KV_OK) {
		get_refuse(peer, msg->id, status);
		return true;
	}
	if (!is_checked && kv_index_has_unchecked(node->index) &&
	    kv_nodesum_before_get(peer, msg, n))
		return true;
	g.inline_max = kv_min_u64(kv_get32(m->inline_max), KV_INLINE_BYTES_MAX);
	g.room = KV_TAIL_MAX - n * sizeof(struct kv_get_ent_r);
	dc = kv_nodepeer_data(peer, kv_get64(m->data_token));
	g.has_data = dc != NULL;
	g.has_rdma = dc && kv_mover_has_rdma(dc);
	push.pushes = plan_all(&g, ents, n);
	if (push.pushes)
		kv_nodepush_start(&push);
	get_count(peer, n);
	get_answer(peer, msg->id, n);
	return true;
}

bool
kv_nodeget_start(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	return get_run(peer, msg, false);
}

bool
kv_nodeget_run(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	return get_run(peer, msg, true);
}

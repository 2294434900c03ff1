/*
 * PUT at a node: takes the request apart, hears of what was filled, says what
 * was granted and how it ended. What happens to each key in between: putkey.h.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "mem/slab.h"
#include "store/tenants.h"
#include "svc/gentable.h"
#include "svc/nodecore.h"
#include "svc/nodewindow.h"
#include "svc/putkey.h"
#include "svc/putparts.h"
#include "wire/msg.h"

/* Keys between the one that is begun and the one whose memory is asked for. */
#define AHEAD 12

void
kv_nodeput_drop(struct kv_nodeput *put)
{
	struct kv_node *node = put->node;

	if (--put->busy)
		return;
	kv_list_del(&put->all);
	kv_list_del(&put->link);
	node->n_keys -= put->weight;
	kv_proc_unref(put->proc);
	free(put);
	kv_node_drained(node);
}

static void
put_forget_peer(struct kv_nodeput *put)
{
	kv_loop_timer_del(&put->timer);
	kv_list_del(&put->link);
	put->peer->requests--;
	put->peer->n_keys -= put->weight;
	put->peer = NULL;
}

void
kv_nodeput_answer(struct kv_nodeput *put)
{
	struct kv_conn *c;
	struct kv_put_r *r;
	uint8_t *statuses;
	unsigned i;
	void *tail;

	if (!put->peer)
		return;
	c = put->peer->conn;
	put_forget_peer(put);
	r = kv_conn_begin_tail(c, KV_MSG_PUT_R, put->id, 0, put->count, &tail);
	if (!r)
		return;
	statuses = tail;
	r->count = kv_le32(put->count);
	for (i = 0; i < put->count; i++)
		statuses[i] = put->keys[i].status;
	kv_conn_end(c);
}

static void
put_give_up(struct kv_nodeput *put, int status)
{
	unsigned i;

	put->busy++;
	for (i = 0; i < put->count; i++)
		kv_putkey_give_up(&put->keys[i], status);
	kv_nodeput_drop(put);
}

static void
put_late(struct kv_timer *t)
{
	put_give_up(KV_CONTAINER_OF(t, struct kv_nodeput, timer), KV_ETIMEOUT);
}

/* All of its puts forget it before the first one ends: what waits for that one
 * may be another of them. */
void
kv_nodeput_peer_lost(struct kv_nodepeer *peer)
{
	struct kv_nodeput *put;
	struct kv_list lost;

	kv_list_init(&lost);
	while ((put = KV_LIST_FIRST(&peer->puts, struct kv_nodeput, link))) {
		put_forget_peer(put);
		kv_list_add_tail(&lost, &put->link);
	}
	while ((put = KV_LIST_FIRST(&lost, struct kv_nodeput, link))) {
		kv_list_del(&put->link);
		put_give_up(put, KV_ECANCELED);
	}
}

/* ---- GRANT_R ---- */

/* How many of the new grants go into one frame, and how long its tail is. */
static unsigned
put_measure(struct kv_nodeput *put, size_t *tail)
{
	struct kv_putkey *k;
	unsigned count = 0;
	size_t bytes;

	*tail = 0;
	KV_LIST_FOREACH(k, &put->fresh, fresh) {
		bytes = sizeof(struct kv_grant_ent);
		if (put->mode == KV_MODE_SHM)
			bytes += k->n_ext * sizeof(struct kv_extent_le);
		if (*tail + bytes > KV_TAIL_MAX)
			break;
		*tail += bytes;
		count++;
	}
	return count;
}

static struct kv_extent_le *
grant_fill(const struct kv_nodeput *put, const struct kv_putkey *k,
	   struct kv_grant_ent *ent, struct kv_extent_le *ext)
{
	const struct kv_extent *e = kv_putkey_extents(k);
	unsigned i, n = put->mode == KV_MODE_SHM ? k->n_ext : 0;

	ent->grant = kv_le64(k->grant.hash);
	ent->index = kv_le32((uint32_t)(k - put->keys));
	ent->extents = kv_le32(n);
	for (i = 0; i < n; i++, ext++) {
		ext->off = kv_le64(e[i].off);
		ext->len = kv_le64(e[i].len);
	}
	return ext;
}

/* Says what was granted since the last time. */
static void
put_tell(struct kv_nodeput *put)
{
	struct kv_conn *c = put->peer ? put->peer->conn : NULL;
	struct kv_extent_le *ext;
	struct kv_grant_ent *ent;
	struct kv_grant_r *r;
	struct kv_putkey *k;
	unsigned i, count;
	size_t bytes;
	void *tail;

	while (!kv_list_is_empty(&put->fresh)) {
		count = put_measure(put, &bytes);
		r = c ? kv_conn_begin_tail(c, KV_MSG_GRANT_R, put->id,
					   KV_FLAG_MORE, bytes, &tail)
		      : NULL;
		if (!r)
			return; /* it is lost: nobody waits for this */
		ent = tail;
		r->count = kv_le32(count);
		r->ready_bytes = kv_le64(put->node->ready_bytes);
		ext = (void *)(ent + count);
		for (i = 0; i < count; i++) {
			k = KV_LIST_FIRST(&put->fresh, struct kv_putkey, fresh);
			ext = grant_fill(put, k, &ent[i], ext);
			kv_list_del(&k->fresh);
		}
		kv_conn_end(c);
	}
}

/* ---- FILLED ---- */

bool
kv_nodeput_filled(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_filled *f = msg->body;
	uint32_t i, n = kv_get32(f->count);
	bool gave_up = f->flags & KV_FILLED_GIVE_UP;
	const struct kv_le64 *grants;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	grants = kv_cut_array(&cut, n, sizeof(*grants));
	if (!kv_cut_done(&cut))
		return false;
	for (i = 0; i < n; i++) {
		struct kv_putkey *k =
			kv_putkey_find_grant(peer->node, kv_get64(grants[i]));

		/* A grant may be over already, or never have been its own. */
		if (!k || k->put->proc != peer->proc)
			continue;
		if (k->put->mode == KV_MODE_SHM)
			kv_putkey_filled(k, gave_up ? KV_ECANCELED : KV_OK);
		else if (gave_up)
			kv_putkey_give_up(k, KV_ECANCELED);
	}
	return true;
}

void
kv_nodeput_let_go(struct kv_nodeput *put)
{
	if (!put)
		return;
	put_tell(put);
	kv_nodeput_drop(put);
}

/* ---- pages ---- */

void
kv_nodeput_pages(struct kv_node *node)
{
	bool is_all = node->ready_bytes >= node->pool_bytes;
	struct kv_nodeput *put = NULL;
	struct kv_putkey *k;
	size_t n = 0;

	KV_LIST_FOREACH(k, &node->pages, link)
		n++;
	/* In order: a large value is not overtaken for ever. */
	while (n-- > 0 &&
	       (k = KV_LIST_FIRST(&node->pages, struct kv_putkey, link))) {
		if (!is_all && kv_slab_free_bytes(node->slab) < k->size)
			break;
		if (k->put != put) {
			kv_nodeput_let_go(put);
			put = k->put;
			put->busy++;
		}
		kv_list_del(&k->link);
		kv_putkey_place(k);
	}
	kv_nodeput_let_go(put);
}

/* ---- before masters were heard of ---- */

void
kv_nodeput_early(struct kv_node *node)
{
	struct kv_nodeput *put = NULL;
	struct kv_putkey *k;

	while (!kv_nodegen_is_early(node) &&
	       (k = KV_LIST_FIRST(&node->early, struct kv_putkey, link))) {
		if (k->put != put) {
			kv_nodeput_let_go(put);
			put = k->put;
			put->busy++;
			/* What was removed before is not of its time. */
			put->epoch = kv_tenants_epoch(
				kv_index_tenants(node->index), put->tenant);
		}
		kv_list_del(&k->link);
		k->state = KV_PUTKEY_NEW;
		kv_putkey_admit(k);
	}
	kv_nodeput_let_go(put);
}

/* ---- PUT ---- */

/* newer: the generation that holds, if that is why. */
static void
put_refuse(struct kv_nodepeer *peer, uint64_t id, int status,
	   struct kv_generation newer)
{
	struct kv_put_r *r = kv_conn_begin(peer->conn, KV_MSG_PUT_R, id, 0);

	if (!r)
		return;
	r->status = (uint8_t)status;
	r->generation = kv_gentable_build(newer);
	kv_conn_end(peer->conn);
}

/*
 * Was all removed that the requester had put before it heard of that? Then this
 * may be such a put, which was on its way for long, and for which nobody waits
 * any more: who still does begins again.
 */
static bool
put_is_old(struct kv_nodepeer *peer, const struct kv_put *m,
	   struct kv_generation *newer)
{
	struct kv_generation g = kv_gentable_parse(&m->generation);
	struct kv_generation known = kv_nodegen_get(peer->node, peer->tenant);
	const char *name;
	size_t len;

	if (kv_generation_is_equal(g, known))
		return false;
	if (g.number > known.number) {
		name = kv_tenants_name(kv_index_tenants(peer->node->index),
				       peer->tenant, &len);
		kv_nodegen_learn(peer->node, name, len, g);
		return false;
	}
	*newer = known;
	return true;
}

/* KV_OK, or what the whole put is refused with. */
static int
put_check(const struct kv_nodepeer *peer, const struct kv_put *m)
{
	const struct kv_node *node = peer->node;
	uint32_t n = kv_get32(m->count);

	if (node->phase != KV_NODE_RUNNING)
		return KV_ECLOSED;
	if (n == 0 || n > KV_BATCH_KEYS_MAX || m->mode < KV_MODE_SHM ||
	    m->mode > KV_MODE_RDMA)
		return KV_EINVALID;
	if (m->mode == KV_MODE_SHM && !peer->proc->may_write)
		return KV_EDENIED;
	return KV_OK;
}

static unsigned
parts_weight(uint32_t n, const struct kv_putparts *p)
{
	return n + kv_nodewindow_weight(p->windows.count, p->sum.pieces);
}

/* One block for everything: the keys' states (put_keys_init() fills them in),
 * their moves, the bytes of those whose values are to come. */
static struct kv_nodeput *
put_alloc(const struct kv_put *m, const struct kv_putparts *p, uint8_t **own)
{
	size_t n = kv_get32(m->count);
	size_t moves = m->mode == KV_MODE_DATA ? n : 0;
	size_t pulls = m->mode == KV_MODE_RDMA ? n : 0;
	struct kv_nodeput *put;
	size_t bytes, more;

	bytes = sizeof(*put) + n * sizeof(put->keys[0]);
	more = moves * sizeof(put->moves[0]) + pulls * sizeof(put->pulls[0]) +
	       p->windows.count * sizeof(put->mems[0]) +
	       p->sum.pieces * sizeof(put->pulls[0].far[0]);
	put = KV_FAULT_POINT() ? NULL : malloc(bytes + more + p->sum.own);
	if (!put)
		return NULL;
	memset(put, 0, sizeof(*put));
	*own = (uint8_t *)put + bytes;
	memset(*own, 0, more);
	if (moves)
		put->moves = (void *)*own;
	if (pulls) {
		put->pulls = (void *)*own;
		put->mems = (void *)&put->pulls[n];
		kv_nodewindow_mems(&p->windows, put->mems);
	}
	*own += more;
	return put;
}

static struct kv_nodeput *
put_new(struct kv_nodepeer *peer, const struct kv_msg *msg,
	const struct kv_putparts *p, uint8_t **own)
{
	const struct kv_put *m = msg->body;
	struct kv_node *node = peer->node;
	struct kv_nodeput *put = put_alloc(m, p, own);

	if (!put)
		return NULL;
	put->node = node;
	put->peer = peer;
	put->proc = peer->proc;
	put->id = msg->id;
	put->random = kv_get64(m->put_id.random);
	put->version = kv_get32(m->put_id.version);
	put->mode = m->mode;
	put->flags = m->flags;
	put->data_token = kv_get64(m->data_token);
	put->token = peer->token;
	put->tenant = peer->tenant;
	put->epoch =
		kv_tenants_epoch(kv_index_tenants(node->index), put->tenant);
	put->putter = kv_node_putter(&peer->boot);
	put->count = kv_get32(m->count);
	put->weight = parts_weight(put->count, p);
	put->open = put->count;
	put->busy = put->count + 1; /* the one who starts it */
	put->timer.fn = put_late;
	kv_list_init(&put->fresh);
	if (kv_loop_timer_set(node->loop, &put->timer,
			      kv_loop_now(node->loop) +
				      kv_min_u64(kv_get32(m->budget_ms),
						 KV_BUDGET_MS_MAX) *
					      KV_NS_PER_MS) < 0) {
		free(put);
		return NULL;
	}
	kv_proc_ref(put->proc);
	kv_list_add_tail(&node->puts, &put->all);
	node->n_keys += put->weight;
	kv_list_add_tail(&peer->puts, &put->link);
	peer->requests++;
	peer->n_keys += put->weight;
	return put;
}

/* Fills in the keys from their entries; key and value bytes follow these. What
 * is small is done with while the message is there, or else kept by itself; the
 * bytes of other keys are copied to `own`. */
static void
put_keys_init(struct kv_nodeput *put, const struct kv_putparts *p, uint8_t *own)
{
	const uint8_t *keys = p->keys, *values = p->values;
	const struct kv_put_ent *ents = p->ents;
	uint64_t seed = put->peer->seed;
	unsigned i;

	for (i = 0; i < put->count; i++) {
		struct kv_putkey *k = &put->keys[i];
		size_t len = kv_get16(ents[i].key_len);

		*k = (struct kv_putkey){
			.put = put,
			.hash = kv_key_hash(seed, keys, len),
			.key = keys,
			.key_len = (uint16_t)len,
			.size = kv_get64(ents[i].size),
			.is_inline = ents[i].flags & KV_ENT_INLINE,
		};
		if (k->is_inline) {
			k->value = values;
			values += k->size;
		} else {
			k->key = memcpy(own, keys, len);
			own += len;
		}
		keys += len;
		kv_list_init(&k->link);
		kv_list_init(&k->twins);
		kv_list_init(&k->fresh);
	}
}

/* KV_MODE_RDMA: where the value of each key lies. */
static void
put_pulls_init(struct kv_nodeput *put, const struct kv_putparts *p)
{
	struct kv_rdmarange *far = (void *)&put->mems[p->windows.count];
	const struct kv_piece *pieces = p->pieces;
	unsigned i;

	for (i = 0; i < put->count; i++) {
		put->pulls[i].far = far;
		if (put->keys[i].is_inline)
			continue;
		far += kv_nodewindow_far(put->mems, pieces, put->keys[i].size,
					 far);
		pieces += kv_get32(p->ents[i].pieces);
	}
}

/* Of equal keys in one put the first counts: finds the others. */
static void
put_find_repeats(struct kv_nodeput *put)
{
	uint16_t *seen = put->node->seen; /* place in the put + 1, by hash */
	size_t mask = 1, at;
	unsigned i;

	while (mask < 2 * (size_t)put->count)
		mask <<= 1;
	memset(seen, 0, mask * sizeof(seen[0]));
	mask--;
	for (i = 0; i < put->count; i++) {
		struct kv_putkey *k = &put->keys[i];

		for (at = k->hash.lo & mask; seen[at]; at = (at + 1) & mask)
			if (kv_key_hash_is_equal(put->keys[seen[at] - 1].hash,
						 k->hash))
				break;
		k->is_repeat = seen[at] != 0;
		if (!k->is_repeat)
			seen[at] = (uint16_t)(i + 1);
	}
}

static int
key_check(const struct kv_putkey *k)
{
	if (k->key_len < KV_KEY_BYTES_MIN || k->key_len > KV_KEY_BYTES_MAX)
		return KV_EINVALID;
	if (k->size > k->put->node->pool_bytes)
		return KV_ETOOBIG;
	if (k->is_repeat)
		return KV_EEXISTS;
	return KV_OK;
}

/* Starts all keys. Of later ones the index is asked for meanwhile: of so few
 * that it is still in the nearest cache when they come. */
static void
put_admit_all(struct kv_nodeput *put)
{
	const struct kv_index *ix = put->node->index;
	unsigned i, n = put->count;
	struct kv_putkey *k;
	int status;

	for (i = 0; i < n && i < AHEAD; i++)
		kv_index_prefetch(ix, put->keys[i].hash);
	for (i = 0; i < n; i++) {
		if (i + AHEAD < n)
			kv_index_prefetch(ix, put->keys[i + AHEAD].hash);
		k = &put->keys[i];
		status = key_check(k);
		if (status == KV_OK)
			kv_putkey_admit(k);
		else
			kv_putkey_give_up(k, status);
	}
}

bool
kv_nodeput_start(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_put *m = msg->body;
	uint32_t n = kv_get32(m->count);
	struct kv_generation newer = { 0 };
	struct kv_nodeput *put = NULL;
	struct kv_putparts p;
	uint8_t *own;
	int status;

	if (!kv_putparts_take(msg, &p))
		return false;
	kv_stats_add(&peer->node->stats, KV_STAT_PUTS, n);
	status = put_check(peer, m);
	if (status == KV_OK &&
	    (kv_nodepeer_is_busy(peer, parts_weight(n, &p)) ||
	     put_is_old(peer, m, &newer)))
		status = KV_EBUSY;
	if (status == KV_OK) {
		put = put_new(peer, msg, &p, &own);
		status = put ? KV_OK : KV_ENOMEM;
	}
	if (status != KV_OK) {
		put_refuse(peer, msg->id, status, newer);
		return true;
	}
	put_keys_init(put, &p, own);
	if (put->pulls)
		put_pulls_init(put, &p);
	put_find_repeats(put);
	put_admit_all(put);
	kv_nodeput_let_go(put);
	return true;
}

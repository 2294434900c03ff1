#include "svc/putkey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "store/tenants.h"

static void
key_count(const struct kv_putkey *k, int status)
{
	struct kv_stats_set *stats = &k->put->node->stats;

	switch (status) {
	case KV_OK:
		kv_stats_add(stats, KV_STAT_PUTS_OK, 1);
		kv_stats_add(stats, KV_STAT_PUT_BYTES, k->size);
		return;
	case KV_EEXISTS:
		kv_stats_add(stats, KV_STAT_PUTS_EXIST, 1);
		return;
	case KV_ENOSPACE:
	case KV_ENOROOM:
		kv_stats_add(stats, KV_STAT_PUTS_NO_SPACE, 1);
		break;
	default:
		break;
	}
	kv_stats_add(stats, KV_STAT_PUTS_FAILED, 1);
}

/* The first status counts. */
static void
key_settle(struct kv_putkey *k, int status)
{
	struct kv_nodeput *put = k->put;

	if (k->has_status)
		return;
	k->has_status = true;
	k->status = (uint8_t)status;
	key_count(k, status);
	if (--put->open == 0 && put->peer)
		kv_nodeput_answer(put);
}

static bool
key_beats(const struct kv_putkey *k, uint32_t version)
{
	return (k->put->flags & KV_PUT_UPSERT) && k->put->version > version;
}

/* Another put of the key may go on: with what became of this one. */
static void
key_end_writing(struct kv_putkey *k, int status)
{
	struct kv_list twins;
	struct kv_putkey *t;

	if (!k->is_writer)
		return;
	k->is_writer = false;
	kv_htab_del(&k->put->node->writing, &k->writing);
	kv_list_init(&twins);
	kv_list_splice_tail(&twins, &k->twins);
	while ((t = KV_LIST_FIRST(&twins, struct kv_putkey, link))) {
		struct kv_nodeput *put = t->put;

		kv_list_del(&t->link);
		t->state = KV_PUTKEY_NEW;
		put->busy++;
		if (!put->peer)
			kv_putkey_rest(t, KV_ECANCELED);
		else if (status == KV_EEXISTS && !key_beats(t, k->put->version))
			kv_putkey_rest(t, KV_EEXISTS);
		else
			kv_putkey_admit(t);
		kv_nodeput_let_go(put);
	}
}

static void
key_leave(struct kv_putkey *k)
{
	kv_list_del(&k->link);
	kv_list_del(&k->fresh);
	if (k->state == KV_PUTKEY_FILLING)
		kv_htab_del(&k->put->node->grants, &k->grant);
	k->state = KV_PUTKEY_NEW;
}

static void
key_drop_kept(struct kv_putkey *k)
{
	if (!k->is_kept)
		return;
	kv_free_const(k->value);
	k->put->node->kept_bytes -= k->size + k->key_len;
	k->is_kept = false;
}

/* Its way ends here. k, and its put, may be freed. */
void
kv_putkey_rest(struct kv_putkey *k, int status)
{
	key_leave(k);
	k->state = KV_PUTKEY_DONE;
	key_drop_kept(k);
	key_settle(k, status);
	key_end_writing(k, status);
	kv_nodeput_drop(k->put);
}

static void
key_drop_space(struct kv_putkey *k)
{
	kv_nodekept_release(k->put->node, k);
	kv_index_unreserve(k->put->node->index, kv_putkey_extents(k), k->n_ext);
	if (k->n_ext > 1)
		free(k->ext.many);
	k->n_ext = 0;
}

/*
 * It gets no further, whatever it waits for. Space that its requester may
 * still write to stays reserved until that is over (quarantine); what is in
 * the index stays, hidden, until its verdict comes.
 */
void
kv_putkey_give_up(struct kv_putkey *k, int status)
{
	switch ((enum kv_putkey_state)k->state) {
	case KV_PUTKEY_NEW:
	case KV_PUTKEY_EARLY:
	case KV_PUTKEY_TWIN:
	case KV_PUTKEY_PAGES:
		kv_putkey_rest(k, status);
		return;
	case KV_PUTKEY_FILLING:
		key_settle(k, status);
		key_end_writing(k, status);
		if (k->put->mode != KV_MODE_SHM)
			kv_putkey_move_cancel(k);
		return;
	case KV_PUTKEY_HIDDEN:
		key_settle(k, status);
		return;
	case KV_PUTKEY_DONE:
		return;
	}
}

void
kv_putkey_proc_gone(struct kv_proc *p)
{
	struct kv_putkey *k;

	while ((k = KV_LIST_FIRST(&p->grants, struct kv_putkey, link))) {
		key_drop_space(k);
		kv_putkey_rest(k, KV_ECANCELED);
	}
}

void
kv_putkey_forget(struct kv_proc *p, uint64_t token)
{
	struct kv_putkey *k, *next;

	/* Giving one up touches no other of the list. */
	KV_LIST_FOREACH_SAFE(k, next, &p->grants, link)
		if (k->put->token == token)
			kv_putkey_filled(k, KV_ECANCELED);
}

struct kv_putkey *
kv_putkey_writer(struct kv_node *node, struct kv_hash hash)
{
	struct kv_htab_node *n = kv_htab_first(&node->writing, hash.lo);
	struct kv_putkey *k;

	for (; n; n = kv_htab_next(&node->writing, n)) {
		k = KV_CONTAINER_OF(n, struct kv_putkey, writing);
		if (kv_key_hash_is_equal(k->hash, hash))
			return k;
	}
	return NULL;
}

/* ---- the way of a key ---- */

/* What it takes the place of. */
static void
key_drop_old(struct kv_putkey *k)
{
	struct kv_node *node = k->put->node;
	unsigned tenant = k->put->tenant;
	struct kv_object *old;

	old = kv_index_find(node->index, k->hash, tenant, k->key, k->key_len);
	if (old)
		kv_nodeadmin_drop(node, old);
	while ((old = kv_index_find_old(node->index, k->hash, tenant, k->key,
					k->key_len)))
		kv_nodeadmin_drop(node, old);
}

/* All bytes are in place: into the index, and to the masters. */
static void
key_commit(struct kv_putkey *k)
{
	struct kv_nodeput *put = k->put;
	struct kv_node *node = put->node;
	struct kv_index_new_object n = {
		.hash = k->hash,
		.tenant = put->tenant,
		.key = k->key,
		.key_len = k->key_len,
		.size = k->size,
		.ext = kv_putkey_extents(k),
		.n_ext = k->n_ext,
		.id_random = put->random,
		.id_version = put->version,
		.slot = k->slot,
		.putter = put->putter,
	};

	key_leave(k);
	if (put->epoch !=
	    kv_tenants_epoch(kv_index_tenants(node->index), put->tenant)) {
		/* It was there, and was removed with all others. */
		key_drop_space(k);
		kv_putkey_rest(k, KV_OK);
		return;
	}
	if (put->flags & KV_PUT_SOFT_PIN)
		n.flags |= KV_OBJ_SOFT_PIN;
	if (put->flags & KV_PUT_HARD_PIN)
		n.flags |= KV_OBJ_HARD_PIN;
	if (!k->is_new)
		key_drop_old(k);
	k->object = kv_index_insert(node->index, &n, kv_loop_now(node->loop));
	if (!k->object) {
		key_drop_space(k);
		kv_putkey_rest(k, KV_ENOMEM);
		return;
	}
	if (k->n_ext > 1)
		free(k->ext.many);
	k->n_ext = 0;
	k->slot = 0;
	k->state = KV_PUTKEY_HIDDEN;
	kv_list_add_tail(&node->hidden, &k->link);
	k->waits = (uint8_t)kv_session_publish(node, k->object);
	if (!k->waits)
		kv_putkey_show(k);
}

void
kv_putkey_filled(struct kv_putkey *k, int status)
{
	if (status == KV_OK && !k->has_status) {
		key_commit(k);
		return;
	}
	key_drop_space(k);
	kv_putkey_rest(k, status);
}

struct kv_putkey *
kv_putkey_find_grant(struct kv_node *node, uint64_t grant)
{
	struct kv_htab_node *n = kv_htab_first(&node->grants, grant);

	return n ? KV_CONTAINER_OF(n, struct kv_putkey, grant) : NULL;
}

/* Space is there; the bytes are to come. */
static void
key_grant(struct kv_putkey *k)
{
	struct kv_nodeput *put = k->put;
	struct kv_node *node = put->node;
	int rc;

	rc = kv_htab_add(&node->grants, &k->grant, ++node->next_id);
	if (rc == 0) {
		k->state = KV_PUTKEY_FILLING;
		if (put->mode != KV_MODE_SHM)
			rc = kv_putkey_move(k);
		else
			kv_list_add_tail(&put->proc->grants, &k->link);
	}
	if (rc < 0) {
		key_drop_space(k);
		kv_putkey_rest(k, kv_status_from_errno(rc));
		return;
	}
	if (put->mode != KV_MODE_RDMA) /* who reads tells nobody before */
		kv_list_add_tail(&put->fresh, &k->fresh);
}

static void
key_copy_value(const struct kv_putkey *k)
{
	const struct kv_extent *e = kv_putkey_extents(k);
	char *pool = k->put->node->o.pool;
	const uint8_t *from = k->value;
	uint64_t left = k->size, n;

	for (; left; left -= n, from += n, e++) {
		n = kv_min_u64(left, e->len);
		memcpy(pool + e->off, from, n);
	}
}

/* It has to wait: what is small cannot stay in the message that it came in. */
static bool
key_keep(struct kv_putkey *k)
{
	uint64_t bytes = k->size + k->key_len;
	uint8_t *own;

	if (!k->is_inline || k->is_kept)
		return true;
	if (k->put->node->kept_bytes + bytes > KV_NODE_KEPT_BYTES_MAX)
		return false;
	own = KV_FAULT_POINT() ? NULL : malloc(bytes);
	if (!own)
		return false;
	if (k->size)
		memcpy(own, k->value, k->size);
	k->key = memcpy(own + k->size, k->key, k->key_len);
	k->value = own;
	k->is_kept = true;
	k->put->node->kept_bytes += bytes;
	return true;
}

static void
key_no_space(struct kv_putkey *k, int rc)
{
	struct kv_node *node = k->put->node;

	if (rc == -ENOMEM) {
		kv_putkey_rest(k, KV_ENOMEM);
	} else if (node->ready_bytes >= node->pool_bytes) {
		kv_putkey_rest(k, rc == -EAGAIN ? KV_ENOROOM : KV_ENOSPACE);
	} else if (!key_keep(k)) {
		kv_putkey_rest(k, KV_EBUSY);
	} else {
		k->state = KV_PUTKEY_PAGES;
		kv_list_add_tail(&node->pages, &k->link);
	}
}

/* Finds space. While pages are still coming they are waited for; nothing is
 * evicted for want of what will be there in a moment. */
/* What the space is for, where the pool outlives its node. False: no room for
 * that; k is over. */
static bool
key_record(struct kv_putkey *k, bool may_evict)
{
	int rc = kv_nodekept_reserve(k->put->node, k, may_evict);

	if (rc == 0)
		return true;
	key_drop_space(k);
	if (rc == -ENOSPC)
		kv_putkey_rest(k, may_evict ? KV_ENOSPACE : KV_ENOROOM);
	else
		kv_putkey_rest(k, KV_ENOMEM);
	return false;
}

void
kv_putkey_place(struct kv_putkey *k)
{
	struct kv_node *node = k->put->node;
	bool may_evict = node->ready_bytes >= node->pool_bytes &&
			 !(k->put->flags & KV_PUT_NO_EVICT);
	int n;

	n = kv_index_reserve(node->index, k->size, may_evict,
			     kv_loop_now(node->loop), node->scratch,
			     KV_EXTENTS_MAX);
	if (n < 0) {
		key_no_space(k, n);
		return;
	}
	k->n_ext = (uint16_t)n;
	k->ext.one = node->scratch[0];
	if (n > 1) {
		size_t bytes = (size_t)n * sizeof(node->scratch[0]);

		k->ext.many = KV_FAULT_POINT() ? NULL : malloc(bytes);
		if (!k->ext.many) {
			kv_index_unreserve(node->index, node->scratch,
					   (unsigned)n);
			k->n_ext = 0;
			kv_putkey_rest(k, KV_ENOMEM);
			return;
		}
		memcpy(k->ext.many, node->scratch, bytes);
	}
	if (node->kept && !key_record(k, may_evict))
		return;
	if (k->is_inline)
		key_copy_value(k);
	if (k->is_inline || k->size == 0)
		key_commit(k);
	else
		key_grant(k);
}

/* The key has a value. A put that carries the id of that value is the same one,
 * sent again after its answer was lost. */
static int
key_exists(const struct kv_putkey *k, const struct kv_object *o)
{
	return k->put->random == o->id_random &&
			       k->put->version == o->id_version
		       ? KV_OK
		       : KV_EEXISTS;
}

void
kv_putkey_admit(struct kv_putkey *k)
{
	struct kv_nodeput *put = k->put;
	struct kv_node *node = put->node;
	struct kv_putkey *writer = kv_putkey_writer(node, k->hash);
	bool is_early = kv_nodegen_is_early(node);
	struct kv_object *o = NULL;

	/* What it waited for is given up as the node ends. */
	if (node->phase == KV_NODE_STOPPED) {
		kv_putkey_rest(k, KV_ECLOSED);
		return;
	}
	if ((is_early || writer) && !key_keep(k)) {
		kv_putkey_rest(k, KV_EBUSY);
		return;
	}
	if (is_early) {
		k->state = KV_PUTKEY_EARLY;
		kv_list_add_tail(&node->early, &k->link);
		return;
	}
	if (writer) {
		k->state = KV_PUTKEY_TWIN;
		kv_list_add_tail(&writer->twins, &k->link);
		return;
	}
	k->is_new = !kv_index_may_hold(node->index, k->hash);
	if (!k->is_new)
		o = kv_index_find(node->index, k->hash, put->tenant, k->key,
				  k->key_len);
	if (o && !key_beats(k, o->id_version)) {
		kv_putkey_rest(k, key_exists(k, o));
		return;
	}
	if (kv_htab_add(&node->writing, &k->writing, k->hash.lo) < 0) {
		kv_putkey_rest(k, KV_ENOMEM);
		return;
	}
	k->is_writer = true;
	kv_putkey_place(k);
}

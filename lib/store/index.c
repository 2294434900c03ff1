#include "store/index.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/warm.h"
#include "mem/arena.h"
#include "mem/slab.h"
#include "store/evict.h"
#include "store/ledger.h"
#include "store/tenants.h"

enum {
	/* When bytes enough are free but in too many pieces: between two tries
	 * this part of the request leaves. */
	TRIES = 16,
};

struct kv_index {
	struct kv_index_opts opts;
	struct kv_htab objects;
	struct kv_warm warm;   /* for their table */
	struct kv_arena arena; /* of objects */
	struct kv_evict order;
	struct kv_list gone; /* dropped, still pinned or held */
	struct kv_tenants tenants;
	bool is_withheld; /* what was adopted */
	struct kv_index_stats stats;
};

static struct kv_object *
object_of(struct kv_htab_node *n)
{
	return KV_CONTAINER_OF(n, struct kv_object, node);
}

struct kv_index *
kv_index_new(const struct kv_index_opts *opts)
{
	struct kv_index *ix = calloc(1, sizeof(*ix));

	if (!ix)
		return NULL;
	ix->opts = *opts;
	kv_htab_init(&ix->objects);
	kv_warm_init(&ix->warm);
	kv_htab_warm(&ix->objects, &ix->warm);
	kv_arena_init(&ix->arena);
	kv_evict_init(&ix->order, opts->grace_ns);
	kv_list_init(&ix->gone);
	if (kv_tenants_init(&ix->tenants) < 0) {
		kv_index_free(ix);
		return NULL;
	}
	return ix;
}

static void
object_free(struct kv_index *ix, struct kv_object *o)
{
	if (o->n_ext > 1)
		free(o->ext.many);
	kv_arena_release(&ix->arena, o, sizeof(*o) + o->key_len);
}

static void
free_node(void *arg, struct kv_htab_node *n)
{
	struct kv_index *ix = arg;

	kv_htab_del(&ix->objects, n);
	object_free(ix, object_of(n));
}

void
kv_index_free(struct kv_index *ix)
{
	struct kv_object *o, *tmp;
	uint64_t cursor = 0;

	if (!ix)
		return;
	do
		cursor = kv_htab_scan(&ix->objects, cursor, 64, free_node, ix);
	while (cursor);
	KV_LIST_FOREACH_SAFE(o, tmp, &ix->gone, order)
		object_free(ix, o);
	kv_tenants_fini(&ix->tenants);
	kv_htab_fini(&ix->objects);
	kv_warm_fini(&ix->warm);
	kv_arena_fini(&ix->arena);
	free(ix);
}

void
kv_index_detach(struct kv_index *ix)
{
	ix->opts.ledger = NULL;
}

/* ---- what counts ---- */

struct kv_tenants *
kv_index_tenants(struct kv_index *ix)
{
	return &ix->tenants;
}

bool
kv_index_is_outdated(const struct kv_index *ix, const struct kv_object *o)
{
	return o->epoch != kv_tenants_epoch(&ix->tenants, o->tenant);
}

void
kv_index_withhold(struct kv_index *ix, bool is_withheld)
{
	ix->is_withheld = is_withheld;
}

bool
kv_index_is_withheld(const struct kv_index *ix)
{
	return ix->is_withheld;
}

static bool
counts(const struct kv_index *ix, const struct kv_object *o)
{
	return !kv_index_is_outdated(ix, o) &&
	       !(ix->is_withheld && (o->flags & KV_OBJ_ADOPTED));
}

/* ---- finding ---- */

static bool
is_key(const struct kv_object *o, struct kv_hash h, unsigned tenant,
       const void *key, size_t len)
{
	return o->hash_hi == h.hi && o->tenant == tenant && o->key_len == len &&
	       memcmp(o->key, key, len) == 0;
}

struct kv_object *
kv_index_find(struct kv_index *ix, struct kv_hash h, unsigned tenant,
	      const void *key, size_t len)
{
	struct kv_htab_node *n = kv_htab_first(&ix->objects, h.lo);

	for (; n; n = kv_htab_next(&ix->objects, n)) {
		struct kv_object *o = object_of(n);

		if (is_key(o, h, tenant, key, len) && counts(ix, o))
			return o;
	}
	return NULL;
}

bool
kv_index_may_hold(const struct kv_index *ix, struct kv_hash h)
{
	return kv_htab_first(&ix->objects, h.lo);
}

struct kv_object *
kv_index_find_old(struct kv_index *ix, struct kv_hash h, unsigned tenant,
		  const void *key, size_t len)
{
	struct kv_htab_node *n = kv_htab_first(&ix->objects, h.lo);

	for (; n; n = kv_htab_next(&ix->objects, n)) {
		struct kv_object *o = object_of(n);

		if (is_key(o, h, tenant, key, len) && !counts(ix, o) &&
		    !(o->flags & KV_OBJ_HIDDEN))
			return o;
	}
	return NULL;
}

struct kv_object *
kv_index_find_hash(struct kv_index *ix, struct kv_hash h)
{
	struct kv_htab_node *n = kv_htab_first(&ix->objects, h.lo);

	for (; n; n = kv_htab_next(&ix->objects, n)) {
		struct kv_object *o = object_of(n);

		if (o->hash_hi == h.hi && counts(ix, o))
			return o;
	}
	return NULL;
}

void
kv_index_prefetch(const struct kv_index *ix, struct kv_hash h)
{
	kv_htab_prefetch(&ix->objects, h.lo);
}

struct kv_object *
kv_index_guess(const struct kv_index *ix, struct kv_hash h)
{
	struct kv_htab_node *n = kv_htab_guess(&ix->objects, h.lo);

	return n ? object_of(n) : NULL;
}

static struct kv_object *
object_new(struct kv_index *ix, const struct kv_index_new_object *n)
{
	struct kv_object *o = NULL;

	if (!KV_FAULT_POINT())
		o = kv_arena_alloc(&ix->arena, sizeof(*o) + n->key_len);
	if (!o)
		return NULL;
	*o = (struct kv_object){ .key_len = (uint16_t)n->key_len };
	if (n->n_ext > 1) {
		o->ext.many = malloc(n->n_ext * sizeof(n->ext[0]));
		if (!o->ext.many) {
			object_free(ix, o);
			return NULL;
		}
		memcpy(o->ext.many, n->ext, n->n_ext * sizeof(n->ext[0]));
	} else if (n->n_ext) {
		o->ext.one = n->ext[0];
	}
	o->n_ext = (uint16_t)n->n_ext;
	return o;
}

static bool
space_fits(const struct kv_index_new_object *n)
{
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < n->n_ext; i++)
		sum += n->ext[i].len;
	return sum == kv_round_up_u64(n->size, KV_GRANULE_BYTES);
}

static struct kv_object *
insert(struct kv_index *ix, const struct kv_index_new_object *n, uint64_t now)
{
	struct kv_object *o;

	assert(n->key_len <= KV_KEY_BYTES_MAX);
	assert(n->n_ext <= KV_EXTENTS_MAX);
	assert(space_fits(n));
	o = object_new(ix, n);
	if (!o)
		return NULL;
	if (kv_htab_add(&ix->objects, &o->node, n->hash.lo) < 0) {
		object_free(ix, o);
		return NULL;
	}
	kv_list_init(&o->order);
	o->hash_hi = n->hash.hi;
	o->id_random = n->id_random;
	o->id_version = n->id_version;
	o->slot = n->slot;
	o->size = n->size;
	o->used_ns = now;
	o->tenant = (uint16_t)n->tenant;
	o->epoch = kv_tenants_epoch(&ix->tenants, n->tenant);
	o->putter = n->putter;
	o->flags = KV_OBJ_HIDDEN |
		   (n->flags & (KV_OBJ_SOFT_PIN | KV_OBJ_HARD_PIN));
	memcpy(o->key, n->key, n->key_len);
	ix->stats.hidden++;
	return o;
}

struct kv_object *
kv_index_insert(struct kv_index *ix, const struct kv_index_new_object *n,
		uint64_t now)
{
	struct kv_object *o = insert(ix, n, now);

	if (o)
		ix->stats.reserved_bytes -= kv_index_space(o);
	return o;
}

static void
show(struct kv_index *ix, struct kv_object *o, uint64_t now)
{
	assert(o->flags & KV_OBJ_HIDDEN);
	assert(!(o->flags & KV_OBJ_GONE));
	o->flags &= (uint16_t)~KV_OBJ_HIDDEN;
	o->used_ns = now;
	ix->stats.hidden--;
	ix->stats.keys++;
	ix->stats.bytes += o->size;
	ix->stats.soft_pinned += (o->flags & KV_OBJ_SOFT_PIN) != 0;
	ix->stats.hard_pinned += (o->flags & KV_OBJ_HARD_PIN) != 0;
	kv_evict_add(&ix->order, o);
}

void
kv_index_show(struct kv_index *ix, struct kv_object *o, uint64_t now)
{
	if (ix->opts.ledger && o->slot)
		kv_ledger_show(ix->opts.ledger, o->slot);
	show(ix, o, now);
}

struct kv_object *
kv_index_adopt(struct kv_index *ix, const struct kv_index_new_object *n,
	       uint64_t now)
{
	struct kv_object *o = insert(ix, n, now);

	if (!o)
		return NULL;
	show(ix, o, now);
	o->flags |= KV_OBJ_UNCHECKED | KV_OBJ_ADOPTED;
	ix->stats.unchecked++;
	return o;
}

void
kv_index_checked(struct kv_index *ix, struct kv_object *o)
{
	ix->stats.unchecked -= (o->flags & KV_OBJ_UNCHECKED) != 0;
	o->flags &= (uint16_t)~KV_OBJ_UNCHECKED;
}

bool
kv_index_has_unchecked(const struct kv_index *ix)
{
	return ix->stats.unchecked;
}

/* Out of everything that finds it or counts it. */
static void
take_out(struct kv_index *ix, struct kv_object *o)
{
	if (ix->opts.ledger && o->slot && o->pins)
		kv_ledger_hide(ix->opts.ledger, o->slot);
	kv_index_checked(ix, o);
	kv_evict_del(&ix->order, o);
	kv_htab_del(&ix->objects, &o->node);
	if (o->flags & KV_OBJ_HIDDEN) {
		ix->stats.hidden--;
	} else {
		ix->stats.keys--;
		ix->stats.bytes -= o->size;
		ix->stats.soft_pinned -= (o->flags & KV_OBJ_SOFT_PIN) != 0;
		ix->stats.hard_pinned -= (o->flags & KV_OBJ_HARD_PIN) != 0;
	}
	o->flags |= KV_OBJ_GONE;
	kv_list_add_tail(&ix->gone, &o->order);
}

/* Frees what nobody needs any more of a gone object. */
static void
let_go(struct kv_index *ix, struct kv_object *o)
{
	if (o->pins)
		return;
	if (ix->opts.ledger && o->slot)
		kv_ledger_release(ix->opts.ledger, o->slot);
	o->slot = 0;
	kv_slab_release(ix->opts.slab, kv_index_extents(o), o->n_ext);
	if (o->n_ext > 1)
		free(o->ext.many);
	o->n_ext = 0;
	if (o->busy)
		return;
	kv_list_del(&o->order);
	object_free(ix, o);
}

void
kv_index_drop(struct kv_index *ix, struct kv_object *o)
{
	assert(!(o->flags & KV_OBJ_GONE));
	take_out(ix, o);
	if (o->pins)
		ix->stats.zombie_bytes += kv_index_space(o);
	let_go(ix, o);
}

void
kv_index_pin(struct kv_index *ix, struct kv_object *o, uint64_t now)
{
	assert(o->pins < UINT32_MAX);
	o->used_ns = now;
	if (o->pins++)
		return;
	assert(!(o->flags & KV_OBJ_GONE));
	if (ix->opts.ledger && o->slot)
		kv_ledger_hold(ix->opts.ledger, o->slot);
	kv_evict_del(&ix->order, o);
	ix->stats.pinned_bytes += kv_index_space(o);
}

void
kv_index_unpin(struct kv_index *ix, struct kv_object *o)
{
	assert(o->pins > 0);
	if (--o->pins)
		return;
	ix->stats.pinned_bytes -= kv_index_space(o);
	if (o->flags & KV_OBJ_GONE) {
		ix->stats.zombie_bytes -= kv_index_space(o);
		let_go(ix, o);
		return;
	}
	if (ix->opts.ledger && o->slot)
		kv_ledger_unhold(ix->opts.ledger, o->slot);
	kv_evict_add(&ix->order, o);
}

void
kv_index_touch(struct kv_index *ix, struct kv_object *o, uint64_t now)
{
	o->used_ns = now;
	if (o->pins)
		return;
	kv_evict_del(&ix->order, o);
	kv_evict_add(&ix->order, o);
}

void
kv_index_want(struct kv_index *ix, struct kv_object *o, uint64_t now)
{
	kv_evict_expire(&ix->order, now);
	if (o->flags & (KV_OBJ_HIDDEN | KV_OBJ_GONE))
		return;
	kv_evict_del(&ix->order, o);
	o->used_ns = now;
	if (!(o->flags & (KV_OBJ_SOFT_PIN | KV_OBJ_HARD_PIN))) {
		o->flags |= KV_OBJ_WANTED;
		o->wanted_ns = now;
	}
	kv_evict_add(&ix->order, o);
}

void
kv_index_hold(struct kv_object *o)
{
	assert(o->busy < UINT8_MAX);
	o->busy++;
}

void
kv_index_unhold(struct kv_index *ix, struct kv_object *o)
{
	assert(o->busy > 0);
	o->busy--;
	if (o->flags & KV_OBJ_GONE)
		let_go(ix, o);
}

const struct kv_extent *
kv_index_extents(const struct kv_object *o)
{
	return o->n_ext > 1 ? o->ext.many : &o->ext.one;
}

static void
evict(struct kv_index *ix, struct kv_object *o)
{
	ix->stats.evicted_keys++;
	ix->stats.evicted_bytes += o->size;
	if (ix->opts.evicted)
		ix->opts.evicted(ix->opts.arg, o);
	take_out(ix, o);
	let_go(ix, o);
}

bool
kv_index_evict(struct kv_index *ix)
{
	struct kv_object *o = kv_evict_next(&ix->order);

	if (o)
		evict(ix, o);
	return o;
}

/* Until so much is free. False: nothing may leave any more. */
static bool
evict_until(struct kv_index *ix, uint64_t free_bytes)
{
	while (kv_slab_free_bytes(ix->opts.slab) < free_bytes)
		if (!kv_index_evict(ix))
			return false;
	return true;
}

/* As kv_index_reserve(), not counted. */
static int
space_find(struct kv_index *ix, uint64_t bytes, bool may_evict, uint64_t now,
	   struct kv_extent *ext, unsigned max)
{
	uint64_t need, step, room;
	bool more = true;
	int rc;

	rc = kv_slab_alloc(ix->opts.slab, bytes, ext, max);
	if (rc != -ENOSPC)
		return rc;
	room = kv_slab_free_bytes(ix->opts.slab);
	if (bytes > room + ix->order.bytes)
		return -ENOSPC;
	if (!may_evict)
		return -EAGAIN;
	kv_evict_expire(&ix->order, now);
	need = kv_round_up_u64(bytes, KV_GRANULE_BYTES);
	step = kv_max_u64(need / TRIES, KV_GRANULE_BYTES);
	while (rc == -ENOSPC && more) {
		room = kv_slab_free_bytes(ix->opts.slab);
		more = evict_until(ix, room < need ? need : room + step);
		rc = kv_slab_alloc(ix->opts.slab, bytes, ext, max);
	}
	return rc;
}

int
kv_index_reserve(struct kv_index *ix, uint64_t bytes, bool may_evict,
		 uint64_t now, struct kv_extent *ext, unsigned max)
{
	int rc = space_find(ix, bytes, may_evict, now, ext, max);

	if (rc >= 0)
		ix->stats.reserved_bytes +=
			kv_round_up_u64(bytes, KV_GRANULE_BYTES);
	return rc;
}

void
kv_index_unreserve(struct kv_index *ix, const struct kv_extent *ext, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		ix->stats.reserved_bytes -= ext[i].len;
	kv_slab_release(ix->opts.slab, ext, n);
}

uint64_t
kv_index_victim_idle(const struct kv_index *ix, uint64_t now)
{
	const struct kv_object *o = kv_evict_next(&ix->order);

	return o ? now - o->used_ns : UINT64_MAX;
}

void
kv_index_stats(const struct kv_index *ix, struct kv_index_stats *out)
{
	*out = ix->stats;
}

struct scan {
	const struct kv_index *ix;
	bool outdated; /* those, instead of those that count */
	kv_index_fn *fn;
	void *arg;
};

static void
scan_node(void *arg, struct kv_htab_node *n)
{
	const struct scan *s = arg;
	struct kv_object *o = object_of(n);

	if (o->flags & KV_OBJ_HIDDEN)
		return;
	if (s->outdated ? kv_index_is_outdated(s->ix, o) : counts(s->ix, o))
		s->fn(s->arg, o);
}

uint64_t
kv_index_scan(struct kv_index *ix, uint64_t cursor, unsigned count,
	      kv_index_fn *fn, void *arg)
{
	struct scan s = { .ix = ix, .fn = fn, .arg = arg };

	return kv_htab_scan(&ix->objects, cursor, count, scan_node, &s);
}

uint64_t
kv_index_scan_outdated(struct kv_index *ix, uint64_t cursor, unsigned count,
		       kv_index_fn *fn, void *arg)
{
	struct scan s = { .ix = ix, .outdated = true, .fn = fn, .arg = arg };

	return kv_htab_scan(&ix->objects, cursor, count, scan_node, &s);
}

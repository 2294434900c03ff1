#include "store/adopt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/num.h"
#include "mem/slab.h"
#include "store/index.h"
#include "store/ledger.h"
#include "store/quarantine.h"
#include "store/tenants.h"

/* So many slots before its turn an object's place in the index is asked for. */
#define AHEAD 16

/* What becomes of a slot. */
enum fate {
	FATE_CLEAR, /* it is free, or must be */
	FATE_CHAIN, /* as the record does that it belongs to */
	FATE_OBJECT,
	FATE_HELD, /* no object, but somebody may still use the space */
	FATE_UNFINISHED,
	/* Objects that are dropped, and why: */
	FATE_UNSUMMED,
	FATE_MISSING,
	FATE_DOUBTFUL,
	FATE_REMOVED,
};

struct piece {
	uint64_t off;
	uint64_t len;
	uint32_t slot;
};

/* Nothing is changed in the ledger before all fates are known. */
struct adopting {
	const struct kv_adopt_opts *o;
	struct kv_adopt_report *report;
	const void *file;
	uint64_t seed;
	uint32_t slots_end;
	uint8_t *fates; /* by slot */
	struct piece *pieces;
	size_t n_pieces;
	size_t pieces_max;
	struct kv_poolhead_tenant *tenants; /* that had removals */
	unsigned n_tenants;
	bool is_lost; /* one is damaged: nobody knows what counts */
	struct kv_record_copy copy;
};

/* ---- what is there ---- */

static void
tenants_read(struct adopting *a)
{
	unsigned i;
	int rc;

	for (i = 0; i < KV_POOLHEAD_TENANTS_MAX; i++) {
		rc = kv_poolhead_tenant_get(a->file, i,
					    &a->tenants[a->n_tenants]);
		if (rc > 0)
			a->n_tenants++;
		if (rc < 0)
			a->is_lost = true;
	}
}

static int
tenants_resume(struct adopting *a)
{
	struct kv_tenants *known = kv_index_tenants(a->o->index);
	const struct kv_poolhead_tenant *t;
	int number;

	for (t = a->tenants; t < a->tenants + a->n_tenants; t++) {
		number = kv_tenants_add(known, t->name, t->len);
		if (number < 0)
			return number;
		if (kv_tenants_is_earlier(
			    kv_tenants_epoch(known, (unsigned)number),
			    t->epoch))
			kv_tenants_resume(known, (unsigned)number, t->epoch);
	}
	return 0;
}

static bool
is_removed(const struct adopting *a, const struct kv_record *r)
{
	unsigned i;

	for (i = 0; i < a->n_tenants; i++) {
		const struct kv_poolhead_tenant *t = &a->tenants[i];

		if (t->len == r->tenant_len &&
		    memcmp(t->name, r->tenant, t->len) == 0 &&
		    kv_tenants_is_earlier(r->epoch, t->epoch))
			return true;
	}
	return a->is_lost;
}

static bool
is_held(const struct adopting *a, struct kv_record_hold h)
{
	return kv_quarantine_is_held(a->o->quarantine, h);
}

static enum fate
record_fate(const struct adopting *a)
{
	const struct kv_record_copy *c = &a->copy;

	if (c->state != KV_RECORD_OBJECT)
		return is_held(a, c->hold) ? FATE_HELD : FATE_UNFINISHED;
	if (is_removed(a, &c->r))
		return FATE_REMOVED;
	return c->value_sum ? FATE_OBJECT : FATE_UNSUMMED;
}

static int
pieces_add(struct adopting *a, uint32_t slot)
{
	const struct kv_record *r = &a->copy.r;
	struct piece *grown;
	unsigned i;

	if (a->pieces_max - a->n_pieces < r->n_ext) {
		size_t max = 2 * a->pieces_max + KV_EXTENTS_MAX;

		grown = KV_FAULT_POINT()
				? NULL
				: realloc(a->pieces, max * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		a->pieces = grown;
		a->pieces_max = max;
	}
	for (i = 0; i < r->n_ext; i++)
		a->pieces[a->n_pieces++] = (struct piece){
			.off = r->ext[i].off,
			.len = r->ext[i].len,
			.slot = slot,
		};
	return 0;
}

static int
slot_read(struct adopting *a, uint32_t slot)
{
	enum kv_record_state state = kv_record_state(a->file, slot);
	unsigned i;

	if (state == KV_RECORD_FREE || state == KV_RECORD_MORE)
		return 0;
	if (kv_record_parse(a->file, a->slots_end, slot, a->seed, &a->copy) <
	    0) {
		a->report->broken++;
		return 0;
	}
	for (i = 1; i < a->copy.n_slots; i++)
		a->fates[a->copy.slots[i]] = FATE_CHAIN;
	a->fates[slot] = (uint8_t)record_fate(a);
	return a->fates[slot] == FATE_UNFINISHED ? 0 : pieces_add(a, slot);
}

static int
slots_read(struct adopting *a)
{
	uint32_t slot;
	int rc = 0;

	for (slot = KV_RECORD_SLOT_MIN; slot < a->slots_end && rc == 0; slot++)
		rc = slot_read(a, slot);
	return rc;
}

/* ---- whose is which space ---- */

static int
compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	return 0;
}

/* An object that cannot be one any more. */
static void
spoil(struct adopting *a, uint32_t slot, enum fate why)
{
	if (a->fates[slot] == FATE_OBJECT)
		a->fates[slot] = (uint8_t)why;
}

static void
pieces_judge(struct adopting *a)
{
	uint64_t end = 0, data_end = 0;
	const struct piece *p;
	uint32_t before = 0; /* whose piece reaches `end` */
	size_t i;

	for (i = 0; i < a->n_pieces; i++) {
		p = &a->pieces[i];
		if (p->off < end) {
			spoil(a, p->slot, FATE_DOUBTFUL);
			spoil(a, before, FATE_DOUBTFUL);
		}
		if (p->off >= data_end)
			data_end = a->o->data_end(a->o->arg, p->off);
		if (p->off + p->len > kv_min_u64(a->o->pool_bytes, data_end))
			spoil(a, p->slot, FATE_MISSING);
		if (p->off + p->len > end) {
			end = p->off + p->len;
			before = p->slot;
		}
	}
}

/* Dropped objects whose space somebody may still read. */
static void
held_judge(struct adopting *a)
{
	uint64_t *const why[] = {
		[FATE_UNSUMMED] = &a->report->unsummed,
		[FATE_MISSING] = &a->report->missing,
		[FATE_DOUBTFUL] = &a->report->doubtful,
		[FATE_REMOVED] = &a->report->removed,
	};
	uint32_t slot;

	for (slot = KV_RECORD_SLOT_MIN; slot < a->slots_end; slot++) {
		if (a->fates[slot] < FATE_UNSUMMED)
			continue;
		(*why[a->fates[slot]])++;
		if (is_held(a, kv_record_hold(a->file, slot)))
			a->fates[slot] = FATE_HELD;
	}
}

/* Reserves what is used, and all between it. */
static int
pieces_reserve(struct adopting *a)
{
	struct kv_quarantine *q = a->o->quarantine;
	uint64_t at = 0, off, end;
	int rc = 0;
	size_t i;

	for (i = 0; i < a->n_pieces && rc == 0; i++) {
		const struct piece *p = &a->pieces[i];
		enum fate fate = a->fates[p->slot];

		if (fate != FATE_OBJECT && fate != FATE_HELD)
			continue;
		off = kv_min_u64(kv_max_u64(p->off, at), a->o->pool_bytes);
		end = kv_min_u64(kv_max_u64(p->off + p->len, off),
				 a->o->pool_bytes);
		if (off > at)
			rc = kv_quarantine_gap(q, at, off - at);
		if (rc == 0 && fate == FATE_OBJECT)
			rc = kv_slab_reserve(a->o->slab, off, end - off);
		else if (rc == 0)
			rc = kv_quarantine_space(
				q, kv_record_hold(a->file, p->slot), off,
				end - off);
		at = end;
	}
	if (rc == 0 && at < a->o->pool_bytes)
		rc = kv_quarantine_gap(q, at, a->o->pool_bytes - at);
	return rc;
}

/* ---- taking it over ---- */

static void
new_object_fill(const struct adopting *a, uint32_t slot,
		struct kv_index_new_object *n)
{
	const struct kv_record *r = &a->copy.r;

	*n = (struct kv_index_new_object){
		.hash = r->hash,
		.key = r->key,
		.key_len = r->key_len,
		.size = r->size,
		.ext = r->ext,
		.n_ext = r->n_ext,
		.id_random = r->id_random,
		.id_version = r->id_version,
		.slot = slot,
	};
	if (r->flags & KV_RECORD_SOFT_PIN)
		n->flags |= KV_OBJ_SOFT_PIN;
	if (r->flags & KV_RECORD_HARD_PIN)
		n->flags |= KV_OBJ_HARD_PIN;
}

/* Its space is reserved, but it will be no object. */
static int
object_refuse(struct adopting *a, uint32_t slot)
{
	const struct kv_record *r = &a->copy.r;
	unsigned i;
	int rc = 0;

	a->report->doubtful++;
	if (!is_held(a, a->copy.hold)) {
		kv_ledger_release(a->o->ledger, slot);
		kv_slab_release(a->o->slab, r->ext, r->n_ext);
		return 0;
	}
	kv_ledger_hide(a->o->ledger, slot);
	rc = kv_quarantine_record(a->o->quarantine, a->copy.hold, slot);
	for (i = 0; i < r->n_ext && rc == 0; i++)
		rc = kv_quarantine_taken(a->o->quarantine, a->copy.hold,
					 r->ext[i].off, r->ext[i].len);
	return rc;
}

/* Of two with one key, as between masters that differ. */
static bool
beats(const struct kv_record *r, const struct kv_object *o)
{
	if (r->id_version != o->id_version)
		return r->id_version > o->id_version;
	return r->id_random < o->id_random;
}

static int
object_add(struct adopting *a, uint32_t slot)
{
	const struct kv_record *r = &a->copy.r;
	struct kv_index *ix = a->o->index;
	struct kv_index_new_object n;
	struct kv_object *o;
	int tenant, rc = 0;

	if (kv_record_parse(a->file, a->slots_end, slot, a->seed, &a->copy) < 0)
		return 0; /* cannot be: it was read before */
	tenant = kv_tenants_add(kv_index_tenants(ix), r->tenant, r->tenant_len);
	if (tenant < 0)
		return tenant == -ENOSPC ? object_refuse(a, slot) : tenant;
	o = kv_index_find(ix, r->hash, (unsigned)tenant, r->key, r->key_len);
	if (o && !beats(r, o))
		return object_refuse(a, slot);
	if (o) {
		a->report->doubtful++;
		a->report->keys--;
		a->report->bytes -= o->size;
		kv_index_drop(ix, o);
	}
	new_object_fill(a, slot, &n);
	n.tenant = (unsigned)tenant;
	o = kv_index_adopt(ix, &n, a->o->now);
	if (!o)
		return -ENOMEM;
	kv_ledger_keep(a->o->ledger, slot);
	a->report->keys++;
	a->report->bytes += r->size;
	if (is_held(a, a->copy.hold))
		rc = kv_quarantine_object(a->o->quarantine, o, a->copy.hold,
					  a->o->now);
	return rc;
}

static int
slot_take(struct adopting *a, uint32_t slot)
{
	struct kv_ledger *l = a->o->ledger;
	enum kv_record_state state;

	switch ((enum fate)a->fates[slot]) {
	case FATE_CHAIN:
		return 0;
	case FATE_OBJECT:
		return object_add(a, slot);
	case FATE_HELD:
		state = kv_record_state(a->file, slot);
		if (state == KV_RECORD_OBJECT)
			kv_ledger_hide(l, slot);
		return kv_quarantine_record(
			a->o->quarantine, kv_record_hold(a->file, slot), slot);
	case FATE_CLEAR:
		kv_ledger_clear(l, slot);
		return 0;
	case FATE_UNFINISHED:
	case FATE_UNSUMMED:
	case FATE_MISSING:
	case FATE_DOUBTFUL:
	case FATE_REMOVED:
		break;
	}
	kv_ledger_release(l, slot);
	return 0;
}

static int
slots_take(struct adopting *a)
{
	uint32_t slot, ahead;
	int rc = 0;

	for (slot = KV_RECORD_SLOT_MIN; slot < a->slots_end && rc == 0;
	     slot++) {
		ahead = slot + AHEAD;
		if (ahead < a->slots_end && a->fates[ahead] == FATE_OBJECT)
			kv_index_prefetch(a->o->index,
					  kv_record_hash(a->file, ahead));
		rc = slot_take(a, slot);
	}
	return rc;
}

static int
adopt_all(struct adopting *a)
{
	struct kv_quarantine *q = a->o->quarantine;
	int rc;

	tenants_read(a);
	rc = tenants_resume(a);
	if (rc == 0 && !a->o->is_void)
		rc = slots_read(a);
	if (rc < 0)
		return rc;
	if (a->n_pieces)
		qsort(a->pieces, a->n_pieces, sizeof(a->pieces[0]),
		      compare_pieces);
	pieces_judge(a);
	held_judge(a);
	if (a->report->broken || a->o->is_void)
		kv_quarantine_hold_gaps(q);
	rc = kv_slab_add(a->o->slab, 0, a->o->pool_bytes);
	if (rc == 0)
		rc = pieces_reserve(a);
	if (rc == 0)
		rc = slots_take(a);
	if (rc == 0 && a->is_lost)
		kv_poolhead_tenant_mend(kv_ledger_file(a->o->ledger));
	if (rc == 0)
		kv_quarantine_begin(q);
	return rc;
}

int
kv_adopt(const struct kv_adopt_opts *o, struct kv_adopt_report *report)
{
	struct adopting *a = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*a));
	int rc = -ENOMEM;

	if (!a)
		return rc;
	memset(report, 0, sizeof(*report));
	a->o = o;
	a->report = report;
	a->file = kv_ledger_file(o->ledger);
	a->seed = kv_ledger_seed(o->ledger);
	a->slots_end = kv_ledger_head(o->ledger)->slots_end;
	a->fates = KV_FAULT_POINT() ? NULL : calloc(a->slots_end, 1);
	a->tenants = calloc(KV_POOLHEAD_TENANTS_MAX + 1, sizeof(a->tenants[0]));
	if (a->fates && a->tenants)
		rc = adopt_all(a);
	free(a->tenants);
	free(a->pieces);
	free(a->fates);
	free(a);
	return rc;
}

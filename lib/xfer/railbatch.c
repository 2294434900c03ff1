#include "xfer/railbatch.h"

#include <stdlib.h>

#include "base/fault.h"
#include "base/num.h"
#include "xfer/railbatchcore.h"
#include "xfer/rdmaregion.h"
#include "xfer/region.h"
#include "xfer/regtable.h"

/* Of what goes by TCP so much is looked for. */
#define OTHER_BYTES (UINT64_C(64) << 20)

struct kv_railbatch *
kv_railbatch_new(struct kv_region_set *own, enum kv_engine_op op)
{
	struct kv_railbatch *b = KV_FAULT_POINT() ? NULL : malloc(sizeof(*b));

	if (!b)
		return NULL;
	b->own = own;
	b->op = op;
	b->n_holds = b->n_made = 0;
	b->span.from = NULL;
	kv_railbatch_release(b);
	return b;
}

void
kv_railbatch_release(struct kv_railbatch *b)
{
	while (b->n_holds > 0)
		kv_region_let_go(b->own, b->holds[--b->n_holds]);
	while (b->n_made > 0)
		kv_rdmaregion_free(b->made[--b->n_made].nic);
	kv_packring_give(&b->span);
	b->bytes = b->other = 0;
	b->n_near = b->n_far = b->n_packed = 0;
	b->used = b->known = 0;
	b->no_ring = false;
}

void
kv_railbatch_free(struct kv_railbatch *b)
{
	if (b)
		kv_railbatch_release(b);
	free(b);
}

bool
kv_railbatch_is_awaited(const struct kv_railbatch *b)
{
	for (unsigned i = 0; i < b->n_holds; i++)
		if (kv_region_is_dying(b->own, b->holds[i]))
			return true;
	return false;
}

/* ---- memory of this process ---- */

/* Bytes that lie in one row here, from the cursor on, and that NICs can reach
 * there; of up to max. */
static uint64_t
row_of(const struct kv_regtable *table, struct kv_slice_cursor c, uint64_t max)
{
	const char *end = NULL;
	uint64_t row = 0;

	while (c.left > 0 && row < max) {
		struct kv_slice_piece p =
			kv_slice_look(table, KV_SLICE_RDMA, &c);

		if (p.path != KV_SLICE_RDMA || (end && p.local != end))
			break;
		end = p.local + p.len;
		row += p.len;
		kv_slice_skip(&c, p.len);
	}
	return kv_min_u64(row, max);
}

/* Where ranges of a piece come from. */
struct source {
	const struct kv_rdmaregion *nic;
	uint64_t addr, len;
	bool is_packed;
	uint64_t off; /* of addr, in what the NIC knows */
};

static struct source
source_of(const struct kv_region *r)
{
	return (struct source){ .nic = r->nic, .addr = r->addr, .len = r->len };
}

static struct source
source_made(const struct kv_railbatch_made *m)
{
	return (struct source){ .nic = m->nic, .addr = m->addr, .len = m->len };
}

/* What the last piece was in; pieces often are in the same. */
static bool
find_last(const struct kv_railbatch *b, uint64_t addr, struct source *out)
{
	if (b->n_holds > 0) {
		*out = source_of(b->holds[b->n_holds - 1]);
		if (addr - out->addr < out->len)
			return true;
	}
	if (b->n_made > 0) {
		const struct kv_railbatch_made *m = &b->made[b->n_made - 1];

		*out = source_made(m);
		if (addr - out->addr < out->len)
			return true;
	}
	return false;
}

enum found {
	FOUND,
	FULL,  /* not in this batch any more */
	OTHER, /* not for NICs: b->other bytes */
};

/* From there on what is known to be wanted so, as far as it has room. */
static bool
pack(struct kv_railbatch *b, const char *local, uint64_t left,
     struct source *out)
{
	const struct kv_packring *ring = &b->own->ring;
	uint64_t room = kv_railbatch_pack_room(b, local, left);

	if (room == 0)
		return false;
	*out = (struct source){
		.nic = ring->region,
		.addr = (uintptr_t)local,
		.len = kv_min_u64(room, b->known),
		.is_packed = true,
		.off = (uint64_t)(b->span.at - ring->base) + b->used,
	};
	return true;
}

/* A row that is in no region, of which `row` bytes come next. */
static enum found
make(struct kv_railbatch *b, char *local, uint64_t row, struct source *out)
{
	struct kv_railbatch_made *m;

	/* What is left over must be worth it, too. */
	if (row > KV_RAILBATCH_BYTES_MAX)
		row = KV_RAILBATCH_BYTES_MAX - KV_RAILBATCH_REGISTER_BYTES;
	if (b->n_made == KV_RAILBATCH_HOLDS_MAX ||
	    row > KV_RAILBATCH_BYTES_MAX - b->bytes)
		return FULL;
	m = &b->made[b->n_made];
	m->addr = (uintptr_t)local;
	m->len = row;
	m->nic =
		kv_rdmaregion_new(b->own->rdma, local, row, KV_RDMAREGION_NEAR);
	if (!m->nic)
		return OTHER;
	b->n_made++;
	*out = source_made(m);
	return FOUND;
}

/* Memory that is in no region, up to `max` bytes from the cursor on. */
static enum found
find_loose(struct kv_railbatch *b, const struct kv_regtable *table,
	   const struct kv_slice_cursor *c, char *local, uint64_t max,
	   struct source *out)
{
	uint64_t row;

	max = kv_min_u64(max, 2 * (uint64_t)KV_RAILBATCH_BYTES_MAX);
	row = row_of(table, *c, max);
	b->other = row;
	if (row >= KV_RAILBATCH_REGISTER_BYTES)
		return make(b, local, row, out);
	b->known = row;
	b->packs = true;
	if (pack(b, local, c->left, out))
		return FOUND;
	return b->used > 0 ? FULL : OTHER;
}

static enum found
find_near(struct kv_railbatch *b, const struct kv_regtable *table,
	  const struct kv_slice_cursor *c, const struct kv_slice_piece *p,
	  struct source *out)
{
	uint64_t addr = (uintptr_t)p->local, bytes;
	struct kv_region *r;

	if (kv_railbatch_pack_is_wanted(b, table, c, p) &&
	    pack(b, p->local, c->left, out))
		return FOUND;
	if (find_last(b, addr, out))
		return FOUND;
	if (b->n_holds == KV_RAILBATCH_HOLDS_MAX)
		return FULL;
	r = kv_region_hold_near(b->own, addr, &bytes);
	if (r) {
		b->holds[b->n_holds++] = r;
		*out = source_of(r);
		return FOUND;
	}
	return find_loose(b, table, c, p->local, bytes, out);
}

/* ---- the batch ---- */

static void
add_range(struct kv_rdmarange *list, unsigned *n, const struct kv_rdmarange *r)
{
	struct kv_rdmarange *last = *n ? &list[*n - 1] : NULL;

	if (last && last->mem == r->mem && last->addr + last->len == r->addr)
		last->len += r->len;
	else
		list[(*n)++] = *r;
}

/* The piece, or its beginning: so many bytes; 0: there is no room. */
static uint64_t
add(struct kv_railbatch *b, const struct kv_slice_piece *p,
    const struct source *near)
{
	uint64_t off = (uintptr_t)p->local - near->addr;
	uint64_t len = kv_min_u64(p->len, near->len - off);
	struct kv_rdmarange far = {
		.addr = p->entry->addr + p->off,
		.mem = p->entry->mem,
	}, own;

	len = kv_min_u64(len, KV_RAILBATCH_BYTES_MAX - b->bytes);
	if (b->n_near == KV_RAILBATCH_RANGES_MAX ||
	    b->n_far == KV_RAILBATCH_RANGES_MAX)
		return 0;
	/* A buffer has one range. */
	kv_rdmaregion_near(near->nic, near->off + off, len, &own, 1);
	far.len = len;
	add_range(b->near, &b->n_near, &own);
	add_range(b->far, &b->n_far, &far);
	if (near->is_packed)
		kv_railbatch_pack_add(b, p->local, len);
	b->known -= kv_min_u64(b->known, len);
	b->bytes += len;
	return len;
}

/* Whether NICs can have it after all is not asked: they can, or its memory is
 * in no region and fills a small row for which there is no ring. */
static bool
is_other(struct kv_railbatch *b, const struct kv_regtable *table,
	 const struct kv_slice_cursor *c, struct kv_slice_piece *p)
{
	struct kv_region *r;
	uint64_t bytes;

	if (p->path != KV_SLICE_RDMA)
		return p->path == KV_SLICE_TCP;
	r = kv_region_hold_near(b->own, (uintptr_t)p->local, &bytes);
	if (r) {
		kv_region_let_go(b->own, r);
		return false;
	}
	p->len = row_of(table, *c,
			kv_min_u64(bytes, KV_RAILBATCH_REGISTER_BYTES));
	return p->len < KV_RAILBATCH_REGISTER_BYTES &&
	       !kv_railbatch_pack_is_of_use(b);
}

/* What comes behind the first of it. */
static void
look_for_other(struct kv_railbatch *b, const struct kv_regtable *table,
	       struct kv_slice_cursor c)
{
	struct kv_slice_piece p;

	kv_slice_skip(&c, b->other);
	while (c.left > 0 && b->other < OTHER_BYTES) {
		p = kv_slice_look(table, KV_SLICE_RDMA, &c);
		if (!is_other(b, table, &c, &p))
			break;
		b->other += p.len;
		kv_slice_skip(&c, p.len);
	}
}

void
kv_railbatch_fill(struct kv_railbatch *b, const struct kv_regtable *table,
		  struct kv_slice_cursor *c)
{
	while (c->left > 0 && b->bytes < KV_RAILBATCH_BYTES_MAX) {
		struct kv_slice_piece p =
			kv_slice_look(table, KV_SLICE_RDMA, c);
		struct source near;
		uint64_t len;

		b->other = p.path == KV_SLICE_TCP ? p.len : 0;
		if (p.path != KV_SLICE_RDMA ||
		    find_near(b, table, c, &p, &near) != FOUND)
			break;
		len = add(b, &p, &near);
		if (len == 0)
			break;
		kv_slice_skip(c, len);
	}
	kv_railbatch_pack_end(b);
	if (b->bytes == 0 && b->other > 0)
		look_for_other(b, table, *c);
}

#include "base/num.h"
#include "mem/copy.h"
#include "xfer/railbatchcore.h"
#include "xfer/region.h"
#include "xfer/regtable.h"

/* So little room is not looked for in a ring that is nearly full. */
#define ROOM_LEAST_BYTES KV_PACKRING_SMALL_BYTES

/* ---- what is packed ---- */

/* Small pieces, as they are in memory here, that are one row there. */
struct row {
	uint64_t bytes;
	unsigned n;
};

static struct row
small_row(const struct kv_regtable *table, struct kv_slice_cursor c)
{
	const struct kv_regtable_entry *entry = NULL;
	uint64_t off = 0, len = 0, before = 0;
	struct kv_slice_piece p;
	const char *end = NULL;
	unsigned n = 0;

	while (c.left > 0 && before + len < KV_PACKRING_SPAN_BYTES) {
		p = kv_slice_look(table, KV_SLICE_RDMA, &c);
		if (p.path != KV_SLICE_RDMA ||
		    (n > 0 && (p.entry != entry || p.off != off)))
			break;
		if (n == 0 || p.local != end) {
			n++;
			before += len;
			len = 0;
		}
		len += p.len;
		if (len >= KV_PACKRING_SMALL_BYTES)
			return (struct row){ before, n - 1 };
		entry = p.entry;
		off = p.off + p.len;
		end = p.local + p.len;
		kv_slice_skip(&c, p.len);
	}
	return (struct row){ before + len, n };
}

bool
kv_railbatch_pack_is_wanted(struct kv_railbatch *b,
			    const struct kv_regtable *table,
			    const struct kv_slice_cursor *c,
			    const struct kv_slice_piece *p)
{
	struct row row = { 0 };

	if (b->known > 0)
		return b->packs;
	if (p->len < KV_PACKRING_SMALL_BYTES)
		row = small_row(table, *c);
	b->known = row.n > 0 ? row.bytes : p->len;
	b->packs = row.n > KV_RDMAPLAN_NEAR_MAX;
	return b->packs;
}

/* ---- where ---- */

uint64_t
kv_railbatch_pack_room(struct kv_railbatch *b, const char *first, uint64_t left)
{
	uint64_t bytes;

	if (b->no_ring || b->n_packed == KV_RAILBATCH_PACKED_MAX)
		return 0;
	if (!b->span.from) {
		bytes = kv_min_u64(left, kv_region_ring_begin(b->own));
		while (bytes > 0 &&
		       !kv_packring_take(&b->own->ring, first, bytes, &b->span))
			bytes = bytes > ROOM_LEAST_BYTES ? bytes / 2 : 0;
	}
	b->no_ring = !b->span.from;
	return b->no_ring ? 0 : b->span.bytes - b->used;
}

bool
kv_railbatch_pack_is_of_use(struct kv_railbatch *b)
{
	return !b->no_ring && kv_region_ring_begin(b->own) > 0;
}

void
kv_railbatch_pack_add(struct kv_railbatch *b, char *local, uint64_t len)
{
	struct kv_railbatch_packed *last =
		b->n_packed ? &b->packed[b->n_packed - 1] : NULL;
	char *at = b->span.at + b->used;

	if (b->op == KV_ENGINE_WRITE)
		kv_copy(at, local, len);
	b->used += len;
	if (last && last->local + last->len == local)
		last->len += len;
	else
		b->packed[b->n_packed++] =
			(struct kv_railbatch_packed){ local, at, len };
}

void
kv_railbatch_pack_end(struct kv_railbatch *b)
{
	if (b->used > 0)
		kv_packring_cut(&b->span, b->used);
	else
		kv_packring_give(&b->span);
}

/* ---- bytes ---- */

void
kv_railbatch_unpack(const struct kv_railbatch *b)
{
	if (b->op != KV_ENGINE_READ)
		return;
	for (unsigned i = 0; i < b->n_packed; i++)
		kv_copy(b->packed[i].local, b->packed[i].at, b->packed[i].len);
}

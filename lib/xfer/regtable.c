#include "xfer/regtable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "mem/ahead.h"
#include "mem/seg.h"

struct kv_regmap {
	atomic_int refs;
	uint64_t handle;
	struct kv_seg *seg;
	struct kv_ahead *ahead;
};

static void
map_unref(struct kv_regmap *map)
{
	if (!map || atomic_fetch_sub(&map->refs, 1) > 1)
		return;
	kv_ahead_free(map->ahead);
	kv_seg_close(map->seg);
	free(map);
}

struct kv_regtable *
kv_regtable_ref(struct kv_regtable *t)
{
	atomic_fetch_add(&t->refs, 1);
	return t;
}

void
kv_regtable_unref(struct kv_regtable *t)
{
	if (!t || atomic_fetch_sub(&t->refs, 1) > 1)
		return;
	for (size_t i = 0; i < t->n; i++)
		map_unref(t->entries[i].map);
	free(t->mems);
	free(t);
}

/* ---- from the wire ---- */

static int
compare_addr(const void *a, const void *b)
{
	const struct kv_regtable_entry *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* What is in the message, in bounds. */
struct told {
	const struct kv_regions_r *body;
	const struct kv_region_rec *recs;
	const struct kv_le32 *keys;
	size_t n, n_keyed;
};

static bool
has_keys(const struct kv_region_rec *rec)
{
	return kv_get32(rec->flags) & KV_REGION_KEYS;
}

static bool
read_told(const struct kv_msg *msg, struct told *told)
{
	const struct kv_regions_r *body = msg->body;
	struct kv_cut cut;

	if (msg->type != KV_MSG_REGIONS_R || body->status != 0 ||
	    body->ports > KV_RDMA_PORTS_MAX)
		return false;
	told->body = body;
	told->n = kv_get32(body->count);
	told->n_keyed = 0;
	kv_cut_init(&cut, msg);
	told->recs = kv_cut_array(&cut, told->n, sizeof(*told->recs));
	for (size_t i = 0; told->recs && i < told->n; i++)
		told->n_keyed += has_keys(&told->recs[i]);
	told->keys = kv_cut_array(&cut, told->n_keyed * body->ports,
				  sizeof(*told->keys));
	return kv_cut_done(&cut) && (told->n_keyed == 0 || body->ports > 0);
}

static struct kv_regtable *
table_new(const struct told *told)
{
	size_t n = told->n;
	struct kv_regtable *t =
		KV_FAULT_POINT()
			? NULL
			: calloc(1, sizeof(*t) + n * sizeof(t->entries[0]));

	if (!t)
		return NULL;
	if (told->n_keyed > 0 && !KV_FAULT_POINT())
		t->mems = calloc(told->n_keyed, sizeof(*t->mems));
	if (told->n_keyed > 0 && !t->mems) {
		free(t);
		return NULL;
	}
	t->refs = 1;
	t->epoch = kv_get64(told->body->epoch);
	t->token_addr = kv_get64(told->body->token_addr);
	memcpy(&t->token, told->body->token, sizeof(t->token));
	t->ports = told->body->ports;
	t->n = n;
	return t;
}

static bool
read_entry(struct kv_regtable_entry *e, const struct kv_region_rec *rec)
{
	uint64_t end;

	e->addr = kv_get64(rec->addr);
	e->len = kv_get64(rec->len);
	e->handle = kv_get64(rec->handle);
	e->shared = kv_get32(rec->flags) & KV_REGION_SHARED;
	return e->addr && e->len && e->handle &&
	       !kv_add_u64(e->addr, e->len, &end);
}

static void
read_keys(const struct kv_regtable *t, struct kv_regtable_entry *e,
	  struct kv_rdmamem *mem, const struct kv_le32 *keys)
{
	mem->addr = e->addr;
	mem->len = e->len;
	for (unsigned i = 0; i < t->ports; i++)
		mem->keys[i] = kv_get32(keys[i]);
	e->mem = mem;
}

static bool
read_entries(struct kv_regtable *t, const struct told *told)
{
	size_t n_keyed = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct kv_regtable_entry *e = &t->entries[i];

		if (!read_entry(e, &told->recs[i]))
			return false;
		if (!has_keys(&told->recs[i]))
			continue;
		read_keys(t, e, &t->mems[n_keyed],
			  told->keys + n_keyed * t->ports);
		n_keyed++;
	}
	t->first = t->n ? t->entries[0].addr : 0;
	qsort(t->entries, t->n, sizeof(t->entries[0]), compare_addr);
	for (size_t i = 1; i < t->n; i++)
		if (t->entries[i].addr - t->entries[i - 1].addr <
		    t->entries[i - 1].len)
			return false;
	return true;
}

struct kv_regtable *
kv_regtable_parse(const struct kv_msg *msg)
{
	struct kv_regtable *t;
	struct told told;

	errno = EPROTO;
	if (!read_told(msg, &told))
		return NULL;
	errno = ENOMEM;
	t = table_new(&told);
	if (!t || read_entries(t, &told))
		return t;
	kv_regtable_unref(t);
	errno = EPROTO;
	return NULL;
}

/* ---- look-up ---- */

const struct kv_regtable_entry *
kv_regtable_find(const struct kv_regtable *t, uint64_t addr)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct kv_regtable_entry *e = &t->entries[mid];

		if (addr < e->addr)
			high = mid;
		else if (addr - e->addr >= e->len)
			low = mid + 1;
		else
			return e;
	}
	return NULL;
}

bool
kv_regtable_covers(const struct kv_regtable *t, uint64_t addr, uint64_t len)
{
	const struct kv_regtable_entry *e = kv_regtable_find(t, addr);
	const struct kv_regtable_entry *end = t->entries + t->n;
	uint64_t part;

	for (; e && e < end && e->addr <= addr; e++) {
		part = e->addr + e->len - addr;
		if (len <= part)
			return true;
		addr += part;
		len -= part;
	}
	return false;
}

/* ---- mapped regions ---- */

struct kv_regmap *
kv_regtable_map(int fd, uint64_t bytes, uint64_t handle)
{
	struct kv_seg_attach_opts opts = {
		.bytes = bytes,
		.writable = true,
		.sealed = true,
	};
	kv_auto_close int own = fd;
	struct kv_regmap *map;
	char why[256];
	int rc;

	map = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*map));
	if (!map)
		return NULL;
	rc = kv_seg_attach(own, &opts, &map->seg, why, sizeof(why));
	if (rc) {
		kv_warn("engine: cannot map a peer's memory: %s", why);
		free(map);
		errno = -rc;
		return NULL;
	}
	kv_steal_fd(&own);
	map->ahead = kv_ahead_new(map->seg);
	if (!map->ahead) {
		kv_seg_close(map->seg);
		free(map);
		errno = ENOMEM;
		return NULL;
	}
	map->refs = 1;
	map->handle = handle;
	return map;
}

static struct kv_regmap *
find_map(const struct kv_regtable *t, uint64_t handle, uint64_t addr)
{
	const struct kv_regtable_entry *e = kv_regtable_find(t, addr);

	return e && e->handle == handle ? e->map : NULL;
}

void
kv_regtable_inherit(struct kv_regtable *t, const struct kv_regtable *old)
{
	for (size_t i = 0; old && i < t->n; i++) {
		struct kv_regtable_entry *e = &t->entries[i];
		struct kv_regmap *map = find_map(old, e->handle, e->addr);

		if (!map || e->map || !e->shared || e->len > map->seg->bytes)
			continue;
		atomic_fetch_add(&map->refs, 1);
		e->map = map;
	}
}

void *
kv_regtable_at(struct kv_regmap *map, uint64_t off, uint64_t len)
{
	/* What the peer did not touch yet is not for us to make. */
	kv_ahead_use(map->ahead, off, len, 0);
	return map->seg->base + off;
}

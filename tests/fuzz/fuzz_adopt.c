/*
 * The index file of a pool, as an adopting node reads it. The first byte of an
 * input chooses; what follows is the head and what belongs to it, or slots from
 * the first one on. HEAD apart, RESEAL makes the sums and hashes right, so that
 * what they guard is met as well.
 *
 * Whatever the file says, no byte of the pool is anybody's twice, and none is
 * lost.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/le.h"
#include "base/num.h"
#include "ledgerrig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	HEAD = 1,
	RESEAL = 2,
	ATTACHED = 4,
	HALF = 8, /* a smaller pool */
	HOLE = 16,
	SLOTS_MAX = 64,
	FIRST = KV_RECORD_SLOT_MIN,
	/* Of a slot: see record.c. */
	SUM_OFF = 24,
	MORE_SUM_OFF = 8,
	HASH_OFF = 32,
	KEY_LEN_OFF = 80,
	N_EXT_OFF = 82,
	TENANT_LEN_OFF = 84,
	DATA_OFF = 88,
};

static uint8_t owners[LEDGERRIG_POOL / KV_GRANULE_BYTES];

static uint16_t
get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

/* The hash of a key that lies in the first slot whole. */
static void
hash_mend(uint8_t *p)
{
	size_t tenant = (size_t)get16(p + N_EXT_OFF) * 16;
	size_t tenant_len = p[TENANT_LEN_OFF], len = get16(p + KEY_LEN_OFF);
	struct kv_hash h;
	struct kv_id id;

	if (DATA_OFF + tenant + tenant_len + len > KV_RECORD_BYTES)
		return;
	p += DATA_OFF + tenant;
	h = kv_key_hash(kv_key_seed(p, tenant_len), p + tenant_len, len);
	id = kv_key_hash_build(h);
	memcpy(p - tenant - DATA_OFF + HASH_OFF, id.b, sizeof(id.b));
}

static void
slot_seal(struct ledgerrig *r, uint32_t slot)
{
	uint8_t *p = r->file + (size_t)slot * KV_RECORD_BYTES;
	bool is_more = kv_record_state(r->file, slot) == KV_RECORD_MORE;
	size_t off = is_more ? MORE_SUM_OFF : SUM_OFF;
	struct kv_le64 sum;

	if (!is_more)
		hash_mend(p);
	sum = kv_le64(XXH3_64bits_withSeed(
		p + off + 8, KV_RECORD_BYTES - off - 8,
		kv_record_seed(r->head.pool) +
			slot * UINT64_C(0x9e3779b97f4a7c15)));
	memcpy(p + off, &sum, sizeof(sum));
}

static void
claim(const struct kv_extent *e, unsigned n)
{
	unsigned i;
	uint64_t g;

	for (i = 0; i < n; i++)
		for (g = e[i].off / KV_GRANULE_BYTES;
		     g < (e[i].off + e[i].len) / KV_GRANULE_BYTES; g++)
			if (g >= sizeof(owners) || owners[g]++)
				abort();
}

static void
object_claims(void *arg, struct kv_object *o)
{
	(void)arg;
	claim(kv_index_extents(o), o->n_ext);
}

static void
check(struct ledgerrig *r)
{
	static struct kv_extent ext[LEDGERRIG_POOL / KV_GRANULE_BYTES];
	uint64_t cursor = 0, left = ledgerrig_free(r), had = 0;
	struct kv_index_stats st;
	int n;

	memset(owners, 0, sizeof(owners));
	do
		cursor = kv_index_scan(r->ix, cursor, 64, object_claims, NULL);
	while (cursor);
	kv_index_stats(r->ix, &st);
	while (left > 0) {
		n = kv_slab_alloc(r->slab, kv_min_u64(left, 65536), ext, 4096);
		if (n <= 0)
			abort();
		claim(ext, (unsigned)n);
		had += kv_min_u64(left, 65536);
		left -= kv_min_u64(left, 65536);
	}
	if (had > r->pool_bytes)
		abort();
}

static void
read_head(const uint8_t *data, size_t size)
{
	static _Alignas(4096) uint8_t file[KV_POOLHEAD_BYTES];
	struct kv_poolhead_tenant t;
	struct kv_poolhead h;
	uint32_t format;
	unsigned i;

	size = kv_min_size(size, sizeof(file));
	memset(file, 0, sizeof(file));
	memcpy(file, data, size);
	if (kv_poolhead_parse(file, size, &h, &format) == 0)
		kv_poolhead_build(file, &h);
	for (i = 0; i < KV_POOLHEAD_TENANTS_MAX; i++)
		if (kv_poolhead_tenant_get(file, i, &t) == 1 &&
		    kv_poolhead_tenant_find(file, t.name, t.len, &t) == 0)
			abort();
	kv_poolhead_tenant_mend(file);
	t = (struct kv_poolhead_tenant){ .number = 1, .len = 1, .name = "n" };
	if (kv_poolhead_tenant_put(file, &t) == 0 &&
	    kv_poolhead_tenant_find(file, "n", 1, &t) != 1)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ledgerrig r;
	uint32_t i;

	if (size < 1)
		return 0;
	if (data[0] & HEAD) {
		read_head(data + 1, size - 1);
		return 0;
	}
	ledgerrig_open(&r);
	for (i = 0; i < SLOTS_MAX; i++)
		kv_record_set_state(r.file, FIRST + i, KV_RECORD_FREE);
	memcpy(r.file + KV_POOLHEAD_BYTES, data + 1,
	       kv_min_size(size - 1, SLOTS_MAX * KV_RECORD_BYTES));
	for (i = 0; data[0] & RESEAL && i < SLOTS_MAX; i++)
		slot_seal(&r, FIRST + i);
	r.head.slots_end = FIRST + SLOTS_MAX;
	r.head.life = 1;
	r.attached = data[0] & ATTACHED ? 2 : 0;
	if (data[0] & HALF)
		r.pool_bytes /= 2;
	if (data[0] & HOLE) {
		r.hole_off = LEDGERRIG_POOL / 4;
		r.hole_len = 1;
	}
	ledgerrig_again(&r);
	/* What one life took over the next one takes as well. */
	i = (uint32_t)r.report.keys;
	ledgerrig_again(&r);
	if (r.report.keys != i || r.report.broken)
		abort();
	r.attached = 0;
	if (kv_quarantine_settle(&r.q))
		abort();
	check(&r);
	ledgerrig_close(&r);
	return 0;
}

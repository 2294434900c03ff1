#include "ledgerrig.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/num.h"

static int
file_grow(void *arg, uint64_t bytes)
{
	struct ledgerrig *r = arg;

	if (bytes > r->file_max)
		return -ENOSPC;
	if (bytes > r->file_bytes)
		r->file_bytes = bytes;
	return 0;
}

static bool
is_attached(void *arg, uint32_t from, uint32_t to)
{
	struct ledgerrig *r = arg;
	uint32_t i;

	r->asked++;
	for (i = from; i <= to && i < 64; i++)
		if (r->attached & UINT64_C(1) << i)
			return true;
	return false;
}

static uint64_t
data_end(void *arg, uint64_t off)
{
	const struct ledgerrig *r = arg;

	if (off >= r->hole_off && off < r->hole_off + r->hole_len)
		return off;
	if (off < r->hole_off && r->hole_len)
		return kv_min_u64(r->hole_off, r->data_end);
	return r->data_end;
}

void
ledgerrig_open(struct ledgerrig *r)
{
	memset(r, 0, sizeof(*r));
	r->file = mmap(NULL, LEDGERRIG_FILE_MAX, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert(r->file != MAP_FAILED);
	r->file_max = LEDGERRIG_FILE_MAX;
	r->head.pool.b[3] = 9;
	r->pool_bytes = r->data_end = LEDGERRIG_POOL;
	r->now = 1000000;
	kv_poolhead_init(r->file);
}

void
ledgerrig_end(struct ledgerrig *r)
{
	if (r->ledger)
		r->head = *kv_ledger_head(r->ledger);
	kv_quarantine_fini(&r->q);
	kv_index_free(r->ix);
	kv_slab_free(r->slab);
	kv_ledger_free(r->ledger);
	r->ix = NULL;
	r->slab = NULL;
	r->ledger = NULL;
}

void
ledgerrig_close(struct ledgerrig *r)
{
	ledgerrig_end(r);
	munmap(r->file, LEDGERRIG_FILE_MAX);
}

static int
life_adopt(struct ledgerrig *r)
{
	const struct kv_quarantine_opts qo = {
		.slab = r->slab,
		.index = r->ix,
		.ledger = r->ledger,
		.is_attached = is_attached,
		.arg = r,
	};
	const struct kv_adopt_opts ao = {
		.ledger = r->ledger,
		.index = r->ix,
		.slab = r->slab,
		.quarantine = &r->q,
		.pool_bytes = r->pool_bytes,
		.now = r->now,
		.data_end = data_end,
		.arg = r,
	};

	kv_quarantine_init(&r->q, &qo);
	return kv_adopt(&ao, &r->report);
}

int
ledgerrig_begin(struct ledgerrig *r, bool is_late)
{
	struct kv_ledger_opts lo = {
		.file = r->file,
		.head = r->head,
		.bytes_max = LEDGERRIG_FILE_MAX,
		.grow = file_grow,
		.arg = r,
	};
	struct kv_index_opts io = { .grace_ns = 1000 };
	int rc = -ENOMEM;

	lo.head.life++;
	lo.head.pool_bytes = r->pool_bytes;
	r->ledger = kv_ledger_new(&lo);
	r->slab = kv_slab_new(r->pool_bytes);
	io.slab = r->slab;
	io.ledger = r->ledger;
	if (r->ledger && r->slab)
		r->ix = kv_index_new(&io);
	if (r->ix)
		rc = life_adopt(r);
	if (rc == 0) {
		kv_quarantine_settle(&r->q);
		if (!is_late)
			kv_quarantine_ready(&r->q, r->pool_bytes);
	}
	return rc;
}

void
ledgerrig_again(struct ledgerrig *r)
{
	int rc;

	ledgerrig_end(r);
	rc = ledgerrig_begin(r, false);
	assert(rc == 0);
}

uint32_t
ledgerrig_reserve(struct ledgerrig *r, const char *key, uint64_t size,
		  struct kv_extent *ext)
{
	struct kv_record rec = {
		.hash = kv_key_hash(kv_key_seed(NULL, 0), key, strlen(key)),
		.size = size,
		.id_random = 77,
		.id_version = 3,
		.tenant_len = 7,
		.key_len = (uint16_t)strlen(key),
		.tenant = "default",
		.key = key,
		.ext = ext,
	};
	uint32_t slot = 0;
	int rc = kv_index_reserve(r->ix, size, true, r->now, ext,
				  KV_EXTENTS_MAX);

	if (rc < 0)
		return 0;
	rec.n_ext = (uint16_t)rc;
	rc = kv_ledger_reserve(r->ledger, &rec, true, &slot);
	if (rc < 0) {
		kv_index_unreserve(r->ix, ext, rec.n_ext);
		errno = -rc;
	}
	return slot;
}

struct kv_object *
ledgerrig_put_hidden(struct ledgerrig *r, const char *key, uint64_t size)
{
	struct kv_extent ext[KV_EXTENTS_MAX];
	struct kv_index_new_object n = {
		.hash = kv_key_hash(kv_key_seed(NULL, 0), key, strlen(key)),
		.key = key,
		.key_len = strlen(key),
		.size = size,
		.ext = ext,
		.id_random = 77,
		.id_version = 3,
	};

	n.slot = ledgerrig_reserve(r, key, size, ext);
	if (!n.slot)
		return NULL;
	while (n.n_ext < KV_EXTENTS_MAX && size > 0) {
		size -= kv_min_u64(size, ext[n.n_ext].len);
		n.n_ext++;
	}
	return kv_index_insert(r->ix, &n, r->now);
}

struct kv_object *
ledgerrig_put(struct ledgerrig *r, const char *key, uint64_t size)
{
	struct kv_object *o = ledgerrig_put_hidden(r, key, size);

	if (o)
		kv_index_show(r->ix, o, r->now++);
	return o;
}

struct kv_object *
ledgerrig_find(struct ledgerrig *r, const char *key)
{
	return kv_index_find(
		r->ix, kv_key_hash(kv_key_seed(NULL, 0), key, strlen(key)), 0,
		key, strlen(key));
}

void
ledgerrig_sum(struct ledgerrig *r)
{
	struct kv_ledger_taken t;

	while (kv_ledger_take(r->ledger, true, &t))
		if (kv_ledger_is_current(r->ledger, &t))
			kv_ledger_sum(r->ledger, t.slot, 7);
}

uint64_t
ledgerrig_free(const struct ledgerrig *r)
{
	return kv_slab_free_bytes(r->slab);
}

#include "railfill.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "hcahost.h"
#include "test.h"
#include "xfer/rdmaregion.h"

char *railfill_local;
struct kv_region_set railfill_set;
struct kv_regtable *railfill_table;
struct kv_railbatch *railfill_batch;
unsigned railfill_registered;
bool railfill_refuses, railfill_no_ring;

static struct kv_rdma *rdma;

static bool
is_ring(const void *addr, size_t bytes)
{
	return (uintptr_t)addr - (uintptr_t)railfill_local >= RAILFILL_BYTES &&
	       bytes >= KV_PACKRING_BYTES_LEAST && bytes <= KV_PACKRING_BYTES;
}

static struct ibv_mr *
count_reg(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	bool is_refused =
		railfill_refuses || (railfill_no_ring && is_ring(addr, bytes));
	struct ibv_mr *mr;

	errno = ENOMEM;
	mr = is_refused ? NULL : hcahost_real->reg_mr(pd, addr, bytes, access);
	railfill_registered += mr != NULL;
	return mr;
}

static int
count_dereg(struct ibv_mr *mr)
{
	railfill_registered--;
	return hcahost_real->dereg_mr(mr);
}

static struct kv_regtable *
table_new(void)
{
	static struct kv_rdmamem mem = { .addr = RAILFILL_FAR,
					 .len = RAILFILL_FAR_BYTES };
	static char map[1];
	struct kv_regtable *t =
		calloc(1, sizeof(*t) + 3 * sizeof(t->entries[0]));

	t->refs = 1;
	t->n = 3;
	t->ports = 1;
	for (uint64_t i = 0; i < 3; i++)
		t->entries[i] = (struct kv_regtable_entry){
			.addr = RAILFILL_FAR + i * RAILFILL_FAR_BYTES,
			.len = RAILFILL_FAR_BYTES,
			.handle = i + 1,
		};
	t->entries[0].mem = &mem;
	t->entries[1].map = (void *)map;
	return t;
}

int
railfill_set_up(void **state)
{
	struct kv_rdma_opts o = { .verbs = &hcahost_v, .addrs = hcahost_addrs };
	char err[KV_RDMADEV_WHY_BYTES];

	(void)state;
	hcahost_open();
	hcahost_v.reg_mr = count_reg;
	hcahost_v.reg_mr_iova2 = NULL;
	hcahost_v.dereg_mr = count_dereg;
	rdma = kv_rdma_open(&o, err, sizeof(err));
	assert_non_null(rdma);
	railfill_refuses = railfill_no_ring = false;
	kv_region_init(&railfill_set, rdma);
	railfill_local = mmap(NULL, RAILFILL_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(railfill_local, MAP_FAILED);
	railfill_table = table_new();
	railfill_batch = kv_railbatch_new(&railfill_set, KV_ENGINE_WRITE);
	assert_non_null(railfill_batch);
	return 0;
}

int
railfill_tear_down(void **state)
{
	(void)state;
	kv_railbatch_free(railfill_batch);
	free(railfill_table);
	for (size_t i = 0; i < railfill_set.n_addr; i++)
		assert_int_equal(railfill_set.by_addr[i]->users, 0);
	kv_region_fini(&railfill_set);
	assert_int_equal(railfill_registered, 0);
	munmap(railfill_local, RAILFILL_BYTES);
	kv_rdma_close(rdma);
	hcahost_close();
	return 0;
}

void
railfill_add_region(size_t at, size_t len)
{
	assert_int_equal(
		kv_region_add(&railfill_set, railfill_local + at, len, NULL),
		0);
}

struct kv_xfer_item
railfill_item(size_t at, uint64_t far, size_t len)
{
	return (struct kv_xfer_item){ railfill_local + at, RAILFILL_FAR + far,
				      len };
}

struct kv_slice_cursor
railfill_cursor(const struct kv_xfer_item *items, size_t n)
{
	struct kv_slice_cursor c = { .item = items };

	for (size_t i = 0; i < n; i++)
		c.left += items[i].len;
	return c;
}

static uint64_t
sum(const struct kv_rdmarange *r, unsigned n)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < n; i++)
		bytes += r[i].len;
	return bytes;
}

void
railfill_expect(struct kv_slice_cursor *c, uint64_t bytes, uint64_t other)
{
	uint64_t left = c->left;

	kv_railbatch_fill(railfill_batch, railfill_table, c);
	assert_int_equal(railfill_batch->bytes, bytes);
	if (bytes == 0)
		assert_int_equal(railfill_batch->other, other);
	assert_int_equal(c->left, left - bytes);
	assert_int_equal(sum(railfill_batch->near, railfill_batch->n_near),
			 bytes);
	assert_int_equal(sum(railfill_batch->far, railfill_batch->n_far),
			 bytes);
}

/* What of a transfer NICs move, and what is left to TCP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "hcahost.h"
#include "kvpool.h"
#include "test.h"
#include "xfer/railbatch.h"
#include "xfer/rdmaregion.h"
#include "xfer/region.h"
#include "xfer/regtable.h"

enum {
	FAR = 1 << 20, /* address of the peer's first region */
	FAR_BYTES = 1 << 30,
	BIG = (int)KV_RAILBATCH_REGISTER_BYTES,
	LOCAL_BYTES = 4 << 20,
};

static char *local; /* pages of its own */
static struct kv_region_set set;
static struct kv_rdma *rdma;
static struct kv_regtable *table;
static struct kv_railbatch *batch;
static unsigned registered;
static bool refuses;

static struct ibv_mr *
count_reg(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct ibv_mr *mr;

	errno = ENOMEM;
	mr = refuses ? NULL : hcahost_real->reg_mr(pd, addr, bytes, access);
	registered += mr != NULL;
	return mr;
}

static int
count_dereg(struct ibv_mr *mr)
{
	registered--;
	return hcahost_real->dereg_mr(mr);
}

/* Three regions of the peer: with keys, mapped, and without keys. */
static struct kv_regtable *
table_new(void)
{
	static struct kv_rdmamem mem = { .addr = FAR, .len = FAR_BYTES };
	static char map[1];
	struct kv_regtable *t =
		calloc(1, sizeof(*t) + 3 * sizeof(t->entries[0]));

	t->refs = 1;
	t->n = 3;
	t->ports = 1;
	for (uint64_t i = 0; i < 3; i++)
		t->entries[i] = (struct kv_regtable_entry){
			.addr = FAR + i * FAR_BYTES,
			.len = FAR_BYTES,
			.handle = i + 1,
		};
	t->entries[0].mem = &mem;
	t->entries[1].map = (void *)map;
	return t;
}

static int
set_up(void **state)
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
	refuses = false;
	kv_region_init(&set, rdma);
	local = mmap(NULL, LOCAL_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(local, MAP_FAILED);
	table = table_new();
	batch = kv_railbatch_new(&set);
	assert_non_null(batch);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	kv_railbatch_free(batch);
	free(table);
	for (size_t i = 0; i < set.n_addr; i++)
		assert_int_equal(set.by_addr[i]->users, 0);
	kv_region_fini(&set);
	assert_int_equal(registered, 0);
	munmap(local, LOCAL_BYTES);
	kv_rdma_close(rdma);
	hcahost_close();
	return 0;
}

static void
add_region(size_t at, size_t len)
{
	assert_int_equal(kv_region_add(&set, local + at, len, NULL), 0);
}

static struct kv_xfer_item
item(size_t at, uint64_t far, size_t len)
{
	return (struct kv_xfer_item){ local + at, FAR + far, len };
}

static struct kv_slice_cursor
cursor_of(const struct kv_xfer_item *items, size_t n)
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

/* Fills it; so many bytes are for NICs, or so many for TCP. */
static void
expect(struct kv_slice_cursor *c, uint64_t bytes, uint64_t other)
{
	uint64_t left = c->left;

	kv_railbatch_fill(batch, table, c);
	assert_int_equal(batch->bytes, bytes);
	if (bytes == 0)
		assert_int_equal(batch->other, other);
	assert_int_equal(c->left, left - bytes);
	assert_int_equal(sum(batch->near, batch->n_near), bytes);
	assert_int_equal(sum(batch->far, batch->n_far), bytes);
}

static void
neighbours_are_joined(void **state)
{
	const struct kv_xfer_item items[] = {
		item(100, 5000, 10), item(0, 9, 0),       item(110, 5010, 20),
		item(130, 100, 30),  item(1000, 130, 40),
	};
	struct kv_slice_cursor c = cursor_of(items, 5);

	(void)state;
	add_region(0, 2000);
	expect(&c, 100, 0);
	assert_int_equal(batch->n_near, 2);
	assert_int_equal(batch->near[0].addr, (uintptr_t)local + 100);
	assert_int_equal(batch->near[0].len, 60);
	assert_int_equal(batch->near[1].addr, (uintptr_t)local + 1000);
	assert_ptr_equal(batch->near[0].mem, batch->near[1].mem);
	assert_int_equal(batch->n_far, 2);
	assert_int_equal(batch->far[0].addr, FAR + 5000);
	assert_int_equal(batch->far[0].len, 30);
	assert_int_equal(batch->far[1].addr, FAR + 100);
	assert_int_equal(batch->far[1].len, 70);
	assert_ptr_equal(batch->far[0].mem, table->entries[0].mem);
	assert_int_equal(set.by_addr[0]->users, 1);
}

static void
a_piece_may_cross_regions_of_our_own(void **state)
{
	const struct kv_xfer_item items[] = { item(500, 0, 1000) };
	struct kv_slice_cursor c = cursor_of(items, 1);

	(void)state;
	add_region(0, 1000);
	add_region(1000, 1000);
	expect(&c, 1000, 0);
	assert_int_equal(batch->n_near, 2);
	assert_int_equal(batch->near[0].len, 500);
	assert_int_equal(batch->n_far, 1);
	assert_int_equal(batch->n_holds, 2);
	kv_railbatch_release(batch);
	assert_int_equal(batch->bytes, 0);
	assert_int_equal(set.by_addr[0]->users, 0);
}

/* Small pieces here and there, up to one that is registered. */
static void
small_memory_is_left_to_tcp(void **state)
{
	const struct kv_xfer_item items[] = {
		item(0, 0, 1000),
		item(5000, 1000, 2000),
		item(9000, 5ll * FAR_BYTES / 2, 3000), /* without keys */
		item(100000, 9000, 500),
		item(20000, 20000, 700),
	};
	struct kv_slice_cursor c = cursor_of(items, 5);

	(void)state;
	add_region(100000, 1000);
	expect(&c, 0, 6000);
	kv_slice_skip(&c, 6000);
	expect(&c, 500, 0);
	kv_railbatch_release(batch);
	expect(&c, 0, 700);
}

static void
mapped_memory_is_for_nobody_here(void **state)
{
	const struct kv_xfer_item items[] = {
		item(0, 1000, 10),
		item(10, FAR_BYTES + 5, 10),
		item(20, 0, 10),
	};
	struct kv_slice_cursor c = cursor_of(items, 3);

	(void)state;
	expect(&c, 0, 10);
	kv_slice_skip(&c, 10);
	expect(&c, 0, 0);
	kv_slice_skip(&c, 10);
	expect(&c, 0, 10);
}

/* Items that touch count together. */
static void
large_memory_is_registered_for_the_batch(void **state)
{
	const struct kv_xfer_item items[] = {
		item(4096, 9000, BIG / 2),
		item(4096 + BIG / 2, 500000, BIG / 2),
		item(2 << 20, 0, BIG - 1),
	};
	struct kv_slice_cursor c = cursor_of(items, 3);

	(void)state;
	expect(&c, BIG, 0);
	assert_int_equal(batch->n_made, 1);
	assert_true(registered > 0);
	assert_int_equal(batch->n_near, 1);
	assert_int_equal(batch->near[0].addr, (uintptr_t)local + 4096);
	assert_int_equal(batch->n_far, 2);
	kv_railbatch_release(batch);
	assert_int_equal(registered, 0);
	expect(&c, 0, BIG - 1);
	assert_int_equal(registered, 0);
}

/* It is not registered over what is a region. */
static void
large_memory_ends_where_a_region_begins(void **state)
{
	const struct kv_xfer_item items[] = { item(0, 0, 2 * BIG) };
	struct kv_slice_cursor c = cursor_of(items, 1);

	(void)state;
	add_region(BIG, 100);
	expect(&c, 2 * BIG - (BIG - 100), 0);
	assert_int_equal(batch->n_made, 1);
	assert_int_equal(batch->n_holds, 1);
	kv_railbatch_release(batch);
	expect(&c, 0, BIG - 100);
}

static void
what_cannot_be_registered_goes_by_tcp(void **state)
{
	const struct kv_xfer_item items[] = {
		item(0, 0, 2 * BIG),
		item(2 * BIG, 2 * BIG, BIG),
		item(3 << 20, 0, BIG),
	};
	struct kv_slice_cursor c = cursor_of(items, 3);

	(void)state;
	refuses = true;
	expect(&c, 0, 3 * BIG);
	kv_slice_skip(&c, 3 * BIG);
	refuses = false;
	expect(&c, BIG, 0);
}

/* The same two megabytes many times in a row. */
static char *
map_row(size_t len)
{
	const size_t page = 2 << 20;
	int fd = memfd_create("row", MFD_CLOEXEC);
	char *p =
		mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(ftruncate(fd, (off_t)page), 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	for (size_t at = 0; at < len; at += page)
		assert_ptr_equal(mmap(p + at, page, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_FIXED, fd, 0),
				 p + at);
	close(fd);
	return p;
}

static void
a_batch_is_bounded_and_leaves_no_crumbs(void **state)
{
	const size_t len = 260 << 20, max = KV_RAILBATCH_BYTES_MAX;
	char *row = map_row(len);
	struct kv_xfer_item items[] = { { row, FAR, max + 1000 } };
	struct kv_xfer_item two[] = { { 0 }, { row, FAR, max } };
	struct kv_slice_cursor c = cursor_of(items, 1);

	(void)state;
	expect(&c, max - BIG, 0);
	kv_railbatch_release(batch);
	expect(&c, BIG + 1000, 0);
	kv_railbatch_release(batch);

	/* Behind others it waits for a batch of its own. */
	add_region(0, 1000);
	two[0] = item(0, 0, 1000);
	c = cursor_of(two, 2);
	expect(&c, 1000, 0);
	kv_railbatch_release(batch);
	expect(&c, max, 0);
	kv_railbatch_release(batch);
	/* What is registered is cut anywhere. */
	assert_int_equal(kv_region_add(&set, row, len, NULL), 0);
	c = cursor_of(items, 1);
	expect(&c, max, 0);
	kv_railbatch_release(batch);
	expect(&c, 1000, 0);
	kv_railbatch_release(batch);
	munmap(row, len);
}

static void
ranges_are_bounded(void **state)
{
	enum {
		N = KV_RAILBATCH_RANGES_MAX + 10
	};
	struct kv_xfer_item *items = calloc(N, sizeof(*items));
	struct kv_slice_cursor c;

	(void)state;
	add_region(0, LOCAL_BYTES);
	for (size_t i = 0; i < N; i++)
		items[i] = item(8 * i, 8 * i, 1);
	c = cursor_of(items, N);
	expect(&c, KV_RAILBATCH_RANGES_MAX, 0);
	kv_railbatch_release(batch);
	expect(&c, 10, 0);
	free(items);
}

static void
holds_are_bounded(void **state)
{
	enum {
		N = KV_RAILBATCH_HOLDS_MAX + 10
	};
	struct kv_xfer_item items[N];
	struct kv_slice_cursor c;

	(void)state;
	for (size_t i = 0; i < N; i++) {
		add_region(100 * i, 100);
		items[i] = item(100 * i, 0, 1);
	}
	c = cursor_of(items, N);
	expect(&c, KV_RAILBATCH_HOLDS_MAX, 0);
	kv_railbatch_release(batch);
	expect(&c, 10, 0);
}

static void
whoever_ends_a_region_is_seen(void **state)
{
	const struct kv_clock clock = { 0 };
	const struct kv_xfer_item items[] = { item(0, 0, 1000),
					      item(1000, 1000, 1000) };
	struct kv_slice_cursor c = cursor_of(items, 2), again = c;
	struct kv_region *r;

	(void)state;
	add_region(0, 1000);
	add_region(1000, 1000);
	expect(&c, 2000, 0);
	assert_false(kv_railbatch_is_awaited(batch));
	assert_int_equal(
		kv_region_begin_end(&set, local, KV_REGION_UNREGISTER, &r), 0);
	assert_true(kv_railbatch_is_awaited(batch));
	kv_railbatch_release(batch);
	assert_int_equal(
		kv_region_wait(&set, r, kv_clock_now(&clock) + KV_NS_PER_S), 0);
	kv_region_end(&set, r, true);
	expect(&again, 0, 1000);
}

#define WITH_BATCH(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_BATCH(neighbours_are_joined),
		WITH_BATCH(a_piece_may_cross_regions_of_our_own),
		WITH_BATCH(small_memory_is_left_to_tcp),
		WITH_BATCH(mapped_memory_is_for_nobody_here),
		WITH_BATCH(large_memory_is_registered_for_the_batch),
		WITH_BATCH(large_memory_ends_where_a_region_begins),
		WITH_BATCH(what_cannot_be_registered_goes_by_tcp),
		WITH_BATCH(a_batch_is_bounded_and_leaves_no_crumbs),
		WITH_BATCH(ranges_are_bounded),
		WITH_BATCH(holds_are_bounded),
		WITH_BATCH(whoever_ends_a_region_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What of a transfer NICs move, and what is left to TCP where there is no ring;
 * test_railpack.c has what goes through that. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "railfill.h"
#include "test.h"

static int
set_up(void **state)
{
	railfill_set_up(state);
	railfill_no_ring = true;
	kv_log_set_level(KV_LOG_ERR);
	return 0;
}

static void
neighbours_are_joined(void **state)
{
	const struct kv_xfer_item items[] = {
		railfill_item(100, 5000, 10), railfill_item(0, 9, 0),
		railfill_item(110, 5010, 20), railfill_item(130, 100, 30),
		railfill_item(1000, 130, 40),
	};
	struct kv_slice_cursor c = railfill_cursor(items, 5);

	(void)state;
	railfill_add_region(0, 2000);
	railfill_expect(&c, 100, 0);
	assert_int_equal(railfill_batch->n_near, 2);
	assert_int_equal(railfill_batch->near[0].addr,
			 (uintptr_t)railfill_local + 100);
	assert_int_equal(railfill_batch->near[0].len, 60);
	assert_int_equal(railfill_batch->near[1].addr,
			 (uintptr_t)railfill_local + 1000);
	assert_ptr_equal(railfill_batch->near[0].mem,
			 railfill_batch->near[1].mem);
	assert_int_equal(railfill_batch->n_far, 2);
	assert_int_equal(railfill_batch->far[0].addr, RAILFILL_FAR + 5000);
	assert_int_equal(railfill_batch->far[0].len, 30);
	assert_int_equal(railfill_batch->far[1].addr, RAILFILL_FAR + 100);
	assert_int_equal(railfill_batch->far[1].len, 70);
	assert_ptr_equal(railfill_batch->far[0].mem,
			 railfill_table->entries[0].mem);
	assert_int_equal(railfill_set.by_addr[0]->users, 1);
}

static void
a_piece_may_cross_regions_of_our_own(void **state)
{
	const struct kv_xfer_item items[] = { railfill_item(500, 0, 1000) };
	struct kv_slice_cursor c = railfill_cursor(items, 1);

	(void)state;
	railfill_add_region(0, 1000);
	railfill_add_region(1000, 1000);
	railfill_expect(&c, 1000, 0);
	assert_int_equal(railfill_batch->n_near, 2);
	assert_int_equal(railfill_batch->near[0].len, 500);
	assert_int_equal(railfill_batch->n_far, 1);
	assert_int_equal(railfill_batch->n_holds, 2);
	kv_railbatch_release(railfill_batch);
	assert_int_equal(railfill_batch->bytes, 0);
	assert_int_equal(railfill_set.by_addr[0]->users, 0);
}

/* Small pieces here and there, up to one that is registered. */
static void
small_memory_is_left_to_tcp(void **state)
{
	const struct kv_xfer_item items[] = {
		railfill_item(0, 0, 1000),
		railfill_item(5000, 1000, 2000),
		railfill_item(9000, 5ll * RAILFILL_FAR_BYTES / 2,
			      3000), /* without keys */
		railfill_item(100000, 9000, 500),
		railfill_item(20000, 20000, 700),
	};
	struct kv_slice_cursor c = railfill_cursor(items, 5);

	(void)state;
	railfill_add_region(100000, 1000);
	railfill_expect(&c, 0, 6000);
	kv_slice_skip(&c, 6000);
	railfill_expect(&c, 500, 0);
	kv_railbatch_release(railfill_batch);
	railfill_expect(&c, 0, 700);
}

static void
mapped_memory_is_for_nobody_here(void **state)
{
	const struct kv_xfer_item items[] = {
		railfill_item(0, 1000, 10),
		railfill_item(10, RAILFILL_FAR_BYTES + 5, 10),
		railfill_item(20, 0, 10),
	};
	struct kv_slice_cursor c = railfill_cursor(items, 3);

	(void)state;
	railfill_expect(&c, 0, 10);
	kv_slice_skip(&c, 10);
	railfill_expect(&c, 0, 0);
	kv_slice_skip(&c, 10);
	railfill_expect(&c, 0, 10);
}

/* Items that touch count together. */
static void
large_memory_is_registered_for_the_batch(void **state)
{
	const struct kv_xfer_item items[] = {
		railfill_item(4096, 9000, RAILFILL_BIG / 2),
		railfill_item(4096 + RAILFILL_BIG / 2, 500000,
			      RAILFILL_BIG / 2),
		railfill_item(2 << 20, 0, RAILFILL_BIG - 1),
	};
	struct kv_slice_cursor c = railfill_cursor(items, 3);

	(void)state;
	railfill_expect(&c, RAILFILL_BIG, 0);
	assert_int_equal(railfill_batch->n_made, 1);
	assert_true(railfill_registered > 0);
	assert_int_equal(railfill_batch->n_near, 1);
	assert_int_equal(railfill_batch->near[0].addr,
			 (uintptr_t)railfill_local + 4096);
	assert_int_equal(railfill_batch->n_far, 2);
	kv_railbatch_release(railfill_batch);
	assert_int_equal(railfill_registered, 0);
	railfill_expect(&c, 0, RAILFILL_BIG - 1);
	assert_int_equal(railfill_registered, 0);
}

/* It is not registered over what is a region. */
static void
large_memory_ends_where_a_region_begins(void **state)
{
	const struct kv_xfer_item items[] = { railfill_item(0, 0,
							    2 * RAILFILL_BIG) };
	struct kv_slice_cursor c = railfill_cursor(items, 1);

	(void)state;
	railfill_add_region(RAILFILL_BIG, 100);
	railfill_expect(&c, 2 * RAILFILL_BIG - (RAILFILL_BIG - 100), 0);
	assert_int_equal(railfill_batch->n_made, 1);
	assert_int_equal(railfill_batch->n_holds, 1);
	kv_railbatch_release(railfill_batch);
	railfill_expect(&c, 0, RAILFILL_BIG - 100);
}

static void
what_cannot_be_registered_goes_by_tcp(void **state)
{
	const struct kv_xfer_item items[] = {
		railfill_item(0, 0, 2 * RAILFILL_BIG),
		railfill_item(2 * RAILFILL_BIG, 2 * RAILFILL_BIG, RAILFILL_BIG),
		railfill_item(3 << 20, 0, RAILFILL_BIG),
	};
	struct kv_slice_cursor c = railfill_cursor(items, 3);

	(void)state;
	railfill_refuses = true;
	railfill_expect(&c, 0, 3 * RAILFILL_BIG);
	kv_slice_skip(&c, 3 * RAILFILL_BIG);
	railfill_refuses = false;
	railfill_expect(&c, RAILFILL_BIG, 0);
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
	struct kv_xfer_item items[] = { { row, RAILFILL_FAR, max + 1000 } };
	struct kv_xfer_item two[] = { { 0 }, { row, RAILFILL_FAR, max } };
	struct kv_slice_cursor c = railfill_cursor(items, 1);

	(void)state;
	railfill_expect(&c, max - RAILFILL_BIG, 0);
	kv_railbatch_release(railfill_batch);
	railfill_expect(&c, RAILFILL_BIG + 1000, 0);
	kv_railbatch_release(railfill_batch);

	/* Behind others it waits for a batch of its own. */
	railfill_add_region(0, 1000);
	two[0] = railfill_item(0, 0, 1000);
	c = railfill_cursor(two, 2);
	railfill_expect(&c, 1000, 0);
	kv_railbatch_release(railfill_batch);
	railfill_expect(&c, max, 0);
	kv_railbatch_release(railfill_batch);
	/* What is registered is cut anywhere. */
	assert_int_equal(kv_region_add(&railfill_set, row, len, NULL), 0);
	c = railfill_cursor(items, 1);
	railfill_expect(&c, max, 0);
	kv_railbatch_release(railfill_batch);
	railfill_expect(&c, 1000, 0);
	kv_railbatch_release(railfill_batch);
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
	railfill_add_region(0, RAILFILL_BYTES);
	for (size_t i = 0; i < N; i++)
		items[i] = railfill_item(8 * i, 8 * i, 1);
	c = railfill_cursor(items, N);
	railfill_expect(&c, KV_RAILBATCH_RANGES_MAX, 0);
	kv_railbatch_release(railfill_batch);
	railfill_expect(&c, 10, 0);
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
		railfill_add_region(100 * i, 100);
		items[i] = railfill_item(100 * i, 0, 1);
	}
	c = railfill_cursor(items, N);
	railfill_expect(&c, KV_RAILBATCH_HOLDS_MAX, 0);
	kv_railbatch_release(railfill_batch);
	railfill_expect(&c, 10, 0);
}

static void
whoever_ends_a_region_is_seen(void **state)
{
	const struct kv_clock clock = { 0 };
	const struct kv_xfer_item items[] = { railfill_item(0, 0, 1000),
					      railfill_item(1000, 1000, 1000) };
	struct kv_slice_cursor c = railfill_cursor(items, 2), again = c;
	struct kv_region *r;

	(void)state;
	railfill_add_region(0, 1000);
	railfill_add_region(1000, 1000);
	railfill_expect(&c, 2000, 0);
	assert_false(kv_railbatch_is_awaited(railfill_batch));
	assert_int_equal(kv_region_begin_end(&railfill_set, railfill_local,
					     KV_REGION_UNREGISTER, &r),
			 0);
	assert_true(kv_railbatch_is_awaited(railfill_batch));
	kv_railbatch_release(railfill_batch);
	assert_int_equal(kv_region_wait(&railfill_set, r,
					kv_clock_now(&clock) + KV_NS_PER_S),
			 0);
	kv_region_end(&railfill_set, r, true);
	railfill_expect(&again, 0, 1000);
}

#define WITH_BATCH(fn) \
	cmocka_unit_test_setup_teardown(fn, set_up, railfill_tear_down)

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

/* What of a transfer goes through the engine's ring. */
#include <stdlib.h>
#include <string.h>

#include "railfill.h"
#include "test.h"
#include "xfer/rdmaregion.h"

enum {
	PIECE = 4000,
	SPAN = KV_PACKRING_SPAN_BYTES,
};

/* What NICs would read or write: in the ring, or not. */
static bool
is_packed(const struct kv_rdmarange *r)
{
	const struct kv_packring *ring = &railfill_set.ring;

	return ring->region && r->addr >= (uintptr_t)ring->base &&
	       r->addr + r->len <= (uintptr_t)ring->base + ring->bytes;
}

static char *
at(const struct kv_rdmarange *r)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	return (char *)(uintptr_t)r->addr;
}

static void
scribble(void)
{
	for (size_t i = 0; i < RAILFILL_BYTES; i++)
		railfill_local[i] = (char)(i * 7 + (i >> 11));
}

/* The bytes of a batch as they lie in its near ranges. */
static char *
bytes_of(const struct kv_railbatch *b)
{
	char *all = malloc(b->bytes), *p = all;

	assert_non_null(all);
	for (unsigned i = 0; i < b->n_near; p += b->near[i++].len)
		memcpy(p, at(&b->near[i]), b->near[i].len);
	return all;
}

/* They are those of the items, from the first one on. */
static void
check_bytes(const struct kv_xfer_item *items)
{
	char *all = bytes_of(railfill_batch);
	uint64_t done = 0, len;

	for (; done < railfill_batch->bytes; done += len, items++) {
		len = items->len;
		if (len > railfill_batch->bytes - done)
			len = railfill_batch->bytes - done;
		assert_memory_equal(all + done, items->local, len);
	}
	free(all);
}

/* n pieces with gaps here, in a row there or not. */
static struct kv_xfer_item *
pieces(size_t n, size_t len, size_t far_step)
{
	struct kv_xfer_item *items = calloc(n, sizeof(*items));

	assert_non_null(items);
	for (size_t i = 0; i < n; i++)
		items[i] = railfill_item((n - 1 - i) * (len + 96), i * far_step,
					 len);
	return items;
}

/* ---- memory in no region ---- */

static void
small_memory_is_packed(void **state)
{
	const struct kv_xfer_item items[] = {
		railfill_item(0, 0, 1000),
		railfill_item(5000, 1000, 2000),
		railfill_item(9000, 5000, 3),
		railfill_item(100000, 9000, 500), /* registered */
		railfill_item(200000, 20000, RAILFILL_BIG - 1),
	};
	struct kv_slice_cursor c = railfill_cursor(items, 5);

	(void)state;
	scribble();
	railfill_add_region(100000, 1000);
	railfill_expect(&c, 3503 + RAILFILL_BIG - 1, 0);
	assert_int_equal(railfill_batch->n_near, 3);
	assert_true(is_packed(&railfill_batch->near[0]));
	assert_int_equal(railfill_batch->near[0].len, 3003);
	assert_ptr_equal(at(&railfill_batch->near[1]), railfill_local + 100000);
	assert_true(is_packed(&railfill_batch->near[2]));
	assert_int_equal(railfill_batch->n_made, 0);
	assert_int_equal(railfill_batch->n_holds, 1);
	check_bytes(items);
	/* No more of the ring than that. */
	assert_int_equal(railfill_batch->span.bytes, 3003 + RAILFILL_BIG - 1);
	/* What comes over the source afterwards is not in it. */
	railfill_local[5000]++;
	assert_int_equal(at(&railfill_batch->near[0])[1000],
			 (char)(railfill_local[5000] - 1));
	kv_railbatch_release(railfill_batch);
	assert_true(kv_list_is_empty(&railfill_set.ring.spans));
}

static void
what_is_read_is_brought_where_it_belongs(void **state)
{
	struct kv_xfer_item *items = pieces(30, PIECE, PIECE);
	struct kv_slice_cursor c = railfill_cursor(items, 30);
	char *before = malloc(RAILFILL_BYTES);

	(void)state;
	assert_non_null(before);
	scribble();
	memcpy(before, railfill_local, RAILFILL_BYTES);
	railfill_batch->op = KV_ENGINE_READ;
	railfill_expect(&c, 30 * PIECE, 0);
	assert_int_equal(railfill_batch->n_near, 1);
	for (size_t i = 0; i < 30 * PIECE; i++)
		at(&railfill_batch->near[0])[i] = (char)(i / 3);
	assert_memory_equal(railfill_local, before, RAILFILL_BYTES);
	kv_railbatch_unpack(railfill_batch);
	for (size_t i = 0; i < 30; i++)
		for (size_t k = 0; k < PIECE; k++)
			before[(29 - i) * (PIECE + 96) + k] =
				(char)((i * PIECE + k) / 3);
	assert_memory_equal(railfill_local, before, RAILFILL_BYTES);
	free(before);
	free(items);
}

/* A write has nothing to bring. */
static void
what_is_written_stays_as_it_is(void **state)
{
	const struct kv_xfer_item one = railfill_item(0, 0, 1000);
	struct kv_slice_cursor c = railfill_cursor(&one, 1);

	(void)state;
	railfill_expect(&c, 1000, 0);
	memset(at(&railfill_batch->near[0]), 1, 1000);
	kv_railbatch_unpack(railfill_batch);
	assert_int_equal(railfill_local[0], 0);
}

/* Up to where a region begins; what follows is not packed, too. */
static void
a_region_behind_it_is_not(void **state)
{
	const struct kv_xfer_item one = railfill_item(0, 0, 500000);
	struct kv_slice_cursor c = railfill_cursor(&one, 1);

	(void)state;
	scribble();
	railfill_add_region(1000, 1000000);
	railfill_expect(&c, 500000, 0);
	assert_int_equal(railfill_batch->n_near, 2);
	assert_true(is_packed(&railfill_batch->near[0]));
	assert_int_equal(railfill_batch->near[0].len, 1000);
	assert_ptr_equal(at(&railfill_batch->near[1]), railfill_local + 1000);
	check_bytes(&one);
}

/* ---- small pieces of regions ---- */

static void
small_pieces_of_one_row_there_are_packed(void **state)
{
	struct kv_xfer_item *items = pieces(100, PIECE, PIECE);
	struct kv_slice_cursor c = railfill_cursor(items, 100);

	(void)state;
	scribble();
	railfill_add_region(0, RAILFILL_BYTES);
	railfill_expect(&c, 100 * PIECE, 0);
	assert_int_equal(railfill_batch->n_far, 1);
	assert_int_equal(railfill_batch->n_near, 1);
	assert_true(is_packed(&railfill_batch->near[0]));
	check_bytes(items);
	free(items);
}

/* A work request has room for them. */
static void
a_few_are_not(void **state)
{
	struct kv_xfer_item *items = pieces(8, PIECE, PIECE);
	struct kv_slice_cursor c = railfill_cursor(items, 8);

	(void)state;
	railfill_add_region(0, RAILFILL_BYTES);
	railfill_expect(&c, 8 * PIECE, 0);
	assert_int_equal(railfill_batch->n_near, 8);
	assert_null(railfill_set.ring.region);
	free(items);
}

/* Each is a work request anyway. */
static void
pieces_here_and_there_are_not(void **state)
{
	struct kv_xfer_item *items = pieces(100, PIECE, PIECE + 1);
	struct kv_slice_cursor c = railfill_cursor(items, 100);

	(void)state;
	railfill_add_region(0, RAILFILL_BYTES);
	railfill_expect(&c, 100 * PIECE, 0);
	assert_int_equal(railfill_batch->n_near, 100);
	assert_null(railfill_set.ring.region);
	free(items);
}

/* Items that touch are one piece. */
static void
items_of_one_row_here_are_not(void **state)
{
	struct kv_xfer_item items[100];
	struct kv_slice_cursor c;

	(void)state;
	for (size_t i = 0; i < 100; i++)
		items[i] = railfill_item(i * 1000, i * 1000, 1000);
	c = railfill_cursor(items, 100);
	railfill_add_region(0, RAILFILL_BYTES);
	railfill_expect(&c, 100000, 0);
	assert_int_equal(railfill_batch->n_near, 1);
	assert_false(is_packed(&railfill_batch->near[0]));
}

static void
a_large_piece_ends_the_row(void **state)
{
	struct kv_xfer_item *items = pieces(41, PIECE, PIECE);
	struct kv_slice_cursor c;

	(void)state;
	scribble();
	railfill_add_region(0, RAILFILL_BYTES);
	items[20] = railfill_item(1 << 20, 20 * PIECE, 20000);
	for (size_t i = 21; i < 41; i++)
		items[i].remote += 20000 - PIECE;
	c = railfill_cursor(items, 41);
	railfill_expect(&c, 40 * PIECE + 20000, 0);
	assert_int_equal(railfill_batch->n_far, 1);
	assert_int_equal(railfill_batch->n_near, 3);
	assert_true(is_packed(&railfill_batch->near[0]));
	assert_false(is_packed(&railfill_batch->near[1]));
	assert_int_equal(railfill_batch->near[1].len, 20000);
	assert_true(is_packed(&railfill_batch->near[2]));
	check_bytes(items);
	free(items);
}

/* ---- bounds ---- */

static void
a_batch_ends_with_its_span(void **state)
{
	struct kv_xfer_item *items = pieces(900, PIECE, 2 * PIECE);
	struct kv_slice_cursor c = railfill_cursor(items, 900);

	(void)state;
	scribble();
	railfill_expect(&c, SPAN, 0);
	check_bytes(items);
	kv_railbatch_release(railfill_batch);
	railfill_expect(&c, 900 * PIECE - SPAN, 0);
	free(items);
}

/* Registered memory goes on without it. */
static void
a_region_goes_on_without(void **state)
{
	struct kv_xfer_item *items = pieces(900, PIECE, PIECE);
	struct kv_slice_cursor c = railfill_cursor(items, 900);

	(void)state;
	scribble();
	railfill_add_region(0, RAILFILL_BYTES);
	railfill_expect(&c, 900 * PIECE, 0);
	assert_true(is_packed(&railfill_batch->near[0]));
	assert_in_range(railfill_batch->near[0].len, SPAN - PIECE, SPAN);
	assert_in_range(railfill_batch->n_near, 1 + 900 - SPAN / PIECE - 1,
			1 + 900 - SPAN / PIECE + 1);
	check_bytes(items);
	free(items);
}

static void
tiny_pieces_are_bounded(void **state)
{
	enum {
		N = KV_RAILBATCH_PACKED_MAX + 10,
	};
	struct kv_xfer_item *items = pieces(N, 1, 2);
	struct kv_slice_cursor c = railfill_cursor(items, N);

	(void)state;
	scribble();
	railfill_expect(&c, KV_RAILBATCH_PACKED_MAX, 0);
	check_bytes(items);
	kv_railbatch_release(railfill_batch);
	railfill_expect(&c, 10, 0);
	free(items);
}

/* ---- a full ring ---- */

static void
without_room_small_memory_is_left_to_tcp(void **state)
{
	const struct kv_xfer_item items[] = {
		railfill_item(0, 0, 1000),
		railfill_item(5000, 1000, 2000),
	};
	struct kv_slice_cursor c = railfill_cursor(items, 2);
	struct kv_packring_span s;

	(void)state;
	scribble();
	assert_true(kv_packring_begin(&railfill_set.ring) > 0);
	assert_true(kv_packring_take(&railfill_set.ring, NULL,
				     KV_PACKRING_BYTES, &s));
	railfill_expect(&c, 0, 3000);
	kv_railbatch_release(railfill_batch);
	kv_packring_give(&s);
	/* As much as there is. */
	assert_true(kv_packring_take(&railfill_set.ring, NULL,
				     KV_PACKRING_BYTES - 2048, &s));
	railfill_expect(&c, 0, 3000);
	kv_packring_give(&s);
	kv_railbatch_release(railfill_batch);
	railfill_expect(&c, 3000, 0);
	check_bytes(items);
}

static void
of_a_ring_that_is_nearly_full_the_rest_is_taken(void **state)
{
	struct kv_xfer_item *items = pieces(100, PIECE, 2 * PIECE);
	struct kv_slice_cursor c = railfill_cursor(items, 100);
	struct kv_packring_span s;

	(void)state;
	scribble();
	assert_true(kv_packring_begin(&railfill_set.ring) > 0);
	assert_true(kv_packring_take(&railfill_set.ring, NULL,
				     KV_PACKRING_BYTES - 128 * 1024, &s));
	railfill_expect(&c, 100000, 0);
	check_bytes(items);
	kv_railbatch_release(railfill_batch);
	kv_packring_give(&s);
	free(items);
}

/* What has no keys there does not take the others along. */
static void
other_memory_of_the_peer_goes_by_itself(void **state)
{
	const struct kv_xfer_item items[] = {
		railfill_item(0, 5ll * RAILFILL_FAR_BYTES / 2, 3000),
		railfill_item(5000, 1000, 2000),
	};
	struct kv_slice_cursor c = railfill_cursor(items, 2);

	(void)state;
	railfill_expect(&c, 0, 3000);
	kv_slice_skip(&c, 3000);
	railfill_expect(&c, 2000, 0);
}

int
main(void)
{
#define TEST(fn) \
	cmocka_unit_test_setup_teardown(fn, railfill_set_up, railfill_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(small_memory_is_packed),
		TEST(what_is_read_is_brought_where_it_belongs),
		TEST(what_is_written_stays_as_it_is),
		TEST(a_region_behind_it_is_not),
		TEST(small_pieces_of_one_row_there_are_packed),
		TEST(a_few_are_not),
		TEST(pieces_here_and_there_are_not),
		TEST(items_of_one_row_here_are_not),
		TEST(a_large_piece_ends_the_row),
		TEST(a_batch_ends_with_its_span),
		TEST(a_region_goes_on_without),
		TEST(tiny_pieces_are_bounded),
		TEST(without_room_small_memory_is_left_to_tcp),
		TEST(of_a_ring_that_is_nearly_full_the_rest_is_taken),
		TEST(other_memory_of_the_peer_goes_by_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

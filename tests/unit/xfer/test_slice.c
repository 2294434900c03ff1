#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "test.h"
#include "xfer/regtable.h"
#include "xfer/slice.h"

enum {
	BASE = 0x100000,
	AREA = 1 << 16,
	ITEMS = 3000,
};

static char local[AREA];
static struct kv_xfer_item items[ITEMS];
static struct kv_slice slice;

/* Touching regions of these lengths from BASE on; handles count from 1. */
static struct kv_regtable *
table_of(const uint64_t *lens, size_t n)
{
	struct kv_regtable *t =
		calloc(1, sizeof(*t) + n * sizeof(t->entries[0]));
	uint64_t addr = BASE;

	t->refs = 1;
	t->n = n;
	for (size_t i = 0; i < n; i++) {
		t->entries[i].addr = addr;
		t->entries[i].len = lens[i];
		t->entries[i].handle = i + 1;
		addr += lens[i];
	}
	return t;
}

static struct kv_slice_cursor
cursor_of(size_t n)
{
	struct kv_slice_cursor c = { .item = items };

	for (size_t i = 0; i < n; i++)
		c.left += items[i].len;
	return c;
}

static void
neighbours_are_joined_here_and_there(void **state)
{
	static const uint64_t lens[] = { 1000 };
	struct kv_regtable *t = table_of(lens, 1);
	struct kv_slice_cursor c;

	(void)state;
	items[0] = (struct kv_xfer_item){ local, BASE, 100 };
	items[1] = (struct kv_xfer_item){ local + 100, BASE + 200, 100 };
	items[2] = (struct kv_xfer_item){ local + 300, BASE + 300, 100 };
	items[3] = (struct kv_xfer_item){ local + 350, BASE + 350, 0 };
	items[4] = (struct kv_xfer_item){ local + 400, BASE + 400, 100 };
	c = cursor_of(5);
	kv_slice_gather(&slice, t, KV_SLICE_ATTACH, &c, UINT64_MAX);
	assert_int_equal(slice.path, KV_SLICE_ATTACH);
	assert_int_equal(slice.bytes, 400);
	assert_int_equal(c.left, 0);
	assert_int_equal(slice.n_local, 2);
	assert_int_equal(slice.local[0].iov_len, 200);
	assert_int_equal(slice.local[1].iov_len, 200);
	assert_int_equal(slice.n_remote, 2);
	assert_int_equal((uintptr_t)slice.remote[1].iov_base, BASE + 200);
	assert_int_equal(slice.remote[1].iov_len, 300);
	kv_regtable_unref(t);
}

static void
pieces_end_where_regions_end(void **state)
{
	static const uint64_t lens[] = { 100, 50, 100 };
	struct kv_regtable *t = table_of(lens, 3);
	struct kv_slice_cursor c;

	(void)state;
	items[0] = (struct kv_xfer_item){ local, BASE + 90, 100 };
	c = cursor_of(1);
	kv_slice_gather(&slice, t, KV_SLICE_TCP, &c, UINT64_MAX);
	assert_int_equal(slice.n_local, 1);
	assert_int_equal(slice.n_remote, 3);
	assert_int_equal(kv_get64(slice.pieces[0].handle), 1);
	assert_int_equal(kv_get64(slice.pieces[0].off), 90);
	assert_int_equal(kv_get64(slice.pieces[0].len), 10);
	assert_int_equal(kv_get64(slice.pieces[1].off), 0);
	assert_int_equal(kv_get64(slice.pieces[1].len), 50);
	assert_int_equal(kv_get64(slice.pieces[2].handle), 3);
	assert_int_equal(kv_get64(slice.pieces[2].len), 40);
	/* The same addresses, but one stretch to a system call. */
	c = cursor_of(1);
	kv_slice_gather(&slice, t, KV_SLICE_ATTACH, &c, UINT64_MAX);
	assert_int_equal(slice.n_remote, 1);
	kv_regtable_unref(t);
}

static void
bytes_are_bounded(void **state)
{
	static const uint64_t lens[] = { 1000 };
	struct kv_regtable *t = table_of(lens, 1);
	struct kv_slice_cursor c;

	(void)state;
	items[0] = (struct kv_xfer_item){ local, BASE, 700 };
	c = cursor_of(1);
	kv_slice_gather(&slice, t, KV_SLICE_SELF, &c, 300);
	assert_int_equal(slice.bytes, 300);
	assert_int_equal(c.left, 400);
	kv_slice_gather(&slice, t, KV_SLICE_SELF, &c, 300);
	assert_ptr_equal(slice.local[0].iov_base, local + 300);
	assert_int_equal(kv_get64(slice.pieces[0].off), 300);
	kv_slice_gather(&slice, t, KV_SLICE_SELF, &c, 300);
	assert_int_equal(slice.bytes, 100);
	assert_int_equal(c.left, 0);
	kv_regtable_unref(t);
}

/*
 * Random pieces, gathered with random bounds and from random beginnings: byte
 * by byte the pieces here and there are those of the items.
 */
struct model {
	uint64_t here[1 << 18], there[1 << 18];
	size_t n;
};

static void
model_items(struct model *m, size_t from, size_t bytes)
{
	size_t at = 0;

	m->n = 0;
	for (const struct kv_xfer_item *i = items; m->n < bytes; i++)
		for (size_t b = 0; b < i->len && m->n < bytes; b++, at++)
			if (at >= from) {
				m->here[m->n] = (uintptr_t)i->local + b;
				m->there[m->n++] = i->remote + b;
			}
}

static void
compare(const struct model *m, size_t at, const struct kv_regtable *t)
{
	size_t i = at, j = at;

	assert_true(slice.n_local <= KV_XFER_PIECES_MAX);
	assert_true(slice.n_remote <= KV_XFER_PIECES_MAX);
	for (int k = 0; k < slice.n_local; k++)
		for (size_t b = 0; b < slice.local[k].iov_len; b++)
			assert_int_equal((uintptr_t)slice.local[k].iov_base + b,
					 m->here[i++]);
	for (int k = 0; k < slice.n_remote; k++) {
		uint64_t base, len;

		if (slice.path == KV_SLICE_ATTACH) {
			base = (uintptr_t)slice.remote[k].iov_base;
			len = slice.remote[k].iov_len;
		} else {
			base = kv_get64(slice.pieces[k].off) +
			       t->entries[kv_get64(slice.pieces[k].handle) - 1]
				       .addr;
			len = kv_get64(slice.pieces[k].len);
		}
		for (uint64_t b = 0; b < len; b++)
			assert_int_equal(base + b, m->there[j++]);
	}
	assert_int_equal(i - at, slice.bytes);
	assert_int_equal(j - at, slice.bytes);
}

static void
random_pieces_keep_every_byte(void **state)
{
	static const uint64_t lens[] = { 3000, 1, 700, 20000, 41835 };
	struct kv_regtable *t = table_of(lens, 5);
	struct model *m = malloc(sizeof(*m));
	struct kv_rng rng;

	(void)state;
	kv_rng_seed(&rng, 5);
	for (int round = 0; round < 40; round++) {
		enum kv_slice_path path =
			round % 2 ? KV_SLICE_ATTACH : KV_SLICE_TCP;
		struct kv_slice_cursor c;
		size_t from, bytes, at = 0;

		for (size_t i = 0; i < ITEMS; i++) {
			uint64_t len = kv_rng_below(&rng, 60);

			items[i].len = len;
			items[i].local = local + kv_rng_below(&rng, AREA - 60);
			items[i].remote = BASE + kv_rng_below(&rng, AREA - 60);
			if (i && kv_rng_below(&rng, 3) == 0)
				items[i].remote = BASE + (items[i - 1].remote +
							  items[i - 1].len -
							  BASE) % (AREA - 60);
		}
		c = cursor_of(ITEMS);
		from = kv_rng_below(&rng, c.left);
		bytes = 1 + kv_rng_below(&rng, c.left - from);
		model_items(m, from, bytes);
		kv_slice_skip(&c, from);
		c.left = bytes;
		while (c.left > 0) {
			kv_slice_gather(&slice, t, path, &c,
					1 + kv_rng_below(&rng, 40000));
			assert_true(slice.bytes > 0);
			compare(m, at, t);
			at += slice.bytes;
		}
		assert_int_equal(at, bytes);
	}
	free(m);
	kv_regtable_unref(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neighbours_are_joined_here_and_there),
		cmocka_unit_test(pieces_end_where_regions_end),
		cmocka_unit_test(bytes_are_bounded),
		cmocka_unit_test(random_pieces_keep_every_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

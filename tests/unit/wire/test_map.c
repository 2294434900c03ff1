/* Reading windows and pieces: what is right, and every way to be wrong. (Other
 * records are read in the tests of those who get them.) */

#include <string.h>

#include "wire/map.h"

#include "test.h"

static uint8_t bytes[4096];
static size_t n_bytes;

static struct kv_cut
cut(void)
{
	struct kv_msg msg = { .tail = bytes, .tail_len = n_bytes };
	struct kv_cut c;

	kv_cut_init(&c, &msg);
	return c;
}

static int
begin(void **state)
{
	(void)state;
	n_bytes = 0;
	return 0;
}

static void
add(const void *p, size_t n)
{
	memcpy(bytes + n_bytes, p, n);
	n_bytes += n;
}

static void
add_window(uint64_t addr, uint64_t len, unsigned ports)
{
	struct kv_window w = { kv_le64(addr), kv_le64(len) };

	add(&w, sizeof(w));
	for (unsigned i = 0; i < ports; i++) {
		struct kv_le32 key = kv_le32((uint32_t)addr + i);

		add(&key, sizeof(key));
	}
}

static void
add_piece(uint64_t off, uint32_t len, uint32_t window)
{
	struct kv_piece p = { kv_le64(off), kv_le32(len), kv_le32(window) };

	add(&p, sizeof(p));
}

static void
windows_have_their_keys(void **state)
{
	struct kv_map_windows w;
	struct kv_map_window in;
	struct kv_cut c;

	(void)state;
	add_window(1000, 50, 3);
	add_window(7000, 0, 3);
	c = cut();
	assert_true(kv_map_windows_take(&c, 2, 3, &w));
	assert_true(kv_cut_done(&c));
	in = kv_map_window_get(&w, 0);
	assert_int_equal(in.addr, 1000);
	assert_int_equal(in.len, 50);
	assert_int_equal(kv_get32(in.keys[2]), 1002);
	in = kv_map_window_get(&w, 1);
	assert_int_equal(in.addr, 7000);
	assert_int_equal(in.len, 0);
	assert_int_equal(kv_get32(in.keys[0]), 7000);
}

static void
no_window_is_fine(void **state)
{
	struct kv_map_windows w;
	struct kv_cut c = cut();

	(void)state;
	assert_true(kv_map_windows_take(&c, 0, 0, &w));
	assert_non_null(kv_map_pieces_take(&c, &w, 0, 0));
	assert_true(kv_cut_done(&c));
}

static void
sixteen_ports_are_the_most(void **state)
{
	struct kv_map_windows w;
	struct kv_cut c;

	(void)state;
	add_window(1, 1, 17);
	c = cut();
	assert_true(kv_map_windows_take(&c, 1, 16, &w));
	c = cut();
	assert_false(kv_map_windows_take(&c, 1, 17, &w));
	assert_true(c.bad);
}

static void
a_window_does_not_go_past_the_end(void **state)
{
	struct kv_map_windows w;
	struct kv_cut c;

	(void)state;
	add_window(5, 10, 1);
	add_window(UINT64_MAX - 10, 10, 1);
	c = cut();
	assert_true(kv_map_windows_take(&c, 2, 1, &w));
	n_bytes = 0;
	add_window(5, 10, 1);
	add_window(UINT64_MAX - 10, 11, 1);
	c = cut();
	assert_false(kv_map_windows_take(&c, 2, 1, &w));
	assert_true(c.bad);
}

static void
windows_may_not_be_missing(void **state)
{
	struct kv_map_windows w;
	struct kv_cut c;

	(void)state;
	add_window(5, 10, 2);
	n_bytes--;
	c = cut();
	assert_false(kv_map_windows_take(&c, 1, 2, &w));
	n_bytes++;
	c = cut();
	assert_false(kv_map_windows_take(&c, UINT32_MAX, 2, &w));
	assert_true(c.bad);
}

/* One piece behind two windows of 100 and 50 bytes: is it taken? */
static bool
piece_is_taken(uint64_t off, uint32_t len, uint32_t window, uint64_t sum)
{
	struct kv_map_windows w;
	const struct kv_piece *p;
	struct kv_cut c;

	n_bytes = 0;
	add_window(1 << 20, 100, 1);
	add_window(1 << 21, 50, 1);
	add_piece(off, len, window);
	c = cut();
	assert_true(kv_map_windows_take(&c, 2, 1, &w));
	p = kv_map_pieces_take(&c, &w, 1, sum);
	assert_int_equal(c.bad, p == NULL);
	return p;
}

static void
a_piece_lies_in_its_window(void **state)
{
	(void)state;
	assert_true(piece_is_taken(0, 100, 0, 100));
	assert_true(piece_is_taken(99, 1, 0, 1));
	assert_true(piece_is_taken(1, 49, 1, 49));
	assert_false(piece_is_taken(0, 101, 0, 101));
	assert_false(piece_is_taken(100, 1, 0, 1));
	assert_false(piece_is_taken(UINT64_MAX, 2, 0, 2));
	assert_false(piece_is_taken(UINT64_MAX - 1, 4, 0, 4));
	assert_false(piece_is_taken(0, 51, 1, 51));
	assert_false(piece_is_taken(0, 1, 2, 1));
	assert_false(piece_is_taken(0, 1, UINT32_MAX, 1));
	assert_false(piece_is_taken(0, UINT32_MAX, 0, UINT32_MAX));
}

static void
a_piece_has_bytes(void **state)
{
	(void)state;
	assert_false(piece_is_taken(0, 0, 0, 0));
	assert_false(piece_is_taken(50, 0, 0, 0));
}

static void
pieces_add_up(void **state)
{
	struct kv_map_windows w;
	const struct kv_piece *p;
	struct kv_cut c;

	(void)state;
	assert_false(piece_is_taken(0, 10, 0, 9));
	assert_false(piece_is_taken(0, 10, 0, 11));
	n_bytes = 0;
	add_window(1 << 20, 100, 2);
	add_piece(10, 20, 0);
	add_piece(0, 100, 0);
	add_piece(10, 20, 0);
	c = cut();
	assert_true(kv_map_windows_take(&c, 1, 2, &w));
	/* Of one value two, of the next one the rest. */
	p = kv_map_pieces_take(&c, &w, 2, 120);
	assert_non_null(p);
	assert_int_equal(kv_get32(p[1].len), 100);
	assert_null(kv_map_pieces_take(&c, &w, 2, 20));
	assert_true(c.bad);
	assert_null(kv_map_pieces_take(&c, &w, 1, 20));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(windows_have_their_keys, begin),
		cmocka_unit_test_setup(no_window_is_fine, begin),
		cmocka_unit_test_setup(sixteen_ports_are_the_most, begin),
		cmocka_unit_test_setup(a_window_does_not_go_past_the_end,
				       begin),
		cmocka_unit_test_setup(windows_may_not_be_missing, begin),
		cmocka_unit_test(a_piece_lies_in_its_window),
		cmocka_unit_test(a_piece_has_bytes),
		cmocka_unit_test_setup(pieces_add_up, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Where values lie for the NICs of others. The memory that NICs know is this
 * test's own. What is packed: test_rdmawindows.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "nth_fault.h"
#include "svc/windows.h"
#include "test.h"
#include "wire/protodata.h"

enum {
	PORTS = 3,
	ROOM = 1 << 20,
	KIB = 1024,
};

struct kv_rdmaregion {
	struct kv_rdmamem mem;
};

static char memory[4 << 20];
static unsigned n_regions, n_made; /* n_made: but the ring */
static enum kv_rdmaregion_use last_use;
static int refused; /* errno of what is registered from now on */
static bool has_ring;

unsigned
kv_rdma_ports(const struct kv_rdma *r)
{
	assert_non_null(r);
	return PORTS;
}

struct kv_rdmaregion *
kv_rdmaregion_new(struct kv_rdma *r, void *addr, size_t bytes,
		  enum kv_rdmaregion_use use)
{
	struct kv_rdmaregion *g = calloc(1, sizeof(*g));

	bool is_ring = (uintptr_t)addr - (uintptr_t)memory >= sizeof(memory);

	assert_non_null(r);
	if (refused || !g || (is_ring && !has_ring)) {
		free(g);
		errno = refused ? refused : EIO;
		return NULL;
	}
	n_regions++;
	n_made += !is_ring;
	last_use = use;
	g->mem.addr = (uintptr_t)addr;
	g->mem.len = bytes;
	for (unsigned i = 0; i < PORTS; i++)
		g->mem.keys[i] = 100 * n_made + i;
	return g;
}

void
kv_rdmaregion_free(struct kv_rdmaregion *g)
{
	n_regions -= g != NULL;
	free(g);
}

const struct kv_rdmamem *
kv_rdmaregion_far(const struct kv_rdmaregion *g)
{
	return &g->mem;
}

static struct kv_ranges ranges;
static struct kv_windows w;
static char tail[ROOM];

static int
setup(void **state)
{
	static int nothing;

	(void)state;
	n_regions = n_made = 0;
	refused = 0;
	has_ring = false;
	kv_log_set_level(KV_LOG_ERR);
	kv_ranges_init(&ranges, (struct kv_rdma *)(void *)&nothing);
	kv_windows_init(&w, &ranges, false);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_windows_fini(&w);
	kv_windows_fini(&w);
	kv_ranges_fini(&ranges);
	assert_int_equal(n_regions, 0);
	return 0;
}

static struct kv_buf
buf(size_t at, size_t len)
{
	return (struct kv_buf){ memory + at, len };
}

static int
add1(size_t at, size_t len)
{
	struct kv_buf b = buf(at, len);

	return kv_windows_add(&w, &b, 1, ROOM);
}

struct win {
	struct kv_window rec;
	struct kv_le32 keys[PORTS];
};

/* What was built, into the tail. */
static const struct kv_piece *
build(const struct win **wins)
{
	char *p = kv_windows_build(&w, tail), *end;

	assert_int_equal(p - tail, w.n_mems * sizeof(struct win));
	end = kv_windows_build_pieces(&w, p);
	assert_int_equal(end - tail, kv_windows_bytes(&w));
	*wins = (const struct win *)(const void *)tail;
	return (const struct kv_piece *)(const void *)p;
}

static void
check_window(const struct win *win, size_t at, size_t len)
{
	assert_int_equal(kv_get64(win->rec.addr), (uintptr_t)memory + at);
	assert_int_equal(kv_get64(win->rec.len), len);
}

static void
check_piece(const struct kv_piece *p, unsigned win, uint64_t off, uint32_t len)
{
	assert_int_equal(kv_get32(p->window), win);
	assert_int_equal(kv_get64(p->off), off);
	assert_int_equal(kv_get32(p->len), len);
}

static void
registered_memory_is_one_window(void **state)
{
	struct kv_buf b[3] = { buf(100, 50), buf(150, 50), buf(300, 8) };
	const struct kv_piece *p;
	const struct win *wins;

	(void)state;
	assert_int_equal(kv_ranges_add(&ranges, memory, KIB), 0);
	assert_int_equal(kv_windows_add(&w, b, 3, ROOM), 0);
	assert_int_equal(kv_windows_add(&w, NULL, 0, ROOM), 0);
	assert_int_equal(add1(308, 4), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	assert_int_equal(w.n_values, 3);
	assert_int_equal(w.values[0].n_told, 2); /* neighbours are one piece, */
	assert_int_equal(w.values[1].n_told, 0);
	assert_int_equal(w.values[2].n_told, 1); /* but of one value only */
	p = build(&wins);
	assert_int_equal(w.n_mems, 1);
	check_window(&wins[0], 0, KIB);
	for (unsigned i = 0; i < PORTS; i++)
		assert_int_equal(kv_get32(wins[0].keys[i]), 100 + i);
	check_piece(&p[0], 0, 100, 100);
	check_piece(&p[1], 0, 300, 8);
	check_piece(&p[2], 0, 308, 4);
	assert_int_equal(n_made, 1);
}

/* As layers of a KV cache: each block has a part in all of them. */
static void
windows_are_named_once(void **state)
{
	enum {
		LAYERS = 40,
		BLOCKS = 64,
		PART = 1 * KIB,
	};
	struct kv_buf b[LAYERS];
	const struct kv_piece *p;
	const struct win *wins;
	unsigned i, k;

	(void)state;
	for (i = 0; i < LAYERS; i++)
		kv_ranges_add(&ranges, memory + i * BLOCKS * PART,
			      BLOCKS * PART);
	for (k = 0; k < BLOCKS; k++) {
		for (i = 0; i < LAYERS; i++)
			b[i] = buf((i * BLOCKS + k) * PART, PART);
		assert_int_equal(kv_windows_add(&w, b, LAYERS, ROOM), 0);
	}
	assert_int_equal(kv_windows_close(&w, false), 0);
	assert_int_equal(w.n_mems, LAYERS);
	p = build(&wins);
	for (k = 0; k < BLOCKS; k++)
		for (i = 0; i < LAYERS; i++)
			check_piece(&p[k * LAYERS + i], i, k * PART, PART);
}

static void
other_memory_is_registered_where_it_is_worth_it(void **state)
{
	const struct kv_piece *p;
	const struct win *wins;

	(void)state;
	/* Two stretches, the second one out of order and overlapping. */
	assert_int_equal(add1(0, 100 * KIB), 0);
	assert_int_equal(add1(600 * KIB, 50 * KIB), 0);
	assert_int_equal(add1(500 * KIB, 120 * KIB), 0);
	assert_int_equal(add1(100 * KIB, 100 * KIB), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	assert_int_equal(n_made, 2);
	p = build(&wins);
	check_window(&wins[0], 0, 200 * KIB);
	check_window(&wins[1], 500 * KIB, 150 * KIB);
	check_piece(&p[0], 0, 0, 100 * KIB);
	check_piece(&p[1], 1, 100 * KIB, 50 * KIB);
	check_piece(&p[2], 1, 0, 120 * KIB);
	check_piece(&p[3], 0, 100 * KIB, 100 * KIB);
	assert_int_equal(last_use, KV_RDMAREGION_FAR_READS);
	kv_windows_fini(&w);
	assert_int_equal(n_regions, 0);
}

static void
little_of_it_is_not(void **state)
{
	(void)state;
	assert_int_equal(add1(0, 255 * KIB), 0);
	assert_int_equal(kv_windows_close(&w, false), -EAGAIN);
	assert_int_equal(n_made, 0);
	assert_int_equal(kv_windows_close(&w, true), 0);
	assert_int_equal(n_made, 1);
}

/* Nor are many small buffers. */
static void
much_in_small_parts_is_not(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < 100; i++)
		assert_int_equal(add1(i * 8 * KIB, 4 * KIB), 0);
	assert_int_equal(kv_windows_close(&w, false), -EAGAIN);
	assert_int_equal(n_made, 0);
	assert_int_equal(kv_windows_close(&w, true), 0);
	assert_int_equal(n_made, 100);
}

static void
both_kinds_go_together(void **state)
{
	struct kv_buf b[2] = { buf(0, 10), buf(KIB, 300 * KIB) };
	const struct kv_piece *p;
	const struct win *wins;

	(void)state;
	kv_windows_init(&w, &ranges, true);
	kv_ranges_add(&ranges, memory, 10);
	assert_int_equal(kv_windows_add(&w, b, 2, ROOM), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	p = build(&wins);
	check_window(&wins[1], KIB, 300 * KIB);
	check_piece(&p[0], 0, 0, 10);
	check_piece(&p[1], 1, 0, 300 * KIB);
	assert_int_equal(last_use, KV_RDMAREGION_FAR_WRITES);
}

/* What is registered in part is other memory. */
static void
a_buffer_lies_in_one_range(void **state)
{
	const struct win *wins;

	(void)state;
	kv_ranges_add(&ranges, memory, KIB);
	kv_ranges_add(&ranges, memory + KIB, KIB);
	assert_int_equal(add1(KIB - 8, 16), 0);
	assert_int_equal(add1(2 * KIB - 8, 16), 0);
	assert_int_equal(w.n_loose, 2);
	assert_int_equal(add1(KIB - 16, 16), 0);
	assert_int_equal(add1(KIB, KIB), 0);
	assert_int_equal(w.n_loose, 2);
	assert_int_equal(kv_windows_close(&w, true), 0);
	assert_int_equal(w.n_mems, 4);
	build(&wins);
	check_window(&wins[2], KIB - 8, 16);
	check_window(&wins[3], 2 * KIB - 8, 16);
}

static void
a_value_without_room_leaves_all_as_it_was(void **state)
{
	struct kv_buf b[4] = { buf(0, KIB), buf(2 * KIB, KIB), buf(4 * KIB, 8),
			       buf(6 * KIB, 8) };
	const size_t one = sizeof(struct win) + sizeof(struct kv_piece);

	(void)state;
	assert_int_equal(kv_windows_add(&w, b, 1, one - 1), -E2BIG);
	assert_int_equal(kv_windows_bytes(&w), 0);
	assert_int_equal(kv_windows_add(&w, b, 1, one), 0);
	assert_int_equal(kv_windows_add(&w, b + 1, 3, 4 * one - 1), -E2BIG);
	assert_int_equal(w.n_values, 1);
	assert_int_equal(w.loose_bytes, KIB);
	assert_int_equal(kv_windows_bytes(&w), one);
	assert_int_equal(kv_windows_add(&w, b + 1, 3, 4 * one), 0);
	assert_int_equal(w.values[1].n_told, 3);
	assert_int_equal(kv_windows_bytes(&w), 4 * one);
}

static void
pieces_are_bounded(void **state)
{
	/* Nobody looks there. */
	struct kv_buf b = { memory, (size_t)5 << 30 };
	const struct kv_piece *p;
	const struct win *wins;
	uint64_t off = 0;

	(void)state;
	assert_int_equal(kv_windows_add(&w, &b, 1, ROOM), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	assert_int_equal(n_made, 1);
	p = build(&wins);
	for (unsigned i = 0; i < w.values[0].n_told; i++) {
		check_piece(&p[i], 0, off, 1u << 30);
		off += kv_get32(p[i].len);
	}
	assert_int_equal(off, b.len);
}

/* But for a value that has no frame otherwise. */
static void
little_is_registered_at_a_time(void **state)
{
	struct kv_buf b = { memory, (size_t)200 << 20 };
	struct kv_buf large = { memory, (size_t)300 << 20 };

	(void)state;
	assert_int_equal(kv_windows_add(&w, &b, 1, ROOM), 0);
	assert_int_equal(kv_windows_add(&w, &b, 1, ROOM), -E2BIG);
	assert_int_equal(w.loose_bytes, b.len);
	kv_windows_fini(&w);
	assert_int_equal(kv_windows_add(&w, &large, 1, ROOM), 0);
	kv_windows_fini(&w);
	kv_ranges_add(&ranges, large.data, large.len);
	assert_int_equal(kv_windows_add(&w, &large, 1, ROOM), 0);
	assert_int_equal(kv_windows_add(&w, &large, 1, ROOM), 0);
}

static void
what_nics_refuse_goes_by_tcp(void **state)
{
	(void)state;
	refused = EFAULT; /* read-only */
	assert_int_equal(add1(0, KIB * KIB), 0);
	assert_int_equal(kv_windows_close(&w, false), -EFAULT);
	kv_windows_fini(&w);
	refused = ENOMEM; /* the limit of locked memory */
	assert_int_equal(add1(0, KIB * KIB), 0);
	assert_int_equal(kv_windows_close(&w, false), -ENOMEM);
	kv_windows_fini(&w);
	refused = 0; /* but that is not tried with each frame */
	assert_int_equal(add1(0, KIB * KIB), 0);
	assert_int_equal(kv_windows_close(&w, false), -EAGAIN);
	assert_int_equal(n_made, 0);
	/* What cannot go otherwise is. */
	assert_int_equal(kv_windows_close(&w, true), 0);
}

/* ---- no memory ---- */

/* 0: there was enough; 1: not, and all was given back. */
static int
use_all(void)
{
	int rc;

	setup(NULL);
	has_ring = true;
	rc = kv_ranges_add(&ranges, memory + 3 * KIB * KIB, KIB);
	if (rc == 0)
		rc = add1(3 * KIB * KIB, KIB);
	if (rc == 0)
		rc = add1(0, KIB * KIB);
	if (rc == 0)
		rc = add1(2 * KIB * KIB, 100 * KIB);
	if (rc == 0)
		rc = kv_windows_close(&w, false);
	if (rc != 0 && rc != -ENOMEM && rc != -KV_ENOMEM)
		return 2;
	kv_windows_fini(&w);
	kv_ranges_fini(&ranges);
	if (n_regions != 0)
		return 3;
	return rc == 0 ? 0 : 1;
}

static void
memory_runs_out_anywhere(void **state)
{
	unsigned n = 1;
	int rc;

	(void)state;
	while ((rc = nth_fault_run(n, use_all)) == 1)
		n++;
	assert_int_equal(rc, 0);
	assert_in_range(n, 5, 20);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		nth_fault_test(memory_runs_out_anywhere),
		TEST(registered_memory_is_one_window),
		TEST(windows_are_named_once),
		TEST(other_memory_is_registered_where_it_is_worth_it),
		TEST(little_of_it_is_not),
		TEST(much_in_small_parts_is_not),
		TEST(both_kinds_go_together),
		TEST(a_buffer_lies_in_one_range),
		TEST(a_value_without_room_leaves_all_as_it_was),
		TEST(pieces_are_bounded),
		TEST(little_is_registered_at_a_time),
		TEST(what_nics_refuse_goes_by_tcp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

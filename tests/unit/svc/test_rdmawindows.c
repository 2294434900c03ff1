/* What of a frame's values goes through the ring: over memory that a fake
 * device knows. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "hcahost.h"
#include "svc/windows.h"
#include "test.h"
#include "wire/protodata.h"

enum {
	PORTS = HCAHOST_PORTS,
	ROOM = 1 << 20,
	KIB = 1024,
	MIB = KIB * KIB,
	MEMORY = 16 * MIB,
	WINDOW = sizeof(struct kv_window) + PORTS * sizeof(struct kv_le32),
	PART = 4 * KIB, /* a small piece, with as much behind it */
};

static struct kv_rdma *rdma;
static struct kv_ranges ranges;
static struct kv_windows w;
static char *memory;
static char tail[ROOM];
static unsigned registered; /* with some device */
static int refused;         /* errno of what has more bytes than: */
static size_t refused_above;

static struct ibv_mr *
maybe_reg(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct ibv_mr *mr;

	errno = refused;
	mr = refused && bytes > refused_above
		     ? NULL
		     : hcahost_real->reg_mr(pd, addr, bytes, access);
	registered += mr != NULL;
	return mr;
}

static int
setup(void **state)
{
	struct kv_rdma_opts o = { .verbs = &hcahost_v, .addrs = hcahost_addrs };
	char err[KV_RDMADEV_WHY_BYTES];

	(void)state;
	kv_log_set_level(KV_LOG_ERR);
	refused = 0;
	hcahost_open();
	hcahost_v.reg_mr = maybe_reg;
	hcahost_v.reg_mr_iova2 = NULL;
	rdma = kv_rdma_open(&o, err, sizeof(err));
	assert_non_null(rdma);
	assert_int_equal(kv_rdma_ports(rdma), PORTS);
	kv_ranges_init(&ranges, rdma);
	memory = malloc(MEMORY);
	assert_non_null(memory);
	for (size_t i = 0; i < MEMORY; i++)
		memory[i] = (char)(i * 7 + (i >> 12));
	registered = 0;
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
	free(memory);
	kv_rdma_close(rdma);
	hcahost_close();
	return 0;
}

/* ---- values ---- */

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

/* One of so many parts, from there on. */
static int
add_parts(size_t at, unsigned n)
{
	struct kv_buf *b = calloc(n, sizeof(*b));
	int rc;

	for (unsigned i = 0; i < n; i++)
		b[i] = buf(at + 2 * (size_t)i * PART, PART);
	rc = kv_windows_add(&w, b, n, ROOM);
	free(b);
	return rc;
}

/* ---- what the owner is told ---- */

struct told {
	const char *windows;
	const struct kv_piece *pieces;
	size_t n_pieces;
};

static struct told
build(void)
{
	char *p = kv_windows_build(&w, tail), *end;

	assert_int_equal(p - tail, w.n_mems * WINDOW);
	end = kv_windows_build_pieces(&w, p);
	assert_int_equal(end - tail, kv_windows_bytes(&w));
	return (struct told){
		.windows = tail,
		.pieces = (const struct kv_piece *)(const void *)p,
		.n_pieces = (size_t)(end - p) / sizeof(struct kv_piece),
	};
}

static struct kv_window
window(const struct told *t, unsigned i)
{
	struct kv_window rec;

	memcpy(&rec, t->windows + (size_t)i * WINDOW, sizeof(rec));
	return rec;
}

/* Where the owner finds a piece, which must lie in its window. */
static char *
piece_at(const struct told *t, size_t i)
{
	const struct kv_piece *p = &t->pieces[i];
	struct kv_window win = window(t, kv_get32(p->window));

	assert_in_range(kv_get64(p->off) + kv_get32(p->len), 1,
			kv_get64(win.len));
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	return (char *)(uintptr_t)(kv_get64(win.addr) + kv_get64(p->off));
}

static bool
is_ring(const struct told *t, size_t i)
{
	const struct kv_packring *r = &ranges.ring;
	const char *at = piece_at(t, i);

	return r->region && at >= r->base && at < r->base + r->bytes;
}

static void
check_piece(const struct told *t, size_t i, bool ring, size_t len)
{
	assert_int_equal(is_ring(t, i), ring);
	assert_int_equal(kv_get32(t->pieces[i].len), len);
}

static void
check_parts(const char *bytes, size_t at, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_memory_equal(bytes + (size_t)i * PART,
				    memory + at + 2 * (size_t)i * PART, PART);
}

/* ---- puts ---- */

static void
small_pieces_of_a_put_are_one(void **state)
{
	char before[20 * PART];
	struct kv_window win;
	struct kv_le32 key;
	struct told t;

	(void)state;
	assert_int_equal(kv_ranges_add(&ranges, memory, MEMORY), 0);
	assert_int_equal(add_parts(100, 20), 0);
	assert_int_equal(add_parts(MIB, 30), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	t = build();
	assert_int_equal(w.n_mems, 2);
	assert_int_equal(w.values[0].n_told, 1);
	assert_int_equal(w.values[1].n_told, 1);
	check_piece(&t, 0, true, 20 * PART);
	check_piece(&t, 1, true, 30 * PART);
	check_parts(piece_at(&t, 0), 100, 20);
	check_parts(piece_at(&t, 1), MIB, 30);
	/* The window is no more than that, with the key of the ring. */
	win = window(&t, kv_get32(t.pieces[0].window));
	assert_int_equal(kv_get64(win.len), 50 * PART);
	memcpy(&key,
	       t.windows + WINDOW * kv_get32(t.pieces[0].window) + sizeof(win),
	       sizeof(key));
	assert_int_equal(kv_get32(key),
			 kv_rdmaregion_far(ranges.ring.region)->keys[0]);
	/* What comes over the source afterwards is not in it. */
	memcpy(before, piece_at(&t, 0), sizeof(before));
	memset(memory, 0, MEMORY);
	assert_memory_equal(piece_at(&t, 0), before, sizeof(before));
}

static void
large_pieces_stay_where_they_are(void **state)
{
	struct kv_buf b[] = {
		buf(0, 100 * KIB),     buf(200 * KIB, PART),
		buf(300 * KIB, PART),  buf(400 * KIB, 16 * KIB - 1),
		buf(500 * KIB, 99),    buf(600 * KIB, 16 * KIB),
		buf(700 * KIB, PART),  buf(800 * KIB, 16 * KIB),
		buf(900 * KIB, 50000),
	};
	struct told t;

	(void)state;
	kv_ranges_add(&ranges, memory, MEMORY);
	assert_int_equal(kv_windows_add(&w, b, 9, ROOM), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	t = build();
	assert_int_equal(t.n_pieces, 6);
	check_piece(&t, 0, false, 100 * KIB);
	assert_ptr_equal(piece_at(&t, 0), memory);
	check_piece(&t, 1, true, 2 * PART + 16 * KIB - 1 + 99);
	check_piece(&t, 2, false, 16 * KIB);
	check_piece(&t, 3, false, PART); /* alone it is one in any case */
	check_piece(&t, 4, false, 16 * KIB);
	check_piece(&t, 5, false, 50000);
	assert_memory_equal(piece_at(&t, 1) + PART, b[2].data, PART);
	assert_memory_equal(piece_at(&t, 1) + 2 * PART, b[3].data, b[3].len);
	assert_memory_equal(piece_at(&t, 1) + kv_get32(t.pieces[1].len) - 99,
			    b[4].data, 99);
}

/* The request was cut for what it says without it. */
static void
a_request_does_not_become_longer(void **state)
{
	struct told t;

	(void)state;
	kv_ranges_add(&ranges, memory, MEMORY);
	assert_int_equal(add_parts(0, 2), 0); /* 28 bytes for 16 */
	assert_int_equal(kv_windows_close(&w, false), 0);
	t = build();
	assert_int_equal(t.n_pieces, 2);
	check_piece(&t, 0, false, PART);
	assert_null(ranges.ring.region);
}

/* ---- other memory ---- */

static void
a_little_of_other_memory_is_packed(void **state)
{
	struct kv_buf b[] = { buf(MIB, 60 * KIB), buf(2 * MIB, 90 * KIB) };
	struct told t;

	(void)state;
	assert_int_equal(add1(0, 100 * KIB), 0);
	assert_int_equal(kv_windows_add(&w, b, 2, ROOM), 0);
	assert_int_equal(add1(3 * MIB, 256 * KIB - 1), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	/* Nothing but the ring. */
	assert_int_equal(registered, HCAHOST_DEVS);
	t = build();
	assert_int_equal(w.n_mems, 1);
	assert_int_equal(t.n_pieces, 3);
	check_piece(&t, 0, true, 100 * KIB);
	check_piece(&t, 1, true, 150 * KIB);
	check_piece(&t, 2, true, 256 * KIB - 1);
	assert_memory_equal(piece_at(&t, 0), memory, 100 * KIB);
	assert_memory_equal(piece_at(&t, 1), memory + MIB, 60 * KIB);
	assert_memory_equal(piece_at(&t, 1) + 60 * KIB, memory + 2 * MIB,
			    90 * KIB);
	assert_memory_equal(piece_at(&t, 2), memory + 3 * MIB, 256 * KIB - 1);
}

/* Also where it belongs to several values. */
static void
much_in_one_row_is_registered(void **state)
{
	struct told t;

	(void)state;
	assert_int_equal(add1(0, 100 * KIB), 0);
	assert_int_equal(add1(100 * KIB, 100 * KIB), 0);
	assert_int_equal(add1(200 * KIB, 56 * KIB), 0);
	assert_int_equal(w.crumb_bytes, 0);
	assert_int_equal(add1(MIB, 70 * KIB), 0);
	assert_int_equal(w.crumb_bytes, 70 * KIB);
	assert_int_equal(kv_windows_close(&w, false), 0);
	t = build();
	assert_int_equal(registered, 2 * HCAHOST_DEVS);
	assert_int_equal(w.n_mems, 2);
	for (size_t i = 0; i < 3; i++)
		assert_ptr_equal(piece_at(&t, i), memory + i * 100 * KIB);
	check_piece(&t, 3, true, 70 * KIB);
	assert_memory_equal(piece_at(&t, 3), memory + MIB, 70 * KIB);
}

static void
a_frame_is_cut_where_the_ring_ends(void **state)
{
	unsigned n = 0;

	(void)state;
	while (add_parts(n * 128 * (size_t)KIB, 16) == 0)
		n++;
	assert_int_equal(n, KV_PACKRING_SPAN_BYTES / 16 / PART);
	assert_int_equal(w.crumb_bytes, KV_PACKRING_SPAN_BYTES);
	assert_int_equal(kv_windows_close(&w, false), 0);
	assert_int_equal(build().n_pieces, n);
	kv_windows_fini(&w);
	/* One value may be larger; then TCP has it. */
	assert_int_equal(add_parts(0, 16 * n + 1), 0);
	assert_int_equal(kv_windows_close(&w, false), -EAGAIN);
	kv_windows_fini(&w);
	assert_true(kv_list_is_empty(&ranges.ring.spans));
}

/* What NICs know can go without. */
static void
other_memory_comes_first(void **state)
{
	unsigned parts = KV_PACKRING_SPAN_BYTES / PART;
	struct told t;

	(void)state;
	kv_ranges_add(&ranges, memory, 8 * MIB);
	assert_int_equal(add_parts(0, parts), 0);
	assert_int_equal(add1(8 * MIB, 100 * KIB), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	t = build();
	assert_int_equal(t.n_pieces, 1 + 25 + 1);
	check_piece(&t, 0, true, (parts - 25) * PART);
	for (unsigned i = 1; i <= 25; i++)
		check_piece(&t, i, false, PART);
	check_piece(&t, 26, true, 100 * KIB);
	check_parts(piece_at(&t, 0), 0, parts - 25);
	assert_memory_equal(piece_at(&t, 26), memory + 8 * MIB, 100 * KIB);
}

/* ---- gets ---- */

static void
write_piece(const struct told *t, size_t i, char x)
{
	for (uint32_t k = 0; k < kv_get32(t->pieces[i].len); k++)
		piece_at(t, i)[k] = (char)(x + k);
}

static void
check_written(const struct kv_buf *b, size_t n, size_t bytes, char x)
{
	const char *p;

	for (size_t i = 0; i < n; i++) {
		p = b[i].data;
		for (size_t k = 0; k < b[i].len && bytes > 0; k++, bytes--)
			assert_int_equal(p[k], (char)x++);
	}
	assert_int_equal(bytes, 0);
}

static void
check_untouched(size_t at, size_t len)
{
	for (size_t i = at; i < at + len; i++)
		assert_int_equal(memory[i], (char)(i * 7 + (i >> 12)));
}

static void
a_get_is_unpacked_as_far_as_it_came(void **state)
{
	struct kv_buf a[20], b[] = { buf(8 * MIB, 90000) };
	struct told t;

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		a[i] = buf(2 * (size_t)i * PART, PART);
	kv_windows_init(&w, &ranges, true);
	kv_ranges_add(&ranges, memory, 6 * MIB);
	assert_int_equal(kv_windows_add(&w, b, 1, ROOM), 0);
	assert_int_equal(kv_windows_add(&w, a, 20, ROOM), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	t = build();
	assert_int_equal(t.n_pieces, 2);
	write_piece(&t, 0, 10);
	write_piece(&t, 1, 20);
	check_untouched(0, MEMORY);
	/* In any order; one never. */
	kv_windows_unpack(&w, 1, 3 * PART + 17);
	check_written(a, 20, 3 * PART + 17, 20);
	check_untouched(6 * PART + 17, MEMORY - 6 * PART - 17);
	kv_windows_unpack(&w, 0, 90000);
	check_written(b, 1, 90000, 10);
	check_untouched(8 * MIB + 90000, MIB);
}

/* Pieces of both kinds in one value. */
static void
what_is_not_packed_is_left_alone(void **state)
{
	struct kv_buf b[] = {
		buf(0, 20000),       buf(MIB, 100),       buf(MIB + 200, 100),
		buf(MIB + 400, 100), buf(MIB + 600, 100), buf(2 * MIB, 30000),
		buf(8 * MIB, 5000),
	};
	struct told t;

	(void)state;
	kv_windows_init(&w, &ranges, true);
	kv_ranges_add(&ranges, memory, 6 * MIB);
	assert_int_equal(kv_windows_add(&w, b, 7, ROOM), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	t = build();
	assert_int_equal(t.n_pieces, 4);
	check_piece(&t, 0, false, 20000);
	check_piece(&t, 1, true, 400);
	check_piece(&t, 2, false, 30000);
	check_piece(&t, 3, true, 5000);
	write_piece(&t, 1, 1);
	write_piece(&t, 3, 2);
	kv_windows_unpack(&w, 0, 20000 + 400 + 30000 + 4999);
	check_untouched(0, MIB);
	check_written(b + 1, 4, 400, 1);
	check_untouched(2 * MIB, MIB);
	check_written(b + 6, 1, 4999, 2);
	check_untouched(8 * MIB + 4999, MIB);
}

/* ---- no ring, no room ---- */

static void
a_full_ring_is_no_failure(void **state)
{
	struct kv_packring_span s[KV_PACKRING_SPANS];
	struct told t;

	(void)state;
	kv_ranges_add(&ranges, memory, 6 * MIB);
	assert_true(kv_packring_begin(&ranges.ring) > 0);
	for (unsigned i = 0; i < KV_PACKRING_SPANS; i++)
		assert_true(kv_packring_take(&ranges.ring, NULL,
					     KV_PACKRING_SPAN_BYTES, &s[i]));
	assert_int_equal(add_parts(0, 20), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	t = build();
	assert_int_equal(w.n_mems, 1);
	assert_int_equal(t.n_pieces, 20);
	for (unsigned i = 0; i < 20; i++)
		assert_ptr_equal(piece_at(&t, i),
				 memory + 2 * (size_t)i * PART);
	kv_windows_fini(&w);
	/* Of other memory much is registered, a little is TCP's. */
	assert_int_equal(add1(8 * MIB, 100 * KIB), 0);
	assert_int_equal(kv_windows_close(&w, false), -EAGAIN);
	kv_windows_fini(&w);
	assert_int_equal(add1(8 * MIB, 100 * KIB), 0);
	assert_int_equal(add1(9 * MIB, 200 * KIB), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	assert_int_equal(w.n_mems, 2);
	kv_windows_fini(&w);
	for (unsigned i = 0; i < KV_PACKRING_SPANS; i++)
		kv_packring_give(&s[i]);
	assert_int_equal(add_parts(0, 20), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	assert_int_equal(build().n_pieces, 1);
}

static void
a_ring_that_cannot_be_made_is_no_failure(void **state)
{
	(void)state;
	kv_ranges_add(&ranges, memory, 6 * MIB);
	refused = ENOMEM;
	refused_above = 0;
	assert_int_equal(add_parts(0, 20), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	assert_int_equal(build().n_pieces, 20);
	assert_true(kv_ranges_is_full(&ranges));
	kv_windows_fini(&w);
	assert_int_equal(add1(8 * MIB, 100 * KIB), 0);
	assert_int_equal(kv_windows_close(&w, false), -EAGAIN);
}

/* As much as goes into it. */
static void
a_small_ring_takes_what_it_can(void **state)
{
	struct told t;

	(void)state;
	kv_ranges_add(&ranges, memory, 8 * MIB);
	refused = ENOMEM;
	refused_above = KV_PACKRING_BYTES_LEAST;
	assert_int_equal(add_parts(0, 100), 0);
	assert_int_equal(kv_windows_close(&w, false), 0);
	t = build();
	assert_int_equal(ranges.ring.bytes, KV_PACKRING_BYTES_LEAST);
	check_piece(&t, 0, true, 64 * PART);
	assert_int_equal(t.n_pieces, 1 + 36);
	check_parts(piece_at(&t, 0), 0, 64);
}

/* ---- many threads ---- */

enum {
	THREADS = 4,
	TURNS = 60,
	PARTS = 100,
};

/* A frame of a thread; what the owner does is done here. */
static void
turn(char *mine, unsigned i, bool is_get)
{
	char wire[PARTS * (sizeof(struct kv_piece) + WINDOW)];
	struct kv_buf b[PARTS];
	struct kv_windows own;

	for (unsigned k = 0; k < PARTS; k++) {
		b[k] = (struct kv_buf){ mine + 2 * k * PART, PART };
		memset(b[k].data, (int)(i + k), PART);
	}
	kv_windows_init(&own, &ranges, is_get);
	if (kv_windows_add(&own, b, PARTS, sizeof(wire)) < 0 ||
	    kv_windows_close(&own, false) < 0 || own.values[0].n_told != 1)
		abort();
	kv_windows_build_pieces(&own, kv_windows_build(&own, wire));
	if (is_get)
		memset(own.span.at, (int)i + 7, PARTS * PART);
	for (unsigned k = 0; !is_get && k < PARTS; k++)
		if (memcmp(own.span.at + k * PART, b[k].data, PART))
			abort();
	kv_windows_unpack(&own, 0, PARTS * PART);
	for (unsigned k = 0; is_get && k < PARTS; k++)
		if (((char *)b[k].data)[k] != (char)(i + 7))
			abort();
	kv_windows_fini(&own);
}

static void *
run(void *arg)
{
	for (unsigned i = 0; i < TURNS; i++)
		turn(arg, i, i % 2);
	return NULL;
}

static void
threads_share_the_ring(void **state)
{
	pthread_t t[THREADS];

	(void)state;
	kv_packring_begin(&ranges.ring);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, run, memory + i * 2 * PARTS * PART);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(small_pieces_of_a_put_are_one),
		TEST(large_pieces_stay_where_they_are),
		TEST(a_request_does_not_become_longer),
		TEST(a_little_of_other_memory_is_packed),
		TEST(much_in_one_row_is_registered),
		TEST(a_frame_is_cut_where_the_ring_ends),
		TEST(other_memory_comes_first),
		TEST(a_get_is_unpacked_as_far_as_it_came),
		TEST(what_is_not_packed_is_left_alone),
		TEST(a_full_ring_is_no_failure),
		TEST(a_ring_that_cannot_be_made_is_no_failure),
		TEST(a_small_ring_takes_what_it_can),
		TEST(threads_share_the_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

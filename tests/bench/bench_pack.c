/*
 * What it costs a requester to name the values of a frame to an owner's NICs,
 * where they are packed and where they are not, in microseconds and GB/s:
 * medians of rounds. Nothing is registered with a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "svc/windows.h"

enum {
	KIB = 1024,
	AREA = 256 << 20, /* so that the caches have none of it */
	ROOM = 1 << 20,
	PIECES_MAX = 1024,
	ROUNDS = 101,
};

struct kv_rdmaregion {
	struct kv_rdmamem mem;
};

unsigned
kv_rdma_ports(const struct kv_rdma *r)
{
	(void)r;
	return 8;
}

struct kv_rdmaregion *
kv_rdmaregion_new(struct kv_rdma *r, void *addr, size_t bytes,
		  enum kv_rdmaregion_use use)
{
	struct kv_rdmaregion *g = calloc(1, sizeof(*g));

	(void)r;
	(void)use;
	if (!g)
		abort();
	g->mem.addr = (uintptr_t)addr;
	g->mem.len = bytes;
	return g;
}

void
kv_rdmaregion_free(struct kv_rdmaregion *g)
{
	free(g);
}

const struct kv_rdmamem *
kv_rdmaregion_far(const struct kv_rdmaregion *g)
{
	return &g->mem;
}

static struct kv_ranges ranges;
static char *area, tail[2 * ROOM];
static size_t at;

struct what {
	const char *name;
	size_t piece;
	unsigned n;
	bool is_get, is_registered, is_packed;
};

static const struct what whats[] = {
	{ "put of 256 x 4 KiB, by pieces", 4 * KIB, 256, false, true, false },
	{ "put of 256 x 4 KiB, packed", 4 * KIB, 256, false, true, true },
	{ "get of 256 x 4 KiB, packed", 4 * KIB, 256, true, true, true },
	{ "put of 10 x 100 KiB, packed", 100 * KIB, 10, false, false, true },
	{ "get of 10 x 100 KiB, packed", 100 * KIB, 10, true, false, true },
};

/* Another part of the area each time. */
static void
choose(const struct what *what, struct kv_buf *bufs)
{
	unsigned i;

	for (i = 0; i < what->n; i++, at += 2 * what->piece) {
		if (at + what->piece > AREA)
			at = 0;
		bufs[i] = (struct kv_buf){ area + at, what->piece };
	}
}

static uint64_t
once(const struct what *what)
{
	const struct kv_clock clock = { 0 };
	struct kv_buf bufs[PIECES_MAX];
	struct kv_windows w;
	uint64_t began;

	choose(what, bufs);
	began = kv_clock_now(&clock);
	kv_windows_init(&w, &ranges, what->is_get);
	if (kv_windows_add(&w, bufs, what->n, ROOM) < 0 ||
	    kv_windows_close(&w, false) < 0 ||
	    kv_windows_are_packed(&w) != what->is_packed)
		abort();
	kv_windows_build_pieces(&w, kv_windows_build(&w, tail));
	if (what->is_get)
		kv_windows_unpack(&w, 0, what->n * what->piece);
	kv_windows_fini(&w);
	return kv_clock_now(&clock) - began;
}

static int
by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void
run(const struct what *what)
{
	struct kv_packring_span all = { 0 };
	uint64_t ns[ROUNDS];
	unsigned i;

	if (what->is_registered && kv_ranges_add(&ranges, area, AREA) < 0)
		abort();
	kv_packring_begin(&ranges.ring);
	if (!what->is_packed &&
	    !kv_packring_take(&ranges.ring, NULL, KV_PACKRING_BYTES, &all))
		abort();
	for (i = 0; i < ROUNDS; i++)
		ns[i] = once(what);
	kv_packring_give(&all);
	if (what->is_registered)
		kv_ranges_del(&ranges, area);
	qsort(ns, ROUNDS, sizeof(ns[0]), by_size);
	printf("%-32s %8.1f us %8.2f GB/s\n", what->name,
	       (double)ns[ROUNDS / 2] / 1e3,
	       (double)(what->n * what->piece) / (double)ns[ROUNDS / 2]);
}

int
main(void)
{
	static int nothing;
	unsigned i;

	area = malloc(AREA);
	if (!area)
		return 1;
	memset(area, 1, AREA);
	kv_ranges_init(&ranges, (struct kv_rdma *)(void *)&nothing);
	for (i = 0; i < sizeof(whats) / sizeof(whats[0]); i++)
		run(&whats[i]);
	kv_ranges_fini(&ranges);
	free(area);
	return 0;
}

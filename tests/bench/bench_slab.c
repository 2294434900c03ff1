/*
 * Nanoseconds of an allocation and of a release while a number of blocks of
 * that size is live, in random order, and the longest single allocation while
 * the blocks were first made (which is when the bookkeeping grows).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/rng.h"
#include "mem/slab.h"

#define CALLS 1000000u
#define GROUP 64u /* calls between two looks at the clock */

static const struct kv_clock clock_real;

struct run {
	uint64_t bytes;
	uint64_t live;
};

static uint64_t
now(void)
{
	return kv_clock_now(&clock_real);
}

static struct kv_extent
alloc_or_die(struct kv_slab *s, uint64_t bytes)
{
	struct kv_extent ext;

	if (kv_slab_alloc(s, bytes, &ext, 1) != 1) {
		fprintf(stderr, "bench_slab: no space\n");
		exit(1);
	}
	return ext;
}

static uint64_t
fill(struct kv_slab *s, const struct run *r, struct kv_extent *ext)
{
	uint64_t i, t, longest = 0;

	for (i = 0; i < r->live; i++) {
		t = now();
		ext[i] = alloc_or_die(s, r->bytes);
		longest = kv_max_u64(longest, now() - t);
	}
	return longest;
}

static void
shuffle(struct kv_extent *ext, uint64_t n, struct kv_rng *rng)
{
	struct kv_extent tmp;
	uint64_t i, k;

	for (i = n; i > 1; i--) {
		k = kv_rng_below(rng, i);
		tmp = ext[i - 1];
		ext[i - 1] = ext[k];
		ext[k] = tmp;
	}
}

/* One of each part of the array, so that none is picked twice. */
static void
pick_group(struct kv_extent *ext, uint64_t n, struct kv_extent **picked,
	   struct kv_rng *rng)
{
	uint64_t part = n / GROUP;
	unsigned i;

	for (i = 0; i < GROUP; i++)
		picked[i] = &ext[i * part + kv_rng_below(rng, part)];
}

static void
measure(const struct run *r)
{
	uint64_t pool = kv_round_up_u64(r->live * r->bytes * 5 / 4, 1 << 20);
	uint64_t longest, t0, t1, alloc_ns = 0, release_ns = 0;
	struct kv_slab *s = kv_slab_new(pool);
	struct kv_extent *ext = malloc(r->live * sizeof(*ext));
	struct kv_extent *picked[GROUP], group[GROUP];
	struct kv_rng rng;
	unsigned i, turn;

	if (!s || !ext || kv_slab_add(s, 0, pool))
		exit(1);
	kv_rng_seed(&rng, 1);
	longest = fill(s, r, ext);
	shuffle(ext, r->live, &rng);
	for (turn = 0; turn < CALLS / GROUP; turn++) {
		pick_group(ext, r->live, picked, &rng);
		for (i = 0; i < GROUP; i++)
			group[i] = *picked[i]; /* not the miss of the array */
		t0 = now();
		for (i = 0; i < GROUP; i++)
			kv_slab_release(s, &group[i], 1);
		t1 = now();
		for (i = 0; i < GROUP; i++)
			group[i] = alloc_or_die(s, r->bytes);
		alloc_ns += now() - t1;
		for (i = 0; i < GROUP; i++)
			*picked[i] = group[i];
		release_ns += t1 - t0;
	}
	printf("%10ju %10ju %10.1f %10.1f %12.1f\n", (uintmax_t)r->bytes,
	       (uintmax_t)r->live, (double)alloc_ns / CALLS,
	       (double)release_ns / CALLS, (double)longest / 1000);
	kv_slab_free(s);
	free(ext);
}

int
main(void)
{
	static const struct run runs[] = {
		{ 256, 10000 },     { 256, 1000000 },  { 256, 10000000 },
		{ 4096, 1000000 },  { 32768, 100000 }, { 65536, 1000000 },
		{ 658432, 100000 }, { 3274752, 10000 }
	};
	size_t i;

	printf("%10s %10s %10s %10s %12s\n", "bytes", "live", "alloc ns",
	       "release ns", "longest us");
	for (i = 0; i < KV_ARRAY_LEN(runs); i++)
		measure(&runs[i]);
	return 0;
}

/*
 * Rates of the directory beside a floor: a bare open-addressing table of
 * 16-byte hashes, at most half full, probed with prefetching and nothing else.
 * In CPU time. Argument: keys (1,000,000).
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/num.h"
#include "base/rng.h"
#include "base/str.h"
#include "store/dir.h"

enum {
	AHEAD = 32,
	PROBES = 100000,
	ROUNDS = 20,
	PUBLISH = 1000, /* entries of a frame */
	SLOTS = 16,
};

struct bench {
	struct kv_rng rng;
	struct kv_hash *keys;
	size_t n;
	struct kv_hash probes[PROBES];
	uint8_t out[PROBES];
};

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void *
huge_zeroes(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert(p != MAP_FAILED);
	madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

static struct kv_hash
random_hash(struct kv_rng *r)
{
	struct kv_hash h;

	h.lo = kv_rng_u64(r);
	h.hi = kv_rng_u64(r) | 1; /* not 0: that is free in the floor's table */
	return h;
}

/* Keys of the set, or others. */
static void
choose_probes(struct bench *b, bool hits)
{
	size_t i;

	for (i = 0; i < PROBES; i++)
		b->probes[i] = hits ? b->keys[kv_rng_below(&b->rng, b->n)]
				    : random_hash(&b->rng);
}

static size_t
floor_probe(const struct kv_hash *t, size_t mask, const struct kv_hash *h,
	    size_t n, uint8_t *out)
{
	size_t found = 0, i, at;

	for (i = 0; i < n; i++) {
		if (i + AHEAD < n)
			__builtin_prefetch(&t[h[i + AHEAD].lo & mask]);
		at = h[i].lo & mask;
		while (t[at].hi && !kv_key_hash_is_equal(t[at], h[i]))
			at = (at + 1) & mask;
		out[i] = t[at].hi != 0;
		found += out[i];
	}
	return found;
}

/* Millions a second, the best of the rounds. */
static double
rate(uint64_t best_ns, size_t n)
{
	return (double)n * 1e3 / (double)best_ns;
}

static double
run_floor(struct bench *b, const struct kv_hash *t, size_t mask, bool hits)
{
	uint64_t best = UINT64_MAX, t0;
	size_t found;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		choose_probes(b, hits);
		t0 = cpu_ns();
		found = floor_probe(t, mask, b->probes, PROBES, b->out);
		best = kv_min_u64(best, cpu_ns() - t0);
		assert(found == (hits ? PROBES : 0));
	}
	return rate(best, PROBES);
}

static double
run_exist(struct bench *b, const struct kv_dir *d, bool hits)
{
	uint64_t best = UINT64_MAX, t0;
	size_t found;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		choose_probes(b, hits);
		t0 = cpu_ns();
		found = kv_dir_exist(d, b->probes, PROBES, b->out);
		best = kv_min_u64(best, cpu_ns() - t0);
		assert(found == (hits ? PROBES : 0));
	}
	return rate(best, PROBES);
}

/* In frames, as nodes publish; growth and all. Longest call in *max_ns. */
static double
run_add(struct bench *b, struct kv_dir *d, bool timed, uint64_t *max_ns)
{
	uint64_t start = cpu_ns(), t0;
	struct kv_dir_view view;
	struct kv_dir_id id;
	size_t at, n, i;
	int rc;

	*max_ns = 0;
	for (at = 0; at < b->n; at += n) {
		n = kv_min_size(PUBLISH, b->n - at);
		for (i = at; i < at + n; i++)
			kv_dir_prefetch(d, b->keys[i]);
		for (i = at; i < at + n; i++) {
			id.random = b->keys[i].hi;
			id.version = 0;
			t0 = timed ? cpu_ns() : 0;
			rc = kv_dir_add(d, b->keys[i], id, i % SLOTS, &view);
			assert(rc == 1);
			if (timed)
				*max_ns = kv_max_u64(*max_ns, cpu_ns() - t0);
		}
	}
	return rate(cpu_ns() - start, b->n);
}

static double
run_del(struct bench *b, struct kv_dir *d)
{
	uint64_t start = cpu_ns();
	struct kv_dir_id id;
	size_t at, n, i;
	bool was;

	for (at = 0; at < b->n; at += n) {
		n = kv_min_size(PUBLISH, b->n - at);
		for (i = at; i < at + n; i++)
			kv_dir_prefetch(d, b->keys[i]);
		for (i = at; i < at + n; i++) {
			id.random = b->keys[i].hi;
			id.version = 0;
			was = kv_dir_del(d, b->keys[i], id, i % SLOTS);
			assert(was);
		}
	}
	return rate(cpu_ns() - start, b->n);
}

static struct kv_dir *
dir_new(void)
{
	struct kv_dir *d = kv_dir_new(SLOTS);
	unsigned s;

	assert(d);
	for (s = 0; s < SLOTS; s++)
		kv_dir_slot_open(d, s);
	return d;
}

static void
bench_floor(struct bench *b, double *hit, double *miss)
{
	size_t size = 2, i, at;
	struct kv_hash *t;

	while (size < b->n * 2)
		size *= 2;
	t = huge_zeroes(size * sizeof(*t));
	for (i = 0; i < b->n; i++) {
		at = b->keys[i].lo & (size - 1);
		while (t[at].hi)
			at = (at + 1) & (size - 1);
		t[at] = b->keys[i];
	}
	*hit = run_floor(b, t, size - 1, true);
	*miss = run_floor(b, t, size - 1, false);
	munmap(t, size * sizeof(*t));
}

static void
bench_dir(struct bench *b, double floor_hit, double floor_miss)
{
	struct kv_dir *d = dir_new();
	double add, hit, miss, del;
	uint64_t max_ns, bytes;

	add = run_add(b, d, false, &max_ns);
	bytes = kv_dir_bytes(d);
	hit = run_exist(b, d, true);
	miss = run_exist(b, d, false);
	del = run_del(b, d);
	kv_dir_free(d);
	d = dir_new();
	run_add(b, d, true, &max_ns);
	kv_dir_free(d);
	printf("exist, hits   %6.1f M/s  floor %6.1f  ratio %.2f\n", hit,
	       floor_hit, hit / floor_hit);
	printf("exist, misses %6.1f M/s  floor %6.1f  ratio %.2f\n", miss,
	       floor_miss, miss / floor_miss);
	printf("add           %6.1f M/s  longest call %.3f ms\n", add,
	       (double)max_ns / 1e6);
	printf("del           %6.1f M/s\n", del);
	printf("memory        %6.1f bytes a key\n",
	       (double)bytes / (double)b->n);
}

int
main(int argc, char **argv)
{
	double floor_hit, floor_miss;
	uint64_t n = 1000000;
	struct bench *b;
	size_t i;

	if (argc > 1 && kv_str_u64(argv[1], 1, 1u << 30, &n) < 0) {
		fprintf(stderr, "usage: bench_dir [KEYS]\n");
		return 64;
	}
	b = huge_zeroes(sizeof(*b));
	b->n = n;
	b->keys = huge_zeroes(n * sizeof(b->keys[0]));
	kv_rng_seed(&b->rng, 1);
	for (i = 0; i < n; i++)
		b->keys[i] = random_hash(&b->rng);
	printf("directory, %" PRIu64 " keys\n", n);
	bench_floor(b, &floor_hit, &floor_miss);
	bench_dir(b, floor_hit, floor_miss);
	return 0;
}

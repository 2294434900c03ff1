/*
 * What a small object costs in a node's index, slab and all: CPU time of one
 * operation, and memory beside the key. Argument: objects (1,000,000).
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/str.h"
#include "mem/slab.h"
#include "store/index.h"

enum {
	VALUE = 256,
	KEY = 32,
	BATCH = 64,
};

struct bench {
	struct kv_rng rng;
	struct kv_slab *slab;
	struct kv_index *ix;
	uint64_t n;
};

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t
resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long long pages = 0;

	if (!f || fscanf(f, "%*s %llu", &pages) != 1)
		abort();
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void
report(const char *what, uint64_t start_ns, uint64_t n)
{
	printf("%-22s %6.0f ns\n", what,
	       (double)(cpu_ns() - start_ns) / (double)n);
}

static struct kv_hash
hash_of(uint64_t i)
{
	return kv_key_hash(0, &i, sizeof(i));
}

static void
put(struct bench *b, uint64_t i)
{
	uint64_t key[KEY / sizeof(i)] = { i };
	struct kv_extent ext[4];
	struct kv_index_new_object n = {
		.hash = hash_of(i),
		.key = key,
		.key_len = KEY,
		.size = VALUE,
		.ext = ext,
	};
	struct kv_object *o;
	int rc;

	rc = kv_index_reserve(b->ix, VALUE, true, i, ext, 4);
	assert(rc == 1);
	n.n_ext = 1;
	o = kv_index_insert(b->ix, &n, i);
	assert(o);
	kv_index_show(b->ix, o, i);
}

static struct kv_object *
find(struct bench *b, uint64_t i)
{
	uint64_t key[KEY / sizeof(i)] = { i };

	return kv_index_find(b->ix, hash_of(i), 0, key, KEY);
}

static void
bench_gets(struct bench *b)
{
	uint64_t i, j, k, t0 = cpu_ns(), batch[BATCH];
	struct kv_object *o;

	for (i = 0; i < b->n; i++) {
		o = find(b, kv_rng_below(&b->rng, b->n));
		assert(o);
		kv_index_pin(b->ix, o, b->n + i);
		kv_index_unpin(b->ix, o);
	}
	report("find, pin, unpin", t0, b->n);
	t0 = cpu_ns();
	for (i = 0; i < b->n; i += BATCH) {
		for (j = 0; j < BATCH; j++) {
			batch[j] = kv_rng_below(&b->rng, b->n);
			kv_index_prefetch(b->ix, hash_of(batch[j]));
		}
		for (j = 0; j < BATCH; j++) {
			o = find(b, batch[j]);
			assert(o);
		}
	}
	report("find, prefetched", t0, b->n);
	t0 = cpu_ns();
	for (k = 0; k < b->n; k++)
		kv_index_want(b->ix, find(b, kv_rng_below(&b->rng, b->n)), k);
	report("find, want", t0, b->n);
}

static void
bench_index(struct bench *b)
{
	uint64_t i, t0, before = resident_bytes();

	t0 = cpu_ns();
	for (i = 0; i < b->n; i++)
		put(b, i);
	report("put", t0, b->n);
	printf("%-22s %6.0f bytes\n", "memory beside the key",
	       (double)(resident_bytes() - before) / (double)b->n - KEY);
	bench_gets(b);
	t0 = cpu_ns();
	for (i = b->n; i < 2 * b->n; i++)
		put(b, i);
	report("put that evicts", t0, b->n);
	t0 = cpu_ns();
	for (i = b->n; i < 2 * b->n; i++)
		kv_index_drop(b->ix, find(b, i));
	report("find, drop", t0, b->n);
}

int
main(int argc, char **argv)
{
	struct kv_index_opts opts = { .grace_ns = 1 };
	struct bench b = { .n = 1000000 };

	if (argc > 1 && kv_str_u64(argv[1], 1, 1u << 30, &b.n) < 0) {
		fprintf(stderr, "usage: bench_index [OBJECTS]\n");
		return 64;
	}
	kv_rng_seed(&b.rng, 1);
	b.slab = opts.slab = kv_slab_new(b.n * VALUE);
	assert(b.slab);
	if (kv_slab_add(b.slab, 0, b.n * VALUE) < 0)
		abort();
	b.ix = kv_index_new(&opts);
	assert(b.ix);
	printf("index, %" PRIu64 " objects of %d bytes\n", b.n, VALUE);
	bench_index(&b);
	kv_index_free(b.ix);
	kv_slab_free(b.slab);
	return 0;
}

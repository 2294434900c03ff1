#include "base/htab.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/hist.h"
#include "base/rng.h"
#include "base/str.h"

/*
 * Adds, finds, walks and deletes N (10 million, or the argument) nodes and
 * prints nanoseconds per operation: the longest is the stall that growing and
 * shrinking cost. CPU time, so that a busy machine does not show; reading that
 * clock is most of the mean.
 */

static struct kv_htab table;
static uint64_t sink;

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * KV_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t
hash_of(size_t i)
{
	uint64_t h = (i + 1) * 0x9e3779b97f4a7c15u;

	return h ^ (h >> 32);
}

static void
print(const char *name, struct kv_hist *h)
{
	printf("%-12s mean %6.1f  p99 %5ju  p99.99 %6ju  max %8ju ns\n", name,
	       kv_hist_mean(h), (uintmax_t)kv_hist_percentile(h, 99),
	       (uintmax_t)kv_hist_percentile(h, 99.99),
	       (uintmax_t)kv_hist_max(h));
	kv_hist_init(h);
}

static void
count(void *arg, struct kv_htab_node *n)
{
	(*(size_t *)arg)++;
	sink += n->hash;
}

static int
add_all(struct kv_htab_node *nodes, size_t n, struct kv_hist *h)
{
	uint64_t before, now = cpu_ns();
	size_t i;
	int rc;

	for (i = 0; i < n; i++) {
		before = now;
		rc = kv_htab_add(&table, &nodes[i], hash_of(i));
		if (rc < 0)
			return rc;
		now = cpu_ns();
		kv_hist_add(h, now - before);
	}
	print("add", h);
	return 0;
}

static void
find_all(size_t n, struct kv_hist *h, struct kv_rng *r)
{
	uint64_t before, now = cpu_ns();
	size_t i;

	for (i = 0; i < n; i++) {
		before = now;
		sink += kv_htab_first(&table, hash_of(kv_rng_below(r, n)))
				->hash;
		now = cpu_ns();
		kv_hist_add(h, now - before);
	}
	print("find", h);
}

static void
walk_all(size_t n, struct kv_hist *h)
{
	uint64_t before, now = cpu_ns(), cursor = 0;
	size_t seen = 0;

	do {
		before = now;
		cursor = kv_htab_scan(&table, cursor, 64, count, &seen);
		now = cpu_ns();
		kv_hist_add(h, now - before);
	} while (cursor);
	print("walk 64", h);
	if (seen != n)
		printf("walk saw %zu of %zu\n", seen, n);
}

static void
del_all(struct kv_htab_node *nodes, size_t n, struct kv_hist *h)
{
	uint64_t before, now = cpu_ns();
	size_t i;

	for (i = 0; i < n; i++) {
		before = now;
		kv_htab_del(&table, &nodes[i]);
		now = cpu_ns();
		kv_hist_add(h, now - before);
	}
	print("delete", h);
}

int
main(int argc, char **argv)
{
	static struct kv_hist h;
	kv_auto_free struct kv_htab_node *nodes = NULL;
	uint64_t n = 10000000;
	struct kv_rng r;

	if (argc > 1 && kv_str_u64(argv[1], 1, UINT32_MAX, &n) < 0)
		return 64;
	nodes = calloc(n, sizeof(*nodes));
	if (!nodes)
		return 71;
	kv_rng_seed(&r, 1);
	kv_hist_init(&h);
	kv_htab_init(&table);
	printf("hash table, %ju nodes\n", (uintmax_t)n);
	if (add_all(nodes, n, &h) < 0)
		return 71;
	find_all(n, &h, &r);
	walk_all(n, &h);
	del_all(nodes, n, &h);
	kv_htab_fini(&table);
	return 0;
}

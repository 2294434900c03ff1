/*
 * Whole clusters on a virtual clock, from seeds. SIM_SEEDS=N says how many
 * (100 to 120), SIM_FIRST=S where to begin (1), SIM_TEST=NAME in which test.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cluster.h"
#include "test.h"

static unsigned long
from_env(const char *name, unsigned long preset)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : preset;
}

/* Few mostly, which meet more often in one time; one cluster in eight has more,
 * for the tables and choices that few do not fill. */
static unsigned
random_nodes(struct kv_rng *r, uint64_t seed)
{
	if (seed % 8 == 0)
		return 5 + (unsigned)kv_rng_below(r, 8);
	return 1 + (unsigned)kv_rng_below(r, 4);
}

static struct cluster_opts
random_opts(uint64_t seed, unsigned long masters)
{
	struct kv_rng r;

	kv_rng_seed(&r, seed);
	return (struct cluster_opts){
		.seed = seed,
		.masters = (unsigned)masters,
		.nodes = random_nodes(&r, seed),
		.requesters = 1 + (unsigned)kv_rng_below(&r, 6),
		.keys = 4 + (unsigned)kv_rng_below(&r, 40),
		.pool_bytes = 4 << 20,
		.size_max = 100000 + kv_rng_below(&r, 200000),
		.replicas_max = 1 + (unsigned)kv_rng_below(&r, 2),
		.chunked = kv_rng_below(&r, 2),
		.files = (unsigned)kv_rng_below(&r, 1 << 12),
	};
}

static void
work(struct cluster *cl, unsigned calls)
{
	struct kv_rng *r = cluster_rng(cl);

	while (calls-- > 0) {
		cluster_work(cl);
		cluster_run(cl, kv_rng_below(r, 3 * KV_NS_PER_MS));
	}
}

/* Nothing is broken and everything fits: what was put is found. */
static void
quiet_times(void **state)
{
	unsigned long n = from_env("SIM_SEEDS", 100), i;
	unsigned long first = from_env("SIM_FIRST", 1);
	uint64_t hits = 0, puts = 0;

	(void)state;
	for (i = first; i < first + n; i++) {
		struct cluster_opts o = random_opts(i, 1 + i % 3);
		struct cluster *cl;

		o.keys = 1 + o.keys % 8; /* they all fit into any one pool */
		cl = cluster_new(&o);
		cluster_settle(cl);
		work(cl, 150);
		cluster_drain(cl);
		cluster_check_agreement(cl);
		hits += cluster_hits(cl);
		puts += cluster_puts(cl);
		cluster_free(cl);
	}
	assert_true(hits > n * 10);
	assert_true(puts > n);
}

/* Faults while calls are under way, then repair, then agreement. */
static void
hard_times(void **state)
{
	unsigned long n = from_env("SIM_SEEDS", 120), i, j;
	unsigned long first = from_env("SIM_FIRST", 1);
	uint64_t hits = 0;

	(void)state;
	for (i = first; i < first + n; i++) {
		struct cluster_opts o = random_opts(i, 1 + i % 3);
		struct cluster *cl = cluster_new(&o);

		cluster_settle(cl);
		for (j = 0; j < 12; j++) {
			work(cl, 25);
			cluster_fault(cl);
			cluster_run(cl, kv_rng_below(cluster_rng(cl),
						     2 * KV_NS_PER_S));
		}
		cluster_drain(cl);
		cluster_settle(cl);
		cluster_check_agreement(cl);
		hits += cluster_hits(cl);
		cluster_free(cl);
	}
	assert_true(hits > n);
}

/* Of several masters one fails, or some requesters cannot reach a node, again
 * and again: nobody else notices. */
static void
one_at_a_time(void **state)
{
	unsigned long n = from_env("SIM_SEEDS", 120), i, j;
	unsigned long first = from_env("SIM_FIRST", 1);
	uint64_t hits = 0;

	(void)state;
	for (i = first; i < first + n; i++) {
		struct cluster_opts o = random_opts(i, 2 + i % 2);
		struct cluster *cl;

		o.keys = 1 + o.keys % 8;
		cl = cluster_new(&o);
		cluster_settle(cl);
		for (j = 0; j < 4; j++) {
			work(cl, 5);
			cluster_afflict(cl);
			work(cl, 25);
			cluster_run(cl, kv_rng_below(cluster_rng(cl),
						     12 * KV_NS_PER_S));
			work(cl, 10);
			cluster_recover(cl);
		}
		cluster_check_agreement(cl);
		hits += cluster_hits(cl);
		cluster_free(cl);
	}
	assert_true(hits > n * 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quiet_times),
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(hard_times),
	};

	if (getenv("SIM_TEST"))
		cmocka_set_test_filter(getenv("SIM_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

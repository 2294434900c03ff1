/*
 * Whole clusters whose processes have rails, from seeds. SIM_SEEDS=N says how
 * many (20), SIM_FIRST=S where to begin (1), SIM_TEST=NAME in which test.
 */
#include <stdlib.h>

#include "clustercore.h"
#include "simrails.h"
#include "test.h"

static unsigned long
from_env(const char *name, unsigned long preset)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : preset;
}

static void
work(struct cluster *c, unsigned calls)
{
	struct kv_rng *r = cluster_rng(c);

	while (calls-- > 0) {
		cluster_work(c);
		cluster_run(c, kv_rng_below(r, 3 * KV_NS_PER_MS));
	}
}

static struct cluster *
random_cluster(uint64_t seed, bool fits, struct simrails **sr)
{
	struct kv_rng r;
	struct simrails_opts ro = { .seed = seed };
	struct cluster_opts o;

	kv_rng_seed(&r, seed);
	ro.rails = 1 + (unsigned)kv_rng_below(&r, 3);
	ro.gbps = 1 + (double)kv_rng_below(&r, 100);
	*sr = simrails_new(&ro);
	o = (struct cluster_opts){
		.seed = seed,
		.masters = 1 + (unsigned)seed % 3,
		.nodes = 1 + (unsigned)kv_rng_below(&r, 4),
		.requesters = 1 + (unsigned)kv_rng_below(&r, 6),
		.keys = 4 + (unsigned)kv_rng_below(&r, 20),
		.pool_bytes = 8 << 20,
		.size_max = 100000 + kv_rng_below(&r, 900000),
		.replicas_max = 1 + (unsigned)kv_rng_below(&r, 2),
		.chunked = kv_rng_below(&r, 2),
		.files = (unsigned)kv_rng_below(&r, 1 << 4),
		.rdma = simrails_rdma(*sr),
	};
	if (fits) /* all into any one pool */
		o.keys = 1 + o.keys % 6;
	return cluster_new(&o);
}

/* A port: what its device tells, or how fast it is. */
static void
port_fault(struct kv_rng *r, struct hca_port *port)
{
	if (kv_rng_below(r, 2))
		hca_port_up(port, kv_rng_below(r, 2));
	else /* down to a hundredth of 10 Gbit/s */
		hca_rate(port, 0.0125 * (double)(1 + kv_rng_below(r, 100)));
}

/* A host has one device at least: the last one is no rail's loss, but all of
 * it. */
static void
device_fault(struct simrails *sr, const char *host, unsigned rail)
{
	if (rail > 0)
		simrails_remove(sr, host, rail);
}

/* Something befalls a rail; to be mended by rails_mend(), but for a device that
 * was removed. */
static void
rail_fault(struct cluster *c, struct simrails *sr)
{
	struct kv_rng *r = cluster_rng(c);
	const unsigned n = simrails_rails(sr);
	const char *host = c->nodes[kv_rng_below(r, c->o.nodes)].host;
	unsigned rail = (unsigned)kv_rng_below(r, n);
	struct hca_port *port = simrails_port(sr, host, rail);
	struct hca_fault f = {
		.status = simrails_statuses[kv_rng_below(r, SIMRAILS_STATUSES)],
		.nth = 1 + (unsigned)kv_rng_below(r, 5),
	};

	switch (kv_rng_below(r, 7)) {
	case 0:
		simrails_cut(sr, host, rail, true);
		break;
	case 1:
		simrails_cut(sr, host, rail, false);
		break;
	case 2:
		hca_loss(port, NULL, kv_rng_below(r, 2) ? 0.05 : 0);
		break;
	case 3:
	case 4:
		port_fault(r, port);
		break;
	case 5:
		device_fault(sr, host, rail);
		break;
	default:
		hca_fail_wr(port, &f);
	}
}

static void
rails_mend(struct simrails *sr)
{
	unsigned i;

	for (i = 0; i < simrails_rails(sr); i++)
		simrails_mend(sr, i);
}

/* Nothing is broken but rails: nobody notices but by the clock. */
static void
rails_fail_and_nobody_notices(void **state)
{
	unsigned long n = from_env("SIM_SEEDS", 20), i, j;
	unsigned long first = from_env("SIM_FIRST", 1);
	uint64_t bytes = 0;

	(void)state;
	for (i = first; i < first + n; i++) {
		struct simrails *sr;
		struct cluster *c = random_cluster(i, true, &sr);

		cluster_settle(c);
		c->patience_ns = 3 * KV_NS_PER_S;
		for (j = 0; j < 6; j++) {
			work(c, 20);
			rail_fault(c, sr);
			work(c, 10);
			cluster_run(c, kv_rng_below(cluster_rng(c),
						    2 * KV_NS_PER_S));
		}
		cluster_drain(c);
		rails_mend(sr);
		cluster_check_agreement(c);
		bytes += cluster_rdma_bytes(c);
		cluster_free(c);
		simrails_free(sr);
	}
	assert_true(bytes > n << 20);
}

/* All that can befall a cluster, and its rails. */
static void
hard_times_with_rails(void **state)
{
	unsigned long n = from_env("SIM_SEEDS", 20), i, j;
	unsigned long first = from_env("SIM_FIRST", 1);
	uint64_t hits = 0;

	(void)state;
	for (i = first; i < first + n; i++) {
		struct simrails *sr;
		struct cluster *c = random_cluster(i, false, &sr);

		cluster_settle(c);
		for (j = 0; j < 12; j++) {
			work(c, 25);
			cluster_fault(c);
			rail_fault(c, sr);
			cluster_run(c, kv_rng_below(cluster_rng(c),
						    2 * KV_NS_PER_S));
		}
		cluster_drain(c);
		rails_mend(sr);
		cluster_settle(c);
		cluster_check_agreement(c);
		hits += cluster_hits(c);
		cluster_free(c);
		simrails_free(sr);
	}
	assert_true(hits > n);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rails_fail_and_nobody_notices),
		cmocka_unit_test(hard_times_with_rails),
	};

	if (getenv("SIM_TEST"))
		cmocka_set_test_filter(getenv("SIM_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * What was put is found: puts with short deadlines, repeated under the same key
 * by one process or another of a host, while rails lose packets, ways are cut
 * or slow, and connections are lost; then, with no way cut, the put that
 * succeeds, and gets by others. No process dies and nothing is evicted. From
 * seeds: SIM_SEEDS=N says how many (40), SIM_FIRST=S where to begin (1).
 */
#include <stdlib.h>
#include <string.h>

#include "railcall.h"
#include "test.h"

enum {
	ROUNDS = 12,
	TRIES = 60,
	VALUE_BYTES_MAX = 400000,
};

static struct kv_rng rng;
static uint64_t seed;

static unsigned long
from_env(const char *name, unsigned long preset)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : preset;
}

static void
begin(unsigned nodes)
{
	const struct simrails_opts ro = { .seed = seed, .rails = 2 };
	struct cluster_opts o = {
		.seed = seed,
		.masters = 1,
		.nodes = nodes,
		.requesters = 2 * nodes + 1,
		.keys = 1,
		.pool_bytes = 16 << 20,
		.size_max = 100,
		.replicas_max = 1,
	};

	rails = simrails_new(&ro);
	o.rdma = simrails_rdma(rails);
	cl = cluster_new(&o);
	/* Until then the master believes in no miss. */
	cluster_run(cl, 15 * KV_NS_PER_S);
	for (unsigned i = 0; i < o.requesters; i++) /* as they open */
		kv_chan_refresh(cl->requesters[i].ch, NULL, NULL);
	cluster_run(cl, KV_NS_PER_S);
}

/* One of a node, or of the requester that has none. */
static const char *
host(uint64_t i)
{
	return i < cl->o.nodes ? cl->nodes[i].host : "h-req";
}

static const char *
host_any(void)
{
	return host(kv_rng_below(&rng, cl->o.nodes + 1));
}

static void
lose(double chance)
{
	for (unsigned i = 0; i < cl->o.nodes; i++)
		for (unsigned j = 0; j < 2; j++)
			hca_loss(simrails_port(rails, host(i), j), NULL,
				 chance);
}

static void
fault(void)
{
	const char *a = host_any(), *b = host_any();

	switch (kv_rng_below(&rng, 7)) {
	case 0:
		simnet_cut(cl->net, a, b);
		break;
	case 1:
		simnet_cut(cl->net, a, b);
		simnet_cut(cl->net, b, a);
		break;
	case 2:
		simnet_delay(cl->net, a, b,
			     kv_rng_below(&rng, 300 * KV_NS_PER_MS));
		break;
	case 3:
		simnet_reset(cl->net, a, b);
		break;
	case 4:
		simnet_reset(cl->net, a, "m0");
		break;
	case 5:
		railcall_cut((unsigned)kv_rng_below(&rng, 2), 1, true);
		break;
	default:
		lose(0.02 * (double)kv_rng_below(&rng, 4));
	}
}

/* All but what rails lose. */
static void
mend(void)
{
	for (unsigned i = 0; i <= cl->o.nodes; i++) {
		for (unsigned j = 0; j <= cl->o.nodes; j++) {
			simnet_heal(cl->net, host(i), host(j));
			simnet_delay(cl->net, host(i), host(j), 0);
		}
	}
	railcall_cut(0, 2, false);
}

static struct sim_requester *
anybody(void)
{
	return &cl->requesters[kv_rng_below(&rng, cl->o.requesters)];
}

static int
put(const char *name, size_t size, uint64_t ns)
{
	static const char *const nodes[] = { "n0", "n1", "n2", NULL };
	struct railcall c;

	far = anybody();
	railcall_new(&c, size, kv_rng_below(&rng, 2));
	railcall_put(&c, name, ns);
	c.put.prefer = nodes[kv_rng_below(&rng, 4)];
	railcall_wait(&c);
	railcall_free(&c);
	return c.pitem.status;
}

/* Who has met a node that did not answer may pass it over for 1.5 s. */
static void
get(const char *name, size_t size)
{
	struct railcall c;
	bool may_miss;

	far = anybody();
	may_miss = kv_hub_has_sick(&far->hub);
	railcall_new(&c, size, kv_rng_below(&rng, 2));
	railcall_get(&c, name, 10 * KV_NS_PER_S);
	railcall_wait(&c);
	if (c.gitem.status == 0) {
		assert_int_equal(c.gitem.len, size);
		railcall_check(&c, name, 0, size);
	} else if (!may_miss) {
		print_error("seed %llu, at %.6f s: requester %u, %s: %s\n",
			    (unsigned long long)seed,
			    (double)cl->clock.ns / 1e9, far->i, name,
			    kv_status_text(c.gitem.status));
		fail_msg("what was put is lost");
	}
	railcall_free(&c);
}

/* Some attempts that need not succeed. */
static void
try(const char *name, size_t size)
{
	unsigned n = (unsigned)kv_rng_below(&rng, 6);

	while (n-- > 0) {
		fault();
		put(name, size, KV_NS_PER_MS * (5 + kv_rng_below(&rng, 2000)));
	}
}

static void
round_run(unsigned i)
{
	size_t size = 1 + kv_rng_below(&rng, VALUE_BYTES_MAX);
	unsigned n = 0;
	char name[16];
	int rc;

	snprintf(name, sizeof(name), "k%u", i);
	try(name, size);
	mend();
	cluster_run(cl, kv_rng_below(&rng, 300 * KV_NS_PER_MS));
	do {
		rc = put(name, size, 5 * KV_NS_PER_S);
		assert_in_range(++n, 1, TRIES);
	} while (rc != 0 && rc != -KV_EEXISTS);
	for (n = 0; n < 3; n++)
		get(name, size);
	lose(0);
	cluster_run(cl, kv_rng_below(&rng, 10 * KV_NS_PER_S));
}

static void
what_was_put_is_found(void **state)
{
	unsigned long n = from_env("SIM_SEEDS", 40);

	(void)state;
	for (seed = from_env("SIM_FIRST", 1); n-- > 0; seed++) {
		kv_rng_seed(&rng, seed);
		begin(1 + (unsigned)kv_rng_below(&rng, 3));
		for (unsigned i = 0; i < ROUNDS; i++)
			round_run(i);
		railcall_end();
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "store/place.h"

#include <string.h>

#include "base/limits.h"
#include "base/num.h"
#include "base/rng.h"
#include "test.h"

enum {
	MANY = 12,
	SIZE = 100,
	OLD = KV_PLACE_RAMP_MS,
};

enum {
	USABLE = 1,
	LOCAL = 2,
	PREFERRED = 4
};

struct spec {
	char host; /* 0: not known */
	unsigned flags;
	uint64_t free_bytes;
	uint64_t victim_age_ms;
};

struct expect {
	const char *what;
	struct spec nodes[6];
	unsigned replicas;
	const char *order; /* node numbers; a ! behind one: no_evict */
};

static const struct expect table[] = {
	{ "no nodes", { { 0 } }, 1, "" },
	{ "no usable ones", { { 'a', 0, 500, 0 } }, 1, "" },
	{ "the only one, full", { { 'a', USABLE, 0, 5 } }, 1, "0" },
	{ "just enough room is room",
	  { { 'a', USABLE, SIZE - 1, 9 }, { 'b', USABLE, SIZE, 0 } },
	  1,
	  "10" },
	{ "local before freer ones",
	  { { 'a', USABLE, 900, 0 }, { 'b', USABLE | LOCAL, 100, 0 } },
	  1,
	  "1!0" },
	{ "local without room after others, by its victim",
	  { { 'a', USABLE, 10, 8 },
	    { 'b', USABLE | LOCAL, 99, 7 },
	    { 'c', USABLE, 900, 0 },
	    { 'd', USABLE, 0, 6 } },
	  1,
	  "2013" },
	{ "preferred before local, and rather than evict, on",
	  { { 'a', USABLE | LOCAL, 900, 0 },
	    { 'b', USABLE | PREFERRED, 0, 0 },
	    { 'c', USABLE, 900, 0 } },
	  1,
	  "1!0!2" },
	{ "preferred, when nobody has room",
	  { { 'a', USABLE | LOCAL, 0, 5 }, { 'b', USABLE | PREFERRED, 0, 0 } },
	  1,
	  "10" },
	{ "of several preferred the first with room",
	  { { 'a', USABLE | PREFERRED, 0, 9 },
	    { 'b', USABLE, 900, 0 },
	    { 'c', USABLE | PREFERRED, 500, 0 },
	    { 'd', USABLE | PREFERRED, 900, 0 } },
	  1,
	  "2!3!0!1" },
	{ "preferred but unusable",
	  { { 'a', PREFERRED, 900, 0 }, { 'b', USABLE, 900, 0 } },
	  1,
	  "1" },
	{ "oldest victim, local on a tie",
	  { { 'a', USABLE, 0, 5 },
	    { 'b', USABLE, 0, 7 },
	    { 'c', USABLE | LOCAL, 0, 7 },
	    { 'd', USABLE, 0, 6 } },
	  1,
	  "2130" },
	{ "local on a tie, wherever it stands",
	  { { 'a', USABLE | LOCAL, 0, 7 }, { 'b', USABLE, 0, 7 } },
	  1,
	  "01" },
	{ "a replica on another host, though that is full",
	  { { 'a', USABLE | LOCAL, 900, 0 },
	    { 'a', USABLE, 900, 0 },
	    { 'b', USABLE, 0, 0 } },
	  2,
	  "0!2!1" },
	{ "one replica: hosts do not matter",
	  { { 'a', USABLE | LOCAL, 900, 0 },
	    { 'a', USABLE, 900, 0 },
	    { 'b', USABLE, 0, 0 } },
	  1,
	  "0!12" },
	{ "replicas on one host, when there is but one",
	  { { 'a', USABLE | LOCAL, 900, 0 }, { 'a', USABLE, 900, 0 } },
	  2,
	  "0!1" },
	{ "unknown hosts are different ones",
	  { { 0, USABLE | LOCAL, 900, 0 },
	    { 0, USABLE, 900, 0 },
	    { 'a', USABLE, 0, 9 } },
	  2,
	  "0!12" },
};

static unsigned
fill(const struct spec *s, struct kv_place_node *nodes)
{
	unsigned n = 0;

	for (; n < 6 && (s[n].host || s[n].flags); n++) {
		memset(&nodes[n], 0, sizeof(nodes[n]));
		nodes[n].host.b[3] = (uint8_t)s[n].host;
		nodes[n].usable = s[n].flags & USABLE;
		nodes[n].local = s[n].flags & LOCAL;
		nodes[n].preferred = s[n].flags & PREFERRED;
		nodes[n].free_bytes = s[n].free_bytes;
		nodes[n].victim_age_ms = s[n].victim_age_ms;
		nodes[n].seen_ms = OLD;
	}
	return n;
}

static void
test_table(void **state)
{
	struct kv_place_node nodes[6];
	struct kv_place_pick out[6];
	struct kv_rng rng;
	unsigned i, k, n, turn;
	char got[16], *at;

	(void)state;
	kv_rng_seed(&rng, 1);
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (turn = 0; turn < 50; turn++) {
			struct kv_place p = {
				.nodes = nodes,
				.n = fill(table[i].nodes, nodes),
				.replicas = table[i].replicas,
				.size = SIZE,
			};

			n = kv_place_choose(&p, &rng, out, 6);
			for (k = 0, at = got; k < n; k++) {
				*at++ = (char)('0' + out[k].node);
				if (out[k].no_evict)
					*at++ = '!';
			}
			*at = '\0';
			if (strcmp(got, table[i].order) != 0)
				print_error("%s\n", table[i].what);
			assert_string_equal(got, table[i].order);
		}
}

static void
nodes_init(struct kv_place_node *nodes, unsigned n, uint64_t free_bytes)
{
	unsigned i;

	memset(nodes, 0, n * sizeof(*nodes));
	for (i = 0; i < n; i++) {
		nodes[i].host.b[0] = (uint8_t)(1 + i / 2);
		nodes[i].free_bytes = free_bytes;
		nodes[i].seen_ms = OLD;
		nodes[i].usable = true;
	}
}

/* Without a local node and with equal ones, all fill alike. */
static void
test_fair(void **state)
{
	struct kv_place_node nodes[MANY];
	struct kv_place p = { .nodes = nodes, .n = MANY, .size = SIZE };
	uint64_t lo = UINT64_MAX, hi = 0;
	struct kv_place_pick out;
	struct kv_rng rng;
	unsigned i;

	(void)state;
	kv_rng_seed(&rng, 2);
	nodes_init(nodes, MANY, 100000 * SIZE);
	for (i = 0; i < 50000 * MANY; i++) {
		assert_int_equal(kv_place_choose(&p, &rng, &out, 1), 1);
		assert_false(out.no_evict);
		nodes[out.node].free_bytes -= SIZE;
	}
	for (i = 0; i < MANY; i++) {
		lo = kv_min_u64(lo, nodes[i].free_bytes);
		hi = kv_max_u64(hi, nodes[i].free_bytes);
	}
	/* Two choices keep them within a handful of objects, not a random
	 * walk's hundreds. */
	assert_in_range(hi - lo, 0, 20 * SIZE);
}

/* Different sizes: the free bytes become equal, and then stay so. */
static void
test_bigger_ones_take_more(void **state)
{
	struct kv_place_node nodes[MANY];
	struct kv_place p = { .nodes = nodes, .n = MANY, .size = SIZE };
	struct kv_place_pick out;
	struct kv_rng rng;
	unsigned i, taken[MANY] = { 0 };

	(void)state;
	kv_rng_seed(&rng, 3);
	nodes_init(nodes, MANY, 10000 * SIZE);
	nodes[0].free_bytes *= 2;
	for (i = 0; i < 30000; i++) {
		kv_place_choose(&p, &rng, &out, 1);
		nodes[out.node].free_bytes -= SIZE;
		taken[out.node]++;
	}
	/* It is one of the two choices in 2 of MANY draws, and then wins. */
	assert_in_range(taken[0], 30000 * 2 / MANY - 300,
			30000 * 2 / MANY + 300);
}

static unsigned
share_of_new(struct kv_rng *rng, uint32_t seen_ms)
{
	struct kv_place_node nodes[MANY];
	struct kv_place p = { .nodes = nodes, .n = MANY, .size = SIZE };
	struct kv_place_pick out;
	unsigned i, taken = 0;

	nodes_init(nodes, MANY, 1000 * SIZE);
	nodes[4].free_bytes = 2000 * SIZE;
	nodes[4].seen_ms = seen_ms;
	for (i = 0; i < 12000; i++) {
		kv_place_choose(&p, rng, &out, 1);
		taken += out.node == 4;
	}
	return taken;
}

static void
test_new_node_ramps_up(void **state)
{
	struct kv_rng rng;

	(void)state;
	kv_rng_seed(&rng, 4);
	assert_int_equal(share_of_new(&rng, 0), 0);
	assert_in_range(share_of_new(&rng, OLD / 4), 350, 650);
	assert_in_range(share_of_new(&rng, OLD / 2), 850, 1150);
	assert_in_range(share_of_new(&rng, OLD), 1700, 2300);
	assert_in_range(share_of_new(&rng, UINT32_MAX), 1700, 2300);
}

/* Whatever the nodes are: different usable ones, all of them if there is
 * space for so many; replicas apart as far as hosts go; and the last one may
 * always evict. */
static void
test_any_nodes(void **state)
{
	struct kv_place_node nodes[MANY];
	struct kv_place_pick out[MANY + 1], again[MANY + 1];
	struct kv_place p = { .nodes = nodes, .size = SIZE };
	unsigned turn, i, n, usable, max, seen, hosts, used;
	struct kv_rng rng, copy;

	(void)state;
	kv_rng_seed(&rng, 5);
	for (turn = 0; turn < 20000; turn++) {
		p.n = (unsigned)kv_rng_below(&rng, MANY + 1);
		p.replicas = 1 + (unsigned)kv_rng_below(&rng, 4);
		max = (unsigned)kv_rng_below(&rng, MANY + 2);
		nodes_init(nodes, p.n, 0);
		for (i = usable = hosts = 0; i < p.n; i++) {
			nodes[i].usable = kv_rng_below(&rng, 4);
			nodes[i].local = !kv_rng_below(&rng, 8);
			nodes[i].preferred = !kv_rng_below(&rng, 8);
			nodes[i].free_bytes = kv_rng_below(&rng, 4) * 60;
			usable += nodes[i].usable;
			if (nodes[i].usable)
				hosts |= 1u << nodes[i].host.b[0];
		}
		hosts = (unsigned)__builtin_popcount(hosts);
		copy = rng;
		n = kv_place_choose(&p, &rng, out, max);
		assert_int_equal(n, kv_min_u64(max, usable));
		for (i = seen = used = 0; i < n; i++) {
			assert_true(nodes[out[i].node].usable);
			assert_false(seen & 1u << out[i].node);
			seen |= 1u << out[i].node;
			if (i < p.replicas)
				used |= 1u << nodes[out[i].node].host.b[0];
		}
		if (n)
			assert_false(out[n - 1].no_evict);
		assert_int_equal(__builtin_popcount(used),
				 kv_min_u64(kv_min_u64(n, p.replicas), hosts));
		assert_int_equal(kv_place_choose(&p, &copy, again, max), n);
		for (i = 0; i < n; i++)
			assert_int_equal(again[i].node, out[i].node);
	}
}

static void
test_many_nodes(void **state)
{
	static struct kv_place_node nodes[KV_NODES_MAX];
	struct kv_place p = { .nodes = nodes, .n = KV_NODES_MAX, .size = SIZE };
	struct kv_place_pick out[3];
	struct kv_rng rng;

	(void)state;
	kv_rng_seed(&rng, 6);
	nodes_init(nodes, KV_NODES_MAX, 0);
	nodes[KV_NODES_MAX - 1].free_bytes = UINT64_MAX;
	nodes[7].victim_age_ms = 1;
	assert_int_equal(kv_place_choose(&p, &rng, out, 3), 3);
	assert_int_equal(out[0].node, KV_NODES_MAX - 1);
	assert_int_equal(out[1].node, 7);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_fair),
		cmocka_unit_test(test_bigger_ones_take_more),
		cmocka_unit_test(test_new_node_ramps_up),
		cmocka_unit_test(test_any_nodes),
		cmocka_unit_test(test_many_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

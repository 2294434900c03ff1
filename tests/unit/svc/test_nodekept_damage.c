/* A node whose pool outlives it: damaged values are not read. */

#include "base/clock.h"
#include "base/status.h"
#include "event/loop.h"
#include "wire/msg.h"

#include "noderig.h"
#include "test.h"

static uint64_t
stat(const char *name)
{
	return simnode_stat(&sim, name);
}

static int
get(struct simreq *r, const char *key, struct simgot *g)
{
	return simreq_get_one(r, key,
			      &(struct simget_opts){ .inline_max = 200 }, g);
}

/* The bytes of the first object's first extent, or of the pool. */
static uint8_t *
bytes_of(const struct simgot *g)
{
	return sim.pool + g->ext_off;
}

/* Three values, the second one damaged while no node ran. */
static void
damage_one(void)
{
	struct simreq r;
	struct simgot g;

	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "a", blob, 100000), KV_OK);
	assert_int_equal(simreq_put_one(&r, "b", blob, 100000), KV_OK);
	assert_int_equal(simreq_put_one(&r, "c", blob, 100000), KV_OK);
	assert_int_equal(get(&r, "b", &g), KV_OK);
	simreq_close(&r);
	simnode_crash(&sim);
	sim.file.attached = 0;
	bytes_of(&g)[99999] ^= 1;
	simnode_restart(&sim);
	assert_int_equal(stat("adopted"), 3);
	assert_int_equal(stat("unchecked_keys"), 3);
}

/* Leaves the checks to who reads first. */
static void
no_thread(void)
{
	struct kv_ledger_taken t;

	while (kv_ledger_take(sim.file.ledger, false, &t))
		;
}

static void
a_damaged_value_is_found_and_withdrawn(void **state)
{
	(void)state;
	damage_one();
	assert_int_equal(kv_node_ready(sim.node, 0, SIMNODE_POOL), 0);
	simnode_run(&sim, 1200);
	assert_int_equal(stat("unchecked_keys"), 0);
	assert_int_equal(stat("adopted_bad"), 1);
	assert_int_equal(stat("keys"), 2);
	assert_true(simnode_master_has(&sim, 0, "a"));
	assert_false(simnode_master_has(&sim, 0, "b"));
	assert_int_equal(stat("free_bytes"), SIMNODE_POOL - 2 * 100096);
}

static void
nothing_unchecked_is_read(void **state)
{
	const char *const keys[] = { "a", "none", "b", "c" };
	struct simgot g;
	struct simreq r;
	uint64_t id;

	(void)state;
	damage_one();
	no_thread();
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(stat("unchecked_keys"), 3);
	assert_int_equal(get(&r, "a", &g), KV_OK);
	assert_int_equal(stat("unchecked_keys"), 2);
	id = simreq_get(&r, keys, 4, &(struct simget_opts){ 0 });
	simnode_run(&sim, 5);
	assert_true(simreq_got(&r, id, 0, &g));
	assert_int_equal(g.status, KV_OK);
	assert_true(simreq_got(&r, id, 1, &g));
	assert_int_equal(g.status, KV_EMISS);
	assert_true(simreq_got(&r, id, 2, &g));
	assert_int_equal(g.status, KV_EMISS);
	assert_true(simreq_got(&r, id, 3, &g));
	assert_int_equal(g.status, KV_OK);
	assert_memory_equal(bytes_of(&g), blob, 100000);
	assert_int_equal(stat("unchecked_keys"), 0);
	assert_int_equal(stat("adopted_bad"), 1);
	/* The checks' own pins are gone. */
	assert_int_equal(stat("pinned_bytes"), 2 * 100096);
	simreq_close(&r);
}

static void
nor_over_the_network(void **state)
{
	struct wireframe *f;
	struct simreq r;

	(void)state;
	damage_one();
	no_thread();
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_get_one(&r, "b", NULL, NULL), KV_EMISS);
	assert_int_equal(simreq_get_one(&r, "c", NULL, NULL), KV_OK);
	simnode_run(&sim, 5);
	f = wirepeer_take(&r.data, KV_MSG_DATA);
	assert_non_null(f);
	assert_memory_equal(f->payload, blob, 100000);
	wireframe_free(f);
	simreq_close(&r);
}

static void
who_is_gone_is_not_answered(void **state)
{
	const char *const keys[] = { "a", "b", "c" };
	struct simreq r;
	unsigned turns;

	(void)state;
	for (turns = 0; turns < 8; turns++) {
		if (turns) {
			simnode_crash(&sim);
			simnode_restart(&sim);
		} else {
			damage_one();
		}
		no_thread();
		simreq_open_unix(&r, &sim, 0);
		simreq_get(&r, keys, 3, NULL);
		for (unsigned i = 0; i < turns * 10; i++)
			kv_loop_turn(sim.loop, 0);
		wirepeer_close(&r.control);
		simnode_run(&sim, 5);
		simreq_close(&r);
		kv_node_process_exit(sim.node, r.pid);
		simnode_run(&sim, 5);
		assert_int_equal(stat("pinned_bytes"), 0);
	}
}

static void
a_sum_that_is_asked_for_checks_as_well(void **state)
{
	struct kv_query q = { .flags = KV_QUERY_SUM, .key_len = kv_le16(1) };
	struct wireframe *f;
	struct simreq r;

	(void)state;
	damage_one();
	no_thread();
	simreq_open_unix(&r, &sim, 0);
	wirepeer_send(&r.control, KV_MSG_QUERY, 50, &q, "b", 1);
	simnode_run(&sim, 5);
	f = wirepeer_take(&r.control, KV_MSG_QUERY_R);
	assert_non_null(f);
	assert_int_equal(
		kv_get32(((struct kv_query_r *)(void *)f->body)->count), 0);
	wireframe_free(f);
	wirepeer_send(&r.control, KV_MSG_QUERY, 51, &q, "a", 1);
	simnode_run(&sim, 5);
	f = wirepeer_take(&r.control, KV_MSG_QUERY_R);
	assert_non_null(f);
	assert_int_equal(
		kv_get32(((struct kv_query_r *)(void *)f->body)->count), 1);
	wireframe_free(f);
	assert_int_equal(stat("adopted_bad"), 1);
	assert_int_equal(stat("unchecked_keys"), 1);
	simreq_close(&r);
}

int
main(void)
{
#define TEST(fn, setup) \
	cmocka_unit_test_setup_teardown(fn, setup, noderig_close)
	const struct CMUnitTest tests[] = {
		TEST(a_damaged_value_is_found_and_withdrawn, noderig_kept_one),
		TEST(nothing_unchecked_is_read, noderig_kept_alone),
		TEST(nor_over_the_network, noderig_kept_alone),
		TEST(who_is_gone_is_not_answered, noderig_kept_alone),
		TEST(a_sum_that_is_asked_for_checks_as_well,
		     noderig_kept_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

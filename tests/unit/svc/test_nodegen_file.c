/* What was removed as a whole stays removed at a node that is back with its
 * pool file: keys are withheld until it was told what it missed. */

#include "base/status.h"
#include "wire/msg.h"

#include "nodereq.h"
#include "test.h"

static void
restart(void)
{
	simreq_close(&req);
	noderig_crash(false);
	simreq_open_unix(&req, &sim, 0);
}

static void
withheld_until_it_was_told(void **state)
{
	struct kv_remove m = { .op = KV_REMOVE_KEYS,
			       .flags = KV_REMOVE_MISSED,
			       .count = kv_le32(1) };

	(void)state;
	nodereq_put("a");
	nodereq_put("b");
	simnode_run(&sim, 20);
	sim.masters[0].missed = 1;
	restart();
	assert_int_equal(simnode_stat(&sim, "adopted"), 2);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	simnode_run(&sim, 3000);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	assert_int_equal(nodereq_get("b"), KV_EMISS);
	assert_int_equal(sim.masters[0].n_held, 0);
	/* What is put meanwhile counts, in place of what is withheld. */
	assert_int_equal(simreq_put_inline(&req, "new", "x"), KV_OK);
	assert_int_equal(nodereq_get("new"), KV_OK);
	wirepeer_send(&sim.masters[0].peer, KV_MSG_REMOVE, 9, &m, "\1\0a", 3);
	simnode_run(&sim, 20);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	assert_int_equal(nodereq_get("b"), KV_OK);
	assert_true(simnode_master_has(&sim, 0, "b"));
	assert_false(simnode_master_has(&sim, 0, "a"));
}

static void
put_again_while_withheld(void **state)
{
	(void)state;
	nodereq_put("a");
	simnode_run(&sim, 20);
	sim.masters[0].missed = 1;
	restart();
	assert_int_equal(simreq_put_inline(&req, "a", "xyz"), KV_OK);
	simnode_run(&sim, 20);
	assert_int_equal(simnode_stat(&sim, "keys"), 1);
	assert_int_equal(nodereq_get("a"), KV_OK);
}

/* What is put before a master said what was removed is not of that time. */
static void
puts_wait_for_a_master(void **state)
{
	const struct simput items[] = { { "a", 3, "xyz" },
					{ "filled", 1000, NULL } };
	const struct simput_opts opts = { .budget_ms = 5000 };
	struct simmaster *m = &sim.masters[0];
	struct simgrant g;
	uint64_t id, late;

	(void)state;
	nodereq_put("a");
	nodereq_put("old");
	simnode_run(&sim, 20);
	simnode_master_down(&sim, 0);
	restart();
	id = simreq_put(&req, items, 2, &opts);
	late = simreq_put(&req, items, 1,
			  &(struct simput_opts){ .budget_ms = 100 });
	simnode_run(&sim, 200);
	assert_int_equal(simreq_put_status(&req, late, 0), KV_ETIMEOUT);
	assert_false(simreq_grant(&req, id, 1, &g));
	m->news_len = nodereq_ent(m->news, "default", 5, 5);
	m->n_news = 1;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 1500);
	assert_true(simreq_grant(&req, id, 1, &g));
	simreq_filled(&req, id, g.grant, false);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&req, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&req, id, 1), KV_OK);
	assert_int_equal(nodereq_get("old"), KV_EMISS);
	assert_int_equal(nodereq_get("a"), KV_OK);
	assert_true(simnode_master_has(&sim, 0, "a"));
	assert_true(simnode_master_has(&sim, 0, "filled"));
}

/* The node is empty for a removal, then hears that its generation holds: what
 * was put between is of that one, and is adopted; what was there before is not,
 * also if the node is killed before it hears that. */
static void
what_is_put_while_all_is_removed_stays(void **state)
{
	struct kv_remove m = { .op = KV_REMOVE_ALL,
			       .flags = KV_REMOVE_FORCE,
			       .generation = { kv_le64(3), kv_le64(5) } };

	(void)state;
	nodereq_put("old");
	simnode_run(&sim, 20);
	wirepeer_send(&sim.masters[0].peer, KV_MSG_REMOVE, 9, &m, NULL, 0);
	simnode_run(&sim, 2);
	nodereq_put("a");
	simnode_run(&sim, 20);
	restart();
	assert_int_equal(simnode_stat(&sim, "adopted"), 1);
	simnode_run(&sim, 3000);
	assert_int_equal(nodereq_get("old"), KV_EMISS);
	assert_int_equal(nodereq_get("a"), KV_OK);
	m.generation.number = kv_le64(4);
	wirepeer_send(&sim.masters[0].peer, KV_MSG_REMOVE, 10, &m, NULL, 0);
	simnode_run(&sim, 2);
	nodereq_put("b");
	nodereq_news(0, "default", 4, 5);
	simnode_run(&sim, 20);
	assert_int_equal(nodereq_get("b"), KV_OK);
	restart();
	assert_int_equal(simnode_stat(&sim, "adopted"), 1);
	simnode_run(&sim, 3000);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	assert_int_equal(nodereq_get("b"), KV_OK);
}

/* Nothing of the pool was left; what was removed meanwhile is news here, too.
 */
static void
puts_wait_where_nothing_was_adopted(void **state)
{
	const struct simput items[] = { { "a", 3, "xyz" } };
	const struct simput_opts opts = { .budget_ms = 5000 };
	struct simmaster *m = &sim.masters[0];
	uint64_t id;

	(void)state;
	simnode_master_down(&sim, 0);
	restart();
	assert_int_equal(simnode_stat(&sim, "keys"), 0);
	id = simreq_put(&req, items, 1, &opts);
	simnode_run(&sim, 200);
	assert_int_equal(simreq_put_status(&req, id, 0), -1);
	m->news_len = nodereq_ent(m->news, "default", 5, 5);
	m->n_news = 1;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 1500);
	assert_int_equal(simreq_put_status(&req, id, 0), KV_OK);
	assert_int_equal(nodereq_get("a"), KV_OK);
	assert_true(simnode_master_has(&sim, 0, "a"));
}

static void
puts_wait_for_no_master_for_ever(void **state)
{
	const struct simput items[] = { { "a", 3, "xyz" }, { "b", 3, "xyz" } };
	const struct simput_opts opts = { .budget_ms = 5000 };
	uint64_t id;

	(void)state;
	nodereq_put("a");
	simnode_run(&sim, 20);
	simnode_master_down(&sim, 0);
	restart();
	id = simreq_put(&req, items, 2, &opts);
	simnode_run(&sim, 1500);
	assert_int_equal(simreq_put_status(&req, id, 0), -1);
	simnode_run(&sim, 1000);
	assert_int_equal(simreq_put_status(&req, id, 0), KV_EEXISTS);
	assert_int_equal(simreq_put_status(&req, id, 1), KV_OK);
}

static void
served_when_no_master_answers(void **state)
{
	(void)state;
	nodereq_put("a");
	simnode_run(&sim, 20);
	simnode_master_down(&sim, 0);
	restart();
	simnode_run(&sim, 1500);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	simnode_run(&sim, 1000);
	assert_int_equal(nodereq_get("a"), KV_OK);
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 3000);
	assert_true(simnode_master_has(&sim, 0, "a"));
}

/* A session that ends before it has told all: the wait begins anew. */
static void
served_when_the_master_goes(void **state)
{
	(void)state;
	nodereq_put("a");
	simnode_run(&sim, 20);
	sim.masters[0].missed = 1;
	restart();
	simnode_run(&sim, 3000);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	simnode_master_down(&sim, 0);
	simnode_run(&sim, 1500);
	assert_int_equal(nodereq_get("a"), KV_EMISS);
	simnode_run(&sim, 1000);
	assert_int_equal(nodereq_get("a"), KV_OK);
}

/* It says how much it missed, and never what: it is left. */
static void
a_master_that_owes(void **state)
{
	(void)state;
	sim.masters[0].missed = 1;
	restart();
	simnode_run(&sim, 1000);
	assert_int_equal(sim.masters[0].joins, 2);
	simnode_run(&sim, 33000);
	assert_int_equal(sim.masters[0].joins, 3);
}

static void
a_pool_file_knows(void **state)
{
	(void)state;
	nodereq_put("a");
	nodereq_news(0, "default", 6, 6);
	nodereq_put("b");
	simnode_run(&sim, 20);
	simnode_master_down(&sim, 0);
	restart();
	assert_int_equal(simnode_stat(&sim, "adopted"), 1);
	assert_int_equal(nodereq_number(), 6);
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 3000);
	assert_int_equal(sim.masters[0].known, 1);
	assert_int_equal(nodereq_get("b"), KV_OK);
}

#define TEST_FILE(f) \
	cmocka_unit_test_setup_teardown(f, nodereq_file, nodereq_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_FILE(withheld_until_it_was_told),
		TEST_FILE(put_again_while_withheld),
		TEST_FILE(puts_wait_for_a_master),
		TEST_FILE(what_is_put_while_all_is_removed_stays),
		TEST_FILE(puts_wait_where_nothing_was_adopted),
		TEST_FILE(puts_wait_for_no_master_for_ever),
		TEST_FILE(served_when_no_master_answers),
		TEST_FILE(served_when_the_master_goes),
		TEST_FILE(a_master_that_owes),
		TEST_FILE(a_pool_file_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

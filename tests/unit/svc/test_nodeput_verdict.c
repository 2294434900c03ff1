/* PUT at a node: what masters say of it, or do not say. */

#include "base/status.h"
#include "wire/msg.h"

#include "noderig.h"
#include "test.h"

static uint64_t
free_bytes(void)
{
	return simnode_stat(&sim, "free_bytes");
}

static void
hidden_until_the_master_has_said(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, NULL);
	simnode_run(&sim, 20);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	/* The verdict may be on its way: for a moment one had better ask
	 * again, but nobody is let in. */
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EBUSY);
	assert_int_equal(simreq_get_one(&r, "k",
					&(struct simget_opts){
						.flags = KV_GET_ZERO_COPY },
					NULL),
			 KV_EMISS);
	simnode_run(&sim, 250);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EMISS);
	simnode_master_verdict(&sim, 0, KV_VERDICT_STAYS);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_OK);
	simreq_close(&r);
}

static void
a_loser_goes_and_exists(void **state)
{
	struct simreq r;

	(void)state;
	sim.masters[0].verdict = KV_VERDICT_GOES;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "abc"), KV_EEXISTS);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EMISS);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	assert_int_equal(simnode_stat(&sim, "losers"), 1);
	simreq_close(&r);
}

static void
an_open_verdict_is_decided_later(void **state)
{
	struct simput items[] = {
		{ "a", 3, "abc" },
		{ "b", 3, "abc" },
	};
	struct simput_opts opts = { .random = 55 };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].verdict = KV_VERDICT_OPEN;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, items, 2, &opts);
	simnode_run(&sim, 50);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	/* Of another put of the key: not this one. */
	simnode_master_decide(&sim, 0, "a", 54, KV_VERDICT_GOES);
	simnode_master_decide(&sim, 0, "a", 55, KV_VERDICT_STAYS);
	simnode_master_decide(&sim, 0, "b", 55, KV_VERDICT_GOES);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_EEXISTS);
	simreq_close(&r);
}

static void
a_put_past_its_budget_may_still_be_shown(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 50, .random = 55 };
	struct simgot g;
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].verdict = KV_VERDICT_OPEN;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &opts);
	simnode_run(&sim, 60);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETIMEOUT);
	assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EBUSY);
	simnode_master_decide(&sim, 0, "k", 55, KV_VERDICT_STAYS);
	simnode_run(&sim, 5);
	assert_int_equal(
		simreq_get_one(&r, "k",
			       &(struct simget_opts){ .inline_max = 9 }, &g),
		KV_OK);
	assert_memory_equal(g.bytes, "abc", 3);
	simreq_close(&r);
}

static void
without_a_master_it_is_shown_at_once(void **state)
{
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "abc"), KV_OK);
	assert_int_equal(simnode_stat(&sim, "puts_unpublished"), 1);
	simreq_close(&r);
}

static void
a_lost_master_decides_nothing(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, NULL);
	simnode_run(&sim, 10);
	simnode_master_down(&sim, 0);
	simnode_run(&sim, 10);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simnode_stat(&sim, "puts_unpublished"), 1);
	/* It hears of it when it is back. */
	sim.masters[0].by_hand = false;
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 2000);
	assert_true(simnode_master_has(&sim, 0, "k"));
	simreq_close(&r);
}

static void
a_silent_master_is_not_waited_for(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 10000 };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	sim.masters[0].is_mute = true;
	id = simreq_put(&r, &item, 1, &opts);
	simnode_run(&sim, 650);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	simnode_run(&sim, 200);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simnode_stat(&sim, "sessions_lost"), 1);
	simreq_close(&r);
}

static void
the_word_of_one_master_against_it_is_enough(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	unsigned i;

	(void)state;
	simreq_open_tcp(&r, &sim);
	for (i = 0; i < 2; i++) {
		uint64_t id;

		sim.masters[i].verdict = KV_VERDICT_GOES;
		sim.masters[1 - i].by_hand = true;
		id = simreq_put(&r, &item, 1, NULL);
		simnode_run(&sim, 20);
		/* Nobody waits for the other one. */
		assert_int_equal(simreq_put_status(&r, id, 0), KV_EEXISTS);
		simnode_master_verdict(&sim, 1 - i, KV_VERDICT_STAYS);
		sim.masters[i].verdict = KV_VERDICT_STAYS;
		sim.masters[1 - i].by_hand = false;
		simnode_run(&sim, 5);
		assert_int_equal(simreq_get_one(&r, "k", NULL, NULL), KV_EMISS);
		assert_false(simnode_master_has(&sim, 1 - i, "k"));
	}
	simreq_close(&r);
}

static void
a_put_is_not_over_before_every_master_knows(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[1].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, NULL);
	simnode_run(&sim, 20);
	assert_true(simnode_master_has(&sim, 0, "k"));
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	simnode_master_verdict(&sim, 1, KV_VERDICT_STAYS);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	simreq_close(&r);
}

static void
a_master_that_ended_is_not_waited_for(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 10000 };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &opts);
	simnode_run(&sim, 20);
	simnode_master_down(&sim, 0);
	/* It is dialled again, and refuses: its process is gone. */
	simnode_run(&sim, 110);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simnode_stat(&sim, "puts_unpublished"), 0);
	simreq_close(&r);
}

/* It may be that only this connection broke: it still answers for this node. */
static void
a_master_that_may_live_is_waited_for(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput late = { "l", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 10000 };
	struct simreq r;
	uint64_t id, id2;

	(void)state;
	simnode_run(&sim, 300);
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &opts);
	simnet_cut(sim.sn, "n", "m0");
	simnet_cut(sim.sn, "m0", "n");
	simnet_reset(sim.sn, "n", "m0");
	simnode_run(&sim, 20);
	assert_int_equal(kv_node_sessions(sim.node), 1);
	id2 = simreq_put(&r, &late, 1, &opts);
	simnode_run(&sim, 600);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	assert_int_equal(simreq_put_status(&r, id2, 0), -1);
	simnode_run(&sim, 400);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&r, id2, 0), KV_OK);
	assert_int_equal(simnode_stat(&sim, "puts_unpublished"), 0);
	simreq_close(&r);
}

static void
one_that_is_another_process_is_not_waited_for(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 10000 };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &opts);
	simnode_master_down(&sim, 0);
	sim.masters[0].boot = 77;
	sim.masters[0].refuse = KV_EBUSY; /* it has no room for this node */
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 110);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	simreq_close(&r);
}

static void
one_that_comes_back_is_told_again(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simput_opts opts = { .budget_ms = 10000 };
	struct simreq r;
	uint64_t id;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &opts);
	simnet_reset(sim.sn, "n", "m0");
	simnode_run(&sim, 110);
	assert_int_equal(kv_node_sessions(sim.node), 2);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	sim.masters[0].by_hand = false;
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_true(simnode_master_has(&sim, 0, "k"));
	simreq_close(&r);
}

static void
a_master_that_joins_meanwhile_hears_of_it(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	simnode_master_down(&sim, 1);
	simnode_run(&sim, 10);
	sim.masters[0].by_hand = true;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1,
			&(struct simput_opts){ .budget_ms = 10000 });
	simnode_run(&sim, 10);
	simnode_master_up(&sim, 1);
	simnode_run(&sim, 1200);
	/* Master 0 was silent for too long meanwhile and is back, too. */
	sim.masters[0].by_hand = false;
	simnode_run(&sim, 2000);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_true(simnode_master_has(&sim, 1, "k"));
	assert_true(simnode_master_has(&sim, 0, "k"));
	simreq_close(&r);
}

#define WITH(start, f) cmocka_unit_test_setup_teardown(f, start, noderig_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(noderig_one, hidden_until_the_master_has_said),
		WITH(noderig_one, a_loser_goes_and_exists),
		WITH(noderig_one, an_open_verdict_is_decided_later),
		WITH(noderig_one, a_put_past_its_budget_may_still_be_shown),
		WITH(noderig_alone, without_a_master_it_is_shown_at_once),
		WITH(noderig_one, a_lost_master_decides_nothing),
		WITH(noderig_one, a_silent_master_is_not_waited_for),
		WITH(noderig_two, the_word_of_one_master_against_it_is_enough),
		WITH(noderig_two, a_put_is_not_over_before_every_master_knows),
		WITH(noderig_two, a_master_that_ended_is_not_waited_for),
		WITH(noderig_two, a_master_that_may_live_is_waited_for),
		WITH(noderig_two,
		     one_that_is_another_process_is_not_waited_for),
		WITH(noderig_two, one_that_comes_back_is_told_again),
		WITH(noderig_two, a_master_that_joins_meanwhile_hears_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

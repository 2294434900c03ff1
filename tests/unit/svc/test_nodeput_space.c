/* PUT at a node: room for values, and who holds it how long. */

#include "base/clock.h"
#include "base/status.h"
#include "wire/msg.h"

#include "noderig.h"
#include "test.h"

static int
setup_empty(void **state)
{
	(void)state;
	return noderig_open(&(struct simnode_opts){ .no_pages = true });
}

static uint64_t
free_bytes(void)
{
	return simnode_stat(&sim, "free_bytes");
}

/* As heartbeats tell it: read, or being written. */
static uint64_t
pinned_bytes(void)
{
	struct kv_heartbeat room;

	kv_node_room(sim.node, &room);
	return kv_get64(room.pinned_bytes);
}

/* ---- space ---- */

static void
old_values_leave_for_new_ones(void **state)
{
	char key[16];
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(simreq_put_one(&r, key, blob, 100 * 1024),
				 KV_OK);
	}
	assert_int_equal(simreq_get_one(&r, "k0", NULL, NULL), KV_EMISS);
	assert_int_equal(simreq_get_one(&r, "k19", NULL, NULL), KV_OK);
	assert_true(simnode_stat(&sim, "evicted_keys") >= 10);
	simnode_run(&sim, 5);
	assert_false(simnode_master_has(&sim, 0, "k0"));
	assert_true(simnode_master_has(&sim, 0, "k19"));
	assert_int_equal(sim.masters[0].n_held, simnode_stat(&sim, "keys"));
	simreq_close(&r);
}

static void
no_evict_says_that_there_is_no_room(void **state)
{
	struct simput item = { "b", SIMNODE_POOL / 2 + 1, NULL };
	struct simput_opts opts = { .flags = KV_PUT_NO_EVICT };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "a", blob, SIMNODE_POOL / 2),
			 KV_OK);
	id = simreq_put(&r, &item, 1, &opts);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ENOROOM);
	assert_int_equal(simreq_get_one(&r, "a", NULL, NULL), KV_OK);
	simreq_close(&r);
}

static void
a_pool_in_use_has_no_space(void **state)
{
	struct simput item = { "b", SIMNODE_POOL / 2 + 1, NULL };
	struct simreq r;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "a", blob, SIMNODE_POOL / 2),
			 KV_OK);
	assert_int_equal(simreq_get_one(&r, "a", NULL, &g), KV_OK);
	id = simreq_put(&r, &item, 1, NULL);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ENOSPACE);
	assert_int_equal(simnode_stat(&sim, "puts_no_space"), 1);
	simreq_release(&r, g.pin);
	assert_int_equal(simreq_put_one(&r, "b", blob, SIMNODE_POOL / 2 + 1),
			 KV_OK);
	simreq_close(&r);
}

static void
a_value_larger_than_the_pool_is_too_big(void **state)
{
	struct simput item = { "b", SIMNODE_POOL + 1, NULL };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, NULL);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETOOBIG);
	item.size = UINT64_MAX;
	id = simreq_put(&r, &item, 1, NULL);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETOOBIG);
	assert_int_equal(simreq_put_one(&r, "c", blob, SIMNODE_POOL), KV_OK);
	simreq_close(&r);
}

static void
a_hard_pinned_value_stays(void **state)
{
	struct simput item = { "p", 3, "abc" };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1,
			&(struct simput_opts){ .flags = KV_PUT_HARD_PIN });
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_one(&r, "a", blob, SIMNODE_POOL - 4096),
			 KV_OK);
	assert_int_equal(simreq_put_one(&r, "b", blob, SIMNODE_POOL - 4096),
			 KV_OK);
	assert_int_equal(simreq_get_one(&r, "a", NULL, NULL), KV_EMISS);
	assert_int_equal(simreq_get_one(&r, "p", NULL, NULL), KV_OK);
	simreq_close(&r);
}

/* ---- pages ---- */

static void
a_put_waits_for_pages(void **state)
{
	struct simput items[] = {
		{ "a", 100000, NULL },
		{ "b", 5, "small" },
		{ "c", 100000, NULL },
	};
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, items, 3, NULL);
	assert_false(simreq_grant(&r, id, 0, &g));
	/* Not enough for the first, and nobody passes it. */
	assert_int_equal(kv_node_ready(sim.node, 0, 65536), 0);
	simnode_run(&sim, 2);
	assert_false(simreq_grant(&r, id, 0, &g));
	assert_int_equal(kv_node_ready(sim.node, 65536, 65536), 0);
	simnode_run(&sim, 2);
	assert_true(simreq_grant(&r, id, 0, &g));
	assert_false(simreq_grant(&r, id, 2, &g));
	simreq_filled(&r, id, g.grant, false);
	/* Nothing is evicted for want of pages that will come. */
	assert_int_equal(simreq_get_one(&r, "a", NULL, NULL), KV_OK);
	assert_int_equal(kv_node_ready(sim.node, 131072, 131072), 0);
	simnode_run(&sim, 2);
	assert_true(simreq_grant(&r, id, 2, &g));
	simreq_filled(&r, id, g.grant, false);
	for (int i = 0; i < 3; i++)
		assert_int_equal(simreq_put_status(&r, id, i), KV_OK);
	simreq_close(&r);
}

static void
waiting_for_pages_ends_with_the_budget(void **state)
{
	struct simput items[] = {
		{ "a", 100000, NULL },
		{ "b", 5, "small" },
	};
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, items, 2, &(struct simput_opts){ .budget_ms = 50 });
	simnode_run(&sim, 60);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETIMEOUT);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_ETIMEOUT);
	assert_int_equal(kv_node_ready(sim.node, 0, SIMNODE_POOL), 0);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	simreq_close(&r);
}

static void
when_no_more_pages_come_the_rest_is_decided(void **state)
{
	struct simput items[] = {
		{ "a", 100000, NULL },
		{ "b", 60000, NULL },
	};
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(kv_node_ready(sim.node, 0, 65536), 0);
	id = simreq_put(&r, items, 2, NULL);
	assert_false(simreq_grant(&r, id, 0, &g));
	kv_node_ready_end(sim.node);
	assert_int_equal(simnode_stat(&sim, "pool_bytes"), 65536);
	assert_int_equal(simnode_stat(&sim, "missing_bytes"),
			 SIMNODE_POOL - 65536);
	simnode_run(&sim, 2);
	assert_false(simreq_grant(&r, id, 0, &g));
	assert_true(simreq_grant(&r, id, 1, &g));
	simreq_filled(&r, id, g.grant, false);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ENOSPACE);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_OK);
	/* And from then on values leave for others. */
	assert_int_equal(simreq_put_one(&r, "c", blob, 60000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "b", NULL, NULL), KV_EMISS);
	simreq_close(&r);
}

/* ---- budgets, lost connections, quarantine ---- */

static void
an_expired_grant_stays_reserved_until_filled(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, &(struct simput_opts){ .budget_ms = 50 });
	assert_true(simreq_grant(&r, id, 0, &g));
	simnode_run(&sim, 60);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETIMEOUT);
	assert_int_equal(free_bytes(), SIMNODE_POOL - 10240);
	assert_int_equal(pinned_bytes(), 10240);
	/* The key itself is free. */
	assert_int_equal(simreq_put_inline(&r, "k", "other"), KV_OK);
	simreq_filled(&r, id, g.grant, false);
	assert_int_equal(free_bytes(), SIMNODE_POOL - 256);
	assert_int_equal(pinned_bytes(), 0);
	assert_int_equal(wirepeer_count(&r.control, KV_MSG_PUT_R), 2);
	/* Said twice it changes nothing. */
	simreq_filled(&r, id, g.grant, true);
	assert_int_equal(free_bytes(), SIMNODE_POOL - 256);
	simreq_close(&r);
}

/* Whatever the requester asks for. */
static void
a_grant_ends_within_an_hour(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1,
			&(struct simput_opts){ .budget_ms = UINT32_MAX });
	assert_true(simreq_grant(&r, id, 0, &g));
	simnode_run(&sim, KV_BUDGET_MS_MAX + 10);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETIMEOUT);
	simreq_filled(&r, id, g.grant, true);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	simreq_close(&r);
}

static void
a_grant_given_up_comes_back(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	simreq_filled(&r, id, g.grant, true);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ECANCELED);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	simreq_close(&r);
}

static void
a_lost_connection_leaves_grants_to_their_process(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r, again;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	simreq_close(&r);
	simnode_run(&sim, 2000);
	assert_true(free_bytes() < SIMNODE_POOL);
	assert_int_equal(simnode_stat(&sim, "grants"), 1);
	simreq_open_unix(&again, &sim, 0);
	simreq_filled(&again, id, g.grant, true); /* not its own */
	assert_true(free_bytes() < SIMNODE_POOL);
	simreq_close(&again);
	kv_node_process_exit(sim.node, again.pid);
	assert_true(free_bytes() < SIMNODE_POOL);
	kv_node_process_exit(sim.node, r.pid);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	assert_int_equal(simnode_stat(&sim, "processes_lost"), 1);
	assert_int_equal(simnode_stat(&sim, "processes"), 0);
}

/* After an answer was lost: the put is sent again. */
static void
a_put_sent_again_succeeds_again(void **state)
{
	struct simput item = { "k", 5, "value" };
	struct simput_opts first = { .random = 7 }, other = { .random = 8 };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, &first);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	id = simreq_put(&r, &item, 1, &other);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_EEXISTS);
	id = simreq_put(&r, &item, 1, &first);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	simreq_close(&r);
}

static void
a_process_settles_its_grants_on_another_connection(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simreq r, other;
	struct simgrant g;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	simreq_open_again(&other, &r);
	simreq_close(&r);
	assert_true(free_bytes() < SIMNODE_POOL);
	simreq_filled(&other, id, g.grant, false);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	assert_int_equal(simreq_get_one(&other, "k", NULL, NULL), KV_EMISS);
	simreq_close(&other);
}

static void
the_exit_of_a_process_frees_its_grants(void **state)
{
	struct simput items[] = {
		{ "a", 10000, NULL },
		{ "b", 10000, NULL },
	};
	struct simreq r, other;
	uint64_t id, second;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	simreq_open_unix(&other, &sim, 0);
	id = simreq_put(&r, items, 2, NULL);
	(void)id;
	second = simreq_put(&other, items, 1, NULL);
	kv_node_process_exit(sim.node, r.pid);
	simnode_run(&sim, 5);
	/* Who waited for it goes on. */
	{
		struct simgrant g;

		assert_true(simreq_grant(&other, second, 0, &g));
		simreq_filled(&other, second, g.grant, false);
	}
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&other, second, 0), KV_OK);
	assert_int_equal(simnode_stat(&sim, "grants"), 0);
	assert_true(r.control.is_lost);
	simreq_close(&r);
	simreq_close(&other);
}

static void
bytes_that_stop_coming_cost_the_put(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, &(struct simput_opts){ .budget_ms = 50 });
	assert_true(simreq_grant(&r, id, 0, &g));
	wirepeer_send_data(&r.data, g.grant, 0, blob, 5000);
	simnode_run(&sim, 60);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ETIMEOUT);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	/* Late bytes harm nobody. */
	wirepeer_send_data(&r.data, g.grant, 5000, blob, 5000);
	simnode_run(&sim, 5);
	assert_false(r.data.is_lost);
	assert_int_equal(simreq_put_one(&r, "k", blob, 10000), KV_OK);
	simreq_close(&r);
}

static void
a_data_grant_can_be_given_up(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	simreq_filled(&r, id, g.grant, false); /* means nothing here */
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	simreq_filled(&r, id, g.grant, true);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ECANCELED);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	simreq_close(&r);
}

static void
a_lost_data_connection_fails_what_was_on_it(void **state)
{
	struct simput items[] = {
		{ "a", 10000, NULL },
		{ "b", 5, "small" },
	};
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, items, 2, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	wirepeer_send_data(&r.data, g.grant, 0, blob, 5000);
	simnode_run(&sim, 2);
	wirepeer_close(&r.data);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ECONNLOST);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_OK);
	/* Without one there is no way for bytes. */
	id = simreq_put(&r, items, 1, NULL);
	simnode_run(&sim, 2);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_ECONNLOST);
	assert_int_equal(free_bytes(), SIMNODE_POOL - 256);
	simreq_close(&r);
}

static void
a_lost_requester_leaves_nothing_behind(void **state)
{
	struct simput item = { "k", 10000, NULL };
	struct simgrant g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, &item, 1, NULL);
	assert_true(simreq_grant(&r, id, 0, &g));
	wirepeer_send_data(&r.data, g.grant, 0, blob, 5000);
	simnode_run(&sim, 2);
	simreq_close(&r);
	simnode_run(&sim, 5);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	assert_int_equal(simnode_stat(&sim, "connections"), 0);
	assert_int_equal(simnode_stat(&sim, "processes"), 0);
	assert_int_equal(simnode_stat(&sim, "grants"), 0);
}

static void
a_lost_requester_does_not_wait_for_itself(void **state)
{
	struct simput items[] = {
		{ "k", 10000, NULL },
		{ "x", SIMNODE_POOL, NULL },
	};
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < 5; i++)
		simreq_put(&r, items, 2, NULL);
	simreq_close(&r);
	simnode_run(&sim, 5);
	/* One grant is in quarantine; nothing was granted to the others. */
	assert_int_equal(simnode_stat(&sim, "grants"), 1);
	kv_node_process_exit(sim.node, r.pid);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	simreq_open_tcp(&r, &sim);
	for (int i = 0; i < 5; i++)
		simreq_put(&r, items, 2, NULL);
	simreq_close(&r);
	simnode_run(&sim, 5);
	assert_int_equal(free_bytes(), SIMNODE_POOL);
	assert_int_equal(simnode_stat(&sim, "processes"), 0);
}

#define WITH(start, f) cmocka_unit_test_setup_teardown(f, start, noderig_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(noderig_one, old_values_leave_for_new_ones),
		WITH(noderig_one, no_evict_says_that_there_is_no_room),
		WITH(noderig_one, a_pool_in_use_has_no_space),
		WITH(noderig_one, a_value_larger_than_the_pool_is_too_big),
		WITH(noderig_one, a_hard_pinned_value_stays),
		WITH(setup_empty, a_put_waits_for_pages),
		WITH(setup_empty, waiting_for_pages_ends_with_the_budget),
		WITH(setup_empty, when_no_more_pages_come_the_rest_is_decided),
		WITH(noderig_one, an_expired_grant_stays_reserved_until_filled),
		WITH(noderig_one, a_grant_ends_within_an_hour),
		WITH(noderig_one, a_grant_given_up_comes_back),
		WITH(noderig_one,
		     a_lost_connection_leaves_grants_to_their_process),
		WITH(noderig_one, a_put_sent_again_succeeds_again),
		WITH(noderig_one,
		     a_process_settles_its_grants_on_another_connection),
		WITH(noderig_one, the_exit_of_a_process_frees_its_grants),
		WITH(noderig_one, bytes_that_stop_coming_cost_the_put),
		WITH(noderig_one, a_data_grant_can_be_given_up),
		WITH(noderig_one, a_lost_data_connection_fails_what_was_on_it),
		WITH(noderig_one, a_lost_requester_leaves_nothing_behind),
		WITH(noderig_one, a_lost_requester_does_not_wait_for_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

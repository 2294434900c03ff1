/*
 * Puts and gets by RDMA that do not come to their end: who takes part dies, is
 * slow or silent, or the deadline passes. Memory that a call gave back is
 * looked at again.
 */
#include <stdlib.h>
#include <string.h>

#include "railcall.h"
#include "test.h"

enum {
	MIB = 1 << 20,
	LARGE = 40 * MIB,
};

/* ---- who dies ---- */

static void
an_owner_that_is_killed_is_noticed(void **state)
{
	struct railcall c;

	(void)state;
	for (unsigned is_put = 0; is_put < 2; is_put++) {
		railcall_begin(2, 1);
		railcall_give("k", LARGE);
		railcall_get_value("k", LARGE, true);
		railcall_new(&c, LARGE, true);
		if (is_put)
			railcall_put(&c, "p", 5 * KV_NS_PER_S);
		else
			railcall_get(&c, "k", 5 * KV_NS_PER_S);
		cluster_run(cl, KV_NS_PER_MS);
		assert_false(c.is_done);
		cluster_node_kill(cl, 0);
		assert_true(railcall_wait(&c) < 3 * KV_NS_PER_S);
		assert_true(is_put ? c.pitem.status < 0 : c.gitem.status < 0);
		railcall_check_untouched(&c);
		railcall_free(&c);
		railcall_end();
	}
}

static void
a_requester_that_is_killed_leaves_nothing(void **state)
{
	struct railcall c;

	(void)state;
	for (unsigned is_put = 0; is_put < 2; is_put++) {
		railcall_begin(2, 1);
		railcall_give("k", LARGE);
		railcall_get_value("k", LARGE, true);
		railcall_new(&c, LARGE, false);
		if (is_put)
			railcall_put(&c, "p", 5 * KV_NS_PER_S);
		else
			railcall_get(&c, "k", 5 * KV_NS_PER_S);
		cluster_run(cl, KV_NS_PER_MS);
		assert_false(c.is_done);
		simnet_process_exit(cl->net, far->pid);
		cl->o.rdma->exit(cl->o.rdma, far->pid);
		if (is_put)
			kv_putop_abort(&c.put, -KV_ECLOSED);
		else
			kv_getop_abort(&c.get, -KV_ECLOSED);
		railcall_check_untouched(&c);
		free(c.bytes);
		cluster_requester_kill(cl, 1);
		cluster_run(cl, 2 * KV_NS_PER_S);
		railcall_new(&c, LARGE, true);
		railcall_get(&c, "p", 5 * KV_NS_PER_S);
		railcall_wait(&c);
		assert_int_equal(c.gitem.status, -KV_EMISS);
		railcall_free(&c);
		railcall_get_value("k", LARGE, true);
		railcall_end(); /* which looks for what is pinned */
	}
}

/* It is there, and says so: slow rails are no reason to give it up. */
static void
a_slow_owner_is_waited_for(void **state)
{
	const size_t bytes = 120 * MIB;
	struct railcall c;

	(void)state;
	railcall_begin(1, 1);
	railcall_give("k", bytes);
	railcall_get_value("k", bytes, true);
	hca_rate(simrails_port(rails, "n0", 0), 0.04);
	railcall_new(&c, bytes, true);
	railcall_get(&c, "k", 20 * KV_NS_PER_S);
	assert_true(railcall_wait(&c) > 3 * KV_NS_PER_S);
	assert_int_equal(c.gitem.status, 0);
	assert_int_equal(cluster_rdma_bytes(cl), 2 * bytes);
	railcall_free(&c);
	railcall_end();
}

static void
a_silent_owner_is_given_up(void **state)
{
	struct railcall c;

	(void)state;
	for (unsigned is_put = 0; is_put < 2; is_put++) {
		railcall_begin(2, 1);
		railcall_give("k", LARGE);
		railcall_get_value("k", LARGE, true);
		railcall_new(&c, LARGE, true);
		if (is_put)
			railcall_put(&c, "p", 20 * KV_NS_PER_S);
		else
			railcall_get(&c, "k", 20 * KV_NS_PER_S);
		cluster_run(cl, KV_NS_PER_MS);
		assert_false(c.is_done);
		railcall_cut(0, 2, true);
		simnet_cut(cl->net, "n0", far->host);
		simnet_cut(cl->net, far->host, "n0");
		assert_in_range(railcall_wait(&c), KV_NS_PER_S,
				6 * KV_NS_PER_S);
		assert_true((is_put ? c.pitem.status : c.gitem.status) < 0);
		simnet_heal(cl->net, "n0", far->host);
		simnet_heal(cl->net, far->host, "n0");
		railcall_cut(0, 2, false);
		railcall_check_untouched(&c);
		railcall_free(&c);
		railcall_end();
	}
}

/* The node is there: all its connections break in the middle, whichever way the
 * value goes. */
static void
a_connection_that_breaks_is_no_miss(void **state)
{
	unsigned n_broken = 0;
	struct railcall c;

	(void)state;
	for (unsigned i = 0; i < 80; i++) {
		railcall_begin(2, i + 1);
		cluster_run(cl, 10 * KV_NS_PER_S); /* a miss is believed */
		railcall_give("k", MIB);
		railcall_cut(0, i % 2 ? 2 : 0, true);
		if (i % 4 < 2)
			railcall_get_value("k", MIB, true);
		railcall_new(&c, MIB, true);
		railcall_get(&c, "k", 5 * KV_NS_PER_S);
		cluster_run(cl, i * 20 * KV_NS_PER_US);
		n_broken += !c.is_done;
		simnet_reset(cl->net, far->host, "n0");
		railcall_wait(&c);
		assert_int_equal(c.gitem.status, 0);
		railcall_check(&c, "k", 0, MIB);
		railcall_free(&c);
		railcall_cut(0, 2, false);
		railcall_end();
	}
	assert_true(n_broken > 30);
}

/* ---- deadlines ---- */

static void
a_get_past_its_deadline_gives_its_memory_back(void **state)
{
	unsigned late = 0;
	struct railcall c;

	(void)state;
	railcall_begin(2, 1);
	railcall_give("k", LARGE);
	railcall_get_value("k", LARGE, true);
	for (unsigned i = 0; i < 20; i++) {
		railcall_new(&c, LARGE, i % 2);
		railcall_get(&c, "k", (200 + 500 * i) * KV_NS_PER_US);
		while (!c.is_done)
			cluster_run(cl, 10 * KV_NS_PER_US);
		if (c.gitem.status == 0)
			railcall_check(&c, "k", 0, LARGE);
		else
			assert_int_equal(c.gitem.status, -KV_ETIMEOUT);
		late += c.gitem.status != 0;
		railcall_check_untouched(&c);
		railcall_free(&c);
	}
	assert_in_range(late, 5, 19);
	railcall_get_value("k", LARGE, true);
	railcall_end();
}

/* False: it was over before so many turns of the loop. */
static bool
give_up_after(struct railcall *c, bool is_put, unsigned turns)
{
	uint64_t next;

	for (; turns > 0 && !c->is_done; turns--) {
		next = kv_loop_next(cl->loop);
		if (next > cl->clock.ns)
			cl->clock.ns = next;
		kv_loop_turn(cl->loop, 0);
	}
	if (c->is_done)
		return false;
	if (is_put)
		kv_putop_abort(&c->put, -KV_ETIMEOUT);
	else
		kv_getop_abort(&c->get, -KV_ETIMEOUT);
	assert_true(c->is_done);
	return true;
}

/* Also when all has come, and nobody was told yet. */
static void
calls_are_given_up_after_each_turn(void **state)
{
	unsigned n_late, turns;
	struct railcall c;
	char name[8];
	bool is_put;

	(void)state;
	for (unsigned way = 0; way < 4; way++) {
		is_put = way & 1;
		n_late = 0;
		railcall_begin(2, way + 1);
		railcall_give("k", MIB);
		railcall_get_value("k", MIB, true);
		for (turns = 0; turns < 120; turns++) {
			snprintf(name, sizeof(name), is_put ? "p%u" : "k",
				 turns);
			railcall_new(&c, MIB, way & 2);
			if (is_put)
				railcall_put(&c, name, 5 * KV_NS_PER_S);
			else
				railcall_get(&c, name, 5 * KV_NS_PER_S);
			n_late += give_up_after(&c, is_put, turns);
			railcall_check_untouched(&c);
			railcall_free(&c);
			/* Rails are back. */
			railcall_get_value("k", MIB, true);
		}
		assert_in_range(n_late, 20, 119);
		railcall_end();
	}
}

/* Their values come in the answer, perhaps by a way of their own. */
static void
a_small_get_past_its_deadline_is_over(void **state)
{
	struct railcall c;
	unsigned late = 0;

	(void)state;
	railcall_begin(2, 1);
	railcall_give("k", 1000);
	for (unsigned i = 0; i < 40; i++) {
		if (i % 4 == 0)
			railcall_get_value("k", 1000, true);
		cluster_run(cl, 10 * KV_NS_PER_MS);
		railcall_new(&c, 1000, i % 2);
		railcall_get(&c, "k", (20 + 50 * i) * KV_NS_PER_US);
		while (!c.is_done)
			cluster_run(cl, 10 * KV_NS_PER_US);
		if (c.gitem.status == 0)
			railcall_check(&c, "k", 0, 1000);
		else
			assert_int_equal(c.gitem.status, -KV_ETIMEOUT);
		late += c.gitem.status != 0;
		railcall_check_untouched(&c);
		railcall_free(&c);
	}
	assert_in_range(late, 5, 35);
	railcall_end();
}

/* What is written over the source afterwards is in no value. */
static void
a_put_past_its_deadline_is_not_fed_with_other_bytes(void **state)
{
	unsigned late = 0;
	struct railcall c, g;
	char name[8];

	(void)state;
	railcall_begin(2, 1);
	railcall_put_value("first", LARGE, true);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "k%u", i);
		railcall_new(&c, LARGE, i % 2);
		railcall_put(&c, name, (200 + 500 * i) * KV_NS_PER_US);
		while (!c.is_done)
			cluster_run(cl, 10 * KV_NS_PER_US);
		if (c.pitem.status != 0)
			assert_int_equal(c.pitem.status, -KV_ETIMEOUT);
		memset(c.bytes, 0x33, c.size);
		cluster_run(cl, KV_NS_PER_S);
		railcall_new(&g, LARGE, true);
		railcall_get(&g, name, 5 * KV_NS_PER_S);
		railcall_wait(&g);
		if (g.gitem.status == 0)
			railcall_check(&g, name, 0, LARGE);
		else
			assert_int_equal(c.pitem.status, -KV_ETIMEOUT);
		late += c.pitem.status != 0;
		railcall_free(&c);
		railcall_free(&g);
	}
	assert_in_range(late, 5, 19);
	railcall_end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_owner_that_is_killed_is_noticed),
		cmocka_unit_test(a_requester_that_is_killed_leaves_nothing),
		cmocka_unit_test(a_slow_owner_is_waited_for),
		cmocka_unit_test(a_silent_owner_is_given_up),
		cmocka_unit_test(a_connection_that_breaks_is_no_miss),
		cmocka_unit_test(a_get_past_its_deadline_gives_its_memory_back),
		cmocka_unit_test(calls_are_given_up_after_each_turn),
		cmocka_unit_test(a_small_get_past_its_deadline_is_over),
		cmocka_unit_test(
			a_put_past_its_deadline_is_not_fed_with_other_bytes),
	};

	if (getenv("SIM_TEST"))
		cmocka_set_test_filter(getenv("SIM_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Puts and gets by rails that fail: that costs time, and no call. Every byte
 * that comes is compared.
 */
#include <string.h>

#include "svc/nodecore.h"
#include "xfer/rdmaidle.h" /* before a global one has the name `far` */

#include "railcall.h"
#include "test.h"

enum {
	MIB = 1 << 20,
	LARGE = 40 * MIB,
};

/* They are waited for once; what comes later is used. */
static void
rails_that_do_not_come_cost_half_a_second(void **state)
{
	uint64_t began;

	(void)state;
	railcall_begin(2, 1);
	railcall_give("k", MIB);
	/* The ports are there as soon as a process was. */
	railcall_cut(0, 2, true);
	began = cl->clock.ns;
	assert_false(railcall_get_value("k", MIB, true));
	assert_in_range(cl->clock.ns - began, 400 * KV_NS_PER_MS,
			600 * KV_NS_PER_MS);
	kv_link_drop(railcall_link(), -KV_ECLOSED);
	began = cl->clock.ns;
	assert_false(railcall_get_value("k", MIB, true));
	assert_in_range(cl->clock.ns - began, 0, 50 * KV_NS_PER_MS);
	railcall_cut(0, 2, false);
	cluster_run(cl, 15 * KV_NS_PER_S);
	assert_true(railcall_get_value("k", MIB, true));
	railcall_end();
}

static void
a_cut_rail_costs_a_get_nothing_but_time(void **state)
{
	struct railcall c;

	(void)state;
	railcall_begin(2, 1);
	railcall_give("k", LARGE);
	railcall_get_value("k", LARGE, true);
	railcall_new(&c, LARGE, true);
	railcall_get(&c, "k", 5 * KV_NS_PER_S);
	cluster_run(cl, KV_NS_PER_MS);
	assert_false(c.is_done);
	railcall_cut(0, 1, true);
	assert_true(railcall_wait(&c) < 1500 * KV_NS_PER_MS);
	assert_int_equal(c.gitem.status, 0);
	railcall_check(&c, "k", 0, LARGE);
	assert_int_equal(cluster_rdma_bytes(cl), 2 * LARGE);
	railcall_free(&c);
	/* The next ones do not even notice. */
	assert_true(railcall_get_value("k", LARGE, false));
	railcall_cut(0, 1, false);
	cluster_run(cl, 10 * KV_NS_PER_S);
	railcall_get_value("k", LARGE, false);
	cluster_run(cl, 10 * KV_NS_PER_S);
	assert_int_equal(kv_link_rails(railcall_link()), 2);
	railcall_end();
}

static void
a_cut_rail_costs_a_put_nothing_but_time(void **state)
{
	struct railcall c;

	(void)state;
	railcall_begin(2, 1);
	railcall_put_value("first", MIB, false);
	railcall_new(&c, LARGE, true);
	railcall_put(&c, "k", 5 * KV_NS_PER_S);
	cluster_run(cl, KV_NS_PER_MS);
	assert_false(c.is_done);
	railcall_cut(0, 1, true);
	assert_true(railcall_wait(&c) < 1500 * KV_NS_PER_MS);
	assert_int_equal(c.pitem.status, 0);
	railcall_free(&c);
	assert_true(railcall_get_value("k", LARGE, true));
	railcall_end();
}

/* Wherever it has got to: what asks goes by the rail that is cut. */
static void
requests_that_are_lost_are_asked_again(void **state)
{
	static const size_t sizes[] = { 4096, MIB };
	struct railcall c;
	char name[8];
	uint64_t ns;
	bool is_put;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		is_put = i & 1;
		snprintf(name, sizeof(name), is_put ? "p%u" : "k", i);
		ns = i / 4 * 2 * KV_NS_PER_US;
		railcall_begin(2, i + 1);
		railcall_give("k", sizes[i >> 1 & 1]);
		railcall_get_value("k", sizes[i >> 1 & 1], true);
		cluster_run(cl, KV_NS_PER_MS);
		railcall_new(&c, sizes[i >> 1 & 1], true);
		if (is_put)
			railcall_put(&c, name, 5 * KV_NS_PER_S);
		else
			railcall_get(&c, name, 5 * KV_NS_PER_S);
		cluster_run(cl, ns);
		railcall_cut(0, 1, true);
		assert_true(railcall_wait(&c) < 1500 * KV_NS_PER_MS);
		assert_int_equal(is_put ? c.pitem.status : c.gitem.status, 0);
		if (!is_put)
			railcall_check(&c, name, 0, c.size);
		railcall_free(&c);
		railcall_get_value(name, sizes[i >> 1 & 1], true);
		railcall_end();
	}
}

/* Then TCP carries it. */
static void
all_rails_are_cut(void **state)
{
	struct railcall c;

	(void)state;
	railcall_begin(2, 1);
	railcall_give("k", LARGE);
	railcall_get_value("k", MIB * 40, true);
	railcall_new(&c, LARGE, true);
	railcall_get(&c, "k", 10 * KV_NS_PER_S);
	cluster_run(cl, KV_NS_PER_MS);
	assert_false(c.is_done);
	railcall_cut(0, 2, true);
	assert_true(railcall_wait(&c) < 5 * KV_NS_PER_S);
	assert_int_equal(c.gitem.status, 0);
	railcall_check(&c, "k", 0, LARGE);
	railcall_free(&c);
	railcall_cut(0, 2, false);
	cluster_run(cl, 10 * KV_NS_PER_S);
	railcall_put_value("k2", LARGE, true);
	cluster_run(cl, 10 * KV_NS_PER_S);
	railcall_new(&c, LARGE, true);
	railcall_put(&c, "k3", 10 * KV_NS_PER_S);
	cluster_run(cl, KV_NS_PER_MS);
	assert_false(c.is_done);
	railcall_cut(0, 2, true);
	assert_true(railcall_wait(&c) < 5 * KV_NS_PER_S);
	assert_int_equal(c.pitem.status, 0);
	railcall_free(&c);
	assert_false(railcall_get_value("k3", LARGE, true));
	railcall_end();
}

/* Whatever a queue pair says, in the end the value is there. */
static void
queue_pairs_fail_in_all_ways(void **state)
{
	char name[8];

	(void)state;
	railcall_begin(2, 1);
	railcall_give("k", 10 * MIB);
	for (unsigned i = 0; i < SIMRAILS_STATUSES; i++) {
		struct hca_fault f = { .status = simrails_statuses[i],
				       .nth = 1 + i % 3 };

		railcall_get_value("k", 10 * MIB, i % 2);
		hca_fail_wr(simrails_port(rails, "n0", i % 2), &f);
		railcall_get_value("k", 10 * MIB, i % 2);
		hca_fail_wr(simrails_port(rails, "n0", i % 2), &f);
		snprintf(name, sizeof(name), "p%u", i);
		railcall_put_value(name, 5 * MIB, i % 2);
		railcall_get_value(name, 5 * MIB, i % 2);
		cluster_run(cl, 5 * KV_NS_PER_S);
	}
	assert_true(cluster_rdma_bytes(cl) > 10ull * MIB * SIMRAILS_STATUSES);
	railcall_end();
}

/* ---- streams that go to others ---- */

/* The node ends the stream of the requester, as for one that is new. False:
 * there is none, or it is in the middle of something. */
static bool
stream_lose(void)
{
	struct kv_rdmastream *s;
	struct kv_nodepeer *p;

	KV_LIST_FOREACH(p, &cl->nodes[0].node->peers, link) {
		if (!p->main || !p->conn || !kv_conn_stream(p->conn))
			continue;
		s = KV_CONTAINER_OF(kv_conn_stream(p->conn),
				    struct kv_rdmastream, base);
		if (s->letters > 0)
			return false;
		kv_rdmastream_lose(s);
		return true;
	}
	return false;
}

/* Asks for little, and then has a while to dial. */
static void
little(void)
{
	railcall_get_value("little", 1000, false);
	cluster_run(cl, 100 * KV_NS_PER_MS);
}

static void
an_idle_stream_that_goes_comes_back_when_it_is_used(void **state)
{
	struct kv_link *l;

	(void)state;
	railcall_begin(1, 1);
	railcall_give("little", 1000);
	little();
	l = railcall_link();
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(l->fast.state, KV_LINK_UP);
		assert_true(stream_lose());
		/* In the same instant, soon, or later. */
		cluster_run(cl, i * i * KV_NS_PER_MS);
		little();
		cluster_run(cl, 30 * KV_NS_PER_S);
		if (i * i > 200 || l->fast.state == KV_LINK_UP)
			continue;
		/* Nobody has used it since the pause is over. */
		assert_int_equal(l->fast.state, KV_LINK_IDLE);
		assert_false(stream_lose());
		little();
	}
	railcall_end();
}

static void
what_is_asked_as_a_stream_goes_is_asked_again(void **state)
{
	unsigned us, lost = 0;
	struct railcall c;

	(void)state;
	railcall_begin(1, 1);
	railcall_give("little", 1000);
	little();
	for (us = 0; us < 60; us++) {
		railcall_new(&c, 1000, false);
		railcall_get(&c, "little", 5 * KV_NS_PER_S);
		cluster_run(cl, us * KV_NS_PER_US);
		lost += stream_lose() && !c.is_done;
		railcall_wait(&c);
		assert_int_equal(c.gitem.status, 0);
		railcall_check(&c, "little", 0, 1000);
		railcall_free(&c);
		cluster_run(cl, KV_NS_PER_S);
		little();
	}
	assert_in_range(lost, 5, 60);
	railcall_end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rails_that_do_not_come_cost_half_a_second),
		cmocka_unit_test(a_cut_rail_costs_a_get_nothing_but_time),
		cmocka_unit_test(a_cut_rail_costs_a_put_nothing_but_time),
		cmocka_unit_test(requests_that_are_lost_are_asked_again),
		cmocka_unit_test(all_rails_are_cut),
		cmocka_unit_test(queue_pairs_fail_in_all_ways),
		cmocka_unit_test(
			an_idle_stream_that_goes_comes_back_when_it_is_used),
		cmocka_unit_test(what_is_asked_as_a_stream_goes_is_asked_again),
	};

	if (getenv("SIM_TEST"))
		cmocka_set_test_filter(getenv("SIM_TEST"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

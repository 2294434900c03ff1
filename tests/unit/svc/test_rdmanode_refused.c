/* A node that cannot read or write a requester's memory by RDMA, or is asked
 * for it wrongly: nothing is left of it. */

#include <string.h>

#include "base/status.h"
#include "rdmanode.h"
#include "svc/nodecore.h"
#include "test.h"

/* ---- no way ---- */

static void
without_rails_other_means_are_asked_for(void **state)
{
	const struct rdmanode_key k = { .key = "k", .size = 100000 };
	struct rdmanode_got r;

	(void)state;
	for (unsigned i = 0; i < RDMANODE_PORTS; i++) {
		hca_cut(rdmanode.ports[i], NULL, true);
		hca_cut(rdmareq.ports[i], NULL, true);
	}
	rdmareq_open();
	assert_int_equal(kv_rdmalink_rails(rdmareq_link), 0);
	assert_int_equal(rdmanode_put_one("k", 0, 100000), KV_ETRANSFER);
	assert_int_equal(simreq_put_one(&rdmareq_conns, "k", blob, 100000),
			 KV_OK);
	rdmanode_get_await(&r, &k, 1, NULL);
	rdmanode_run(50);
	assert_true(r.is_over);
	assert_int_equal(r.status, -EIO);
	rdmanode_expect_idle();
}

static void
who_did_not_ask_for_rdma_has_none(void **state)
{
	const struct rdmanode_key k = { .key = "k", .size = 100000 };
	uint64_t id;

	(void)state;
	simreq_open_tcp(&rdmareq_conns, &sim);
	assert_int_equal(rdmareq_conns.features, 0);
	assert_int_equal(rdmanode_put_one("k", 0, 100000), KV_ETRANSFER);
	assert_int_equal(simreq_put_one(&rdmareq_conns, "k", blob, 100000),
			 KV_OK);
	id = rdmanode_get(&k, 1, NULL);
	rdmanode_run(10);
	assert_int_equal(rdmanode_got_of(id, 0).status, KV_ETRANSFER);
	assert_int_equal(rdmanode_got_of(id, 0).how, KV_HOW_NONE);
	rdmanode_expect_idle();
	/* Not a word of it is for this connection. */
	wirepeer_send(&rdmareq_conns.data, KV_MSG_QPFENCE_R, 0, NULL, NULL, 0);
	rdmanode_run(5);
	assert_true(rdmareq_conns.data.is_lost);
}

static void
before_the_pool_is_registered_there_are_no_rails(void **state)
{
	(void)state;
	assert_true(rdmareq_conns.features & KV_FEATURE_RDMA);
	assert_int_equal(kv_rdmalink_rails(rdmareq_link), 0);
	assert_int_equal(rdmanode_put_one("k", 0, 100000), KV_ETRANSFER);
	rdmanode_register(true);
	assert_int_equal(kv_rdmalink_rails(rdmareq_link), RDMANODE_PORTS);
	memcpy(rdmareq_mem, blob, 100000);
	assert_int_equal(rdmanode_put_one("k", 0, 100000), KV_OK);
	rdmanode_expect("k", blob, 100000);
}

static void
a_pool_that_is_not_registered_is_no_feature(void **state)
{
	(void)state;
	rdmanode_register(false);
	assert_int_equal(kv_rdmalink_rails(rdmareq_link), 0);
	rdmareq_close();
	rdmareq_open();
	assert_int_equal(rdmareq_conns.features, 0);
	assert_null(rdmareq_link);
}

static void
a_node_without_descriptors_goes_without(void **state)
{
	(void)state;
	rdmareq_open();
	assert_int_equal(rdmareq_conns.features, 0);
	assert_null(rdmareq_link);
	assert_int_equal(rdmanode_put_one("k", 0, 100000), KV_ETRANSFER);
	assert_int_equal(simreq_put_one(&rdmareq_conns, "k", blob, 100000),
			 KV_OK);
	rdmanode_expect("k", blob, 100000);
}

/* ---- what is broken ---- */

static void
expect_closed(bool is_closed)
{
	rdmanode_run(5);
	assert_int_equal(rdmareq_conns.control.is_lost, is_closed);
	rdmanode_expect_idle();
	if (!is_closed)
		return;
	rdmareq_close();
	rdmareq_open();
}

static void
windows_and_pieces_are_checked(void **state)
{
	const struct rdmanode_key good = { .key = "k", .size = 1000 };
	const struct rdmanode_key more = { .key = "k",
					   .size = 1000,
					   .n_pieces = 2,
					   .pieces = { { 0, 500 },
						       { 0, 501 } } };
	const struct rdmanode_key less = { .key = "k",
					   .size = 1000,
					   .n_pieces = 1,
					   .pieces = { { 0, 999 } } };
	const struct rdmanode_key empty = { .key = "k",
					    .size = 1000,
					    .n_pieces = 2,
					    .pieces = { { 0, 0 },
							{ 0, 1000 } } };
	const struct rdmanode_key far = { .key = "k",
					  .size = 1000,
					  .at = RDMANODE_MEM - 999 };
	const struct {
		const struct rdmanode_key *k;
		struct rdmanode_how how;
	} bad[] = {
		{ &more, { 0 } },
		{ &less, { 0 } },
		{ &empty, { 0 } },
		{ &far, { 0 } },
		{ &good, { .wrong_window = 1 } },
		{ &good, { .wrong_ports = 15 } },
		{ &good, { .window_bytes = 999 } },
		{ &good, { .window_bytes = UINT64_MAX } },
		{ &good, { .wrong_count = 1 } },
		{ &good, { .wrong_count = UINT32_MAX } },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		rdmanode_put(bad[i].k, 1, &bad[i].how);
		expect_closed(true);
		rdmanode_get(bad[i].k, 1, &bad[i].how);
		expect_closed(true);
	}
	rdmanode_expect_none("k");
	rdmanode_put(&good, 1, &(struct rdmanode_how){ .wrong_ports = 14 });
	expect_closed(false);
}

static void
a_transfers_number_has_twenty_bits(void **state)
{
	const struct rdmanode_key k = { .key = "k", .size = 1000 };
	struct rdmanode_how how = { .number = 1 << 20 };
	uint64_t id;

	(void)state;
	id = rdmanode_get(&k, 1, &how);
	rdmanode_run(5);
	assert_int_equal(rdmanode_got_of(id, 0).status, KV_EINVALID);
	how.number--;
	id = rdmanode_get(&k, 1, &how);
	rdmanode_run(5);
	assert_int_equal(rdmanode_got_of(id, 0).status, KV_EMISS);
}

static void
pieces_weigh_as_keys_do(void **state)
{
	enum {
		N = 20 /* of 3126 each: there is no room for another one */
	};
	const struct rdmanode_how how = { .budget_ms = 5000 };
	struct rdmanode_key k = { .size = 50000, .cut = 1 };
	char names[N][16];
	uint64_t id;

	(void)state;
	for (unsigned i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		k.key = names[i];
		id = rdmanode_put(&k, 1, &how);
		rdmanode_run(10);
		assert_int_equal(simreq_put_refusal(&rdmareq_conns, id), -1);
	}
	k.key = "more";
	id = rdmanode_put(&k, 1, &how);
	rdmanode_run(10);
	assert_int_equal(simreq_put_refusal(&rdmareq_conns, id), KV_EBUSY);
	id = rdmanode_get(&k, 1, &how);
	rdmanode_run(10);
	assert_int_equal(rdmanode_got_of(id, 0).status, KV_EBUSY);
	k.size = 5000;
	k.cut = 0;
	id = rdmanode_put(&k, 1, &how);
	rdmanode_run(10);
	assert_int_equal(simreq_put_refusal(&rdmareq_conns, id), -1);
	/* All of it is given back. */
	rdmanode_run(5000);
	assert_int_equal(rdmanode_put_status(id, 0), KV_ETIMEOUT);
	assert_int_equal(sim.node->n_keys, 0);
}

/* FILLED is for those who fill. */
static void
nobody_says_that_a_read_has_ended(void **state)
{
	const struct rdmanode_key k = { .key = "k", .size = 500000 };
	uint64_t id;

	(void)state;
	for (unsigned i = 0; i < RDMANODE_PORTS; i++)
		hca_rate(rdmareq.ports[i], 0.01);
	id = rdmanode_put(&k, 1, NULL);
	rdmanode_run(3);
	for (uint64_t grant = 1; grant < 10; grant++)
		simreq_filled(&rdmareq_conns, id, grant, false);
	assert_int_equal(rdmanode_put_status(id, 0), -1);
	assert_int_equal(simnode_stat(&sim, "puts_ok"), 0);
	rdmanode_run(100);
	assert_int_equal(rdmanode_put_status(id, 0), KV_OK);
}

/* It would be told the ports again if the node had taken them back. */
static void
a_requester_asks_for_rails(void **state)
{
	struct kv_rails *body;

	(void)state;
	assert_true(kv_conn_begin(rdmareq_conns.data.c, KV_MSG_RAILS, 0, 0) !=
		    NULL);
	kv_conn_end(rdmareq_conns.data.c);
	rdmanode_run(5);
	assert_false(rdmareq_conns.data.is_lost);
	assert_int_equal(rdmanode_put_one("k", 1000, 300000), KV_OK);
	assert_int_equal(simnode_stat(&sim, "rdma_rx_bytes"), 300000);
	body = kv_conn_begin(rdmareq_conns.data.c, KV_MSG_RAILS, 0, 0);
	assert_non_null(body);
	body->count = kv_le32(1);
	kv_conn_end(rdmareq_conns.data.c);
	rdmanode_run(5);
	assert_true(rdmareq_conns.data.is_lost);
}

#define BARE(f)                                                 \
	cmocka_unit_test_setup_teardown(f, rdmanode_setup_bare, \
					rdmanode_teardown)
#define EARLY(f)                                                 \
	cmocka_unit_test_setup_teardown(f, rdmanode_setup_early, \
					rdmanode_teardown)
#define DRY(f)                                                 \
	cmocka_unit_test_setup_teardown(f, rdmanode_setup_dry, \
					rdmanode_teardown)
#define POOR(f)                                                 \
	cmocka_unit_test_setup_teardown(f, rdmanode_setup_poor, \
					rdmanode_teardown)
#define OPEN(f) \
	cmocka_unit_test_setup_teardown(f, rdmanode_setup, rdmanode_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		BARE(without_rails_other_means_are_asked_for),
		BARE(who_did_not_ask_for_rdma_has_none),
		EARLY(before_the_pool_is_registered_there_are_no_rails),
		EARLY(a_pool_that_is_not_registered_is_no_feature),
		POOR(a_node_without_descriptors_goes_without),
		OPEN(windows_and_pieces_are_checked),
		OPEN(a_transfers_number_has_twenty_bits),
		DRY(pieces_weigh_as_keys_do),
		OPEN(a_requester_asks_for_rails),
		OPEN(nobody_says_that_a_read_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

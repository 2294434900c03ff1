/* A node that reads and writes a requester's memory by RDMA: what is moved is
 * compared, and what is wrong leaves nothing. */

#include <string.h>

#include "base/status.h"
#include "rdmanode.h"
#include "svc/nodecore.h"
#include "test.h"

static int
put_status(uint64_t id, unsigned i)
{
	return simreq_put_status(&rdmareq_conns, id, i);
}

static struct simgot
got(uint64_t id, unsigned i)
{
	struct simgot g;

	assert_true(simreq_got(&rdmareq_conns, id, i, &g));
	return g;
}

/* A put of one key, from `at` of the memory, to its end: the status. */
static int
put_one(const char *key, uint32_t at, uint64_t size)
{
	const struct rdmanode_key k = { .key = key, .size = size, .at = at };
	uint64_t id = rdmanode_put(&k, 1, NULL);

	rdmanode_run(20);
	return put_status(id, 0);
}

/* Nothing is reserved or pinned, nothing under way. */
static void
expect_idle(void)
{
	assert_int_equal(simnode_stat(&sim, "reserved_bytes"), 0);
	assert_int_equal(simnode_stat(&sim, "pinned_bytes"), 0);
}

/* ---- puts ---- */

static void
a_value_is_read_from_the_requester(void **state)
{
	(void)state;
	memcpy(rdmareq_mem + 1000, blob, 300000);
	assert_int_equal(put_one("k", 1000, 300000), KV_OK);
	assert_int_equal(wirepeer_count(&rdmareq_conns.control, KV_MSG_GRANT_R),
			 0);
	assert_int_equal(simnode_stat(&sim, "rdma_rx_bytes"), 300000);
	assert_int_equal(simnode_stat(&sim, "data_rx_bytes"), 0);
	assert_int_equal(simnode_stat(&sim, "puts_ok"), 1);
	expect_idle();
	rdmanode_expect("k", blob, 300000);
}

static void
a_batch_has_values_of_all_kinds(void **state)
{
	const struct rdmanode_key keys[] = {
		{ .key = "a", .size = 5, .value = "small" },
		{ .key = "b", .size = 70000, .at = 10 },
		{ .key = "c", .size = 0 },
		{ .key = "d",
		  .size = 50007,
		  .n_pieces = 4,
		  .pieces = { { 500000, 7 },
			      { 80000, 20000 },
			      { 400000, 29999 },
			      { 0, 1 } } },
		{ .key = "b", .size = 100, .at = 10 },
	};
	uint8_t d[50007];
	struct simgot g;
	uint64_t id;

	(void)state;
	memcpy(rdmareq_mem, blob, RDMANODE_MEM);
	id = rdmanode_put(keys, 5, NULL);
	rdmanode_run(20);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(put_status(id, i), KV_OK);
	assert_int_equal(put_status(id, 4), KV_EEXISTS);
	assert_int_equal(simnode_stat(&sim, "rdma_rx_bytes"), 120007);
	rdmanode_expect("b", blob + 10, 70000);
	memcpy(d, blob + 500000, 7);
	memcpy(d + 7, blob + 80000, 20000);
	memcpy(d + 20007, blob + 400000, 29999);
	d[50006] = blob[0];
	rdmanode_expect("d", d, sizeof(d));
	assert_int_equal(
		simreq_get_one(&rdmareq_conns, "a",
			       &(struct simget_opts){ .inline_max = 10 }, &g),
		KV_OK);
	assert_memory_equal(g.bytes, "small", 5);
	assert_int_equal(simreq_get_one(&rdmareq_conns, "c", NULL, &g), KV_OK);
	assert_int_equal(g.size, 0);
}

/* Holes of 64 KiB, all over the pool. */
static void
pool_fragment(void)
{
	enum {
		N = 14
	};
	struct simput items[N];
	struct simgrant g[N];
	char names[N][16];
	struct simreq r;
	uint64_t id;

	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "f%d", i);
		items[i] = (struct simput){ names[i], 65536, NULL };
	}
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, items, N, NULL);
	for (unsigned i = 0; i < N; i++)
		assert_true(simreq_grant(&r, id, i, &g[i]));
	for (unsigned i = 0; i < N; i++)
		simreq_filled(&r, id, g[i].grant, i % 2 == 0);
	simreq_close(&r);
}

static void
a_value_in_many_extents_comes_and_goes(void **state)
{
	struct rdmanode_key k = { .key = "k", .size = 400000, .at = 3 };
	struct rdmanode_got r;
	struct simreq local;
	struct simgot g;

	(void)state;
	pool_fragment();
	memcpy(rdmareq_mem + 3, blob, 400000);
	assert_int_equal(put_one("k", 3, 400000), KV_OK);
	simreq_open_unix(&local, &sim, 0);
	assert_int_equal(simreq_get_one(&local, "k", NULL, &g), KV_OK);
	assert_true(g.extents > 4);
	simreq_release(&local, g.pin);
	simreq_close(&local);
	rdmanode_expect("k", blob, 400000);
	memset(rdmareq_mem, 0, RDMANODE_MEM);
	k.at = 77777;
	rdmanode_get_await(&r, &k, 1, NULL);
	rdmanode_run(20);
	assert_true(r.is_over);
	assert_int_equal(r.status, 0);
	assert_memory_equal(rdmareq_mem + 77777, blob, 400000);
	assert_int_equal(rdmareq_mem[77776], 0);
	assert_int_equal(rdmareq_mem[477777], 0);
	expect_idle();
}

static void
a_read_that_fails_leaves_nothing(void **state)
{
	const struct rdmanode_key keys[] = {
		{ .key = "a", .size = 100000 },
		{ .key = "b", .size = 3, .value = "xyz" },
	};
	const struct rdmanode_how how = { .wrong_keys = 1000 };
	uint64_t id;

	(void)state;
	id = rdmanode_put(keys, 2, &how);
	rdmanode_run(50);
	assert_int_equal(put_status(id, 0), KV_ETRANSFER);
	assert_int_equal(put_status(id, 1), KV_OK);
	expect_idle();
	rdmanode_expect_none("a");
	assert_int_equal(simnode_stat(&sim, "rdma_rx_bytes"), 0);
	/* The requester comes with it otherwise. */
	assert_int_equal(simreq_put_one(&rdmareq_conns, "a", blob, 100000),
			 KV_OK);
	rdmanode_expect("a", blob, 100000);
}

static void
reads_that_fail_now_and_then_are_made_good(void **state)
{
	const struct hca_fault fault = {
		.status = IBV_WC_RETRY_EXC_ERR,
		.nth = 2,
	};

	(void)state;
	memcpy(rdmareq_mem, blob, 700000);
	hca_fail_wr(rdmanode.ports[0], &fault);
	assert_int_equal(put_one("k", 0, 700000), KV_OK);
	rdmanode_expect("k", blob, 700000);
}

static void
a_requester_that_is_lost_leaves_nothing(void **state)
{
	const struct rdmanode_key keys[] = {
		{ .key = "a", .size = 500000 },
		{ .key = "b", .size = 400000, .at = 500000 },
	};

	(void)state;
	for (unsigned i = 0; i < RDMANODE_PORTS; i++)
		hca_rate(rdmareq.ports[i], 0.01);
	rdmanode_put(keys, 2, NULL);
	rdmanode_run(5);
	assert_true(simnode_stat(&sim, "reserved_bytes") >= 900000);
	rdmareq_close();
	rdmanode_run(5);
	expect_idle();
	rdmanode_expect_none("a");
	rdmanode_expect_none("b");
}

static void
a_put_that_is_late_is_given_up(void **state)
{
	const struct rdmanode_key k = { .key = "k", .size = 500000 };
	const struct rdmanode_how how = { .budget_ms = 20 };
	uint64_t id;

	(void)state;
	memcpy(rdmareq_mem, blob, 500000);
	for (unsigned i = 0; i < RDMANODE_PORTS; i++)
		hca_rate(rdmareq.ports[i], 0.001);
	id = rdmanode_put(&k, 1, &how);
	rdmanode_run(18);
	assert_int_equal(put_status(id, 0), -1);
	assert_true(simnode_stat(&sim, "reserved_bytes") > 0);
	rdmanode_run(10);
	assert_int_equal(put_status(id, 0), KV_ETIMEOUT);
	expect_idle();
	rdmanode_expect_none("k");
}

/* ---- gets ---- */

static void
values_are_written_to_the_requester(void **state)
{
	struct rdmanode_key keys[] = {
		{ .key = "a", .size = 300000, .at = 100 },
		{ .key = "miss", .size = 1000, .at = 900000 },
		{ .key = "small", .size = 1000, .at = 901000 },
		{ .key = "b",
		  .size = 60000,
		  .n_pieces = 3,
		  .pieces = { { 700000, 1 },
			      { 600000, 49998 },
			      { 660000, 10001 } },
		  .is_range = true,
		  .off = 12345 },
		{ .key = "empty", .size = 0 },
		{ .key = "a", .size = 10, .at = 950000 },
	};
	const struct rdmanode_how how = { .inline_max = 100 };
	struct rdmanode_got r;
	struct simgot g;

	(void)state;
	memcpy(rdmareq_mem, blob, RDMANODE_MEM);
	assert_int_equal(put_one("a", 0, 300000), KV_OK);
	assert_int_equal(put_one("b", 300000, 50000), KV_OK);
	assert_int_equal(put_one("empty", 0, 0), KV_OK);
	assert_int_equal(simreq_put_inline(&rdmareq_conns, "small", "hello"),
			 KV_OK);
	memset(rdmareq_mem, 0, RDMANODE_MEM);
	rdmanode_get_await(&r, keys, 6, &how);
	rdmanode_run(20);
	assert_true(r.is_over);
	assert_int_equal(r.status, 0);
	g = got(r.id, 0);
	assert_int_equal(g.status, KV_OK);
	assert_int_equal(g.how, KV_HOW_RDMA);
	assert_int_equal(g.size, 300000);
	assert_memory_equal(rdmareq_mem + 100, blob, 300000);
	g = got(r.id, 1);
	assert_int_equal(g.status, KV_EMISS);
	assert_int_equal(g.how, KV_HOW_NONE);
	g = got(r.id, 2);
	assert_int_equal(g.how, KV_HOW_INLINE);
	assert_memory_equal(g.bytes, "hello", 5);
	/* Less than there is room for: to the end of the value. */
	g = got(r.id, 3);
	assert_int_equal(g.how, KV_HOW_RDMA);
	assert_int_equal(g.size, 50000);
	assert_memory_equal(rdmareq_mem + 700000, blob + 312345, 1);
	assert_memory_equal(rdmareq_mem + 600000, blob + 312346, 37654);
	assert_int_equal(rdmareq_mem[637654], 0);
	assert_int_equal(rdmareq_mem[660000], 0);
	g = got(r.id, 4);
	assert_int_equal(g.status, KV_OK);
	assert_int_equal(g.size, 0);
	g = got(r.id, 5);
	assert_int_equal(g.status, KV_ETOOBIG);
	assert_int_equal(rdmareq_mem[950000], 0);
	assert_int_equal(simnode_stat(&sim, "rdma_tx_bytes"), 337655);
	assert_int_equal(simnode_stat(&sim, "data_tx_bytes"), 0);
	expect_idle();
}

static void
nothing_to_write_is_no_transfer(void **state)
{
	const struct rdmanode_key k = { .key = "none", .size = 5000 };
	struct rdmanode_got r;
	struct simgot g;

	(void)state;
	rdmanode_get_await(&r, &k, 1, NULL);
	rdmanode_run(20);
	g = got(r.id, 0);
	assert_int_equal(g.status, KV_EMISS);
	assert_false(r.is_over);
	kv_rdmalink_forget(&r.end);
	rdmanode_run(20);
	assert_false(r.is_over);
	expect_idle();
}

static void
a_write_that_fails_is_told_to_the_requester(void **state)
{
	const struct rdmanode_key k = { .key = "k", .size = 200000 };
	const struct rdmanode_how how = { .wrong_keys = 1000 };
	struct rdmanode_got r;

	(void)state;
	memcpy(rdmareq_mem, blob, 200000);
	assert_int_equal(put_one("k", 0, 200000), KV_OK);
	rdmanode_get_await(&r, &k, 1, &how);
	rdmanode_run(50);
	assert_true(r.is_over);
	assert_int_equal(r.status, -EIO);
	expect_idle();
	rdmanode_expect("k", blob, 200000);
}

static void
objects_are_pinned_while_they_are_written(void **state)
{
	const struct rdmanode_key k = { .key = "k", .size = 400000 };
	struct rdmanode_got r;

	(void)state;
	memcpy(rdmareq_mem, blob, 400000);
	assert_int_equal(put_one("k", 0, 400000), KV_OK);
	for (unsigned i = 0; i < RDMANODE_PORTS; i++)
		hca_rate(rdmareq.ports[i], 0.01);
	rdmanode_get_await(&r, &k, 1, NULL);
	rdmanode_run(5);
	assert_int_equal(got(r.id, 0).how, KV_HOW_RDMA);
	assert_true(simnode_stat(&sim, "pinned_bytes") >= 400000);
	assert_false(r.is_over);
	rdmareq_close();
	assert_true(r.is_over);
	assert_int_equal(r.status, -ECANCELED);
	rdmanode_run(5);
	expect_idle();
}

static void
a_get_that_nobody_waits_for_ends(void **state)
{
	/* In so many pieces that there is always something that goes on. */
	const struct rdmanode_key k = { .key = "k",
					.size = 400000,
					.cut = 1000 };
	const struct rdmanode_how how = { .budget_ms = 10 };
	struct rdmanode_got r;

	(void)state;
	assert_int_equal(put_one("k", 0, 400000), KV_OK);
	for (unsigned i = 0; i < RDMANODE_PORTS; i++)
		hca_rate(rdmareq.ports[i], 1e-4);
	rdmanode_get_await(&r, &k, 1, &how);
	rdmanode_run(1000);
	assert_false(r.is_over);
	assert_true(simnode_stat(&sim, "pinned_bytes") > 0);
	rdmanode_run(100);
	expect_idle();
	assert_true(r.is_over);
	assert_int_equal(r.status, -EIO);
}

static void
many_pieces_are_put_together(void **state)
{
	struct rdmanode_key k = { .key = "k", .size = 100001, .cut = 100 };
	struct rdmanode_got r;
	uint64_t id;

	(void)state;
	for (unsigned i = 0; i < 100001; i++)
		rdmareq_mem[i / 100 * 200 + i % 100] = blob[i];
	id = rdmanode_put(&k, 1, NULL);
	rdmanode_run(50);
	assert_int_equal(put_status(id, 0), KV_OK);
	rdmanode_expect("k", blob, 100001);
	memset(rdmareq_mem, 0, RDMANODE_MEM);
	rdmanode_get_await(&r, &k, 1, NULL);
	rdmanode_run(50);
	assert_true(r.is_over);
	assert_int_equal(r.status, 0);
	for (unsigned i = 0; i < 100001; i += 100)
		assert_memory_equal(rdmareq_mem + 2 * i, blob + i,
				    i < 100000 ? 100 : 1);
	for (unsigned i = 0; i < 100000; i++)
		assert_int_equal(rdmareq_mem[i / 100 * 200 + 100 + i % 100], 0);
}

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
	assert_int_equal(put_one("k", 0, 100000), KV_ETRANSFER);
	assert_int_equal(simreq_put_one(&rdmareq_conns, "k", blob, 100000),
			 KV_OK);
	rdmanode_get_await(&r, &k, 1, NULL);
	rdmanode_run(50);
	assert_true(r.is_over);
	assert_int_equal(r.status, -EIO);
	expect_idle();
}

static void
who_did_not_ask_for_rdma_has_none(void **state)
{
	const struct rdmanode_key k = { .key = "k", .size = 100000 };
	uint64_t id;

	(void)state;
	simreq_open_tcp(&rdmareq_conns, &sim);
	assert_int_equal(rdmareq_conns.features, 0);
	assert_int_equal(put_one("k", 0, 100000), KV_ETRANSFER);
	assert_int_equal(simreq_put_one(&rdmareq_conns, "k", blob, 100000),
			 KV_OK);
	id = rdmanode_get(&k, 1, NULL);
	rdmanode_run(10);
	assert_int_equal(got(id, 0).status, KV_ETRANSFER);
	assert_int_equal(got(id, 0).how, KV_HOW_NONE);
	expect_idle();
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
	assert_int_equal(put_one("k", 0, 100000), KV_ETRANSFER);
	rdmanode_register(true);
	assert_int_equal(kv_rdmalink_rails(rdmareq_link), RDMANODE_PORTS);
	memcpy(rdmareq_mem, blob, 100000);
	assert_int_equal(put_one("k", 0, 100000), KV_OK);
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
	assert_int_equal(put_one("k", 0, 100000), KV_ETRANSFER);
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
	expect_idle();
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
	assert_int_equal(got(id, 0).status, KV_EINVALID);
	how.number--;
	id = rdmanode_get(&k, 1, &how);
	rdmanode_run(5);
	assert_int_equal(got(id, 0).status, KV_EMISS);
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
	assert_int_equal(got(id, 0).status, KV_EBUSY);
	k.size = 5000;
	k.cut = 0;
	id = rdmanode_put(&k, 1, &how);
	rdmanode_run(10);
	assert_int_equal(simreq_put_refusal(&rdmareq_conns, id), -1);
	/* All of it is given back. */
	rdmanode_run(5000);
	assert_int_equal(put_status(id, 0), KV_ETIMEOUT);
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
	assert_int_equal(put_status(id, 0), -1);
	assert_int_equal(simnode_stat(&sim, "puts_ok"), 0);
	rdmanode_run(100);
	assert_int_equal(put_status(id, 0), KV_OK);
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
		OPEN(a_value_is_read_from_the_requester),
		OPEN(a_batch_has_values_of_all_kinds),
		OPEN(a_value_in_many_extents_comes_and_goes),
		OPEN(a_read_that_fails_leaves_nothing),
		OPEN(reads_that_fail_now_and_then_are_made_good),
		OPEN(a_requester_that_is_lost_leaves_nothing),
		OPEN(a_put_that_is_late_is_given_up),
		OPEN(values_are_written_to_the_requester),
		OPEN(nothing_to_write_is_no_transfer),
		OPEN(a_write_that_fails_is_told_to_the_requester),
		OPEN(objects_are_pinned_while_they_are_written),
		OPEN(a_get_that_nobody_waits_for_ends),
		OPEN(many_pieces_are_put_together),
		BARE(without_rails_other_means_are_asked_for),
		BARE(who_did_not_ask_for_rdma_has_none),
		EARLY(before_the_pool_is_registered_there_are_no_rails),
		EARLY(a_pool_that_is_not_registered_is_no_feature),
		POOR(a_node_without_descriptors_goes_without),
		OPEN(windows_and_pieces_are_checked),
		OPEN(a_transfers_number_has_twenty_bits),
		DRY(pieces_weigh_as_keys_do),
		OPEN(nobody_says_that_a_read_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

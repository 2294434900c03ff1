/* A node that reads and writes a requester's memory by RDMA: what is moved is
 * compared, and what fails leaves nothing. */

#include <string.h>

#include "base/status.h"
#include "rdmanode.h"
#include "svc/nodecore.h"
#include "test.h"

/* ---- puts ---- */

static void
a_value_is_read_from_the_requester(void **state)
{
	(void)state;
	memcpy(rdmareq_mem + 1000, blob, 300000);
	assert_int_equal(rdmanode_put_one("k", 1000, 300000), KV_OK);
	assert_int_equal(wirepeer_count(&rdmareq_conns.control, KV_MSG_GRANT_R),
			 0);
	assert_int_equal(simnode_stat(&sim, "rdma_rx_bytes"), 300000);
	assert_int_equal(simnode_stat(&sim, "data_rx_bytes"), 0);
	assert_int_equal(simnode_stat(&sim, "puts_ok"), 1);
	rdmanode_expect_idle();
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
		assert_int_equal(rdmanode_put_status(id, i), KV_OK);
	assert_int_equal(rdmanode_put_status(id, 4), KV_EEXISTS);
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
	assert_int_equal(rdmanode_put_one("k", 3, 400000), KV_OK);
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
	rdmanode_expect_idle();
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
	assert_int_equal(rdmanode_put_status(id, 0), KV_ETRANSFER);
	assert_int_equal(rdmanode_put_status(id, 1), KV_OK);
	rdmanode_expect_idle();
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
	assert_int_equal(rdmanode_put_one("k", 0, 700000), KV_OK);
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
	rdmanode_expect_idle();
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
	assert_int_equal(rdmanode_put_status(id, 0), -1);
	assert_true(simnode_stat(&sim, "reserved_bytes") > 0);
	rdmanode_run(10);
	assert_int_equal(rdmanode_put_status(id, 0), KV_ETIMEOUT);
	rdmanode_expect_idle();
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
	assert_int_equal(rdmanode_put_one("a", 0, 300000), KV_OK);
	assert_int_equal(rdmanode_put_one("b", 300000, 50000), KV_OK);
	assert_int_equal(rdmanode_put_one("empty", 0, 0), KV_OK);
	assert_int_equal(simreq_put_inline(&rdmareq_conns, "small", "hello"),
			 KV_OK);
	memset(rdmareq_mem, 0, RDMANODE_MEM);
	rdmanode_get_await(&r, keys, 6, &how);
	rdmanode_run(20);
	assert_true(r.is_over);
	assert_int_equal(r.status, 0);
	g = rdmanode_got_of(r.id, 0);
	assert_int_equal(g.status, KV_OK);
	assert_int_equal(g.how, KV_HOW_RDMA);
	assert_int_equal(g.size, 300000);
	assert_memory_equal(rdmareq_mem + 100, blob, 300000);
	g = rdmanode_got_of(r.id, 1);
	assert_int_equal(g.status, KV_EMISS);
	assert_int_equal(g.how, KV_HOW_NONE);
	g = rdmanode_got_of(r.id, 2);
	assert_int_equal(g.how, KV_HOW_INLINE);
	assert_memory_equal(g.bytes, "hello", 5);
	/* Less than there is room for: to the end of the value. */
	g = rdmanode_got_of(r.id, 3);
	assert_int_equal(g.how, KV_HOW_RDMA);
	assert_int_equal(g.size, 50000);
	assert_memory_equal(rdmareq_mem + 700000, blob + 312345, 1);
	assert_memory_equal(rdmareq_mem + 600000, blob + 312346, 37654);
	assert_int_equal(rdmareq_mem[637654], 0);
	assert_int_equal(rdmareq_mem[660000], 0);
	g = rdmanode_got_of(r.id, 4);
	assert_int_equal(g.status, KV_OK);
	assert_int_equal(g.size, 0);
	g = rdmanode_got_of(r.id, 5);
	assert_int_equal(g.status, KV_ETOOBIG);
	assert_int_equal(rdmareq_mem[950000], 0);
	assert_int_equal(simnode_stat(&sim, "rdma_tx_bytes"), 337655);
	assert_int_equal(simnode_stat(&sim, "data_tx_bytes"), 0);
	rdmanode_expect_idle();
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
	g = rdmanode_got_of(r.id, 0);
	assert_int_equal(g.status, KV_EMISS);
	assert_false(r.is_over);
	kv_rdmalink_forget(&r.end);
	rdmanode_run(20);
	assert_false(r.is_over);
	rdmanode_expect_idle();
}

static void
a_write_that_fails_is_told_to_the_requester(void **state)
{
	const struct rdmanode_key k = { .key = "k", .size = 200000 };
	const struct rdmanode_how how = { .wrong_keys = 1000 };
	struct rdmanode_got r;

	(void)state;
	memcpy(rdmareq_mem, blob, 200000);
	assert_int_equal(rdmanode_put_one("k", 0, 200000), KV_OK);
	rdmanode_get_await(&r, &k, 1, &how);
	rdmanode_run(50);
	assert_true(r.is_over);
	assert_int_equal(r.status, -EIO);
	rdmanode_expect_idle();
	rdmanode_expect("k", blob, 200000);
}

static void
objects_are_pinned_while_they_are_written(void **state)
{
	const struct rdmanode_key k = { .key = "k", .size = 400000 };
	struct rdmanode_got r;

	(void)state;
	memcpy(rdmareq_mem, blob, 400000);
	assert_int_equal(rdmanode_put_one("k", 0, 400000), KV_OK);
	for (unsigned i = 0; i < RDMANODE_PORTS; i++)
		hca_rate(rdmareq.ports[i], 0.01);
	rdmanode_get_await(&r, &k, 1, NULL);
	rdmanode_run(5);
	assert_int_equal(rdmanode_got_of(r.id, 0).how, KV_HOW_RDMA);
	assert_true(simnode_stat(&sim, "pinned_bytes") >= 400000);
	assert_false(r.is_over);
	rdmareq_close();
	assert_true(r.is_over);
	assert_int_equal(r.status, -ECANCELED);
	rdmanode_run(5);
	rdmanode_expect_idle();
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
	assert_int_equal(rdmanode_put_one("k", 0, 400000), KV_OK);
	for (unsigned i = 0; i < RDMANODE_PORTS; i++)
		hca_rate(rdmareq.ports[i], 1e-4);
	rdmanode_get_await(&r, &k, 1, &how);
	rdmanode_run(1000);
	assert_false(r.is_over);
	assert_true(simnode_stat(&sim, "pinned_bytes") > 0);
	rdmanode_run(100);
	rdmanode_expect_idle();
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
	assert_int_equal(rdmanode_put_status(id, 0), KV_OK);
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

#define OPEN(f) \
	cmocka_unit_test_setup_teardown(f, rdmanode_setup, rdmanode_teardown)
/* By queue pairs that no connection manager connects. */
#define JOINED(f)                                                 \
	cmocka_unit_test_setup_teardown(f, rdmanode_setup_joined, \
					rdmanode_teardown)

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
		JOINED(a_value_is_read_from_the_requester),
		JOINED(reads_that_fail_now_and_then_are_made_good),
		JOINED(a_requester_that_is_lost_leaves_nothing),
		JOINED(values_are_written_to_the_requester),
		JOINED(a_write_that_fails_is_told_to_the_requester),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

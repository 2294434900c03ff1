/* Rails that fail, in the middle of transfers. */
#include "xfer/rdmalink.h"

#include <string.h>

#include "railrig.h"
#include "test.h"
#include "xfer/rdmalinkcore.h"

enum {
	BIG = 6 << 20,
	FILL = 0x5a,
};

static struct railrig_move m;

static int
setup(unsigned n)
{
	const struct railrig_opts o = { .n = { n, n }, .piece_bytes = 16384 };

	railrig_open(&o);
	railrig_connect();
	return 0;
}

static int
setup_one(void **state)
{
	(void)state;
	return setup(1);
}

static int
setup_two(void **state)
{
	(void)state;
	return setup(2);
}

static int
teardown(void **state)
{
	(void)state;
	railrig_close();
	return 0;
}

static uint8_t *
far_side(const struct railrig_move *w)
{
	return (uint8_t *)(uintptr_t)w->far[0].addr;
}

/* Whoever has the bytes uses the memory again at once. */
static void
reuse(struct railrig_move *w)
{
	bool is_write = w->x.kind == KV_RDMAXFER_WRITE;

	if ((is_write ? w->end_status : w->status) < 0)
		return;
	assert_true(railrig_is_same(w));
	memset(far_side(w), FILL, w->x.bytes);
}

static void
check_reused(const struct railrig_move *w)
{
	const uint8_t *p = far_side(w);

	assert_int_equal(p[0], FILL);
	assert_memory_equal(p, p + 1, w->x.bytes - 1);
}

static void
begin(int mover, enum kv_rdmaxfer_kind kind)
{
	railrig_prepare(&m, mover, kind, 0, 0, BIG);
	if (kind == KV_RDMAXFER_WRITE)
		m.on_end = reuse;
	if (kind == KV_RDMAXFER_WRITE_ALONE)
		m.on_done = reuse;
	railrig_start(&m);
}

static void
expect_over(int status, int end_status)
{
	assert_int_equal(m.done, 1);
	assert_int_equal(m.status, status);
	if (m.x.kind != KV_RDMAXFER_WRITE)
		return;
	assert_int_equal(m.end_done, 1);
	assert_int_equal(m.end_status, end_status);
}

/* All went well, and nothing is written any more. */
static void
expect_well(void)
{
	expect_over(0, 0);
	if (m.x.kind == KV_RDMAXFER_READ)
		assert_true(railrig_is_same(&m));
	railrig_ms(3000);
	if (m.x.kind != KV_RDMAXFER_READ)
		check_reused(&m);
}

static const enum kv_rdmaxfer_kind kinds[] = {
	KV_RDMAXFER_READ,
	KV_RDMAXFER_WRITE,
	KV_RDMAXFER_WRITE_ALONE,
};

/* ---- work that fails ---- */

static void
fail_nth(enum ibv_wc_status status, unsigned nth)
{
	const struct hca_fault f = { .status = status, .nth = nth };

	hca_fail_wr(railrig[0].ports[0], &f);
}

static void
what_fails_on_one_rail_goes_by_the_other(void **state)
{
	static const enum ibv_wc_status all[] = {
		IBV_WC_RETRY_EXC_ERR,     IBV_WC_RNR_RETRY_EXC_ERR,
		IBV_WC_GENERAL_ERR,       IBV_WC_REM_ABORT_ERR,
		IBV_WC_RESP_TIMEOUT_ERR,  IBV_WC_WR_FLUSH_ERR,
		IBV_WC_INV_EEC_STATE_ERR, IBV_WC_FATAL_ERR,
	};
	unsigned i, k;

	(void)state;
	for (i = 0; i < KV_ARRAY_LEN(all); i++)
		for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
			fail_nth(all[i], 1 + i % 3);
			begin(0, kinds[k]);
			railrig_ms(50);
			expect_well();
			assert_int_equal(kv_rdmalink_rails(railrig[0].l), 2);
		}
}

static void
what_is_forbidden_is_not_tried_again(void **state)
{
	static const struct {
		enum ibv_wc_status wc;
		int status;
	} all[] = {
		{ IBV_WC_REM_ACCESS_ERR, -EACCES },
		{ IBV_WC_LOC_PROT_ERR, -EFAULT },
	};
	unsigned i, k;

	(void)state;
	for (i = 0; i < KV_ARRAY_LEN(all); i++)
		for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
			fail_nth(all[i].wc, 2);
			begin(0, kinds[k]);
			railrig_ms(2000);
			expect_over(all[i].status, -EIO);
		}
	railrig_move(0, KV_RDMAXFER_WRITE, 0, 0, BIG);
}

static void
wrong_bounds_are_forbidden(void **state)
{
	unsigned k;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		railrig_prepare(&m, 0, kinds[k], 0, RAILRIG_BYTES - BIG + 1,
				BIG);
		railrig_start(&m);
		railrig_ms(2000);
		expect_over(-EACCES, -EIO);
		railrig_prepare(&m, 0, kinds[k], RAILRIG_BYTES - BIG + 1, 0,
				BIG);
		railrig_start(&m);
		railrig_ms(2000);
		expect_over(-EFAULT, -EIO);
	}
}

static void
what_always_fails_is_given_up(void **state)
{
	const struct hca_fault f = { IBV_WC_GENERAL_ERR, 0, 0, 1 };
	unsigned k;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		hca_fail_wr(railrig[0].ports[0], &f);
		hca_fail_wr(railrig[0].ports[1], &f);
		begin(0, kinds[k]);
		m.on_done = m.on_end = NULL;
		railrig_ms(20000);
		assert_int_equal(m.done, 1);
		assert_true(m.status == -EIO || m.status == -EHOSTUNREACH);
		if (kinds[k] == KV_RDMAXFER_WRITE)
			assert_int_equal(m.end_status, -EIO);
	}
}

/* ---- links that are cut ---- */

static void
a_cut_rail_costs_half_a_second(void **state)
{
	unsigned k;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		begin(0, kinds[k]);
		railrig_us(100);
		assert_int_equal(m.done, 0);
		hca_cut(railrig[0].ports[0], NULL, true);
		railrig_ms(1000);
		expect_over(0, 0);
		hca_cut(railrig[0].ports[0], NULL, false);
		railrig_ms(10000);
		expect_well();
		assert_int_equal(kv_rdmalink_rails(railrig[0].l), 2);
	}
}

static void
the_last_rail_dies(void **state)
{
	unsigned k;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		begin(0, kinds[k]);
		railrig_us(50);
		hca_cut(railrig[0].ports[0], NULL, true);
		railrig_ms(2000);
		expect_over(-EHOSTUNREACH, -EIO);
		assert_int_equal(kv_rdmalink_rails(railrig[0].l), 0);
		assert_string_not_equal(kv_rdmalink_why(railrig[0].l), "");
		hca_cut(railrig[0].ports[0], NULL, false);
		railrig_ms(10000);
		assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
	}
}

/* The other side has everything, but its acknowledgements do not come. */
static void
what_is_there_is_not_sent_again(void **state)
{
	unsigned n;

	(void)state;
	for (n = 0; n < 40; n++) {
		railrig_prepare(&m, 0, KV_RDMAXFER_WRITE, 0, 0, 100000);
		m.on_end = reuse;
		railrig_start(&m);
		railrig_us(n);
		hca_cut(railrig[1].ports[1], NULL, true);
		railrig_ms(1000);
		expect_over(0, 0);
		check_reused(&m);
		hca_cut(railrig[1].ports[1], NULL, false);
		railrig_ms(10000);
		check_reused(&m);
	}
}

static void
nor_is_it_failed_when_no_rail_is_left(void **state)
{
	(void)state;
	railrig_prepare(&m, 0, KV_RDMAXFER_WRITE, 0, 0, 10000);
	m.on_end = reuse;
	railrig_start(&m);
	railrig_us(3);
	hca_cut(railrig[1].ports[0], NULL, true);
	railrig_ms(2000);
	expect_over(0, 0);
	check_reused(&m);
}

static void
a_rail_that_returns_begins_slowly(void **state)
{
	struct kv_rdmalink *l = railrig[0].l;

	(void)state;
	hca_port_up(railrig[0].ports[0], false);
	begin(0, KV_RDMAXFER_WRITE);
	railrig_ms(1500);
	expect_over(0, 0);
	assert_int_equal(kv_rdmalink_rails(l), 1);
	hca_port_up(railrig[0].ports[0], true);
	railrig_ms(10000);
	assert_int_equal(kv_rdmalink_rails(l), 2);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 2);
	assert_true(l->share.said[0] == l->share.said[1] / 4);
	begin(0, KV_RDMAXFER_WRITE);
	railrig_ms(10);
	expect_well();
	assert_true(l->share.said[0] == l->share.said[1]);
}

/* What it did not do while it was cut is not held against it. */
static void
and_is_as_fast_as_before(void **state)
{
	unsigned i, k;
	uint64_t start;

	(void)state;
	for (k = 0; k < 3; k++) {
		begin(0, KV_RDMAXFER_WRITE);
		railrig_us(100 + 50 * k);
		hca_cut(railrig[0].ports[0], NULL, true);
		railrig_ms(1500);
		expect_over(0, 0);
		hca_cut(railrig[0].ports[0], NULL, false);
		railrig_ms(10000);
		for (i = 0; i < 4; i++) {
			start = railrig_now();
			begin(0, KV_RDMAXFER_WRITE);
			railrig_ms(10);
			expect_over(0, 0);
		}
		/* 6 MiB at 25 bytes a nanosecond: 252 us. */
		assert_in_range(m.done_ns - start, 250000, 320000);
	}
}

static void
a_nic_that_swallows_work_is_not_waited_for(void **state)
{
	unsigned k;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		begin(0, kinds[k]);
		railrig_us(50);
		hca_rate(railrig[0].ports[0], 1e-6);
		hca_rate(railrig[1].ports[0], 1e-6);
		railrig_ms(1500);
		expect_over(0, 0);
		hca_rate(railrig[0].ports[0], 12.5);
		hca_rate(railrig[1].ports[0], 12.5);
		railrig_ms(10000);
	}
}

/* ---- devices and processes that go ---- */

static void
a_device_is_removed(int end)
{
	begin(0, KV_RDMAXFER_WRITE);
	railrig_us(50);
	hca_dev_remove(railrig[end].devs[0]);
	railrig_ms(1500);
	expect_over(0, 0);
	railrig_ms(20000);
	assert_int_equal(kv_rdmalink_rails(railrig[0].l), 1);
	assert_int_equal(kv_rdmalink_rails(railrig[1].l), 1);
	railrig_move(1, KV_RDMAXFER_READ, 0, 0, BIG);
}

static void
a_device_is_removed_here(void **state)
{
	struct kv_rail_rec recs[KV_RAILS_MAX];

	(void)state;
	a_device_is_removed(0);
	assert_int_equal(kv_rdmaloop_rails(railrig[1].rl, recs), 2);
}

static void
or_there(void **state)
{
	struct kv_rail_rec recs[KV_RAILS_MAX];

	(void)state;
	a_device_is_removed(1);
	assert_int_equal(kv_rdmaloop_rails(railrig[1].rl, recs), 1);
	assert_int_equal(recs[0].number, 1);
}

static void
the_other_process_is_killed(void **state)
{
	(void)state;
	begin(0, KV_RDMAXFER_READ);
	railrig_us(50);
	hca_process_exit(railrig[1].v);
	railrig_ms(1500);
	expect_over(-EHOSTUNREACH, 0);
}

/* ---- the link goes ---- */

static void
the_mover_goes(void **state)
{
	unsigned k;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		begin(0, kinds[k]);
		railrig_us(60);
		railrig_end_free(0);
		/* Within the call. */
		assert_int_equal(m.done, 1);
		assert_int_equal(m.status, -ECANCELED);
		memset(railrig[0].buf, FILL, BIG);
		railrig_ms(1);
		/* Its connection went with it. */
		if (m.x.kind == KV_RDMAXFER_WRITE)
			assert_int_equal(m.end_status, -ECANCELED);
		railrig_ms(2000);
		assert_memory_equal(railrig[0].buf, railrig[0].buf + 1,
				    BIG - 1);
		railrig_close();
		setup(2);
	}
}

static void
or_who_awaits_goes(void **state)
{
	(void)state;
	begin(0, KV_RDMAXFER_WRITE);
	railrig_us(60);
	railrig_end_free(1);
	assert_int_equal(m.end_done, 1);
	assert_int_equal(m.end_status, -ECANCELED);
	memset(railrig[1].buf, FILL, BIG);
	railrig_ms(3000);
	assert_int_equal(m.done, 1);
	assert_int_equal(m.status, -ECANCELED);
	check_reused(&m);
}

static struct kv_rdmalink *going;

static void
start_again(struct railrig_move *w)
{
	if (w->done == 1)
		kv_rdmalink_start(going, &w->x);
}

static void
what_is_started_then_is_over_at_once(void **state)
{
	(void)state;
	going = railrig[0].l;
	begin(0, KV_RDMAXFER_READ);
	m.on_done = start_again;
	railrig_us(60);
	railrig_end_free(0);
	assert_int_equal(m.done, 2);
	assert_int_equal(m.status, -ECANCELED);
}

static void
done_may_start_it_again(void **state)
{
	(void)state;
	going = railrig[0].l;
	begin(0, KV_RDMAXFER_READ);
	m.on_done = start_again;
	railrig_ms(10);
	assert_int_equal(m.done, 2);
	assert_int_equal(m.status, 0);
}

/* ---- giving up ---- */

static void
a_canceled_transfer_touches_nothing(void **state)
{
	struct railrig_move other;
	unsigned k;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		begin(0, kinds[k]);
		m.on_done = m.on_end = NULL;
		railrig_prepare(&other, 0, KV_RDMAXFER_WRITE, BIG, BIG,
				1 << 20);
		railrig_start(&other);
		railrig_us(60);
		kv_rdmalink_cancel(&m.x);
		assert_int_equal(m.done, 0);
		railrig_ms(1);
		expect_over(-ECANCELED, -EIO);
		memset(railrig[0].buf, FILL, BIG);
		memset(railrig[1].buf, FILL, BIG);
		railrig_ms(5000);
		check_reused(&m);
		assert_memory_equal(railrig[0].buf, railrig[0].buf + 1,
				    BIG - 1);
		/* Whoever shared its queue pairs may have lost all of them. */
		assert_int_equal(other.done, 1);
		assert_int_equal(other.end_done, 1);
		assert_int_equal(kv_rdmalink_rails(railrig[0].l), 2);
	}
}

/* However slow the rail is. */
static void
it_is_not_waited_for(void **state)
{
	unsigned k;

	(void)state;
	for (k = 0; k < KV_ARRAY_LEN(kinds); k++) {
		begin(0, kinds[k]);
		m.on_done = m.on_end = NULL;
		hca_rate(railrig[0].ports[0], 0.1);
		hca_rate(railrig[1].ports[0], 0.1);
		railrig_us(100);
		kv_rdmalink_cancel(&m.x);
		railrig_ms(1);
		expect_over(-ECANCELED, -EIO);
		railrig_ms(1000);
	}
}

static void
one_that_is_not_posted_ends_at_once(void **state)
{
	struct railrig_move w[20];
	unsigned i;

	(void)state;
	for (i = 0; i < 20; i++) {
		railrig_prepare(&w[i], 0, KV_RDMAXFER_READ, 0, 0, BIG);
		railrig_start(&w[i]);
	}
	railrig_us(60);
	kv_rdmalink_cancel(&w[19].x);
	railrig_us(1);
	assert_int_equal(w[19].done, 1);
	assert_int_equal(w[19].status, -ECANCELED);
	railrig_ms(100);
	for (i = 0; i < 19; i++) {
		assert_int_equal(w[i].done, 1);
		assert_int_equal(w[i].status, 0);
	}
	kv_rdmalink_cancel(&w[0].x);
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, setup_one, teardown)
#define TWO(f) cmocka_unit_test_setup_teardown(f, setup_two, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TWO(what_fails_on_one_rail_goes_by_the_other),
		TWO(what_is_forbidden_is_not_tried_again),
		TWO(wrong_bounds_are_forbidden),
		TWO(what_always_fails_is_given_up),
		TWO(a_cut_rail_costs_half_a_second),
		ONE(the_last_rail_dies),
		TWO(what_is_there_is_not_sent_again),
		ONE(nor_is_it_failed_when_no_rail_is_left),
		TWO(a_rail_that_returns_begins_slowly),
		TWO(and_is_as_fast_as_before),
		TWO(a_nic_that_swallows_work_is_not_waited_for),
		TWO(a_device_is_removed_here),
		TWO(or_there),
		TWO(the_other_process_is_killed),
		TWO(the_mover_goes),
		TWO(or_who_awaits_goes),
		TWO(what_is_started_then_is_over_at_once),
		TWO(done_may_start_it_again),
		TWO(a_canceled_transfer_touches_nothing),
		TWO(it_is_not_waited_for),
		TWO(one_that_is_not_posted_ends_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

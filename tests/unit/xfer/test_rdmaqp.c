/* Two queue pairs on fake devices: work, failures, fences. */
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "rdmarig.h"
#include "test.h"

enum {
	KIB = 1024,
};

static struct rdmarig_work works[4 * RDMARIG_DEPTH];

static void
bytes_are_equal(uint32_t at, uint32_t far, uint32_t bytes)
{
	assert_memory_equal(rdmarig[0].buf + at, rdmarig[1].buf + far, bytes);
}

static void
ended_with(const struct rdmarig_work *k, int status)
{
	assert_int_equal(k->done, 1);
	assert_int_equal(k->status, status);
}

static void
both_sides_have_the_words(void **state)
{
	(void)state;
	assert_string_equal(rdmarig[0].word, "listener");
	assert_string_equal(rdmarig[1].word, "dialler");
	assert_int_equal(kv_rdmaqp_room(rdmarig[0].qp), RDMARIG_DEPTH);
}

static void
bytes_are_written(void **state)
{
	(void)state;
	rdmarig_work(&works[0], 0, IBV_WR_RDMA_WRITE, 0, 512 * KIB, 256 * KIB);
	rdmarig_post(0, works, 1);
	assert_int_equal(kv_rdmaqp_room(rdmarig[0].qp), RDMARIG_DEPTH - 1);
	rdmarig_ms(10);
	ended_with(&works[0], 0);
	bytes_are_equal(0, 512 * KIB, 256 * KIB);
	assert_int_equal(kv_rdmaqp_room(rdmarig[0].qp), RDMARIG_DEPTH);
}

static void
bytes_are_read(void **state)
{
	(void)state;
	rdmarig_work(&works[0], 1, IBV_WR_RDMA_READ, 0, 512 * KIB, 256 * KIB);
	rdmarig_post(1, works, 1);
	rdmarig_ms(10);
	ended_with(&works[0], 0);
	bytes_are_equal(512 * KIB, 0, 256 * KIB);
}

/* It may be there before the last one is acknowledged. */
static void
the_end_comes_after_the_bytes(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < 7; i++)
		rdmarig_work(&works[i], 0, IBV_WR_RDMA_WRITE, i * 64 * KIB,
			     i * 64 * KIB, 64 * KIB);
	rdmarig_work(&works[7], 0, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0);
	works[7].w.wr.imm_data = htobe32(4711);
	rdmarig_post(0, works, 8);
	while (!rdmarig[1].n_imms)
		rdmarig_us(1);
	assert_int_equal(rdmarig[1].imms[0], 4711);
	bytes_are_equal(0, 0, 7 * 64 * KIB);
	rdmarig_ms(10);
	for (i = 0; i < 8; i++) {
		ended_with(&works[i], 0);
		assert_int_equal(works[i].order, i + 1);
	}
}

/* More ends than there are receives, and more work than places. */
static void
it_goes_on_and_on(void **state)
{
	unsigned i, j;

	(void)state;
	for (i = 0; i < 100; i++) {
		for (j = 0; j < 2; j++)
			rdmarig_work(&works[j], 0, IBV_WR_RDMA_WRITE, j * KIB,
				     j * KIB, KIB);
		rdmarig_work(&works[2], 0, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0);
		works[2].w.wr.imm_data = htobe32(i);
		rdmarig_post(0, works, 3);
		rdmarig_ms(1);
		for (j = 0; j < 3; j++)
			ended_with(&works[j], 0);
		assert_int_equal(rdmarig[1].n_imms, 1);
		assert_int_equal(rdmarig[1].imms[0], i);
		rdmarig[1].n_imms = 0;
	}
}

/* ---- failures ---- */

static void
what_is_forbidden_fails_and_takes_the_rest_along(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < 8; i++)
		rdmarig_work(&works[i], 0, IBV_WR_RDMA_WRITE, 0, 0, KIB);
	works[3].w.wr.wr.rdma.rkey ^= 0x10;
	rdmarig_post(0, works, 8);
	rdmarig_ms(10);
	for (i = 0; i < 3; i++)
		ended_with(&works[i], 0);
	ended_with(&works[3], -EACCES);
	for (i = 4; i < 8; i++)
		ended_with(&works[i], -ECANCELED);
	assert_true(rdmarig[0].qp_over);
	assert_int_equal(rdmarig[0].qp_why, -EACCES);
	assert_int_equal(kv_rdmaqp_room(rdmarig[0].qp), 0);
}

static void
own_memory_is_checked_too(void **state)
{
	(void)state;
	rdmarig_work(&works[0], 0, IBV_WR_RDMA_WRITE, 0, 0, KIB);
	works[0].sge.lkey ^= 0x10;
	rdmarig_post(0, works, 1);
	rdmarig_ms(10);
	ended_with(&works[0], -EFAULT);
	assert_true(rdmarig[0].qp_over);
}

static void
a_cut_is_noticed_within_a_second(void **state)
{
	(void)state;
	hca_cut(rdmarig[0].port, rdmarig[1].port, true);
	rdmarig_work(&works[0], 0, IBV_WR_RDMA_WRITE, 0, 0, KIB);
	rdmarig_post(0, works, 1);
	rdmarig_ms(1000);
	ended_with(&works[0], -ETIMEDOUT);
	assert_int_equal(rdmarig[0].qp_why, -ETIMEDOUT);
}

static void
of_a_device_that_is_gone_a_fence_gives_all_back(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < 8; i++)
		rdmarig_work(&works[i], 0, IBV_WR_RDMA_WRITE, 0, 0, 64 * KIB);
	rdmarig_post(0, works, 8);
	hca_dev_remove(rdmarig[0].dev);
	rdmarig_ms(100);
	assert_true(rdmarig[0].conn_over);
	assert_int_equal(rdmarig[0].conn_why, -ENODEV);
	kv_rdmaqp_fence(rdmarig[0].qp);
	for (i = 0; i < 8; i++)
		assert_int_equal(works[i].done, 1);
	assert_int_equal(works[7].status, -EIO);
	rdmarig_ms(1);
	assert_true(rdmarig[0].qp_over);
}

/* ---- fences ---- */

static uint8_t before[RDMARIG_BYTES];

static void
a_fence_stops_the_other_side(void **state)
{
	unsigned us, i;

	(void)state;
	for (us = 0; us < 60; us += 7) {
		if (us > 0) {
			rdmarig_teardown(state);
			rdmarig_setup_ready(state);
		}
		for (i = 0; i < 8; i++)
			rdmarig_work(&works[i], 0, IBV_WR_RDMA_WRITE,
				     i * 64 * KIB, i * 64 * KIB, 64 * KIB);
		rdmarig_post(0, works, 8);
		rdmarig_us(us);
		kv_rdmaqp_fence(rdmarig[1].qp);
		memcpy(before, rdmarig[1].buf, RDMARIG_BYTES);
		rdmarig_ms(1000);
		assert_memory_equal(before, rdmarig[1].buf, RDMARIG_BYTES);
		assert_true(rdmarig[1].qp_over);
		assert_int_equal(rdmarig[1].qp_why, -ECANCELED);
		for (i = 0; i < 8; i++)
			assert_int_equal(works[i].done, 1);
		assert_true(rdmarig[0].qp_over);
	}
}

static void
a_fence_stops_this_side(void **state)
{
	unsigned us, i;

	(void)state;
	for (us = 0; us < 60; us += 7) {
		if (us > 0) {
			rdmarig_teardown(state);
			rdmarig_setup_ready(state);
		}
		for (i = 0; i < 8; i++)
			rdmarig_work(&works[i], 1, IBV_WR_RDMA_READ,
				     i * 64 * KIB, i * 64 * KIB, 64 * KIB);
		rdmarig_post(1, works, 8);
		rdmarig_us(us);
		kv_rdmaqp_fence(rdmarig[1].qp);
		memcpy(before, rdmarig[1].buf, RDMARIG_BYTES);
		rdmarig_ms(10);
		assert_memory_equal(before, rdmarig[1].buf, RDMARIG_BYTES);
		for (i = 0; i < 8; i++)
			assert_int_equal(works[i].done, 1);
		assert_true(rdmarig[1].qp_over);
	}
}

/* What ended unsignalled has no completion of its own. */
static void
what_had_ended_before_a_fence_ended_well(void **state)
{
	unsigned i, good = 0;

	(void)state;
	for (i = 0; i < 4; i++)
		rdmarig_work(&works[i], 0, IBV_WR_RDMA_WRITE, 0, i * KIB, KIB);
	rdmarig_work(&works[4], 0, IBV_WR_RDMA_READ, 0, 0, 900 * KIB);
	rdmarig_post(0, works, 5);
	rdmarig_us(30);
	kv_rdmaqp_fence(rdmarig[0].qp);
	rdmarig_ms(10);
	for (i = 0; i < 5; i++) {
		assert_int_equal(works[i].done, 1);
		good += works[i].status == 0;
	}
	assert_int_equal(works[4].status, -ECANCELED);
	assert_int_equal(good, 4);
	assert_true(rdmarig[0].qp_over);
}

/* ---- a device that does not tell the truth ---- */

static int (*real_poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static bool is_mute; /* else it says that all is well */

/* Of what fails as nothing else does. */
static int
poll_liar(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = real_poll(cq, n, wc), kept = 0;

	for (int i = 0; i < got; i++) {
		if (wc[i].status == IBV_WC_GENERAL_ERR && is_mute)
			continue;
		wc[kept] = wc[i];
		if (wc[kept].status == IBV_WC_GENERAL_ERR)
			wc[kept].status = IBV_WC_SUCCESS;
		kept++;
	}
	return kept;
}

/* The nth of n READs, posted in chains of that many, fails. */
static void
lie(unsigned n, unsigned chain, unsigned nth)
{
	const struct hca_fault fault = {
		.status = IBV_WC_GENERAL_ERR,
		.nth = nth,
	};
	struct ibv_context *ctx = rdmarig[0].nic.ctx;

	rdmarig[0].qp->is_soft = true;
	real_poll = ctx->ops.poll_cq;
	ctx->ops.poll_cq = poll_liar;
	hca_fail_wr(rdmarig[0].port, &fault);
	for (unsigned i = 0; i < n; i++)
		rdmarig_work(&works[i], 0, IBV_WR_RDMA_READ, i * 4 * KIB,
			     i * 4 * KIB, 4 * KIB);
	for (unsigned i = 0; i < n; i += chain)
		rdmarig_post(0, works + i, chain);
	rdmarig_ms(100);
	ctx->ops.poll_cq = real_poll;
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(works[i].done, 1);
		if (works[i].status == 0)
			bytes_are_equal(i * 4 * KIB, i * 4 * KIB, 4 * KIB);
	}
	assert_int_not_equal(works[nth - 1].status, 0);
	assert_true(rdmarig[0].qp_over);
}

static void
soft_roce_is_not_believed(void **state)
{
	(void)state;
	is_mute = false;
	lie(8, 1, 3);
	assert_int_equal(works[0].status, 0);
	assert_int_equal(works[1].status, 0);
}

static void
nor_when_it_says_nothing(void **state)
{
	(void)state;
	is_mute = true;
	lie(8, 4, 2);
}

static void
nor_of_the_last_one(void **state)
{
	(void)state;
	is_mute = false;
	lie(3, 1, 3);
	assert_int_equal(works[1].status, 0);
	assert_int_equal(rdmarig[0].qp_why, -EIO);
}

static void
what_soft_roce_reads_well_is_told(void **state)
{
	(void)state;
	rdmarig[0].qp->is_soft = true;
	for (unsigned k = 0; k < 3; k++) {
		for (unsigned i = 0; i < 10; i++)
			rdmarig_work(&works[i], 0, IBV_WR_RDMA_READ,
				     i * 4 * KIB, i * 4 * KIB, 4 * KIB);
		rdmarig_post(0, works, 10);
		rdmarig_ms(10);
		for (unsigned i = 0; i < 10; i++)
			ended_with(&works[i], 0);
		assert_int_equal(kv_rdmaqp_room(rdmarig[0].qp), RDMARIG_DEPTH);
	}
}

static void
freeing_it_gives_all_back_at_once(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < 8; i++)
		rdmarig_work(&works[i], 1, IBV_WR_RDMA_READ, i * 64 * KIB,
			     i * 64 * KIB, 64 * KIB);
	rdmarig_post(1, works, 8);
	rdmarig_us(20);
	kv_rdmaqp_free(rdmarig[1].qp);
	rdmarig[1].qp = NULL;
	for (i = 0; i < 8; i++)
		assert_int_equal(works[i].done, 1);
	assert_int_equal(works[7].status, -ECANCELED);
	memcpy(before, rdmarig[1].buf, RDMARIG_BYTES);
	rdmarig_ms(100);
	assert_memory_equal(before, rdmarig[1].buf, RDMARIG_BYTES);
	assert_false(rdmarig[1].qp_over);
}

static void
there_is_room_for_so_many_only(void **state)
{
	const struct kv_rdmaqp_opts o = { .depth = 256 };

	(void)state;
	errno = 0;
	assert_null(kv_rdmaqp_new(rdmarig[0].cq, &o));
	assert_int_equal(errno, ENOSPC);
}

#define READY(f)                                                \
	cmocka_unit_test_setup_teardown(f, rdmarig_setup_ready, \
					rdmarig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		READY(both_sides_have_the_words),
		READY(bytes_are_written),
		READY(bytes_are_read),
		READY(the_end_comes_after_the_bytes),
		READY(it_goes_on_and_on),
		READY(what_is_forbidden_fails_and_takes_the_rest_along),
		READY(own_memory_is_checked_too),
		READY(a_cut_is_noticed_within_a_second),
		READY(of_a_device_that_is_gone_a_fence_gives_all_back),
		READY(a_fence_stops_the_other_side),
		READY(a_fence_stops_this_side),
		READY(what_had_ended_before_a_fence_ended_well),
		READY(soft_roce_is_not_believed),
		READY(nor_when_it_says_nothing),
		READY(nor_of_the_last_one),
		READY(what_soft_roce_reads_well_is_told),
		READY(freeing_it_gives_all_back_at_once),
		READY(there_is_room_for_so_many_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

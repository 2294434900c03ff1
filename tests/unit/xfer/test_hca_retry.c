/* The fake device: what is tried again, and how often. */

#include "hcarig.h"

#include <errno.h>
#include <string.h>

#include "base/attr.h"

#include "test.h"

enum {
	SEEDS = 30,
	LONG = 60000,
	TIMEOUT_NS = 4096 << 14,
};

static struct hcarig rig;

static const struct hcarig_wr long_write = {
	.id = 1,
	.opcode = IBV_WR_RDMA_WRITE,
	.flags = IBV_SEND_SIGNALED,
	.bytes = LONG,
};
static const struct hcarig_wr long_read = {
	.id = 1,
	.opcode = IBV_WR_RDMA_READ,
	.flags = IBV_SEND_SIGNALED,
	.bytes = LONG,
};

static struct hcarig_opts
rough(uint64_t seed)
{
	return (struct hcarig_opts){
		.hca = { .seed = seed,
			 .jitter_ns = 5000,
			 .place_ns = 20000,
			 .flush_ns = 5000,
			 .piece_bytes = 4096 },
	};
}

static void
open_connected(struct hcarig_opts opts)
{
	hcarig_open(&rig, &opts);
	hcarig_connect(&rig);
}

/* ---- time-outs ---- */

static uint64_t
fails_after_ns(uint8_t timeout, uint8_t retry_cnt)
{
	struct ibv_wc wc;

	open_connected((struct hcarig_opts){ .timeout = timeout,
					     .retry_cnt = retry_cnt });
	hca_cut(rig.end[0].port, NULL, true);
	assert_int_equal(hcarig_post(&rig, 0, &long_write), 0);
	while (!hcarig_poll(&rig, 0, &wc) && rig.clock.ns < 100 * KV_NS_PER_S)
		hcarig_run(&rig, 100000);
	if (rig.clock.ns < 100 * KV_NS_PER_S) {
		assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(rig.end[0].qp->state, IBV_QPS_ERR);
		assert_int_equal(rig.end[1].qp->state, IBV_QPS_RTS);
	}
	hcarig_close(&rig);
	return rig.clock.ns;
}

static void
a_dead_way_is_noticed_after_its_time(void **state)
{
	(void)state;
	assert_in_range(fails_after_ns(14, 0), TIMEOUT_NS, TIMEOUT_NS + 200000);
	assert_in_range(fails_after_ns(14, 6), 7 * TIMEOUT_NS,
			7 * TIMEOUT_NS + 200000);
	assert_in_range(fails_after_ns(15, 1), 4 * TIMEOUT_NS,
			4 * TIMEOUT_NS + 200000);
	/* For ever. */
	assert_in_range(fails_after_ns(14, 7), 100 * KV_NS_PER_S, UINT64_MAX);
}

static void
without_a_time_out_it_waits(void **state)
{
	struct ibv_qp_attr attr;
	int mask;

	(void)state;
	hcarig_open(&rig, &(struct hcarig_opts){ 0 });
	assert_int_equal(hcarig_modify(&rig, 0, IBV_QPS_INIT), 0);
	assert_int_equal(hcarig_modify(&rig, 0, IBV_QPS_RTR), 0);
	mask = hcarig_attr(&rig, 0, IBV_QPS_RTS, &attr);
	attr.timeout = 0;
	assert_int_equal(rig.end[0].v->modify_qp(rig.end[0].qp, &attr, mask),
			 0);
	assert_int_equal(hcarig_post(&rig, 0, &long_write), 0);
	hcarig_run(&rig, 100 * KV_NS_PER_S);
	hcarig_expect_none(&rig, 0);
	hcarig_close(&rig);
}

/* It was on its way already. */
static void
a_cut_takes_what_is_on_the_way(void **state)
{
	static uint8_t then[HCARIG_BYTES];

	(void)state;
	open_connected((struct hcarig_opts){ .hca.latency_ns = KV_NS_PER_MS });
	memcpy(then, rig.end[1].buf, HCARIG_BYTES);
	assert_int_equal(hcarig_post(&rig, 0, &long_write), 0);
	hcarig_run(&rig, KV_NS_PER_MS / 2);
	hca_cut(rig.end[0].port, NULL, true);
	/* What is said of the one way does not undo what is said of all. */
	hca_delay(rig.end[0].port, rig.end[1].port, 1);
	hcarig_run(&rig, KV_NS_PER_S);
	assert_memory_equal(rig.end[1].buf, then, HCARIG_BYTES);
	hcarig_expect(&rig, 0, 1, IBV_WC_RETRY_EXC_ERR);
	hcarig_close(&rig);
}

/* What comes late to a QP that was begun anew is not for it. */
static void
late_answers_are_of_an_earlier_life(void **state)
{
	struct hcarig_wr w = { .id = 1,
			       .flags = IBV_SEND_SIGNALED,
			       .bytes = 8 };

	(void)state;
	open_connected((struct hcarig_opts){ .hca.latency_ns = KV_NS_PER_MS });
	for (int i = 0; i < 3; i++)
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, KV_NS_PER_MS + 1000);
	for (int i = 0; i < 2; i++)
		assert_int_equal(hcarig_modify(&rig, i, IBV_QPS_RESET), 0);
	hcarig_connect(&rig);
	hcarig_run(&rig, 2 * KV_NS_PER_MS);
	hcarig_expect_none(&rig, 0);
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_SUCCESS);
	assert_memory_equal(rig.end[1].buf, rig.end[0].buf, 8);
	hca_cut(rig.end[0].port, NULL, true);
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_RETRY_EXC_ERR);
	hcarig_close(&rig);
}

/* A QP takes messages of the one that it is connected to. */
static void
a_stranger_is_not_heard(void **state)
{
	static uint8_t then[HCARIG_BYTES];
	struct ibv_qp *friend;
	struct ibv_qp_attr attr;
	int mask;

	(void)state;
	open_connected((struct hcarig_opts){ 0 });
	memcpy(then, rig.end[1].buf, HCARIG_BYTES);
	friend = rig.end[0].qp;
	rig.end[0].qp = hcarig_qp(&rig, 0);
	assert_int_equal(hcarig_modify(&rig, 0, IBV_QPS_INIT), 0);
	assert_int_equal(hcarig_modify(&rig, 0, IBV_QPS_RTR), 0);
	mask = hcarig_attr(&rig, 0, IBV_QPS_RTS, &attr);
	attr.sq_psn = friend->qp_num;
	assert_int_equal(rig.end[0].v->modify_qp(rig.end[0].qp, &attr, mask),
			 0);
	assert_int_equal(hcarig_do(&rig, 0, &long_write), IBV_WC_RETRY_EXC_ERR);
	assert_memory_equal(rig.end[1].buf, then, HCARIG_BYTES);
	assert_int_equal(rig.end[0].v->destroy_qp(friend), 0);
	hcarig_close(&rig);
}

static void
a_way_back_that_is_cut_is_dead_too(void **state)
{
	(void)state;
	open_connected((struct hcarig_opts){ 0 });
	hca_cut(rig.end[1].port, rig.end[0].port, true);
	assert_int_equal(hcarig_do(&rig, 0, &long_write), IBV_WC_RETRY_EXC_ERR);
	/* It was done, only nobody knows. */
	assert_memory_equal(rig.end[1].buf, rig.end[0].buf, LONG);
	hcarig_close(&rig);
}

static void
a_healed_way_goes_on(void **state)
{
	static const struct hcarig_wr *const wrs[] = { &long_write,
						       &long_read };

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct hcarig_opts opts = rough(seed);

		opts.retry_cnt = 3;
		open_connected(opts);
		assert_int_equal(hcarig_post(&rig, 0, wrs[seed & 1]), 0);
		hcarig_run(&rig, 15000);
		hca_cut(rig.end[seed & 1].port, NULL, true);
		hcarig_run(&rig, 2 * (uint64_t)TIMEOUT_NS);
		hcarig_expect_none(&rig, 0);
		hca_cut(rig.end[seed & 1].port, NULL, false);
		hcarig_run(&rig, 2 * (uint64_t)TIMEOUT_NS);
		hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
		assert_memory_equal(rig.end[1].buf, rig.end[0].buf, LONG);
		hcarig_close(&rig);
	}
}

/* First the way back is cut, then that there: more has come than is known of.
 */
static void
what_came_is_not_done_twice(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct hcarig_opts opts = rough(seed);
		struct hcarig_wr send = long_write;

		send.opcode = IBV_WR_SEND;
		opts.retry_cnt = 3;
		open_connected(opts);
		assert_int_equal(hcarig_recv(&rig, 1, 5, 0, LONG), 0);
		assert_int_equal(
			hcarig_post(&rig, 0, seed & 1 ? &send : &long_write),
			0);
		hcarig_run(&rig, 12000);
		hca_cut(rig.end[1].port, NULL, true);
		hcarig_run(&rig, 15000);
		hca_cut(rig.end[0].port, NULL, true);
		hcarig_run(&rig, 20000);
		hca_cut(rig.end[0].port, NULL, false);
		hca_cut(rig.end[1].port, NULL, false);
		hcarig_run(&rig, 4 * (uint64_t)TIMEOUT_NS);
		hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
		assert_memory_equal(rig.end[1].buf, rig.end[0].buf, LONG);
		if (seed & 1)
			hcarig_expect(&rig, 1, 5, IBV_WC_SUCCESS);
		hcarig_expect_none(&rig, 1);
		hcarig_close(&rig);
	}
}

/* That something is missing is seen by what comes after it, at once, and each
 * time. */
static void
a_gap_is_told(void **state)
{
	struct hcarig_wr w = { .bytes = 8, .flags = IBV_SEND_SIGNALED };

	(void)state;
	open_connected((struct hcarig_opts){ .retry_cnt = 1 });
	for (int i = 0; i < 3; i++) {
		hca_cut(rig.end[0].port, NULL, true);
		w.id = 0;
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
		hcarig_run(&rig, 5000);
		hca_cut(rig.end[0].port, NULL, false);
		w.id = 1;
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
		hcarig_run(&rig, 10000);
		hcarig_expect(&rig, 0, 0, IBV_WC_SUCCESS);
		hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
	}
	hcarig_close(&rig);
}

/* The time-out is shorter than the way there and back: all is sent several
 * times, and done once. */
static void
a_hasty_requester_does_no_harm(void **state)
{
	struct hcarig_wr w = { .bytes = 8, .flags = IBV_SEND_SIGNALED };

	(void)state;
	open_connected((struct hcarig_opts){ .hca.latency_ns = 3000000,
					     .timeout = 9, /* 2 ms */
					     .retry_cnt = 7 });
	for (w.id = 0; w.id < 8; w.id++) {
		w.opcode = w.id & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	}
	hcarig_run(&rig, 20 * KV_NS_PER_MS);
	for (uint64_t i = 0; i < 8; i++)
		hcarig_expect(&rig, 0, i, IBV_WC_SUCCESS);
	hcarig_expect_none(&rig, 0);
	hcarig_close(&rig);
}

/* While it is sent again it turns out that it had all come: its memory is given
 * back, and not read any more. */
static void
what_is_complete_is_not_sent_again(void **state)
{
	struct hcarig_wr w = { .bytes = 8000, .flags = IBV_SEND_SIGNALED };
	struct hcarig_end *e = &rig.end[0];
	struct ibv_mr *mr;
	struct ibv_wc wc;

	(void)state;
	open_connected((struct hcarig_opts){ .retry_cnt = 1 });
	mr = e->v->reg_mr(e->pd, e->buf, 8000, 0);
	w.lkey = mr->lkey;
	hca_rate(e->port, 1);
	hca_cut(rig.end[1].port, NULL, true);
	for (int i = 0; i < 8; i++)
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, 100000);
	hca_cut(rig.end[1].port, NULL, false);
	for (int i = 0; i < 8; i++)
		while (!hcarig_poll(&rig, 0, &wc))
			hcarig_run(&rig, 100);
	e->v->dereg_mr(mr);
	w.lkey = 0;
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_SUCCESS);
	hcarig_close(&rig);
}

/* Asked again and again while nothing came back, it is answered once: the next
 * one finds the way free. */
static void
a_read_is_answered_once(void **state)
{
	(void)state;
	open_connected((struct hcarig_opts){ .hca.piece_bytes = 4096,
					     .timeout = 3, /* 33 us, of 60 */
					     .retry_cnt = 7 });
	hca_rate(rig.end[1].port, 1);
	hca_cut(rig.end[1].port, NULL, true);
	assert_int_equal(hcarig_post(&rig, 0, &long_read), 0);
	hcarig_run(&rig, 10 * KV_NS_PER_MS);
	hca_cut(rig.end[1].port, NULL, false);
	for (int i = 0; i < 2; i++) {
		hcarig_run(&rig, 200000);
		hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
		assert_int_equal(hcarig_post(&rig, 0, &long_read), 0);
	}
	hcarig_close(&rig);
}

/* The answer to a bad request waits for those before it, and is one. */
static void
a_refusal_waits_for_its_turn(void **state)
{
	struct hcarig_wr bad = { .id = 2, .far = HCARIG_BYTES, .bytes = 8 };

	(void)state;
	open_connected((struct hcarig_opts){ .timeout = 9, .retry_cnt = 7 });
	hca_rate(rig.end[1].port, 0.001); /* 60 ms; tried again after 2 */
	assert_int_equal(hcarig_post(&rig, 0, &long_read), 0);
	assert_int_equal(hcarig_post(&rig, 0, &bad), 0);
	hcarig_run(&rig, 20 * KV_NS_PER_MS);
	hcarig_expect_none(&rig, 0);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_QP_ACCESS_ERR);
	hcarig_run(&rig, 80 * KV_NS_PER_MS);
	hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
	hcarig_expect(&rig, 0, 2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(hcarig_async(&rig, 1), -1);
	hcarig_close(&rig);
}

/* A transfer that moves, however slowly, is no dead one. */
static void
a_slow_way_is_not_dead(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct hcarig_opts opts = rough(1);

		opts.timeout = 4; /* 65 us, of 600 */
		open_connected(opts);
		hca_rate(rig.end[0].port, 0.1);
		assert_int_equal(
			hcarig_do(&rig, 0, i ? &long_read : &long_write),
			IBV_WC_SUCCESS);
		hcarig_close(&rig);
	}
	/* However large the pieces might be. */
	open_connected((struct hcarig_opts){ .timeout = 10 });
	hca_rate(rig.end[1].port, 0.01); /* 6 ms, of 4 */
	assert_int_equal(hcarig_do(&rig, 0, &long_read), IBV_WC_SUCCESS);
	hcarig_close(&rig);
}

/* ---- receives that are not there ---- */

static const struct hcarig_wr short_send = {
	.id = 1,
	.opcode = IBV_WR_SEND,
	.flags = IBV_SEND_SIGNALED,
	.bytes = 8,
};

static void
without_a_receive_it_is_tried_again(void **state)
{
	(void)state;
	/* Code 14 is 1.28 ms. */
	open_connected(
		(struct hcarig_opts){ .rnr_retry = 2, .min_rnr_timer = 14 });
	assert_int_equal(hcarig_post(&rig, 0, &short_send), 0);
	hcarig_run(&rig, 2000000);
	hcarig_expect_none(&rig, 0);
	assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 8), 0);
	hcarig_run(&rig, 400000);
	hcarig_expect_none(&rig, 0);
	hcarig_run(&rig, 400000);
	hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
	hcarig_expect(&rig, 1, 5, IBV_WC_SUCCESS);
	/* The next one is tried as often as this one was. */
	assert_int_equal(hcarig_post(&rig, 0, &short_send), 0);
	hcarig_run(&rig, 2 * 1280000);
	hcarig_expect_none(&rig, 0);
	hcarig_run(&rig, 100000);
	hcarig_expect(&rig, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(rig.end[0].qp->state, IBV_QPS_ERR);
	assert_int_equal(rig.end[1].qp->state, IBV_QPS_RTS);
	hcarig_close(&rig);
}

static void
without_a_receive_it_is_tried_for_ever(void **state)
{
	struct hcarig_wr w = short_send;

	(void)state;
	w.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	open_connected(
		(struct hcarig_opts){ .rnr_retry = 7, .min_rnr_timer = 12 });
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, 10 * KV_NS_PER_S);
	hcarig_expect_none(&rig, 0);
	assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 0), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
	hcarig_close(&rig);
}

static void
a_receive_that_is_too_small_is_an_error(void **state)
{
	(void)state;
	open_connected((struct hcarig_opts){ 0 });
	assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 7), 0);
	assert_int_equal(hcarig_do(&rig, 0, &short_send),
			 IBV_WC_REM_INV_REQ_ERR);
	hcarig_expect(&rig, 1, 5, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(rig.end[1].qp->state, IBV_QPS_ERR);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_QP_REQ_ERR);
	hcarig_close(&rig);
}

static void
a_receive_into_nowhere_is_an_error(void **state)
{
	(void)state;
	open_connected((struct hcarig_opts){ 0 });
	assert_int_equal(hcarig_recv(&rig, 1, 5, HCARIG_BYTES - 4, 8), 0);
	assert_int_equal(hcarig_do(&rig, 0, &short_send), IBV_WC_REM_OP_ERR);
	hcarig_expect(&rig, 1, 5, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_QP_REQ_ERR);
	hcarig_close(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dead_way_is_noticed_after_its_time),
		cmocka_unit_test(without_a_time_out_it_waits),
		cmocka_unit_test(a_cut_takes_what_is_on_the_way),
		cmocka_unit_test(late_answers_are_of_an_earlier_life),
		cmocka_unit_test(a_stranger_is_not_heard),
		cmocka_unit_test(a_way_back_that_is_cut_is_dead_too),
		cmocka_unit_test(a_healed_way_goes_on),
		cmocka_unit_test(what_came_is_not_done_twice),
		cmocka_unit_test(a_gap_is_told),
		cmocka_unit_test(a_hasty_requester_does_no_harm),
		cmocka_unit_test(what_is_complete_is_not_sent_again),
		cmocka_unit_test(a_read_is_answered_once),
		cmocka_unit_test(a_refusal_waits_for_its_turn),
		cmocka_unit_test(a_slow_way_is_not_dead),
		cmocka_unit_test(without_a_receive_it_is_tried_again),
		cmocka_unit_test(without_a_receive_it_is_tried_for_ever),
		cmocka_unit_test(a_receive_that_is_too_small_is_an_error),
		cmocka_unit_test(a_receive_into_nowhere_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

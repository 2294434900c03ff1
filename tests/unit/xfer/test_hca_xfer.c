/* The fake device: how messages travel, in which order, at which speed. */

#include "hcarig.h"

#include <string.h>

#include "base/attr.h"
#include "base/rng.h"

#include "test.h"

enum {
	SEEDS = 20,
	MANY = 24,
};

static struct hcarig rig;

static const struct hcarig_opts rough = {
	.hca = { .jitter_ns = 5000,
		 .place_ns = 20000,
		 .flush_ns = 5000,
		 .piece_bytes = 4096 },
};

static void
open_connected(struct hcarig_opts opts, uint64_t seed)
{
	opts.hca.seed = seed;
	hcarig_open(&rig, &opts);
	hcarig_connect(&rig);
}

/* All kinds, in both directions at once: every byte is where it belongs. */
static void
mix(struct hcarig *r, struct kv_rng *rng)
{
	enum {
		BYTES = 1000
	};
	static uint8_t was[2][HCARIG_BYTES];
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_READ,
						  IBV_WR_SEND };
	enum ibv_wr_opcode op[MANY];
	struct ibv_wc wc;

	memcpy(was[0], r->end[0].buf, HCARIG_BYTES);
	memcpy(was[1], r->end[1].buf, HCARIG_BYTES);
	for (uint32_t i = 0; i < MANY; i++) {
		op[i] = ops[kv_rng_below(rng, 3)];
		if (op[i] == IBV_WR_SEND)
			assert_int_equal(hcarig_recv(r, 1, i, i * BYTES, BYTES),
					 0);
		assert_int_equal(hcarig_post(r, 0,
					     &(struct hcarig_wr){
						     .id = i,
						     .opcode = op[i],
						     .flags = IBV_SEND_SIGNALED,
						     .at = i * BYTES,
						     .far = i * BYTES,
						     .bytes = BYTES }),
				 0);
	}
	hcarig_run(r, KV_NS_PER_S);
	for (uint32_t i = 0; i < MANY; i++) {
		bool is_read = op[i] == IBV_WR_RDMA_READ;

		hcarig_expect(r, 0, i, IBV_WC_SUCCESS);
		assert_memory_equal(r->end[0].buf + i * BYTES,
				    was[is_read] + i * BYTES, BYTES);
		assert_memory_equal(r->end[1].buf + i * BYTES,
				    was[is_read] + i * BYTES, BYTES);
		if (op[i] != IBV_WR_SEND)
			continue;
		assert_true(hcarig_poll(r, 1, &wc));
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, BYTES);
		assert_int_equal(wc.src_qp, r->end[0].qp->qp_num);
	}
	hcarig_expect_none(r, 0);
	hcarig_expect_none(r, 1);
}

static void
every_byte_comes_to_its_place(void **state)
{
	struct kv_rng rng;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		kv_rng_seed(&rng, seed);
		open_connected(rough, seed);
		mix(&rig, &rng);
		hcarig_close(&rig);
	}
}

/* The same through a link that loses every tenth packet. */
static void
what_is_lost_is_sent_again(void **state)
{
	struct hcarig_opts opts = rough;
	struct kv_rng rng;

	(void)state;
	opts.retry_cnt = 7;
	opts.timeout = 8; /* 1 ms */
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		kv_rng_seed(&rng, seed);
		open_connected(opts, seed);
		hca_loss(rig.end[0].port, NULL, 0.1);
		hca_loss(rig.end[1].port, rig.end[0].port, 0.1);
		mix(&rig, &rng);
		hcarig_close(&rig);
	}
}

static uint64_t
fingerprint(uint64_t seed)
{
	struct hcarig_wr w = { .id = 1,
			       .opcode = IBV_WR_RDMA_WRITE,
			       .flags = IBV_SEND_SIGNALED,
			       .bytes = 40000 };
	struct ibv_wc wc;
	uint64_t at;

	open_connected(rough, seed);
	hca_loss(rig.end[0].port, NULL, 0.05);
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	while (!hcarig_poll(&rig, 0, &wc))
		hcarig_run(&rig, 1);
	at = rig.clock.ns;
	hcarig_close(&rig);
	return at;
}

static void
a_seed_is_a_run(void **state)
{
	(void)state;
	assert_int_equal(fingerprint(3), fingerprint(3));
	assert_int_not_equal(fingerprint(3), fingerprint(4));
}

/* A SEND after a WRITE arrives after its bytes, even if these are slow. */
static void
a_message_comes_after_the_bytes_before_it(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct ibv_wc wc;

		open_connected(rough, seed);
		assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 8), 0);
		assert_int_equal(
			hcarig_post(&rig, 0,
				    &(struct hcarig_wr){
					    .opcode = IBV_WR_RDMA_WRITE,
					    .at = 1000,
					    .far = 1000,
					    .bytes = 20000 }),
			0);
		assert_int_equal(
			hcarig_post(&rig, 0,
				    &(struct hcarig_wr){ .opcode = IBV_WR_SEND,
							 .bytes = 8 }),
			0);
		while (!hcarig_poll(&rig, 1, &wc))
			hcarig_run(&rig, 100);
		assert_memory_equal(rig.end[1].buf + 1000,
				    rig.end[0].buf + 1000, 20000);
		hcarig_close(&rig);
	}
}

static void
a_write_with_a_word_takes_a_receive(void **state)
{
	struct hcarig_wr w = { .id = 77,
			       .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			       .bytes = 5000 };
	struct ibv_wc wc;

	(void)state;
	open_connected(rough, 1);
	assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 0), 0);
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	while (!hcarig_poll(&rig, 1, &wc))
		hcarig_run(&rig, 100);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
	assert_int_equal(be32toh(wc.imm_data), 77);
	assert_int_equal(wc.byte_len, 5000);
	assert_memory_equal(rig.end[1].buf, rig.end[0].buf, 5000);
	hcarig_close(&rig);
}

/* In some run the acknowledgement is there and the last bytes are not. */
static void
an_acknowledgement_is_not_placement(void **state)
{
	struct hcarig_wr w = { .opcode = IBV_WR_RDMA_WRITE,
			       .flags = IBV_SEND_SIGNALED,
			       .bytes = 8000 };
	unsigned late = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct ibv_wc wc;

		open_connected(rough, seed);
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
		while (!hcarig_poll(&rig, 0, &wc))
			hcarig_run(&rig, 10);
		late += memcmp(rig.end[0].buf, rig.end[1].buf, 8000) != 0;
		hcarig_run(&rig, KV_NS_PER_MS);
		assert_memory_equal(rig.end[1].buf, rig.end[0].buf, 8000);
		hcarig_close(&rig);
	}
	assert_in_range(late, 1, SEEDS);
}

/* But a READ of the same QP sees them, and that is what the end of it is for.
 */
static void
a_read_sees_what_was_written_before(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		open_connected(rough, seed);
		assert_int_equal(
			hcarig_post(&rig, 0,
				    &(struct hcarig_wr){
					    .opcode = IBV_WR_RDMA_WRITE,
					    .bytes = 8000 }),
			0);
		assert_int_equal(hcarig_do(&rig, 0,
					   &(struct hcarig_wr){
						   .opcode = IBV_WR_RDMA_READ,
						   .at = 10000,
						   .far = 7992,
						   .bytes = 8 }),
				 IBV_WC_SUCCESS);
		assert_memory_equal(rig.end[0].buf + 10000,
				    rig.end[0].buf + 7992, 8);
		hcarig_close(&rig);
	}
}

/* Of two writes to one place the later one stays. */
static void
writes_are_placed_in_order(void **state)
{
	struct hcarig_wr w = { .flags = IBV_SEND_INLINE, .bytes = 8 };

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		open_connected((struct hcarig_opts){ .hca.place_ns = 3 }, seed);
		for (w.at = 0; w.at < 60 * 8; w.at += 8)
			assert_int_equal(hcarig_post(&rig, 0, &w), 0);
		hcarig_run(&rig, KV_NS_PER_MS);
		assert_memory_equal(rig.end[1].buf, rig.end[0].buf + w.at - 8,
				    8);
		hcarig_close(&rig);
	}
}

static void
qps_overtake_each_other(void **state)
{
	unsigned overtook = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct ibv_qp *first[2], *second[2];
		struct hcarig_wr w = { .opcode = IBV_WR_SEND, .bytes = 8 };
		struct ibv_wc wc;

		open_connected(rough, seed);
		for (int i = 0; i < 2; i++) {
			first[i] = rig.end[i].qp;
			second[i] = hcarig_qp(&rig, i);
		}
		rig.end[0].qp = second[0];
		rig.end[1].qp = second[1];
		hcarig_connect(&rig);
		assert_int_equal(hcarig_recv(&rig, 1, 2, 0, 8), 0);
		rig.end[0].qp = first[0];
		rig.end[1].qp = first[1];
		assert_int_equal(hcarig_recv(&rig, 1, 1, 0, 8), 0);
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
		rig.end[0].qp = second[0];
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
		rig.end[0].qp = first[0];
		hcarig_run(&rig, KV_NS_PER_MS);
		assert_true(hcarig_poll(&rig, 1, &wc));
		overtook += wc.wr_id == 2;
		for (int i = 0; i < 2; i++)
			assert_int_equal(rig.end[i].v->destroy_qp(second[i]),
					 0);
		hcarig_close(&rig);
	}
	assert_in_range(overtook, 1, SEEDS - 1);
}

/* What is under way at one time, by what the far end still owes. */
static void
reads_wait_for_their_depth(void **state)
{
	struct hcarig_wr w = { .opcode = IBV_WR_RDMA_READ,
			       .flags = IBV_SEND_SIGNALED,
			       .bytes = 8 };
	struct ibv_wc wc;
	unsigned done = 0;

	(void)state;
	open_connected((struct hcarig_opts){ .hca = { .latency_ns = 10000 },
					     .max_rd = { 4, 4 } },
		       1);
	for (int i = 0; i < 8; i++)
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, 30000); /* one and a half round trips */
	while (hcarig_poll(&rig, 0, &wc))
		done++;
	assert_int_equal(done, 4);
	hcarig_run(&rig, 20000);
	while (hcarig_poll(&rig, 0, &wc))
		done++;
	assert_int_equal(done, 8);
	hcarig_close(&rig);
}

static void
more_reads_than_the_responder_takes_are_an_error(void **state)
{
	struct hcarig_wr w = { .id = 1,
			       .opcode = IBV_WR_RDMA_READ,
			       .flags = IBV_SEND_SIGNALED,
			       .bytes = 30000 };

	(void)state;
	open_connected((struct hcarig_opts){ .max_dest_rd = { 2, 2 } }, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
	hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
	hcarig_expect(&rig, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(rig.end[1].qp->state, IBV_QPS_ERR);
	hcarig_close(&rig);
}

/* Bytes of a WRITE after a READ are taken after it came, if they are fenced. */
static void
a_fence_waits_for_reads(void **state)
{
	struct hcarig_wr read = { .opcode = IBV_WR_RDMA_READ, .bytes = 30000 };
	struct hcarig_wr write = { .opcode = IBV_WR_RDMA_WRITE,
				   .flags = IBV_SEND_FENCE,
				   .at = 29992,
				   .far = 40000,
				   .bytes = 8 };
	uint8_t was[8];

	(void)state;
	for (int fenced = 0; fenced < 2; fenced++) {
		open_connected(rough, 1);
		memcpy(was, rig.end[0].buf + 29992, 8);
		write.flags = fenced ? IBV_SEND_FENCE : 0;
		assert_int_equal(hcarig_post(&rig, 0, &read), 0);
		assert_int_equal(hcarig_post(&rig, 0, &write), 0);
		hcarig_run(&rig, KV_NS_PER_MS);
		assert_memory_equal(rig.end[1].buf + 40000,
				    fenced ? rig.end[1].buf + 29992 : was, 8);
		hcarig_close(&rig);
	}
}

/* 1 MB through 12.5 GB/s, and at half of that. */
static uint64_t
takes_ns(double rate, enum ibv_wr_opcode opcode, int end)
{
	enum {
		N = 20
	};
	struct hcarig_wr w = { .opcode = opcode, .bytes = 50000 };
	struct ibv_wc wc;

	open_connected((struct hcarig_opts){ 0 }, 1);
	if (rate > 0)
		hca_rate(rig.end[end].port, rate);
	for (int i = 0; i < N; i++) {
		w.flags = i == N - 1 ? IBV_SEND_SIGNALED : 0;
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	}
	while (!hcarig_poll(&rig, 0, &wc))
		hcarig_run(&rig, 100);
	hcarig_close(&rig);
	return wc.status == IBV_WC_SUCCESS ? rig.clock.ns : 0;
}

static void
ports_have_their_speed(void **state)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_READ };

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_in_range(takes_ns(0, ops[i], 0), 80000, 84000);
		assert_in_range(takes_ns(6.25, ops[i], 0), 160000, 172000);
		assert_in_range(takes_ns(6.25, ops[i], 1), 160000, 172000);
	}
}

static void
a_way_has_its_latency(void **state)
{
	struct hcarig_wr w = { .opcode = IBV_WR_RDMA_WRITE,
			       .flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	(void)state;
	open_connected((struct hcarig_opts){ 0 }, 1);
	hca_delay(rig.end[1].port, rig.end[0].port, 5000);
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	while (!hcarig_poll(&rig, 0, &wc))
		hcarig_run(&rig, 10);
	assert_in_range(rig.clock.ns, 7000, 7020);
	hcarig_close(&rig);
}

/* What is sent when the queue is to drain still comes; what was posted and not
 * begun waits. */
static void
a_drained_queue_goes_on_later(void **state)
{
	struct hcarig_wr w = { .id = 1,
			       .opcode = IBV_WR_RDMA_WRITE,
			       .flags = IBV_SEND_SIGNALED,
			       .bytes = 50000 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD,
				    .en_sqd_async_notify = 1 };

	(void)state;
	open_connected(rough, 1);
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	w.id = 2;
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, 6000);
	assert_int_equal(rig.end[0].v->modify_qp(
				 rig.end[0].qp, &attr,
				 IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	assert_int_equal(hcarig_async(&rig, 0), -1);
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
	hcarig_expect_none(&rig, 0);
	assert_int_equal(hcarig_async(&rig, 0), IBV_EVENT_SQ_DRAINED);
	w.id = 3;
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	assert_int_equal(hcarig_async(&rig, 0), -1);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(
		rig.end[0].v->modify_qp(rig.end[0].qp, &attr, IBV_QP_STATE), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect(&rig, 0, 2, IBV_WC_SUCCESS);
	hcarig_expect(&rig, 0, 3, IBV_WC_SUCCESS);
	hcarig_close(&rig);
}

static void
pieces_of_memory_are_one_message(void **state)
{
	struct ibv_sge from[3], to[2];
	struct ibv_send_wr wr = { .sg_list = from,
				  .num_sge = 3,
				  .opcode = IBV_WR_SEND };
	struct ibv_recv_wr recv = { .sg_list = to, .num_sge = 2 };
	struct ibv_send_wr *bad;
	struct ibv_recv_wr *bad_recv;
	uint8_t *a, *b;

	(void)state;
	open_connected(rough, 1);
	a = rig.end[0].buf;
	b = rig.end[1].buf;
	for (int i = 0; i < 3; i++)
		from[i] = (struct ibv_sge){ (uintptr_t)(a + 9000 * i), 3000,
					    rig.end[0].mr->lkey };
	to[0] = (struct ibv_sge){ (uintptr_t)b, 4000, rig.end[1].mr->lkey };
	to[1] = (struct ibv_sge){ (uintptr_t)(b + 20000), 6000,
				  rig.end[1].mr->lkey };
	assert_int_equal(ibv_post_recv(rig.end[1].qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(rig.end[0].qp, &wr, &bad), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_memory_equal(b, a, 3000);
	assert_memory_equal(b + 3000, a + 9000, 1000);
	assert_memory_equal(b + 20000, a + 10000, 2000);
	assert_memory_equal(b + 22000, a + 18000, 3000);
	hcarig_close(&rig);
}

static void
infiniband_goes_by_lid(void **state)
{
	struct hcarig_wr w = { .bytes = 1000 };

	(void)state;
	open_connected((struct hcarig_opts){ .infiniband = true }, 1);
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_SUCCESS);
	assert_memory_equal(rig.end[1].buf, rig.end[0].buf, 1000);
	hcarig_close(&rig);
}

static void
all_complete_if_the_queue_says_so(void **state)
{
	struct hcarig_wr w = { .id = 1, .bytes = 8 };

	(void)state;
	open_connected((struct hcarig_opts){ .sig_all = true }, 1);
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
	hcarig_close(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_comes_to_its_place),
		cmocka_unit_test(what_is_lost_is_sent_again),
		cmocka_unit_test(a_seed_is_a_run),
		cmocka_unit_test(a_message_comes_after_the_bytes_before_it),
		cmocka_unit_test(a_write_with_a_word_takes_a_receive),
		cmocka_unit_test(an_acknowledgement_is_not_placement),
		cmocka_unit_test(a_read_sees_what_was_written_before),
		cmocka_unit_test(writes_are_placed_in_order),
		cmocka_unit_test(qps_overtake_each_other),
		cmocka_unit_test(reads_wait_for_their_depth),
		cmocka_unit_test(
			more_reads_than_the_responder_takes_are_an_error),
		cmocka_unit_test(a_fence_waits_for_reads),
		cmocka_unit_test(ports_have_their_speed),
		cmocka_unit_test(a_way_has_its_latency),
		cmocka_unit_test(a_drained_queue_goes_on_later),
		cmocka_unit_test(pieces_of_memory_are_one_message),
		cmocka_unit_test(infiniband_goes_by_lid),
		cmocka_unit_test(all_complete_if_the_queue_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

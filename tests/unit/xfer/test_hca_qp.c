/* The fake device: states of a QP, what may be posted, keys and bounds. */

#include "hcarig.h"

#include <errno.h>
#include <string.h>

#include "base/attr.h"

#include "test.h"

static struct hcarig rig;

#define WRITE_OF(n)                                                \
	{                                                          \
		.id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = (n) \
	}
#define READ_OF(n)                                                \
	{                                                         \
		.id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = (n) \
	}

static int
plain(void **state)
{
	*state = &rig;
	hcarig_open(&rig, &(struct hcarig_opts){ 0 });
	return 0;
}

static int
connected(void **state)
{
	plain(state);
	hcarig_connect(&rig);
	return 0;
}

static int
close_rig(void **state)
{
	(void)state;
	hcarig_close(&rig);
	return 0;
}

static void
each_state_wants_its_attributes(void **state)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR,
						    IBV_QPS_RTS };
	struct hcarig *r = *state;
	struct ibv_qp *qp = r->end[0].qp;
	struct ibv_qp_attr attr;

	for (size_t i = 0; i < KV_ARRAY_LEN(states); i++) {
		int mask = hcarig_attr(r, 0, states[i], &attr);

		for (int bit = 1; bit <= mask; bit <<= 1)
			if ((mask & bit) && bit != IBV_QP_STATE)
				assert_int_equal(
					r->end[0].v->modify_qp(qp, &attr,
							       mask & ~bit),
					EINVAL);
		assert_int_equal(
			r->end[0].v->modify_qp(qp, &attr, mask | IBV_QP_QKEY),
			EINVAL);
		assert_int_equal(r->end[0].v->modify_qp(qp, &attr, mask), 0);
		assert_int_equal(qp->state, states[i]);
	}
}

static void
states_come_in_order(void **state)
{
	struct hcarig *r = *state;

	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_RTR), EINVAL);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_RTS), EINVAL);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_SQD), EINVAL);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_INIT), 0);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_RTS), EINVAL);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_ERR), 0);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_INIT), EINVAL);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_RESET), 0);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_INIT), 0);
}

static void
attributes_are_checked(void **state)
{
	struct hcarig *r = *state;
	const struct kv_rdmaverbs *v = r->end[0].v;
	struct ibv_qp *qp = r->end[0].qp;
	struct ibv_qp_attr attr, good;
	int mask = hcarig_attr(r, 0, IBV_QPS_INIT, &attr);

	attr.port_num = 2;
	assert_int_equal(v->modify_qp(qp, &attr, mask), EINVAL);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_INIT), 0);
	mask = hcarig_attr(r, 0, IBV_QPS_RTR, &good);
#define BAD(field, value)                                                \
	do {                                                             \
		attr = good;                                             \
		attr.field = value;                                      \
		assert_int_equal(v->modify_qp(qp, &attr, mask), EINVAL); \
	} while (0)
	BAD(ah_attr.is_global, 0); /* RoCE has no other way */
	BAD(ah_attr.grh.sgid_index, 4);
	BAD(ah_attr.port_num, 2);
	BAD(max_dest_rd_atomic, 17);
	BAD(min_rnr_timer, 32);
	BAD(path_mtu, (enum ibv_mtu)0);
	assert_int_equal(v->modify_qp(qp, &good, mask), 0);
	mask = hcarig_attr(r, 0, IBV_QPS_RTS, &good);
	BAD(timeout, 32);
	BAD(retry_cnt, 8);
	BAD(rnr_retry, 8);
	BAD(max_rd_atomic, 17);
	assert_int_equal(v->modify_qp(qp, &good, mask), 0);
}

static void
posting_needs_a_state(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = WRITE_OF(8);

	assert_int_equal(hcarig_recv(r, 0, 1, 0, 8), EINVAL);
	assert_int_equal(hcarig_post(r, 0, &w), EINVAL);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_INIT), 0);
	assert_int_equal(hcarig_recv(r, 0, 1, 0, 8), 0);
	assert_int_equal(hcarig_post(r, 0, &w), EINVAL);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_RTR), 0);
	assert_int_equal(hcarig_post(r, 0, &w), EINVAL);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_RTS), 0);
	assert_int_equal(hcarig_post(r, 0, &w), 0);
}

static void
queues_have_their_depth(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = WRITE_OF(8);
	struct ibv_wc wc;

	for (int i = 0; i < 64; i++) {
		w.flags = i == 40 ? IBV_SEND_SIGNALED : 0;
		assert_int_equal(hcarig_post(r, 0, &w), 0);
		assert_int_equal(hcarig_recv(r, 0, 1, 0, 8), 0);
	}
	assert_int_equal(hcarig_post(r, 0, &w), ENOMEM);
	assert_int_equal(hcarig_recv(r, 0, 1, 0, 8), ENOMEM);
	hcarig_run(r, KV_NS_PER_MS);
	/* All are done: but only what is polled is known to be. */
	assert_int_equal(hcarig_post(r, 0, &w), ENOMEM);
	assert_true(hcarig_poll(r, 0, &wc));
	for (int i = 0; i < 41; i++)
		assert_int_equal(hcarig_post(r, 0, &w), 0);
	assert_int_equal(hcarig_post(r, 0, &w), ENOMEM);
}

static void
a_chain_stops_where_it_is_wrong(void **state)
{
	struct hcarig *r = *state;
	struct ibv_sge sge[5] = { 0 };
	struct ibv_send_wr wr[3] = {
		{ .wr_id = 1, .next = &wr[1], .opcode = IBV_WR_RDMA_WRITE },
		{ .wr_id = 2, .next = &wr[2], .opcode = IBV_WR_RDMA_WRITE },
		{ .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE },
	};
	struct ibv_send_wr *bad = NULL;

	wr[0].send_flags = wr[1].send_flags = IBV_SEND_SIGNALED;
	wr[1].sg_list = sge;
	wr[1].num_sge = 5; /* of at most 4 */
	assert_int_equal(ibv_post_send(r->end[0].qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	hcarig_run(r, KV_NS_PER_MS);
	hcarig_expect(r, 0, 1, IBV_WC_SUCCESS);
	hcarig_expect_none(r, 0);
	wr[1].num_sge = 0;
	wr[1].opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	assert_int_equal(ibv_post_send(r->end[0].qp, &wr[1], &bad), EINVAL);
}

static void
inline_data_is_copied_at_once(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = { .id = 1,
			       .opcode = IBV_WR_RDMA_WRITE,
			       .flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
			       .bytes = 64,
			       .far = 100,
			       .lkey = 12345 }; /* is not looked at */
	uint8_t was[64];

	memcpy(was, r->end[0].buf, 64);
	assert_int_equal(hcarig_post(r, 0, &w), 0);
	memset(r->end[0].buf, 0, 64);
	hcarig_run(r, KV_NS_PER_MS);
	hcarig_expect(r, 0, 1, IBV_WC_SUCCESS);
	assert_memory_equal(r->end[1].buf + 100, was, 64);
	w.bytes = 65;
	assert_int_equal(hcarig_post(r, 0, &w), ENOMEM);
	w.bytes = 8;
	w.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(hcarig_post(r, 0, &w), EINVAL);
}

/* Without it the source is read later than at the post. */
static void
other_data_is_read_late(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = WRITE_OF(64);

	memset(r->end[0].buf, 1, 64);
	assert_int_equal(hcarig_post(r, 0, &w), 0);
	memset(r->end[0].buf, 2, 64);
	hcarig_run(r, KV_NS_PER_MS);
	assert_memory_equal(r->end[1].buf, r->end[0].buf, 64);
}

static void
local_keys_are_checked(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = WRITE_OF(8);

	w.lkey = r->end[1].mr->lkey; /* of the other device */
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_LOC_PROT_ERR);
	assert_int_equal(r->end[0].qp->state, IBV_QPS_ERR);
	assert_int_equal(r->end[1].qp->state, IBV_QPS_RTS);
}

static void
local_bounds_are_checked(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = WRITE_OF(8);

	w.at = HCARIG_BYTES - 7;
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_LOC_PROT_ERR);
}

static void
a_read_into_what_may_not_be_written_fails(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_end *e = &r->end[0];
	struct ibv_mr *mr = e->v->reg_mr(e->pd, e->buf, 64, 0);
	struct hcarig_wr w = READ_OF(8);

	w.lkey = mr->lkey;
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_LOC_PROT_ERR);
	e->v->dereg_mr(mr);
}

/* Both ends are in ERR, the owner of the memory is told. */
static void
is_refused(struct hcarig *r, const struct hcarig_wr *w)
{
	uint8_t was[64];

	memcpy(was, r->end[1].buf, sizeof(was));
	assert_int_equal(hcarig_do(r, 0, w), IBV_WC_REM_ACCESS_ERR);
	assert_memory_equal(r->end[1].buf, was, sizeof(was));
	assert_int_equal(r->end[0].qp->state, IBV_QPS_ERR);
	assert_int_equal(r->end[1].qp->state, IBV_QPS_ERR);
	assert_int_equal(hcarig_async(r, 1), IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(hcarig_async(r, 1), -1);
	assert_int_equal(hcarig_async(r, 0), -1);
}

static void
far_bounds_are_checked(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = WRITE_OF(HCARIG_BYTES);

	w.far = 1;
	is_refused(r, &w);
}

static void
a_region_ends_where_it_ends(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_end *e = &r->end[1];
	struct ibv_mr *mr =
		e->v->reg_mr(e->pd, e->buf, 64,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct hcarig_wr w = WRITE_OF(64);

	w.rkey = mr->rkey;
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_SUCCESS);
	w.bytes = 65;
	is_refused(r, &w);
	e->v->dereg_mr(mr);
}

static void
far_keys_are_checked(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = WRITE_OF(8);

	w.rkey = r->end[1].mr->rkey + 1;
	is_refused(r, &w);
}

static void
far_access_is_checked(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_end *e = &r->end[1];
	struct ibv_mr *mr =
		e->v->reg_mr(e->pd, e->buf, 64,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	struct hcarig_wr read = READ_OF(8), write = WRITE_OF(8);

	read.rkey = write.rkey = mr->rkey;
	assert_int_equal(hcarig_do(r, 0, &read), IBV_WC_SUCCESS);
	is_refused(r, &write);
	e->v->dereg_mr(mr);
}

static void
far_access_of_the_qp_is_checked(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = READ_OF(8);

	r->opts.no_access = IBV_ACCESS_REMOTE_READ;
	hcarig_connect(r);
	is_refused(r, &w);
}

static void
another_domain_is_a_wrong_key(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_end *e = &r->end[1];
	struct ibv_pd *pd = e->v->alloc_pd(e->ctx);
	struct ibv_mr *mr =
		e->v->reg_mr(pd, e->buf, HCARIG_BYTES,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct hcarig_wr w = WRITE_OF(8);

	w.rkey = mr->rkey;
	is_refused(r, &w);
	assert_int_equal(e->v->dealloc_pd(pd), EBUSY);
	e->v->dereg_mr(mr);
	assert_int_equal(e->v->dealloc_pd(pd), 0);
}

static void
keys_are_used_again(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_end *e = &r->end[1];
	uint32_t key = e->mr->rkey;
	struct hcarig_wr w = WRITE_OF(8);

	/* Who kept the old key writes into what is there now. */
	e->v->dereg_mr(e->mr);
	e->mr = e->v->reg_mr(e->pd, e->buf, 64,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(e->mr->rkey, key);
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_SUCCESS);
	e->v->dereg_mr(e->mr);
	e->mr = NULL;
	w.rkey = key;
	is_refused(r, &w);
}

static void
registration_has_rules(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_end *e = &r->end[0];

	assert_null(e->v->reg_mr(e->pd, e->buf, 64, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_null(e->v->reg_mr(e->pd, e->buf, 0, 0));
	hca_memlock(e->host, HCARIG_BYTES + 2 * 4096);
	assert_null(e->v->reg_mr(e->pd, e->buf, 2 * 4096 + 1, 0));
	assert_int_equal(errno, ENOMEM);
	e->v->dereg_mr(e->mr);
	/* Given back it is there again, and shown elsewhere it is found. */
	e->mr = e->v->reg_mr_iova2(e->pd, e->buf, HCARIG_BYTES, 4096,
				   IBV_ACCESS_LOCAL_WRITE |
					   IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_RELAXED_ORDERING);
	assert_non_null(e->mr);
}

static void
an_address_of_its_own_is_translated(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_end *e = &r->end[1];
	struct ibv_mr *mr = e->v->reg_mr_iova2(
		e->pd, e->buf, 64, (uintptr_t)e->buf + 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct hcarig_wr w = WRITE_OF(8);

	w.rkey = mr->rkey;
	w.far = 4096 + 16;
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_SUCCESS);
	assert_memory_equal(e->buf + 16, r->end[0].buf, 8);
	e->v->dereg_mr(mr);
}

static void
numbers_of_packets_have_to_match(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = WRITE_OF(8);
	struct ibv_qp_attr attr;
	int mask;

	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_INIT), 0);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_RTR), 0);
	mask = hcarig_attr(r, 0, IBV_QPS_RTS, &attr);
	attr.sq_psn++;
	assert_int_equal(r->end[0].v->modify_qp(r->end[0].qp, &attr, mask), 0);
	assert_int_equal(hcarig_modify(r, 1, IBV_QPS_INIT), 0);
	assert_int_equal(hcarig_modify(r, 1, IBV_QPS_RTR), 0);
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_RETRY_EXC_ERR);
}

static void
sizes_of_packets_have_to_match(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = WRITE_OF(1024);
	struct ibv_qp_attr attr;
	int mask;

	hcarig_connect(r);
	assert_int_equal(hcarig_modify(r, 1, IBV_QPS_RESET), 0);
	assert_int_equal(hcarig_modify(r, 1, IBV_QPS_INIT), 0);
	mask = hcarig_attr(r, 1, IBV_QPS_RTR, &attr);
	attr.path_mtu = IBV_MTU_1024;
	assert_int_equal(r->end[1].v->modify_qp(r->end[1].qp, &attr, mask), 0);
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_SUCCESS);
	assert_int_equal(hcarig_async(r, 1), IBV_EVENT_COMM_EST);
	w.bytes++;
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(hcarig_async(r, 1), IBV_EVENT_QP_REQ_ERR);
}

static void
a_message_may_be_too_long(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = WRITE_OF((1u << 30) + 1);

	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_LOC_LEN_ERR);
}

static void
without_depth_there_are_no_reads(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr write = WRITE_OF(8), read = READ_OF(8);
	struct ibv_qp_attr attr;
	int mask;

	assert_int_equal(hcarig_modify(r, 1, IBV_QPS_INIT), 0);
	assert_int_equal(hcarig_modify(r, 1, IBV_QPS_RTR), 0);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_INIT), 0);
	assert_int_equal(hcarig_modify(r, 0, IBV_QPS_RTR), 0);
	mask = hcarig_attr(r, 0, IBV_QPS_RTS, &attr);
	attr.max_rd_atomic = 0;
	assert_int_equal(r->end[0].v->modify_qp(r->end[0].qp, &attr, mask), 0);
	assert_int_equal(hcarig_do(r, 0, &write), IBV_WC_SUCCESS);
	assert_int_equal(hcarig_do(r, 0, &read), IBV_WC_LOC_QP_OP_ERR);
}

static void
of_nothing_no_key_is_looked_at(void **state)
{
	struct hcarig *r = *state;
	struct hcarig_wr w = { .id = 1, .rkey = 1, .lkey = 1 };

	w.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_SUCCESS);
	w.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_SUCCESS);
	assert_int_equal(hcarig_recv(r, 1, 1, 0, 0), 0);
	w.opcode = IBV_WR_SEND;
	assert_int_equal(hcarig_do(r, 0, &w), IBV_WC_SUCCESS);
}

static void
what_is_in_use_is_not_destroyed(void **state)
{
	struct hcarig *r = *state;
	const struct hcarig_end *e = &r->end[0];

	assert_int_equal(e->v->destroy_cq(e->cq), EBUSY);
	assert_int_equal(e->v->destroy_comp_channel(e->ch), EBUSY);
	assert_int_equal(e->v->dealloc_pd(e->pd), EBUSY);
}

static void
a_qp_says_what_it_is(void **state)
{
	struct hcarig *r = *state;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	assert_int_equal(
		r->end[0].v->query_qp(r->end[0].qp, &attr, IBV_QP_STATE, &init),
		0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.dest_qp_num, r->end[1].qp->qp_num);
	assert_int_equal(attr.cap.max_send_wr, 64);
	assert_ptr_equal(init.send_cq, r->end[0].cq);
}

static void
beyond_the_device_nothing_is_made(void **state)
{
	struct hcarig *r = *state;
	const struct hcarig_end *e = &r->end[0];
	struct ibv_device_attr dev;
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 1 },
	};

	assert_int_equal(e->v->query_device(e->ctx, &dev), 0);
	assert_null(e->v->create_qp(e->pd, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	init.qp_type = IBV_QPT_RC;
	init.cap.max_send_wr = (uint32_t)dev.max_qp_wr + 1;
	assert_null(e->v->create_qp(e->pd, &init));
	assert_int_equal(errno, EINVAL);
	init.cap.max_send_wr = 1;
	init.send_cq = r->end[1].cq; /* of another device */
	assert_null(e->v->create_qp(e->pd, &init));
	assert_null(e->v->create_cq(e->ctx, dev.max_cqe + 1, NULL, NULL, 0));
	assert_null(e->v->create_cq(e->ctx, 0, NULL, NULL, 0));
}

int
main(void)
{
#define PLAIN(t)     cmocka_unit_test_setup_teardown(t, plain, close_rig)
#define CONNECTED(t) cmocka_unit_test_setup_teardown(t, connected, close_rig)
	const struct CMUnitTest tests[] = {
		PLAIN(each_state_wants_its_attributes),
		PLAIN(states_come_in_order),
		PLAIN(attributes_are_checked),
		PLAIN(posting_needs_a_state),
		CONNECTED(queues_have_their_depth),
		CONNECTED(a_chain_stops_where_it_is_wrong),
		CONNECTED(inline_data_is_copied_at_once),
		CONNECTED(other_data_is_read_late),
		CONNECTED(local_keys_are_checked),
		CONNECTED(local_bounds_are_checked),
		CONNECTED(a_read_into_what_may_not_be_written_fails),
		CONNECTED(far_bounds_are_checked),
		CONNECTED(a_region_ends_where_it_ends),
		CONNECTED(far_keys_are_checked),
		CONNECTED(far_access_is_checked),
		PLAIN(far_access_of_the_qp_is_checked),
		CONNECTED(another_domain_is_a_wrong_key),
		CONNECTED(keys_are_used_again),
		PLAIN(registration_has_rules),
		CONNECTED(an_address_of_its_own_is_translated),
		PLAIN(numbers_of_packets_have_to_match),
		PLAIN(sizes_of_packets_have_to_match),
		CONNECTED(a_message_may_be_too_long),
		PLAIN(without_depth_there_are_no_reads),
		CONNECTED(of_nothing_no_key_is_looked_at),
		CONNECTED(what_is_in_use_is_not_destroyed),
		CONNECTED(a_qp_says_what_it_is),
		PLAIN(beyond_the_device_nothing_is_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

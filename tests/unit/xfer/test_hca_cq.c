/* The fake device: completions, their events, flushing, shared receives. */

#include "hcarig.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/attr.h"

#include "test.h"

static struct hcarig rig;

static const struct hcarig_wr write_8 = {
	.id = 1,
	.opcode = IBV_WR_RDMA_WRITE,
	.flags = IBV_SEND_SIGNALED,
	.bytes = 8,
};

static void
open_connected(struct hcarig_opts opts)
{
	hcarig_open(&rig, &opts);
	hcarig_connect(&rig);
}

static void
only_signalled_ones_complete(void **state)
{
	struct hcarig_wr w = write_8;

	(void)state;
	open_connected((struct hcarig_opts){ 0 });
	for (int i = 1; i <= 6; i++) {
		w.id = (uint64_t)i;
		w.flags = i % 3 ? 0 : IBV_SEND_SIGNALED;
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	}
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect(&rig, 0, 3, IBV_WC_SUCCESS);
	hcarig_expect(&rig, 0, 6, IBV_WC_SUCCESS);
	hcarig_expect_none(&rig, 0);
	hcarig_close(&rig);
}

/* ---- events ---- */

struct watch {
	struct kv_io io;
	int calls;
};

static void
on_watch(struct kv_io *io, uint32_t ready)
{
	struct watch *w = KV_CONTAINER_OF(io, struct watch, io);
	struct hcarig_end *e = &rig.end[0];
	struct ibv_cq *cq;
	void *arg;

	assert_int_equal(ready, EPOLLIN);
	w->calls++;
	assert_int_equal(e->v->get_cq_event(e->ch, &cq, &arg), 0);
	assert_ptr_equal(cq, e->cq);
	assert_ptr_equal(arg, e);
	e->v->ack_cq_events(cq, 1);
}

static void
an_armed_queue_tells_once(void **state)
{
	struct watch w = { .io.fn = on_watch };
	struct hcarig_end *e = &rig.end[0];
	struct ibv_cq *cq;
	void *arg;

	(void)state;
	open_connected((struct hcarig_opts){ 0 });
	assert_int_equal(kv_loop_io_add(rig.loop, &w.io, e->ch->fd, EPOLLIN),
			 0);
	assert_int_equal(hcarig_post(&rig, 0, &write_8), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_int_equal(w.calls, 0);
	/* One is in it already: of that it does not tell. */
	assert_int_equal(ibv_req_notify_cq(e->cq, 0), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_int_equal(w.calls, 0);
	assert_int_equal(hcarig_post(&rig, 0, &write_8), 0);
	assert_int_equal(hcarig_post(&rig, 0, &write_8), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_int_equal(w.calls, 1);
	assert_int_equal(e->v->get_cq_event(e->ch, &cq, &arg), -1);
	assert_int_equal(errno, EAGAIN);
	kv_loop_io_del(&w.io);
	hcarig_close(&rig);
}

static bool
has_event(int end)
{
	struct hcarig_end *e = &rig.end[end];
	struct ibv_cq *cq;
	void *arg;

	if (e->v->get_cq_event(e->ch, &cq, &arg) < 0)
		return false;
	e->v->ack_cq_events(cq, 1);
	return true;
}

static void
solicited_ones_wake_who_asked_for_them(void **state)
{
	struct hcarig_wr w = { .opcode = IBV_WR_SEND, .bytes = 8 };

	(void)state;
	open_connected((struct hcarig_opts){ 0 });
	for (int i = 0; i < 4; i++)
		assert_int_equal(hcarig_recv(&rig, 1, 1, 0, 8), 0);
	ibv_req_notify_cq(rig.end[1].cq, 1);
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_false(has_event(1));
	w.flags = IBV_SEND_SOLICITED;
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_true(has_event(1));
	assert_false(has_event(1));
	/* Asked for all before, that stands. */
	ibv_req_notify_cq(rig.end[1].cq, 0);
	ibv_req_notify_cq(rig.end[1].cq, 1);
	w.flags = 0;
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_true(has_event(1));
	/* Errors are always. */
	ibv_req_notify_cq(rig.end[1].cq, 1);
	assert_int_equal(hcarig_modify(&rig, 1, IBV_QPS_ERR), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_true(has_event(1));
	hcarig_close(&rig);
}

static void
an_overrun_queue_ends_its_qps(void **state)
{
	struct ibv_qp *other;
	struct ibv_wc wc;
	int n = 0, events[3];

	(void)state;
	open_connected((struct hcarig_opts){ .cqe = 4 });
	other = hcarig_qp(&rig, 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(hcarig_post(&rig, 0, &write_8), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_int_equal(hcarig_async(&rig, 0), IBV_EVENT_CQ_ERR);
	for (int i = 0; i < 3; i++)
		events[i] = hcarig_async(&rig, 0);
	assert_int_equal(events[0], IBV_EVENT_QP_FATAL);
	assert_int_equal(events[1], IBV_EVENT_QP_FATAL);
	assert_int_equal(events[2], -1);
	assert_int_equal(rig.end[0].qp->state, IBV_QPS_ERR);
	assert_int_equal(other->state, IBV_QPS_ERR);
	while (hcarig_poll(&rig, 0, &wc))
		n++;
	assert_int_equal(n, 4);
	/* It stays lost. */
	assert_int_equal(hcarig_post(&rig, 0, &write_8), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect_none(&rig, 0);
	assert_int_equal(rig.end[0].v->destroy_qp(other), 0);
	hcarig_close(&rig);
}

/* The end that is lost answers no more. */
static void
an_overrun_is_noticed_by_the_far_end(void **state)
{
	struct hcarig_wr w = { .id = 1, .opcode = IBV_WR_SEND, .bytes = 8 };

	(void)state;
	open_connected((struct hcarig_opts){ .cqe = 4 });
	for (int i = 0; i < 5; i++)
		assert_int_equal(hcarig_recv(&rig, 1, 1, 0, 8), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_SUCCESS);
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_RETRY_EXC_ERR);
	hcarig_close(&rig);
}

static void
a_destroyed_queue_takes_its_event_along(void **state)
{
	struct hcarig_end *e = &rig.end[0];

	(void)state;
	open_connected((struct hcarig_opts){ 0 });
	ibv_req_notify_cq(e->cq, 0);
	assert_int_equal(hcarig_post(&rig, 0, &write_8), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_int_equal(e->v->destroy_qp(e->qp), 0);
	assert_int_equal(e->v->destroy_cq(e->cq), 0);
	e->qp = NULL;
	assert_false(has_event(0));
	e->cq = e->v->create_cq(e->ctx, 1, NULL, e->ch, 0);
	hcarig_close(&rig);
}

/* ---- flushing ---- */

static void
all_is_flushed_in_order(void **state)
{
	struct hcarig_wr w = write_8;

	(void)state;
	open_connected((struct hcarig_opts){ .hca.flush_ns = 50000,
					     .hca.latency_ns = 10000 });
	for (uint64_t i = 1; i <= 6; i++) {
		w.id = i;
		w.flags = i % 2 ? 0 : IBV_SEND_SIGNALED;
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
		assert_int_equal(hcarig_recv(&rig, 0, 100 + i, 0, 8), 0);
	}
	assert_int_equal(hcarig_modify(&rig, 0, IBV_QPS_ERR), 0);
	hcarig_expect_none(&rig, 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	for (uint64_t i = 1; i <= 6; i++)
		hcarig_expect(&rig, 0, i, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 1; i <= 6; i++)
		hcarig_expect(&rig, 0, 100 + i, IBV_WC_WR_FLUSH_ERR);
	/* What is posted now, too. */
	w.id = 7;
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	assert_int_equal(hcarig_recv(&rig, 0, 107, 0, 8), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect(&rig, 0, 7, IBV_WC_WR_FLUSH_ERR);
	hcarig_expect(&rig, 0, 107, IBV_WC_WR_FLUSH_ERR);
	hcarig_expect_none(&rig, 0);
	hcarig_close(&rig);
}

static void
the_first_failed_one_says_why(void **state)
{
	struct hcarig_wr w = write_8;

	(void)state;
	open_connected((struct hcarig_opts){ 0 });
	for (uint64_t i = 1; i <= 4; i++) {
		w.id = i;
		w.flags = 0; /* a failure completes all the same */
		w.far = i == 3 ? HCARIG_BYTES : 0;
		assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	}
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect(&rig, 0, 3, IBV_WC_REM_ACCESS_ERR);
	hcarig_expect(&rig, 0, 4, IBV_WC_WR_FLUSH_ERR);
	hcarig_expect_none(&rig, 0);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_QP_ACCESS_ERR);
	hcarig_close(&rig);
}

static void
a_destroyed_qp_takes_its_completions_along(void **state)
{
	struct hcarig_end *e = &rig.end[0];
	struct ibv_qp *gone[2];

	(void)state;
	open_connected((struct hcarig_opts){ .srq = true });
	for (int i = 0; i < 3; i++)
		assert_int_equal(hcarig_recv(&rig, 1, 1, 0, 8), 0);
	assert_int_equal(hcarig_post(&rig, 0, &write_8), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	for (int i = 0; i < 2; i++) {
		gone[i] = rig.end[i].qp;
		rig.end[i].qp = hcarig_qp(&rig, i);
	}
	hcarig_connect(&rig);
	assert_int_equal(
		hcarig_post(&rig, 0,
			    &(struct hcarig_wr){ .id = 2,
						 .flags = IBV_SEND_SIGNALED,
						 .bytes = 8 }),
		0);
	hcarig_run(&rig, KV_NS_PER_MS);
	assert_int_equal(e->v->destroy_qp(gone[0]), 0);
	hcarig_expect(&rig, 0, 2, IBV_WC_SUCCESS);
	hcarig_expect_none(&rig, 0);
	assert_int_equal(rig.end[1].v->destroy_qp(gone[1]), 0);
	hcarig_close(&rig);
}

/* ---- shared receives ---- */

static void
shared_receives_stay(void **state)
{
	struct hcarig_wr w = { .id = 1, .opcode = IBV_WR_SEND, .bytes = 8 };
	struct ibv_wc wc;

	(void)state;
	open_connected((struct hcarig_opts){ .srq = true, .recv_wr = 4 });
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(hcarig_recv(&rig, 1, i, 0, 8), 0);
	assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 8), ENOMEM);
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_SUCCESS);
	/* Its slot is free when its completion has been seen. */
	assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 8), ENOMEM);
	assert_true(hcarig_poll(&rig, 1, &wc));
	assert_int_equal(wc.wr_id, 0);
	assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 8), 0);
	assert_int_equal(hcarig_async(&rig, 1), -1);
	assert_int_equal(hcarig_modify(&rig, 1, IBV_QPS_ERR), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect_none(&rig, 1);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_QP_LAST_WQE_REACHED);
	/* Once, whatever is flushed after that. */
	assert_int_equal(hcarig_post(&rig, 1, &write_8), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect(&rig, 1, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(hcarig_async(&rig, 1), -1);
	hcarig_close(&rig);
}

/* Their memory is of the domain of the shared queue, not of the QP. */
static void
shared_receives_have_their_own_domain(void **state)
{
	struct hcarig_wr w = { .id = 1, .opcode = IBV_WR_SEND, .bytes = 8 };
	struct hcarig_end *e = &rig.end[1];
	struct ibv_pd *pd;

	(void)state;
	hcarig_open(&rig, &(struct hcarig_opts){ .srq = true });
	pd = e->v->alloc_pd(e->ctx);
	assert_int_equal(e->v->destroy_qp(e->qp), 0);
	e->qp = e->v->create_qp(
		pd, &(struct ibv_qp_init_attr){ .send_cq = e->cq,
						.recv_cq = e->cq,
						.srq = e->srq,
						.qp_type = IBV_QPT_RC });
	hcarig_connect(&rig);
	assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 8), 0);
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_SUCCESS);
	hcarig_expect(&rig, 1, 5, IBV_WC_SUCCESS);
	assert_int_equal(e->v->destroy_srq(e->srq), EBUSY);
	assert_int_equal(e->v->destroy_qp(e->qp), 0);
	e->qp = NULL;
	assert_int_equal(e->v->dealloc_pd(pd), 0);
	hcarig_close(&rig);
}

/* What nobody has heard of a QP is not told after it is gone. */
static void
a_destroyed_qp_takes_its_events_along(void **state)
{
	struct hcarig_wr w = write_8;

	(void)state;
	open_connected((struct hcarig_opts){ 0 });
	w.far = HCARIG_BYTES;
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_REM_ACCESS_ERR);
	hca_port_up(rig.end[1].port, false);
	assert_int_equal(rig.end[1].v->destroy_qp(rig.end[1].qp), 0);
	rig.end[1].qp = NULL;
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_PORT_ERR);
	assert_int_equal(hcarig_async(&rig, 1), -1);
	hcarig_close(&rig);
}

/* One that a message has begun to fill is not shared any more. */
static void
a_receive_half_filled_is_flushed(void **state)
{
	struct hcarig_wr w = { .id = 1, .opcode = IBV_WR_SEND, .bytes = 60000 };

	(void)state;
	open_connected(
		(struct hcarig_opts){ .srq = true, .hca.piece_bytes = 4096 });
	assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 60000), 0);
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, 3000);
	assert_int_equal(hcarig_modify(&rig, 1, IBV_QPS_ERR), 0);
	hcarig_run(&rig, KV_NS_PER_MS);
	hcarig_expect(&rig, 1, 5, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_QP_LAST_WQE_REACHED);
	hcarig_close(&rig);
}

/* With the QP it is gone, and its slot is free. */
static void
a_receive_half_filled_is_given_back(void **state)
{
	struct hcarig_wr w = { .opcode = IBV_WR_SEND, .bytes = 60000 };

	(void)state;
	open_connected((struct hcarig_opts){
		.srq = true, .recv_wr = 1, .hca.piece_bytes = 4096 });
	assert_int_equal(hcarig_recv(&rig, 1, 5, 0, 60000), 0);
	assert_int_equal(hcarig_post(&rig, 0, &w), 0);
	hcarig_run(&rig, 3000);
	assert_int_equal(hcarig_recv(&rig, 1, 6, 0, 8), ENOMEM);
	assert_int_equal(rig.end[1].v->destroy_qp(rig.end[1].qp), 0);
	rig.end[1].qp = NULL;
	assert_int_equal(hcarig_recv(&rig, 1, 6, 0, 8), 0);
	hcarig_close(&rig);
}

static void
a_low_queue_says_so_once(void **state)
{
	struct hcarig_wr w = { .id = 1, .opcode = IBV_WR_SEND, .bytes = 8 };
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct hcarig_end *e = &rig.end[1];

	(void)state;
	open_connected((struct hcarig_opts){ .srq = true, .recv_wr = 4 });
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(hcarig_recv(&rig, 1, i, 0, 8), 0);
	assert_int_equal(e->v->modify_srq(e->srq, &attr, IBV_SRQ_MAX_WR),
			 EINVAL);
	assert_int_equal(e->v->modify_srq(e->srq, &attr, IBV_SRQ_LIMIT), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_SUCCESS);
	assert_int_equal(hcarig_async(&rig, 1), -1);
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_SUCCESS);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_SUCCESS);
	assert_int_equal(hcarig_async(&rig, 1), -1);
	/* Set to what is not there: at once. */
	assert_int_equal(e->v->modify_srq(e->srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_SRQ_LIMIT_REACHED);
	hcarig_close(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_signalled_ones_complete),
		cmocka_unit_test(an_armed_queue_tells_once),
		cmocka_unit_test(solicited_ones_wake_who_asked_for_them),
		cmocka_unit_test(an_overrun_queue_ends_its_qps),
		cmocka_unit_test(an_overrun_is_noticed_by_the_far_end),
		cmocka_unit_test(a_destroyed_queue_takes_its_event_along),
		cmocka_unit_test(all_is_flushed_in_order),
		cmocka_unit_test(the_first_failed_one_says_why),
		cmocka_unit_test(a_destroyed_qp_takes_its_completions_along),
		cmocka_unit_test(shared_receives_stay),
		cmocka_unit_test(shared_receives_have_their_own_domain),
		cmocka_unit_test(a_destroyed_qp_takes_its_events_along),
		cmocka_unit_test(a_receive_half_filled_is_flushed),
		cmocka_unit_test(a_receive_half_filled_is_given_back),
		cmocka_unit_test(a_low_queue_says_so_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

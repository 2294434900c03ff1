#include "hcarig.h"

#include <fcntl.h>
#include <string.h>

#include "base/rng.h"

#include "test.h"

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_WRITE,
	MAX_SGE = 4,
	INLINE_BYTES = 64,
};

static void
set_defaults(struct hcarig_opts *o)
{
	if (!o->hca.seed)
		o->hca.seed = 1;
	if (!o->hca.latency_ns)
		o->hca.latency_ns = KV_NS_PER_US;
	if (!o->send_wr)
		o->send_wr = 64;
	if (!o->recv_wr)
		o->recv_wr = 64;
	if (!o->cqe)
		o->cqe = 256;
	if (!o->timeout)
		o->timeout = 14;
	for (int i = 0; i < 2; i++) {
		if (!o->max_rd[i])
			o->max_rd[i] = 16;
		if (!o->max_dest_rd[i])
			o->max_dest_rd[i] = 16;
	}
}

struct ibv_qp *
hcarig_qp(struct hcarig *r, int end)
{
	struct hcarig_end *e = &r->end[end];
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.srq = e->srq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = r->opts.sig_all,
		.cap = { .max_send_wr = r->opts.send_wr,
			 .max_recv_wr = r->opts.recv_wr,
			 .max_send_sge = MAX_SGE,
			 .max_recv_sge = MAX_SGE,
			 .max_inline_data = INLINE_BYTES },
	};
	struct ibv_qp *qp = e->v->create_qp(e->pd, &init);

	assert_non_null(qp);
	return qp;
}

static void
open_end(struct hcarig *r, int end)
{
	static const char *const names[] = { "a", "b" };
	static const char *const ips[] = { "10.0.0.1", "10.0.0.2" };
	struct hcarig_end *e = &r->end[end];
	struct ibv_srq_init_attr srq = {
		.attr = { .max_wr = r->opts.recv_wr, .max_sge = MAX_SGE },
	};
	struct hca_port_opts port = { 0 };
	struct ibv_device **list;
	int n;

	e->host = hca_host_add(r->hca, names[end]);
	e->dev = hca_dev_add(e->host, "mlx5_0");
	port.infiniband = r->opts.infiniband;
	port.ip = r->opts.infiniband ? NULL : ips[end];
	e->port = hca_port_add(e->dev, &port);
	e->v = hca_process(e->host, r->loop);
	list = e->v->get_device_list(&n);
	assert_int_equal(n, 1);
	e->ctx = e->v->open_device(list[0]);
	e->v->free_device_list(list);
	assert_non_null(e->ctx);
	fcntl(e->ctx->async_fd, F_SETFL, O_NONBLOCK);
	e->pd = e->v->alloc_pd(e->ctx);
	e->ch = e->v->create_comp_channel(e->ctx);
	fcntl(e->ch->fd, F_SETFL, O_NONBLOCK);
	e->cq = e->v->create_cq(e->ctx, (int)r->opts.cqe, e, e->ch, 0);
	assert_non_null(e->cq);
	if (r->opts.srq && end == 1)
		e->srq = e->v->create_srq(e->pd, &srq);
	e->qp = hcarig_qp(r, end);
	e->mr = e->v->reg_mr(e->pd, e->buf, sizeof(e->buf), ALL_ACCESS);
	assert_non_null(e->mr);
}

void
hcarig_open(struct hcarig *r, const struct hcarig_opts *opts)
{
	struct kv_rng rng;

	memset(r, 0, sizeof(*r));
	r->opts = *opts;
	set_defaults(&r->opts);
	kv_rng_seed(&rng, 7);
	kv_rng_bytes(&rng, r->end[0].buf, HCARIG_BYTES);
	kv_rng_bytes(&rng, r->end[1].buf, HCARIG_BYTES);
	r->clock.is_virtual = true;
	r->loop = kv_loop_new(&r->clock);
	assert_non_null(r->loop);
	r->hca = hca_new(r->loop, &r->clock, &r->opts.hca);
	open_end(r, 0);
	open_end(r, 1);
}

static void
close_end(struct hcarig_end *e)
{
	if (e->qp)
		assert_int_equal(e->v->destroy_qp(e->qp), 0);
	if (e->mr)
		assert_int_equal(e->v->dereg_mr(e->mr), 0);
	if (e->srq)
		assert_int_equal(e->v->destroy_srq(e->srq), 0);
	assert_int_equal(e->v->destroy_cq(e->cq), 0);
	assert_int_equal(e->v->destroy_comp_channel(e->ch), 0);
	assert_int_equal(e->v->dealloc_pd(e->pd), 0);
	assert_int_equal(e->v->close_device(e->ctx), 0);
}

void
hcarig_close(struct hcarig *r)
{
	close_end(&r->end[0]);
	close_end(&r->end[1]);
	hca_free(r->hca);
	kv_loop_free(r->loop);
}

int
hcarig_attr(struct hcarig *r, int end, enum ibv_qp_state state,
	    struct ibv_qp_attr *attr)
{
	struct hcarig_end *e = &r->end[end], *far = &r->end[!end];
	struct ibv_port_attr port = { 0 };
	uint8_t index = r->opts.infiniband ? 0 : 3;
	union ibv_gid gid;

	assert_int_equal(far->v->query_gid(far->ctx, 1, index, &gid), 0);
	assert_int_equal(far->v->query_port(far->ctx, 1, (void *)&port), 0);
	*attr = (struct ibv_qp_attr){
		.qp_state = state,
		.port_num = 1,
		.qp_access_flags = ALL_ACCESS & ~r->opts.no_access,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = far->qp->qp_num,
		.rq_psn = far->qp->qp_num,
		.sq_psn = e->qp->qp_num,
		.max_dest_rd_atomic = r->opts.max_dest_rd[end],
		.max_rd_atomic = r->opts.max_rd[end],
		.min_rnr_timer = r->opts.min_rnr_timer,
		.timeout = r->opts.timeout,
		.retry_cnt = r->opts.retry_cnt,
		.rnr_retry = r->opts.rnr_retry,
		.ah_attr = { .is_global = !r->opts.infiniband,
			     .dlid = port.lid,
			     .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = index } },
	};
	switch (state) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       IBV_QP_ACCESS_FLAGS;
	case IBV_QPS_RTR:
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
		       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
		       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	default:
		return IBV_QP_STATE;
	}
}

int
hcarig_modify(struct hcarig *r, int end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;
	int mask = hcarig_attr(r, end, state, &attr);

	return r->end[end].v->modify_qp(r->end[end].qp, &attr, mask);
}

void
hcarig_connect(struct hcarig *r)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(hcarig_modify(r, i, IBV_QPS_INIT), 0);
		assert_int_equal(hcarig_modify(r, i, IBV_QPS_RTR), 0);
		assert_int_equal(hcarig_modify(r, i, IBV_QPS_RTS), 0);
	}
}

void
hcarig_run(struct hcarig *r, uint64_t ns)
{
	hca_run(r->hca, r->clock.ns + ns);
}

int
hcarig_post(struct hcarig *r, int end, const struct hcarig_wr *w)
{
	struct hcarig_end *e = &r->end[end], *far = &r->end[!end];
	struct ibv_sge sge = {
		.addr = (uintptr_t)(e->buf + w->at),
		.length = w->bytes,
		.lkey = w->lkey ? w->lkey : e->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = w->id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = w->opcode,
		.send_flags = w->flags,
		.imm_data = htobe32((uint32_t)w->id),
	};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)(far->buf + w->far);
	wr.wr.rdma.rkey = w->rkey ? w->rkey : far->mr ? far->mr->rkey : 0;
	return ibv_post_send(e->qp, &wr, &bad);
}

enum ibv_wc_status
hcarig_do(struct hcarig *r, int end, const struct hcarig_wr *wr)
{
	struct hcarig_wr w = *wr;
	struct ibv_wc wc;

	w.flags |= IBV_SEND_SIGNALED;
	assert_int_equal(hcarig_post(r, end, &w), 0);
	for (int i = 0; i < 1000; i++) {
		hcarig_run(r, KV_NS_PER_MS);
		if (!hcarig_poll(r, end, &wc))
			continue;
		assert_int_equal(wc.wr_id, wr->id);
		return wc.status;
	}
	fail_msg("it does not complete");
	return IBV_WC_GENERAL_ERR;
}

int
hcarig_recv(struct hcarig *r, int end, uint64_t id, uint32_t at, uint32_t bytes)
{
	struct hcarig_end *e = &r->end[end];
	struct ibv_sge sge = {
		.addr = (uintptr_t)(e->buf + at),
		.length = bytes,
		.lkey = e->mr->lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ibv_recv_wr *bad;

	return e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad)
		      : ibv_post_recv(e->qp, &wr, &bad);
}

bool
hcarig_poll(struct hcarig *r, int end, struct ibv_wc *wc)
{
	return ibv_poll_cq(r->end[end].cq, 1, wc) == 1;
}

void
hcarig_expect(struct hcarig *r, int end, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(hcarig_poll(r, end, &wc));
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.status, status);
}

void
hcarig_expect_none(struct hcarig *r, int end)
{
	struct ibv_wc wc;

	assert_false(hcarig_poll(r, end, &wc));
}

int
hcarig_async(struct hcarig *r, int end)
{
	struct hcarig_end *e = &r->end[end];
	struct ibv_async_event event;

	if (e->v->get_async_event(e->ctx, &event) < 0)
		return -1;
	e->v->ack_async_event(&event);
	return (int)event.event_type;
}

/* Connections, as their two ends make and end them. */

#include <string.h>

#include "base/num.h"
#include "hca_cm.h"

static bool
is_good(const struct rdma_conn_param *p, size_t bytes_max)
{
	return p && p->private_data_len <= bytes_max &&
	       (p->private_data || !p->private_data_len) &&
	       p->responder_resources <= HCA_RD_ATOMIC_MAX &&
	       p->initiator_depth <= HCA_RD_ATOMIC_MAX && p->retry_count <= 7 &&
	       p->rnr_retry_count <= 7;
}

static int
connect_to(struct rdma_cm_id *ibid, struct rdma_conn_param *p)
{
	struct hca_id *id = (struct hca_id *)ibid;

	if (id->state != HCA_CM_ROUTE || !is_good(p, HCA_REQ_BYTES))
		return hca_cm_result(EINVAL);
	id->qpn = p->qp_num;
	id->responder_resources = p->responder_resources;
	id->initiator_depth = p->initiator_depth;
	id->retry_cnt = p->retry_count;
	id->rnr_retry = p->rnr_retry_count;
	id->state = HCA_CM_CONNECTING;
	if (hca_id_draw_fault(id, RDMA_CM_EVENT_CONNECT_ERROR,
			      RDMA_CM_EVENT_REJECTED)) {
		hca_cm_wait(id, 2 * id->hca->opts.latency_ns);
		return 0;
	}
	hca_cm_wait(id, HCA_CM_TRIES * HCA_CM_AGAIN_NS);
	hca_cm_write(id, HCA_REQ, p, 0);
	return 0;
}

static int
accept_it(struct rdma_cm_id *ibid, struct rdma_conn_param *p)
{
	struct hca_id *id = (struct hca_id *)ibid;

	if (id->state != HCA_CM_ASKED || !is_good(p, HCA_REP_BYTES))
		return hca_cm_result(EINVAL);
	id->qpn = p->qp_num;
	id->responder_resources = p->responder_resources;
	id->initiator_depth = p->initiator_depth;
	id->state = HCA_CM_ACCEPTED;
	hca_cm_wait(id, HCA_CM_TRIES * HCA_CM_AGAIN_NS);
	hca_cm_write(id, HCA_REP, p, 0);
	return 0;
}

static int
establish(struct rdma_cm_id *ibid)
{
	struct hca_id *id = (struct hca_id *)ibid;

	if (id->state != HCA_CM_ANSWERED)
		return hca_cm_result(EINVAL);
	id->state = HCA_CM_UP;
	hca_cm_write(id, HCA_RTU, NULL, 0);
	return 0;
}

static int
reject(struct rdma_cm_id *ibid, const void *data, uint8_t bytes)
{
	struct hca_id *id = (struct hca_id *)ibid;
	struct rdma_conn_param p = {
		.private_data = data,
		.private_data_len = bytes,
	};

	if (bytes > HCA_REJ_BYTES ||
	    (id->state != HCA_CM_ASKED && id->state != HCA_CM_ANSWERED))
		return hca_cm_result(EINVAL);
	hca_cm_write(id, HCA_REJ, &p, HCA_REJ_CONSUMER);
	id->state = HCA_CM_GONE;
	return 0;
}

static int
disconnect(struct rdma_cm_id *ibid)
{
	struct hca_id *id = (struct hca_id *)ibid;

	if (id->state == HCA_CM_LEAVING || id->state == HCA_CM_DOWN)
		return 0;
	if (id->state != HCA_CM_UP && id->state != HCA_CM_ANSWERED &&
	    id->state != HCA_CM_ACCEPTED)
		return hca_cm_result(EINVAL);
	id->state = HCA_CM_LEAVING;
	hca_cm_wait(id, HCA_CM_TRIES * HCA_CM_AGAIN_NS);
	hca_cm_write(id, HCA_DREQ, NULL, 0);
	return 0;
}

/* ---- attributes ---- */

static void
attr_init(const struct hca_id *id, struct ibv_qp_attr *a, int *mask)
{
	a->pkey_index = 0;
	a->port_num = id->port->num;
	a->qp_access_flags = 0;
	if (id->state >= HCA_CM_CONNECTING)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_WRITE;
	if (id->state >= HCA_CM_CONNECTING && id->responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		IBV_QP_ACCESS_FLAGS;
}

static void
attr_rtr(const struct hca_id *id, struct ibv_qp_attr *a, int *mask)
{
	const struct hca_port *port = id->port;

	memset(&a->ah_attr, 0, sizeof(a->ah_attr));
	a->ah_attr.is_global = !port->opts.infiniband;
	a->ah_attr.port_num = port->num;
	a->ah_attr.dlid = port->opts.infiniband ? id->peer->lid : 0;
	a->ah_attr.grh.dgid = id->peer->gids[id->peer->n_gids - 1].gid;
	a->ah_attr.grh.sgid_index = (uint8_t)(port->n_gids - 1);
	a->ah_attr.grh.hop_limit = 64;
	a->path_mtu =
		(enum ibv_mtu)kv_min_u64(port->opts.mtu, id->peer->opts.mtu);
	a->dest_qp_num = id->peer_qpn;
	a->rq_psn = id->peer_psn;
	a->max_dest_rd_atomic = id->responder_resources;
	a->min_rnr_timer = 0;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER;
}

static void
attr_rts(const struct hca_id *id, struct ibv_qp_attr *a, int *mask)
{
	a->sq_psn = id->psn;
	a->timeout = id->ack_timeout;
	a->retry_cnt = id->retry_cnt;
	a->rnr_retry = id->rnr_retry;
	a->max_rd_atomic = id->initiator_depth;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
		IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

/* As of a kernel: a far end is known once it has asked or answered. */
static int
init_qp_attr(struct rdma_cm_id *ibid, struct ibv_qp_attr *attr, int *mask)
{
	struct hca_id *id = (struct hca_id *)ibid;
	bool is_known = id->state >= HCA_CM_ANSWERED && id->state <= HCA_CM_UP;

	if (!id->port || id->state == HCA_CM_GONE)
		return hca_cm_result(EINVAL);
	if (attr->qp_state == IBV_QPS_INIT)
		attr_init(id, attr, mask);
	else if (attr->qp_state == IBV_QPS_RTR && is_known)
		attr_rtr(id, attr, mask);
	else if (attr->qp_state == IBV_QPS_RTS && is_known)
		attr_rts(id, attr, mask);
	else
		return hca_cm_result(EINVAL);
	return 0;
}

static int
set_option(struct rdma_cm_id *ibid, int level, int name, void *value,
	   size_t bytes)
{
	struct hca_id *id = (struct hca_id *)ibid;
	bool is_byte = name == RDMA_OPTION_ID_TOS ||
		       name == RDMA_OPTION_ID_ACK_TIMEOUT;
	bool is_int = name == RDMA_OPTION_ID_REUSEADDR ||
		      name == RDMA_OPTION_ID_AFONLY;

	if (level != RDMA_OPTION_ID || (!is_byte && !is_int))
		return hca_cm_result(ENOSYS);
	if (bytes != (is_byte ? 1 : sizeof(int)))
		return hca_cm_result(EINVAL);
	if (name == RDMA_OPTION_ID_ACK_TIMEOUT) {
		if (*(uint8_t *)value > 31)
			return hca_cm_result(EINVAL);
		id->ack_timeout = *(uint8_t *)value;
	}
	return 0;
}

void
hca_cmconn_calls(struct kv_rdmaverbs *v)
{
	v->init_qp_attr = init_qp_attr;
	v->connect = connect_to;
	v->accept = accept_it;
	v->establish = establish;
	v->reject = reject;
	v->disconnect = disconnect;
	v->set_option = set_option;
}

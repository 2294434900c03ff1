#include "xfer/rdmajoin.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"

enum {
	HOPS = 64,
	NUMBER_MAX = 0xffffff, /* of a queue pair, and of a packet */
	UNICAST_MAX = 0xbfff,  /* of LIDs */
	PREFIX_BYTES = 8,      /* of a GID, which name its subnet */
};

enum state {
	ASKING,  /* dialling: what does the other side say */
	PROVING, /* is there a way */
	WAITING, /* being dialled: has the other side seen one */
	READY,
	OVER,
};

struct kv_rdmajoin {
	struct kv_rdmajoin_opts o;
	enum state state;
	struct kv_qpjoin near;
	int gid_index; /* of its own; -1: none */
	bool is_known; /* the other side takes it for alive */
	struct kv_timer late;
	struct kv_rdmawr probe;
};

static bool
is_zero(const uint8_t *p, size_t n)
{
	size_t i;

	for (i = 0; i < n && p[i] == 0; i++)
		;
	return i == n;
}

bool
kv_rdmajoin_is_good(const struct kv_qpjoin *far)
{
	uint32_t qpn = kv_get32(far->qpn);

	if (!is_zero(far->zero, sizeof(far->zero)))
		return false;
	if (far->status != 0)
		return true;
	return qpn > 0 && qpn <= NUMBER_MAX &&
	       kv_get32(far->psn) <= NUMBER_MAX &&
	       kv_get16(far->lid) <= UNICAST_MAX &&
	       (far->layer == KV_RAIL_INFINIBAND ||
		far->layer == KV_RAIL_ETHERNET) &&
	       far->mtu >= IBV_MTU_256 && far->mtu <= IBV_MTU_4096 &&
	       far->initiates > 0 && far->responds > 0;
}

/* ---- the own end ---- */

/* RoCE: link-local addresses and others do not reach each other. */
static int
gid_index(const struct kv_rdmanic *nic, const uint8_t *towards)
{
	struct in6_addr ip;

	memcpy(&ip, towards, sizeof(ip));
	return nic->local_gid_index >= 0 && IN6_IS_ADDR_LINKLOCAL(&ip)
		       ? nic->local_gid_index
		       : nic->gid_index;
}

/* The port as it is now: a subnet manager may have given it another LID. */
static int
port_ask(struct kv_rdmajoin *j, const struct kv_rdmanic *nic)
{
	struct kv_qpjoin *near = &j->near;
	struct ibv_port_attr attr = { 0 };
	union ibv_gid gid = { 0 };
	bool is_ethernet;

	if (nic->v->query_port(nic->ctx, nic->port, (void *)&attr) != 0)
		return -ENODEV;
	if (attr.state != IBV_PORT_ACTIVE)
		return -ENETDOWN;
	is_ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	j->gid_index = gid_index(nic, j->o.towards);
	if (j->gid_index >= 0 &&
	    nic->v->query_gid(nic->ctx, nic->port, j->gid_index, &gid) != 0)
		return -EADDRNOTAVAIL;
	if (is_ethernet && is_zero(gid.raw, sizeof(gid.raw)))
		return -EADDRNOTAVAIL;
	memcpy(near->gid, gid.raw, sizeof(near->gid));
	near->lid = kv_le16(is_ethernet ? 0 : attr.lid);
	near->layer = is_ethernet ? KV_RAIL_ETHERNET : KV_RAIL_INFINIBAND;
	near->mtu = (uint8_t)kv_min_u64(attr.active_mtu, nic->mtu);
	return 0;
}

static int
qp_modify(const struct kv_rdmajoin *j, struct ibv_qp_attr *attr, int mask)
{
	struct kv_rdmaqp *qp = j->o.qp;
	int rc = qp->cq->port->v->modify_qp(qp->qp, attr, mask | IBV_QP_STATE);

	return rc > 0 ? -rc : rc;
}

static int
qp_begin(struct kv_rdmajoin *j)
{
	const struct kv_rdmanic *nic = j->o.qp->cq->port;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = nic->pkey_index,
		.port_num = nic->port,
		.qp_access_flags = KV_RDMAQP_ACCESS,
	};
	int rc;

	j->near = j->o.name;
	j->near.qpn = kv_le32(j->o.qp->qp->qp_num);
	j->near.initiates = nic->initiates;
	j->near.responds = nic->responds;
	rc = port_ask(j, nic);
	if (rc < 0)
		return rc;
	return qp_modify(j, &attr,
			 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* ---- the other one ---- */

/* By its GID, where LIDs do not lead there. */
static bool
is_global(const struct kv_qpjoin *near, const struct kv_qpjoin *far)
{
	if (near->layer == KV_RAIL_ETHERNET)
		return true;
	return !is_zero(near->gid, sizeof(near->gid)) &&
	       !is_zero(far->gid, sizeof(far->gid)) &&
	       memcmp(near->gid, far->gid, PREFIX_BYTES) != 0;
}

static int
way_set(const struct kv_rdmajoin *j, const struct kv_qpjoin *far,
	struct ibv_ah_attr *ah)
{
	const struct kv_rdmanic *nic = j->o.qp->cq->port;
	bool is_ethernet = j->near.layer == KV_RAIL_ETHERNET;

	if (far->layer != j->near.layer)
		return -EPROTOTYPE;
	if (is_ethernet ? is_zero(far->gid, sizeof(far->gid))
			: kv_get16(far->lid) == 0)
		return -EADDRNOTAVAIL;
	*ah = (struct ibv_ah_attr){
		.port_num = nic->port,
		.sl = nic->service_level,
		.dlid = is_ethernet ? 0 : kv_get16(far->lid),
		.is_global = is_global(&j->near, far),
	};
	if (!ah->is_global)
		return 0;
	memcpy(ah->grh.dgid.raw, far->gid, sizeof(far->gid));
	ah->grh.sgid_index = (uint8_t)j->gid_index;
	ah->grh.hop_limit = HOPS;
	ah->grh.traffic_class = nic->traffic_class;
	return 0;
}

static int
qp_finish(const struct kv_rdmajoin *j, const struct kv_qpjoin *far)
{
	const struct kv_qpjoin *near = &j->near;
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)kv_min_u64(near->mtu, far->mtu),
		.dest_qp_num = kv_get32(far->qpn),
		.rq_psn = kv_get32(far->psn),
		.max_dest_rd_atomic =
			(uint8_t)kv_min_u64(near->responds, far->initiates),
		.min_rnr_timer = KV_RDMAQP_RNR_TIMER,
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = kv_get32(near->psn),
		.max_rd_atomic =
			(uint8_t)kv_min_u64(near->initiates, far->responds),
		.timeout = KV_RDMAQP_ACK_TIMEOUT,
		.retry_cnt = KV_RDMAQP_RETRIES,
		.rnr_retry = KV_RDMAQP_RNR_RETRIES,
	};
	int rc = way_set(j, far, &rtr.ah_attr);

	if (rc == 0)
		rc = qp_modify(j, &rtr,
			       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	if (rc == 0)
		rc = qp_modify(j, &rts,
			       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
				       IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				       IBV_QP_RNR_RETRY);
	return rc;
}

/* ---- what is said ---- */

static int
end_say(struct kv_conn *c, enum kv_msg_type type, const struct kv_qpjoin *end)
{
	struct kv_qpjoin *body = kv_conn_begin(c, type, kv_get32(end->qp), 0);

	if (!body)
		return -ENOBUFS;
	*body = *end;
	kv_conn_end(c);
	return 0;
}

void
kv_rdmajoin_say(struct kv_conn *c, struct kv_le32 qp, enum kv_status status)
{
	struct kv_qpstate *body = kv_conn_begin(c, KV_MSG_QPSTATE, 0, 0);

	if (!body)
		return;
	body->qp = qp;
	body->status = (uint8_t)status;
	kv_conn_end(c);
}

static void
state_say(const struct kv_rdmajoin *j, enum kv_status status)
{
	kv_rdmajoin_say(j->o.c, j->near.qp, status);
}

void
kv_rdmajoin_refuse(struct kv_conn *c, const struct kv_qpjoin *far, int why)
{
	const struct kv_qpjoin end = {
		.qp = far->qp,
		.near = far->near,
		.far = far->far,
		.status = (uint8_t)kv_status_from_errno(why),
	};

	(void)end_say(c, KV_MSG_QPJOIN_R, &end);
}

/* ---- what becomes of it ---- */

static void
ready(struct kv_rdmajoin *j)
{
	j->state = READY;
	kv_loop_timer_del(&j->late);
	j->o.ready(j);
}

static void
over(struct kv_rdmajoin *j, int why)
{
	if (j->state == OVER)
		return;
	j->state = OVER;
	kv_loop_timer_del(&j->late);
	j->o.over(j, why);
}

static void
on_late(struct kv_timer *t)
{
	over(KV_CONTAINER_OF(t, struct kv_rdmajoin, late), -ETIMEDOUT);
}

/* Of a failure the queue pair tells. */
static void
on_proven(struct kv_rdmawr *w, int status)
{
	struct kv_rdmajoin *j = KV_CONTAINER_OF(w, struct kv_rdmajoin, probe);

	if (status < 0 || j->state != PROVING)
		return;
	state_say(j, KV_OK);
	ready(j);
}

static void
prove(struct kv_rdmajoin *j)
{
	struct kv_rdmawr *w = &j->probe;

	j->state = PROVING;
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->done = on_proven;
	kv_rdmaqp_ready(j->o.qp);
	kv_rdmaqp_post(j->o.qp, &w, 1);
}

bool
kv_rdmajoin_answer(struct kv_rdmajoin *j, const struct kv_qpjoin *far)
{
	int rc;

	if (j->state == OVER)
		return true;
	if (j->state != ASKING || far->near != j->near.near ||
	    far->far != j->near.far)
		return false;
	if (far->status != 0) {
		j->is_known = false;
		over(j, -kv_status_errno(kv_status_of_peer(far->status)));
		return true;
	}
	rc = qp_finish(j, far);
	if (rc < 0)
		over(j, rc);
	else
		prove(j);
	return true;
}

bool
kv_rdmajoin_state(struct kv_rdmajoin *j, uint8_t status)
{
	if (status != 0) {
		j->is_known = false;
		over(j, -ECONNRESET);
		return true;
	}
	if (j->state == OVER)
		return true;
	if (j->state != WAITING)
		return false;
	kv_rdmaqp_ready(j->o.qp);
	ready(j);
	return true;
}

/* ---- life ---- */

static struct kv_rdmajoin *
join_new(const struct kv_rdmajoin_opts *o)
{
	struct kv_rdmajoin *j = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->o = *o;
	j->late.fn = on_late;
	return j;
}

/* NULL: rc is why there is none. */
static struct kv_rdmajoin *
made(struct kv_rdmajoin *j, int rc)
{
	if (rc == 0)
		j->is_known = true;
	else
		kv_rdmajoin_free(kv_steal_ptr(&j));
	errno = -rc;
	return j;
}

struct kv_rdmajoin *
kv_rdmajoin_dial(const struct kv_rdmajoin_opts *o)
{
	struct kv_rdmajoin *j = join_new(o);
	int rc = j ? qp_begin(j) : -ENOMEM;

	if (rc == 0)
		rc = kv_loop_timer_set(o->qp->cq->loop, &j->late,
				       o->deadline_ns);
	if (rc == 0)
		rc = end_say(o->c, KV_MSG_QPJOIN, &j->near);
	return made(j, rc);
}

struct kv_rdmajoin *
kv_rdmajoin_accept(const struct kv_rdmajoin_opts *o,
		   const struct kv_qpjoin *far)
{
	struct kv_rdmajoin *j = join_new(o);
	int rc = j ? qp_begin(j) : -ENOMEM;

	if (rc == 0)
		rc = qp_finish(j, far);
	if (rc == 0)
		rc = kv_loop_timer_set(o->qp->cq->loop, &j->late,
				       o->deadline_ns);
	if (rc == 0)
		rc = end_say(o->c, KV_MSG_QPJOIN_R, &j->near);
	if (rc == 0)
		j->state = WAITING;
	return made(j, rc);
}

void *
kv_rdmajoin_arg(const struct kv_rdmajoin *j)
{
	return j->o.arg;
}

void
kv_rdmajoin_free(struct kv_rdmajoin *j)
{
	if (!j)
		return;
	kv_loop_timer_del(&j->late);
	if (j->is_known)
		state_say(j, KV_ECONNLOST);
	free(j);
}

#include "xfer/rdmacm.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"

enum {
	BACKLOG = 128,
};

enum state {
	RESOLVING,  /* dialling: which port leads there */
	ROUTING,    /* how */
	CONNECTING, /* what does the other side say */
	ASKED,      /* listening: it was handed over */
	ACCEPTING,  /* has the other side heard of it */
	READY,
	OVER,
};

struct kv_rdmacm {
	const struct kv_rdmaverbs *v;
	struct kv_loop *loop;
	int traffic_class;
	struct rdma_event_channel *channel;
	struct kv_io io;
	unsigned ids; /* of connections and listeners */
};

/* What the context of an id points to. */
struct holder {
	bool is_listener;
};

struct kv_rdmaconn {
	struct holder holder;
	struct kv_rdmacm *cm;
	struct rdma_cm_id *id;
	struct kv_rdmaqp *qp;
	struct kv_rdmaconn_opts o;
	char word[KV_RDMACM_WORD_BYTES];
	enum state state;
	bool is_handled; /* an event of it is not acknowledged */
	struct kv_timer late;
	/* READs at once: of this side's, and of the other's. */
	uint8_t initiates, responds;
};

struct kv_rdmalisten {
	struct holder holder;
	struct kv_rdmacm *cm;
	struct rdma_cm_id *id;
	kv_rdmalisten_fn *fn;
	void *arg;
};

/* ---- ending ---- */

static void
conn_over(struct kv_rdmaconn *c, int why)
{
	if (c->state == OVER)
		return;
	c->state = OVER;
	kv_loop_timer_del(&c->late);
	/* Of one that was asked for only, kv_rdmacm_accept() says so. */
	if (c->o.ops)
		c->o.ops->over(c, why);
}

static void
conn_late(struct kv_timer *t)
{
	conn_over(KV_CONTAINER_OF(t, struct kv_rdmaconn, late), -ETIMEDOUT);
}

void
kv_rdmacm_give_up(struct kv_rdmaconn *c)
{
	const struct kv_rdmaverbs *v;

	if (!c)
		return;
	v = c->cm->v;
	assert(!c->is_handled);
	kv_loop_timer_del(&c->late);
	if (c->state == READY || c->state == ACCEPTING)
		v->disconnect(c->id);
	if (c->id)
		v->destroy_id(c->id);
	c->cm->ids--;
	free(c);
}

void *
kv_rdmacm_arg(const struct kv_rdmaconn *c)
{
	return c->o.arg;
}

void
kv_rdmacm_pass(struct kv_rdmaconn *c, const struct kv_rdmaconn_ops *ops,
	       void *arg)
{
	c->o.ops = ops;
	c->o.arg = arg;
}

const struct sockaddr *
kv_rdmacm_peer(const struct kv_rdmaconn *c)
{
	return &c->id->route.addr.dst_addr;
}

/* ---- the queue pair's way ---- */

/* To a state, with what the connection manager knows for it, and our own
 * times. 0 or -errno. */
static int
qp_move(struct kv_rdmaconn *c, enum ibv_qp_state state)
{
	const struct kv_rdmaverbs *v = c->cm->v;
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0, rc;

	if (v->init_qp_attr(c->id, &attr, &mask) != 0)
		return -errno;
	if (state == IBV_QPS_INIT)
		attr.qp_access_flags = KV_RDMAQP_ACCESS;
	if (state == IBV_QPS_RTR) {
		attr.max_dest_rd_atomic = c->responds;
		attr.min_rnr_timer = KV_RDMAQP_RNR_TIMER;
		if (c->o.mtu && attr.path_mtu > c->o.mtu)
			attr.path_mtu = (enum ibv_mtu)c->o.mtu;
	}
	if (state == IBV_QPS_RTS) {
		attr.max_rd_atomic = c->initiates;
		attr.timeout = KV_RDMAQP_ACK_TIMEOUT;
		attr.retry_cnt = KV_RDMAQP_RETRIES;
		attr.rnr_retry = KV_RDMAQP_RNR_RETRIES;
	}
	rc = v->modify_qp(c->qp->qp, &attr, mask);
	return rc > 0 ? -rc : rc;
}

static int
qp_begin(struct kv_rdmaconn *c, struct kv_rdmaqp *qp)
{
	c->qp = qp;
	return qp ? qp_move(c, IBV_QPS_INIT) : -ENODEV;
}

static int
qp_finish(struct kv_rdmaconn *c)
{
	int rc = qp_move(c, IBV_QPS_RTR);

	return rc < 0 ? rc : qp_move(c, IBV_QPS_RTS);
}

static void
conn_ready(struct kv_rdmaconn *c, const struct rdma_conn_param *p)
{
	c->state = READY;
	kv_loop_timer_del(&c->late);
	kv_rdmaqp_ready(c->qp);
	c->o.ops->ready(c, p ? p->private_data : NULL,
			p ? p->private_data_len : 0);
}

static struct rdma_conn_param
param_of(const struct kv_rdmaconn *c)
{
	return (struct rdma_conn_param){
		.private_data = c->word,
		.private_data_len = (uint8_t)c->o.bytes,
		.responder_resources = c->responds,
		.initiator_depth = c->initiates,
		.retry_count = KV_RDMAQP_RETRIES,
		.rnr_retry_count = KV_RDMAQP_RNR_RETRIES,
		.srq = 1,
		.qp_num = c->qp->qp->qp_num,
	};
}

/* As many as the port has. */
static void
depths_set(struct kv_rdmaconn *c)
{
	const struct kv_rdmanic *p = c->qp->cq->port;

	c->initiates = p->initiates;
	c->responds = p->responds;
}

static int
dial_go_on(struct kv_rdmaconn *c)
{
	const struct kv_rdmaverbs *v = c->cm->v;
	struct rdma_conn_param p;
	struct kv_rdmaqp *qp;
	int rc;

	qp = c->o.ops->make(c, v->get_device_name(c->id->verbs->device),
			    c->id->port_num);
	rc = qp_begin(c, qp);
	if (rc < 0)
		return rc;
	depths_set(c);
	p = param_of(c);
	c->state = CONNECTING;
	return v->connect(c->id, &p) == 0 ? 0 : -errno;
}

/* The other side has accepted: it can do so many READs at once. */
static int
dial_finish(struct kv_rdmaconn *c, const struct rdma_conn_param *p)
{
	int rc;

	c->initiates =
		(uint8_t)kv_min_u64(c->initiates, p->responder_resources);
	c->responds = (uint8_t)kv_min_u64(c->responds, p->initiator_depth);
	rc = qp_finish(c);
	if (rc < 0)
		return rc;
	if (c->cm->v->establish(c->id) != 0)
		return -errno;
	conn_ready(c, p);
	return 0;
}

/* ---- events ---- */

static int
time_left_ms(const struct kv_rdmaconn *c)
{
	uint64_t now = kv_loop_now(c->cm->loop);

	if (c->o.deadline_ns <= now)
		return 1;
	return (int)kv_min_u64((c->o.deadline_ns - now) / KV_NS_PER_MS + 1,
			       60 * 1000);
}

static int
route(struct kv_rdmaconn *c)
{
	c->state = ROUTING;
	return c->cm->v->resolve_route(c->id, time_left_ms(c)) == 0 ? 0
								    : -errno;
}

static int
refusal(const struct rdma_cm_event *e)
{
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return -EHOSTUNREACH;
	case RDMA_CM_EVENT_UNREACHABLE:
		return -ETIMEDOUT;
	case RDMA_CM_EVENT_REJECTED:
		return -ECONNREFUSED;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return -ENODEV;
	case RDMA_CM_EVENT_DISCONNECTED:
		return -ECONNRESET;
	default:
		return e->status < 0 ? e->status : -EIO;
	}
}

/* 0, or why it is over. */
static int
conn_event(struct kv_rdmaconn *c, const struct rdma_cm_event *e)
{
	if (e->event == RDMA_CM_EVENT_ADDR_RESOLVED && c->state == RESOLVING)
		return route(c);
	if (e->event == RDMA_CM_EVENT_ROUTE_RESOLVED && c->state == ROUTING)
		return dial_go_on(c);
	if (e->event == RDMA_CM_EVENT_CONNECT_RESPONSE &&
	    c->state == CONNECTING)
		return dial_finish(c, &e->param.conn);
	if (e->event == RDMA_CM_EVENT_ESTABLISHED) {
		if (c->state == ACCEPTING)
			conn_ready(c, NULL);
		return 0;
	}
	if (e->event == RDMA_CM_EVENT_TIMEWAIT_EXIT)
		return 0;
	return refusal(e);
}

static struct kv_rdmaconn *
conn_new(struct kv_rdmacm *cm, struct rdma_cm_id *id)
{
	struct kv_rdmaconn *c = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->cm = cm;
	c->id = id;
	c->late.fn = conn_late;
	cm->ids++;
	return c;
}

static void
conn_opts_set(struct kv_rdmaconn *c, const struct kv_rdmaconn_opts *o)
{
	assert(o->bytes <= sizeof(c->word));
	c->o = *o;
	if (o->bytes)
		memcpy(c->word, o->word, o->bytes);
	c->o.word = c->word;
}

/* A request for a connection. NULL: no memory. */
static struct kv_rdmaconn *
conn_asked(struct kv_rdmacm *cm, const struct rdma_cm_event *e)
{
	const struct rdma_conn_param *p = &e->param.conn;
	struct kv_rdmaconn *c = conn_new(cm, e->id);

	if (!c)
		return NULL;
	e->id->context = &c->holder;
	c->state = ASKED;
	c->initiates = p->responder_resources;
	c->responds = p->initiator_depth;
	c->o.bytes = kv_min_u64(p->private_data_len, sizeof(c->word));
	if (c->o.bytes)
		memcpy(c->word, p->private_data, c->o.bytes);
	return c;
}

/* What is asked for is handed on once the event is acknowledged: before that
 * its connection may not move to another loop. */
static void
on_request(struct kv_rdmacm *cm, struct rdma_cm_event *e)
{
	struct kv_rdmalisten *l = KV_CONTAINER_OF(e->listen_id->context,
						  struct kv_rdmalisten, holder);
	struct kv_rdmaconn *c = conn_asked(cm, e);
	struct rdma_cm_id *id = e->id;

	cm->v->ack_cm_event(e);
	if (c) {
		l->fn(l->arg, c, cm->v->get_device_name(id->verbs->device),
		      id->port_num, c->word, c->o.bytes);
		return;
	}
	cm->v->reject(id, NULL, 0);
	cm->v->destroy_id(id);
}

/* An id with events that are not acknowledged cannot be destroyed: so `over`
 * comes after that. */
static void
on_conn(struct kv_rdmacm *cm, struct kv_rdmaconn *c, struct rdma_cm_event *e)
{
	int why;

	c->is_handled = true;
	why = c->state == OVER ? 0 : conn_event(c, e);
	cm->v->ack_cm_event(e);
	c->is_handled = false;
	if (why < 0)
		conn_over(c, why);
}

static void
on_event(struct kv_rdmacm *cm, struct rdma_cm_event *e)
{
	struct holder *h = e->id->context;

	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(cm, e);
	else if (!h || h->is_listener)
		cm->v->ack_cm_event(e);
	else
		on_conn(cm, KV_CONTAINER_OF(h, struct kv_rdmaconn, holder), e);
}

static void
on_channel(struct kv_io *io, uint32_t ready)
{
	struct kv_rdmacm *cm = KV_CONTAINER_OF(io, struct kv_rdmacm, io);
	struct rdma_cm_event *e;

	(void)ready;
	/* Level triggered: what is left comes in the next turn. */
	if (cm->v->get_cm_event(cm->channel, &e) == 0)
		on_event(cm, e);
}

/* ---- dialling and being dialled ---- */

static int
id_make(struct kv_rdmacm *cm, struct rdma_cm_id **id, struct holder *h)
{
	uint8_t tos = (uint8_t)cm->traffic_class;

	if (cm->v->create_id(cm->channel, id, h, RDMA_PS_TCP) != 0)
		return -errno;
	if (cm->traffic_class >= 0 &&
	    cm->v->set_option(*id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos,
			      sizeof(tos)) != 0)
		return -errno;
	return 0;
}

struct kv_rdmaconn *
kv_rdmacm_dial(struct kv_rdmacm *cm, const struct sockaddr *from,
	       const struct sockaddr *to, const struct kv_rdmaconn_opts *opts)
{
	struct kv_rdmaconn *c = conn_new(cm, NULL);
	int rc;

	if (!c) {
		errno = ENOMEM;
		return NULL;
	}
	conn_opts_set(c, opts);
	rc = kv_loop_timer_set(cm->loop, &c->late, opts->deadline_ns);
	if (rc == 0)
		rc = id_make(cm, &c->id, &c->holder);
	if (rc == 0 &&
	    cm->v->resolve_addr(c->id, kv_unconst(from), kv_unconst(to),
				time_left_ms(c)) != 0)
		rc = -errno;
	if (rc == 0)
		return c;
	kv_rdmacm_give_up(c);
	errno = -rc;
	return NULL;
}

int
kv_rdmacm_accept(struct kv_rdmaconn *c, struct kv_rdmaqp *qp,
		 const struct kv_rdmaconn_opts *opts)
{
	const struct kv_rdmanic *port = qp->cq->port;
	struct rdma_conn_param p;
	int rc;

	if (c->state == OVER)
		return -ECONNRESET;
	assert(c->state == ASKED);
	conn_opts_set(c, opts);
	c->initiates = (uint8_t)kv_min_u64(c->initiates, port->initiates);
	c->responds = (uint8_t)kv_min_u64(c->responds, port->responds);
	rc = kv_loop_timer_set(c->cm->loop, &c->late, opts->deadline_ns);
	if (rc == 0)
		rc = qp_begin(c, qp);
	if (rc == 0)
		rc = qp_finish(c);
	if (rc < 0)
		return rc;
	p = param_of(c);
	c->state = ACCEPTING;
	return c->cm->v->accept(c->id, &p) == 0 ? 0 : -errno;
}

void
kv_rdmacm_refuse(struct kv_rdmaconn *c)
{
	c->cm->v->reject(c->id, NULL, 0);
	kv_rdmacm_give_up(c);
}

struct kv_rdmalisten *
kv_rdmacm_listen(struct kv_rdmacm *cm, const struct sockaddr *at,
		 kv_rdmalisten_fn *fn, void *arg)
{
	struct kv_rdmalisten *l =
		KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*l));
	const struct kv_rdmaverbs *v = cm->v;
	int err;

	if (!l) {
		errno = ENOMEM;
		return NULL;
	}
	l->holder.is_listener = true;
	l->cm = cm;
	l->fn = fn;
	l->arg = arg;
	cm->ids++;
	errno = -id_make(cm, &l->id, &l->holder);
	if (errno == 0 && v->bind_addr(l->id, kv_unconst(at)) == 0 &&
	    v->listen(l->id, BACKLOG) == 0)
		return l;
	err = errno;
	kv_rdmacm_unlisten(l);
	errno = err;
	return NULL;
}

void
kv_rdmacm_unlisten(struct kv_rdmalisten *l)
{
	if (!l)
		return;
	if (l->id)
		l->cm->v->destroy_id(l->id);
	l->cm->ids--;
	free(l);
}

uint16_t
kv_rdmacm_port(const struct kv_rdmalisten *l)
{
	return ntohs(l->cm->v->get_src_port(l->id));
}

/* ---- the channel ---- */

struct kv_rdmacm *
kv_rdmacm_new(const struct kv_rdmaverbs *v, struct kv_loop *loop,
	      int traffic_class)
{
	struct kv_rdmacm *cm;
	int rc;

	if (!v->create_event_channel) {
		errno = ENOTSUP;
		return NULL;
	}
	cm = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*cm));
	if (!cm) {
		errno = ENOMEM;
		return NULL;
	}
	cm->v = v;
	cm->loop = loop;
	cm->traffic_class = traffic_class;
	cm->io.fn = on_channel;
	cm->channel = v->create_event_channel();
	if (!cm->channel || fcntl(cm->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		rc = -errno;
	else
		rc = kv_loop_io_add(loop, &cm->io, cm->channel->fd, EPOLLIN);
	if (rc == 0)
		return cm;
	kv_rdmacm_free(cm);
	errno = -rc;
	return NULL;
}

void
kv_rdmacm_free(struct kv_rdmacm *cm)
{
	if (!cm)
		return;
	assert(cm->ids == 0);
	kv_loop_io_del(&cm->io);
	if (cm->channel)
		cm->v->destroy_event_channel(cm->channel);
	free(cm);
}

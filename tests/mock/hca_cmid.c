/* Ids and their events: the calls of the connection manager. */

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "hca_cm.h"

enum {
	ACK_TIMEOUT = 19, /* of RoCE, if nobody says otherwise: 2.1 s */
	ROUTE_NS = 1000,
};

struct event {
	struct rdma_cm_event event; /* first */
	struct kv_list link;
	struct hca_id *counted; /* by whom it has to be acknowledged */
	uint8_t data[HCA_REP_BYTES];
};

int
hca_cm_result(int err)
{
	errno = err;
	return err ? -1 : 0;
}

/* ---- channels and events ---- */

struct rdma_event_channel *
hca_cm_channel(struct hca_proc *p)
{
	struct hca_events *ch = hca_alloc(sizeof(*ch));

	ch->ch.fd = hca_fd_new();
	ch->proc = p;
	kv_list_init(&ch->events);
	kv_list_add_tail(&p->channels, &ch->link);
	return &ch->ch;
}

static void
destroy_event_channel(struct rdma_event_channel *ibch)
{
	struct hca_events *ch = (struct hca_events *)ibch;

	assert(ch->n_ids == 0);
	hca_fd_free(ch->proc, ibch->fd);
	kv_list_del(&ch->link);
	free(ch);
}

static void
channel_show(struct hca_events *ch)
{
	hca_fd_ready(ch->proc, ch->ch.fd, !kv_list_is_empty(&ch->events));
}

static void
fill_conn(struct event *e, const struct hca_letter *l)
{
	struct rdma_conn_param *c = &e->event.param.conn;

	memcpy(e->data, l->data, sizeof(e->data));
	c->private_data = e->data;
	c->private_data_len = l->kind == HCA_REQ   ? HCA_REQ_BYTES
			      : l->kind == HCA_REP ? HCA_REP_BYTES
						   : HCA_REJ_BYTES;
	c->responder_resources = l->initiator_depth;
	c->initiator_depth = l->responder_resources;
	c->retry_count = l->retry_cnt;
	c->rnr_retry_count = l->rnr_retry;
	c->qp_num = l->qpn;
}

struct rdma_cm_event *
hca_id_tell(struct hca_id *id, enum rdma_cm_event_type type, int status,
	    const struct hca_letter *l)
{
	struct hca_events *ch = (struct hca_events *)id->id.channel;
	struct event *e = hca_alloc(sizeof(*e));

	e->event.id = &id->id;
	e->event.event = type;
	e->event.status = status;
	if (l)
		fill_conn(e, l);
	kv_list_add_tail(&ch->events, &e->link);
	channel_show(ch);
	return &e->event;
}

static int
get_cm_event(struct rdma_event_channel *ibch, struct rdma_cm_event **event)
{
	struct hca_events *ch = (struct hca_events *)ibch;
	struct event *e = KV_LIST_FIRST(&ch->events, struct event, link);

	if (!e)
		return hca_again(ibch->fd);
	kv_list_del(&e->link);
	channel_show(ch);
	e->counted = (struct hca_id *)(e->event.listen_id ? e->event.listen_id
							  : e->event.id);
	e->counted->unacked++;
	*event = &e->event;
	return 0;
}

static int
ack_cm_event(struct rdma_cm_event *event)
{
	struct event *e = (struct event *)event;

	assert(e->counted->unacked > 0);
	e->counted->unacked--;
	free(e);
	return 0;
}

/* ---- ids ---- */

struct hca_id *
hca_id_new(struct hca_events *ch, void *context)
{
	struct hca_id *id = hca_alloc(sizeof(*id));

	id->id.channel = &ch->ch;
	id->id.context = context;
	id->id.qp_type = IBV_QPT_RC;
	id->id.ps = RDMA_PS_TCP;
	id->hca = ch->proc->hca;
	id->proc = ch->proc;
	id->serial = ++id->hca->next_id;
	id->psn = (uint32_t)hca_upto(id->hca, (1u << 24) - 1);
	id->ack_timeout = ACK_TIMEOUT;
	id->timer.fn = hca_cm_wait_over;
	kv_list_add_tail(&id->hca->ids, &id->link);
	ch->n_ids++;
	return id;
}

static int
create_id(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context,
	  enum rdma_port_space ps)
{
	struct hca_id *made;

	if (ps != RDMA_PS_TCP || !ch)
		return hca_cm_result(EINVAL);
	made = hca_id_new((struct hca_events *)ch, context);
	*id = &made->id;
	return 0;
}

static int destroy_id(struct rdma_cm_id *ibid);

/* What nobody has seen; who asks there is sent away. */
static void
events_drop(struct hca_id *id)
{
	struct hca_events *ch = (struct hca_events *)id->id.channel;
	struct event *e, *tmp;
	struct kv_list mine;

	kv_list_init(&mine);
	KV_LIST_FOREACH_SAFE(e, tmp, &ch->events, link) {
		if (e->event.id != &id->id && e->event.listen_id != &id->id)
			continue;
		kv_list_del(&e->link);
		kv_list_add_tail(&mine, &e->link);
	}
	while ((e = KV_LIST_FIRST(&mine, struct event, link))) {
		kv_list_del(&e->link);
		if (e->event.listen_id == &id->id)
			destroy_id(e->event.id);
		free(e);
	}
	channel_show(ch);
}

static int
destroy_id(struct rdma_cm_id *ibid)
{
	struct hca_id *id = (struct hca_id *)ibid;

	hca_cm_leave(id);
	events_drop(id);
	assert(id->unacked == 0); /* else it hangs */
	((struct hca_events *)ibid->channel)->n_ids--;
	kv_list_del(&id->link);
	free(id);
	return 0;
}

static int
migrate_id(struct rdma_cm_id *ibid, struct rdma_event_channel *ibto)
{
	struct hca_id *id = (struct hca_id *)ibid;
	struct hca_events *from = (struct hca_events *)ibid->channel;
	struct hca_events *to = (struct hca_events *)ibto;
	struct event *e, *tmp;

	if (!to || to->proc != id->proc)
		return hca_cm_result(EINVAL);
	assert(id->unacked == 0); /* else it hangs */
	KV_LIST_FOREACH_SAFE(e, tmp, &from->events, link) {
		if (e->event.id != ibid && e->event.listen_id != ibid)
			continue;
		kv_list_del(&e->link);
		kv_list_add_tail(&to->events, &e->link);
	}
	from->n_ids--;
	to->n_ids++;
	ibid->channel = ibto;
	channel_show(from);
	channel_show(to);
	return 0;
}

/* ---- addresses ---- */

/* The manager has contexts of its own, none that the process opened. */
static struct hca_ctx *
context_of(struct hca_proc *p, struct hca_dev *dev)
{
	struct hca_ctx *ctx;

	KV_LIST_FOREACH(ctx, &p->ctxs, link)
		if (ctx->of_cm && ctx->dev == dev)
			return ctx;
	ctx = hca_ctx_new(p, dev);
	ctx->of_cm = true;
	return ctx;
}

void
hca_id_show_addr(struct sockaddr_in *to, struct in_addr ip, uint16_t port)
{
	*to = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr = ip,
		.sin_port = htons(port),
	};
}

void
hca_id_bind(struct hca_id *id, struct hca_port *port)
{
	id->port = port;
	id->ip = port->ip;
	id->id.verbs = &context_of(id->proc, port->dev)->ctx;
	id->id.port_num = port->num;
}

static bool
is_port_taken(const struct hca_id *id, struct in_addr ip, uint16_t port)
{
	struct hca_id *other;

	KV_LIST_FOREACH(other, &id->hca->ids, link)
		if (other != id && other->state == HCA_CM_LISTENING &&
		    other->proc->host == id->proc->host &&
		    other->ip_port == port &&
		    (!other->ip.s_addr || !ip.s_addr ||
		     other->ip.s_addr == ip.s_addr))
			return true;
	return false;
}

/* Its own port; 0 is any. */
static int
bind_to(struct hca_id *id, const struct sockaddr_in *addr)
{
	struct hca_port *port = NULL;
	uint16_t ip_port = ntohs(addr->sin_port);

	if (addr->sin_family != AF_INET)
		return EAFNOSUPPORT;
	if (id->state != HCA_CM_IDLE)
		return EINVAL;
	if (addr->sin_addr.s_addr) {
		port = hca_port_by_ip(id->hca, addr->sin_addr);
		if (!port || port->dev->host != id->proc->host ||
		    port->dev->removed)
			return ENODEV;
	}
	if (ip_port == 0)
		ip_port = id->proc->host->next_port++;
	else if (is_port_taken(id, addr->sin_addr, ip_port))
		return EADDRINUSE;
	if (port)
		hca_id_bind(id, port);
	id->ip_port = ip_port;
	id->state = HCA_CM_BOUND;
	hca_id_show_addr(&id->id.route.addr.src_sin, addr->sin_addr, ip_port);
	return 0;
}

static int
bind_addr(struct rdma_cm_id *ibid, struct sockaddr *addr)
{
	return hca_cm_result(bind_to((struct hca_id *)ibid,
				     (const struct sockaddr_in *)(void *)addr));
}

static int
listen_on(struct rdma_cm_id *ibid, int backlog)
{
	struct hca_id *id = (struct hca_id *)ibid;

	if (id->state != HCA_CM_BOUND || backlog < 0)
		return hca_cm_result(EINVAL);
	if (is_port_taken(id, id->ip, id->ip_port))
		return hca_cm_result(EADDRINUSE);
	id->state = HCA_CM_LISTENING;
	return 0;
}

static uint16_t
get_src_port(struct rdma_cm_id *ibid)
{
	return htons(((struct hca_id *)ibid)->ip_port);
}

/* One of this host for the way there; one that is down, too. */
static struct hca_port *
way_out(const struct hca_id *id, const struct hca_port *peer)
{
	struct hca_dev *dev;
	struct hca_port *port;

	KV_LIST_FOREACH(dev, &id->proc->host->devs, link)
		KV_LIST_FOREACH(port, &dev->ports, link)
			if (!dev->removed && port->ip.s_addr &&
			    (!peer || port->opts.fabric == peer->opts.fabric))
				return port;
	return NULL;
}

bool
hca_id_draw_fault(struct hca_id *id, enum rdma_cm_event_type first,
		  enum rdma_cm_event_type last)
{
	struct hca_cm_fault *f = &id->proc->host->cm_fault;

	if (!f->is_set || f->type < first || f->type > last)
		return false;
	id->fault = *f;
	f->is_set = false;
	return true;
}

static int
resolve(struct hca_id *id, const struct sockaddr_in *src,
	const struct sockaddr_in *dst, int timeout_ms)
{
	static const struct sockaddr_in any = { .sin_family = AF_INET };
	int err = 0;

	if (dst->sin_family != AF_INET)
		return EAFNOSUPPORT;
	if (id->state == HCA_CM_IDLE)
		err = bind_to(id, src ? src : &any);
	else if (src || id->state != HCA_CM_BOUND)
		err = EINVAL;
	if (err)
		return err;
	id->peer = hca_port_by_ip(id->hca, dst->sin_addr);
	if (!id->port) {
		struct hca_port *port = way_out(id, id->peer);

		if (!port)
			return ENODEV;
		hca_id_bind(id, port);
		hca_id_show_addr(&id->id.route.addr.src_sin, port->ip,
				 id->ip_port);
	}
	id->to_ip = dst->sin_addr;
	id->to_ip_port = ntohs(dst->sin_port);
	hca_id_show_addr(&id->id.route.addr.dst_sin, id->to_ip, id->to_ip_port);
	id->state = HCA_CM_ADDR_ASKED;
	hca_id_draw_fault(id, RDMA_CM_EVENT_ADDR_ERROR,
			  RDMA_CM_EVENT_ADDR_ERROR);
	id->deadline_ns =
		hca_now(id->hca) + (uint64_t)timeout_ms * KV_NS_PER_MS;
	hca_cm_wait(id, kv_min_u64(2 * id->hca->opts.latency_ns,
				   (uint64_t)timeout_ms * KV_NS_PER_MS));
	return 0;
}

static int
resolve_addr(struct rdma_cm_id *ibid, struct sockaddr *src,
	     struct sockaddr *dst, int timeout_ms)
{
	return hca_cm_result(resolve(
		(struct hca_id *)ibid, (const struct sockaddr_in *)(void *)src,
		(const struct sockaddr_in *)(void *)dst, timeout_ms));
}

static int
resolve_route(struct rdma_cm_id *ibid, int timeout_ms)
{
	struct hca_id *id = (struct hca_id *)ibid;

	if (id->state != HCA_CM_ADDR || timeout_ms < 0)
		return hca_cm_result(EINVAL);
	id->state = HCA_CM_ROUTE_ASKED;
	hca_id_draw_fault(id, RDMA_CM_EVENT_ROUTE_ERROR,
			  RDMA_CM_EVENT_ROUTE_ERROR);
	hca_cm_wait(id, ROUTE_NS);
	return 0;
}

void
hca_cm_calls(struct kv_rdmaverbs *v)
{
	v->destroy_event_channel = destroy_event_channel;
	v->create_id = create_id;
	v->destroy_id = destroy_id;
	v->bind_addr = bind_addr;
	v->listen = listen_on;
	v->resolve_addr = resolve_addr;
	v->resolve_route = resolve_route;
	v->migrate_id = migrate_id;
	v->get_cm_event = get_cm_event;
	v->ack_cm_event = ack_cm_event;
	v->get_src_port = get_src_port;
	hca_cmconn_calls(v);
}

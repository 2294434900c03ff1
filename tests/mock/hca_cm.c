/* What connection managers tell each other, and what they wait for. */

#include "hca_cm.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* ---- letters ---- */

static void deliver(struct hca_letter *l);

static void
letter_free(struct hca_letter *l)
{
	kv_loop_timer_del(&l->timer);
	kv_list_del(&l->link);
	free(l);
}

/* Sent again until it comes through, or nobody waits for it any more. */
static void
run_letter(struct kv_timer *t)
{
	struct hca_letter *l = KV_CONTAINER_OF(t, struct hca_letter, timer);

	if (hca_reaches(l->from, l->to) && !hca_loses(l->from, l->to))
		deliver(l);
	else if (++l->tries < HCA_CM_TRIES) {
		hca_arm(l->hca, t, hca_now(l->hca) + HCA_CM_AGAIN_NS);
		return;
	}
	letter_free(l);
}

static struct hca_letter *
letter_new(struct hca_port *from, struct hca_port *to,
	   enum hca_letter_kind kind)
{
	struct hca_letter *l = hca_alloc(sizeof(*l));

	l->hca = from->dev->host->hca;
	l->from = from;
	l->to = to;
	l->kind = kind;
	l->timer.fn = run_letter;
	kv_list_add_tail(&l->hca->mail, &l->link);
	hca_arm(l->hca, &l->timer,
		hca_now(l->hca) + hca_latency(from, to) +
			hca_upto(l->hca, l->hca->opts.jitter_ns));
	return l;
}

void
hca_cm_write(struct hca_id *id, enum hca_letter_kind kind,
	     const struct rdma_conn_param *param, int status)
{
	struct hca_letter *l;

	if (!id->peer) /* of that address there is no port */
		return;
	l = letter_new(id->port, id->peer, kind);
	l->src = id->serial;
	l->dst = id->peer_serial;
	l->ip_port = id->ip_port;
	l->to_ip_port = id->to_ip_port;
	l->qpn = id->qpn;
	l->psn = id->psn;
	l->responder_resources = id->responder_resources;
	l->initiator_depth = id->initiator_depth;
	l->retry_cnt = id->retry_cnt;
	l->rnr_retry = id->rnr_retry;
	l->status = status;
	if (param && param->private_data)
		memcpy(l->data, param->private_data, param->private_data_len);
}

/* An answer to a letter of which nobody here knows. */
static void
write_back(const struct hca_letter *l, enum hca_letter_kind kind, int status)
{
	struct hca_letter *back = letter_new(l->to, l->from, kind);

	back->dst = l->src;
	back->status = status;
}

/* ---- what they do ---- */

static struct hca_id *
listener_of(const struct hca_letter *l)
{
	struct hca_id *id;

	KV_LIST_FOREACH(id, &l->hca->ids, link)
		if (id->state == HCA_CM_LISTENING &&
		    id->proc->host == l->to->dev->host &&
		    id->ip_port == l->to_ip_port &&
		    (!id->port || id->port == l->to))
			return id;
	return NULL;
}

/* Who gives up before an answer came does not know whom it has asked. */
static struct hca_id *
id_of(const struct hca_letter *l)
{
	struct hca_id *id;

	KV_LIST_FOREACH(id, &l->hca->ids, link)
		if (id->serial == l->dst ||
		    (l->dst == 0 && id->peer_serial == l->src))
			return id;
	return NULL;
}

static void
take_params(struct hca_id *id, const struct hca_letter *l)
{
	id->peer_serial = l->src;
	id->peer_qpn = l->qpn;
	id->peer_psn = l->psn;
	id->responder_resources = l->initiator_depth;
	id->initiator_depth = l->responder_resources;
}

static void
on_req(struct hca_letter *l)
{
	struct hca_id *listener = listener_of(l);
	struct rdma_cm_event *event;
	struct hca_id *id;

	if (!listener) {
		write_back(l, HCA_REJ, HCA_REJ_NOBODY);
		return;
	}
	id = hca_id_new((struct hca_events *)listener->id.channel,
			listener->id.context);
	hca_id_bind(id, l->to);
	id->id.ps = listener->id.ps;
	id->ip_port = l->to_ip_port;
	id->to_ip = l->from->ip;
	id->to_ip_port = l->ip_port;
	id->peer = l->from;
	hca_id_show_addr(&id->id.route.addr.src_sin, id->port->ip, id->ip_port);
	hca_id_show_addr(&id->id.route.addr.dst_sin, id->to_ip, id->to_ip_port);
	id->state = HCA_CM_ASKED;
	id->retry_cnt = l->retry_cnt;
	id->rnr_retry = l->rnr_retry;
	take_params(id, l);
	event = hca_id_tell(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, l);
	event->listen_id = &listener->id;
}

static void
go_down(struct hca_id *id)
{
	id->state = HCA_CM_DOWN;
	hca_id_tell(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	hca_cm_wait(id, HCA_CM_TIMEWAIT_NS);
}

static bool
is_connected(const struct hca_id *id)
{
	return id->state == HCA_CM_UP || id->state == HCA_CM_ANSWERED ||
	       id->state == HCA_CM_ACCEPTED;
}

static void
take_letter(struct hca_id *id, struct hca_letter *l)
{
	if (l->kind == HCA_REP && id->state == HCA_CM_CONNECTING) {
		kv_loop_timer_del(&id->timer);
		take_params(id, l);
		id->state = HCA_CM_ANSWERED;
		hca_id_tell(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, l);
	} else if (l->kind == HCA_RTU && id->state == HCA_CM_ACCEPTED) {
		kv_loop_timer_del(&id->timer);
		id->state = HCA_CM_UP;
		hca_id_tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	} else if (l->kind == HCA_REJ && id->state >= HCA_CM_CONNECTING &&
		   id->state <= HCA_CM_ACCEPTED) {
		kv_loop_timer_del(&id->timer);
		id->state = HCA_CM_GONE;
		hca_id_tell(id, RDMA_CM_EVENT_REJECTED, l->status, l);
	} else if (l->kind == HCA_DREQ) {
		write_back(l, HCA_DREP, 0);
		if (is_connected(id) || id->state == HCA_CM_LEAVING)
			go_down(id);
	} else if (l->kind == HCA_DREP && id->state == HCA_CM_LEAVING) {
		go_down(id);
	}
}

static void
deliver(struct hca_letter *l)
{
	struct hca_id *id;

	if (l->kind == HCA_REQ) {
		on_req(l);
		return;
	}
	id = id_of(l);
	if (id)
		take_letter(id, l);
	else if (l->kind == HCA_DREQ)
		write_back(l, HCA_DREP, 0);
}

void
hca_cm_leave(struct hca_id *id)
{
	if (is_connected(id))
		hca_cm_write(id, HCA_DREQ, NULL, 0);
	else if (id->state == HCA_CM_CONNECTING)
		hca_cm_write(id, HCA_REJ, NULL, HCA_REJ_TIMEOUT);
	else if (id->state == HCA_CM_ASKED)
		hca_cm_write(id, HCA_REJ, NULL, HCA_REJ_CONSUMER);
	kv_loop_timer_del(&id->timer);
	id->state = HCA_CM_GONE;
}

/* ---- waiting ---- */

void
hca_cm_wait(struct hca_id *id, uint64_t ns)
{
	hca_arm(id->hca, &id->timer, hca_now(id->hca) + ns);
}

static void
addr_over(struct hca_id *id)
{
	uint64_t now = hca_now(id->hca);

	if (id->fault.is_set) {
		id->state = HCA_CM_BOUND;
		hca_id_tell(id, RDMA_CM_EVENT_ADDR_ERROR, id->fault.status,
			    NULL);
	} else if (id->peer && hca_reaches(id->port, id->peer) &&
		   hca_reaches(id->peer, id->port)) {
		id->state = HCA_CM_ADDR;
		hca_id_tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
	} else if (now < id->deadline_ns) {
		hca_arm(id->hca, &id->timer, id->deadline_ns);
	} else {
		id->state = HCA_CM_BOUND;
		hca_id_tell(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, NULL);
	}
}

static void
route_over(struct hca_id *id)
{
	id->state = id->fault.is_set ? HCA_CM_ADDR : HCA_CM_ROUTE;
	if (id->fault.is_set)
		hca_id_tell(id, RDMA_CM_EVENT_ROUTE_ERROR, id->fault.status,
			    NULL);
	else
		hca_id_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
}

static void
connect_fails(struct hca_id *id)
{
	const struct hca_cm_fault *f = &id->fault;
	struct hca_letter l = { .kind = HCA_REJ };

	id->state = HCA_CM_GONE;
	if (!id->fault.is_set) {
		hca_id_tell(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
		return;
	}
	memcpy(l.data, f->data, f->bytes);
	hca_id_tell(id, f->type, f->status,
		    f->type == RDMA_CM_EVENT_REJECTED ? &l : NULL);
}

void
hca_cm_wait_over(struct kv_timer *t)
{
	struct hca_id *id = KV_CONTAINER_OF(t, struct hca_id, timer);

	if (id->state == HCA_CM_ADDR_ASKED) {
		addr_over(id);
	} else if (id->state == HCA_CM_ROUTE_ASKED) {
		route_over(id);
	} else if (id->state == HCA_CM_LEAVING) {
		go_down(id);
	} else if (id->state == HCA_CM_DOWN) {
		id->state = HCA_CM_GONE;
		hca_id_tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
	} else {
		connect_fails(id);
	}
	id->fault.is_set = false;
}

/* ---- what goes wrong ---- */

void
hca_fail_cm(struct hca_host *host, enum rdma_cm_event_type type, int status,
	    const void *data, uint8_t bytes)
{
	assert(bytes <= HCA_REJ_BYTES);
	host->cm_fault = (struct hca_cm_fault){
		.is_set = true,
		.type = type,
		.status = status,
		.bytes = bytes,
	};
	if (bytes)
		memcpy(host->cm_fault.data, data, bytes);
}

void
hca_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	hca_id_tell((struct hca_id *)id, type, status, NULL);
}

void
hca_cm_exit(struct hca_proc *p)
{
	struct hca_events *ch;
	struct hca_id *id;

	KV_LIST_FOREACH(id, &p->hca->ids, link)
		if (id->proc == p)
			hca_cm_leave(id);
	KV_LIST_FOREACH(ch, &p->channels, link)
		hca_fd_ready(p, ch->ch.fd, false);
}

void
hca_cm_removed(struct hca_dev *dev)
{
	struct hca_id *id;

	KV_LIST_FOREACH(id, &dev->host->hca->ids, link) {
		if (!id->port || id->port->dev != dev)
			continue;
		kv_loop_timer_del(&id->timer);
		id->state = HCA_CM_GONE;
		hca_id_tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
	}
}

void
hca_cm_free(struct hca *h)
{
	struct hca_letter *l;

	assert(kv_list_is_empty(&h->ids));
	while ((l = KV_LIST_FIRST(&h->mail, struct hca_letter, link)))
		letter_free(l);
}

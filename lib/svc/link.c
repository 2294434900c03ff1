#include "svc/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "base/status.h"
#include "net/hello.h"
#include "net/sock.h"
#include "svc/chan.h"
#include "svc/gentable.h"
#include "svc/linkcore.h"

/* One attempt: dialling, HELLO, ATTACH. */
#define ATTEMPT_NS       KV_NS_PER_S
#define ATTEMPT_LEAST_NS (200 * KV_NS_PER_MS)
#define ATTEMPT_ONE_NS   (300 * KV_NS_PER_MS) /* to a master of several */
#define TRIAL_NS         (100 * KV_NS_PER_MS) /* for whom failed last time */

static const struct kv_conn_ops conn_ops;
static int end_dial(struct kv_link_end *e);
static void stray(struct kv_rpc *rpc, const struct kv_msg *msg);

struct kv_link *
kv_link_new(struct kv_chan *ch, const char *addr, const struct kv_id *want,
	    bool is_local)
{
	struct kv_link *l = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	if (strlen(addr) >= sizeof(l->addr)) {
		free(l);
		errno = ENAMETOOLONG;
		return NULL;
	}
	memcpy(l->addr, addr, strlen(addr) + 1);
	l->ch = ch;
	if (want)
		l->want = *want;
	l->is_local = is_local;
	l->ctl.link = l->data.link = l->fast.link = l;
	kv_list_init(&l->node);
	kv_list_init(&l->waits);
	kv_list_init(&l->rxs);
	return l;
}

/* ---- waits and receivers ---- */

static bool
is_open(const struct kv_link *l, bool data)
{
	return l->ctl.state == KV_LINK_UP &&
	       (!data || l->data.state == KV_LINK_UP);
}

/* Whose time is over by then. fn may free the wait, and start another one. */
static void
waits_tell(struct kv_link *l, int status, uint64_t until_ns)
{
	struct kv_list told;
	struct kv_link_wait *w, *tmp;

	kv_list_init(&told);
	KV_LIST_FOREACH_SAFE(w, tmp, &l->waits, link) {
		if (w->until_ns > until_ns ||
		    (status == 0 && !is_open(l, w->data)))
			continue;
		kv_list_del(&w->link);
		kv_list_add_tail(&told, &w->link);
	}
	while ((w = KV_LIST_FIRST(&told, struct kv_link_wait, link))) {
		kv_list_del(&w->link);
		w->to = NULL;
		w->fn(w, status);
	}
}

void
kv_link_wait_cancel(struct kv_link_wait *w)
{
	if (!w->to)
		return;
	kv_list_del(&w->link);
	w->to = NULL;
}

void
kv_link_rx_add(struct kv_link *l, struct kv_link_rx *rx)
{
	rx->to = l;
	kv_list_add_tail(&l->rxs, &rx->link);
}

void
kv_link_rx_del(struct kv_link_rx *rx)
{
	if (!rx->to)
		return;
	kv_list_del(&rx->link);
	rx->to = NULL;
}

static struct kv_link_rx *
rx_find(struct kv_link *l, const struct kv_msg *msg)
{
	const struct kv_data *d = msg->body;
	struct kv_link_rx *rx;

	KV_LIST_FOREACH(rx, &l->rxs, link)
		if (rx->ref == kv_get64(d->ref))
			return rx;
	return NULL;
}

static void
rxs_lose(struct kv_link *l, int status)
{
	struct kv_link_rx *rx;

	while ((rx = KV_LIST_FIRST(&l->rxs, struct kv_link_rx, link))) {
		kv_link_rx_del(rx);
		rx->lost(rx, status);
	}
}

/* ---- going down ---- */

void
kv_link_end_close(struct kv_link_end *e, int status)
{
	struct kv_conn *conn = e->conn;

	if (e->dial)
		e->link->ch->hub->net->cancel(e->link->ch->hub->net, e->dial);
	e->dial = NULL;
	e->conn = NULL;
	e->state = KV_LINK_IDLE;
	if (conn)
		kv_rpc_fail(&e->rpc, -kv_status_errno(status));
	/* What is given up must not be done yet when the way is free again: a
	 * put would bring back what was removed meanwhile. */
	if (status == -KV_ECLOSED)
		kv_conn_close(conn);
	else
		kv_conn_reset(conn);
}

void
kv_link_drop_data(struct kv_link *l, int status)
{
	kv_link_fast_end(l, status);
	kv_link_rails_end(l);
	kv_link_end_close(&l->data, status);
	rxs_lose(l, status);
}

void
kv_link_drop(struct kv_link *l, int status)
{
	if (l->is_local && l->ctl.state == KV_LINK_UP)
		kv_hub_orphan_add(l->ch->hub, &l->boot, l->ctl.token);
	if (l->is_local && status == -KV_ETIMEOUT) /* who is refused knows */
		kv_hub_sick(l->ch->hub, &l->want, kv_loop_now(l->ch->loop));
	kv_link_drop_data(l, status);
	kv_link_end_close(&l->ctl, status);
	l->is_told = false;
	waits_tell(l, status, UINT64_MAX);
}

void
kv_link_free(struct kv_link *l)
{
	if (!l)
		return;
	kv_link_drop(l, -KV_ECLOSED);
	kv_list_del(&l->node);
	free(l);
}

/* The attempt was begun for who had less time: it is made again for those who
 * have some left. False: there are none. */
static bool
attempt_again(struct kv_link_end *e)
{
	struct kv_link *l = e->link;
	uint64_t now = kv_loop_now(l->ch->loop), until = now;
	struct kv_link_wait *w;

	KV_LIST_FOREACH(w, &l->waits, link)
		until = kv_max_u64(until, w->until_ns);
	if (until == now || e->state == KV_LINK_UP)
		return false;
	kv_link_end_close(e, -KV_ETIMEOUT);
	l->deadline = until;
	if (end_dial(e) < 0)
		return false;
	waits_tell(l, -KV_ETIMEOUT, now);
	return true;
}

/* The attempt failed, or what was up is lost. A lost data connection does not
 * end the control connection: calls there may still be answered. */
static void
end_fail(struct kv_link_end *e, int status)
{
	struct kv_link *l = e->link;

	kv_debug("link to %s lost: %s", l->addr, kv_status_text(status));
	if (e == &l->fast) {
		kv_link_fast_fail(l, status);
		return;
	}
	if (status == -KV_ETIMEOUT && attempt_again(e))
		return;
	if (e == &l->ctl) {
		kv_link_drop(l, status);
		return;
	}
	kv_link_drop_data(l, status);
	waits_tell(l, status, UINT64_MAX);
}

/* closed: see struct kv_release. */
static void
release_send(struct kv_conn *c, const struct kv_le64 *pins, uint32_t n,
	     uint64_t closed)
{
	struct kv_release *r;
	void *tail;

	r = kv_conn_begin_tail(c, KV_MSG_RELEASE, 0, 0, n * sizeof(*pins),
			       &tail);
	if (!r)
		return; /* it is closed: the node hears of it */
	r->count = kv_le32(n);
	r->closed = kv_le64(closed);
	if (n > 0)
		memcpy(tail, pins, n * sizeof(*pins));
	kv_conn_end(c);
}

void
kv_link_unpin(struct kv_link *l, const struct kv_le64 *pins, uint32_t n)
{
	if (l->ctl.conn && n > 0)
		release_send(l->ctl.conn, pins, n, 0);
}

/* What earlier connections of this process left behind at the local node. */
static void
orphans_release(struct kv_link_end *e)
{
	uint64_t token;

	while ((token = kv_hub_orphan_take(e->link->ch->hub, &e->link->boot)))
		release_send(e->conn, NULL, 0, token);
}

/* ---- coming up ---- */

void
kv_link_is_up(struct kv_link_end *e)
{
	struct kv_link *l = e->link;
	struct kv_link_wait *w;
	bool want_data = false;

	e->state = KV_LINK_UP;
	if (l->is_local) {
		kv_hub_well(l->ch->hub, &l->want);
		kv_hub_well(l->ch->hub, &l->boot); /* it was dialled by TCP */
		orphans_release(e);
	}
	KV_LIST_FOREACH(w, &l->waits, link)
		want_data = want_data || w->data;
	if (e == &l->ctl && want_data && l->data.state == KV_LINK_IDLE &&
	    end_dial(&l->data) < 0) {
		end_fail(&l->data, -KV_ENOMEM);
		return;
	}
	waits_tell(l, 0, UINT64_MAX);
}

static void
attach_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_link_end *e = KV_CONTAINER_OF(call, struct kv_link_end, call);
	const struct kv_attach_r *r;
	int fd;

	if (status < 0) {
		end_fail(e, -kv_status_from_errno(status));
		return;
	}
	r = msg->body;
	fd = kv_conn_recv_fd(e->conn);
	if (msg->type != KV_MSG_ATTACH_R || r->status != KV_OK) {
		if (fd >= 0)
			close(fd);
		end_fail(e, msg->type == KV_MSG_ATTACH_R
				    ? kv_status_of_peer(r->status)
				    : -KV_EPROTO);
		return;
	}
	status = kv_hub_map_set(e->link->ch->hub, &e->link->boot, r, fd);
	if (status < 0)
		end_fail(e, -kv_status_from_errno(status));
	else
		kv_link_is_up(e);
}

/* Also when the pool is mapped already: to the node a process is new when its
 * last connection was lost. */
static void
attach_ask(struct kv_link_end *e)
{
	struct kv_attach *body;

	e->state = KV_LINK_ATTACH;
	e->call.fn = attach_answered;
	body = kv_rpc_begin(&e->rpc, &e->call, KV_MSG_ATTACH,
			    e->link->deadline);
	if (!body) {
		end_fail(e, -kv_status_from_errno(errno));
		return;
	}
	body->flags = KV_ATTACH_WRITE;
	kv_rpc_end(&e->rpc);
}

static void
hello_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_link_end *e = KV_CONTAINER_OF(call, struct kv_link_end, call);
	struct kv_link *l = e->link;
	struct kv_hello_result r;

	if (status < 0) {
		end_fail(e, -kv_status_from_errno(status));
		return;
	}
	status = kv_hello_parse(msg, &r);
	if (status != KV_OK) {
		if (status == KV_EVERSION || status == KV_EDENIED)
			kv_warn("%s refuses: %s", l->addr, r.text);
		end_fail(e, kv_status_of_peer((uint8_t)status));
		return;
	}
	e->token = r.token;
	if (e == &l->fast) {
		kv_link_fast_up(l);
		return;
	}
	kv_hub_heard(l->ch->hub, kv_gentable_parse(&r.generation));
	if (e == &l->ctl) {
		l->boot = r.boot;
		l->features = r.features;
	}
	if (l->is_local && l->ch->hub->is_opening && !l->ch->hub->named)
		l->ch->hub->named = strndup(r.masters, r.masters_len);
	if (e == &l->ctl && l->is_local)
		attach_ask(e);
	else if (e == &l->ctl || !kv_link_rails_begin(l, r.features))
		kv_link_is_up(e);
}

static void
hello_say(struct kv_link_end *e)
{
	struct kv_link *l = e->link;
	const struct kv_hub *hub = l->ch->hub;
	const struct kv_hello_opts opts = {
		.role = e == &l->data ? KV_ROLE_DATA : KV_ROLE_REQUESTER,
		.boot = &hub->boot,
		.want = kv_id_is_zero(l->want) ? NULL : &l->want,
		.host = &hub->host,
		.token = e == &l->ctl ? 0 : l->ctl.token,
		.tenant = hub->tenant,
		.name = hub->name,
		.generation = kv_gentable_build(kv_hub_generation(l->ch->hub)),
		.features = e == &l->data && hub->rdma ? KV_FEATURE_RDMA : 0,
	};

	e->state = KV_LINK_HELLO;
	e->call.fn = hello_answered;
	if (!kv_rpc_begin(&e->rpc, &e->call, KV_MSG_HELLO, l->deadline)) {
		end_fail(e, -kv_status_from_errno(errno));
		return;
	}
	if (!kv_hello_build(e->conn, &opts)) {
		end_fail(e, -kv_status_from_errno(kv_conn_error(e->conn)));
		return;
	}
	kv_rpc_end(&e->rpc);
	kv_conn_flush(e->conn);
}

void
kv_link_connected(void *arg, struct kv_stream *s, int status)
{
	struct kv_link_end *e = arg;

	e->dial = NULL;
	if (e == &e->link->ctl) {
		e->link->dialled = status;
		e->link->foreign = NULL;
	}
	if (!s) {
		end_fail(e, -kv_status_from_errno(status));
		return;
	}
	e->conn = kv_conn_new(e->link->ch->loop, s, &conn_ops, e);
	if (!e->conn) {
		end_fail(e, -KV_ENOMEM);
		return;
	}
	kv_rpc_init(&e->rpc, e->conn);
	e->rpc.stray = stray;
	hello_say(e);
}

static int
end_dial(struct kv_link_end *e)
{
	struct kv_link *l = e->link;
	struct kv_net *net = l->ch->hub->net;

	e->dial = net->connect(net, l->ch->loop, l->addr, l->deadline,
			       kv_link_connected, e);
	if (!e->dial)
		return -KV_ENOMEM;
	e->state = KV_LINK_DIALING;
	return 0;
}

/* How long an attempt may take. */
static uint64_t
attempt_ns(const struct kv_link *l)
{
	struct kv_hub *hub = l->ch->hub;
	unsigned i;

	if (l->is_local || !kv_id_is_zero(l->want))
		return kv_hub_has_failed(hub, &l->want) ? TRIAL_NS : ATTEMPT_NS;
	for (i = 0; i < hub->n_masters && l != l->ch->masters[i]; i++)
		;
	if (kv_hub_master_has_failed(hub, i))
		return TRIAL_NS;
	return kv_hub_master_has_other(hub, 1u << i) ? ATTEMPT_ONE_NS
						     : ATTEMPT_NS;
}

int
kv_link_open(struct kv_link *l, struct kv_link_wait *w, bool data,
	     uint64_t deadline_ns)
{
	uint64_t now = kv_loop_now(l->ch->loop);
	struct kv_link_end *down;
	int rc;

	if (is_open(l, data) && !(data && kv_link_rails_await(l)))
		return 1;
	w->until_ns = kv_chan_patience(l->ch, deadline_ns, ATTEMPT_LEAST_NS,
				       attempt_ns(l));
	down = l->ctl.state == KV_LINK_UP ? &l->data : &l->ctl;
	if (down->state == KV_LINK_IDLE) {
		if (l->is_local && !kv_hub_try(l->ch->hub, &l->want, now))
			return -KV_EUNREACHABLE;
		l->deadline = w->until_ns;
		rc = end_dial(down);
		if (rc < 0)
			return rc;
	}
	w->to = l;
	w->data = data;
	kv_list_add_tail(&l->waits, &w->link);
	return 0;
}

const char *
kv_link_why(const struct kv_link *l, int status)
{
	if (l->dialled < 0)
		return kv_sock_error_text(l->dialled);
	if (l->foreign)
		return l->foreign;
	return status == -KV_ETIMEOUT ? kv_sock_error_text(-ETIMEDOUT)
				      : kv_status_text(status);
}

/* ---- what arrives ---- */

/* Late answers to calls given up: what they pin or grant goes back at once. */
static void
pins_return(struct kv_link *l, const struct kv_msg *msg)
{
	const struct kv_get_r *r = msg->body;
	uint32_t i, count = kv_get32(r->count);
	struct kv_map_values v;

	if (kv_map_values_parse(msg, count, &v) < 0)
		return;
	for (i = 0; i < count; i++)
		if (v.ent[i].how == KV_HOW_EXTENTS)
			kv_link_unpin(l, &v.ent[i].pin, 1);
}

void
kv_link_ungrant(struct kv_link *l, const struct kv_msg *msg)
{
	struct kv_conn *c = l->ctl.conn;
	const struct kv_grant_r *r = msg->body;
	uint32_t i, count = kv_get32(r->count);
	struct kv_map_grants m;
	struct kv_filled *f;
	struct kv_le64 *grants;

	if (!c || msg->type != KV_MSG_GRANT_R ||
	    kv_map_grants_parse(msg, &m) < 0 || count == 0 ||
	    !kv_conn_begin(c, KV_MSG_FILLED, msg->id, 0))
		return;
	grants = kv_conn_tail(c, count * sizeof(*grants));
	if (!grants)
		return;
	for (i = 0; i < count; i++)
		grants[i] = m.ent[i].grant;
	f = kv_conn_body(c);
	f->count = kv_le32(count);
	f->flags = KV_FILLED_GIVE_UP;
	kv_conn_end(c);
}

static void
stray(struct kv_rpc *rpc, const struct kv_msg *msg)
{
	struct kv_link_end *e = KV_CONTAINER_OF(rpc, struct kv_link_end, rpc);

	if (msg->type == KV_MSG_GET_R)
		pins_return(e->link, msg);
	else if (msg->type == KV_MSG_GRANT_R && e == &e->link->ctl)
		kv_link_ungrant(e->link, msg);
}

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct kv_link_end *e = kv_conn_arg(c);
	struct kv_link_rx *rx;
	bool is_good;

	if (e == &e->link->data && kv_link_rails_take(e->link, msg, &is_good)) {
		if (!is_good)
			end_fail(e, -KV_EPROTO);
		return;
	}
	if (kv_rpc_take(&e->rpc, msg))
		return;
	if (msg->type == KV_MSG_DATA && e == &e->link->data) {
		rx = rx_find(e->link, msg);
		if (rx)
			rx->got(rx, msg);
	}
}

static int
on_payload(struct kv_conn *c, const struct kv_msg *msg, struct iovec *iov,
	   int max)
{
	struct kv_link_end *e = kv_conn_arg(c);
	struct kv_link_rx *rx;

	if (msg->type != KV_MSG_DATA || e != &e->link->data)
		return -EPROTO;
	rx = rx_find(e->link, msg);
	return rx ? rx->payload(rx, msg, iov, max) : 0;
}

static void
on_close(struct kv_conn *c, int status)
{
	struct kv_link_end *e = kv_conn_arg(c);

	if (e->state == KV_LINK_HELLO)
		e->link->foreign = kv_hello_why(status);
	end_fail(e, -kv_status_from_errno(status));
}

static const struct kv_conn_ops conn_ops = {
	.on_msg = on_msg,
	.on_payload = on_payload,
	.on_close = on_close,
};

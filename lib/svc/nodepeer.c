/*
 * Connections of a node: who is let in, and the table that says which messages
 * each kind of peer may send.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/status.h"
#include "base/str.h"
#include "net/addr.h"
#include "net/answer.h"
#include "net/hello.h"
#include "net/sock.h"
#include "net/stream.h"
#include "store/tenants.h"
#include "svc/gentable.h"
#include "svc/nodecore.h"
#include "svc/nodepush.h"
#include "wire/msg.h"
#include "wire/protordma.h"
#include "xfer/rdmacall.h"

/* So long a refused peer has to read why. */
#define LEAVING_NS    (1 * KV_NS_PER_S)
#define MASTERS_BYTES 1024 /* less than the tail of HELLO_R */

enum {
	/* Requests by RDMA, of each port; 6 MiB of memory. */
	CALL_RECEIVES = 512,
	CALL_SENDS = 256,
	CALL_STREAMS = 512,
};

static bool
peer_ping(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	kv_answer_ping(peer->conn, msg);
	return true;
}

enum {
	BOTH = KV_FROM_REQUESTER | KV_FROM_MASTER,
	ANYBODY = BOTH | KV_FROM_PROBE,
};

static const struct {
	unsigned from;
	bool (*fn)(struct kv_nodepeer *peer, const struct kv_msg *msg);
} table[] = {
	[KV_MSG_PING] = { ANYBODY, peer_ping },
	[KV_MSG_ATTACH] = { KV_FROM_REQUESTER, kv_proc_attach },
	[KV_MSG_PUT] = { KV_FROM_REQUESTER, kv_nodeput_start },
	[KV_MSG_FILLED] = { KV_FROM_REQUESTER, kv_nodeput_filled },
	[KV_MSG_GET] = { KV_FROM_REQUESTER, kv_nodeget_start },
	[KV_MSG_RELEASE] = { KV_FROM_REQUESTER, kv_proc_release },
	[KV_MSG_LOOKUP] = { BOTH, kv_nodelookup_start },
	[KV_MSG_NODES] = { BOTH, kv_nodeinfo_nodes },
	[KV_MSG_REMOVE] = { BOTH, kv_nodeadmin_remove },
	[KV_MSG_KEYS] = { BOTH, kv_nodeadmin_keys },
	[KV_MSG_QUERY] = { BOTH, kv_nodeinfo_query },
	[KV_MSG_STATS] = { BOTH, kv_nodeinfo_stats },
	[KV_MSG_GENERATION] = { KV_FROM_MASTER, kv_nodegen_msg },
	[KV_MSG_CHECK] = { KV_FROM_MASTER, kv_nodeinfo_check },
	[KV_MSG_WANT] = { KV_FROM_MASTER, kv_nodelookup_want },
};

bool
kv_nodepeer_dispatch(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	if (msg->type >= KV_ARRAY_LEN(table) ||
	    !(table[msg->type].from & peer->from) ||
	    !table[msg->type].fn(peer, msg)) {
		kv_stats_add(&peer->node->stats, KV_STAT_REQUESTS_BAD, 1);
		return false;
	}
	return true;
}

bool
kv_nodepeer_is_busy(struct kv_nodepeer *peer, unsigned keys)
{
	struct kv_node *node = peer->node;
	unsigned max = peer->from == KV_FROM_MASTER ? KV_MASTER_RELAYS_MAX
						    : KV_PEER_REQUESTS_MAX;

	if (peer->requests < max && peer->n_keys + keys <= KV_PEER_KEYS_MAX &&
	    node->n_keys + keys <= KV_NODE_KEYS_MAX &&
	    node->n_jobs < KV_NODE_JOBS_MAX)
		return false;
	kv_stats_add(&node->stats, KV_STAT_REQUESTS_BUSY, 1);
	return true;
}

static struct kv_nodepeer *
peer_new(struct kv_node *node)
{
	struct kv_nodepeer *peer =
		KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->node = node;
	kv_list_init(&peer->link);
	kv_list_init(&peer->puts);
	kv_list_init(&peer->gets);
	kv_list_init(&peer->data);
	kv_list_init(&peer->jobs);
	return peer;
}

struct kv_nodepeer *
kv_nodepeer_of_session(struct kv_node *node, struct kv_conn *conn)
{
	struct kv_nodepeer *peer = peer_new(node);

	if (!peer)
		return NULL;
	peer->from = KV_FROM_MASTER;
	peer->conn = conn;
	return peer;
}

/* Those that stand beside it go on without its data connections. */
static void
beside_forget(const struct kv_nodepeer *main)
{
	struct kv_nodepeer *p;

	KV_LIST_FOREACH(p, &main->node->peers, link)
		if (p->main == main)
			p->main = NULL;
}

void
kv_nodepeer_free(struct kv_nodepeer *peer)
{
	struct kv_node *node = peer->node;
	struct kv_conn *conn = peer->conn;
	struct kv_nodepeer_data *d;
	struct kv_nodejob *job;

	peer->conn = NULL;
	kv_loop_timer_del(&peer->timer);
	kv_nodeput_peer_lost(peer);
	kv_nodepush_peer_lost(peer);
	while ((job = KV_LIST_FIRST(&peer->jobs, struct kv_nodejob, link)))
		kv_nodejob_end(job);
	beside_forget(peer);
	while ((d = KV_LIST_FIRST(&peer->data, struct kv_nodepeer_data,
				  link))) {
		kv_list_del(&d->link);
		kv_mover_close(d->conn);
	}
	if (peer->proc)
		kv_proc_unref(peer->proc);
	if (peer->from != KV_FROM_MASTER) {
		kv_list_del(&peer->link);
		node->n_conns--;
		kv_conn_close(conn);
	}
	free(peer);
	kv_node_drained(node);
}

struct kv_dataconn *
kv_nodepeer_data(struct kv_nodepeer *peer, uint64_t token)
{
	struct kv_nodepeer_data *d;

	KV_LIST_FOREACH(d, &peer->data, link)
		if (kv_mover_token(d->conn) == token)
			return d->conn;
	return peer->main ? kv_nodepeer_data(peer->main, token) : NULL;
}

void
kv_nodepeer_data_closed(void *owner, struct kv_dataconn *dc)
{
	struct kv_nodepeer_data *d = owner;

	(void)dc;
	d->node->n_conns--;
	kv_list_del(&d->link);
	free(d);
}

static void
peer_refuse(struct kv_nodepeer *peer, uint64_t id, int status, const char *text)
{
	struct kv_node *node = peer->node;

	kv_stats_add(&node->stats, KV_STAT_CONNS_REFUSED, 1);
	kv_log_limited(&node->bad_log, kv_loop_now(node->loop), KV_LOG_INFO,
		       "refused a connection from=%s reason=\"%s\"",
		       peer->who.addr, text);
	kv_hello_answer(peer->conn, id, status, text, &node->boot, 0);
	peer->from = KV_FROM_LEAVING;
	kv_loop_timer_set(node->loop, &peer->timer,
			  kv_loop_now(node->loop) + LEAVING_NS);
}

/* For who is on this host, and may not know them. What does not fit into the
 * answer is left out. */
static void
masters_list(const struct kv_node *node, char *buf, size_t n)
{
	size_t used = 0, len;
	unsigned i;

	buf[0] = '\0';
	for (i = 0; i < KV_MASTERS_MAX && node->o.masters[i]; i++) {
		len = strlen(node->o.masters[i]) + (i > 0);
		if (len >= n - used)
			break;
		snprintf(buf + used, n - used, "%s%s", i > 0 ? "," : "",
			 node->o.masters[i]);
		used += len;
	}
}

static const char main_gone[] = "the control connection that this one stands "
				"beside is gone";

static struct kv_nodepeer *
peer_find(struct kv_node *node, uint64_t token, const struct kv_id *boot)
{
	struct kv_nodepeer *p;

	KV_LIST_FOREACH(p, &node->peers, link)
		if (p->from == KV_FROM_REQUESTER && p->token == token &&
		    kv_id_is_equal(p->boot, *boot))
			return p;
	return NULL;
}

/* Requests may come by RDMA. */
static bool
is_called(const struct kv_node *node)
{
	return node->call && kv_rdmacall_listens(node->call) > 0;
}

static void
hello_requester(struct kv_nodepeer *peer, const struct kv_hello_in *in,
		uint64_t id)
{
	struct kv_node *node = peer->node;
	char masters[MASTERS_BYTES];
	struct kv_hello_reply reply = {
		.text = masters,
		.boot = &node->boot,
		.features = is_called(node) ? KV_FEATURE_CALL : 0,
	};
	int tenant;

	if (in->token != 0)
		peer->main = peer_find(node, in->token, &in->boot);
	if (in->token != 0 && (!peer->main || peer->main->main)) {
		peer_refuse(peer, id, KV_EGONE, main_gone);
		return;
	}
	tenant = kv_tenants_add(kv_index_tenants(node->index), in->tenant,
				in->tenant_len);
	if (tenant < 0) {
		peer_refuse(peer, id, KV_ENOMEM, "too many tenants");
		return;
	}
	peer->proc = kv_proc_of(node, &peer->who);
	if (!peer->proc) {
		peer_refuse(peer, id, KV_ENOMEM,
			    "the node is out of memory or descriptors");
		return;
	}
	peer->tenant = (unsigned)tenant;
	kv_nodegen_learn(node, in->tenant, in->tenant_len,
			 kv_gentable_parse(&in->generation));
	peer->seed = kv_key_seed(in->tenant, in->tenant_len);
	peer->boot = in->boot;
	peer->token = kv_node_random(node);
	peer->from = KV_FROM_REQUESTER;
	kv_loop_timer_del(&peer->timer);
	masters[0] = '\0';
	if (peer->who.is_unix)
		masters_list(node, masters, sizeof(masters));
	reply.token = peer->token;
	reply.generation =
		kv_gentable_build(kv_nodegen_get(node, peer->tenant));
	kv_hello_welcome(peer->conn, id, &reply);
}

/* The connection becomes one of the mover's; the peer that it was goes. */
static void
hello_data(struct kv_nodepeer *peer, const struct kv_hello_in *in, uint64_t id)
{
	struct kv_node *node = peer->node;
	struct kv_nodepeer *control = peer_find(node, in->token, &in->boot);
	struct kv_mover_hello hello = {
		.id = id,
		.boot = &node->boot,
		.asks_rdma = in->features & KV_FEATURE_RDMA,
	};
	struct kv_nodepeer_data *d;
	struct kv_stream *s;

	if (!control) {
		peer_refuse(peer, id, KV_EGONE, main_gone);
		return;
	}
	d = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*d));
	s = d ? kv_conn_detach(peer->conn) : NULL;
	if (!s) {
		free(d);
		peer_refuse(peer, id, d ? KV_EPROTO : KV_ENOMEM,
			    d ? "no bytes may follow HELLO before its answer"
			      : "the node is out of memory");
		return;
	}
	peer->conn = NULL;
	kv_nodepeer_free(peer);
	d->node = node;
	hello.token = kv_node_random(node);
	d->conn = kv_mover_adopt(node->mover, s, &hello, d);
	if (!d->conn) {
		kv_warn("a data connection failed: %m");
		free(d);
		return;
	}
	node->n_conns++;
	kv_list_add_tail(&control->data, &d->link);
}

static void
peer_hello(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	struct kv_node *node = peer->node;
	char text[KV_HELLO_TEXT_BYTES];
	struct kv_hello_in in;
	int status;

	status = kv_hello_check(msg, &node->boot, &in, text);
	if (status != KV_OK) {
		peer_refuse(peer, msg->id, status, text);
		return;
	}
	switch (in.role) {
	case KV_ROLE_REQUESTER:
		hello_requester(peer, &in, msg->id);
		break;
	case KV_ROLE_DATA:
		hello_data(peer, &in, msg->id);
		break;
	case KV_ROLE_PROBE:
		peer->from = KV_FROM_PROBE;
		kv_loop_timer_del(&peer->timer);
		kv_hello_answer(peer->conn, msg->id, KV_OK, NULL, &node->boot,
				0);
		break;
	default:
		peer_refuse(peer, msg->id, KV_ENOTSUP,
			    "this is a node: it serves requesters");
	}
}

static void
peer_on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct kv_nodepeer *peer = kv_conn_arg(c);

	switch (peer->from) {
	case KV_FROM_STRANGER:
		peer_hello(peer, msg);
		return;
	case KV_FROM_LEAVING:
		return;
	default:
		break;
	}
	if (!kv_nodepeer_dispatch(peer, msg)) {
		kv_log_limited(&peer->node->bad_log,
			       kv_loop_now(peer->node->loop), KV_LOG_WARN,
			       "closed a connection: bad message from=%s "
			       "type=%s",
			       peer->who.addr, kv_msg_name(msg->type));
		kv_nodepeer_free(peer);
		return;
	}
	if (kv_conn_is_full(c))
		kv_conn_pause(c, true);
}

static void
peer_on_close(struct kv_conn *c, int status)
{
	struct kv_nodepeer *peer = kv_conn_arg(c);

	if (status != -ECONNRESET) {
		kv_stats_add(&peer->node->stats, KV_STAT_REQUESTS_BAD, 1);
		kv_log_limited(&peer->node->bad_log,
			       kv_loop_now(peer->node->loop), KV_LOG_INFO,
			       "lost a connection from=%s reason=\"%s\"",
			       peer->who.addr, strerror(-status));
	}
	kv_nodepeer_free(peer);
}

static void
peer_on_drain(struct kv_conn *c)
{
	kv_conn_pause(c, false);
}

static const struct kv_conn_ops peer_ops = {
	.on_msg = peer_on_msg,
	.on_close = peer_on_close,
	.on_drain = peer_on_drain,
};

static void
peer_late(struct kv_timer *t)
{
	kv_nodepeer_free(KV_CONTAINER_OF(t, struct kv_nodepeer, timer));
}

static void
node_accept(void *arg, struct kv_stream *s, const struct kv_peer *who)
{
	struct kv_node *node = arg;
	uint64_t now = kv_loop_now(node->loop);
	struct kv_nodepeer *peer;

	kv_stats_add(&node->stats, KV_STAT_CONNS_ACCEPTED, 1);
	if (node->n_conns >= node->o.conns_max) {
		kv_stats_add(&node->stats, KV_STAT_CONNS_REFUSED, 1);
		kv_log_limited(&node->full_log, now, KV_LOG_WARN,
			       "too many connections max=%u from=%s",
			       node->o.conns_max, who->addr);
		s->ops->close(s);
		return;
	}
	peer = peer_new(node);
	if (!peer) {
		s->ops->close(s);
		return;
	}
	peer->who = *who;
	peer->timer.fn = peer_late;
	peer->conn = kv_conn_new(node->loop, s, &peer_ops, peer);
	if (!peer->conn || kv_loop_timer_set(node->loop, &peer->timer,
					     now + KV_HELLO_WAIT_NS) < 0) {
		kv_conn_close(peer->conn);
		free(peer);
		return;
	}
	kv_list_add_tail(&node->peers, &peer->link);
	node->n_conns++;
}

/* What others dial: as it was told, or where it listens; without a host when
 * that is every address of this one. */
static void
addr_init(struct kv_node *node, const char *bound)
{
	char text[KV_ADDR_TEXT_BYTES_MAX], err[KV_ADDR_ERROR_BYTES];
	struct kv_addr a, told;

	if (node->addr[0] ||
	    kv_addr_parse(bound, 0, &a, err, sizeof(err)) < 0 ||
	    a.kind != KV_ADDR_TCP)
		return;
	if (node->o.addr &&
	    kv_addr_parse(node->o.addr, a.port, &told, err, sizeof(err)) == 0) {
		told.port = told.port ? told.port : a.port;
		a = told;
	}
	if (kv_addr_is_unspecified(&a))
		snprintf(text, sizeof(text), ":%u", a.port);
	else
		kv_addr_format(&a, text);
	if (strlen(text) < sizeof(node->addr))
		memcpy(node->addr, text, strlen(text) + 1);
}

static bool
call_is_used(const struct kv_stream *s)
{
	const struct kv_nodepeer *peer = kv_conn_arg(kv_conn_of(s));

	return peer->requests > 0;
}

/* The port of TCP at the addresses of RDMA ports. Without it requesters ask by
 * TCP. */
static void
call_listen(struct kv_node *node)
{
	const struct kv_rdmacall_opts o = {
		.rdma = node->o.rdma,
		.loop = node->loop,
		.receives = CALL_RECEIVES,
		.sends = CALL_SENDS,
		.streams = CALL_STREAMS,
		.is_used = call_is_used,
	};
	char err[KV_ADDR_ERROR_BYTES];
	struct kv_addr a;
	unsigned i;

	for (i = 0; i < KV_NODE_LISTEN_MAX && node->listeners[i]; i++) {
		if (kv_addr_parse(node->bound[i], 0, &a, err, sizeof(err)) <
			    0 ||
		    a.kind != KV_ADDR_TCP)
			continue;
		node->call = kv_rdmacall_new(&o);
		if (node->call)
			kv_rdmacall_listen(node->call, a.port, node_accept,
					   node);
		return;
	}
}

int
kv_nodepeer_listen(struct kv_node *node, char *err, size_t err_bytes)
{
	unsigned i;
	int rc;

	for (i = 0; i < KV_NODE_LISTEN_MAX && node->o.listen[i]; i++) {
		const char *addr = node->o.listen[i];

		node->listeners[i] = node->net->listen(node->net, node->loop,
						       addr, node_accept, node,
						       node->bound[i], &rc);
		if (!node->listeners[i]) {
			snprintf(err, err_bytes, "cannot listen on %s: %s",
				 addr, kv_sock_error_text(rc));
			return rc;
		}
		addr_init(node, node->bound[i]);
	}
	if (node->o.rdma)
		call_listen(node);
	return 0;
}

void
kv_nodepeer_unlisten(struct kv_node *node)
{
	unsigned i;

	for (i = 0; i < KV_NODE_LISTEN_MAX; i++) {
		if (node->listeners[i])
			node->net->unlisten(node->net, node->listeners[i]);
		node->listeners[i] = NULL;
	}
	kv_rdmacall_unlisten(node->call);
}

void
kv_nodepeer_close_all(struct kv_node *node)
{
	struct kv_nodepeer *peer;

	while ((peer = KV_LIST_FIRST(&node->peers, struct kv_nodepeer, link)))
		kv_nodepeer_free(peer);
	kv_rdmacall_free(node->call);
	node->call = NULL;
}

void
kv_nodepeer_close_of(struct kv_node *node, const struct kv_proc *proc)
{
	struct kv_nodepeer *peer, *next;

	KV_LIST_FOREACH_SAFE(peer, next, &node->peers, link)
		if (peer->proc == proc)
			kv_nodepeer_free(peer);
}

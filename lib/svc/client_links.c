#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/client.h"

/* So many nodes are asked at once; a channel holds links to a few more. */
#define AT_ONCE 32
/* A node that is silent so long does not answer. */
#define ANSWER_NS (2 * KV_NS_PER_S)

_Static_assert(AT_ONCE < KV_CHAN_NODES_MAX, "each keeps its link");

struct tour;

/* One node being asked. */
struct visit {
	struct tour *tour;
	struct kv_link *to; /* NULL while it is not under way */
	struct kv_link_wait wait;
	struct kv_call call;
	uint64_t asked_ns;
	struct kv_link_info *info;
};

struct tour {
	struct kv_chan *ch;
	uint64_t deadline;
	struct visit visits[AT_ONCE];
	unsigned n_pending;
	bool is_done;
};

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static void
visit_end(struct visit *v, int status)
{
	struct tour *t = v->tour;

	kv_rpc_cancel(&v->call);
	kv_link_wait_cancel(&v->wait);
	v->to->users--;
	v->to = NULL;
	v->info->status = status;
	if (--t->n_pending == 0)
		t->is_done = true;
}

static void
visit_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct visit *v = KV_CONTAINER_OF(call, struct visit, call);

	v->info->round_trip_ns = now_ns() - v->asked_ns;
	v->info->rails = kv_link_rails(v->to);
	kv_link_rails_why(v->to, v->info->why, sizeof(v->info->why));
	if (v->info->rails > 0)
		snprintf(v->info->path, sizeof(v->info->path), "rdma");
	if (status < 0)
		visit_end(v, -kv_status_from_errno(status));
	else
		visit_end(v, msg->type == KV_MSG_PING_R ? 0 : -KV_EPROTO);
}

static void
visit_ask(struct visit *v)
{
	struct kv_rpc *rpc = &v->to->ctl.rpc;

	v->asked_ns = now_ns();
	v->call.fn = visit_answered;
	if (!kv_rpc_begin(rpc, &v->call, KV_MSG_PING, v->tour->deadline)) {
		visit_end(v, -kv_status_from_errno(errno));
		return;
	}
	kv_rpc_end(rpc);
}

static void
visit_open(struct kv_link_wait *w, int status)
{
	struct visit *v = KV_CONTAINER_OF(w, struct visit, wait);

	if (status < 0)
		visit_end(v, status);
	else
		visit_ask(v);
}

static void
visit_start(struct visit *v, const struct kv_id *boot)
{
	int rc;

	v->to = kv_chan_link(v->tour->ch, boot);
	if (!v->to) {
		v->info->status = -KV_EUNREACHABLE;
		return;
	}
	v->to->users++;
	v->tour->n_pending++;
	snprintf(v->info->path, sizeof(v->info->path), "%s",
		 v->to->is_local ? "shm" : "tcp");
	v->wait.fn = visit_open;
	/* With the connection on which bytes go: it must work as well. */
	rc = kv_link_open(v->to, &v->wait, !v->to->is_local, v->tour->deadline);
	if (rc > 0)
		visit_ask(v);
	else if (rc < 0)
		visit_end(v, rc);
}

static void
tour_abort(void *op)
{
	struct tour *t = op;

	for (unsigned i = 0; i < AT_ONCE; i++)
		if (t->visits[i].to)
			visit_end(&t->visits[i], -KV_ECLOSED);
}

/* Asks up to AT_ONCE nodes. */
static void
tour_make(struct kv_client_chan *cc, const struct kv_hub_node *nodes,
	  struct kv_link_info *links, size_t n)
{
	struct tour t = {
		.ch = cc->ch,
		.deadline = kv_loop_now(cc->loop) + ANSWER_NS,
		.n_pending = 1,
	};

	for (size_t i = 0; i < n; i++) {
		t.visits[i].tour = &t;
		t.visits[i].info = &links[i];
		visit_start(&t.visits[i], &nodes[i].boot);
	}
	if (--t.n_pending == 0)
		return;
	kv_client_run(cc, &t.is_done, tour_abort, &t);
}

static void
link_info(struct kv_link_info *out, const struct kv_hub_node *n)
{
	memset(out, 0, sizeof(*out));
	kv_client_hex(out->boot, &n->boot);
	snprintf(out->name, sizeof(out->name), "%s", n->name);
	snprintf(out->addr, sizeof(out->addr), "%s", n->addr);
}

long
kv_client_links(struct kv_client *c, struct kv_link_info *links, size_t max)
{
	struct kv_hub_node *nodes;
	struct kv_client_chan *cc;
	uint64_t deadline;
	int status = 0;
	unsigned n;
	long rc;

	if (!c || (max > 0 && !links))
		return -KV_EINVALID;
	rc = kv_client_nodes(c, NULL, 0);
	if (rc < 0)
		return rc;
	cc = kv_client_enter(c, 0, &deadline, &status);
	if (!cc)
		return status;
	nodes = kv_hub_nodes(&c->hub, &n);
	/* Which of them is the local one. If it fails that is seen below. */
	if (nodes && cc->ch->local)
		(void)kv_client_open_local(cc, deadline);
	for (size_t i = 0; i < n && i < max; i++)
		link_info(&links[i], &nodes[i]);
	for (size_t i = 0; i < n && i < max; i += AT_ONCE)
		tour_make(cc, nodes + i, links + i,
			  kv_min_size(AT_ONCE, kv_min_size(n, max) - i));
	kv_client_leave(cc);
	rc = nodes ? (long)n : -KV_ENOMEM;
	free(nodes);
	return rc;
}

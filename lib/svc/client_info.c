#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/client.h"
#include "svc/roll.h"

static void
question_answered(struct kv_ask *ask, int status, const struct kv_msg *msg)
{
	struct kv_client_question *q =
		KV_CONTAINER_OF(ask, struct kv_client_question, ask);

	q->is_partial = ask->from_local && ask->ch->hub->n_masters > 0;
	q->status = status < 0 ? status : q->take(q, msg);
	q->is_done = true;
}

static void
question_abort(void *op)
{
	struct kv_client_question *q = op;

	kv_ask_cancel(&q->ask);
	q->status = -KV_ECLOSED;
	q->is_done = true;
}

int
kv_client_ask(struct kv_client *c, struct kv_client_question *q)
{
	struct kv_client_chan *cc;
	int status;

	cc = kv_client_enter(c, 0, &q->ask.deadline, &status);
	if (!cc)
		return status;
	q->is_done = false;
	q->is_partial = false;
	q->ask.fn = question_answered;
	kv_ask_start(cc->ch, &q->ask);
	kv_client_run(cc, &q->is_done, question_abort, q);
	kv_client_leave(cc);
	return q->status;
}

/* ---- nodes ---- */

static int
nothing_build(struct kv_ask *ask, struct kv_conn *c, void *body)
{
	(void)ask;
	(void)c;
	(void)body;
	return 0;
}

void
kv_client_hex(char out[33], const struct kv_id *id)
{
	size_t i;

	for (i = 0; i < sizeof(id->b); i++)
		snprintf(out + 2 * i, 3, "%02x", id->b[i]);
}

static void
node_info(struct kv_node_info *out, const struct kv_hub_node *n)
{
	static const char *const states[] = { "?", "joining", "live", "suspect",
					      "leaving" };

	memset(out, 0, sizeof(*out));
	kv_client_hex(out->boot, &n->boot);
	snprintf(out->name, sizeof(out->name), "%s", n->name);
	snprintf(out->addr, sizeof(out->addr), "%s", n->addr);
	snprintf(out->state, sizeof(out->state), "%s",
		 n->state < KV_ARRAY_LEN(states) ? states[n->state] : "?");
	out->pool_bytes = n->pool_bytes;
	out->ready_bytes = n->ready_bytes;
	out->free_bytes = n->free_bytes;
	out->pinned_bytes = n->pinned_bytes;
	out->keys = n->keys;
	out->victim_age_ms = n->victim_age_ms;
	out->heard_ms = n->heard_ms;
	out->masters = n->masters;
	out->sessions = n->sessions;
}

struct nodes_call {
	struct kv_roll roll;
	int status;
	bool is_done;
};

static void
nodes_told(struct kv_roll *roll, int status)
{
	struct nodes_call *call =
		KV_CONTAINER_OF(roll, struct nodes_call, roll);

	call->status = status;
	call->is_done = true;
}

static void
nodes_abort(void *op)
{
	struct nodes_call *call = op;

	kv_roll_cancel(&call->roll);
	nodes_told(&call->roll, -KV_ECLOSED);
}

int
kv_client_ask_nodes(struct kv_client *c, uint32_t timeout_ms,
		    unsigned *young_ms)
{
	struct nodes_call call = { .roll = { .fn = nodes_told } };
	struct kv_client_chan *cc;
	int status;

	cc = kv_client_enter(c, timeout_ms, &call.roll.deadline, &status);
	if (!cc)
		return status;
	kv_roll_start(cc->ch, &call.roll);
	kv_client_run(cc, &call.is_done, nodes_abort, &call);
	kv_client_leave(cc);
	*young_ms = call.roll.young_ms;
	return call.status;
}

long
kv_client_nodes(struct kv_client *c, struct kv_node_info *nodes, size_t max)
{
	struct kv_hub_node *all;
	unsigned i, n, young_ms;
	int status;

	if (!c || (max > 0 && !nodes))
		return -KV_EINVALID;
	status = kv_client_ask_nodes(c, 0, &young_ms);
	if (status < 0)
		return status;
	all = kv_hub_nodes(&c->hub, &n);
	if (!all)
		return -KV_ENOMEM;
	for (i = 0; i < n && i < max; i++)
		node_info(&nodes[i], &all[i]);
	free(all);
	return n;
}

struct local_question {
	struct kv_client_question q;
	struct kv_hub_node node;
};

static int
local_take(struct kv_client_question *q, const struct kv_msg *msg)
{
	struct local_question *l = KV_CONTAINER_OF(q, struct local_question, q);
	const struct kv_nodes_r *r = msg->body;
	struct kv_map_node m;
	struct kv_cut c;

	if (r->status != KV_OK)
		return kv_status_of_peer(r->status);
	kv_cut_init(&c, msg);
	if (!kv_map_node_take(&c, &m))
		return -KV_EPROTO;
	return kv_hub_node_parse(&l->node, &m) < 0 ? -KV_EPROTO : 0;
}

int
kv_client_local_node(struct kv_client *c, struct kv_node_info *node)
{
	struct local_question l = {
		.q = { .ask = { .type = KV_MSG_NODES,
				.local_only = true,
				.build = nothing_build },
		       .take = local_take },
	};
	int status;

	if (!c || !node)
		return -KV_EINVALID;
	if (!c->hub.local[0])
		return -KV_ENOTSUP;
	status = kv_client_ask(c, &l.q);
	if (status == 0)
		node_info(node, &l.node);
	return status;
}

/* ---- stats ---- */

struct stats_question {
	struct kv_client_question q;
	char *buf;
	size_t size;
	size_t len;
};

static int
stats_take(struct kv_client_question *q, const struct kv_msg *msg)
{
	struct stats_question *s = KV_CONTAINER_OF(q, struct stats_question, q);
	const struct kv_stats_r *b = msg->body;
	size_t n;

	if (b->status != KV_OK)
		return kv_status_of_peer(b->status);
	s->len = msg->tail_len;
	if (s->size == 0)
		return 0;
	n = kv_min_size(s->len, s->size - 1);
	memcpy(s->buf, msg->tail, n);
	s->buf[n] = 0;
	return 0;
}

static long
stats_own(struct kv_client *c, char *buf, size_t size)
{
	struct kv_hub_stats s = { 0 };

	KV_LOCKED(&c->hub.lock)
		s = c->hub.stats;
	return snprintf(
		buf, size,
		"puts %llu\nput_bytes %llu\nput_fails %llu\n"
		"puts_short %llu\ngets %llu\nhits %llu\n"
		"get_bytes %llu\nexists %llu\nfinds %llu\n"
		"rdma_put_bytes %llu\nrdma_get_bytes %llu\n",
		(unsigned long long)s.puts, (unsigned long long)s.put_bytes,
		(unsigned long long)s.put_fails,
		(unsigned long long)s.puts_short, (unsigned long long)s.gets,
		(unsigned long long)s.hits, (unsigned long long)s.get_bytes,
		(unsigned long long)s.exists, (unsigned long long)s.finds,
		(unsigned long long)s.rdma_put_bytes,
		(unsigned long long)s.rdma_get_bytes);
}

long
kv_client_stats(struct kv_client *c, const char *whose, char *buf,
		size_t buf_bytes)
{
	struct stats_question s = {
		.q = { .ask = { .type = KV_MSG_STATS, .build = nothing_build },
		       .take = stats_take },
		.buf = buf,
		.size = buf_bytes,
	};
	int rc;

	if (!c || !whose || (buf_bytes > 0 && !buf))
		return -KV_EINVALID;
	if (strcmp(whose, "client") == 0)
		return stats_own(c, buf, buf_bytes);
	if (strcmp(whose, "local") == 0)
		s.q.ask.local_only = true;
	else if (strcmp(whose, "master") != 0)
		return -KV_EINVALID;
	if (s.q.ask.local_only ? !c->hub.local[0] : c->hub.n_masters == 0)
		return -KV_ENOTSUP;
	rc = kv_client_ask(c, &s.q);
	return rc < 0 ? rc : (long)s.len;
}

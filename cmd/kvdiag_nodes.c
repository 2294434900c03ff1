#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/num.h"
#include "base/status.h"
#include "cli/tool.h"
#include "cmd/kvdiag.h"

struct kv_node_info *
kvdiag_list_nodes(const struct kvdiag *d, size_t *n, int *code)
{
	struct kv_node_info *nodes = calloc(KV_NODES_MAX, sizeof(*nodes));
	long rc;

	if (!nodes) {
		*code = kv_tool_say(EX_OSERR, "out of memory");
		return NULL;
	}
	rc = kv_client_nodes(d->client, nodes, KV_NODES_MAX);
	*code = 0;
	*n = kv_min_size((size_t)rc, KV_NODES_MAX);
	if (rc >= 0)
		return nodes;
	*n = 1;
	if (kv_client_local_node(d->client, nodes) == 0) {
		*code = kv_tool_say(1,
				    "%s: no master answers, only the node "
				    "of this host does",
				    d->command);
		return nodes;
	}
	*code = kvdiag_fail(d, (int)rc);
	free(nodes);
	return NULL;
}

/* 1 if that node does not do its work, or will not much longer. */
static int
health(const struct kv_node_info *node)
{
	return strcmp(node->state, "live") != 0 &&
	       strcmp(node->state, "joining") != 0;
}

/* Masters believe in a node for a while that has stopped to answer. */
static void
mark_silent(const struct kvdiag *d, struct kv_node_info *nodes, size_t n)
{
	struct kv_link_info *links = calloc(KV_NODES_MAX, sizeof(*links));
	long rc = -KV_ENOMEM;
	size_t i, j;

	if (links)
		rc = kv_client_links(d->client, links, KV_NODES_MAX);
	for (i = 0; (long)i < rc && i < KV_NODES_MAX; i++) {
		for (j = 0; j < n; j++)
			if (links[i].status < 0 && !health(&nodes[j]) &&
			    strcmp(links[i].boot, nodes[j].boot) == 0)
				strcpy(nodes[j].state, "silent");
	}
	free(links);
}

/* Whether the node of this host, if there is one, answers. */
static bool
own_answers(const struct kvdiag *d)
{
	struct kv_node_info own;
	int rc = kv_client_local_node(d->client, &own);

	return !d->is_alone && (rc == 0 || rc == -KV_ENOTSUP);
}

int
kvdiag_nodes(struct kvdiag *d)
{
	kv_auto_free struct kv_node_info *nodes = NULL;
	int code = 1;
	size_t n;

	nodes = kvdiag_list_nodes(d, &n, &code);
	if (!nodes)
		return code;
	if (!n)
		code = kv_tool_say(1, "no node is in the pool");
	if (!own_answers(d))
		mark_silent(d, nodes, n);
	kv_out_begin(d->out, KV_OUT_TABLE, NULL);
	for (size_t i = 0; i < n; i++) {
		code |= health(&nodes[i]);
		kv_out_begin(d->out, KV_OUT_ROW, NULL);
		kv_out_string(d->out, "node", nodes[i].name);
		kv_out_string(d->out, "address", nodes[i].addr);
		kv_out_string(d->out, "state", nodes[i].state);
		kv_out_duration(d->out, "heard_s",
				nodes[i].heard_ms * KV_NS_PER_MS);
		kv_out_bytes(d->out, "pool_bytes", nodes[i].pool_bytes);
		kv_out_u64(d->out, "keys", nodes[i].keys);
		kv_out_u64(d->out, "sessions", nodes[i].sessions);
		kv_out_u64(d->out, "masters", nodes[i].masters);
		kv_out_string(d->out, "boot", nodes[i].boot);
		kv_out_end(d->out, KV_OUT_ROW);
	}
	kv_out_end(d->out, KV_OUT_TABLE);
	return code;
}

/* ---- pools ---- */

static void
print_room(struct kv_out *out, const struct kv_node_info *node)
{
	kv_out_bytes(out, "pool_bytes", node->pool_bytes);
	kv_out_bytes(out, "ready_bytes", node->ready_bytes);
	kv_out_bytes(out, "used_bytes", node->ready_bytes - node->free_bytes);
	kv_out_bytes(out, "pinned_bytes", node->pinned_bytes);
	kv_out_bytes(out, "free_bytes", node->free_bytes);
	kv_out_u64(out, "keys", node->keys);
}

static void
add(struct kv_node_info *sum, const struct kv_node_info *node)
{
	sum->pool_bytes += node->pool_bytes;
	sum->ready_bytes += node->ready_bytes;
	sum->free_bytes += node->free_bytes;
	sum->pinned_bytes += node->pinned_bytes;
	sum->keys += node->keys;
}

int
kvdiag_pools(struct kvdiag *d)
{
	kv_auto_free struct kv_node_info *nodes = NULL;
	struct kv_node_info total = { 0 };
	int code = 1;
	size_t n;

	nodes = kvdiag_list_nodes(d, &n, &code);
	if (!nodes)
		return code;
	if (!n)
		code = kv_tool_say(1, "no node is in the pool");
	kv_out_begin(d->out, KV_OUT_OBJECT, NULL);
	kv_out_begin(d->out, KV_OUT_TABLE, "nodes");
	for (size_t i = 0; i < n; i++) {
		add(&total, &nodes[i]);
		kv_out_begin(d->out, KV_OUT_ROW, NULL);
		kv_out_string(d->out, "node", nodes[i].name);
		print_room(d->out, &nodes[i]);
		/* How long what goes next has been idle: how full it is. */
		if (nodes[i].victim_age_ms)
			kv_out_duration(d->out, "victim_age_s",
					nodes[i].victim_age_ms * KV_NS_PER_MS);
		else
			kv_out_none(d->out, "victim_age_s");
		kv_out_end(d->out, KV_OUT_ROW);
	}
	kv_out_end(d->out, KV_OUT_TABLE);
	kv_out_begin(d->out, KV_OUT_OBJECT, "total");
	print_room(d->out, &total);
	kv_out_end(d->out, KV_OUT_OBJECT);
	kv_out_end(d->out, KV_OUT_OBJECT);
	return code;
}

/* ---- links ---- */

static int
print_link(struct kv_out *out, const struct kv_link_info *link)
{
	bool is_up = link->status == 0;

	kv_out_begin(out, KV_OUT_ROW, NULL);
	kv_out_string(out, "node", link->name);
	kv_out_string(out, "address", link->addr);
	kv_out_string(out, "path", *link->path ? link->path : NULL);
	if (link->rails)
		kv_out_u64(out, "rails", link->rails);
	else
		kv_out_none(out, "rails");
	if (is_up)
		kv_out_duration(out, "round_trip_s", link->round_trip_ns);
	else
		kv_out_none(out, "round_trip_s");
	kv_out_string(out, "status",
		      is_up ? "ok" : kv_status_text(link->status));
	kv_out_string(out, "why", *link->why ? link->why : NULL);
	kv_out_end(out, KV_OUT_ROW);
	return is_up ? 0 : 1;
}

static const char *
protocol_of(enum kv_protocol p)
{
	switch (p) {
	case KV_PROTOCOL_TCP:
		return "tcp";
	case KV_PROTOCOL_RDMA:
		return "rdma";
	default:
		return "auto";
	}
}

/* As this process would reach it, if it was an engine. */
static int
engine_failed(const char *addr, int rc)
{
	const char *what = kv_status_text(rc);

	switch (rc) {
	case -KV_EINVALID:
		what = "no address: name it as HOST:PORT";
		break;
	case -KV_ENOTSUP:
		what = "a kvclient, no engine: `kvdiag links` without an "
		       "address has all nodes";
		break;
	case -KV_EUNREACHABLE:
		what = "nobody answers there: is the name right, and does the "
		       "engine run?";
		break;
	case -KV_EPROTO:
	case -KV_ECLOSED:
		what = "something else answers there: name the port of an "
		       "engine";
		break;
	default:
		break;
	}
	return kv_tool_say(kv_status_exit(rc), "links: engine %s: %s", addr,
			   what);
}

static int
engine_link(struct kvdiag *d)
{
	const struct kv_engine_opts o = {
		.size = sizeof(o),
		.listen = "127.0.0.1:0",
		.timeout_ms = kv_tool_timeout_ms(&d->common, 0),
		.protocol = protocol_of(kv_opts_protocol(&d->common)),
		.device = d->common.conf.device_name,
	};
	char text[512], *why;
	struct kv_engine *e = kv_engine_open(&o, text, sizeof(text));
	int rc;

	if (!e)
		return kv_tool_say(kv_opts_exit_code(errno), "links: %s", text);
	rc = kv_engine_path(e, d->arg, text, sizeof(text));
	kv_engine_close(e);
	if (rc < 0)
		return engine_failed(d->arg, rc);
	why = strstr(text, ": ");
	if (why)
		*why = '\0';
	kv_out_begin(d->out, KV_OUT_OBJECT, NULL);
	kv_out_string(d->out, "engine", d->arg);
	kv_out_string(d->out, "path", text);
	kv_out_string(d->out, "why", why ? why + 2 : NULL);
	kv_out_end(d->out, KV_OUT_OBJECT);
	return 0;
}

int
kvdiag_links(struct kvdiag *d)
{
	struct kv_link_info *links;
	int code = 1;
	long rc;

	if (d->arg)
		return engine_link(d);
	links = calloc(KV_NODES_MAX, sizeof(*links));
	if (!links)
		return kv_tool_say(EX_OSERR, "out of memory");
	rc = kv_client_links(d->client, links, KV_NODES_MAX);
	if (rc < 0)
		code = kvdiag_fail(d, (int)rc);
	else if (rc > 0)
		code = 0;
	else
		kv_tool_say(1, "no node is in the pool");
	kv_out_begin(d->out, KV_OUT_TABLE, NULL);
	for (long i = 0; i < rc && i < KV_NODES_MAX; i++)
		code |= print_link(d->out, &links[i]);
	kv_out_end(d->out, KV_OUT_TABLE);
	free(links);
	return code;
}

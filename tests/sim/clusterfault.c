#include <string.h>

#include "base/log.h"
#include "clustercall.h"

static const char *
host_of(struct cluster *cl, unsigned i)
{
	if (i < cl->o.masters)
		return cl->masters[i].host;
	i -= cl->o.masters;
	return i < cl->o.nodes ? cl->nodes[i].host : "h-req";
}

static const char *
host_any(struct cluster *cl)
{
	return host_of(cl, (unsigned)kv_rng_below(
				   &cl->rng, cl->o.masters + cl->o.nodes + 1));
}

void
cluster_fault(struct cluster *cl)
{
	unsigned node = (unsigned)kv_rng_below(&cl->rng, cl->o.nodes);
	unsigned master = (unsigned)kv_rng_below(&cl->rng, cl->o.masters);
	unsigned req = (unsigned)kv_rng_below(&cl->rng, cl->o.requesters);
	const char *a = host_any(cl), *b = host_any(cl);

	cluster_lost(cl);
	cl->is_afflicted = cl->is_damaging = true;
	switch (kv_rng_below(&cl->rng, 14)) {
	case 0:
		cluster_node_kill(cl, node);
		break;
	case 1:
	case 2:
		cluster_node_start(cl, node);
		break;
	case 3:
		cluster_master_kill(cl, master);
		break;
	case 4:
	case 5:
		cluster_master_start(cl, master);
		break;
	case 6:
		cluster_requester_kill(cl, req);
		break;
	case 7:
		simnet_cut(cl->net, a, b);
		break;
	case 8:
		simnet_cut(cl->net, a, b);
		simnet_cut(cl->net, b, a);
		break;
	case 9:
		simnet_heal(cl->net, a, b);
		simnet_heal(cl->net, b, a);
		break;
	case 10:
		simnet_reset(cl->net, a, b);
		break;
	case 11:
		cluster_master_freeze(cl, master, true);
		break;
	case 12:
		cluster_master_freeze(cl, master, false);
		break;
	default:
		simnet_delay(cl->net, a, b,
			     kv_rng_below(&cl->rng, 300 * KV_NS_PER_MS));
		break;
	}
}

/* ---- one thing at a time ---- */

/* One way, the other, or both. */
static void
cut_some(struct cluster *cl, const char *a, const char *b)
{
	uint64_t ways = 1 + kv_rng_below(&cl->rng, 3);

	kv_debug("%.6f cut %s %s %s", (double)cl->clock.ns / 1e9, a,
		 ways == 1   ? "->"
		 : ways == 2 ? "<-"
			     : "<->",
		 b);
	if (ways & 1)
		simnet_cut(cl->net, a, b);
	if (ways & 2)
		simnet_cut(cl->net, b, a);
}

/* A master, from all or some of the other hosts. */
static void
isolate(struct cluster *cl, unsigned master)
{
	bool from_all = kv_rng_below(&cl->rng, 3) == 0;
	unsigned i;

	for (i = cl->o.masters; i <= cl->o.masters + cl->o.nodes; i++)
		if (from_all || kv_rng_below(&cl->rng, 2))
			cut_some(cl, cl->masters[master].host, host_of(cl, i));
}

/* Some host's requesters from a node on another one. */
static void
part(struct cluster *cl)
{
	unsigned n = (unsigned)kv_rng_below(&cl->rng, cl->o.nodes), i;
	unsigned from = (unsigned)kv_rng_below(&cl->rng, cl->o.requesters);
	const char *host = cl->requesters[from].host;

	if (strcmp(host, cl->nodes[n].host) == 0)
		return;
	cl->is_node_lost = true;
	cut_some(cl, host, cl->nodes[n].host);
	for (i = 0; i < cl->o.requesters; i++)
		if (strcmp(cl->requesters[i].host, host) == 0 ||
		    strcmp(cl->requesters[i].host, cl->nodes[n].host) == 0)
			cl->requesters[i].is_parted = true;
}

/* Each node from some of the masters, but not from all. */
static void
split(struct cluster *cl)
{
	unsigned i, m, keeps;

	cluster_split(cl);
	for (i = 0; i < cl->o.nodes; i++) {
		keeps = (unsigned)kv_rng_below(&cl->rng, cl->o.masters);
		for (m = 0; m < cl->o.masters; m++)
			if (m != keeps && kv_rng_below(&cl->rng, 3) > 0)
				cut_some(cl, cl->masters[m].host,
					 cl->nodes[i].host);
	}
	/* These are cut off with the node of their host. */
	for (i = 0; i < cl->o.requesters; i++)
		if (strcmp(cl->requesters[i].host, "h-req") != 0)
			cl->requesters[i].is_parted = true;
}

/* A node with a pool file is killed, and perhaps soon there again. While it is
 * away another value may take the place of one that it has. */
static void
crash(struct cluster *cl)
{
	unsigned n = (unsigned)kv_rng_below(&cl->rng, cl->o.nodes), i;

	if (!cl->nodes[n].has_file)
		return;
	cluster_unsummed(cl);
	cluster_split(cl);
	for (i = 0; i < cl->o.requesters; i++)
		cl->requesters[i].is_parted = true;
	cluster_node_kill(cl, n);
	cl->is_crashed = cl->is_node_lost = true;
	if (kv_rng_below(&cl->rng, 2) == 0)
		return;
	cluster_run(cl, kv_rng_below(&cl->rng, 3 * KV_NS_PER_S));
	cluster_node_start(cl, n);
}

void
cluster_afflict(struct cluster *cl)
{
	unsigned master = (unsigned)kv_rng_below(&cl->rng, cl->o.masters);
	const char *host = cl->masters[master].host;

	cl->is_afflicted = true;
	switch (kv_rng_below(&cl->rng, 10)) {
	case 0:
		cluster_master_kill(cl, master);
		break;
	case 1:
		cluster_master_kill(cl, master);
		cluster_run(cl, kv_rng_below(&cl->rng, KV_NS_PER_S));
		cluster_master_start(cl, master);
		break;
	case 2:
		cluster_master_freeze(cl, master, true);
		break;
	case 3:
		cluster_master_freeze(cl, master, true);
		cluster_run(cl, kv_rng_below(&cl->rng, 5 * KV_NS_PER_S));
		cluster_master_freeze(cl, master, false);
		break;
	case 4:
	case 5:
		isolate(cl, master);
		break;
	case 6:
		split(cl);
		break;
	case 7:
	case 8:
		crash(cl);
		break;
	default:
		part(cl);
		break;
	}
	if (!cl->is_crashed && kv_rng_below(&cl->rng, 4) == 0)
		simnet_reset(cl->net, host, NULL);
}

static void
mend(struct cluster *cl)
{
	unsigned i, j, n = cl->o.masters + cl->o.nodes + 1;

	for (i = 0; i < n; i++) {
		for (j = 0; j < n; j++) {
			simnet_heal(cl->net, host_of(cl, i), host_of(cl, j));
			simnet_delay(cl->net, host_of(cl, i), host_of(cl, j),
				     0);
		}
	}
	for (i = 0; i < cl->o.masters; i++) {
		cluster_master_freeze(cl, i, false);
		cluster_master_start(cl, i);
	}
	for (i = 0; i < cl->o.nodes; i++)
		cluster_node_start(cl, i);
}

static bool
is_whole(struct cluster *cl)
{
	unsigned i;

	for (i = 0; i < cl->o.nodes; i++)
		if (kv_node_sessions(cl->nodes[i].node) != cl->o.masters)
			return false;
	return true;
}

void
cluster_recover(struct cluster *cl)
{
	uint64_t until = cl->clock.ns + 20 * KV_NS_PER_S;
	unsigned i;

	mend(cl);
	/* What comes first is asked before masters have said what counts. */
	for (i = 0; cl->is_crashed && i < 12; i++) {
		cluster_work(cl);
		cluster_run(cl, kv_rng_below(&cl->rng, 200 * KV_NS_PER_US));
	}
	while (!is_whole(cl)) {
		if (cl->clock.ns > until)
			cluster_forbid(cl, "nodes do not find masters again");
		cluster_run(cl, 100 * KV_NS_PER_MS);
	}
	cluster_run(cl, 2 * KV_NS_PER_S);
	cluster_drain(cl);
	for (i = 0; i < cl->o.requesters; i++) {
		if (!cl->requesters[i].is_parted)
			continue;
		/* Masters believe a report so long. */
		cluster_run(cl, 6 * KV_NS_PER_S);
		cl->requesters[i].is_parted = false;
	}
	cluster_removals_done(cl);
	if (cl->is_undone)
		cluster_model_forget(cl);
	cl->is_split = cl->is_undone = cl->is_afflicted = false;
	cl->is_stale = cl->is_crashed = cl->is_node_lost = false;
}

void
cluster_settle(struct cluster *cl)
{
	mend(cl);
	/* Dead sessions end, backed-off dials come, sickness is forgotten. */
	cluster_run(cl, 25 * KV_NS_PER_S);
	cluster_drain(cl);
	cluster_removals_done(cl);
	cl->is_quiet = true;
	cl->is_undone = cl->is_afflicted = cl->is_stale = false;
	cl->patience_ns = KV_NS_PER_S;
}

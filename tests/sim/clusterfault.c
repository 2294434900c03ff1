#include "clustercore.h"

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
	switch (kv_rng_below(&cl->rng, 12)) {
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
	default:
		simnet_delay(cl->net, a, b,
			     kv_rng_below(&cl->rng, 300 * KV_NS_PER_MS));
		break;
	}
}

void
cluster_settle(struct cluster *cl)
{
	unsigned i, j, n = cl->o.masters + cl->o.nodes + 1;

	for (i = 0; i < n; i++) {
		for (j = 0; j < n; j++) {
			simnet_heal(cl->net, host_of(cl, i), host_of(cl, j));
			simnet_delay(cl->net, host_of(cl, i), host_of(cl, j),
				     0);
		}
	}
	for (i = 0; i < cl->o.masters; i++)
		cluster_master_start(cl, i);
	for (i = 0; i < cl->o.nodes; i++)
		cluster_node_start(cl, i);
	/* Dead sessions end, backed-off dials come, sickness is forgotten. */
	cluster_run(cl, 25 * KV_NS_PER_S);
	cluster_drain(cl);
	cl->is_quiet = true;
}

#include "xfer/rdmanuma.h"

#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "xfer/rdmaplan.h"
#include "xfer/rdmasys.h"

enum {
	SAMPLES = 16, /* pages that are asked for */
};

/* ---- ports ---- */

/* Those that are not among the nearest to the node. */
static uint16_t
distant_from(const char *root, unsigned node, const int *at, unsigned n)
{
	unsigned to[KV_RDMANUMA_NODES], nearest = UINT_MAX, i;
	unsigned ways[KV_RDMA_PORTS_MAX] = { 0 }; /* 0: not known */
	uint16_t distant = 0;

	kv_rdmasys_distances(root, node, to, KV_RDMANUMA_NODES);
	for (i = 0; i < n; i++) {
		if (at[i] >= 0 && at[i] < KV_RDMANUMA_NODES)
			ways[i] = to[at[i]];
		if (ways[i] && ways[i] < nearest)
			nearest = ways[i];
	}
	for (i = 0; i < n; i++)
		distant |= (uint16_t)((ways[i] > nearest) << i);
	return distant;
}

void
kv_rdmanuma_read(struct kv_rdmanuma *t, const char *root, const int *at,
		 unsigned n)
{
	unsigned node;

	*t = (struct kv_rdmanuma){ 0 };
	for (node = 0; node < KV_RDMANUMA_NODES; node++) {
		t->distant[node] = distant_from(root, node, at, n);
		t->any |= t->distant[node];
	}
}

/* ---- memory ---- */

int
kv_rdmanuma_common(const int *nodes, unsigned n)
{
	unsigned i;

	for (i = 1; i < n; i++)
		if (nodes[i] != nodes[0])
			return -1;
	return nodes[0] < 0 ? -1 : nodes[0];
}

int
kv_rdmanuma_node(const void *addr, size_t len)
{
	const char *at = addr;
	const void *pages[SAMPLES];
	int nodes[SAMPLES];
	unsigned i;

	for (i = 0; i < SAMPLES; i++)
		pages[i] = at + len / SAMPLES * i;
	/* Of this process; without nodes to move them to it only tells. */
	if (syscall(SYS_move_pages, 0, (unsigned long)SAMPLES, pages, NULL,
		    nodes, 0) != 0)
		return -1;
	return kv_rdmanuma_common(nodes, SAMPLES);
}

uint16_t
kv_rdmanuma_distant(const struct kv_rdmanuma *t, const void *addr, size_t len)
{
	int node;

	if (!t->any)
		return 0;
	node = kv_rdmanuma_node(addr, len);
	return node < 0 || node >= KV_RDMANUMA_NODES ? 0 : t->distant[node];
}

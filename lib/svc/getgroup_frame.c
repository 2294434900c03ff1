#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/getgroupcore.h"

/* Room asked for in one GET of the local node: what it pins meanwhile. */
#define LOCAL_WINDOW (256ull << 20)
#define REMOTE_KEYS  1024 /* of one GET: its answer comes when all were sent */

/* How many of the keys that are left fit into one GET; by RDMA, which may be
 * none, with where they go. */
static size_t
frame_end(struct kv_getgroup *g, bool is_rdma)
{
	const struct kv_getop *op = g->op;
	size_t max = g->base.to->is_local ? KV_BATCH_KEYS_MAX : REMOTE_KEYS;
	size_t tail = 0, i;
	const struct kv_get_item *it;
	const struct kv_getop_key *k;
	uint64_t room = 0;

	for (i = g->base.pos; i < g->base.n && i - g->base.pos < max; i++) {
		it = &op->items[g->base.idx[i]];
		k = &op->keys[g->base.idx[i]];
		tail += sizeof(struct kv_get_ent) + it->key.len;
		room += k->room;
		if (tail > KV_TAIL_MAX && i > g->base.pos)
			break;
		if (g->base.to->is_local && room > LOCAL_WINDOW &&
		    i > g->base.pos)
			break;
		if (is_rdma && (k->by_data ||
				kv_windows_add(&g->windows, it->bufs, it->nbufs,
					       KV_TAIL_MAX - tail) < 0))
			break;
	}
	return i;
}

/* Some value may be too large to come in the answer. */
static bool
has_large(const struct kv_getgroup *g)
{
	size_t i;

	for (i = g->base.pos; i < g->base.end; i++)
		if (g->op->keys[g->base.idx[i]].room >
		    kv_group_inline_max(&g->base))
			return true;
	return false;
}

/* Whatever the values are, all of them come in the answer. */
static bool
is_small(const struct kv_getgroup *g)
{
	uint64_t room =
		(g->base.end - g->base.pos) * sizeof(struct kv_get_ent_r);
	size_t i;

	for (i = g->base.pos; i < g->base.end; i++)
		room += g->op->keys[g->base.idx[i]].room;
	return room <= KV_TAIL_MAX && !has_large(g);
}

/* The frame goes so, or 0 or -errno. */
static int
rdma_try(struct kv_getgroup *g)
{
	struct kv_hub *hub = g->op->ch->hub;
	int rc;

	if (kv_link_rails(g->base.to) == 0) {
		kv_link_rails_wake(g->base.to);
		return -EHOSTUNREACH;
	}
	kv_windows_init(&g->windows, &hub->ranges, true);
	g->base.end = frame_end(g, true);
	rc = g->base.end > g->base.pos
		     ? kv_windows_close(&g->windows,
					hub->rdma_only && has_large(g))
		     : -E2BIG;
	if (rc < 0)
		kv_windows_fini(&g->windows);
	return rc;
}

/* Which keys go, and how: a mode, or -kv_status. */
static int
frame_choose(struct kv_getgroup *g)
{
	int rc;

	g->is_rdma = g->base.is_fast = false;
	g->base.end = frame_end(g, false);
	if (g->base.to->is_local)
		return KV_MODE_SHM;
	if (is_small(g)) {
		g->base.is_fast = kv_link_fast_use(g->base.to);
		return KV_MODE_DATA;
	}
	rc = rdma_try(g);
	g->is_rdma = rc == 0;
	g->base.is_fast = rc == 0 && kv_link_fast_use(g->base.to);
	if (rc == 0)
		return KV_MODE_RDMA;
	g->base.end = frame_end(g, false);
	if (!g->op->ch->hub->rdma_only || !has_large(g))
		return KV_MODE_DATA;
	return rc == -EHOSTUNREACH ? -KV_EUNREACHABLE : -KV_ENOMEM;
}

/* One entry; behind its key. */
static char *
entry_fill(struct kv_getgroup *g, size_t i, struct kv_get_ent *e, char *p)
{
	const struct kv_get_item *it = &g->op->items[g->base.idx[i]];
	struct kv_getop_key *k = &g->op->keys[g->base.idx[i]];

	*e = (struct kv_get_ent){
		.off = kv_le64(it->is_part ? it->off : 0),
		.len = kv_le64(k->room),
		.key_len = kv_le16((uint16_t)it->key.len),
		.flags = it->is_part ? KV_ENT_RANGE : 0,
	};
	if (g->is_rdma)
		e->pieces = kv_le32(g->windows.values[i - g->base.pos].n_told);
	k->state = KV_GETOP_ASKED;
	k->got = k->want = 0;
	k->is_coming = false;
	memcpy(p, it->key.data, it->key.len);
	return p + it->key.len;
}

static int
frame_fill(struct kv_getgroup *g, struct kv_conn *c)
{
	size_t i,
		bytes = (g->base.end - g->base.pos) * sizeof(struct kv_get_ent);
	struct kv_get_ent *e;
	char *p;

	for (i = g->base.pos; i < g->base.end; i++)
		bytes += g->op->items[g->base.idx[i]].key.len;
	if (g->is_rdma)
		bytes += kv_windows_bytes(&g->windows);
	p = kv_conn_tail(c, bytes);
	if (!p)
		return -KV_ENOMEM;
	if (g->is_rdma)
		p = kv_windows_build(&g->windows, p);
	e = (struct kv_get_ent *)(void *)p;
	p += (g->base.end - g->base.pos) * sizeof(*e);
	for (i = g->base.pos; i < g->base.end; i++)
		p = entry_fill(g, i, e++, p);
	if (g->is_rdma)
		kv_windows_build_pieces(&g->windows, p);
	return 0;
}

static void
body_fill(struct kv_getgroup *g, struct kv_get *body, int mode)
{
	struct kv_hub *hub = g->op->ch->hub;

	body->count = kv_le32((uint32_t)(g->base.end - g->base.pos));
	body->budget_ms = kv_le32(kv_group_budget_ms(&g->base));
	body->inline_max = kv_le32(kv_group_inline_max(&g->base));
	body->mode = (uint8_t)mode;
	if (mode != KV_MODE_SHM)
		body->data_token = kv_le64(g->base.to->data.token);
	if (mode != KV_MODE_RDMA)
		return;
	kv_getgroup_rdma_await(g);
	body->number = kv_le32(g->end.number);
	body->ports = (uint8_t)kv_rdma_ports(hub->rdma);
	body->windows = kv_le32((uint32_t)g->windows.n_mems);
}

void
kv_getgroup_send(struct kv_group *base)
{
	struct kv_getgroup *g = kv_getgroup_of(base);
	struct kv_rpc *rpc;
	struct kv_get *body;
	int mode;

	g->answered = false;
	g->coming = 0;
	mode = frame_choose(g);
	if (mode < 0) {
		kv_getgroup_fail(&g->base, mode);
		return;
	}
	rpc = &kv_group_way(&g->base)->rpc;
	g->base.call.fn = kv_getgroup_answered;
	/* The op's own timer comes first and knows the reason. */
	body = kv_rpc_begin(rpc, &g->base.call, KV_MSG_GET,
			    g->op->deadline + KV_NS_PER_S);
	if (!body) {
		kv_getgroup_fail(&g->base, -kv_status_from_errno(errno));
		return;
	}
	body_fill(g, body, mode);
	if (frame_fill(g, rpc->conn) < 0) {
		kv_getgroup_fail(&g->base, -KV_ENOMEM);
		return;
	}
	if (mode != KV_MODE_SHM)
		kv_getgroup_data_expect(g);
	kv_rpc_end(rpc);
	kv_conn_flush(rpc->conn);
	kv_getgroup_watch(g);
}

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/gentable.h"
#include "svc/putgroupcore.h"
#include "svc/vec.h"

/* Bytes of one frame's values that do not: what the owner reserves at once. */
#define FRAME_BYTES (256ull << 20)

bool
kv_putgroup_is_inline(const struct kv_putgroup *g, uint64_t size)
{
	return size <= kv_group_inline_max(&g->base);
}

/* How many of the keys that are left fit into one PUT; by RDMA, which may be
 * none, with where they lie. */
static size_t
frame_end(struct kv_putgroup *g, bool is_rdma)
{
	const struct kv_putop *op = g->op;
	const struct kv_put_item *it;
	uint64_t bytes = 0, size;
	size_t tail = 0, all, i;

	for (i = g->base.pos;
	     i < g->base.n && i - g->base.pos < KV_BATCH_KEYS_MAX; i++) {
		it = &op->items[g->base.idx[i]];
		size = op->keys[g->base.idx[i]].size;
		tail += sizeof(struct kv_put_ent) + it->key.len;
		if (kv_putgroup_is_inline(g, size))
			tail += size;
		else
			bytes += size;
		all = tail + (is_rdma ? kv_windows_bytes(&g->windows) : 0);
		if (i > g->base.pos &&
		    (all > KV_TAIL_MAX || bytes > FRAME_BYTES))
			break;
		if (!is_rdma)
			continue;
		if (g->by_data_at > 0 && i >= g->by_data_at)
			break;
		if (!kv_putgroup_is_inline(g, size) &&
		    kv_windows_add(&g->windows, it->bufs, it->nbufs,
				   KV_TAIL_MAX - tail) < 0)
			break;
	}
	return i;
}

/* Some value does not come with the message. */
static bool
has_large(const struct kv_putgroup *g)
{
	size_t i;

	for (i = g->base.pos; i < g->base.end; i++)
		if (!kv_putgroup_is_inline(g, g->op->keys[g->base.idx[i]].size))
			return true;
	return false;
}

/* The frame goes so, or 0 or -errno. */
static int
rdma_try(struct kv_putgroup *g)
{
	struct kv_hub *hub = g->op->ch->hub;
	int rc;

	if (kv_link_rails(g->base.to) == 0) {
		kv_link_rails_wake(g->base.to);
		return -EHOSTUNREACH;
	}
	kv_windows_init(&g->windows, &hub->ranges, false);
	g->base.end = frame_end(g, true);
	rc = g->base.end > g->base.pos
		     ? kv_windows_close(&g->windows, hub->rdma_only)
		     : -E2BIG;
	if (rc < 0)
		kv_windows_fini(&g->windows);
	return rc;
}

/* Which keys go, and how: a mode, or -kv_status. */
static int
frame_choose(struct kv_putgroup *g)
{
	int rc;

	g->is_rdma = g->base.is_fast = false;
	g->base.end = frame_end(g, false);
	if (g->base.to->is_local)
		return KV_MODE_SHM;
	if (!has_large(g)) {
		g->base.is_fast = kv_link_fast_use(g->base.to);
		return KV_MODE_DATA;
	}
	rc = rdma_try(g);
	g->is_rdma = rc == 0;
	g->base.is_fast = rc == 0 && kv_link_fast_use(g->base.to);
	if (rc == 0)
		return KV_MODE_RDMA;
	g->base.end = frame_end(g, false);
	if (!g->op->ch->hub->rdma_only)
		return KV_MODE_DATA;
	return rc == -EHOSTUNREACH ? -KV_EUNREACHABLE : -KV_ENOMEM;
}

static size_t
frame_tail_bytes(const struct kv_putgroup *g)
{
	const struct kv_putop *op = g->op;
	size_t sum = 0, i;

	for (i = g->base.pos; i < g->base.end; i++) {
		sum += sizeof(struct kv_put_ent) +
		       op->items[g->base.idx[i]].key.len;
		if (kv_putgroup_is_inline(g, op->keys[g->base.idx[i]].size))
			sum += op->keys[g->base.idx[i]].size;
	}
	return sum + (g->is_rdma ? kv_windows_bytes(&g->windows) : 0);
}

static char *
inline_fill(const struct kv_putgroup *g, char *p)
{
	const struct kv_put_item *it;
	uint64_t size;
	size_t i;

	for (i = g->base.pos; i < g->base.end; i++) {
		it = &g->op->items[g->base.idx[i]];
		size = g->op->keys[g->base.idx[i]].size;
		if (!kv_putgroup_is_inline(g, size))
			continue;
		kv_vec_gather(p, it->bufs, it->nbufs, 0, size);
		p += size;
	}
	return p;
}

static int
frame_fill(struct kv_putgroup *g, struct kv_conn *c)
{
	const struct kv_windows_value *v = g->windows.values;
	const struct kv_put_item *it;
	struct kv_put_ent *e;
	uint64_t size;
	size_t i;
	char *p;

	p = kv_conn_tail(c, frame_tail_bytes(g));
	if (!p)
		return -KV_ENOMEM;
	if (g->is_rdma)
		p = kv_windows_build(&g->windows, p);
	e = (struct kv_put_ent *)(void *)p;
	p += (g->base.end - g->base.pos) * sizeof(*e);
	for (i = g->base.pos; i < g->base.end; i++, e++) {
		it = &g->op->items[g->base.idx[i]];
		size = g->op->keys[g->base.idx[i]].size;
		*e = (struct kv_put_ent){
			.size = kv_le64(size),
			.key_len = kv_le16((uint16_t)it->key.len),
		};
		if (kv_putgroup_is_inline(g, size))
			e->flags = KV_ENT_INLINE;
		else if (g->is_rdma)
			e->pieces = kv_le32(v++->n_told);
		memcpy(p, it->key.data, it->key.len);
		p += it->key.len;
	}
	p = inline_fill(g, p);
	if (g->is_rdma)
		kv_windows_build_pieces(&g->windows, p);
	return 0;
}

static void
body_fill(struct kv_putgroup *g, struct kv_put *body, int mode)
{
	struct kv_putop *op = g->op;
	struct kv_hub *hub = op->ch->hub;

	body->put_id = op->put_id;
	body->count = kv_le32((uint32_t)(g->base.end - g->base.pos));
	body->budget_ms = kv_le32(kv_group_budget_ms(&g->base));
	body->mode = (uint8_t)mode;
	body->flags = op->flags | (g->pick.no_evict ? KV_PUT_NO_EVICT : 0);
	if (mode != KV_MODE_SHM)
		body->data_token = kv_le64(g->base.to->data.token);
	body->generation = kv_gentable_build(kv_hub_generation(hub));
	if (mode != KV_MODE_RDMA)
		return;
	g->is_read = true;
	body->ports = (uint8_t)kv_rdma_ports(hub->rdma);
	body->windows = kv_le32((uint32_t)g->windows.n_mems);
}

void
kv_putgroup_send(struct kv_group *base)
{
	struct kv_putgroup *g = kv_putgroup_of(base);
	struct kv_rpc *rpc;
	struct kv_put *body;
	int mode = frame_choose(g);

	if (mode < 0) {
		kv_putgroup_fail(&g->base, mode);
		return;
	}
	g->n_filled = 0;
	free(g->filled);
	g->filled = calloc(g->base.end - g->base.pos, sizeof(*g->filled));
	if (!g->filled) {
		kv_putgroup_fail(&g->base, -KV_ENOMEM);
		return;
	}
	rpc = &kv_group_way(&g->base)->rpc;
	g->base.call.fn = kv_putgroup_answered;
	g->base.call.takes_more = true;
	/* The op's own timer comes first and knows the reason. */
	body = kv_rpc_begin(rpc, &g->base.call, KV_MSG_PUT,
			    g->op->deadline + KV_NS_PER_S);
	if (!body) {
		kv_putgroup_fail(&g->base, -kv_status_from_errno(errno));
		return;
	}
	body_fill(g, body, mode);
	if (frame_fill(g, rpc->conn) < 0) {
		kv_putgroup_fail(&g->base, -KV_ENOMEM);
		return;
	}
	kv_rpc_end(rpc);
	kv_conn_flush(rpc->conn);
	kv_putgroup_watch(g);
}

#include "svc/putgroup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/gentable.h"
#include "svc/vec.h"

/* Bytes of one frame's values that do not: what the owner reserves at once. */
#define FRAME_BYTES (256ull << 20)
/* Filled in place: told to the owner in such portions, so that it publishes
 * the first while the last are being copied. */
#define FILLED_BYTES (32ull << 20)
/* One DATA frame; its end shows that there is progress. */
#define DATA_BYTES (64ull << 20)
/* An owner that is silent for so long, at most and at least, is given up. (It
 * may itself be waiting a second for a master.) */
#define STALL_NS       (5 * KV_NS_PER_S)
#define STALL_LEAST_NS (1500 * KV_NS_PER_MS)
#define OLD_TRIES      4 /* of one owner; others remove all meanwhile */

/* One DATA frame in a connection's queue. Outlives its group if it must. */
struct sending {
	struct kv_list link;
	struct kv_conn_sent sent;
	struct kv_putgroup *g; /* NULL: it is gone */
};

struct kv_putgroup {
	struct kv_group base;
	struct kv_putop *op;
	struct kv_place_pick pick;
	struct kv_list sendings;
	struct kv_le64 *filled; /* grants to tell, room for a frame's */
	uint32_t n_filled;
	uint64_t filled_bytes;
	unsigned n_old; /* times that it was refused for its generation */
};

static struct kv_putgroup *
group_of_base(struct kv_group *base)
{
	return KV_CONTAINER_OF(base, struct kv_putgroup, base);
}

/* ---- the end of a group ---- */

/* Returns whether frames of it are still in the data connection's queue. */
static bool
group_free(struct kv_putgroup *g)
{
	bool is_sending = false;
	struct sending *s;

	while ((s = KV_LIST_FIRST(&g->sendings, struct sending, link))) {
		is_sending = true;
		kv_list_del(&s->link);
		s->g = NULL;
	}
	kv_group_fini(&g->base);
	free(g->filled);
	free(g);
	return is_sending;
}

static void
group_drop(struct kv_putgroup *g, int status)
{
	struct kv_link *to = g->base.to;
	size_t i;

	for (i = g->base.pos; i < g->base.n; i++)
		kv_putop_result(g->op, g->base.idx[i], g->pick.node, status);
	if (group_free(g))
		kv_link_drop_data(to, status);
}

static void
group_fail(struct kv_group *base, int status)
{
	struct kv_putgroup *g = group_of_base(base);
	struct kv_putop *op = g->op;

	if (!base->to->is_local)
		kv_chan_report(op->ch, &op->cands[g->pick.node].boot, status);
	group_drop(g, status);
	kv_putop_group_ended(op);
}

static void
group_end(struct kv_group *base)
{
	struct kv_putgroup *g = group_of_base(base);
	struct kv_putop *op = g->op;

	group_free(g);
	kv_putop_group_ended(op);
}

/* An owner that was asked must not come to it later. */
void
kv_putgroup_drop_all(struct kv_putop *op, int status)
{
	struct kv_group *base;
	struct kv_link *to;
	bool is_asked;

	while ((base = KV_LIST_FIRST(&op->groups, struct kv_group, link))) {
		to = base->to;
		is_asked = !to->is_local && kv_rpc_is_under_way(&base->call);
		to->users++;
		group_drop(group_of_base(base), status);
		if (is_asked)
			kv_link_drop(to, status);
		to->users--;
	}
}

static void
group_stalls(struct kv_timer *t)
{
	struct kv_putgroup *g =
		KV_CONTAINER_OF(t, struct kv_putgroup, base.timer);
	struct kv_link *to = g->base.to;

	to->users++;
	group_fail(&g->base, -KV_ETIMEOUT);
	kv_link_drop(to, -KV_ETIMEOUT);
	to->users--;
}

/* The local one is waited for while it is faulting its pool in. */
static bool
is_patient(const struct kv_putgroup *g)
{
	struct kv_hub_node n;

	return g->base.to->is_local &&
	       (!kv_hub_node(g->op->ch->hub, &g->base.to->boot, &n) ||
		n.ready_bytes < n.pool_bytes || n.pool_bytes == 0);
}

static void
group_watch(struct kv_putgroup *g)
{
	struct kv_chan *ch = g->op->ch;

	if (is_patient(g))
		return;
	g->base.timer.fn = group_stalls;
	kv_loop_timer_set(ch->loop, &g->base.timer,
			  kv_chan_patience(ch, g->op->deadline, STALL_LEAST_NS,
					   STALL_NS));
}

static void frame_send(struct kv_group *base);

/* ---- grants: the bytes ---- */

static void
filled_tell(struct kv_putgroup *g, uint8_t flags)
{
	struct kv_conn *c = g->base.to->ctl.conn;
	struct kv_filled *f;
	void *tail;

	if (g->n_filled == 0)
		return;
	f = kv_conn_begin(c, KV_MSG_FILLED, g->base.call.id, 0);
	tail = NULL;
	if (f) {
		f->count = kv_le32(g->n_filled);
		f->flags = flags;
		tail = kv_conn_tail(c, g->n_filled * sizeof(*g->filled));
	}
	if (tail) {
		memcpy(tail, g->filled, g->n_filled * sizeof(*g->filled));
		kv_conn_end(c);
		kv_conn_flush(c);
	}
	g->n_filled = 0;
	g->filled_bytes = 0;
}

/* Grants of a frame on their way into the local pool; NULL map: into another
 * one's. */
struct filling {
	struct kv_hub_map *map;
	struct kv_vec_batch copies;
};

/* The value is to be copied into its extents. 0 or -kv_status. */
static int
extents_fill(struct kv_putgroup *g, struct filling *f, size_t at,
	     const struct kv_extent_le *ext, unsigned n)
{
	struct kv_putop *op = g->op;
	const struct kv_put_item *it = &op->items[g->base.idx[at]];
	uint64_t left = op->keys[g->base.idx[at]].size;
	uint64_t done = 0, part;
	unsigned i;
	char *p;

	for (i = 0; i < n && left > 0; i++) {
		part = kv_min_u64(kv_get64(ext[i].len), left);
		p = kv_hub_map_at(op->ch->hub, f->map, kv_get64(ext[i].off),
				  part, true);
		if (!p)
			return -kv_status_from_errno(errno);
		kv_vec_batch_gather(&f->copies, p, it->bufs, it->nbufs, done,
				    part);
		done += part;
		left -= part;
	}
	return left == 0 ? 0 : -KV_EPROTO;
}

static void
data_sent(struct kv_conn_sent *sent, int status)
{
	struct sending *s = KV_CONTAINER_OF(sent, struct sending, sent);

	kv_list_del(&s->link);
	if (s->g && status == 0)
		group_watch(s->g);
	free(s);
}

/* Queues a value on the data connection. 0 or -kv_status. */
static int
data_send(struct kv_putgroup *g, size_t at, struct kv_le64 grant)
{
	struct kv_conn *c = g->base.to->data.conn;
	const struct kv_put_item *it = &g->op->items[g->base.idx[at]];
	uint64_t size = g->op->keys[g->base.idx[at]].size, off, part;
	struct iovec iov[KV_CONN_PIECES_MAX];
	struct kv_data *d;
	struct sending *s;
	int n;

	/* It may be gone before the node's last words on the other one. */
	if (!c)
		return -KV_ECONNLOST;
	for (off = 0; off < size; off += part) {
		part = kv_min_u64(size - off, DATA_BYTES);
		n = kv_vec_iov(it->bufs, it->nbufs, off, part, iov,
			       KV_CONN_PIECES_MAX);
		if (n < 0)
			return -KV_EINVALID;
		s = calloc(1, sizeof(*s));
		d = s ? kv_conn_begin(c, KV_MSG_DATA, 0, 0) : NULL;
		if (!d) {
			free(s);
			return s ? -KV_ECONNLOST : -KV_ENOMEM;
		}
		d->ref = grant;
		d->off = kv_le64(off);
		s->g = g;
		s->sent.fn = data_sent;
		kv_list_add_tail(&g->sendings, &s->link);
		kv_conn_end_payload(c, iov, n, &s->sent);
	}
	return 0;
}

/* One granted key. */
static int
grant_take(struct kv_putgroup *g, struct filling *f,
	   const struct kv_grant_ent *e, const struct kv_extent_le *ext)
{
	size_t at = g->base.pos + kv_get32(e->index);
	int rc;

	if (at >= g->base.end || at < g->base.pos ||
	    g->n_filled == g->base.end - g->base.pos)
		return -KV_EPROTO;
	if (!g->base.to->is_local)
		return data_send(g, at, e->grant);
	rc = extents_fill(g, f, at, ext, kv_get32(e->extents));
	if (rc < 0)
		return rc;
	g->filled[g->n_filled++] = e->grant;
	g->filled_bytes += g->op->keys[g->base.idx[at]].size;
	if (g->filled_bytes >= FILLED_BYTES) {
		kv_vec_batch_flush(&f->copies);
		filled_tell(g, 0);
	}
	return 0;
}

static int
grants_take(struct kv_putgroup *g, const struct kv_msg *msg)
{
	const struct kv_grant_r *r = msg->body;
	struct kv_map_grants m;
	struct filling f;
	uint32_t i;
	int rc = 0;

	if (msg->type != KV_MSG_GRANT_R || kv_map_grants_parse(msg, &m) < 0)
		return -KV_EPROTO;
	f.map = NULL;
	f.copies.n = 0;
	f.copies.copier = g->op->ch->hub->copier;
	if (g->base.to->is_local) {
		f.map = kv_hub_map_ref(g->op->ch->hub, &g->base.to->boot);
		if (!f.map)
			return -KV_EGONE;
		kv_hub_map_ready(f.map, kv_get64(r->ready_bytes));
	}
	for (i = 0; i < kv_get32(r->count) && rc == 0; i++) {
		rc = grant_take(g, &f, &m.ent[i], m.ext);
		m.ext += kv_get32(m.ent[i].extents);
	}
	if (f.map) {
		kv_vec_batch_flush(&f.copies);
		filled_tell(g, 0);
		kv_hub_map_unref(g->op->ch->hub, f.map);
	}
	return rc;
}

static int
statuses_take(struct kv_putgroup *g, const struct kv_msg *msg)
{
	const struct kv_put_r *r = msg->body;
	size_t i, count = g->base.end - g->base.pos;
	int st;

	if (msg->type != KV_MSG_PUT_R)
		return -KV_EPROTO;
	if (r->status != KV_OK)
		return kv_status_of_peer(r->status);
	if (kv_get32(r->count) != count || msg->tail_len != count)
		return -KV_EPROTO;
	for (i = 0; i < count; i++) {
		st = -msg->tail[i];
		kv_putop_result(g->op, g->base.idx[g->base.pos + i],
				g->pick.node, st);
	}
	return 0;
}

/* All was removed, of which this process had not heard: it is put after that.
 */
static bool
is_to_be_put_again(struct kv_putgroup *g, const struct kv_msg *msg)
{
	const struct kv_put_r *r = msg->body;
	struct kv_generation newer;

	if (msg->type != KV_MSG_PUT_R || r->status != KV_EBUSY)
		return false;
	newer = kv_gentable_parse(&r->generation);
	if (newer.number == 0 || ++g->n_old >= OLD_TRIES)
		return false;
	kv_hub_heard(g->op->ch->hub, newer);
	return true;
}

static void
frame_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_putgroup *g =
		KV_CONTAINER_OF(call, struct kv_putgroup, base.call);

	if (status < 0) {
		group_fail(&g->base, -kv_status_from_errno(status));
		return;
	}
	if (msg->flags & KV_FLAG_MORE) {
		status = grants_take(g, msg);
		if (status < 0) {
			kv_link_ungrant(g->base.to, msg);
			group_fail(&g->base, status);
		} else {
			group_watch(g);
		}
		return;
	}
	if (is_to_be_put_again(g, msg)) {
		frame_send(&g->base);
		return;
	}
	status = statuses_take(g, msg);
	if (status < 0) {
		group_fail(&g->base, status);
		return;
	}
	if (!g->base.to->is_local)
		kv_chan_report(g->op->ch, &g->base.to->boot, 0);
	g->base.pos = g->base.end;
	kv_group_next(&g->base);
}

/* ---- PUT ---- */

static bool
is_inline(const struct kv_putgroup *g, uint64_t size)
{
	return size <= kv_group_inline_max(&g->base);
}

/* How many of the keys that are left fit into one PUT. */
static size_t
frame_end(const struct kv_putgroup *g)
{
	const struct kv_putop *op = g->op;
	uint64_t bytes = 0, size;
	size_t tail = 0, i;

	for (i = g->base.pos;
	     i < g->base.n && i - g->base.pos < KV_BATCH_KEYS_MAX; i++) {
		size = op->keys[g->base.idx[i]].size;
		tail += sizeof(struct kv_put_ent) +
			op->items[g->base.idx[i]].key.len;
		if (is_inline(g, size))
			tail += size;
		else
			bytes += size;
		if (i > g->base.pos &&
		    (tail > KV_TAIL_MAX || bytes > FRAME_BYTES))
			break;
	}
	return i;
}

static size_t
frame_tail_bytes(const struct kv_putgroup *g)
{
	const struct kv_putop *op = g->op;
	size_t sum = 0, i;

	for (i = g->base.pos; i < g->base.end; i++) {
		sum += sizeof(struct kv_put_ent) +
		       op->items[g->base.idx[i]].key.len;
		if (is_inline(g, op->keys[g->base.idx[i]].size))
			sum += op->keys[g->base.idx[i]].size;
	}
	return sum;
}

static int
frame_fill(struct kv_putgroup *g, struct kv_conn *c)
{
	struct kv_putop *op = g->op;
	const struct kv_put_item *it;
	struct kv_put_ent *e;
	uint64_t size;
	size_t i;
	char *p;

	p = kv_conn_tail(c, frame_tail_bytes(g));
	if (!p)
		return -KV_ENOMEM;
	e = (struct kv_put_ent *)(void *)p;
	p += (g->base.end - g->base.pos) * sizeof(*e);
	for (i = g->base.pos; i < g->base.end; i++, e++) {
		it = &op->items[g->base.idx[i]];
		size = op->keys[g->base.idx[i]].size;
		*e = (struct kv_put_ent){
			.size = kv_le64(size),
			.key_len = kv_le16((uint16_t)it->key.len),
			.flags = is_inline(g, size) ? KV_ENT_INLINE : 0,
		};
		memcpy(p, it->key.data, it->key.len);
		p += it->key.len;
	}
	for (i = g->base.pos; i < g->base.end; i++) {
		it = &op->items[g->base.idx[i]];
		size = op->keys[g->base.idx[i]].size;
		if (!is_inline(g, size))
			continue;
		kv_vec_gather(p, it->bufs, it->nbufs, 0, size);
		p += size;
	}
	return 0;
}

static void
frame_send(struct kv_group *base)
{
	struct kv_putgroup *g = group_of_base(base);
	struct kv_rpc *rpc = &g->base.to->ctl.rpc;
	struct kv_putop *op = g->op;
	bool local = g->base.to->is_local;
	struct kv_put *body;

	g->base.end = frame_end(g);
	g->n_filled = 0;
	free(g->filled);
	g->filled = calloc(g->base.end - g->base.pos, sizeof(*g->filled));
	if (!g->filled) {
		group_fail(&g->base, -KV_ENOMEM);
		return;
	}
	g->base.call.fn = frame_answered;
	g->base.call.takes_more = true;
	/* The op's own timer comes first and knows the reason. */
	body = kv_rpc_begin(rpc, &g->base.call, KV_MSG_PUT,
			    op->deadline + KV_NS_PER_S);
	if (!body) {
		group_fail(&g->base, -kv_status_from_errno(errno));
		return;
	}
	body->put_id = op->put_id;
	body->count = kv_le32((uint32_t)(g->base.end - g->base.pos));
	body->budget_ms = kv_le32(kv_group_budget_ms(base));
	body->mode = local ? KV_MODE_SHM : KV_MODE_DATA;
	body->flags = op->flags | (g->pick.no_evict ? KV_PUT_NO_EVICT : 0);
	body->data_token = kv_le64(local ? 0 : g->base.to->data.token);
	body->generation = kv_gentable_build(kv_hub_generation(op->ch->hub));
	if (frame_fill(g, rpc->conn) < 0) {
		group_fail(&g->base, -KV_ENOMEM);
		return;
	}
	kv_rpc_end(rpc);
	kv_conn_flush(rpc->conn);
	group_watch(g);
}

/* ---- making groups ---- */

static const struct kv_group_ops ops = {
	.send = frame_send,
	.fail = group_fail,
	.end = group_end,
};

static struct kv_putgroup *
group_find(struct kv_putop *op, struct kv_link *to, struct kv_place_pick pick)
{
	struct kv_putgroup *g;
	struct kv_group *base;

	KV_LIST_FOREACH(base, &op->groups, link) {
		g = group_of_base(base);
		if (base->to == to && g->pick.no_evict == pick.no_evict)
			return g;
	}
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->op = op;
	g->pick = pick;
	g->base.ops = &ops;
	g->base.deadline = op->deadline;
	kv_list_init(&g->sendings);
	kv_group_init(&g->base, to, &op->groups);
	return g;
}

bool
kv_putgroup_add(struct kv_putop *op, struct kv_link *to,
		struct kv_place_pick pick, uint32_t i)
{
	struct kv_putgroup *g = group_find(op, to, pick);

	return g && kv_group_add(&g->base, i);
}

void
kv_putgroup_start_all(struct kv_putop *op)
{
	kv_group_start_all(&op->groups, &op->starting);
}

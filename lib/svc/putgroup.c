#include "svc/putgroup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "mem/copy.h"
#include "svc/vec.h"

/* Values up to this ride in PUT itself. */
#define INLINE_REMOTE KV_INLINE_BYTES_MAX
#define INLINE_LOCAL  16384
/* Bytes of one frame's values that do not: what the owner reserves at once. */
#define FRAME_BYTES (256ull << 20)
/* Filled in place: told to the owner in such portions, so that it publishes
 * the first while the last are being copied. */
#define FILLED_BYTES (32ull << 20)
/* One DATA frame; its end shows that there is progress. */
#define DATA_BYTES (64ull << 20)
/* An owner elsewhere that is silent so long is given up; the local one is
 * waited for: it may be faulting its pool in. */
#define STALL_NS (5 * KV_NS_PER_S)

/* One DATA frame in a connection's queue. Outlives its group if it must. */
struct sending {
	struct kv_list link;
	struct kv_conn_sent sent;
	struct kv_putgroup *g; /* NULL: it is gone */
};

struct kv_putgroup {
	struct kv_list link;
	struct kv_putop *op;
	struct kv_link *to;
	struct kv_place_pick pick;
	struct kv_call call;
	struct kv_link_wait wait;
	struct kv_timer timer;
	struct kv_list sendings;
	struct kv_le64 *filled; /* grants to tell, room for a frame's */
	uint32_t n_filled;
	uint64_t filled_bytes;
	size_t n;   /* items in idx */
	size_t pos; /* first of the frame under way */
	size_t end; /* behind its last */
	size_t room;
	uint32_t *idx; /* numbers of items */
};

static void group_next(struct kv_putgroup *g);

/* ---- the end of a group ---- */

static void
group_free(struct kv_putgroup *g)
{
	struct sending *s;

	kv_rpc_cancel(&g->call);
	kv_link_wait_cancel(&g->wait);
	kv_loop_timer_del(&g->timer);
	while ((s = KV_LIST_FIRST(&g->sendings, struct sending, link))) {
		kv_list_del(&s->link);
		s->g = NULL;
	}
	kv_list_del(&g->link);
	g->to->users--;
	free(g->filled);
	free(g->idx);
	free(g);
}

static void
group_drop(struct kv_putgroup *g, int status)
{
	struct kv_link *to = g->to;
	bool is_sending = !kv_list_is_empty(&g->sendings);
	size_t i;

	for (i = g->pos; i < g->n; i++)
		kv_putop_result(g->op, g->idx[i], g->pick.node, status);
	group_free(g);
	if (is_sending)
		kv_link_drop_data(to, status);
}

static void
group_fail(struct kv_putgroup *g, int status)
{
	struct kv_putop *op = g->op;

	if (!g->to->is_local)
		kv_chan_report(op->ch, &op->cands[g->pick.node].boot, status);
	group_drop(g, status);
	kv_putop_group_ended(op);
}

void
kv_putgroup_drop_all(struct kv_putop *op, int status)
{
	struct kv_putgroup *g;

	while ((g = KV_LIST_FIRST(&op->groups, struct kv_putgroup, link)))
		group_drop(g, status);
}

static void
group_stalls(struct kv_timer *t)
{
	struct kv_putgroup *g = KV_CONTAINER_OF(t, struct kv_putgroup, timer);
	struct kv_link *to = g->to;

	to->users++;
	group_fail(g, -KV_ETIMEOUT);
	kv_link_drop(to, -KV_ETIMEOUT);
	to->users--;
}

static void
group_watch(struct kv_putgroup *g)
{
	struct kv_loop *loop = g->op->ch->loop;

	if (g->to->is_local)
		return;
	g->timer.fn = group_stalls;
	kv_loop_timer_set(loop, &g->timer, kv_loop_now(loop) + STALL_NS);
}

/* ---- grants: the bytes ---- */

static void
filled_tell(struct kv_putgroup *g, uint8_t flags)
{
	struct kv_conn *c = g->to->ctl.conn;
	struct kv_filled *f;
	void *tail;

	if (g->n_filled == 0)
		return;
	f = kv_conn_begin(c, KV_MSG_FILLED, g->call.id, 0);
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

/* Copies a value into its extents. 0 or -kv_status. */
static int
extents_fill(struct kv_putgroup *g, struct kv_hub_map *map, size_t at,
	     const struct kv_extent_le *ext, unsigned n)
{
	struct kv_putop *op = g->op;
	const struct kv_put_item *it = &op->items[g->idx[at]];
	uint64_t left = op->keys[g->idx[at]].size;
	uint64_t done = 0, part;
	unsigned i;
	char *p;

	for (i = 0; i < n && left > 0; i++) {
		part = kv_min_u64(kv_get64(ext[i].len), left);
		p = kv_hub_map_at(op->ch->hub, map, kv_get64(ext[i].off), part,
				  true);
		if (!p)
			return -KV_EPROTO;
		kv_vec_gather(p, it->bufs, it->nbufs, done, part);
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
	struct kv_conn *c = g->to->data.conn;
	const struct kv_put_item *it = &g->op->items[g->idx[at]];
	uint64_t size = g->op->keys[g->idx[at]].size, off, part;
	struct iovec iov[KV_CONN_PIECES_MAX];
	struct kv_data *d;
	struct sending *s;
	int n;

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
grant_take(struct kv_putgroup *g, struct kv_hub_map *map,
	   const struct kv_grant_ent *e, const struct kv_extent_le *ext)
{
	size_t at = g->pos + kv_get32(e->index);
	int rc;

	if (at >= g->end || at < g->pos || g->n_filled == g->end - g->pos)
		return -KV_EPROTO;
	if (!g->to->is_local)
		return data_send(g, at, e->grant);
	rc = extents_fill(g, map, at, ext, kv_get32(e->extents));
	if (rc < 0)
		return rc;
	g->filled[g->n_filled++] = e->grant;
	g->filled_bytes += g->op->keys[g->idx[at]].size;
	if (g->filled_bytes >= FILLED_BYTES)
		filled_tell(g, 0);
	return 0;
}

static int
grants_take(struct kv_putgroup *g, const struct kv_msg *msg)
{
	const struct kv_grant_r *r = msg->body;
	struct kv_hub_map *map = NULL;
	struct kv_map_grants m;
	uint32_t i;
	int rc = 0;

	if (msg->type != KV_MSG_GRANT_R || kv_map_grants_parse(msg, &m) < 0)
		return -KV_EPROTO;
	if (g->to->is_local) {
		map = kv_hub_map_ref(g->op->ch->hub, &g->to->boot);
		if (!map)
			return -KV_EGONE;
	}
	for (i = 0; i < kv_get32(r->count) && rc == 0; i++) {
		rc = grant_take(g, map, &m.ent[i], m.ext);
		m.ext += kv_get32(m.ent[i].extents);
	}
	if (map) {
		filled_tell(g, 0);
		kv_hub_map_unref(g->op->ch->hub, map);
	}
	return rc;
}

static int
statuses_take(struct kv_putgroup *g, const struct kv_msg *msg)
{
	const struct kv_put_r *r = msg->body;
	size_t i, count = g->end - g->pos;
	int st;

	if (msg->type != KV_MSG_PUT_R)
		return -KV_EPROTO;
	if (r->status != KV_OK)
		return -r->status;
	if (kv_get32(r->count) != count || msg->tail_len != count)
		return -KV_EPROTO;
	for (i = 0; i < count; i++) {
		st = -msg->tail[i];
		kv_putop_result(g->op, g->idx[g->pos + i], g->pick.node, st);
	}
	return 0;
}

static void
frame_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_putgroup *g = KV_CONTAINER_OF(call, struct kv_putgroup, call);

	if (status < 0) {
		group_fail(g, -kv_status_from_errno(status));
		return;
	}
	group_watch(g);
	if (msg->flags & KV_FLAG_MORE) {
		status = grants_take(g, msg);
		if (status < 0)
			group_fail(g, status);
		return;
	}
	status = statuses_take(g, msg);
	if (status < 0) {
		group_fail(g, status);
		return;
	}
	if (!g->to->is_local)
		kv_chan_report(g->op->ch, &g->to->boot, 0);
	g->pos = g->end;
	group_next(g);
}

/* ---- PUT ---- */

static bool
is_inline(const struct kv_putgroup *g, uint64_t size)
{
	return size <= (g->to->is_local ? INLINE_LOCAL : INLINE_REMOTE);
}

/* How many of the keys that are left fit into one PUT. */
static size_t
frame_end(const struct kv_putgroup *g)
{
	const struct kv_putop *op = g->op;
	uint64_t bytes = 0, size;
	size_t tail = 0, i;

	for (i = g->pos; i < g->n && i - g->pos < KV_BATCH_KEYS_MAX; i++) {
		size = op->keys[g->idx[i]].size;
		tail += sizeof(struct kv_put_ent) +
			op->items[g->idx[i]].key.len;
		if (is_inline(g, size))
			tail += size;
		else
			bytes += size;
		if (i > g->pos && (tail > KV_TAIL_MAX || bytes > FRAME_BYTES))
			break;
	}
	return i;
}

static size_t
frame_tail_bytes(const struct kv_putgroup *g)
{
	const struct kv_putop *op = g->op;
	size_t sum = 0, i;

	for (i = g->pos; i < g->end; i++) {
		sum += sizeof(struct kv_put_ent) + op->items[g->idx[i]].key.len;
		if (is_inline(g, op->keys[g->idx[i]].size))
			sum += op->keys[g->idx[i]].size;
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
	p += (g->end - g->pos) * sizeof(*e);
	for (i = g->pos; i < g->end; i++, e++) {
		it = &op->items[g->idx[i]];
		size = op->keys[g->idx[i]].size;
		*e = (struct kv_put_ent){
			.size = kv_le64(size),
			.key_len = kv_le16((uint16_t)it->key.len),
			.flags = is_inline(g, size) ? KV_ENT_INLINE : 0,
		};
		memcpy(p, it->key.data, it->key.len);
		p += it->key.len;
	}
	for (i = g->pos; i < g->end; i++) {
		it = &op->items[g->idx[i]];
		size = op->keys[g->idx[i]].size;
		if (!is_inline(g, size))
			continue;
		kv_vec_gather(p, it->bufs, it->nbufs, 0, size);
		p += size;
	}
	return 0;
}

static void
frame_send(struct kv_putgroup *g)
{
	struct kv_rpc *rpc = &g->to->ctl.rpc;
	struct kv_putop *op = g->op;
	bool local = g->to->is_local;
	struct kv_put *body;
	uint64_t left;

	g->end = frame_end(g);
	g->n_filled = 0;
	free(g->filled);
	g->filled = calloc(g->end - g->pos, sizeof(*g->filled));
	if (!g->filled) {
		group_fail(g, -KV_ENOMEM);
		return;
	}
	g->call.fn = frame_answered;
	/* The op's own timer comes first and knows the reason. */
	body = kv_rpc_begin(rpc, &g->call, KV_MSG_PUT,
			    op->deadline + KV_NS_PER_S);
	if (!body) {
		group_fail(g, -KV_ECONNLOST);
		return;
	}
	left = op->deadline - kv_loop_now(op->ch->loop);
	body->put_id = op->put_id;
	body->count = kv_le32((uint32_t)(g->end - g->pos));
	body->budget_ms = kv_le32(
		(uint32_t)kv_min_u64(left / KV_NS_PER_MS + 1, UINT32_MAX));
	body->mode = local ? KV_MODE_SHM : KV_MODE_DATA;
	body->flags = op->flags | (g->pick.no_evict ? KV_PUT_NO_EVICT : 0);
	body->data_token = kv_le64(local ? 0 : g->to->data.token);
	if (frame_fill(g, rpc->conn) < 0) {
		group_fail(g, -KV_ENOMEM);
		return;
	}
	kv_rpc_end(rpc);
	kv_conn_flush(rpc->conn);
	group_watch(g);
}

static void
group_open(struct kv_link_wait *w, int status)
{
	struct kv_putgroup *g = KV_CONTAINER_OF(w, struct kv_putgroup, wait);

	if (status < 0)
		group_fail(g, status);
	else
		frame_send(g);
}

static void
group_next(struct kv_putgroup *g)
{
	struct kv_putop *op = g->op;
	int rc;

	if (g->pos == g->n) {
		group_free(g);
		kv_putop_group_ended(op);
		return;
	}
	g->wait.fn = group_open;
	rc = kv_link_open(g->to, &g->wait, !g->to->is_local, op->deadline);
	if (rc > 0)
		frame_send(g);
	else if (rc < 0)
		group_fail(g, rc);
}

/* ---- making groups ---- */

static struct kv_putgroup *
group_of(struct kv_putop *op, struct kv_link *to, struct kv_place_pick pick)
{
	struct kv_putgroup *g;

	KV_LIST_FOREACH(g, &op->groups, link)
		if (g->to == to && g->pick.no_evict == pick.no_evict)
			return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->op = op;
	g->to = to;
	g->pick = pick;
	to->users++;
	kv_list_init(&g->sendings);
	kv_list_add_tail(&op->groups, &g->link);
	return g;
}

bool
kv_putgroup_add(struct kv_putop *op, struct kv_link *to,
		struct kv_place_pick pick, uint32_t i)
{
	struct kv_putgroup *g = group_of(op, to, pick);
	uint32_t *more;

	if (!g)
		return false;
	if (g->n == g->room) {
		more = realloc(g->idx, (2 * g->room + 16) * sizeof(*more));
		if (!more)
			return false;
		g->idx = more;
		g->room = 2 * g->room + 16;
	}
	g->idx[g->n++] = i;
	return true;
}

void
kv_putgroup_start_all(struct kv_putop *op)
{
	struct kv_putgroup *g;
	struct kv_list fresh;
	bool is_last;

	/* The end of the last one may be the end of the op. */
	kv_list_init(&fresh);
	kv_list_splice_tail(&fresh, &op->groups);
	op->starting = true;
	do {
		g = KV_LIST_FIRST(&fresh, struct kv_putgroup, link);
		kv_list_del(&g->link);
		is_last = kv_list_is_empty(&fresh);
		kv_list_add_tail(&op->groups, &g->link);
		op->starting = !is_last;
		group_next(g);
	} while (!is_last);
}

#include "svc/getgroup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/vec.h"

/* Values up to this ride in the answer of a remote node; of the local node
 * only those for which a second message (RELEASE) costs more than a copy. */
#define INLINE_REMOTE KV_INLINE_BYTES_MAX
#define INLINE_LOCAL  16384
/* Room asked for in one GET of the local node: what it pins meanwhile. */
#define LOCAL_WINDOW (256ull << 20)
/* An owner that is silent so long is given up. */
#define STALL_NS (2 * KV_NS_PER_S)
/* Too much is pinned: ask again after so long. */
#define BUSY_NS     KV_NS_PER_MS
#define REMOTE_KEYS 1024 /* of one GET: its answer comes when all were sent */

/* Some keys asked of one owner, a frame at a time. */
struct kv_getgroup {
	struct kv_list link;
	struct kv_getop *op;
	struct kv_link *to;
	struct kv_id boot;
	struct kv_call call;
	struct kv_link_wait wait;
	struct kv_link_rx rx;
	struct kv_timer timer; /* no progress; or the pause while busy */
	bool is_pausing;
	bool answered;   /* GET_R of this frame is here */
	uint32_t coming; /* keys whose bytes are still on their way */
	size_t n;        /* items in idx */
	size_t pos;      /* first of the frame under way */
	size_t end;      /* behind its last */
	size_t room;
	uint32_t *idx; /* numbers of items */
};

static void group_next(struct kv_getgroup *g);

/* ---- groups ---- */

static void
group_free(struct kv_getgroup *g)
{
	kv_rpc_cancel(&g->call);
	kv_link_wait_cancel(&g->wait);
	kv_link_rx_del(&g->rx);
	kv_loop_timer_del(&g->timer);
	kv_list_del(&g->link);
	g->to->users--;
	free(g->idx);
	free(g);
}

static bool
is_moving(const struct kv_getgroup *g)
{
	return g->rx.to != NULL && (!g->answered || g->coming > 0);
}

/* The owner failed: its keys wait for another one. Nothing of this group
 * reaches a buffer when it returns. */
static void
group_drop(struct kv_getgroup *g, int status)
{
	struct kv_getop *op = g->op;
	struct kv_link *to = g->to;
	size_t i;

	for (i = g->pos; i < g->n; i++)
		if (op->keys[g->idx[i]].state == KV_GETOP_ASKED)
			op->keys[g->idx[i]].state = KV_GETOP_WAITS;
	if (is_moving(g)) {
		kv_link_rx_del(&g->rx);
		kv_link_drop_data(to, status);
	}
	group_free(g);
}

static void
group_fail(struct kv_getgroup *g, int status)
{
	struct kv_getop *op = g->op;

	if (!g->to->is_local)
		kv_chan_report(op->ch, &g->boot, status);
	group_drop(g, status);
	kv_getop_group_ended(op);
}

static void
group_stalls(struct kv_timer *t)
{
	struct kv_getgroup *g = KV_CONTAINER_OF(t, struct kv_getgroup, timer);
	struct kv_link *to = g->to;
	struct kv_getop *op = g->op;

	if (g->is_pausing) {
		g->is_pausing = false;
		group_next(g);
		return;
	}
	if (!to->is_local)
		kv_chan_report(op->ch, &g->boot, -KV_ETIMEOUT);
	group_drop(g, -KV_ETIMEOUT);
	/* It answers nobody: later calls dial again rather than wait. */
	kv_link_drop(to, -KV_ETIMEOUT);
	kv_getop_group_ended(op);
}

static void
group_watch(struct kv_getgroup *g, uint64_t ns)
{
	uint64_t now = kv_loop_now(g->op->ch->loop);

	g->timer.fn = group_stalls;
	kv_loop_timer_set(g->op->ch->loop, &g->timer, now + ns);
}

/* Keys that met KV_EBUSY are put at the front of what is left to ask. */
static bool
group_rewind(struct kv_getgroup *g)
{
	struct kv_getop *op = g->op;
	size_t i, n = 0;

	for (i = 0; i < g->n; i++) {
		if (!op->keys[g->idx[i]].is_busy)
			continue;
		op->keys[g->idx[i]].is_busy = false;
		g->idx[n++] = g->idx[i];
	}
	g->n = n;
	g->pos = g->end = 0;
	return n > 0;
}

static void
frame_done(struct kv_getgroup *g)
{
	kv_link_rx_del(&g->rx);
	kv_loop_timer_del(&g->timer);
	if (!g->to->is_local)
		kv_chan_report(g->op->ch, &g->boot, 0);
	g->pos = g->end;
	if (g->pos == g->n && group_rewind(g)) {
		g->is_pausing = true;
		group_watch(g, BUSY_NS);
		return;
	}
	group_next(g);
}

/* ---- bytes by DATA ---- */

static int
data_coming(struct kv_link_rx *rx, const struct kv_msg *msg, struct iovec *iov,
	    int max)
{
	struct kv_getgroup *g = KV_CONTAINER_OF(rx, struct kv_getgroup, rx);
	const struct kv_data *d = msg->body;
	size_t at = g->pos + kv_get32(d->index);
	const struct kv_get_item *it;
	struct kv_getop_key *k;

	if (at >= g->end || at < g->pos)
		return -EPROTO;
	it = &g->op->items[g->idx[at]];
	k = &g->op->keys[g->idx[at]];
	if (k->state != KV_GETOP_ASKED || kv_get64(d->off) != k->got ||
	    msg->payload > k->room - k->got)
		return -EPROTO;
	group_watch(g, STALL_NS);
	return kv_vec_iov(it->bufs, it->nbufs, k->got, msg->payload, iov, max);
}

static void
data_check(struct kv_getgroup *g, size_t at)
{
	struct kv_getop_key *k = &g->op->keys[g->idx[at]];

	if (!k->is_coming || k->got != k->want)
		return;
	k->is_coming = false;
	g->coming--;
	g->op->items[g->idx[at]].len = k->got;
	kv_getop_result(g->op, g->idx[at], 0);
}

static void
data_came(struct kv_link_rx *rx, const struct kv_msg *msg)
{
	struct kv_getgroup *g = KV_CONTAINER_OF(rx, struct kv_getgroup, rx);
	const struct kv_data *d = msg->body;
	size_t at = g->pos + kv_get32(d->index);

	if (at >= g->end || at < g->pos)
		return;
	g->op->keys[g->idx[at]].got += msg->payload;
	data_check(g, at);
	if (g->answered && g->coming == 0)
		frame_done(g);
}

static void
data_lost(struct kv_link_rx *rx, int status)
{
	group_fail(KV_CONTAINER_OF(rx, struct kv_getgroup, rx), status);
}

/* ---- the answer ---- */

/* Bytes of the value that the item takes; -1: they do not fit. */
static int64_t
item_takes(const struct kv_get_item *it, uint64_t room, uint64_t size)
{
	if (it->is_part)
		return (int64_t)kv_min_u64(room,
					   size > it->off ? size - it->off : 0);
	return size <= room ? (int64_t)size : -1;
}

struct answer {
	struct kv_map_values v;
	struct kv_hub_map *map;
	struct kv_le64 *pins; /* to be released */
	uint32_t n_pins;
};

/* Copies what was asked for out of the pool's mapping. */
static int
copy_extents(struct kv_getop *op, const struct kv_get_item *it,
	     struct answer *a, unsigned n_ext, uint64_t len)
{
	uint64_t at = 0, part;
	const char *p;
	unsigned i;

	for (i = 0; i < n_ext && at < len; i++, at += part) {
		part = kv_min_u64(kv_get64(a->v.ext[i].len), len - at);
		p = kv_hub_map_at(op->ch->hub, a->map,
				  kv_get64(a->v.ext[i].off), part, false);
		if (!p)
			return -KV_EPROTO;
		kv_vec_scatter(it->bufs, it->nbufs, at, p, part);
	}
	return at == len ? 0 : -KV_EPROTO;
}

/* One found value; its bytes, except those that come by DATA. */
static int
value_take(struct kv_getgroup *g, size_t at, const struct kv_get_ent_r *e,
	   struct answer *a)
{
	struct kv_getop *op = g->op;
	struct kv_get_item *it = &op->items[g->idx[at]];
	struct kv_getop_key *k = &op->keys[g->idx[at]];
	int64_t len;
	int rc = 0;

	it->size_total = kv_get64(e->size);
	len = item_takes(it, k->room, it->size_total);
	if (len < 0)
		return -KV_EPROTO; /* the owner had to refuse it */
	switch (e->how) {
	case KV_HOW_NONE:
		rc = len == 0 ? 0 : -KV_EPROTO;
		break;
	case KV_HOW_INLINE:
		if ((int64_t)kv_get32(e->inline_len) != len)
			return -KV_EPROTO;
		kv_vec_scatter(it->bufs, it->nbufs, 0, a->v.bytes,
			       (uint64_t)len);
		break;
	case KV_HOW_EXTENTS:
		if (!a->map)
			return -KV_EPROTO;
		rc = copy_extents(op, it, a, kv_get16(e->extents),
				  (uint64_t)len);
		break;
	case KV_HOW_DATA:
		k->want = (uint64_t)len;
		k->is_coming = true;
		g->coming++;
		data_check(g, at);
		return 0;
	default:
		return -KV_EPROTO;
	}
	if (rc < 0)
		return rc;
	it->len = (uint64_t)len;
	kv_getop_result(op, g->idx[at], 0);
	return 0;
}

/* What an owner says of a key that it did not give. */
static void
value_refused(struct kv_getgroup *g, size_t at, const struct kv_get_ent_r *e)
{
	struct kv_getop *op = g->op;
	struct kv_getop_key *k = &op->keys[g->idx[at]];

	switch (e->status) {
	case KV_EBUSY:
		k->is_busy = true;
		break;
	case KV_ETOOBIG:
		op->items[g->idx[at]].size_total = kv_get64(e->size);
		kv_getop_result(op, g->idx[at], -KV_ETOOBIG);
		break;
	case KV_EINVALID:
		kv_getop_result(op, g->idx[at], -KV_EINVALID);
		break;
	default: /* a miss here, or trouble: another owner may do better */
		k->state = KV_GETOP_WAITS;
	}
}

static int
answer_take(struct kv_getgroup *g, struct answer *a)
{
	const struct kv_get_ent_r *e = a->v.ent;
	size_t at;
	int rc = 0;

	for (at = g->pos; at < g->end; at++, e++) {
		if (e->status != KV_OK)
			value_refused(g, at, e);
		else if (rc == 0)
			rc = value_take(g, at, e, a);
		if (e->how == KV_HOW_EXTENTS)
			a->pins[a->n_pins++] = e->pin;
		a->v.ext += kv_get16(e->extents);
		a->v.bytes += kv_get32(e->inline_len);
	}
	return rc;
}

static int
frame_take(struct kv_getgroup *g, const struct kv_msg *msg)
{
	struct answer a = { 0 };
	const struct kv_get_r *r = msg->body;
	int rc;

	if (msg->type != KV_MSG_GET_R)
		return -KV_EPROTO;
	if (r->status != KV_OK)
		return -r->status;
	if (kv_map_values_parse(msg, g->end - g->pos, &a.v) < 0)
		return -KV_EPROTO;
	a.pins = calloc(g->end - g->pos, sizeof(*a.pins));
	if (!a.pins)
		return -KV_ENOMEM;
	if (g->to->is_local)
		a.map = kv_hub_map_ref(g->op->ch->hub, &g->to->boot);
	rc = answer_take(g, &a);
	kv_link_unpin(g->to, a.pins, a.n_pins);
	if (a.map)
		kv_hub_map_unref(g->op->ch->hub, a.map);
	free(a.pins);
	return rc;
}

static void
frame_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_getgroup *g = KV_CONTAINER_OF(call, struct kv_getgroup, call);

	if (status < 0) {
		group_fail(g, -kv_status_from_errno(status));
		return;
	}
	status = frame_take(g, msg);
	g->answered = true;
	if (status < 0)
		group_fail(g, status);
	else if (g->coming == 0)
		frame_done(g);
	else
		group_watch(g, STALL_NS);
}

/* ---- the request ---- */

/* How many of the keys that are left fit into one GET. */
static size_t
frame_end(const struct kv_getgroup *g)
{
	const struct kv_getop *op = g->op;
	size_t max = g->to->is_local ? KV_BATCH_KEYS_MAX : REMOTE_KEYS;
	size_t tail = 0, i;
	uint64_t room = 0;

	for (i = g->pos; i < g->n && i - g->pos < max; i++) {
		tail += sizeof(struct kv_get_ent) +
			op->items[g->idx[i]].key.len;
		room += op->keys[g->idx[i]].room;
		if (tail > KV_TAIL_MAX && i > g->pos)
			break;
		if (g->to->is_local && room > LOCAL_WINDOW && i > g->pos)
			break;
	}
	return i;
}

static int
frame_fill(struct kv_getgroup *g, struct kv_conn *c)
{
	struct kv_getop *op = g->op;
	const struct kv_get_item *it;
	struct kv_getop_key *k;
	struct kv_get_ent *e;
	size_t i, keys = 0;
	char *p;

	for (i = g->pos; i < g->end; i++)
		keys += op->items[g->idx[i]].key.len;
	p = kv_conn_tail(c, (g->end - g->pos) * sizeof(*e) + keys);
	if (!p)
		return -KV_ENOMEM;
	e = (struct kv_get_ent *)(void *)p;
	p += (g->end - g->pos) * sizeof(*e);
	for (i = g->pos; i < g->end; i++, e++) {
		it = &op->items[g->idx[i]];
		k = &op->keys[g->idx[i]];
		*e = (struct kv_get_ent){
			.off = kv_le64(it->is_part ? it->off : 0),
			.len = kv_le64(k->room),
			.key_len = kv_le16((uint16_t)it->key.len),
			.flags = it->is_part ? KV_ENT_RANGE : 0,
		};
		memcpy(p, it->key.data, it->key.len);
		p += it->key.len;
		k->state = KV_GETOP_ASKED;
		k->got = k->want = 0;
		k->is_coming = false;
	}
	return 0;
}

static uint32_t
budget_ms(const struct kv_getop *op)
{
	uint64_t left = op->deadline - kv_loop_now(op->ch->loop);

	return (uint32_t)kv_min_u64(left / KV_NS_PER_MS + 1, UINT32_MAX);
}

static void
frame_send(struct kv_getgroup *g)
{
	struct kv_rpc *rpc = &g->to->ctl.rpc;
	bool local = g->to->is_local;
	struct kv_get *body;

	g->answered = false;
	g->coming = 0;
	g->end = frame_end(g);
	g->call.fn = frame_answered;
	/* The op's own timer comes first and knows the reason. */
	body = kv_rpc_begin(rpc, &g->call, KV_MSG_GET,
			    g->op->deadline + KV_NS_PER_S);
	if (!body) {
		group_fail(g, -KV_ECONNLOST);
		return;
	}
	body->count = kv_le32((uint32_t)(g->end - g->pos));
	body->budget_ms = kv_le32(budget_ms(g->op));
	body->inline_max = kv_le32(local ? INLINE_LOCAL : INLINE_REMOTE);
	body->mode = local ? KV_MODE_SHM : KV_MODE_DATA;
	body->data_token = kv_le64(local ? 0 : g->to->data.token);
	if (frame_fill(g, rpc->conn) < 0) {
		group_fail(g, -KV_ENOMEM);
		return;
	}
	if (!local) {
		g->rx.ref = g->call.id;
		g->rx.payload = data_coming;
		g->rx.got = data_came;
		g->rx.lost = data_lost;
		kv_link_rx_add(g->to, &g->rx);
	}
	kv_rpc_end(rpc);
	kv_conn_flush(rpc->conn);
	group_watch(g, STALL_NS);
}

static void
group_open(struct kv_link_wait *w, int status)
{
	struct kv_getgroup *g = KV_CONTAINER_OF(w, struct kv_getgroup, wait);

	if (status < 0)
		group_fail(g, status);
	else
		frame_send(g);
}

static void
group_next(struct kv_getgroup *g)
{
	struct kv_getop *op = g->op;
	int rc;

	if (g->pos == g->n) {
		group_free(g);
		kv_getop_group_ended(op);
		return;
	}
	g->wait.fn = group_open;
	rc = kv_link_open(g->to, &g->wait, !g->to->is_local, op->deadline);
	if (rc > 0)
		frame_send(g);
	else if (rc < 0)
		group_fail(g, rc);
}

static struct kv_getgroup *
group_of(struct kv_getop *op, struct kv_link *to, const struct kv_id *boot)
{
	struct kv_getgroup *g;

	KV_LIST_FOREACH(g, &op->groups, link)
		if (g->to == to)
			return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->op = op;
	g->to = to;
	g->boot = *boot;
	to->users++;
	kv_list_add_tail(&op->groups, &g->link);
	return g;
}

bool
kv_getgroup_add(struct kv_getop *op, struct kv_link *to,
		const struct kv_id *boot, uint32_t i)
{
	struct kv_getgroup *g = group_of(op, to, boot);
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
kv_getgroup_start_all(struct kv_getop *op)
{
	struct kv_getgroup *g;
	struct kv_list fresh;
	bool is_last;

	/* The end of the last one may be the end of the op. */
	kv_list_init(&fresh);
	kv_list_splice_tail(&fresh, &op->groups);
	do {
		g = KV_LIST_FIRST(&fresh, struct kv_getgroup, link);
		kv_list_del(&g->link);
		is_last = kv_list_is_empty(&fresh);
		kv_list_add_tail(&op->groups, &g->link);
		op->starting = !is_last;
		group_next(g);
	} while (!is_last);
}

void
kv_getgroup_drop_all(struct kv_getop *op, int status)
{
	struct kv_getgroup *g;

	while ((g = KV_LIST_FIRST(&op->groups, struct kv_getgroup, link)))
		group_drop(g, status);
}

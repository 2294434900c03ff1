#include "svc/getgroup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/vec.h"

/* Room asked for in one GET of the local node: what it pins meanwhile. */
#define LOCAL_WINDOW (256ull << 20)
/* An owner that is silent for so long, at most and at least, is given up. */
#define STALL_NS       (2 * KV_NS_PER_S)
#define STALL_LEAST_NS (200 * KV_NS_PER_MS)
/* Too much is pinned: ask again after so long. */
#define BUSY_NS     KV_NS_PER_MS
#define LONG_NS     (20 * KV_NS_PER_MS) /* asked again for so long */
#define REMOTE_KEYS 1024 /* of one GET: its answer comes when all were sent */

/* Some keys asked of one owner, a frame at a time. */
struct kv_getgroup {
	struct kv_group base; /* its timer: no progress, or a pause */
	struct kv_getop *op;
	struct kv_id boot;
	struct kv_link_rx rx;
	bool is_pausing;  /* too much is pinned: asked again later */
	uint64_t busy_ns; /* since then; 0: never */
	bool answered;    /* GET_R of this frame is here */
	uint32_t coming;  /* keys whose bytes are still on their way */
};

static struct kv_getgroup *
group_of_base(struct kv_group *base)
{
	return KV_CONTAINER_OF(base, struct kv_getgroup, base);
}

/* ---- groups ---- */

static void
group_free(struct kv_getgroup *g)
{
	kv_link_rx_del(&g->rx);
	kv_group_fini(&g->base);
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
	struct kv_link *to = g->base.to;
	size_t i;

	for (i = g->base.pos; i < g->base.n; i++)
		if (op->keys[g->base.idx[i]].state == KV_GETOP_ASKED)
			op->keys[g->base.idx[i]].state = KV_GETOP_WAITS;
	if (is_moving(g)) {
		kv_link_rx_del(&g->rx);
		kv_link_drop_data(to, status);
	}
	group_free(g);
}

static void
group_fail(struct kv_group *base, int status)
{
	struct kv_getgroup *g = group_of_base(base);
	struct kv_getop *op = g->op;

	kv_getop_lacks(op, status);
	if (!base->to->is_local)
		kv_chan_report(op->ch, &g->boot, status);
	group_drop(g, status);
	kv_getop_group_ended(op);
}

static void
group_end(struct kv_group *base)
{
	struct kv_getgroup *g = group_of_base(base);
	struct kv_getop *op = g->op;

	group_free(g);
	kv_getop_group_ended(op);
}

static void
group_stalls(struct kv_timer *t)
{
	struct kv_getgroup *g =
		KV_CONTAINER_OF(t, struct kv_getgroup, base.timer);
	struct kv_link *to = g->base.to;
	struct kv_getop *op = g->op;

	if (g->is_pausing) {
		g->is_pausing = false;
		kv_group_next(&g->base);
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
group_wait(struct kv_getgroup *g, uint64_t until)
{
	g->base.timer.fn = group_stalls;
	kv_loop_timer_set(g->op->ch->loop, &g->base.timer, until);
}

static void
group_watch(struct kv_getgroup *g)
{
	group_wait(g, kv_chan_patience(g->op->ch, g->op->deadline,
				       STALL_LEAST_NS, STALL_NS));
}

/* Keys that met KV_EBUSY are put at the front of what is left to ask. */
static bool
group_rewind(struct kv_getgroup *g)
{
	struct kv_getop *op = g->op;
	size_t i, n = 0;

	for (i = 0; i < g->base.n; i++) {
		if (!op->keys[g->base.idx[i]].is_busy)
			continue;
		op->keys[g->base.idx[i]].is_busy = false;
		g->base.idx[n++] = g->base.idx[i];
	}
	g->base.n = n;
	g->base.pos = g->base.end = 0;
	return n > 0;
}

static void
group_pause(struct kv_getgroup *g)
{
	struct kv_chan *ch = g->op->ch;
	uint64_t now = kv_loop_now(ch->loop);

	if (g->busy_ns == 0)
		g->busy_ns = now;
	/* They are asked next, for what is not here. */
	if (now > g->busy_ns + LONG_NS)
		kv_chan_watch_masters(ch);
	g->is_pausing = true;
	group_wait(g, now + BUSY_NS);
}

static void
frame_done(struct kv_getgroup *g)
{
	kv_link_rx_del(&g->rx);
	kv_loop_timer_del(&g->base.timer);
	if (!g->base.to->is_local)
		kv_chan_report(g->op->ch, &g->boot, 0);
	g->base.pos = g->base.end;
	if (g->base.pos == g->base.n && group_rewind(g)) {
		group_pause(g);
		return;
	}
	kv_group_next(&g->base);
}

/* ---- bytes by DATA ---- */

static int
data_coming(struct kv_link_rx *rx, const struct kv_msg *msg, struct iovec *iov,
	    int max)
{
	struct kv_getgroup *g = KV_CONTAINER_OF(rx, struct kv_getgroup, rx);
	const struct kv_data *d = msg->body;
	size_t at = g->base.pos + kv_get32(d->index);
	const struct kv_get_item *it;
	struct kv_getop_key *k;

	if (at >= g->base.end || at < g->base.pos)
		return -EPROTO;
	it = &g->op->items[g->base.idx[at]];
	k = &g->op->keys[g->base.idx[at]];
	if (k->state != KV_GETOP_ASKED || kv_get64(d->off) != k->got ||
	    msg->payload > k->room - k->got)
		return -EPROTO;
	group_watch(g);
	return kv_vec_iov(it->bufs, it->nbufs, k->got, msg->payload, iov, max);
}

static void
data_check(struct kv_getgroup *g, size_t at)
{
	struct kv_getop_key *k = &g->op->keys[g->base.idx[at]];

	if (!k->is_coming || k->got != k->want)
		return;
	k->is_coming = false;
	g->coming--;
	g->op->items[g->base.idx[at]].len = k->got;
	kv_getop_result(g->op, g->base.idx[at], 0);
}

static void
data_came(struct kv_link_rx *rx, const struct kv_msg *msg)
{
	struct kv_getgroup *g = KV_CONTAINER_OF(rx, struct kv_getgroup, rx);
	const struct kv_data *d = msg->body;
	size_t at = g->base.pos + kv_get32(d->index);

	if (at >= g->base.end || at < g->base.pos)
		return;
	g->op->keys[g->base.idx[at]].got += msg->payload;
	data_check(g, at);
	if (g->answered && g->coming == 0)
		frame_done(g);
}

static void
data_lost(struct kv_link_rx *rx, int status)
{
	group_fail(&KV_CONTAINER_OF(rx, struct kv_getgroup, rx)->base, status);
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
	struct kv_vec_batch copies; /* out of the mapping, for all keys */
};

/* What was asked for is to be copied out of the pool's mapping. */
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
			return -kv_status_from_errno(errno);
		kv_vec_batch_scatter(&a->copies, it->bufs, it->nbufs, at, p,
				     part);
	}
	return at == len ? 0 : -KV_EPROTO;
}

/* One found value; its bytes, except those that come by DATA. */
static int
value_take(struct kv_getgroup *g, size_t at, const struct kv_get_ent_r *e,
	   struct answer *a)
{
	struct kv_getop *op = g->op;
	struct kv_get_item *it = &op->items[g->base.idx[at]];
	struct kv_getop_key *k = &op->keys[g->base.idx[at]];
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
	kv_getop_result(op, g->base.idx[at], 0);
	return 0;
}

/* What an owner says of a key that it did not give. */
static void
value_refused(struct kv_getgroup *g, size_t at, const struct kv_get_ent_r *e)
{
	struct kv_getop *op = g->op;
	struct kv_getop_key *k = &op->keys[g->base.idx[at]];

	switch (e->status) {
	case KV_EBUSY:
		k->is_busy = true;
		break;
	case KV_ETOOBIG:
		op->items[g->base.idx[at]].size_total = kv_get64(e->size);
		kv_getop_result(op, g->base.idx[at], -KV_ETOOBIG);
		break;
	case KV_EINVALID:
		kv_getop_result(op, g->base.idx[at], -KV_EINVALID);
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

	for (at = g->base.pos; at < g->base.end; at++, e++) {
		if (e->status != KV_OK)
			value_refused(g, at, e);
		else if (rc == 0)
			rc = value_take(g, at, e, a);
		if (e->how == KV_HOW_EXTENTS)
			a->pins[a->n_pins++] = e->pin;
		a->v.ext += kv_get16(e->extents);
		a->v.bytes += kv_get32(e->inline_len);
	}
	kv_vec_batch_flush(&a->copies);
	return rc;
}

static int
frame_take(struct kv_getgroup *g, const struct kv_msg *msg)
{
	struct answer a;
	const struct kv_get_r *r = msg->body;
	int rc;

	if (msg->type != KV_MSG_GET_R)
		return -KV_EPROTO;
	if (r->status != KV_OK)
		return kv_status_of_peer(r->status);
	a.map = NULL;
	a.n_pins = 0;
	a.copies.n = 0;
	a.copies.copier = g->op->ch->hub->copier;
	if (kv_map_values_parse(msg, g->base.end - g->base.pos, &a.v) < 0)
		return -KV_EPROTO;
	a.pins = KV_FAULT_POINT()
			 ? NULL
			 : calloc(g->base.end - g->base.pos, sizeof(*a.pins));
	if (!a.pins)
		return -KV_ENOMEM;
	if (g->base.to->is_local)
		a.map = kv_hub_map_ref(g->op->ch->hub, &g->base.to->boot);
	rc = answer_take(g, &a);
	kv_link_unpin(g->base.to, a.pins, a.n_pins);
	if (a.map)
		kv_hub_map_unref(g->op->ch->hub, a.map);
	free(a.pins);
	return rc;
}

static void
frame_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_getgroup *g =
		KV_CONTAINER_OF(call, struct kv_getgroup, base.call);

	if (status < 0) {
		group_fail(&g->base, -kv_status_from_errno(status));
		return;
	}
	status = frame_take(g, msg);
	g->answered = true;
	if (status < 0)
		group_fail(&g->base, status);
	else if (g->coming == 0)
		frame_done(g);
	else
		group_watch(g);
}

/* ---- the request ---- */

/* How many of the keys that are left fit into one GET. */
static size_t
frame_end(const struct kv_getgroup *g)
{
	const struct kv_getop *op = g->op;
	size_t max = g->base.to->is_local ? KV_BATCH_KEYS_MAX : REMOTE_KEYS;
	size_t tail = 0, i;
	uint64_t room = 0;

	for (i = g->base.pos; i < g->base.n && i - g->base.pos < max; i++) {
		tail += sizeof(struct kv_get_ent) +
			op->items[g->base.idx[i]].key.len;
		room += op->keys[g->base.idx[i]].room;
		if (tail > KV_TAIL_MAX && i > g->base.pos)
			break;
		if (g->base.to->is_local && room > LOCAL_WINDOW &&
		    i > g->base.pos)
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

	for (i = g->base.pos; i < g->base.end; i++)
		keys += op->items[g->base.idx[i]].key.len;
	p = kv_conn_tail(c, (g->base.end - g->base.pos) * sizeof(*e) + keys);
	if (!p)
		return -KV_ENOMEM;
	e = (struct kv_get_ent *)(void *)p;
	p += (g->base.end - g->base.pos) * sizeof(*e);
	for (i = g->base.pos; i < g->base.end; i++, e++) {
		it = &op->items[g->base.idx[i]];
		k = &op->keys[g->base.idx[i]];
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

static void
frame_send(struct kv_group *base)
{
	struct kv_getgroup *g = group_of_base(base);
	struct kv_rpc *rpc = &g->base.to->ctl.rpc;
	bool local = g->base.to->is_local;
	struct kv_get *body;

	g->answered = false;
	g->coming = 0;
	g->base.end = frame_end(g);
	g->base.call.fn = frame_answered;
	/* The op's own timer comes first and knows the reason. */
	body = kv_rpc_begin(rpc, &g->base.call, KV_MSG_GET,
			    g->op->deadline + KV_NS_PER_S);
	if (!body) {
		group_fail(&g->base, -kv_status_from_errno(errno));
		return;
	}
	body->count = kv_le32((uint32_t)(g->base.end - g->base.pos));
	body->budget_ms = kv_le32(kv_group_budget_ms(base));
	body->inline_max = kv_le32(kv_group_inline_max(base));
	body->mode = local ? KV_MODE_SHM : KV_MODE_DATA;
	body->data_token = kv_le64(local ? 0 : g->base.to->data.token);
	if (frame_fill(g, rpc->conn) < 0) {
		group_fail(&g->base, -KV_ENOMEM);
		return;
	}
	if (!local) {
		g->rx.ref = g->base.call.id;
		g->rx.payload = data_coming;
		g->rx.got = data_came;
		g->rx.lost = data_lost;
		kv_link_rx_add(g->base.to, &g->rx);
	}
	kv_rpc_end(rpc);
	kv_conn_flush(rpc->conn);
	group_watch(g);
}

static const struct kv_group_ops ops = {
	.send = frame_send,
	.fail = group_fail,
	.end = group_end,
};

static struct kv_getgroup *
group_find(struct kv_getop *op, struct kv_link *to, const struct kv_id *boot)
{
	struct kv_group *base = kv_group_find(&op->groups, to);
	struct kv_getgroup *g;

	if (base)
		return group_of_base(base);
	g = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->op = op;
	g->boot = *boot;
	g->base.ops = &ops;
	g->base.deadline = op->deadline;
	kv_group_init(&g->base, to, &op->groups);
	return g;
}

bool
kv_getgroup_add(struct kv_getop *op, struct kv_link *to,
		const struct kv_id *boot, uint32_t i)
{
	struct kv_getgroup *g = group_find(op, to, boot);

	if (g && kv_group_add(&g->base, i))
		return true;
	kv_getop_lacks(op, -KV_ENOMEM);
	return false;
}

void
kv_getgroup_start_all(struct kv_getop *op)
{
	kv_group_start_all(&op->groups, &op->starting);
}

void
kv_getgroup_drop_all(struct kv_getop *op, int status)
{
	struct kv_group *base;

	while ((base = KV_LIST_FIRST(&op->groups, struct kv_group, link)))
		group_drop(group_of_base(base), status);
}

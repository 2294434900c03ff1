#include "svc/viewop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/vec.h"

/* A node that is silent for so long, at most and at least, is given up. */
#define STALL_NS       (2 * KV_NS_PER_S)
#define STALL_LEAST_NS (200 * KV_NS_PER_MS)

/* A view's memory: its pieces, and the mapping that they point into. */
struct pinned {
	struct kv_list link; /* hub->views, under hub->lock */
	struct kv_hub_map *map;
	struct kv_id boot;
	struct kv_buf pieces[];
};

/* kv_view.priv: the pin, and struct pinned. */
static struct pinned *
pinned_of(const struct kv_view *v)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	return (struct pinned *)(uintptr_t)v->priv[1];
}

static void frame_next(struct kv_viewop *op);

static void
pinned_free(struct kv_hub *hub, struct pinned *p)
{
	KV_LOCKED(&hub->lock)
		kv_list_del(&p->link);
	kv_hub_map_unref(hub, p->map);
	free(p);
}

static void
op_end(struct kv_viewop *op)
{
	op->is_over = true;
	kv_loop_timer_del(&op->timer);
	kv_loop_defer_del(&op->defer);
	kv_link_wait_cancel(&op->wait);
	kv_rpc_cancel(&op->call);
	op->done(op);
}

void
kv_viewop_abort(struct kv_viewop *op, int status)
{
	if (op->is_over)
		return;
	for (; op->pos < op->n; op->pos++)
		op->views[op->pos].status = status;
	op_end(op);
}

static void
op_expires(struct kv_timer *t)
{
	kv_viewop_abort(KV_CONTAINER_OF(t, struct kv_viewop, timer),
			-KV_ETIMEOUT);
}

static int
view_point(struct kv_hub *hub, struct kv_hub_map *map, struct kv_view *v,
	   const struct kv_get_ent_r *e, const struct kv_extent_le *ext)
{
	unsigned i, n = kv_get16(e->extents);
	struct pinned *p = calloc(1, sizeof(*p) + n * sizeof(p->pieces[0]));
	uint64_t left = kv_get64(e->size), part;

	if (!p)
		return -KV_ENOMEM;
	for (i = 0; i < n && left > 0; i++, left -= part) {
		part = kv_min_u64(kv_get64(ext[i].len), left);
		p->pieces[i].data = kv_hub_map_at(
			hub, map, kv_get64(ext[i].off), part, false);
		p->pieces[i].len = part;
		if (!p->pieces[i].data) {
			free(p);
			return -kv_status_from_errno(errno);
		}
	}
	p->map = left == 0 ? kv_hub_map_ref(hub, &map->boot) : NULL;
	if (!p->map) {
		free(p);
		return -KV_EPROTO;
	}
	p->boot = map->boot;
	v->size = kv_get64(e->size);
	v->pieces = p->pieces;
	v->npieces = i;
	v->priv[0] = kv_get64(e->pin);
	v->priv[1] = (uintptr_t)p;
	KV_LOCKED(&hub->lock)
		kv_list_add_tail(&hub->views, &p->link);
	return 0;
}

static int
frame_take(struct kv_viewop *op, const struct kv_msg *msg)
{
	struct kv_link *local = op->ch->local;
	const struct kv_get_r *r = msg->body;
	struct kv_hub *hub = op->ch->hub;
	struct kv_map_values m;
	struct kv_hub_map *map;
	struct kv_view *v;

	if (msg->type != KV_MSG_GET_R)
		return -KV_EPROTO;
	if (r->status != KV_OK)
		return kv_status_of_peer(r->status);
	if (kv_map_values_parse(msg, op->end - op->pos, &m) < 0)
		return -KV_EPROTO;
	map = kv_hub_map_ref(hub, &local->boot);
	if (!map)
		return -KV_EGONE;
	for (; op->pos < op->end; op->pos++, m.ent++) {
		v = &op->views[op->pos];
		v->status = kv_status_of_peer(m.ent->status);
		if (v->status == 0)
			v->status = view_point(hub, map, v, m.ent, m.ext);
		if (v->status < 0 && m.ent->how == KV_HOW_EXTENTS)
			kv_link_unpin(local, &m.ent->pin, 1);
		m.ext += kv_get16(m.ent->extents);
	}
	kv_hub_map_unref(hub, map);
	return 0;
}

static void
frame_answered(struct kv_call *call, int status, const struct kv_msg *msg)
{
	struct kv_viewop *op = KV_CONTAINER_OF(call, struct kv_viewop, call);

	bool is_silent = status == -ETIMEDOUT;
	struct kv_link *local = op->ch->local;

	status = status < 0 ? -kv_status_from_errno(status)
			    : frame_take(op, msg);
	if (is_silent)
		kv_link_drop(local, -KV_ETIMEOUT);
	if (status < 0)
		kv_viewop_abort(op, status);
	else
		frame_next(op);
}

static bool
frame_fill(struct kv_viewop *op, struct kv_conn *c)
{
	struct kv_get_ent *e;
	size_t keys = 0, i;
	char *p;

	for (i = op->pos; i < op->end; i++)
		keys += op->views[i].key.len;
	p = kv_conn_tail(c, (op->end - op->pos) * sizeof(*e) + keys);
	if (!p)
		return false;
	e = (struct kv_get_ent *)(void *)p;
	p += (op->end - op->pos) * sizeof(*e);
	for (i = op->pos; i < op->end; i++, e++) {
		*e = (struct kv_get_ent){
			.len = kv_le64(UINT64_MAX),
			.key_len = kv_le16((uint16_t)op->views[i].key.len),
		};
		memcpy(p, op->views[i].key.data, op->views[i].key.len);
		p += op->views[i].key.len;
	}
	return true;
}

static void
frame_send(struct kv_viewop *op)
{
	struct kv_rpc *rpc = &op->ch->local->ctl.rpc;
	size_t tail = 0;
	struct kv_get *body;

	for (op->end = op->pos;
	     op->end < op->n && op->end - op->pos < KV_BATCH_KEYS_MAX;
	     op->end++) {
		tail += sizeof(struct kv_get_ent) + op->views[op->end].key.len;
		if (tail > KV_TAIL_MAX)
			break;
	}
	op->call.fn = frame_answered;
	body = kv_rpc_begin(rpc, &op->call, KV_MSG_GET,
			    kv_chan_patience(op->ch, op->deadline,
					     STALL_LEAST_NS, STALL_NS));
	if (!body) {
		kv_viewop_abort(op, -kv_status_from_errno(errno));
		return;
	}
	body->count = kv_le32((uint32_t)(op->end - op->pos));
	body->budget_ms = kv_le32(1000);
	body->mode = KV_MODE_SHM;
	body->flags = KV_GET_ZERO_COPY;
	if (!frame_fill(op, rpc->conn)) {
		kv_viewop_abort(op, -KV_ENOMEM);
		return;
	}
	kv_rpc_end(rpc);
	kv_conn_flush(rpc->conn);
}

static void
local_open(struct kv_link_wait *w, int status)
{
	struct kv_viewop *op = KV_CONTAINER_OF(w, struct kv_viewop, wait);

	if (status < 0)
		kv_viewop_abort(op, status);
	else
		frame_send(op);
}

static void
frame_next(struct kv_viewop *op)
{
	int rc;

	if (op->pos == op->n) {
		op_end(op);
		return;
	}
	if (!op->ch->local) {
		kv_viewop_abort(op, -KV_ENOTSUP);
		return;
	}
	op->wait.fn = local_open;
	rc = kv_link_open(op->ch->local, &op->wait, false, op->deadline);
	if (rc > 0)
		frame_send(op);
	else if (rc < 0)
		kv_viewop_abort(op, rc);
}

static void
op_begin(struct kv_defer *d)
{
	frame_next(KV_CONTAINER_OF(d, struct kv_viewop, defer));
}

void
kv_viewop_start(struct kv_chan *ch, struct kv_viewop *op)
{
	size_t i;

	op->ch = ch;
	for (i = 0; i < op->n; i++) {
		op->views[i].size = 0;
		op->views[i].pieces = NULL;
		op->views[i].npieces = 0;
		op->views[i].priv[0] = op->views[i].priv[1] = 0;
	}
	op->timer.fn = op_expires;
	kv_loop_timer_set(ch->loop, &op->timer, op->deadline);
	op->defer.fn = op_begin;
	kv_loop_defer(ch->loop, &op->defer);
}

void
kv_viewop_release(struct kv_chan *ch, struct kv_view *views, size_t n)
{
	struct kv_link *local = ch->local;
	struct kv_le64 pins[512];
	struct pinned *p;
	uint32_t k = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		p = pinned_of(&views[i]);
		if (!p)
			continue;
		if (local && local->ctl.state == KV_LINK_UP &&
		    kv_id_is_equal(local->boot, p->boot))
			pins[k++] = kv_le64(views[i].priv[0]);
		if (k == KV_ARRAY_LEN(pins)) {
			kv_link_unpin(local, pins, k);
			k = 0;
		}
		pinned_free(ch->hub, p);
		views[i].pieces = NULL;
		views[i].npieces = 0;
		views[i].priv[0] = views[i].priv[1] = 0;
	}
	if (k > 0)
		kv_link_unpin(local, pins, k);
}

void
kv_viewop_forget_all(struct kv_hub *hub)
{
	struct pinned *p;

	while ((p = KV_LIST_FIRST(&hub->views, struct pinned, link)))
		pinned_free(hub, p);
}

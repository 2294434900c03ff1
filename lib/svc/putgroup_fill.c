#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/status.h"
#include "svc/putgroupcore.h"
#include "svc/vec.h"

/* Filled in place: told to the owner in such portions, so that it publishes
 * the first while the last are being copied. */
#define FILLED_BYTES (32ull << 20)
/* One DATA frame; its end shows that there is progress. */
#define DATA_BYTES (64ull << 20)

/* One DATA frame in a connection's queue. Outlives its group if it must. */
struct sending {
	struct kv_list link;
	struct kv_conn_sent sent;
	struct kv_putgroup *g; /* NULL: it is gone */
};

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
		kv_putgroup_watch(s->g);
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

int
kv_putgroup_fill(struct kv_putgroup *g, const struct kv_msg *msg)
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

bool
kv_putgroup_fill_leave(struct kv_putgroup *g)
{
	bool is_sending = false;
	struct sending *s;

	while ((s = KV_LIST_FIRST(&g->sendings, struct sending, link))) {
		is_sending = true;
		kv_list_del(&s->link);
		s->g = NULL;
	}
	return is_sending;
}

#include "wire/map.h"

#include <errno.h>

bool
kv_map_node_take(struct kv_cut *c, struct kv_map_node *out)
{
	out->rec = kv_cut_take(c, sizeof(*out->rec));
	if (!out->rec)
		return false;
	out->addr = kv_cut_take(c, out->rec->addr_len);
	out->name = kv_cut_take(c, out->rec->name_len);
	return !c->bad;
}

bool
kv_map_query_take(struct kv_cut *c, struct kv_map_query *out)
{
	out->rec = kv_cut_take(c, sizeof(*out->rec));
	if (!out->rec)
		return false;
	out->addr = kv_cut_take(c, out->rec->addr_len);
	out->name = kv_cut_take(c, out->rec->name_len);
	return !c->bad;
}

bool
kv_map_generation_take(struct kv_cut *c, struct kv_map_generation *out)
{
	out->ent = kv_cut_take(c, sizeof(*out->ent));
	if (!out->ent)
		return false;
	out->tenant = kv_cut_take(c, out->ent->tenant_len);
	if (out->ent->tenant_len > KV_TENANT_BYTES_MAX)
		c->bad = true;
	return !c->bad;
}

int
kv_map_lookup_parse(const struct kv_msg *msg, unsigned count,
		    struct kv_map_lookup *out)
{
	const struct kv_lookup_r *r = msg->body;
	struct kv_map_node node;
	struct kv_cut c, again;
	size_t owners = 0;
	unsigned i;

	out->count = kv_get32(r->count);
	out->nodes = kv_get16(r->nodes);
	if (out->count != count)
		return -EPROTO;
	kv_cut_init(&c, msg);
	out->owners = kv_cut_take(&c, count);
	for (i = 0; i < count && !c.bad; i++) {
		if (out->owners[i] > KV_REPLICAS_MAX)
			return -EPROTO;
		owners += out->owners[i];
	}
	out->index = kv_cut_array(&c, owners, sizeof(*out->index));
	for (i = 0; i < owners && !c.bad; i++)
		if (kv_get16(out->index[i]) >= out->nodes)
			return -EPROTO;
	out->records = again = c;
	for (i = 0; i < out->nodes; i++)
		if (!kv_map_node_take(&again, &node))
			return -EPROTO;
	return kv_cut_done(&again) ? 0 : -EPROTO;
}

int
kv_map_grants_parse(const struct kv_msg *msg, struct kv_map_grants *out)
{
	const struct kv_grant_r *r = msg->body;
	uint32_t i, count = kv_get32(r->count);
	size_t extents = 0;
	struct kv_cut c;

	kv_cut_init(&c, msg);
	out->ent = kv_cut_array(&c, count, sizeof(*out->ent));
	for (i = 0; i < count && out->ent; i++)
		extents += kv_get32(out->ent[i].extents);
	out->ext = kv_cut_array(&c, extents, sizeof(*out->ext));
	return kv_cut_done(&c) ? 0 : -EPROTO;
}

int
kv_map_values_parse(const struct kv_msg *msg, size_t count,
		    struct kv_map_values *out)
{
	const struct kv_get_r *r = msg->body;
	size_t i, extents = 0, bytes = 0;
	struct kv_cut c;

	if (kv_get32(r->count) != count)
		return -EPROTO;
	kv_cut_init(&c, msg);
	out->ent = kv_cut_array(&c, count, sizeof(*out->ent));
	for (i = 0; i < count && out->ent; i++) {
		extents += kv_get16(out->ent[i].extents);
		bytes += kv_get32(out->ent[i].inline_len);
	}
	out->ext = kv_cut_array(&c, extents, sizeof(*out->ext));
	out->bytes = kv_cut_take(&c, bytes);
	return kv_cut_done(&c) ? 0 : -EPROTO;
}

static size_t
window_bytes(unsigned ports)
{
	return sizeof(struct kv_window) + ports * sizeof(struct kv_le32);
}

struct kv_map_window
kv_map_window_get(const struct kv_map_windows *w, unsigned i)
{
	const uint8_t *p = w->records + i * window_bytes(w->ports);
	const struct kv_window *rec = (const void *)p;

	return (struct kv_map_window){
		.addr = kv_get64(rec->addr),
		.len = kv_get64(rec->len),
		.keys = (const void *)(rec + 1),
	};
}

bool
kv_map_windows_take(struct kv_cut *c, unsigned count, unsigned ports,
		    struct kv_map_windows *out)
{
	struct kv_map_window w;
	unsigned i;

	out->count = count;
	out->ports = ports;
	if (ports > KV_RAILS_MAX)
		c->bad = true;
	out->records = kv_cut_array(c, count, window_bytes(ports));
	for (i = 0; i < count && !c->bad; i++) {
		w = kv_map_window_get(out, i);
		c->bad = w.len > UINT64_MAX - w.addr;
	}
	return !c->bad;
}

static bool
piece_is_inside(const struct kv_piece *p, const struct kv_map_windows *w)
{
	uint64_t off = kv_get64(p->off), len = kv_get32(p->len);
	struct kv_map_window in;

	if (kv_get32(p->window) >= w->count || len == 0)
		return false;
	in = kv_map_window_get(w, kv_get32(p->window));
	return off <= in.len && len <= in.len - off;
}

const struct kv_piece *
kv_map_pieces_take(struct kv_cut *c, const struct kv_map_windows *w,
		   unsigned count, uint64_t bytes)
{
	const struct kv_piece *p = kv_cut_array(c, count, sizeof(*p));
	unsigned i;

	for (i = 0; i < count && !c->bad; i++) {
		c->bad = !piece_is_inside(&p[i], w) ||
			 kv_get32(p[i].len) > bytes;
		bytes -= kv_get32(p[i].len);
	}
	if (bytes)
		c->bad = true;
	return c->bad ? NULL : p;
}

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

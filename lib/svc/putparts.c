#include "svc/putparts.h"

/* Adds up what follows the entries; false when that cannot be right. */
static bool
parts_add_up(struct kv_putparts *p, uint32_t n, bool is_rdma)
{
	const struct kv_put_ent *ents = p->ents;
	uint32_t i;

	for (i = 0; i < n; i++) {
		p->sum.keys += kv_get16(ents[i].key_len);
		if (!(ents[i].flags & KV_ENT_INLINE)) {
			p->sum.own += kv_get16(ents[i].key_len);
			if (is_rdma)
				p->sum.pieces += kv_get32(ents[i].pieces);
			continue;
		}
		if (kv_get64(ents[i].size) > KV_INLINE_BYTES_MAX)
			return false;
		p->sum.values += kv_get64(ents[i].size);
	}
	return true;
}

bool
kv_putparts_take(const struct kv_msg *msg, struct kv_putparts *p)
{
	const struct kv_put *m = msg->body;
	bool is_rdma = m->mode == KV_MODE_RDMA;
	uint32_t i, n = kv_get32(m->count);
	struct kv_cut cut;

	*p = (struct kv_putparts){ 0 };
	kv_cut_init(&cut, msg);
	if (is_rdma && !kv_map_windows_take(&cut, kv_get32(m->windows),
					    m->ports, &p->windows))
		return false;
	p->ents = kv_cut_array(&cut, n, sizeof(*p->ents));
	if (!p->ents || !parts_add_up(p, n, is_rdma))
		return false;
	p->keys = kv_cut_take(&cut, p->sum.keys);
	p->values = kv_cut_take(&cut, p->sum.values);
	p->pieces = (const void *)cut.p;
	for (i = 0; is_rdma && i < n; i++)
		if (!(p->ents[i].flags & KV_ENT_INLINE))
			kv_map_pieces_take(&cut, &p->windows,
					   kv_get32(p->ents[i].pieces),
					   kv_get64(p->ents[i].size));
	return kv_cut_done(&cut);
}

/*
 * What is asked and told of objects by hash alone: LOOKUP, by requesters and
 * masters, and WANT, by masters.
 */

#include <string.h>

#include "svc/nodecore.h"
#include "wire/msg.h"

/* Keys between the steps of fetching memory. */
#define AHEAD 8

static bool
lookup_one(struct kv_node *node, struct kv_id id, bool is_exist)
{
	struct kv_object *o;

	o = kv_index_find_hash(node->index, kv_key_hash_parse(id));
	if (!o || (o->flags & KV_OBJ_HIDDEN))
		return false;
	if (is_exist)
		kv_index_want(node->index, o, kv_loop_now(node->loop));
	return true;
}

bool
kv_nodelookup_start(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_lookup *m = msg->body;
	struct kv_node *node = peer->node;
	bool is_exist = m->flags & KV_LOOKUP_EXIST;
	uint32_t i, found = 0, n = kv_get32(m->count);
	const struct kv_id *ids;
	struct kv_lookup_r *r;
	uint8_t *has, *rest;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	ids = kv_cut_array(&cut, n, sizeof(*ids));
	if (!kv_cut_done(&cut))
		return false;
	if (!kv_conn_begin(peer->conn, KV_MSG_LOOKUP_R, msg->id, 0))
		return true;
	has = kv_conn_tail(peer->conn, n);
	for (i = 0; has && i < n; i++) {
		if (i + AHEAD < n)
			kv_index_prefetch(node->index,
					  kv_key_hash_parse(ids[i + AHEAD]));
		has[i] = lookup_one(node, ids[i], is_exist);
		found += has[i];
	}
	if (has && found && !is_exist) {
		/* Everything that is here has one owner: record 0. */
		rest = kv_conn_tail(peer->conn,
				    found * sizeof(struct kv_le16) +
					    kv_nodeinfo_record_bytes(node));
		if (!rest)
			return true;
		memset(rest, 0, found * sizeof(struct kv_le16));
		kv_nodeinfo_record(node, rest + found * sizeof(struct kv_le16));
	}
	r = has ? kv_conn_body(peer->conn) : NULL;
	if (!r)
		return true;
	r->count = kv_le32(n);
	r->nodes = kv_le16(found && !is_exist);
	kv_conn_end(peer->conn);
	return true;
}

/* One mark, while memory of later ones is on its way: a master sends some ten
 * thousand at once. */
static void
want_one(struct kv_node *node, const struct kv_id *ids, uint32_t i, uint32_t n)
{
	struct kv_index *ix = node->index;
	struct kv_object *o;

	if (i + 3 * AHEAD < n)
		kv_index_prefetch(ix, kv_key_hash_parse(ids[i + 3 * AHEAD]));
	if (i + 2 * AHEAD < n)
		kv_index_prefetch_object(ix,
					 kv_key_hash_parse(ids[i + 2 * AHEAD]));
	if (i + AHEAD < n)
		kv_index_prefetch_order(ix, kv_key_hash_parse(ids[i + AHEAD]));
	o = kv_index_find_hash(ix, kv_key_hash_parse(ids[i]));
	if (o && !(o->flags & KV_OBJ_HIDDEN))
		kv_index_want(ix, o, kv_loop_now(node->loop));
}

bool
kv_nodelookup_want(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_want *m = msg->body;
	struct kv_node *node = peer->node;
	uint32_t i, n = kv_get32(m->count);
	const struct kv_id *ids;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	ids = kv_cut_array(&cut, n, sizeof(*ids));
	if (!kv_cut_done(&cut))
		return false;
	for (i = 0; i < n; i++)
		want_one(node, ids, i, n);
	return true;
}

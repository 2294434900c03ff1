/* What masters say of copies that are put, or are here already. */
#include "svc/putkey.h"

#include "base/attr.h"
#include "base/status.h"

void
kv_putkey_decide(struct kv_putkey *k)
{
	struct kv_node *node = k->put->node;
	enum kv_verdict verdict = 0;
	unsigned i;

	for (i = 0; i < node->n_sessions && !verdict; i++)
		if (kv_session_is_live(node, i))
			verdict = k->verdict[i];
	if (verdict == KV_VERDICT_GOES) {
		kv_stats_add(&node->stats, KV_STAT_LOSERS, 1);
		kv_nodeadmin_drop(node, k->object);
		kv_putkey_rest(k, KV_EEXISTS);
		return;
	}
	if (!verdict)
		kv_stats_add(&node->stats, KV_STAT_PUTS_UNPUBLISHED, 1);
	kv_index_show(node->index, k->object, kv_loop_now(node->loop));
	kv_nodekept_shown(node);
	kv_putkey_rest(k, KV_OK);
}

/* What a master says of a copy that is shown. */
static void
shown_verdict(struct kv_node *node, unsigned session, struct kv_hash hash,
	      const struct kv_put_id *id)
{
	struct kv_object *o = kv_index_find_hash(node->index, hash);
	unsigned i;

	for (i = 0; i < session; i++)
		if (kv_session_is_live(node, i))
			return; /* an earlier one decides */
	if (!o || (o->flags & KV_OBJ_HIDDEN) ||
	    o->id_random != kv_get64(id->random) ||
	    o->id_version != kv_get32(id->version))
		return;
	kv_stats_add(&node->stats, KV_STAT_LOSERS, 1);
	kv_nodeadmin_drop(node, o);
}

void
kv_putkey_verdict(struct kv_node *node, unsigned session,
		  const struct kv_id *hash_id, const struct kv_put_id *id,
		  enum kv_verdict verdict)
{
	struct kv_hash hash = kv_key_hash_parse(*hash_id);
	struct kv_putkey *k = kv_putkey_writer(node, hash);

	if (verdict == KV_VERDICT_OPEN)
		return;
	if (k && k->state == KV_PUTKEY_HIDDEN && (k->waits & 1u << session) &&
	    k->put->random == kv_get64(id->random) &&
	    k->put->version == kv_get32(id->version)) {
		k->verdict[session] = (uint8_t)verdict;
		k->waits &= (uint8_t) ~(1u << session);
		if (!k->waits)
			kv_putkey_decide(k);
	} else if (verdict == KV_VERDICT_GOES) {
		shown_verdict(node, session, hash, id);
	}
}

void
kv_putkey_session_live(struct kv_node *node, unsigned session)
{
	struct kv_putkey *k;

	KV_LIST_FOREACH(k, &node->hidden, link) {
		k->waits |= (uint8_t)(1u << session);
		kv_session_publish_to(node, session, k->object);
	}
}

void
kv_putkey_session_lost(struct kv_node *node, unsigned session)
{
	struct kv_putkey *k, *next;

	KV_LIST_FOREACH_SAFE(k, next, &node->hidden, link) {
		k->verdict[session] = 0;
		k->waits &= (uint8_t) ~(1u << session);
		if (!k->waits)
			kv_putkey_decide(k);
	}
}

bool
kv_putkey_owes(struct kv_node *node, unsigned session, uint64_t before_ns)
{
	struct kv_putkey *k;

	/* The oldest ones come first. */
	KV_LIST_FOREACH(k, &node->hidden, link) {
		if (k->object->used_ns >= before_ns)
			return false;
		if (k->waits & 1u << session)
			return true;
	}
	return false;
}

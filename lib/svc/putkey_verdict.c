/* What masters say of copies that are put, or are here already. */
#include "svc/putkey.h"

#include "base/attr.h"
#include "base/status.h"

void
kv_putkey_show(struct kv_putkey *k)
{
	struct kv_node *node = k->put->node;

	if (!k->is_known)
		kv_stats_add(&node->stats, KV_STAT_PUTS_UNPUBLISHED, 1);
	kv_index_show(node->index, k->object, kv_loop_now(node->loop));
	kv_nodekept_shown(node);
	kv_putkey_rest(k, KV_OK);
}

static void
key_lose(struct kv_putkey *k)
{
	struct kv_node *node = k->put->node;

	kv_stats_add(&node->stats, KV_STAT_LOSERS, 1);
	kv_nodeadmin_drop(node, k->object);
	kv_putkey_rest(k, KV_EEXISTS);
}

static bool
id_is(const struct kv_put_id *id, uint64_t random, uint32_t version)
{
	return kv_get64(id->random) == random &&
	       kv_get32(id->version) == version;
}

/* Does the other copy stand above the one here? (struct kv_check_ent) */
static bool
is_beaten(const struct kv_node *node, const struct kv_object *o,
	  const struct kv_check_ent *e)
{
	bool rival_is_shown = e->flags & KV_PUBLISH_SHOWN;
	bool is_shown = kv_session_vouches(node, o);
	uint32_t version = kv_get32(e->rival.version);

	if (version != o->id_version)
		return version > o->id_version;
	if (is_shown != rival_is_shown)
		return rival_is_shown;
	return kv_get64(e->rival.random) < o->id_random;
}

/* It has to go. */
static void
copy_lose(struct kv_node *node, struct kv_object *o)
{
	struct kv_putkey *k = kv_putkey_writer(node, kv_node_hash(o));

	if (k && k->state == KV_PUTKEY_HIDDEN && k->object == o) {
		key_lose(k);
		return;
	}
	kv_stats_add(&node->stats, KV_STAT_LOSERS, 1);
	kv_nodeadmin_drop(node, o);
}

bool
kv_putkey_keeps(struct kv_node *node, const struct kv_check_ent *e)
{
	struct kv_object *o =
		kv_index_find_hash(node->index, kv_key_hash_parse(e->hash));

	if (!o || !id_is(&e->put_id, o->id_random, o->id_version))
		return false;
	if (!is_beaten(node, o, e))
		return true;
	copy_lose(node, o);
	return false;
}

void
kv_putkey_verdict(struct kv_node *node, unsigned session,
		  const struct kv_id *hash_id, const struct kv_put_id *id,
		  enum kv_verdict verdict)
{
	struct kv_hash hash = kv_key_hash_parse(*hash_id);
	struct kv_putkey *k;
	struct kv_object *o;

	if (verdict == KV_VERDICT_GOES) {
		o = kv_index_find_hash(node->index, hash);
		if (o && id_is(id, o->id_random, o->id_version))
			copy_lose(node, o);
		return;
	}
	k = kv_putkey_writer(node, hash);
	if (verdict != KV_VERDICT_STAYS || !k || k->state != KV_PUTKEY_HIDDEN ||
	    !(k->waits & 1u << session) ||
	    !id_is(id, k->put->random, k->put->version))
		return;
	k->is_known = true;
	k->waits &= (uint8_t) ~(1u << session);
	if (!k->waits)
		kv_putkey_show(k);
}

void
kv_putkey_doubt(struct kv_node *node, const struct kv_id *hash_id,
		const struct kv_put_id *id, bool is_doubted)
{
	struct kv_object *o =
		kv_index_find_hash(node->index, kv_key_hash_parse(*hash_id));

	if (!o || o->flags & KV_OBJ_HIDDEN ||
	    !id_is(id, o->id_random, o->id_version))
		return;
	if (is_doubted)
		o->flags |= KV_OBJ_DOUBTED;
	else
		o->flags &= (uint16_t)~KV_OBJ_DOUBTED;
}

void
kv_putkey_outdated(struct kv_node *node)
{
	struct kv_putkey *k, *next;

	KV_LIST_FOREACH_SAFE(k, next, &node->hidden, link) {
		if (!kv_index_is_outdated(node->index, k->object))
			continue;
		/* It was there, and was removed with all others. */
		kv_nodeadmin_drop(node, k->object);
		kv_putkey_rest(k, KV_OK);
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
		if (!(k->waits & 1u << session))
			continue;
		k->waits &= (uint8_t) ~(1u << session);
		if (!k->waits)
			kv_putkey_show(k);
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

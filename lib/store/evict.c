#include "store/evict.h"

void
kv_evict_init(struct kv_evict *e, uint64_t grace_ns)
{
	kv_list_init(&e->plain);
	kv_list_init(&e->wanted);
	kv_list_init(&e->soft);
	e->grace_ns = grace_ns;
	e->bytes = 0;
}

void
kv_evict_add(struct kv_evict *e, struct kv_object *o)
{
	const uint8_t held = KV_OBJ_HIDDEN | KV_OBJ_HARD_PIN | KV_OBJ_GONE;
	struct kv_list *to = &e->plain;

	if (o->pins || o->flags & held)
		return;
	if (o->flags & KV_OBJ_SOFT_PIN)
		to = &e->soft;
	else if (o->flags & KV_OBJ_WANTED)
		to = &e->wanted;
	kv_list_add_tail(to, &o->order);
	e->bytes += kv_index_space(o);
}

void
kv_evict_del(struct kv_evict *e, struct kv_object *o)
{
	if (kv_list_is_empty(&o->order))
		return;
	kv_list_del(&o->order);
	e->bytes -= kv_index_space(o);
}

void
kv_evict_expire(struct kv_evict *e, uint64_t now)
{
	struct kv_object *o;
	unsigned i;

	for (i = 0; i < KV_EVICT_EXPIRE_MAX; i++) {
		o = KV_LIST_FIRST(&e->wanted, struct kv_object, order);
		if (!o || now - o->wanted_ns < e->grace_ns)
			return;
		kv_evict_del(e, o);
		o->flags &= (uint16_t)~KV_OBJ_WANTED;
		kv_evict_add(e, o);
	}
}

struct kv_object *
kv_evict_next(const struct kv_evict *e)
{
	const struct kv_list *lists[] = { &e->plain, &e->wanted, &e->soft };
	unsigned i;

	for (i = 0; i < KV_ARRAY_LEN(lists); i++)
		if (!kv_list_is_empty(lists[i]))
			return KV_LIST_FIRST(lists[i], struct kv_object, order);
	return NULL;
}

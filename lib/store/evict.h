#ifndef KV_STORE_EVICT_H
#define KV_STORE_EVICT_H

/*
 * The order of leaving, for index.c: lists of the objects that may leave, each
 * with the next one at its head. Plain ones first; then wanted ones; then
 * soft-pinned ones. What is hidden, hard-pinned, pinned or gone is in none, so
 * nothing is ever passed over.
 */

#include <stdint.h>

#include "store/index.h"

enum {
	/* Marks that one call of kv_evict_expire looks at: each mark costs its
	 * share when it is made, and no call has to clear a heap of them. */
	KV_EVICT_EXPIRE_MAX = 16,
};

struct kv_evict {
	struct kv_list plain;
	struct kv_list wanted;
	struct kv_list soft;
	uint64_t grace_ns;
	uint64_t bytes; /* space of all that are in the lists */
};

void kv_evict_init(struct kv_evict *e, uint64_t grace_ns);

/* To the recent end of its list; nothing for one that may not leave. */
void kv_evict_add(struct kv_evict *e, struct kv_object *o);
/* Out of the lists, if it is in one. */
void kv_evict_del(struct kv_evict *e, struct kv_object *o);

/* Marks older than the grace end: to the recent end of the plain ones. */
void kv_evict_expire(struct kv_evict *e, uint64_t now);

/* What leaves next, or NULL. */
struct kv_object *kv_evict_next(const struct kv_evict *e);

#endif

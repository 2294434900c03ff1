#ifndef KV_SVC_PENDING_H
#define KV_SVC_PENDING_H

/*
 * Removals that nodes missed while they were away. A master keeps them until
 * the node is back, so that what was removed does not come back with it. No
 * I/O, no clock (time comes in).
 *
 * What a node has is told by its store: the identity of its pool, when that
 * outlives the node, else the node's boot id. A store is away from when its
 * node was lost until it joins again, or is forgotten.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/id.h"
#include "base/list.h"
#include "wire/proto.h"

enum {
	KV_PENDING_STORES_MAX = 256,
	KV_PENDING_BYTES_MAX = 16 << 20, /* of removals */
};

/* A removal as it is to be sent: body and tail of a REMOVE. */
struct kv_pending_removal {
	struct kv_list link; /* store->removals */
	struct kv_remove body;
	size_t tail_len;
	uint8_t tail[];
};

struct kv_pending_store {
	struct kv_list link; /* pending->stores, as they went */
	struct kv_id id;
	struct kv_id boot; /* of its last node */
	bool is_away;
	uint64_t until; /* away: forgotten then */
	struct kv_list removals;
	size_t bytes; /* theirs */
};

struct kv_pending {
	struct kv_list stores;
	unsigned n_stores;
	unsigned n_away;
	uint64_t n_removals;
	size_t bytes;
	uint64_t n_widened; /* lists that became "all of the tenant" */
	uint64_t n_lost;    /* stores forgotten for want of room */
};

void kv_pending_init(struct kv_pending *p);
void kv_pending_fini(struct kv_pending *p);

struct kv_pending_store *kv_pending_find(struct kv_pending *p, struct kv_id id);

/* Its node is lost: it is away until it is back or that time has come. 0 or
 * -ENOMEM. One too many: the one that went first is forgotten. */
KV_MUST_CHECK int kv_pending_away(struct kv_pending *p, struct kv_id id,
				  struct kv_id boot, uint64_t until);
/* It is back. What it missed stays until it was told. */
void kv_pending_back(struct kv_pending *p, struct kv_id id);
/* It will never be back. */
void kv_pending_forget(struct kv_pending *p, struct kv_id id);
/* Forgets what went so long ago that it is not waited for. */
void kv_pending_expire(struct kv_pending *p, uint64_t now);

/*
 * The store missed this; it need not be away. 0 or -ENOMEM. Out of room: the
 * longest list becomes: all of these tenants, even what is pinned.
 */
KV_MUST_CHECK int kv_pending_add(struct kv_pending *p, struct kv_id id,
				 struct kv_id boot,
				 const struct kv_remove *body, const void *tail,
				 size_t tail_len);
/* The same for all that are away; their nodes' boot ids are appended to `away`.
 */
KV_MUST_CHECK int kv_pending_add_all(struct kv_pending *p,
				     const struct kv_remove *body,
				     const void *tail, size_t tail_len,
				     struct kv_bytes *away);

/* The next one that the store is to be told; NULL: none. */
struct kv_pending_removal *kv_pending_next(struct kv_pending_store *s);
/* It was told that one. The store may be forgotten, and freed. */
void kv_pending_told(struct kv_pending *p, struct kv_pending_store *s);

#endif

#ifndef KV_BASE_HTAB_H
#define KV_BASE_HTAB_H

#include "base/attr.h"

#include <stdint.h>

/*
 * Intrusive hash table with chains, keyed by a 64-bit hash that the caller
 * supplies; its low bits choose the bucket, so they must be well mixed.
 * Several nodes may have one hash: the caller compares the whole keys.
 *
 * Linear hashing: the table grows by splitting one bucket when a node is
 * added and shrinks by merging a few when one is deleted. So no operation
 * ever takes time in proportion to the table, and no array is copied: bucket
 * arrays double as segments, each twice its predecessor, made of zero pages.
 */
struct kv_htab_node {
	struct kv_htab_node *next;
	uint64_t hash;
};

enum {
	KV_HTAB_BUCKETS_MIN = 16,
	KV_HTAB_SEGMENTS_MAX = 44,
};

struct kv_htab {
	/* segs[0] has BUCKETS_MIN buckets, each later one as many as all
	 * before it; NULL where the table does not reach. */
	struct kv_htab_node **segs[KV_HTAB_SEGMENTS_MAX];
	size_t buckets; /* 0 until the first add */
	size_t count;
};

void kv_htab_init(struct kv_htab *t);

/* Frees the buckets; nodes still inside are left alone. */
void kv_htab_fini(struct kv_htab *t);

/* 0. -ENOMEM is possible for the first node of a table only. */
KV_MUST_CHECK int kv_htab_add(struct kv_htab *t, struct kv_htab_node *n,
			      uint64_t hash);

/* n must be in this table. */
void kv_htab_del(struct kv_htab *t, struct kv_htab_node *n);

/* The nodes that have this hash, one after the other, then NULL. */
struct kv_htab_node *kv_htab_first(const struct kv_htab *t, uint64_t hash);
struct kv_htab_node *kv_htab_next(const struct kv_htab_node *n, uint64_t hash);

/* Asks for the cache line of the bucket, ahead of kv_htab_first(). */
void kv_htab_prefetch(const struct kv_htab *t, uint64_t hash);

static inline size_t
kv_htab_count(const struct kv_htab *t)
{
	return t->count;
}

/* May delete (and free) n, but must not add or delete anything else. */
typedef void kv_htab_fn(void *arg, struct kv_htab_node *n);

/*
 * One step of a walk: calls fn for the nodes of `buckets` (> 0) positions and
 * returns the cursor of the next step. Start with cursor 0; 0 is returned
 * when the walk is done. Nodes may be added and deleted between steps: what
 * is in the table from start to end is seen at least once (perhaps more
 * often), anything else perhaps. Any cursor value is safe.
 */
KV_MUST_CHECK uint64_t kv_htab_scan(struct kv_htab *t, uint64_t cursor,
				    unsigned buckets, kv_htab_fn *fn,
				    void *arg);

#endif

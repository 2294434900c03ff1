#ifndef KV_BASE_HTAB_H
#define KV_BASE_HTAB_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

struct kv_warm;

/*
 * Intrusive hash table, keyed by a 64-bit hash that the caller supplies; its
 * low bits choose the bucket, so they must be well mixed. Several nodes may
 * have one hash: the caller compares the whole keys.
 *
 * A bucket is a cache line: a few nodes, and beside each the low half of its
 * hash. So a miss reads that line alone, a hit one node besides, and splitting
 * a bucket no node at all. (In chains through the nodes all three waited for
 * the memory of others: half of what a small put cost its node.)
 *
 * Linear hashing: the table grows by splitting one bucket when a node is
 * added and shrinks by merging a few when one is deleted. So no operation
 * ever takes time in proportion to the table, and no array is copied: bucket
 * arrays double as segments, each twice its predecessor, made of zero pages.
 */
struct kv_htab_node {
	struct kv_htab_node *next; /* where its bucket is full */
	uint64_t hash;
};

enum {
	KV_HTAB_PLACES = 5, /* of a bucket */
	KV_HTAB_BUCKETS_MIN = 4,
	KV_HTAB_SEGMENTS_MAX = 31, /* as many buckets as tags can number */
};

struct kv_htab_bucket {
	uint32_t tags[KV_HTAB_PLACES]; /* low halves of hashes */
	uint32_t count;                /* of nodes; further ones hang in a chain
					* on the last place */
	struct kv_htab_node *nodes[KV_HTAB_PLACES];
};

_Static_assert(sizeof(struct kv_htab_bucket) == 64, "a cache line");

struct kv_htab {
	/* segs[0] has BUCKETS_MIN buckets, each later one as many as all
	 * before it; NULL where the table does not reach. */
	struct kv_htab_bucket *segs[KV_HTAB_SEGMENTS_MAX];
	size_t buckets; /* 0 until the first add */
	size_t low;     /* the power of two at or below buckets */
	size_t count;
	bool is_scanned; /* it shrinks when that is over */
	struct kv_warm *warm;
};

void kv_htab_init(struct kv_htab *t);

/* Of an empty table that may become large: its buckets lie in huge pages, as
 * far as w has faulted them in, and it grows later where w is late. w is its
 * alone until kv_htab_fini(). */
void kv_htab_warm(struct kv_htab *t, struct kv_warm *w);

/* Frees the buckets; nodes still inside are left alone. */
void kv_htab_fini(struct kv_htab *t);

/* 0. -ENOMEM is possible for the first node of a table only. */
KV_MUST_CHECK int kv_htab_add(struct kv_htab *t, struct kv_htab_node *n,
			      uint64_t hash);

/* n must be in this table. */
void kv_htab_del(struct kv_htab *t, struct kv_htab_node *n);

/* The nodes that have this hash, one after the other, then NULL. */
struct kv_htab_node *kv_htab_first(const struct kv_htab *t, uint64_t hash);
struct kv_htab_node *kv_htab_next(const struct kv_htab *t,
				  const struct kv_htab_node *n);

/* For many at once, so that they wait for memory together: asks for the
 * bucket; then, from the bucket alone, which node kv_htab_first() most likely
 * is. That may not be touched, but its memory be asked for. */
void kv_htab_prefetch(const struct kv_htab *t, uint64_t hash);
struct kv_htab_node *kv_htab_guess(const struct kv_htab *t, uint64_t hash);

static inline size_t
kv_htab_count(const struct kv_htab *t)
{
	return t->count;
}

/* May delete (and free) n, but must not add or delete anything else. */
typedef void kv_htab_fn(void *arg, struct kv_htab_node *n);

/*
 * One step of a walk: calls fn for at most `nodes` (> 0) nodes, and those that
 * share buckets with the last one, and returns the cursor of the next step.
 * Start with cursor 0; 0 is returned when the walk is done. Nodes may be added
 * and deleted between steps: what is in the table from start to end is seen at
 * least once (perhaps more often), anything else perhaps. Any cursor value is
 * safe.
 */
KV_MUST_CHECK uint64_t kv_htab_scan(struct kv_htab *t, uint64_t cursor,
				    unsigned nodes, kv_htab_fn *fn, void *arg);

#endif

#ifndef KV_BASE_HEAP_H
#define KV_BASE_HEAP_H

#include "base/attr.h"

#include <stdint.h>

/*
 * Binary heap of caller-owned nodes, smallest key first; among equal keys
 * the order is arbitrary but the same in every run.
 */
struct kv_heap_node {
	uint64_t key;
	size_t pos; /* 0: in no heap. Zero it before the first use. */
};

struct kv_heap {
	struct kv_heap_node **nodes; /* nodes[0] is pos 1 */
	size_t count;
	size_t cap;
};

void kv_heap_init(struct kv_heap *h);

/* Frees the array; nodes still inside are left alone. */
void kv_heap_fini(struct kv_heap *h);

/* n must be in no heap. 0, or -ENOMEM with nothing changed. */
KV_MUST_CHECK int kv_heap_add(struct kv_heap *h, struct kv_heap_node *n,
			      uint64_t key);

/* n must be in this heap; afterwards it is in none. */
void kv_heap_del(struct kv_heap *h, struct kv_heap_node *n);

/* Moves n, which must be in this heap, to its place under the new key. */
void kv_heap_update(struct kv_heap *h, struct kv_heap_node *n, uint64_t key);

/* The node with the smallest key, NULL if there is none. */
static inline struct kv_heap_node *
kv_heap_first(const struct kv_heap *h)
{
	return h->count ? h->nodes[0] : NULL;
}

#endif

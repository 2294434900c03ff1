#ifndef KV_MEM_SPAN_H
#define KV_MEM_SPAN_H

#include <stdint.h>

/*
 * The large level of mem/slab.c: a space of up to 2^32 granules, cut into
 * blocks that lie side by side. A block is taken, a hole, or a gap (not
 * announced yet); two holes never touch. Everything is counted in granules.
 */
struct kv_span;

/* NULL with errno ENOMEM. The whole space is one gap. */
struct kv_span *kv_span_new(uint64_t granules);
void kv_span_free(struct kv_span *sp);

/* Turns a part of a gap into a hole. -EEXIST when it is none, -ENOMEM. */
int kv_span_add(struct kv_span *sp, uint64_t first, uint64_t n);

/* Takes n from the smallest hole that suffices. -ENOSPC, -ENOMEM. */
int kv_span_take(struct kv_span *sp, uint64_t n, uint64_t *first);

/*
 * Takes n, aligned to n (a power of two), from the upper end of one of the
 * largest holes: away from where kv_span_take() cuts. -ENOSPC, -ENOMEM.
 */
int kv_span_take_top(struct kv_span *sp, uint64_t n, uint64_t *first);

/*
 * Takes up to n from one of the largest holes and says how many in *got.
 * -ENOSPC when there is no hole, -ENOMEM.
 */
int kv_span_take_most(struct kv_span *sp, uint64_t n, uint64_t *first,
		      uint64_t *got);

/*
 * Takes exactly this range. -EEXIST when it is not all hole, -ENOMEM. Looks
 * from where the last call ended, so a pass in ascending order is linear.
 */
int kv_span_reserve(struct kv_span *sp, uint64_t first, uint64_t n);

/* The range must be one taken block. */
void kv_span_release(struct kv_span *sp, uint64_t first, uint64_t n);

uint64_t kv_span_free_granules(const struct kv_span *sp);
uint64_t kv_span_holes(const struct kv_span *sp);

/* The size of the hole that kv_span_take_most() would choose; 0 for none. */
uint64_t kv_span_top(const struct kv_span *sp);

/* The size of the largest hole. Walks the holes of its class. */
uint64_t kv_span_largest(const struct kv_span *sp);

#endif

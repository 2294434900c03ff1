#ifndef KV_MEM_SLAB_H
#define KV_MEM_SLAB_H

#include "mem/extent.h"

#include <stdint.h>

/*
 * The block allocator of a node's pool. It hands out offsets and never looks
 * at the memory behind them; it does no I/O, reads no clock and takes no
 * lock: one thread uses it.
 *
 * Space comes in granules of KV_GRANULE_BYTES. Blocks above
 * KV_SLAB_SMALL_BYTES are cut from holes that coalesce as they are released
 * (span.h). Smaller ones are packed into chunks of 1 MiB that a bitmap
 * describes (chunk.h), so that a small block which stays for long cannot keep
 * two large holes apart, and costs a few bits to remember. Whatever its kind,
 * a free byte can serve any block: when no hole is big enough, a block is made
 * of several.
 *
 * Memory: up to 48 bytes a block above KV_SLAB_SMALL_BYTES, 1.1 KiB a chunk.
 */
#define KV_SLAB_POOL_BYTES_MAX (UINT64_C(1) << 40)
#define KV_SLAB_SMALL_BYTES    UINT64_C(32768)

struct kv_slab;

struct kv_slab_stats {
	uint64_t total_bytes;    /* announced */
	uint64_t free_bytes;     /* of these */
	uint64_t hole_bytes_max; /* the largest hole */
	uint64_t holes;          /* holes that touch nothing free */
	uint64_t chunks;         /* chunks of small blocks */
};

/*
 * For a pool of that many bytes, of which none is announced. NULL with errno:
 * EINVAL for a pool smaller than a granule, EFBIG above
 * KV_SLAB_POOL_BYTES_MAX, ENOMEM. A rest smaller than a granule is not used.
 */
struct kv_slab *kv_slab_new(uint64_t pool_bytes);

/* Allocated blocks need not be released before. */
void kv_slab_free(struct kv_slab *s);

/*
 * Announces a range: from now on it is handed out. -EINVAL when it is empty,
 * not aligned to granules or not inside the pool, -EEXIST when a part of it
 * has been announced before, -ENOMEM.
 */
int kv_slab_add(struct kv_slab *s, uint64_t off, uint64_t len);

/*
 * Allocates `bytes`, rounded up to granules. Returns how many extents of
 * `ext` were filled in, whose lengths add up to that: one when there is a hole
 * that holds it (of many holes within 3 % of the size a fitting one may be
 * overlooked), else pieces, the largest first; 0 for 0 bytes. -ENOSPC when the
 * free bytes, or `max` pieces of them, do not suffice; -ENOMEM. After a
 * failure nothing is allocated.
 *
 * Who can evict tries with few pieces first and evicts a little more than the
 * bare size: with at most 4, large blocks of a pool in steady eviction have
 * 1.8 pieces and 1 % of it is free; with 64, 10 pieces and growing.
 */
int kv_slab_alloc(struct kv_slab *s, uint64_t bytes, struct kv_extent *ext,
		  unsigned max);

/*
 * Gives extents back, each exactly as kv_slab_alloc() or kv_slab_reserve()
 * made it. Cannot fail; anything else than an allocated extent is a
 * programmer error and ends the program.
 */
void kv_slab_release(struct kv_slab *s, const struct kv_extent *ext,
		     unsigned n);

/*
 * Marks exactly this announced range as allocated (adoption of a pool that
 * outlived its daemon). Must come before the first kv_slab_alloc(); ascending
 * offsets cost O(1) each. -EINVAL as for kv_slab_add(), -EEXIST when a part is
 * taken or not announced, -ENOMEM.
 */
int kv_slab_reserve(struct kv_slab *s, uint64_t off, uint64_t len);

/* O(1). */
uint64_t kv_slab_free_bytes(const struct kv_slab *s);

/* Walks the chunks and the largest holes: for questions of people. */
void kv_slab_stats(const struct kv_slab *s, struct kv_slab_stats *st);

#endif

#ifndef KV_MEM_AHEAD_H
#define KV_MEM_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The page table of a mapping of another process's memory, filled ahead of
 * use: entering a page by touching it costs about a microsecond, by
 * kv_seg_map_ahead() a fifth of it or less, and by a thread of its own, while
 * the caller still copies what comes before, next to nothing. That thread is
 * there where uses ascend, and enters what follows them; what else comes next
 * nobody knows. Any thread may use it, several at once.
 */
#define KV_AHEAD_BLOCK_BYTES (2ull << 20) /* entered at once: a huge page */

struct kv_ahead;
struct kv_seg;

/* seg outlives it. NULL: no memory. */
struct kv_ahead *kv_ahead_new(const struct kv_seg *seg);
/* Nobody uses it any more. NULL is fine. */
void kv_ahead_free(struct kv_ahead *a);

/* [off, off + len), not empty, is about to be copied. ready: so many bytes of
 * the segment's start are in memory, and may be entered before their use. */
void kv_ahead_use(struct kv_ahead *a, uint64_t off, uint64_t len,
		  uint64_t ready);

#endif

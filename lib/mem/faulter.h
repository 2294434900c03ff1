#ifndef KV_MEM_FAULTER_H
#define KV_MEM_FAULTER_H

#include "base/attr.h"

#include <stdint.h>

/*
 * Threads that fault a segment in, chunk by chunk from its start, while the
 * owner already works with what is there.
 */
struct kv_faulter;
struct kv_seg;

struct kv_faulter_opts {
	const struct kv_seg *seg; /* outlives the faulter */
	uint64_t chunk_bytes;     /* whole pages; 0: 32 MiB */
	unsigned threads;         /* 0: one */

	/*
	 * Called from the threads, one at a time, and maybe before
	 * kv_faulter_start() returned; must not block for long, nor stop the
	 * faulter. ready: this range is there; the ranges come in ascending
	 * order and without gaps. failed: faulting in stopped at off with
	 * -errno, and what was announced is all there will be; the last call.
	 */
	void (*ready)(void *arg, uint64_t off, uint64_t len);
	void (*failed)(void *arg, uint64_t off, int err);
	void *arg;
};

/* 0 or -errno (-ENOMEM, -EAGAIN: no thread could be made). */
KV_MUST_CHECK int kv_faulter_start(const struct kv_faulter_opts *o,
				   struct kv_faulter **out);

/*
 * Ends the threads, which takes as long as one chunk of each, and frees the
 * faulter; NULL is allowed. No callback runs any more when it returns.
 */
void kv_faulter_stop(struct kv_faulter *f);

#endif

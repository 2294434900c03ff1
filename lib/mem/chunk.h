#ifndef KV_MEM_CHUNK_H
#define KV_MEM_CHUNK_H

#include "base/list.h"

#include <stdint.h>

/*
 * The small level of mem/slab.c: a chunk of granules and two bitmaps that say
 * which are used and where a block begins. Positions are granules from the
 * start of the chunk.
 */
#define KV_CHUNK_GRANULES 4096u
#define KV_CHUNK_WORDS    (KV_CHUNK_GRANULES / 64)

struct kv_chunk {
	struct kv_list node; /* these three are the owner's */
	uint32_t number;
	uint16_t list;
	uint16_t free;    /* granules */
	uint16_t run_max; /* no free run is longer; often one is as long */
	uint16_t low;     /* everything below is used */
	uint64_t used[KV_CHUNK_WORDS];
	uint64_t start[KV_CHUNK_WORDS];
};

/* All free; the owner's fields stay as they are. */
void kv_chunk_init(struct kv_chunk *c);

/*
 * Takes the lowest free run of n >= 1 and returns its position. -ENOSPC when
 * there is none; run_max is exact then.
 */
int kv_chunk_take(struct kv_chunk *c, unsigned n);

/* The range must be one block. */
void kv_chunk_release(struct kv_chunk *c, unsigned pos, unsigned n);

/* Counts the free runs; *longest is set to the longest one. */
unsigned kv_chunk_holes(const struct kv_chunk *c, unsigned *longest);

#endif

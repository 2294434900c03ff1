#ifndef KV_MEM_ARENA_H
#define KV_MEM_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/warm.h"

/*
 * Memory for millions of small structs of a few sizes. Pieces of one size
 * (rounded up to 16 bytes) come out of runs of 64 KiB; a run that is empty
 * serves any size. What is released is kept for the next ones. One thread.
 *
 * A large one grows by huge pages, which spare a look at objects in turns
 * that no cache holds half of its time; a thread faults them in ahead, and
 * where it is late, there are small ones.
 */
#define KV_ARENA_PIECE_BYTES_MAX 2048
#define KV_ARENA_STEP_BYTES      16

/* From malloc, so that its checkers look for pointers in it. */
struct kv_arena_chunk {
	struct kv_arena_chunk *next;
	void *mem;
};

struct kv_arena {
	/* Runs with free pieces, by size; runs without a used one. */
	struct kv_list runs[KV_ARENA_PIECE_BYTES_MAX / KV_ARENA_STEP_BYTES + 1];
	struct kv_list empty;
	struct kv_arena_chunk *chunks;
	size_t bytes;                 /* of all runs */
	struct kv_arena_chunk *large; /* runs of it are taken one by one */
	size_t taken;                 /* bytes of it */
	struct kv_warm warm;
};

void kv_arena_init(struct kv_arena *a);
/* Whatever is still in use goes as well. */
void kv_arena_fini(struct kv_arena *a);

/* At most KV_ARENA_PIECE_BYTES_MAX bytes, aligned to 16, of any content. NULL:
 * no memory. */
void *kv_arena_alloc(struct kv_arena *a, size_t bytes);
/* bytes: as many as were asked for. */
void kv_arena_release(struct kv_arena *a, void *p, size_t bytes);

#endif

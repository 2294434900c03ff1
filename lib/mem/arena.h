#ifndef KV_MEM_ARENA_H
#define KV_MEM_ARENA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"

/*
 * Memory for millions of small structs of a few sizes. Pieces of one size
 * (rounded up to 16 bytes) come out of runs of 64 KiB; a run that is empty
 * serves any size. What is released is kept for the next ones. One thread.
 *
 * A new page costs a microsecond, on a virtual machine 4 and more: of a large
 * arena a thread of its own faults in the next chunk meanwhile.
 */
#define KV_ARENA_PIECE_BYTES_MAX 2048
#define KV_ARENA_STEP_BYTES      16

/* From malloc, so that its checkers look for pointers in it. */
struct kv_arena_chunk {
	struct kv_arena_chunk *next;
	void *mem;
	size_t bytes;
};

/* What is faulted in ahead of use. */
struct kv_arena_ahead {
	struct kv_arena_chunk *spare; /* the next one, or NULL */
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t asked;
	char *mem; /* to be faulted in, or NULL */
	bool is_ending;
};

struct kv_arena {
	/* Runs with free pieces, by size; runs without a used one. */
	struct kv_list runs[KV_ARENA_PIECE_BYTES_MAX / KV_ARENA_STEP_BYTES + 1];
	struct kv_list empty;
	struct kv_arena_chunk *chunks;
	size_t bytes; /* of all chunks */
	struct kv_arena_ahead ahead;
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

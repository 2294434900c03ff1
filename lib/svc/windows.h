#ifndef KV_SVC_WINDOWS_H
#define KV_SVC_WINDOWS_H

/*
 * Where the values of one PUT or GET lie, as their owner's NICs name it
 * (KV_MODE_RDMA): windows of memory, and pieces in them. Memory that the caller
 * has registered is a window; other memory is registered for the frame alone.
 *
 * Values are added in the order of the entries, then it is closed, then it is
 * built, then it waits until nobody reaches the memory any more.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvpool.h"
#include "svc/ranges.h"
#include "xfer/rdmaregion.h"

struct kv_windows_piece; /* windows.c */
struct kv_windows_memory;

struct kv_windows {
	struct kv_ranges *ranges;
	enum kv_rdmaregion_use use;
	struct kv_windows_piece *pieces;
	size_t n_pieces, room_pieces;
	uint32_t *counts; /* pieces of each value */
	size_t n_values, room_values;
	struct kv_windows_memory *mems; /* the windows; at first only what the
					 * caller has registered */
	size_t n_mems, room_mems;
	size_t last;    /* the one that a buffer was found in last */
	size_t n_loose; /* pieces of other memory */
	uint64_t loose_bytes;
};

/* To be written to by the owner (a get), or read. */
void kv_windows_init(struct kv_windows *w, struct kv_ranges *ranges,
		     bool is_get);
/* Nobody reaches the memory any more. Harmless after init, and twice. */
void kv_windows_fini(struct kv_windows *w);

/* One more value, for which the frame's tail has so many bytes in all. -E2BIG:
 * it has no room for it, or too much would have to be registered for one frame,
 * and all is as before; -ENOMEM. */
int kv_windows_add(struct kv_windows *w, const struct kv_buf *bufs, size_t n,
		   size_t tail_max);
/*
 * No more values come. 0, -errno: some memory could not be registered, or, as
 * is no failure, is too little to be worth it (-EAGAIN; with `must` nothing
 * is). What was registered is kept until fini.
 */
int kv_windows_close(struct kv_windows *w, bool must);

/* When it is closed. Bytes in the tail, and what is written there; both
 * builders return what is behind. */
size_t kv_windows_bytes(const struct kv_windows *w);
char *kv_windows_build(const struct kv_windows *w, char *p);
char *kv_windows_build_pieces(const struct kv_windows *w, char *p);

#endif

#ifndef KV_SVC_WINDOWS_H
#define KV_SVC_WINDOWS_H

/*
 * Where the values of one PUT or GET lie, as their owner's NICs name it
 * (KV_MODE_RDMA): windows of memory, and pieces in them. Memory that the caller
 * has registered is a window; other memory is registered for the frame alone
 * where that is worth it. Small pieces, and the rest of other memory, are
 * packed into one window of the ring (packring.h): what the owner is to read is
 * copied there before it hears of it, what it writes is copied from there by
 * kv_windows_unpack(). So a get that is given up leaves those buffers as they
 * were.
 *
 * Values are added in the order of the entries, then it is closed, then it is
 * built, then it waits until nobody reaches the memory any more.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvpool.h"
#include "svc/ranges.h"
#include "xfer/packring.h"
#include "xfer/rdmaregion.h"

struct kv_windows_piece; /* windows.c */
struct kv_windows_memory;

struct kv_windows_value {
	uint32_t first;     /* of its pieces here, */
	uint32_t n;         /* so many, */
	uint32_t n_told;    /* which the owner is told of as so many */
	uint64_t packed_at; /* in the span */
};

struct kv_windows {
	struct kv_ranges *ranges;
	enum kv_rdmaregion_use use;
	struct kv_windows_piece *pieces;
	size_t n_pieces, room_pieces;
	struct kv_windows_value *values;
	size_t n_values, room_values;
	struct kv_windows_memory *mems; /* the windows; at first only what the
					 * caller has registered */
	size_t n_mems, room_mems;
	size_t last;    /* the one that a buffer was found in last */
	size_t n_loose; /* pieces of other memory */
	uint64_t loose_bytes;
	uint64_t row_bytes;   /* of the last of them, that lie in one row */
	uint64_t crumb_bytes; /* in rows that are too short to be registered */
	struct kv_packring_span span; /* of the ring, if something is packed: */
	uint32_t packed_mem;          /* that window */
	size_t n_joined; /* pieces there that go on where another one ends */
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
 * is no failure, is too little to be worth it and the ring has no room for it
 * (-EAGAIN; with `must` nothing is too little). What was registered is kept
 * until fini.
 */
int kv_windows_close(struct kv_windows *w, bool must);

/* When it is closed. Bytes in the tail, and what is written there; both
 * builders return what is behind. */
size_t kv_windows_bytes(const struct kv_windows *w);
char *kv_windows_build(const struct kv_windows *w, char *p);
char *kv_windows_build_pieces(const struct kv_windows *w, char *p);

/* Some of it lies in the ring. */
static inline bool
kv_windows_are_packed(const struct kv_windows *w)
{
	return w->span.from != NULL;
}

/* The owner has written the first `bytes` of a value (a get): brings to the
 * caller's memory what of them is packed. */
void kv_windows_unpack(const struct kv_windows *w, size_t value,
		       uint64_t bytes);

#endif

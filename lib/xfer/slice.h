#ifndef KV_XFER_SLICE_H
#define KV_XFER_SLICE_H

/*
 * A transfer cut into what one system call, one frame or one copy takes. The
 * pieces here and those at the peer are two lists of the same length in bytes;
 * neighbours are joined in each by itself.
 */

#include <stdint.h>
#include <sys/uio.h>

#include "kvpool.h"
#include "wire/proto.h"

struct kv_regtable;
struct kv_regtable_entry;

enum kv_slice_path {
	KV_SLICE_NONE,
	KV_SLICE_SELF,   /* the peer is this process */
	KV_SLICE_SHM,    /* its memory is mapped here */
	KV_SLICE_ATTACH, /* its memory is reached by a system call */
	KV_SLICE_RDMA,   /* by the NIC: see railbatch.h */
	KV_SLICE_TCP,
};

/* Where a transfer has got to. */
struct kv_slice_cursor {
	const struct kv_xfer_item *item;
	uint64_t off;                          /* in the item */
	uint64_t left;                         /* bytes */
	const struct kv_regtable_entry *entry; /* of the last piece, a hint */
};

struct kv_slice {
	enum kv_slice_path path;
	uint64_t bytes;
	int n_local, n_remote;
	struct iovec local[KV_XFER_PIECES_MAX];
	union {
		struct iovec remote[KV_XFER_PIECES_MAX]; /* SHM, ATTACH */
		struct kv_xfer_piece pieces[KV_XFER_PIECES_MAX]; /* others */
	};
};

/* One piece that is contiguous here and lies in one region there. */
struct kv_slice_piece {
	enum kv_slice_path path;
	char *local;
	const struct kv_regtable_entry *entry;
	uint64_t off; /* in the region */
	uint64_t len;
};

/*
 * The next piece, and its path; the cursor stays before it. `path` is for
 * regions that are not mapped; where that is RDMA, regions without keys are
 * TCP's. The table covers all that is left (asserted), and stays while the
 * cursor is used (set cursor->entry to NULL for another one). left > 0.
 */
struct kv_slice_piece kv_slice_look(const struct kv_regtable *table,
				    enum kv_slice_path path,
				    struct kv_slice_cursor *cursor);

/* Fills the batch with what comes next, all on one path, not RDMA, up to
 * bytes_max, and moves the cursor behind it. Else as kv_slice_look(). */
void kv_slice_gather(struct kv_slice *b, const struct kv_regtable *table,
		     enum kv_slice_path path, struct kv_slice_cursor *cursor,
		     uint64_t bytes_max);

/* Moves a cursor on by n <= left bytes. */
void kv_slice_skip(struct kv_slice_cursor *cursor, uint64_t n);

#endif

#ifndef KV_XFER_TCP_H
#define KV_XFER_TCP_H

/*
 * Transfers over data connections to one peer: frames of up to
 * KV_XFER_PIECES_MAX pieces, several under way on each connection, bytes
 * straight between memory and socket. Used by one thread at a time.
 */

#include "kvpool.h"
#include "xfer/slice.h"
#include "xfer/wait.h"

struct kv_tcp;

struct kv_tcp_opts {
	const char *addr; /* of the peer; is copied */
	const struct kv_id *own;
	const struct kv_id *boot; /* only this process is meant */
};

/* NULL with errno. No connection is made yet. */
struct kv_tcp *kv_tcp_new(const struct kv_tcp_opts *opts);
void kv_tcp_free(struct kv_tcp *t); /* NULL is fine */

struct kv_tcp_move {
	enum kv_engine_op op;
	const struct kv_regtable *table;
	struct kv_slice_cursor *cursor;
	const struct kv_wait *wait;
};

/*
 * Moves what comes next at the cursor and belongs on this path. 0: the cursor
 * is behind it. Else its place means nothing and kv_tcp_free() is all that can
 * be done; no memory is touched any more. -EINVAL: the peer knows a region no
 * more; -ESTALE: another process is there now; -ECONNRESET, -EHOSTUNREACH,
 * -EPROTO, -EIO, what kv_wait_turn() gives, -errno.
 */
int kv_tcp_move(struct kv_tcp *t, const struct kv_tcp_move *m);

#endif

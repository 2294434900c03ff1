#ifndef KV_XFER_RAILSET_H
#define KV_XFER_RAILSET_H

/*
 * RDMA with one peer: a connection, the queue pairs beside it, and one transfer
 * at a time over all of them. Used by one thread at a time.
 */

#include "kvpool.h"
#include "xfer/railbatch.h"
#include "xfer/railnote.h"
#include "xfer/rdma.h"
#include "xfer/wait.h"

#define KV_RAILSET_WHY_BYTES 200

struct kv_railset;
struct kv_stream;

struct kv_railset_opts {
	struct kv_rdma *rdma;
	const struct kv_id *own;
	const struct kv_id *boot; /* only this process is meant */
	struct kv_loop *loop;     /* NULL: one of its own */
	uint16_t port; /* of its TCP address; 0: messages go by TCP */
};

/* NULL with errno. Nothing is connected yet. */
struct kv_railset *kv_railset_new(const struct kv_railset_opts *opts);
/* No memory is touched any more, here; and none there as soon as the peer has
 * noticed the end of the connection. NULL is fine. */
void kv_railset_free(struct kv_railset *s);

/* Towards the peer's address, or over a connection to it that is there (which
 * is taken over); once. */
void kv_railset_dial(struct kv_railset *s, const char *addr,
		     uint64_t deadline_ns);
void kv_railset_greet(struct kv_railset *s, struct kv_stream *stream,
		      uint64_t deadline_ns);

/*
 * Turns until it can move bytes. Again, after some time in which nobody looked:
 * whether it still can. 0; 1: the peer is there, but there is no rail to it; or
 * as kv_lane_settle(). But for 0 it is to be freed.
 */
int kv_railset_settle(struct kv_railset *s, const struct kv_wait *wait);
unsigned kv_railset_rails(const struct kv_railset *s);
/* Of the last 1: why, for people. */
const char *kv_railset_why(const struct kv_railset *s);

/*
 * Moves a batch. 0: all its bytes are in place. 1: NICs cannot, there are other
 * means. -EACCES: the peer's keys are not these any more. -EBUSY: some thread
 * waits for memory of the batch to be let go. Or as kv_tcp_move(). But for 0 no
 * memory is touched any more, as kv_railset_free() has it, which is to follow.
 */
int kv_railset_move(struct kv_railset *s, const struct kv_railbatch *b,
		    const struct kv_wait *wait);

/* A message to the peer, by a queue pair of its own. 0; 1: it must be TCP, and
 * nothing was sent; or as kv_railnote_send(): but for -EBUSY it is to be freed.
 */
int kv_railset_note(struct kv_railset *s, const struct kv_railnote_text *note,
		    const struct kv_wait *wait);

#endif

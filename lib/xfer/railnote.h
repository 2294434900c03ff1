#ifndef KV_XFER_RAILNOTE_H
#define KV_XFER_RAILNOTE_H

/*
 * Messages to another engine, by TCP or by a queue pair of their own: that is
 * dialled when the first one is to go, beside rails that are there.
 */

#include <netinet/in.h>

#include "xfer/lane.h"
#include "xfer/wait.h"

struct kv_rdma;
struct kv_rdmacall;
struct kv_rdmacall_dial;

struct kv_railnote_text {
	const char *name;
	const void *text;
	size_t text_len;
};

/* Asks the peer to take it, over a lane that is READY. 0; -ESTALE: the lane is
 * not; -EBUSY: the peer's queue is full; or as kv_lane_finish(). */
int kv_railnote_send(struct kv_lane *lane, const struct kv_railnote_text *note,
		     const struct kv_wait *wait);

struct kv_railnote {
	struct kv_rdmacall *call;
	struct kv_rdmacall_dial *dial;
	struct kv_lane lane;
	uint64_t from_ns; /* it failed, and is not dialled before */
};

struct kv_railnote_to {
	struct kv_rdma *rdma;
	struct kv_loop *loop;
	const struct kv_id *own, *boot;
	struct in6_addr near, far; /* of a rail */
	uint16_t port;
};

/* Connected to a zeroed one, or one that was lost. 0; 1: not by RDMA, for some
 * seconds; or as kv_wait_turn(). */
int kv_railnote_open(struct kv_railnote *n, const struct kv_railnote_to *to,
		     const struct kv_wait *wait);
void kv_railnote_close(struct kv_railnote *n);

#endif

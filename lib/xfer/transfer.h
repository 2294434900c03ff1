#ifndef KV_XFER_TRANSFER_H
#define KV_XFER_TRANSFER_H

/* One call that moves bytes, from its pieces to its end: finds the peer's
 * table, cuts it into batches, sends each its way, begins again where the
 * table or the peer has changed. */

#include <stddef.h>

#include "kvpool.h"
#include "xfer/wait.h"

struct kv_contact;
struct kv_op_crew;
struct kv_region_set;
struct kv_remote;

struct kv_transfer {
	struct kv_remote *remote;
	struct kv_region_set *own;  /* this engine's */
	struct kv_op_crew *helpers; /* copy along; NULL: none */
	unsigned threads;           /* that copy, at most */
	enum kv_engine_op op;
	const struct kv_xfer_item *items;
	size_t n;
	struct kv_wait wait;
};

/* 0, or -errno: -EINVAL (bad pieces, or outside of the peer's regions), -EIO
 * (not mapped, here or there), -EHOSTUNREACH, -ECONNRESET, -ETIMEDOUT,
 * -ESHUTDOWN, -EPROTO, -ENOMEM. Nothing touches the pieces afterwards. */
int kv_transfer_run(const struct kv_transfer *t);

/* Calls a function with the contact; once more, with a new one, if the peer
 * was another process already, or (when `again`) was lost meanwhile. */
typedef int kv_transfer_fn(void *arg, struct kv_contact *c);
int kv_transfer_with(struct kv_remote *r, const struct kv_wait *wait,
		     bool again, kv_transfer_fn *fn, void *arg);

#endif

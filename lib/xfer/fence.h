#ifndef KV_XFER_FENCE_H
#define KV_XFER_FENCE_H

/*
 * Nobody can stop another process that writes to memory which both can reach.
 * So each process that reaches an engine's memory by itself (a guest) shares a
 * page with it, in which it says when it is at it. A range goes away in two
 * steps: the engine raises the epoch, after which the guest's next transfer
 * must ask for the table of regions anew; then it waits until the transfers
 * that began before are over. Those count on the side of their epoch, so that
 * the ones that come after, on the other side, do not prolong the wait.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#define KV_FENCE_BYTES 4096

/* Zero pages are a fence of epoch 0. Lives in shared memory: the other process
 * may write anything here at any time. */
struct kv_fence {
	_Atomic uint64_t epoch;    /* the engine's */
	_Atomic uint32_t users[2]; /* the guest's: transfers under way */
	_Atomic uint32_t left;     /* the guest's last word */
};

/*
 * The guest, around each system call or copy that touches the engine's memory,
 * by a table of regions of that epoch: the side, to be given to leave, or
 * -EAGAIN, hands off: the table may be wrong.
 *
 * Sequentially consistent: either the engine sees the user, or the user sees
 * the new epoch.
 */
static inline int
kv_fence_enter(struct kv_fence *f, uint64_t epoch)
{
	int side = (int)(epoch & 1);

	atomic_fetch_add(&f->users[side], 1);
	if (atomic_load(&f->epoch) == epoch)
		return side;
	atomic_fetch_sub(&f->users[side], 1);
	return -EAGAIN;
}

static inline void
kv_fence_leave(struct kv_fence *f, int side)
{
	atomic_fetch_sub(&f->users[side], 1);
}

#endif

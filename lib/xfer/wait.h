#ifndef KV_XFER_WAIT_H
#define KV_XFER_WAIT_H

/* How long a call may go on: until its deadline, or the end of its engine. */

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/num.h"
#include "event/loop.h"

/* A call that waits looks so often whether its engine is being closed. */
#define KV_WAIT_LOOK_NS (50 * KV_NS_PER_MS)

struct kv_wait {
	uint64_t deadline_ns;
	const atomic_bool *closing;
};

/* 0, -ETIMEDOUT or -ESHUTDOWN. */
static inline int
kv_wait_check(const struct kv_wait *w)
{
	const struct kv_clock clock = { 0 };

	if (atomic_load_explicit(w->closing, memory_order_relaxed))
		return -ESHUTDOWN;
	return kv_clock_now(&clock) >= w->deadline_ns ? -ETIMEDOUT : 0;
}

/* One turn of a loop that the caller drives: 0, or as above. */
static inline int
kv_wait_turn(const struct kv_wait *w, struct kv_loop *loop)
{
	const struct kv_clock clock = { 0 };
	int rc = kv_wait_check(w);

	if (rc)
		return rc;
	rc = kv_loop_turn(loop,
			  kv_min_u64(w->deadline_ns,
				     kv_clock_now(&clock) + KV_WAIT_LOOK_NS));
	return rc < 0 ? rc : 0;
}

#endif

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
	/* For loops with a clock of their own, which are turned until then by
	 * this; NULL: real time. */
	const struct kv_clock *clock;
	int (*turn)(struct kv_loop *loop, uint64_t until_ns);
};

static inline uint64_t
kv_wait_now(const struct kv_wait *w)
{
	const struct kv_clock real = { 0 };

	return kv_clock_now(w->clock ? w->clock : &real);
}

/* 0, -ETIMEDOUT or -ESHUTDOWN. */
static inline int
kv_wait_check(const struct kv_wait *w)
{
	if (atomic_load_explicit(w->closing, memory_order_relaxed))
		return -ESHUTDOWN;
	return kv_wait_now(w) >= w->deadline_ns ? -ETIMEDOUT : 0;
}

/* One turn of a loop that the caller drives: 0, or as above. */
static inline int
kv_wait_turn(const struct kv_wait *w, struct kv_loop *loop)
{
	int rc = kv_wait_check(w);
	uint64_t until;

	if (rc)
		return rc;
	until = kv_min_u64(w->deadline_ns, kv_wait_now(w) + KV_WAIT_LOOK_NS);
	rc = w->turn ? w->turn(loop, until) : kv_loop_turn(loop, until);
	return rc < 0 ? rc : 0;
}

#endif

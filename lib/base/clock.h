#ifndef KV_BASE_CLOCK_H
#define KV_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define KV_NS_PER_US 1000ull
#define KV_NS_PER_MS 1000000ull
#define KV_NS_PER_S  1000000000ull

/*
 * Where a core takes its time from. {0} is the machine's monotonic clock; a
 * virtual one stands still until its owner (one thread) writes ns.
 */
struct kv_clock {
	bool is_virtual;
	uint64_t ns;
};

/* Monotonic nanoseconds; comparable only within one clock. */
uint64_t kv_clock_now(const struct kv_clock *c);

/* Milliseconds since 1970, for people and other machines; may jump. */
uint64_t kv_clock_wall_ms(void);

#endif

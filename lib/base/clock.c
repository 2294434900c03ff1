#include "base/clock.h"

#include <time.h>

static uint64_t
read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * KV_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t
kv_clock_now(const struct kv_clock *c)
{
	return c->is_virtual ? c->ns : read_ns(CLOCK_MONOTONIC);
}

uint64_t
kv_clock_wall_ms(void)
{
	return read_ns(CLOCK_REALTIME) / KV_NS_PER_MS;
}

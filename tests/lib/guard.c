#include "guard.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "test.h"

enum {
	TICK_MS = 20,
	STALL_MS = 100, /* a tick so late: the process was not run */
	NEVER_MS = 15000,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct guard *guards; /* under the lock */
static _Atomic uint64_t stalled_ns;

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

unsigned
guard_slow(void)
{
	const char *s = getenv("KV_SLOW");
	long n = s ? strtol(s, NULL, 10) : 0;

	return n > 0 ? (unsigned)n : KV_TEST_SLOWER;
}

static void
look_at(struct guard *g, uint64_t now)
{
	uint64_t entered = g->entered_ns;
	uint64_t never = g->allowed_ns + guard_slow() * NEVER_MS * KV_NS_PER_MS;

	never += stalled_ns - g->stalled_ns;
	if (entered == 0 || now < entered + never)
		return;
	fprintf(stderr, "hang: %s has not returned for %llu ms\n", g->what,
		(unsigned long long)((now - entered) / KV_NS_PER_MS));
	_exit(DRIVER_HANG);
}

static void *
watch(void *arg)
{
	uint64_t now, last = now_ns();

	(void)arg;
	for (;;) {
		usleep(TICK_MS * 1000);
		now = now_ns();
		if (now - last > (TICK_MS + STALL_MS) * KV_NS_PER_MS)
			stalled_ns += now - last;
		last = now;
		KV_LOCKED(&lock)
			for (struct guard *g = guards; g; g = g->next)
				look_at(g, now);
	}
	return NULL;
}

void
guard_add(struct guard *g)
{
	static pthread_t thread;
	static int is_started;

	KV_LOCKED(&lock) {
		g->next = guards;
		guards = g;
		if (!is_started++)
			is_started =
				pthread_create(&thread, NULL, watch, NULL) == 0;
		assert(is_started);
	}
}

void
guard_enter(struct guard *g, const char *what, uint64_t timeout_ms)
{
	g->what = what;
	g->allowed_ns = (timeout_ms + guard_slow() * 1000ull) * KV_NS_PER_MS;
	g->stalled_ns = stalled_ns;
	g->entered_ns = now_ns();
}

uint64_t
guard_leave(struct guard *g, int *is_late)
{
	uint64_t took = now_ns() - g->entered_ns;

	g->entered_ns = 0;
	*is_late = took > g->allowed_ns + (stalled_ns - g->stalled_ns);
	if (*is_late)
		fprintf(stderr, "late: %s took %llu ms of %llu\n", g->what,
			(unsigned long long)(took / KV_NS_PER_MS),
			(unsigned long long)(g->allowed_ns / KV_NS_PER_MS));
	return took / KV_NS_PER_MS;
}

#include "xfer/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/num.h"
#include "mem/seg.h"
#include "xfer/fence.h"

#define WAIT_NS_MIN (20 * KV_NS_PER_US)
#define WAIT_NS_MAX (5 * KV_NS_PER_MS)

struct kv_guest {
	struct kv_list link;
	struct kv_seg *seg; /* begins with its fence */
	int pidfd;
	bool connected;
};

void
kv_guest_init(struct kv_guest_set *set)
{
	pthread_condattr_t attr;

	*set = (struct kv_guest_set){ 0 };
	pthread_mutex_init(&set->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&set->flipped, &attr);
	pthread_condattr_destroy(&attr);
	kv_list_init(&set->guests);
}

static struct kv_fence *
fence_of(const struct kv_guest *g)
{
	return (struct kv_fence *)(void *)g->seg->base;
}

static void
guest_free(struct kv_guest *g)
{
	kv_seg_close(g->seg);
	if (g->pidfd >= 0)
		close(g->pidfd);
	free(g);
}

/* Under the lock. */
static void
remove_guest(struct kv_guest_set *set, struct kv_guest *g)
{
	kv_list_del(&g->link);
	set->n--;
	guest_free(g);
}

void
kv_guest_fini(struct kv_guest_set *set)
{
	struct kv_guest *g, *tmp;

	KV_LIST_FOREACH_SAFE(g, tmp, &set->guests, link)
		remove_guest(set, g);
	pthread_cond_destroy(&set->flipped);
	pthread_mutex_destroy(&set->lock);
}

/* It cannot reach the memory any more. */
static bool
is_away(const struct kv_guest *g)
{
	struct pollfd p = { .fd = g->pidfd, .events = POLLIN };

	return atomic_load(&fence_of(g)->left) || poll(&p, 1, 0) == 1;
}

/* Under the lock. Whoever has a connection is still named by it. */
static void
sweep(struct kv_guest_set *set)
{
	struct kv_guest *g, *tmp;

	KV_LIST_FOREACH_SAFE(g, tmp, &set->guests, link)
		if (!g->connected && is_away(g))
			remove_guest(set, g);
}

static struct kv_guest *
guest_new(int pidfd)
{
	struct kv_seg_opts opts = { .bytes = KV_FENCE_BYTES };
	struct kv_guest *g = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*g));
	char text[256];
	int err = -ENOMEM;

	if (!g)
		goto fail;
	g->connected = true;
	g->pidfd = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
	err = g->pidfd < 0 ? -errno : 0;
	if (!err)
		err = kv_seg_open(&opts, &g->seg, text, sizeof(text));
	if (!err)
		err = kv_seg_populate(g->seg, 0, g->seg->bytes);
	if (!err)
		return g;
	guest_free(g);
fail:
	errno = -err;
	return NULL;
}

int
kv_guest_add(struct kv_guest_set *set, int pidfd, struct kv_guest **out,
	     int *fd)
{
	struct kv_guest *g = guest_new(pidfd);
	bool room = false;

	if (!g)
		return -errno;
	KV_LOCKED(&set->lock) {
		sweep(set);
		room = set->n < KV_ENGINE_GUESTS_MAX;
		if (room) {
			atomic_store(&fence_of(g)->epoch, set->epoch);
			kv_list_add_tail(&set->guests, &g->link);
			set->n++;
		}
	}
	if (!room) {
		guest_free(g);
		return -EBUSY;
	}
	*out = g;
	*fd = g->seg->fd;
	return 0;
}

void
kv_guest_let_go(struct kv_guest_set *set, struct kv_guest *g)
{
	KV_LOCKED(&set->lock) {
		g->connected = false;
		sweep(set);
	}
}

uint64_t
kv_guest_epoch(struct kv_guest_set *set)
{
	uint64_t epoch = 0;

	KV_LOCKED(&set->lock)
		epoch = set->epoch;
	return epoch;
}

/* ---- the flip ---- */

static bool
is_quiet(struct kv_guest_set *set, int side)
{
	struct kv_guest *g;
	bool quiet = true;

	KV_LOCKED(&set->lock)
		KV_LIST_FOREACH(g, &set->guests, link)
			if (atomic_load(&fence_of(g)->users[side]) &&
			    !is_away(g))
				quiet = false;
	return quiet;
}

static int
wait_quiet(struct kv_guest_set *set, int side, uint64_t deadline_ns)
{
	const struct kv_clock clock = { 0 };
	uint64_t pause = WAIT_NS_MIN;

	while (!is_quiet(set, side)) {
		struct timespec ts = { .tv_nsec = (long)pause };

		if (kv_clock_now(&clock) >= deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&ts, NULL);
		pause = kv_min_u64(2 * pause, WAIT_NS_MAX);
	}
	return 0;
}

static uint64_t
raise_epoch(struct kv_guest_set *set)
{
	uint64_t before = 0;
	struct kv_guest *g;

	KV_LOCKED(&set->lock) {
		before = set->epoch++;
		KV_LIST_FOREACH(g, &set->guests, link)
			atomic_store(&fence_of(g)->epoch, set->epoch);
	}
	return before;
}

static int
begin_flip(struct kv_guest_set *set, uint64_t deadline_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline_ns / KV_NS_PER_S),
		.tv_nsec = (long)(deadline_ns % KV_NS_PER_S),
	};
	int rc = 0;

	KV_LOCKED(&set->lock) {
		while (set->flipping && rc == 0)
			rc = -pthread_cond_timedwait(&set->flipped, &set->lock,
						     &until);
		if (rc == 0)
			set->flipping = true;
	}
	return rc;
}

/*
 * The side that is about to be used must be empty: those who are left on it
 * from a flip that timed out would be taken for new ones.
 */
int
kv_guest_flip(struct kv_guest_set *set, uint64_t deadline_ns)
{
	int rc = begin_flip(set, deadline_ns);

	if (rc)
		return rc;
	rc = wait_quiet(set, (int)(~kv_guest_epoch(set) & 1), deadline_ns);
	if (!rc)
		rc = wait_quiet(set, (int)(raise_epoch(set) & 1), deadline_ns);
	KV_LOCKED(&set->lock) {
		set->flipping = false;
		pthread_cond_broadcast(&set->flipped);
	}
	return rc;
}

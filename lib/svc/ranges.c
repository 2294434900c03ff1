#include "svc/ranges.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/str.h"
#include "kvpool.h"
#include "mem/room.h"
#include "xfer/rdmaregion.h"

/* Memory that cannot be locked is not tried with every call. */
#define AGAIN_NS (10 * KV_NS_PER_S)

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

void
kv_ranges_init(struct kv_ranges *r, struct kv_rdma *rdma)
{
	memset(r, 0, sizeof(*r));
	r->rdma = rdma;
	kv_packring_init(&r->ring, rdma, KV_RDMAREGION_FAR_WRITES);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->unused, NULL);
}

static void
range_free(struct kv_range *x)
{
	kv_rdmaregion_free(x->region);
	free(x);
}

void
kv_ranges_fini(struct kv_ranges *r)
{
	while (r->n > 0)
		range_free(r->items[--r->n]);
	free(r->items);
	kv_packring_fini(&r->ring);
	pthread_cond_destroy(&r->unused);
	pthread_mutex_destroy(&r->lock);
}

/* How many end at or before that address. The lock is held. */
static size_t
below(const struct kv_ranges *r, uintptr_t at)
{
	size_t lo = 0, hi = r->n, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (r->items[mid]->at + r->items[mid]->len <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The first one that overlaps these bytes. The lock is held. */
static struct kv_range *
find(const struct kv_ranges *r, uintptr_t at, size_t len)
{
	size_t i = below(r, at);

	return i < r->n && r->items[i]->at < at + len ? r->items[i] : NULL;
}

/* The lock is held. */
static struct kv_range *
insert(struct kv_ranges *r, uintptr_t at, size_t len)
{
	struct kv_range **more, *x;
	size_t i = below(r, at);

	x = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*x));
	more = x ? realloc(r->items, (r->n + 1) * sizeof(struct kv_range *))
		 : NULL;
	if (!more) {
		free(x);
		return NULL;
	}
	r->items = more;
	memmove(&more[i + 1], &more[i],
		(r->n++ - i) * sizeof(struct kv_range *));
	more[i] = x;
	*x = (struct kv_range){ .at = at, .len = len, .count = 1 };
	return x;
}

/* The lock is held. */
static void
take_out(struct kv_ranges *r, const struct kv_range *x)
{
	size_t i = below(r, x->at);

	memmove(&r->items[i], &r->items[i + 1],
		(--r->n - i) * sizeof(struct kv_range *));
}

/* NULL *fresh: it was there. The lock is held. */
static int
add(struct kv_ranges *r, uintptr_t at, size_t len, struct kv_range **fresh)
{
	struct kv_range *x;

	*fresh = NULL;
	while ((x = find(r, at, len)) && x->count == 0)
		pthread_cond_wait(&r->unused, &r->lock);
	if (x && (x->at != at || x->len != len))
		return -KV_EINVALID;
	if (x) {
		x->count++;
		return 0;
	}
	*fresh = insert(r, at, len);
	if (!*fresh)
		return -KV_ENOMEM;
	(*fresh)->users = 1;
	return 0;
}

int
kv_ranges_add(struct kv_ranges *r, void *data, size_t len)
{
	struct kv_rdmaregion *region = NULL;
	struct kv_range *x = NULL;
	int rc = 0;

	KV_LOCKED(&r->lock)
		rc = add(r, (uintptr_t)data, len, &x);
	if (!x)
		return rc;
	/* Pinning much memory takes long. */
	if (r->rdma) {
		region = kv_rdmaregion_new(r->rdma, data, len,
					   KV_RDMAREGION_FAR_WRITES);
		if (!region)
			kv_ranges_refused(r, len, errno);
	}
	KV_LOCKED(&r->lock)
		x->region = region;
	kv_ranges_unuse(r, x);
	return 0;
}

int
kv_ranges_del(struct kv_ranges *r, void *data)
{
	struct kv_range *x = NULL;
	int rc = -KV_EINVALID;

	KV_LOCKED(&r->lock) {
		x = find(r, (uintptr_t)data, 1);
		if (!x || x->at != (uintptr_t)data || x->count == 0) {
			x = NULL;
			break;
		}
		rc = 0;
		if (--x->count > 0) {
			x = NULL;
			break;
		}
		while (x->users > 0)
			pthread_cond_wait(&r->unused, &r->lock);
		take_out(r, x);
		pthread_cond_broadcast(&r->unused);
	}
	if (x)
		range_free(x);
	return rc;
}

struct kv_range *
kv_ranges_use(struct kv_ranges *r, const void *data, size_t len)
{
	struct kv_range *x = NULL;
	uintptr_t at = (uintptr_t)data;

	KV_LOCKED(&r->lock) {
		x = find(r, at, 1);
		if (x && (x->count == 0 || !x->region ||
			  len > x->len - (at - x->at)))
			x = NULL;
		if (x)
			x->users++;
	}
	return x;
}

void
kv_ranges_unuse(struct kv_ranges *r, struct kv_range *x)
{
	KV_LOCKED(&r->lock) {
		if (--x->users == 0)
			pthread_cond_broadcast(&r->unused);
	}
}

/* "What is wrong; what to do". */
static const char *
refusal(int error, char *buf, size_t n)
{
	uint64_t limit = error == ENOMEM ? kv_room_lockable("", 0) : UINT64_MAX;
	char size[16];

	if (limit == UINT64_MAX)
		return strerror(error);
	snprintf(buf, n,
		 "the limit of locked memory is %s; `ulimit -l unlimited` in "
		 "the shell that starts it, LimitMEMLOCK=infinity in its unit",
		 kv_str_size_format(size, sizeof(size), limit));
	return buf;
}

void
kv_ranges_refused(struct kv_ranges *r, size_t bytes, int error)
{
	uint64_t now = now_ns();
	char size[16], buf[256];
	const char *why = refusal(error, buf, sizeof(buf));

	KV_LOCKED(&r->lock) {
		if (error == ENOMEM)
			r->again_at = now + AGAIN_NS;
		kv_log_limited(&r->log, now, KV_LOG_WARN,
			       "RDMA: %s of memory cannot be registered: %s",
			       kv_str_size_format(size, sizeof(size), bytes),
			       why);
	}
}

bool
kv_ranges_is_full(struct kv_ranges *r)
{
	uint64_t at = 0;

	KV_LOCKED(&r->lock)
		at = r->again_at;
	return at != 0 && now_ns() < at;
}

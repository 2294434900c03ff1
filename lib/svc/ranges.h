#ifndef KV_SVC_RANGES_H
#define KV_SVC_RANGES_H

/*
 * Memory that the caller has registered, each range as often as it likes, and
 * what NICs know of it. Calls under way keep what they use. Any thread.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "xfer/packring.h"

struct kv_rdma;
struct kv_rdmamem;
struct kv_rdmaregion;

struct kv_range {
	uintptr_t at;
	size_t len;
	unsigned count; /* times that it was registered; 0: it goes */
	unsigned users; /* its registering with NICs, and calls under way */
	struct kv_rdmaregion *region; /* NULL: NICs do not know it */
};

struct kv_ranges {
	struct kv_rdma *rdma; /* NULL: there are no NICs */
	pthread_mutex_t lock;
	pthread_cond_t unused;   /* some range has no users any more */
	struct kv_range **items; /* by address */
	size_t n;
	uint64_t again_at; /* NICs take no more memory until then */
	struct kv_log_limit log;
	struct kv_packring ring; /* for what is not worth to be registered */
};

void kv_ranges_init(struct kv_ranges *r, struct kv_rdma *rdma);
/* Forgets all; no call is under way. */
void kv_ranges_fini(struct kv_ranges *r);

/* 0; -KV_EINVALID: it overlaps another one; -KV_ENOMEM. NICs that do not take
 * it are no failure: a line says so. */
int kv_ranges_add(struct kv_ranges *r, void *data, size_t len);
/* Undoes one add; after the last one nobody uses it when this returns, for
 * which calls under way are waited for. 0; -KV_EINVALID: none begins there. */
int kv_ranges_del(struct kv_ranges *r, void *data);

/* The range that NICs know in which these bytes lie, with one user more. */
struct kv_range *kv_ranges_use(struct kv_ranges *r, const void *data,
			       size_t len);
void kv_ranges_unuse(struct kv_ranges *r, struct kv_range *x);

/* Memory could not be registered (errno): says so, now and then. After a want
 * of memory nothing is to be registered for a while: is_full says so. */
void kv_ranges_refused(struct kv_ranges *r, size_t bytes, int error);
bool kv_ranges_is_full(struct kv_ranges *r);

#endif

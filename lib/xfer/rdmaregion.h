#ifndef KV_XFER_RDMAREGION_H
#define KV_XFER_RDMAREGION_H

/*
 * Memory that NICs may touch, registered with all open ports, as far as their
 * devices are alive: in chunks, as pages come to be there, by threads of its
 * own (a pool); or at once, by the caller (a buffer). Once for each device: its
 * ports share the keys, and pages that are locked once for each device are what
 * the limit of locked memory has to allow (kv_room_check_locked()).
 *
 * It may be of any kind that the process can write to: anonymous, shared,
 * memfd, hugetlbfs; a file of a file system that writes back to a disk is
 * refused by kernels since 6.5, and is not to be offered to older ones.
 *
 * Forks: since Linux 5.12 a child gets copies of registered pages that are
 * private, and the NIC's stay the parent's. On older kernels libibverbs keeps
 * the child from having them at all (rdmaverbs.c asks it to), so that there a
 * child must not even read a buffer, nor what shares a page with it. Shared
 * pages are the same for both. A child that neither execs nor exits keeps queue
 * pairs and registrations of a parent that has died alive.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xfer/rdma.h"
#include "xfer/rdmaplan.h"

enum kv_rdmaregion_use {
	KV_RDMAREGION_NEAR,       /* work of this process alone touches it */
	KV_RDMAREGION_FAR_READS,  /* others read it */
	KV_RDMAREGION_FAR_WRITES, /* and write to it */
};

struct kv_rdmaregion;

/*
 * Registers [addr, addr + bytes), whose pages are faulted in meanwhile. NULL,
 * errno: ENOMEM (mostly the limit of locked memory), EFAULT (not mapped, or not
 * writable), EINVAL. The memory stays mapped until it is given up. Any thread.
 */
struct kv_rdmaregion *kv_rdmaregion_new(struct kv_rdma *r, void *addr,
					size_t bytes,
					enum kv_rdmaregion_use use);
/* No work names it any more. A pool's threads are ended first, which takes as
 * long as the chunk that each is at; `done` is not called any more. Not from
 * within `done`. NULL is fine. */
void kv_rdmaregion_free(struct kv_rdmaregion *g);

struct kv_rdmaregion_pool_opts {
	void *pool;
	uint64_t bytes;
	uint64_t chunk_bytes; /* whole pages; 0: 1 GiB; tests take less */
	/* On a thread of the region, once: all of it is registered (0), or it
	 * will not be, and what was is given back: -errno, "what is wrong; what
	 * to do" in why (until the region is freed). */
	void (*done)(void *arg, int status, const char *why);
	void *arg;
};

/*
 * A pool, of which no page is there yet. Its chunks are registered in the
 * background, one after the other with each device and with all devices at a
 * time, for this process's own work (KV_RDMAREGION_NEAR). NULL with errno.
 */
struct kv_rdmaregion *
kv_rdmaregion_pool(struct kv_rdma *r, const struct kv_rdmaregion_pool_opts *o);
/* Pages up to there (from the start, ascending) are in memory, so that no
 * registering has to fault them in; `is_last`: no more will come, this is the
 * pool, and nothing is said after it. Any thread, one at a time. */
void kv_rdmaregion_ready(struct kv_rdmaregion *g, uint64_t end, bool is_last);
/* All of it is registered. Any thread. */
bool kv_rdmaregion_is_complete(const struct kv_rdmaregion *g);

/*
 * The ranges of [off, off + bytes) of it, as work of this process names them
 * (near), or as others do (far): up to `max` of them, and how many; 0: more
 * than `max`. At least a byte, and within the region, which is complete (all
 * asserted). Any thread.
 */
unsigned kv_rdmaregion_near(const struct kv_rdmaregion *g, uint64_t off,
			    uint64_t bytes, struct kv_rdmarange *out,
			    unsigned max);
/* So many of them are always enough for any `bytes` of it. */
unsigned kv_rdmaregion_near_max(const struct kv_rdmaregion *g, uint64_t bytes);
/* What others are told of a buffer (not of a pool). */
const struct kv_rdmamem *kv_rdmaregion_far(const struct kv_rdmaregion *g);

#endif

#ifndef KV_XFER_REGION_H
#define KV_XFER_REGION_H

/*
 * The memory that an engine lets its peers read and write, and their NICs,
 * where there are some. A transfer that this process makes holds the regions
 * that it touches, for a peer or for itself; one that goes away is first hidden
 * (dying), then waited for, then forgotten. All functions: any thread.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/proto.h"
#include "xfer/packring.h"

struct kv_rdma;
struct kv_rdmaregion;
struct kv_seg;

struct kv_region {
	char *base;
	uint64_t addr; /* the same */
	uint64_t len;
	uint64_t handle;
	struct kv_seg *seg; /* memory of our own that peers may map, or NULL */
	struct kv_rdmaregion *nic; /* as NICs know it, or NULL */
	/* Under the set's lock. */
	unsigned count; /* registrations of this very range */
	unsigned users; /* holds */
	bool dying;
	bool waiting; /* some thread is about to end it */
};

struct kv_region_set {
	pthread_mutex_t lock;
	pthread_cond_t idle;          /* users of some region became 0 */
	struct kv_region **by_addr;   /* all */
	struct kv_region **by_handle; /* those not dying, oldest first */
	size_t n_addr, n_handle, cap;
	uint64_t last_handle;
	struct kv_rdma *rdma;    /* NULL: none */
	bool told;               /* that NICs do not take a region */
	struct kv_packring ring; /* for memory that is in none; this side's
				  * work alone touches it */
};

void kv_region_init(struct kv_region_set *set, struct kv_rdma *rdma);
/* Frees all of them, and their memory where it is ours. Nothing is held. */
void kv_region_fini(struct kv_region_set *set);

/*
 * Registers a range, also with NICs; where they refuse, a line in the log says
 * so once. A repeat of the same one counts. The segment, if any, is the set's
 * from then on. -EINVAL: null, empty, overlaps another; -EBUSY: overlaps a
 * dying one; -ENOMEM, also above KV_ENGINE_REGIONS_MAX.
 */
int kv_region_add(struct kv_region_set *set, void *data, size_t len,
		  struct kv_seg *seg);

enum kv_region_end {
	KV_REGION_UNREGISTER, /* one registration fewer */
	KV_REGION_FREE,       /* memory of our own: all of them */
};

/*
 * Begins to end the region that starts at `data`. 1: it is registered still,
 * as often as before less one. 0: from now on nobody can hold it; *out is to
 * be waited for and passed to kv_region_end(). -EINVAL: no such region, or one
 * of the other kind; -EBUSY: another thread is at it.
 */
int kv_region_begin_end(struct kv_region_set *set, const void *data,
			enum kv_region_end how, struct kv_region **out);
/* Until nobody holds it: 0, or -ETIMEDOUT. Then no NIC touches it either. */
int kv_region_wait(struct kv_region_set *set, struct kv_region *r,
		   uint64_t deadline_ns);
/* Frees it and its memory; or, when it is not gone, leaves it dying, for
 * another kv_region_begin_end(). */
void kv_region_end(struct kv_region_set *set, struct kv_region *r, bool gone);

/* What one frame touches: each region as often as its pieces change to it. */
struct kv_region_hold {
	int n;
	struct kv_region *regions[KV_XFER_PIECES_MAX];
};

/*
 * Looks pieces up and holds their regions: iov gets their addresses, *bytes
 * their sum. 0, or -EINVAL for an unknown handle or bytes outside of its
 * region (nothing is held then). n <= KV_XFER_PIECES_MAX.
 */
int kv_region_hold(struct kv_region_set *set,
		   const struct kv_xfer_piece *pieces, int n, struct iovec *iov,
		   struct kv_region_hold *hold);
void kv_region_release(struct kv_region_set *set, struct kv_region_hold *hold);
bool kv_region_is_held(const struct kv_region_hold *hold,
		       const struct kv_region *r);

/*
 * Memory of this process that its own NICs are to touch: the region with addr
 * in it, held until kv_region_let_go(), and how many bytes from there on are in
 * it; or NULL, and how many at least are in none that NICs know.
 */
struct kv_region *kv_region_hold_near(struct kv_region_set *set, uint64_t addr,
				      uint64_t *bytes);
void kv_region_let_go(struct kv_region_set *set, struct kv_region *r);
/* Whoever ends it waits for its holders. */
bool kv_region_is_dying(struct kv_region_set *set, const struct kv_region *r);

/* How long a span of the ring may be, as kv_packring_begin(); 0: there is none.
 * A line in the log says once why. */
uint64_t kv_region_ring_begin(struct kv_region_set *set);

/*
 * The tail of REGIONS_R: writes the records, oldest first, as many as fit into
 * max bytes, and keys while there is room. Returns its length.
 */
size_t kv_region_list(struct kv_region_set *set, void *tail, size_t max,
		      uint32_t *count);
/* A descriptor of the memory of a region, for a peer, and how many bytes that
 * has. -EINVAL: unknown; -ENOTSUP: not ours to share; -errno. */
int kv_region_fd(struct kv_region_set *set, uint64_t handle, uint64_t *bytes);

#endif

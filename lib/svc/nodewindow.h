#ifndef KV_SVC_NODEWINDOW_H
#define KV_SVC_NODEWINDOW_H

/*
 * The two sides of a transfer by RDMA as rdmalink.h takes them: the memory of a
 * requester, of which its PUT or GET names pieces of windows, and values in the
 * pool.
 */

#include "mem/extent.h"
#include "wire/map.h"
#include "xfer/rdmaregion.h"

/* As many keys as what is held of windows and pieces is like, in bytes. */
static inline unsigned
kv_nodewindow_weight(size_t windows, size_t pieces)
{
	return (unsigned)((4 * windows + pieces) / 16);
}

/* Fills in one for each window. */
void kv_nodewindow_mems(const struct kv_map_windows *w,
			struct kv_rdmamem *mems);

/* The first `bytes` of these pieces, which are no fewer, in `mems`; at most as
 * many ranges as there are pieces. Returns how many. */
unsigned kv_nodewindow_far(const struct kv_rdmamem *mems,
			   const struct kv_piece *pieces, uint64_t bytes,
			   struct kv_rdmarange *out);

/* A value, or a part of one. */
struct kv_nodewindow_value {
	const struct kv_extent *ext; /* of the pool; in order */
	unsigned n_ext;
	uint64_t skip; /* bytes of ext before the first one that counts */
	uint64_t bytes;
};

/* Its ranges in the pool's region, which is complete: how many; 0: more than
 * `max`. */
unsigned kv_nodewindow_near(const struct kv_rdmaregion *pool,
			    const struct kv_nodewindow_value *v,
			    struct kv_rdmarange *out, unsigned max);
/* So many are always enough. */
unsigned kv_nodewindow_near_max(const struct kv_rdmaregion *pool,
				const struct kv_nodewindow_value *v);

#endif

#ifndef KV_XFER_RAILBATCH_H
#define KV_XFER_RAILBATCH_H

/*
 * What comes next of a transfer, as NICs move it: ranges there, which the
 * peer's table has keys for, and ranges here, in regions of this engine, or
 * registered until they have been moved. What is too small for that, and what
 * cannot be registered, goes by TCP.
 */

#include <stdbool.h>
#include <stdint.h>

#include "xfer/rdmaplan.h"
#include "xfer/slice.h"

struct kv_rdmaregion;
struct kv_region;
struct kv_region_set;

/* Less memory is not worth to be registered for one call. */
#define KV_RAILBATCH_REGISTER_BYTES UINT64_C(262144)

enum {
	KV_RAILBATCH_BYTES_MAX = 256 << 20,
	KV_RAILBATCH_RANGES_MAX = 4096,
	KV_RAILBATCH_HOLDS_MAX = 64,
};

struct kv_railbatch {
	struct kv_region_set *own; /* with NICs */
	uint64_t bytes;
	uint64_t other; /* bytes 0: so many come next that go by TCP */
	unsigned n_near, n_far, n_holds, n_made;
	struct kv_rdmarange near[KV_RAILBATCH_RANGES_MAX];
	struct kv_rdmarange far[KV_RAILBATCH_RANGES_MAX];
	struct kv_region *holds[KV_RAILBATCH_HOLDS_MAX];
	struct kv_railbatch_made {
		uint64_t addr, len;
		struct kv_rdmaregion *nic;
	} made[KV_RAILBATCH_HOLDS_MAX];
};

/* An empty one. NULL with errno. */
struct kv_railbatch *kv_railbatch_new(struct kv_region_set *own);
void kv_railbatch_free(struct kv_railbatch *b); /* NULL is fine */

/*
 * Fills an empty batch with what comes next, and moves the cursor behind it. It
 * has no bytes when what comes next is not for NICs: then the cursor stays, and
 * `other` is 0 only if that is in memory that is mapped (KV_SLICE_SHM). left >
 * 0; else as kv_slice_look().
 */
void kv_railbatch_fill(struct kv_railbatch *b, const struct kv_regtable *table,
		       struct kv_slice_cursor *cursor);
/* No NIC touches its memory any more. Empties it. */
void kv_railbatch_release(struct kv_railbatch *b);

/* Some thread waits for memory of it. */
bool kv_railbatch_is_awaited(const struct kv_railbatch *b);

#endif

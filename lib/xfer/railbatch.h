#ifndef KV_XFER_RAILBATCH_H
#define KV_XFER_RAILBATCH_H

/*
 * What comes next of a transfer, as NICs move it: ranges there, which the
 * peer's table has keys for, and ranges here, in regions of this engine, or
 * registered until they have been moved. What is too small for that is packed
 * into the engine's ring (packring.h), and so are small pieces of regions that
 * belong to one row there, when they are more than a work request has room for.
 * What has no room in the ring, and what cannot be registered, goes by TCP.
 */

#include <stdbool.h>
#include <stdint.h>

#include "kvpool.h"
#include "xfer/packring.h"
#include "xfer/rdmaplan.h"
#include "xfer/slice.h"

struct kv_rdmaregion;
struct kv_region;
struct kv_region_set;

/* Less memory is not worth to be registered for one call. */
#define KV_RAILBATCH_REGISTER_BYTES ((uint64_t)KV_PACKRING_LARGE_BYTES)

enum {
	KV_RAILBATCH_BYTES_MAX = 256 << 20,
	KV_RAILBATCH_RANGES_MAX = 4096,
	KV_RAILBATCH_HOLDS_MAX = 64,
	KV_RAILBATCH_PACKED_MAX = 1024,
};

struct kv_railbatch {
	struct kv_region_set *own; /* with NICs */
	enum kv_engine_op op;
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

	/* What is packed: */
	struct kv_packring_span span;
	uint64_t used; /* bytes of it */
	bool no_ring;  /* it has no room, or there is none */
	unsigned n_packed;
	struct kv_railbatch_packed {
		char *local, *at; /* here, and in the span */
		uint64_t len;
	} packed[KV_RAILBATCH_PACKED_MAX];
	/* Of so many bytes that come next it is known whether they should be.
	 */
	uint64_t known;
	bool packs;
};

/* An empty one. NULL with errno. */
struct kv_railbatch *kv_railbatch_new(struct kv_region_set *own,
				      enum kv_engine_op op);
void kv_railbatch_free(struct kv_railbatch *b); /* NULL is fine */

/*
 * Fills an empty batch with what comes next, and moves the cursor behind it;
 * what is packed of a WRITE is copied. It has no bytes when what comes next is
 * not for NICs: then the cursor stays, and `other` is 0 only if that is in
 * memory that is mapped (KV_SLICE_SHM). left > 0; else as kv_slice_look().
 */
void kv_railbatch_fill(struct kv_railbatch *b, const struct kv_regtable *table,
		       struct kv_slice_cursor *cursor);
/* All its bytes are in place: those of a READ that were packed are brought to
 * where they belong. */
void kv_railbatch_unpack(const struct kv_railbatch *b);
/* No NIC touches its memory any more. Empties it. */
void kv_railbatch_release(struct kv_railbatch *b);

/* Some thread waits for memory of it. */
bool kv_railbatch_is_awaited(const struct kv_railbatch *b);

#endif

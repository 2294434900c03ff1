#ifndef KV_XFER_REGTABLE_H
#define KV_XFER_REGTABLE_H

/*
 * The regions of a peer as it told them at one time: never changed, counted,
 * so that transfers under way keep theirs when a newer one takes its place.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/msg.h"
#include "xfer/rdmaplan.h"

struct kv_regmap; /* a peer's memory in this process; counted */

struct kv_regtable_entry {
	uint64_t addr;
	uint64_t len;
	uint64_t handle;
	bool shared;                  /* the peer gives a descriptor of it */
	struct kv_regmap *map;        /* NULL: it is reached in another way */
	const struct kv_rdmamem *mem; /* NULL: no NIC reaches it */
};

struct kv_regtable {
	atomic_int refs;
	uint64_t epoch;
	uint64_t token_addr;
	struct kv_id token;
	uint64_t first; /* address of what was registered first; 0: nothing */
	unsigned ports; /* of the peer's, for RDMA; 0: it has none */
	struct kv_rdmamem *mems;
	size_t n;
	struct kv_regtable_entry entries[]; /* by address; none overlap */
};

/* From REGIONS_R; with one reference. NULL with errno: EPROTO, ENOMEM. */
struct kv_regtable *kv_regtable_parse(const struct kv_msg *msg);
struct kv_regtable *kv_regtable_ref(struct kv_regtable *t);
void kv_regtable_unref(struct kv_regtable *t); /* NULL is fine */

/* The entry with this address in it, or NULL. */
const struct kv_regtable_entry *kv_regtable_find(const struct kv_regtable *t,
						 uint64_t addr);
/* Every byte of the range is in one; len > 0. */
bool kv_regtable_covers(const struct kv_regtable *t, uint64_t addr,
			uint64_t len);

/* Maps the memory behind fd, of which the region is the beginning. Takes fd
 * over, also on failure: NULL with errno, logged. */
struct kv_regmap *kv_regtable_map(int fd, uint64_t bytes, uint64_t handle);

/* Gives entries the maps that the older table, if any, has for their
 * handles. */
void kv_regtable_inherit(struct kv_regtable *t, const struct kv_regtable *old);

/* Where byte `off` of a mapped region lies here; [off, off + len) is about to
 * be copied. */
void *kv_regtable_at(struct kv_regmap *map, uint64_t off, uint64_t len);

#endif

#ifndef KV_STORE_ADOPT_H
#define KV_STORE_ADOPT_H

/*
 * A node takes over what an earlier one left in a pool: the records of its
 * ledger become objects of the index, or are dropped. No I/O but by callbacks.
 *
 * An object is taken over when its record is whole, its value has a sum, its
 * bytes are in the file and in the pool, and no other record says that they are
 * its own. Whether they are what was put is checked later, against the sum:
 * until then it is KV_OBJ_UNCHECKED.
 *
 * All space that is no object's is in quarantine, see quarantine.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

struct kv_index;
struct kv_ledger;
struct kv_quarantine;
struct kv_slab;

struct kv_adopt_opts {
	/* The index and the slab are empty, nothing is announced. */
	struct kv_ledger *ledger;
	struct kv_index *index;
	struct kv_slab *slab;
	struct kv_quarantine *quarantine;
	uint64_t pool_bytes; /* whole granules */
	uint64_t now;
	bool is_void; /* whatever is there counts for nothing */
	/* From there on the pool's bytes are in the file up to where? */
	uint64_t (*data_end)(void *arg, uint64_t off);
	void *arg;
};

/* What became of it: objects, but for broken. */
struct kv_adopt_report {
	uint64_t keys; /* adopted */
	uint64_t bytes;
	uint64_t broken;   /* slots that were no part of any record */
	uint64_t unsummed; /* the node ended before it had their sum */
	uint64_t missing;  /* not in the pool, or not in the file any more */
	uint64_t doubtful; /* two records claim the same bytes, or key */
	uint64_t removed;  /* of an earlier epoch of their tenant */
};

/* 0; or -ENOMEM: then nothing of it may be used. */
KV_MUST_CHECK int kv_adopt(const struct kv_adopt_opts *o,
			   struct kv_adopt_report *report);

#endif

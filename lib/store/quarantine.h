#ifndef KV_STORE_QUARANTINE_H
#define KV_STORE_QUARANTINE_H

/*
 * Space of an adopted pool that must not be given out yet: gaps whose pages may
 * not be there, and what processes that attached to an earlier node may still
 * read or write. Objects among the latter are served; they are pinned.
 *
 * Used on the thread of its index. No I/O but by `is_attached`.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "mem/extent.h"
#include "store/record.h"

struct kv_index;
struct kv_ledger;
struct kv_object;
struct kv_slab;

struct kv_quarantine_opts {
	struct kv_slab *slab;
	struct kv_index *index;
	struct kv_ledger *ledger;
	/* Does anybody live who attached in one of these lives? */
	bool (*is_attached)(void *arg, uint32_t from, uint32_t to);
	void *arg;
};

struct kv_quarantine_space;

struct kv_quarantine {
	struct kv_quarantine_opts o;
	struct kv_extent *gaps; /* ascending */
	size_t n_gaps;
	size_t gap_next;    /* all before it are given free */
	uint64_t ready_end; /* pages below are there */
	struct kv_quarantine_space *held;
	size_t n_held;
	uint64_t held_bytes; /* of space that is no object's */
	bool holds_gaps;
};

void kv_quarantine_init(struct kv_quarantine *q,
			const struct kv_quarantine_opts *opts);
void kv_quarantine_fini(struct kv_quarantine *q);

/*
 * While a pool is adopted, with ascending offsets. Gaps and spaces are reserved
 * in the slab. 0 or -ENOMEM.
 */
KV_MUST_CHECK int kv_quarantine_gap(struct kv_quarantine *q, uint64_t off,
				    uint64_t len);
KV_MUST_CHECK int kv_quarantine_space(struct kv_quarantine *q,
				      struct kv_record_hold h, uint64_t off,
				      uint64_t len);
/* The same for space that is reserved already. */
KV_MUST_CHECK int kv_quarantine_taken(struct kv_quarantine *q,
				      struct kv_record_hold h, uint64_t off,
				      uint64_t len);
/* The RESERVED record of such space; it is released with it. */
KV_MUST_CHECK int kv_quarantine_record(struct kv_quarantine *q,
				       struct kv_record_hold h, uint32_t slot);
/* Pins it. */
KV_MUST_CHECK int kv_quarantine_object(struct kv_quarantine *q,
				       struct kv_object *o,
				       struct kv_record_hold h, uint64_t now);
/* Records were lost: nobody knows what is held, so gaps are, too, as long as
 * anybody of an earlier life is attached. */
void kv_quarantine_hold_gaps(struct kv_quarantine *q);
/* The pool is adopted. */
void kv_quarantine_begin(struct kv_quarantine *q);

/* Whether anybody of the lives before this one, of them that hold this, is
 * attached. */
bool kv_quarantine_is_held(const struct kv_quarantine *q,
			   struct kv_record_hold h);

/* Pages up to there are in memory. */
void kv_quarantine_ready(struct kv_quarantine *q, uint64_t end);
/* Looks who has gone, and gives free what they held. False: nothing is held
 * any more. */
bool kv_quarantine_settle(struct kv_quarantine *q);

#endif

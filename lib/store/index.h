#ifndef KV_STORE_INDEX_H
#define KV_STORE_INDEX_H

/*
 * A node's own objects: key -> extents of the pool, pins, and the order of
 * leaving. No I/O, no clock (time comes in), one thread.
 *
 * An object is hidden after insert (readers do not find it) until shown.
 * Order of leaving: plain by recency; wanted (confirmed to somebody within the
 * exist grace) after all plain ones; soft-pinned after those; hard-pinned
 * never; pinned (being read) and hidden ones never. A mark that is over, and a
 * last unpin, put an object where the ones used last are. Eviction costs what
 * it frees: lists, no scans.
 *
 * A dropped object leaves the index at once; its extents come back when its
 * last pin goes.
 *
 * A tenant's objects may all be outdated, in no time: nothing finds or visits
 * them any more but what is made for them, and they are dropped bit by bit.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/htab.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/num.h"
#include "mem/extent.h"
#include "store/key.h"

struct kv_index;
struct kv_ledger;
struct kv_slab;
struct kv_tenants;

enum {
	KV_OBJ_HIDDEN = 1,
	KV_OBJ_SOFT_PIN = 2,
	KV_OBJ_HARD_PIN = 4,
	KV_OBJ_WANTED = 8,
	KV_OBJ_GONE = 16,      /* dropped, waits for its pins */
	KV_OBJ_UNCHECKED = 32, /* adopted: its bytes may be others by now */
	KV_OBJ_SHARED = 64,    /* read by another than who put it */
	KV_OBJ_ADOPTED = 128,  /* an earlier node had put it in the pool */
	KV_OBJ_DOUBTED = 256,  /* a master that was told of it late has yet to
				* say whether it stays */
};

/* Read by others, written by index.c only, but for KV_OBJ_SHARED and
 * KV_OBJ_DOUBTED. */
struct kv_object {
	struct kv_htab_node node; /* node.hash: hash.lo */
	struct kv_list order;     /* in one of the lists of leaving */
	uint64_t hash_hi;
	uint64_t id_random; /* version: kv_put_id */
	uint64_t size;
	uint64_t used_ns;   /* last get, mark or commit */
	uint64_t wanted_ns; /* last mark, while WANTED */
	union {
		struct kv_extent one;
		struct kv_extent *many; /* n_ext > 1 */
	} ext;
	uint32_t id_version;
	uint32_t pins;
	uint32_t slot;  /* its record in the ledger; 0: none */
	uint32_t epoch; /* of its tenant, when it came */
	uint16_t n_ext; /* 0: the empty value */
	uint16_t key_len;
	uint16_t tenant; /* its number in kv_index_tenants() */
	uint16_t putter; /* who put it, to tell from others; 0: not known */
	uint16_t flags;
	uint8_t busy; /* for the owner of the index: a use count of its own that
		       * keeps the struct allocated (kv_index_hold) */
	char key[];
};

struct kv_index_opts {
	struct kv_slab *slab;
	struct kv_ledger *ledger; /* NULL: the pool ends with its node */
	uint64_t grace_ns;        /* exist grace */
	/* An object left by eviction (not by drop): called before its memory
	 * goes; must not call the index. */
	void (*evicted)(void *arg, const struct kv_object *o);
	void *arg;
};

struct kv_index_stats {
	uint64_t keys; /* shown */
	uint64_t hidden;
	uint64_t bytes;       /* values, shown */
	uint64_t soft_pinned; /* keys */
	uint64_t hard_pinned;
	uint64_t pinned_bytes;   /* extents under at least one pin */
	uint64_t zombie_bytes;   /* dropped, still pinned */
	uint64_t reserved_bytes; /* for what is no object yet */
	uint64_t unchecked;      /* keys */
	uint64_t evicted_keys;   /* since the start */
	uint64_t evicted_bytes;
};

/* NULL: no memory. Slab and ledger stay the caller's and must outlive the
 * index. */
struct kv_index *kv_index_new(const struct kv_index_opts *opts);
/* Objects go, pinned and held ones too; the slab keeps their space, the ledger
 * their records. */
void kv_index_free(struct kv_index *ix);
/* What happens from here on is not for the ledger: the node ends. */
void kv_index_detach(struct kv_index *ix);

/* Of its objects. */
struct kv_tenants *kv_index_tenants(struct kv_index *ix);
/* The tenant's epoch is another one than when the object came. What is hidden
 * then has to be dropped by who would show it. */
bool kv_index_is_outdated(const struct kv_index *ix, const struct kv_object *o);
/* Whether adopted objects are neither found nor visited. */
void kv_index_withhold(struct kv_index *ix, bool is_withheld);
bool kv_index_is_withheld(const struct kv_index *ix);

/* The object, shown or hidden, or NULL. Does not touch recency. */
struct kv_object *kv_index_find(struct kv_index *ix, struct kv_hash h,
				unsigned tenant, const void *key, size_t len);
/* False: it holds nothing of that hash, of whatever state. */
bool kv_index_may_hold(const struct kv_index *ix, struct kv_hash h);
/* One of that key, shown, which is outdated or withheld; NULL: none. */
struct kv_object *kv_index_find_old(struct kv_index *ix, struct kv_hash h,
				    unsigned tenant, const void *key,
				    size_t len);
/* By hash alone (what masters and existence checks know). */
struct kv_object *kv_index_find_hash(struct kv_index *ix, struct kv_hash h);
/* For many keys, so that they wait for memory together, each some keys after
 * the one before: asks for what says where the object is; for the object (the
 * fields, and most of a key of usual length); for what a touch or a mark of it
 * changes beside it. */
void kv_index_prefetch(const struct kv_index *ix, struct kv_hash h);
/* Most likely the object; it is not to be touched, but asked for. */
struct kv_object *kv_index_guess(const struct kv_index *ix, struct kv_hash h);

static KV_INLINE void
kv_index_prefetch_object(const struct kv_index *ix, struct kv_hash h)
{
	const char *o = (const char *)kv_index_guess(ix, h);
	unsigned i;

	for (i = 0; o && i < 4; i++)
		__builtin_prefetch(o + i * 64);
}

static KV_INLINE void
kv_index_prefetch_order(const struct kv_index *ix, struct kv_hash h)
{
	const struct kv_object *o = kv_index_guess(ix, h);

	if (!o)
		return;
	__builtin_prefetch(o->order.next, 1);
	__builtin_prefetch(o->order.prev, 1);
}

/*
 * Space for `bytes`. may_evict: objects leave for it, in order. Number of
 * extents (0 for 0 bytes), or
 * -ENOSPC: free + evictable bytes are fewer, and nothing left for it; or no
 *   `max` extents hold so much, whatever leaves;
 * -EAGAIN: not so much is free (only without may_evict);
 * -ENOMEM.
 */
int kv_index_reserve(struct kv_index *ix, uint64_t bytes, bool may_evict,
		     uint64_t now, struct kv_extent *ext, unsigned max);
/* Gives reserved space back. */
void kv_index_unreserve(struct kv_index *ix, const struct kv_extent *ext,
			unsigned n);
/* One object leaves, the next in order; false: none may. */
bool kv_index_evict(struct kv_index *ix);

struct kv_index_new_object {
	struct kv_hash hash;
	unsigned tenant;
	const void *key;
	size_t key_len;
	uint64_t size;
	/* As reserved for this size. Copied; the space is the object's. */
	const struct kv_extent *ext;
	unsigned n_ext;
	uint64_t id_random;
	uint32_t id_version;
	uint32_t slot; /* RESERVED in the ledger, the object's from then on */
	uint16_t putter;
	uint8_t flags; /* KV_OBJ_SOFT_PIN, KV_OBJ_HARD_PIN */
};

/* Adds a hidden object. NULL: no memory (the space stays the caller's). An
 * older one of the same key must have been dropped. */
struct kv_object *kv_index_insert(struct kv_index *ix,
				  const struct kv_index_new_object *n,
				  uint64_t now);
void kv_index_show(struct kv_index *ix, struct kv_object *o, uint64_t now);
/* Adds one that is shown already, and unchecked: its slot is an OBJECT. */
struct kv_object *kv_index_adopt(struct kv_index *ix,
				 const struct kv_index_new_object *n,
				 uint64_t now);
/* Its bytes are what was put. */
void kv_index_checked(struct kv_index *ix, struct kv_object *o);
bool kv_index_has_unchecked(const struct kv_index *ix);
/* Out of the index at once, see above; evicted() is not called. The pointer is
 * dead unless pinned or held. */
void kv_index_drop(struct kv_index *ix, struct kv_object *o);

/* A reader comes and goes. pin touches recency. The last unpin of a dropped
 * object frees it, unless held. */
void kv_index_pin(struct kv_index *ix, struct kv_object *o, uint64_t now);
void kv_index_unpin(struct kv_index *ix, struct kv_object *o);
/* Was read, in one go. */
void kv_index_touch(struct kv_index *ix, struct kv_object *o, uint64_t now);
/* Marks as wanted for the grace, reads or not; soft-pinned ones are but
 * touched. Nothing for a hidden or dropped object. */
void kv_index_want(struct kv_index *ix, struct kv_object *o, uint64_t now);

/* Keeps the struct (not the space) allocated across a drop. At most 255. */
void kv_index_hold(struct kv_object *o);
void kv_index_unhold(struct kv_index *ix, struct kv_object *o);

/* o->n_ext of them; none any more once a dropped object's pins are gone. */
const struct kv_extent *kv_index_extents(const struct kv_object *o);

/* Bytes of the pool that the value takes. */
static inline uint64_t
kv_index_space(const struct kv_object *o)
{
	return kv_round_up_u64(o->size, KV_GRANULE_BYTES);
}

/* Idle time in ns of the object that would leave next; UINT64_MAX: none. */
uint64_t kv_index_victim_idle(const struct kv_index *ix, uint64_t now);

void kv_index_stats(const struct kv_index *ix, struct kv_index_stats *out);

/* Visits shown objects, about `count` a call, from a cursor (0: the start);
 * returns the next one, 0 at the end. Objects there all the time are visited
 * at least once. fn may drop the object it is given, and nothing else. */
typedef void kv_index_fn(void *arg, struct kv_object *o);
uint64_t kv_index_scan(struct kv_index *ix, uint64_t cursor, unsigned count,
		       kv_index_fn *fn, void *arg);
/* The same of objects that were shown, and are outdated. */
uint64_t kv_index_scan_outdated(struct kv_index *ix, uint64_t cursor,
				unsigned count, kv_index_fn *fn, void *arg);

#endif

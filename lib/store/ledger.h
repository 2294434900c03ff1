#ifndef KV_STORE_LEDGER_H
#define KV_STORE_LEDGER_H

/*
 * The index file of a pool at work: which slots are free, which records stand
 * for what, and whose values want a sum. All changes are stores to the file's
 * memory; no I/O but by `grow`, no clock, one thread.
 *
 * A record begins RESERVED, when the space is; it becomes an OBJECT when the
 * object is shown, RESERVED again when that is dropped while somebody reads it,
 * and FREE before its space may be used anew.
 */

#include <stdbool.h>
#include <stdint.h>

#include "store/poolhead.h"
#include "store/record.h"

struct kv_ledger;

#define KV_LEDGER_STEP_BYTES (1u << 20) /* the file grows by it */

struct kv_ledger_opts {
	/* The file: KV_POOLHEAD_BYTES, and whole steps as far as
	 * head.slots_end says. It stays where it is when it grows, and the
	 * caller's. */
	void *file;
	/* Written to the file at once. life: the one that begins. slots_end 0:
	 * the file is new. */
	struct kv_poolhead head;
	uint64_t bytes_max; /* whole steps */
	/* Makes the file `bytes` long, what is new filled with zeroes, so that
	 * touching it cannot fail. 0 or -errno. */
	int (*grow)(void *arg, uint64_t bytes);
	void *arg;
};

/* NULL with errno. What the file held before is for kv_ledger_keep() or
 * kv_ledger_clear() to decide, slot by slot, before the first record. */
struct kv_ledger *kv_ledger_new(const struct kv_ledger_opts *opts);
/* The file keeps what it has. NULL is fine. */
void kv_ledger_free(struct kv_ledger *l);

const struct kv_poolhead *kv_ledger_head(const struct kv_ledger *l);
void *kv_ledger_file(const struct kv_ledger *l);
uint64_t kv_ledger_seed(const struct kv_ledger *l);

/* ---- taking over what was found ---- */

/* A slot that stays as it is: of an object, whose sum is to be checked. */
void kv_ledger_keep(struct kv_ledger *l, uint32_t slot);
/* Whatever it is, it is free now. */
void kv_ledger_clear(struct kv_ledger *l, uint32_t slot);

/* ---- records ---- */

/* A RESERVED one; is_held: for a process that attached, which may use the space
 * whatever becomes of this one. -ENOSPC: the file cannot grow; -ENOMEM. */
KV_MUST_CHECK int kv_ledger_reserve(struct kv_ledger *l,
				    const struct kv_record *r, bool is_held,
				    uint32_t *slot);
/* RESERVED to OBJECT, which nobody holds; its value's sum is wanted. */
void kv_ledger_show(struct kv_ledger *l, uint32_t slot);
/* OBJECT to RESERVED. */
void kv_ledger_hide(struct kv_ledger *l, uint32_t slot);
/* To FREE. */
void kv_ledger_release(struct kv_ledger *l, uint32_t slot);

/* The first process of this life that may use its space has come (others may
 * hold it from earlier ones), the last has gone. */
void kv_ledger_hold(struct kv_ledger *l, uint32_t slot);
void kv_ledger_unhold(struct kv_ledger *l, uint32_t slot);
/* Those of earlier lives have gone, others have not. */
void kv_ledger_rehold(struct kv_ledger *l, uint32_t slot);

/* ---- sums ---- */

struct kv_ledger_taken {
	uint32_t slot;
	uint32_t stamp; /* the slot has not been released since */
};

/* Takes the next object that wants its sum, then, unless only_new, those whose
 * sum is to be checked. False: there is none. */
bool kv_ledger_take(struct kv_ledger *l, bool only_new,
		    struct kv_ledger_taken *out);
/* Is it still the same object? */
bool kv_ledger_is_current(const struct kv_ledger *l,
			  const struct kv_ledger_taken *t);
/* Sets the sum of an object that has none; else says whether it has this one.
 */
bool kv_ledger_sum(struct kv_ledger *l, uint32_t slot, uint64_t sum);
/* Objects that have none. */
uint64_t kv_ledger_unsummed(const struct kv_ledger *l);

/* A value's sum as it stands in a record: never 0. */
static inline uint64_t
kv_ledger_sum_of(uint64_t sum)
{
	return sum ? sum : 1;
}

#endif

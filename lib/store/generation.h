#ifndef KV_STORE_GENERATION_H
#define KV_STORE_GENERATION_H

/*
 * Generations of tenants: each removal of all that a tenant has begins a new
 * one, and what is of an earlier one counts no more, wherever it is. Everybody
 * keeps the highest that he heard of. No I/O.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/limits.h"
#include "store/poolhead.h"

struct kv_generation {
	uint64_t number; /* 0: none, nothing was removed yet */
	uint64_t random; /* tells two apart that were begun at once */
};

static inline bool
kv_generation_is_equal(struct kv_generation a, struct kv_generation b)
{
	return a.number == b.number && a.random == b.random;
}

/*
 * Which one holds where both are heard of: the higher one. Two that differ and
 * have the same number were begun apart from one another: what is of either may
 * be older than the other, so one above both holds. It is the same for all who
 * see the two, whichever they saw first.
 */
struct kv_generation kv_generation_merge(struct kv_generation a,
					 struct kv_generation b);

/*
 * One that begins after `known`: above it, and above whatever comes of merging
 * some of that number, which were begun at once. For whoever was told of one of
 * these begins again, and a master may come late to all the others.
 */
struct kv_generation kv_generation_next(struct kv_generation known,
					uint64_t random);

enum {
	KV_GENERATION_STEP = 1 << 16, /* their numbers are multiples of it */
	KV_GENERATIONS_MAX = KV_POOLHEAD_TENANTS_MAX, /* tenants */
};

struct kv_generations_ent {
	struct kv_generation g;
	uint8_t len; /* from 1 */
	char name[KV_TENANT_BYTES_MAX];
};

/* Zeroed: an empty table. */
struct kv_generations {
	struct kv_generations_ent *ents;
	unsigned count;
};

void kv_generation_fini(struct kv_generations *t);

/* Of a tenant; len 0: "default". */
struct kv_generation kv_generation_get(const struct kv_generations *t,
				       const char *name, size_t len);
/* It was heard of: 1, another one holds now (kv_generation_get() says which);
 * 0; -ENOSPC: too many tenants have one; -ENOMEM. */
KV_MUST_CHECK int kv_generation_learn(struct kv_generations *t,
				      const char *name, size_t len,
				      struct kv_generation g);

#endif

#ifndef KV_STORE_KEY_H
#define KV_STORE_KEY_H

/* Object keys: (tenant, bytes), and the 128-bit hash that stands for them on
 * the wire and in the directory. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct kv_hash {
	uint64_t lo;
	uint64_t hi;
};

/* Seed of a tenant's key space; len 0 is the tenant "default". */
uint64_t kv_key_seed(const void *tenant, size_t len);

/* XXH3-128 of the key, seeded with the tenant's seed. */
struct kv_hash kv_key_hash(uint64_t seed, const void *key, size_t len);

static inline bool
kv_key_hash_is_equal(struct kv_hash a, struct kv_hash b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

/* Wire form: lo, hi little-endian. */
struct kv_id kv_key_hash_build(struct kv_hash h);
struct kv_hash kv_key_hash_parse(struct kv_id id);

#endif

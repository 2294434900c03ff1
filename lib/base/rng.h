#ifndef KV_BASE_RNG_H
#define KV_BASE_RNG_H

#include "base/attr.h"

#include <stdint.h>

/*
 * Seeded generator (xoshiro256**) for tests, jitter and benchmarks: the same
 * numbers from the same seed everywhere. Not for secrets or identities; those
 * come from kv_rng_os().
 */
struct kv_rng {
	uint64_t s[4];
};

void kv_rng_seed(struct kv_rng *r, uint64_t seed);
uint64_t kv_rng_u64(struct kv_rng *r);

/* Uniform in [0, n), without bias; n > 0. */
uint64_t kv_rng_below(struct kv_rng *r, uint64_t n);
void kv_rng_bytes(struct kv_rng *r, void *p, size_t n);

/* Random bytes from the kernel. 0 or -errno. */
KV_MUST_CHECK int kv_rng_os(void *p, size_t n);

#endif

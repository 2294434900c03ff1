#ifndef KV_BASE_NUM_H
#define KV_BASE_NUM_H

#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Like the compiler's builtins: true means overflow, and *out then holds the
 * wrapped result, which nobody should use.
 */
KV_MUST_CHECK static inline bool
kv_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
	return __builtin_add_overflow(a, b, out);
}

KV_MUST_CHECK static inline bool
kv_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
	return __builtin_mul_overflow(a, b, out);
}

static inline bool
kv_is_pow2_u64(uint64_t x)
{
	return x != 0 && (x & (x - 1)) == 0;
}

/* Next multiple of pow2, a power of two. x <= UINT64_MAX - pow2 + 1. */
static inline uint64_t
kv_round_up_u64(uint64_t x, uint64_t pow2)
{
	assert(kv_is_pow2_u64(pow2));
	return (x + pow2 - 1) & ~(pow2 - 1);
}

static inline uint64_t
kv_round_down_u64(uint64_t x, uint64_t pow2)
{
	assert(kv_is_pow2_u64(pow2));
	return x & ~(pow2 - 1);
}

/* x / d rounded up; d > 0. */
static inline uint64_t
kv_div_up_u64(uint64_t x, uint64_t d)
{
	return x / d + (x % d != 0);
}

static inline uint64_t
kv_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t
kv_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline size_t
kv_min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t
kv_max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

#endif

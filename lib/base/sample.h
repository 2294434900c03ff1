#ifndef KV_BASE_SAMPLE_H
#define KV_BASE_SAMPLE_H

/*
 * Bytes that give away what was not moved: each eight of them depend on the
 * seed and on where they stand, so that memory which is stale, shifted or
 * another piece's is told from what should be there. The same on every machine.
 */

#include <stddef.h>
#include <stdint.h>

void kv_sample_fill(void *p, size_t n, uint64_t seed);

/* The first byte that differs; n: none does. */
size_t kv_sample_check(const void *p, size_t n, uint64_t seed);

#endif

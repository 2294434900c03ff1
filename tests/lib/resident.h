#ifndef KV_TESTS_LIB_RESIDENT_H
#define KV_TESTS_LIB_RESIDENT_H

#include <stdint.h>

/* Bytes of [base, base + bytes) in the page table of this process. */
uint64_t resident_bytes(const void *base, uint64_t bytes);

#endif

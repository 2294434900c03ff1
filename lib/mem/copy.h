#ifndef KV_MEM_COPY_H
#define KV_MEM_COPY_H

#include <stddef.h>

/*
 * memcpy() for what moves to and from pools: from KV_COPY_STREAM_BYTES on it
 * goes past the caches, which takes half the time and leaves them to others,
 * but the copy is not in them afterwards. Its stores are ordered before any
 * that follow.
 */
#define KV_COPY_STREAM_BYTES 65536

void kv_copy(void *dst, const void *src, size_t n);

#endif

#ifndef KV_SVC_VEC_H
#define KV_SVC_VEC_H

/* Values that lie in several pieces of a caller's memory. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "kvpool.h"

/* The key and the pieces can be used: lengths within bounds, no null. */
bool kv_vec_is_valid(const struct kv_key *key, const struct kv_buf *bufs,
		     size_t n);

/* Sum of the lengths; UINT64_MAX when it overflows. */
uint64_t kv_vec_bytes(const struct kv_buf *bufs, size_t n);

/* Pieces of the bytes [off, off + len), which must exist; -E2BIG when they are
 * more than max. */
int kv_vec_iov(const struct kv_buf *bufs, size_t n, uint64_t off, uint64_t len,
	       struct iovec *iov, int max);

/* len bytes, which must exist, from and to the pieces at off. */
void kv_vec_gather(void *dst, const struct kv_buf *bufs, size_t n, uint64_t off,
		   uint64_t len);
void kv_vec_scatter(const struct kv_buf *bufs, size_t n, uint64_t off,
		    const void *src, uint64_t len);

#endif

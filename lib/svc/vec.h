#ifndef KV_SVC_VEC_H
#define KV_SVC_VEC_H

/* Values that lie in several pieces of a caller's memory. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "kvpool.h"
#include "mem/copier.h"

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

/*
 * The same, later and together, so that several threads can share it: all is
 * copied when flush has returned, some of it before. Zeroed but for the copier
 * (NULL: the calling thread alone). Until then all memory that was named stays.
 */
struct kv_vec_batch {
	struct kv_copier *copier;
	size_t n;
	struct kv_copier_piece pieces[256];
};
void kv_vec_batch_gather(struct kv_vec_batch *b, void *dst,
			 const struct kv_buf *bufs, size_t n, uint64_t off,
			 uint64_t len);
void kv_vec_batch_scatter(struct kv_vec_batch *b, const struct kv_buf *bufs,
			  size_t n, uint64_t off, const void *src,
			  uint64_t len);
void kv_vec_batch_flush(struct kv_vec_batch *b);

#endif

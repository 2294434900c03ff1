#include "svc/vec.h"

#include <assert.h>
#include <errno.h>

#include "base/attr.h"
#include "base/num.h"
#include "mem/copy.h"
#include "net/conn.h"

bool
kv_vec_is_valid(const struct kv_key *key, const struct kv_buf *bufs, size_t n)
{
	size_t i;

	if (!key->data || key->len < KV_KEY_BYTES_MIN ||
	    key->len > KV_KEY_BYTES_MAX || n > KV_CONN_PIECES_MAX ||
	    (n > 0 && !bufs))
		return false;
	for (i = 0; i < n; i++)
		if (!bufs[i].data && bufs[i].len > 0)
			return false;
	return kv_vec_bytes(bufs, n) <= KV_OBJECT_BYTES_MAX;
}

uint64_t
kv_vec_bytes(const struct kv_buf *bufs, size_t n)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		if (kv_add_u64(sum, bufs[i].len, &sum))
			return UINT64_MAX;
	return sum;
}

/* The next stretch at *off of what begins at bufs[*i]; moves both on. */
static struct iovec
stretch(const struct kv_buf *bufs, size_t n, size_t *i, uint64_t *off,
	uint64_t len)
{
	struct iovec v;

	while (*off >= bufs[*i].len) {
		*off -= bufs[*i].len;
		(*i)++;
		assert(*i < n);
	}
	v.iov_base = (char *)bufs[*i].data + *off;
	v.iov_len = kv_min_u64(len, bufs[*i].len - *off);
	*off += v.iov_len;
	return v;
}

int
kv_vec_iov(const struct kv_buf *bufs, size_t n, uint64_t off, uint64_t len,
	   struct iovec *iov, int max)
{
	size_t i = 0;
	int k = 0;

	for (; len > 0; len -= iov[k++].iov_len) {
		if (k == max)
			return -E2BIG;
		iov[k] = stretch(bufs, n, &i, &off, len);
	}
	return k;
}

void
kv_vec_gather(void *dst, const struct kv_buf *bufs, size_t n, uint64_t off,
	      uint64_t len)
{
	char *p = dst;
	struct iovec v;
	size_t i = 0;

	for (; len > 0; len -= v.iov_len, p += v.iov_len) {
		v = stretch(bufs, n, &i, &off, len);
		kv_copy(p, v.iov_base, v.iov_len);
	}
}

void
kv_vec_scatter(const struct kv_buf *bufs, size_t n, uint64_t off,
	       const void *src, uint64_t len)
{
	const char *p = src;
	struct iovec v;
	size_t i = 0;

	for (; len > 0; len -= v.iov_len, p += v.iov_len) {
		v = stretch(bufs, n, &i, &off, len);
		kv_copy(v.iov_base, p, v.iov_len);
	}
}

static void
batch_add(struct kv_vec_batch *b, void *dst, const void *src, size_t len)
{
	if (b->n == KV_ARRAY_LEN(b->pieces))
		kv_vec_batch_flush(b);
	b->pieces[b->n++] = (struct kv_copier_piece){ dst, src, len };
}

void
kv_vec_batch_gather(struct kv_vec_batch *b, void *dst,
		    const struct kv_buf *bufs, size_t n, uint64_t off,
		    uint64_t len)
{
	char *p = dst;
	struct iovec v;
	size_t i = 0;

	for (; len > 0; len -= v.iov_len, p += v.iov_len) {
		v = stretch(bufs, n, &i, &off, len);
		batch_add(b, p, v.iov_base, v.iov_len);
	}
}

void
kv_vec_batch_scatter(struct kv_vec_batch *b, const struct kv_buf *bufs,
		     size_t n, uint64_t off, const void *src, uint64_t len)
{
	const char *p = src;
	struct iovec v;
	size_t i = 0;

	for (; len > 0; len -= v.iov_len, p += v.iov_len) {
		v = stretch(bufs, n, &i, &off, len);
		batch_add(b, v.iov_base, p, v.iov_len);
	}
}

void
kv_vec_batch_flush(struct kv_vec_batch *b)
{
	kv_copier_run(b->copier, b->pieces, b->n);
	b->n = 0;
}

#ifndef KV_BASE_BYTES_H
#define KV_BASE_BYTES_H

#include "base/attr.h"

#include <stdint.h>

/* A growing byte buffer. Zeroed storage is an initialised one. */
struct kv_bytes {
	uint8_t *data; /* NULL until the first reserve */
	size_t len;    /* bytes in use */
	size_t cap;
};

void kv_bytes_init(struct kv_bytes *b);
void kv_bytes_fini(struct kv_bytes *b);

/*
 * Room for n more bytes: a pointer to where they go, valid until the next
 * call. The caller writes up to n bytes there and adds them to b->len.
 * NULL with errno ENOMEM; the content is then as before.
 */
KV_MUST_CHECK void *kv_bytes_reserve(struct kv_bytes *b, size_t n);

/* 0 or -ENOMEM. p may be NULL when n is 0; it must not point into b. */
KV_MUST_CHECK int kv_bytes_append(struct kv_bytes *b, const void *p, size_t n);

/*
 * Appends text; a NUL that is not counted in len follows it.
 * 0, -ENOMEM, or -EINVAL for a bad format.
 */
KV_MUST_CHECK KV_PRINTF(2, 3) int kv_bytes_printf(struct kv_bytes *b,
						  const char *fmt, ...);

/* Empties the buffer, keeps the memory. */
void kv_bytes_reset(struct kv_bytes *b);

#endif

#include "base/bytes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/num.h"

enum {
	CAP_BYTES_MIN = 64
};

void
kv_bytes_init(struct kv_bytes *b)
{
	*b = (struct kv_bytes){ 0 };
}

void
kv_bytes_fini(struct kv_bytes *b)
{
	free(b->data);
	kv_bytes_init(b);
}

void *
kv_bytes_reserve(struct kv_bytes *b, size_t n)
{
	size_t need, cap;
	uint8_t *data;

	if (b->data && n <= b->cap - b->len)
		return b->data + b->len;
	if (__builtin_add_overflow(b->len, n, &need) || need > PTRDIFF_MAX ||
	    KV_FAULT_POINT()) {
		errno = ENOMEM;
		return NULL;
	}
	cap = kv_max_size(kv_max_size(need, b->cap + b->cap / 2),
			  CAP_BYTES_MIN);
	data = realloc(b->data, cap);
	if (!data)
		return NULL;
	b->data = data;
	b->cap = cap;
	return b->data + b->len;
}

int
kv_bytes_append(struct kv_bytes *b, const void *p, size_t n)
{
	void *to = kv_bytes_reserve(b, n);

	if (!to)
		return -errno;
	if (n > 0)
		memcpy(to, p, n);
	b->len += n;
	return 0;
}

int
kv_bytes_printf(struct kv_bytes *b, const char *fmt, ...)
{
	va_list ap;
	void *to;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	to = kv_bytes_reserve(b, (size_t)n + 1);
	if (!to)
		return -errno;
	va_start(ap, fmt);
	vsnprintf(to, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return 0;
}

void
kv_bytes_reset(struct kv_bytes *b)
{
	b->len = 0;
}

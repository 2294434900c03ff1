#ifndef KV_STORE_SUM_H
#define KV_STORE_SUM_H

/* XXH3-64 of a value, piece by piece. */

#include <stddef.h>
#include <stdint.h>

struct kv_sum;

struct kv_sum *kv_sum_new(void); /* NULL: no memory */
void kv_sum_free(struct kv_sum *s);
void kv_sum_reset(struct kv_sum *s);
void kv_sum_add(struct kv_sum *s, const void *p, size_t n);
uint64_t kv_sum_value(const struct kv_sum *s);

/* In one piece. */
uint64_t kv_sum_of(const void *p, size_t n);

#endif

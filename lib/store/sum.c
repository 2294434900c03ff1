#include "store/sum.h"

#include <xxhash.h>

/* The library's state has its own allocation for its alignment. */

struct kv_sum *
kv_sum_new(void)
{
	XXH3_state_t *x = XXH3_createState();

	if (x)
		XXH3_64bits_reset(x);
	return (struct kv_sum *)x;
}

void
kv_sum_free(struct kv_sum *s)
{
	XXH3_freeState((XXH3_state_t *)s);
}

void
kv_sum_reset(struct kv_sum *s)
{
	XXH3_64bits_reset((XXH3_state_t *)s);
}

void
kv_sum_add(struct kv_sum *s, const void *p, size_t n)
{
	XXH3_64bits_update((XXH3_state_t *)s, p, n);
}

uint64_t
kv_sum_value(const struct kv_sum *s)
{
	return XXH3_64bits_digest((const XXH3_state_t *)s);
}

uint64_t
kv_sum_of(const void *p, size_t n)
{
	return XXH3_64bits(p, n);
}

#include "cli/seen.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include <xxhash.h>

enum {
	CAP_MIN = 1024,
};

struct kv_seen_slot {
	uint64_t low; /* 0: free */
	uint64_t high;
};

/* The slot of that hash, or the free one where it belongs. */
static struct kv_seen_slot *
find(struct kv_seen_slot *slots, size_t cap, XXH128_hash_t h)
{
	size_t i = h.high64 & (cap - 1);

	while (slots[i].low &&
	       (slots[i].low != h.low64 || slots[i].high != h.high64))
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

static int
grow(struct kv_seen *s)
{
	size_t cap = s->cap ? 2 * s->cap : CAP_MIN;
	struct kv_seen_slot *slots = calloc(cap, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < s->cap; i++) {
		XXH128_hash_t h = { .low64 = s->slots[i].low,
				    .high64 = s->slots[i].high };

		if (h.low64)
			*find(slots, cap, h) = s->slots[i];
	}
	free(s->slots);
	s->slots = slots;
	s->cap = cap;
	return 0;
}

void
kv_seen_fini(struct kv_seen *s)
{
	free(s->slots);
	*s = (struct kv_seen){ 0 };
}

int
kv_seen_add(struct kv_seen *s, const void *p, size_t n)
{
	XXH128_hash_t h = XXH3_128bits(p, n);
	struct kv_seen_slot *slot;

	/* Linear probing wants a quarter of its slots free. */
	if (s->n >= s->cap / 4 * 3 && grow(s) < 0)
		return -ENOMEM;
	h.low64 |= 1;
	slot = find(s->slots, s->cap, h);
	if (slot->low)
		return 0;
	*slot = (struct kv_seen_slot){ .low = h.low64, .high = h.high64 };
	s->n++;
	return 1;
}

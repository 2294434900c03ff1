#ifndef KV_SVC_GENTABLE_H
#define KV_SVC_GENTABLE_H

/* Generations of tenants on the wire. */

#include <stddef.h>

#include "store/generation.h"
#include "wire/msg.h"

struct kv_conn;

static inline struct kv_generation
kv_gentable_parse(const struct kv_generation_le *le)
{
	return (struct kv_generation){ kv_get64(le->number),
				       kv_get64(le->random) };
}

static inline struct kv_generation_le
kv_gentable_build(struct kv_generation g)
{
	return (struct kv_generation_le){ kv_le64(g.number),
					  kv_le64(g.random) };
}

/* A table as entries with their tenants: how long they are, and these. */
size_t kv_gentable_bytes(const struct kv_generations *t);
void kv_gentable_write(const struct kv_generations *t, void *to);

/* Queues GENERATION with one entry. */
void kv_gentable_tell(struct kv_conn *c, const char *name, size_t len,
		      struct kv_generation g);

#endif

#ifndef KV_BASE_ID_H
#define KV_BASE_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* 128 bits as they lie on the wire: a random identity (a node, a master, a
 * requester), a host, or a key's hash. All zero: none. */
struct kv_id {
	uint8_t b[16];
};

static inline bool
kv_id_is_equal(struct kv_id a, struct kv_id b)
{
	return memcmp(a.b, b.b, sizeof(a.b)) == 0;
}

static inline bool
kv_id_is_zero(struct kv_id a)
{
	return kv_id_is_equal(a, (struct kv_id){ 0 });
}

#endif

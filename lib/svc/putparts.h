#ifndef KV_SVC_PUTPARTS_H
#define KV_SVC_PUTPARTS_H

#include <stdbool.h>

#include "wire/map.h"

/* What a PUT consists of, behind its body. */
struct kv_putparts {
	struct kv_map_windows windows; /* KV_MODE_RDMA; else none */
	const struct kv_put_ent *ents;
	const uint8_t *keys;
	const uint8_t *values;
	const struct kv_piece *pieces;
	struct {
		size_t keys;
		size_t own; /* of these: of keys that come without a value */
		size_t values;
		size_t pieces;
	} sum;
};

/* Checks the lengths of everything, and windows and pieces as a whole. False:
 * it is broken. */
bool kv_putparts_take(const struct kv_msg *msg, struct kv_putparts *p);

#endif

#ifndef KV_MEM_EXTENT_H
#define KV_MEM_EXTENT_H

#include <stdint.h>

/* A range of a node's pool, in bytes from its start. */
struct kv_extent {
	uint64_t off;
	uint64_t len;
};

#endif

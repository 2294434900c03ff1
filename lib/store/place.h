#ifndef KV_STORE_PLACE_H
#define KV_STORE_PLACE_H

/* Where a new object goes. Pure: what is known of the nodes comes in. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

struct kv_rng;

enum {
	/* In this time after it was first seen a node comes to its full share
	 * of what is placed by free bytes. */
	KV_PLACE_RAMP_MS = 10000,
};

struct kv_place_node {
	struct kv_id host; /* zero: not known, on a host of its own */
	uint64_t free_bytes;
	uint64_t victim_age_ms; /* idle time of what would leave next */
	uint32_t seen_ms;       /* since it was first seen; may be cut off at
				 * KV_PLACE_RAMP_MS */
	bool usable;            /* takes objects, and is reachable from here */
	bool local;
	bool preferred; /* by the caller, for this object */
};

struct kv_place {
	const struct kv_place_node *nodes;
	unsigned n;        /* at most KV_NODES_MAX */
	unsigned replicas; /* so many picks should be on different hosts */
	uint64_t size;
};

struct kv_place_pick {
	uint16_t node; /* its index */
	/* Another pick behind it has room: rather go on than evict. Never set
	 * in the last one, so that full nodes do not fail a put. */
	bool no_evict;
};

/*
 * Fills `out` with up to `max` different usable nodes, and returns how many:
 * the first `replicas` are where the object should go, those after them stand
 * in, in this order, for the ones that fail. The order:
 *
 * preferred nodes, those with room before others; the local one while it has
 * room; others that have room, the freer one of two random ones each time;
 * those without room, the one whose next victim is oldest first, the local one
 * on a tie.
 *
 * A replica's node is on another host than those before it if there is such a
 * node at all, with room or without.
 */
unsigned kv_place_choose(const struct kv_place *p, struct kv_rng *rng,
			 struct kv_place_pick *out, unsigned max);

#endif

#ifndef KV_WIRE_MAP_H
#define KV_WIRE_MAP_H

/* Records with strings behind them, as LOOKUP_R, NODES_R and QUERY_R carry
 * them. Reading checks every length; strings are not terminated. */

#include <stdbool.h>
#include <stddef.h>

#include "wire/msg.h"

struct kv_map_node {
	const struct kv_node_rec *rec;
	const char *addr; /* rec->addr_len bytes */
	const char *name; /* rec->name_len bytes */
};

/* The next node record; false when it is broken (the cut is then bad). */
bool kv_map_node_take(struct kv_cut *c, struct kv_map_node *out);

/* Bytes of a record with these strings. */
static inline size_t
kv_map_node_bytes(size_t addr_len, size_t name_len)
{
	return sizeof(struct kv_node_rec) + addr_len + name_len;
}

struct kv_map_query {
	const struct kv_query_rec *rec;
	const char *addr;
	const char *name;
};

bool kv_map_query_take(struct kv_cut *c, struct kv_map_query *out);

/* The next entry of a table of generations; false when it is broken (the cut is
 * then bad). A tenant's name is not too long. */
struct kv_map_generation {
	const struct kv_generation_ent *ent;
	const char *tenant;
};

bool kv_map_generation_take(struct kv_cut *c, struct kv_map_generation *out);

/* LOOKUP_R without KV_LOOKUP_EXIST, checked as a whole. */
struct kv_map_lookup {
	unsigned count;
	unsigned nodes;
	const uint8_t *owners;       /* count: owners of each key */
	const struct kv_le16 *index; /* their nodes, in the order of the keys;
				      * each is below `nodes` */
	struct kv_cut records;       /* the node records, unread but checked */
};

/* 0 or -EPROTO. `count` is the number of keys that were asked. */
int kv_map_lookup_parse(const struct kv_msg *msg, unsigned count,
			struct kv_map_lookup *out);

/* GRANT_R, checked as a whole. */
struct kv_map_grants {
	const struct kv_grant_ent *ent; /* as many as the body says */
	const struct kv_extent_le *ext; /* theirs, in order */
};

int kv_map_grants_parse(const struct kv_msg *msg, struct kv_map_grants *out);

/* GET_R, checked as a whole. */
struct kv_map_values {
	const struct kv_get_ent_r *ent;
	const struct kv_extent_le *ext; /* theirs, in order */
	const char *bytes;              /* inline values, in order */
};

/* `count` is the number of keys that were asked. */
int kv_map_values_parse(const struct kv_msg *msg, size_t count,
			struct kv_map_values *out);

/* ---- PUT and GET of KV_MODE_RDMA ---- */

/* The windows of one, checked. */
struct kv_map_windows {
	unsigned count;
	unsigned ports;
	const uint8_t *records;
};

struct kv_map_window {
	uint64_t addr; /* addr + len does not overflow */
	uint64_t len;
	const struct kv_le32 *keys; /* ports */
};

/* False when they are broken (the cut is then bad). */
bool kv_map_windows_take(struct kv_cut *c, unsigned count, unsigned ports,
			 struct kv_map_windows *out);
/* The i-th one. */
struct kv_map_window kv_map_window_get(const struct kv_map_windows *w,
				       unsigned i);

/* The next `count` pieces, which lie in these windows and are `bytes` together.
 * NULL when they are broken (the cut is then bad). */
const struct kv_piece *kv_map_pieces_take(struct kv_cut *c,
					  const struct kv_map_windows *w,
					  unsigned count, uint64_t bytes);

#endif

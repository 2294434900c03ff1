#ifndef KV_SVC_PUTGROUP_H
#define KV_SVC_PUTGROUP_H

/* The part of a put that goes to one owner, a frame at a time. Shared by
 * putop.c (who gets what) and putgroup.c (how it gets there). */

#include "store/key.h"
#include "store/place.h"
#include "svc/group.h"
#include "svc/putop.h"

#define KV_PUTOP_PICKS_MAX 12

struct kv_putop_key {
	uint64_t size;
	struct kv_hash hash; /* set when the put has several keys */
	int status;          /* the last failure */
	bool is_final;
	bool is_unsure;    /* an owner may have it, and could not say so */
	uint8_t n_done;    /* owners that have it */
	uint8_t n_picks;   /* who may be asked, in order */
	uint8_t next_pick; /* first one not asked yet */
	uint16_t done[KV_REPLICAS_MAX];
	struct kv_place_pick picks[KV_PUTOP_PICKS_MAX];
};

struct kv_putop_cand {
	struct kv_id boot;
	struct kv_id host;
	uint64_t free_bytes;
	uint64_t victim_age_ms;
	bool is_local;
	bool is_preferred;
};

/* Item i goes to that owner with the next start. False: no memory. */
bool kv_putgroup_add(struct kv_putop *op, struct kv_link *to,
		     struct kv_place_pick pick, uint32_t i);
void kv_putgroup_start_all(struct kv_putop *op);
/* Ends all groups; nothing of them reads a value when it returns. */
void kv_putgroup_drop_all(struct kv_putop *op, int status);

/* What putop.c wants to hear: how one key went at one owner, and that a whole
 * group is over. */
void kv_putop_result(struct kv_putop *op, size_t i, unsigned cand, int status);
void kv_putop_group_ended(struct kv_putop *op);

#endif

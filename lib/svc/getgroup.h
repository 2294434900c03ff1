#ifndef KV_SVC_GETGROUP_H
#define KV_SVC_GETGROUP_H

/* The part of a get that one owner is asked for, a frame at a time. Shared by
 * getop.c (who is asked for what) and getgroup.c (how it comes). */

#include "svc/getop.h"
#include "svc/group.h"

enum kv_getop_state {
	KV_GETOP_WAITS, /* for an owner to be asked */
	KV_GETOP_ASKED,
	KV_GETOP_MOVED, /* none of its owners had it: who has it now? */
	KV_GETOP_DONE,
};

struct kv_getop_key {
	uint64_t room;   /* of its buffers */
	uint64_t got;    /* bytes that came by DATA */
	uint64_t want;   /* bytes that will; known from GET_R on */
	uint8_t state;   /* enum kv_getop_state */
	uint8_t tried;   /* bits of the survey's owners of this key */
	bool is_coming;  /* GET_R said DATA, or RDMA */
	bool is_busy;    /* asked again: the owner has too much pinned, */
	bool by_data;    /* or it cannot be had by RDMA */
	uint32_t survey; /* its number in survey.keys */
};

/* Item i is asked of that node with the next start. False: no memory. */
bool kv_getgroup_add(struct kv_getop *op, struct kv_link *to,
		     const struct kv_id *boot, uint32_t i);
void kv_getgroup_start_all(struct kv_getop *op);
/* Ends all groups; nothing of them reaches a buffer when it returns. */
void kv_getgroup_drop_all(struct kv_getop *op, int status);

/* What getop.c wants to hear: that a key has its result, what went wrong (only
 * what this process lacks matters), and that a whole group is over. */
void kv_getop_result(struct kv_getop *op, size_t i, int status);
void kv_getop_lacks(struct kv_getop *op, int status);
void kv_getop_group_ended(struct kv_getop *op);

#endif

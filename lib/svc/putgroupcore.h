#ifndef KV_SVC_PUTGROUPCORE_H
#define KV_SVC_PUTGROUPCORE_H

/* The inside of a group of a put: putgroup.c has its life, and the answer,
 * putgroup_frame.c the request, putgroup_fill.c what the owner grants. */

#include "base/attr.h"
#include "svc/putgroup.h"
#include "svc/windows.h"

struct kv_putgroup {
	struct kv_group base;
	struct kv_putop *op;
	struct kv_place_pick pick;
	struct kv_list sendings; /* putgroup_fill.c */
	struct kv_le64 *filled;  /* grants to tell, room for a frame's */
	uint32_t n_filled;
	uint64_t filled_bytes;
	unsigned n_old;    /* times that it was refused for its generation */
	size_t by_data_at; /* items from there on had failed by RDMA; 0: none */
	bool is_lost;      /* the frame is asked again by the timer */

	/* KV_MODE_RDMA, of the frame under way: */
	bool is_rdma;
	bool is_read; /* the owner may be reading the values */
	struct kv_windows windows;
};

static inline struct kv_putgroup *
kv_putgroup_of(struct kv_group *base)
{
	return KV_CONTAINER_OF(base, struct kv_putgroup, base);
}

/* putgroup.c */
void kv_putgroup_fail(struct kv_group *base, int status);
/* There was progress. */
void kv_putgroup_watch(struct kv_putgroup *g);
/* The fn of the frame's call. */
void kv_putgroup_answered(struct kv_call *call, int status,
			  const struct kv_msg *msg);

/* putgroup_frame.c */
void kv_putgroup_send(struct kv_group *base);
bool kv_putgroup_is_inline(const struct kv_putgroup *g, uint64_t size);

/* putgroup_fill.c: brings the values to where a GRANT_R says. 0, -kv_status. */
int kv_putgroup_fill(struct kv_putgroup *g, const struct kv_msg *msg);
/* Whether bytes are still in the data connection's queue, which are on their
 * own from now on. */
bool kv_putgroup_fill_leave(struct kv_putgroup *g);

#endif

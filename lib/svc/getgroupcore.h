#ifndef KV_SVC_GETGROUPCORE_H
#define KV_SVC_GETGROUPCORE_H

/* The inside of a group of a get: getgroup.c has its life, and bytes by DATA,
 * getgroup_frame.c the request, getgroup_answer.c the answer, getgroup_rdma.c
 * bytes by RDMA. */

#include "base/attr.h"
#include "svc/getgroup.h"
#include "svc/windows.h"
#include "xfer/rdmalink.h"

/* Some keys asked of one owner, a frame at a time. */
struct kv_getgroup {
	struct kv_group base; /* its timer: no progress, or a pause */
	struct kv_getop *op;
	struct kv_id boot;
	struct kv_link_rx rx;
	bool is_pausing;  /* it is asked again when the timer says so */
	bool was_lost;    /* once it was asked anew over another connection */
	uint64_t busy_ns; /* since then; 0: never */
	bool answered;    /* GET_R of this frame is here */
	uint32_t coming;  /* keys whose bytes are still on their way */

	/* KV_MODE_RDMA, of the frame under way: */
	bool is_rdma;
	struct kv_windows windows;
	struct kv_rdmaend end;
	bool has_ended; /* with end_status; perhaps before GET_R */
	int end_status;
};

static inline struct kv_getgroup *
kv_getgroup_of(struct kv_group *base)
{
	return KV_CONTAINER_OF(base, struct kv_getgroup, base);
}

/* getgroup.c */
void kv_getgroup_fail(struct kv_group *base, int status);
/* The frame's request was lost: it is asked again, soon. */
void kv_getgroup_again(struct kv_getgroup *g);
/* There was progress. */
void kv_getgroup_watch(struct kv_getgroup *g);
/* All keys of the frame have a result, or wait for something else. */
void kv_getgroup_frame_done(struct kv_getgroup *g);
/* Has all of the key's value come by DATA? */
void kv_getgroup_data_check(struct kv_getgroup *g, size_t at);
void kv_getgroup_data_expect(struct kv_getgroup *g);

/* getgroup_frame.c */
void kv_getgroup_send(struct kv_group *base);

/* getgroup_answer.c: the fn of the frame's call. */
void kv_getgroup_answered(struct kv_call *call, int status,
			  const struct kv_msg *msg);

/* getgroup_rdma.c. The frame under way is about to be sent. */
void kv_getgroup_rdma_await(struct kv_getgroup *g);
/* GET_R says what comes so. True: the frame is over. */
bool kv_getgroup_rdma_answered(struct kv_getgroup *g);
/* The frame is given up, and the link fences it at once: what the end says then
 * is of no use, even if all was written. */
void kv_getgroup_rdma_ignore(struct kv_getgroup *g);
/* Nothing is written for it, as GET_R has said. */
void kv_getgroup_rdma_forget(struct kv_getgroup *g);

#endif

#ifndef KV_SVC_GROUP_H
#define KV_SVC_GROUP_H

/*
 * Some items of a call that go to one node, a frame at a time: what the groups
 * of a put (putgroup.c) and of a get (getgroup.c) have in common.
 */

#include "base/list.h"
#include "event/loop.h"
#include "net/rpc.h"
#include "svc/link.h"

struct kv_group {
	struct kv_list link; /* the op's groups */
	struct kv_link *to;
	struct kv_call call;
	struct kv_link_wait wait;
	struct kv_timer timer;
	size_t n;   /* items in idx */
	size_t pos; /* first of the frame under way */
	size_t end; /* behind its last */
	size_t room;
	uint32_t *idx; /* numbers of items */
};

/* g is zeroed. It is one more of the op's groups. */
void kv_group_init(struct kv_group *g, struct kv_link *to,
		   struct kv_list *groups);
/* Cancels what it waits for, and takes it out. */
void kv_group_fini(struct kv_group *g);

/* False: no memory. */
bool kv_group_add(struct kv_group *g, uint32_t i);

/* The link is opened for the next frame: 1 it is, 0 wait.fn will be called,
 * or -kv_status. */
int kv_group_open(struct kv_group *g, uint64_t deadline);

/*
 * Calls next for each group. The last one's end may be the end of the op, which
 * is then gone: *starting tells the op that more are to come.
 */
void kv_group_start_all(struct kv_list *groups, bool *starting,
			void (*next)(struct kv_group *g));

#endif

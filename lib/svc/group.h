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

struct kv_group;

struct kv_group_ops {
	/* The link is up: sends the frame from pos on. */
	void (*send)(struct kv_group *g);
	/* The owner failed (-kv_status), and all items from pos on with it. */
	void (*fail)(struct kv_group *g, int status);
	/* No item is left. It and `fail` may end the op. */
	void (*end)(struct kv_group *g);
};

struct kv_group {
	const struct kv_group_ops *ops;
	struct kv_list link; /* the op's groups */
	struct kv_link *to;
	uint64_t deadline; /* the op's */
	struct kv_call call;
	struct kv_link_wait wait;
	struct kv_timer timer;
	struct kv_call ping;
	size_t n;   /* items in idx */
	size_t pos; /* first of the frame under way */
	size_t end; /* behind its last */
	size_t room;
	uint32_t *idx; /* numbers of items */
	bool is_fast;  /* the frame went by the link's fast end */
};

/* g is zeroed but for ops and deadline. It is one more of the op's groups. */
void kv_group_init(struct kv_group *g, struct kv_link *to,
		   struct kv_list *groups);
/* Cancels what it waits for, and takes it out. */
void kv_group_fini(struct kv_group *g);

/* The (first) group of this node, or NULL. */
struct kv_group *kv_group_find(struct kv_list *groups,
			       const struct kv_link *to);

/* False: no memory. */
bool kv_group_add(struct kv_group *g, uint32_t i);

/* Goes on with the items from pos on, by one of ops, now or later. */
void kv_group_next(struct kv_group *g);

/*
 * That for each group. The last one's end may be the end of the op, which is
 * then gone: *starting tells the op that more are to come.
 */
void kv_group_start_all(struct kv_list *groups, bool *starting);

/* Where the frame under way went. */
struct kv_link_end *kv_group_way(const struct kv_group *g);
/* Its call failed, and the frame can be asked again by ctl. */
bool kv_group_lost_fast(const struct kv_group *g, int status);

/* For an owner that works where nothing is seen of it, when it has been silent
 * for long: is it there, and the way that the frame went? It is asked, and if
 * it has not answered by the next call it is not. */
bool kv_group_is_there(struct kv_group *g);

/* Of a frame: what the call has left, and up to which size values ride in it
 * or in its answer. For the local node these are only those for which a second
 * message costs more than a copy. */
uint32_t kv_group_budget_ms(const struct kv_group *g);
uint32_t kv_group_inline_max(const struct kv_group *g);

#endif

#ifndef KV_XFER_CONTACT_H
#define KV_XFER_CONTACT_H

/*
 * One peer process as this engine reaches it: which paths its memory can be
 * had on, and a control connection. Counted; another process at the same
 * address is another contact.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "xfer/lane.h"
#include "xfer/railnote.h"
#include "xfer/slice.h"

#define KV_CONTACT_WHY_BYTES 200

struct kv_fence;
struct kv_rdma;
struct kv_regtable;
struct kv_seg;

struct kv_contact {
	atomic_int refs;
	struct kv_id own, boot;
	struct kv_loop *loop;
	struct kv_lane tcp, local; /* the second on the same host only */
	struct kv_lane *control;   /* one of them */
	/* The same host; else no seg, -1, 0. */
	struct kv_seg *fence_seg;
	int pidfd;
	pid_t pid;
	/* An enum kv_slice_path: to memory that is not mapped. ATTACH may go
	 * down to `second` at any time. */
	atomic_int path;
	enum kv_slice_path second; /* TCP; RDMA, if both sides have it */
	/* RDMA: not before this time; 0: at any. */
	_Atomic uint64_t rails_from_ns;
	atomic_uint rails; /* when it was used last; 0: it was not, or failed */
	atomic_bool notes; /* the last message went by RDMA, too */
	/* The next three by whoever has it to himself, or the owner's lock. */
	char why[KV_CONTACT_WHY_BYTES];       /* no better path */
	char rails_why[KV_CONTACT_WHY_BYTES]; /* no RDMA */
	struct kv_regtable *table;
};

struct kv_contact_opts {
	const char *addr;
	const struct kv_id *own; /* this engine */
	bool no_attach;
	struct kv_rdma *rdma; /* NULL: none, */
	const char *no_rdma;  /* and why; may be NULL */
};

/*
 * Connects, learns the regions, finds the best path. 0, or what
 * kv_lane_settle() and kv_wait_turn() give, -EPROTO, -ENOMEM.
 */
int kv_contact_open(const struct kv_contact_opts *opts,
		    const struct kv_wait *wait, struct kv_contact **out);
struct kv_contact *kv_contact_ref(struct kv_contact *c);
/* The last one tells the peer that its memory is let alone, and closes. */
void kv_contact_unref(struct kv_contact *c);

/* NULL: another host. */
struct kv_fence *kv_contact_fence(const struct kv_contact *c);

/* Same host: the process is there. Any thread. */
bool kv_contact_is_alive(const struct kv_contact *c);

/*
 * Requests, by one thread at a time. -ESTALE: the connection had ended before
 * anything was asked. -ECONNRESET: it ended meanwhile. Also -ETIMEDOUT,
 * -ESHUTDOWN, -EPROTO, -ENOMEM.
 */
/* A table as new as the call; memory that the peer shares is mapped, what the
 * old one has keeps its maps. */
int kv_contact_regions(struct kv_contact *c, const struct kv_regtable *old,
		       const struct kv_wait *wait, struct kv_regtable **out);
int kv_contact_ping(struct kv_contact *c, const struct kv_wait *wait);
/* Also -EBUSY: the peer's queue is full. */
int kv_contact_note(struct kv_contact *c, const struct kv_wait *wait,
		    const struct kv_railnote_text *note);

#endif

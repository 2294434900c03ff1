#ifndef KV_SVC_POOLREGION_H
#define KV_SVC_POOLREGION_H

/* A pool on its way to be known to the ports of this process: what is told to
 * xfer/rdmaregion.h, and what its thread has to say, which comes by mail. */

#include "event/mbox.h"
#include "xfer/rdmaregion.h"

struct kv_poolregion {
	struct kv_rdmaregion *region; /* NULL: none */
	struct kv_rdma *rdma;
	struct kv_mbox *mbox;
	void (*done)(struct kv_poolregion *r, bool is_complete);
	uint64_t bytes;
	uint64_t began_ns;
	bool is_last; /* it was told of all pages */

	struct kv_mail mail; /* from the region, with: */
	int status;
	const char *why;
};

/* Begins with memory of which no page is there. done runs on the mailbox's
 * loop, once, unless fini comes first; a line in the log says how it went. 0 or
 * -errno. */
int kv_poolregion_init(struct kv_poolregion *r, struct kv_rdma *rdma,
		       void *pool, uint64_t bytes, struct kv_mbox *mbox,
		       void (*done)(struct kv_poolregion *r, bool is_complete));
/* Nobody names the region any more. Before the mailbox ends. Harmless when it
 * was zeroed, or is over. */
void kv_poolregion_fini(struct kv_poolregion *r);

/* Pages up to there are in memory; is_last: no more will come. */
void kv_poolregion_ready(struct kv_poolregion *r, uint64_t end, bool is_last);

#endif

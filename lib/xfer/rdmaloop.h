#ifndef KV_XFER_RDMALOOP_H
#define KV_XFER_RDMALOOP_H

/*
 * What all RDMA connections of one loop share: a completion queue for each
 * port, the event channel of the connection manager, and where that listens.
 */

#include "event/loop.h"
#include "wire/protordma.h"
#include "xfer/rdma.h"

struct kv_rdmaloop;

/* With listens, others may dial: it listens at a free port of each port's first
 * IP address. Where there is none, and where that fails, with a line in the
 * log, others join (rdmajoin.h). NULL with errno. */
struct kv_rdmaloop *kv_rdmaloop_new(struct kv_rdma *r, struct kv_loop *loop,
				    bool listens);
/* Its links are gone. NULL is fine. */
void kv_rdmaloop_free(struct kv_rdmaloop *rl);

/* Its ports, as RAILS tells them: up to KV_RAILS_MAX, and how many. */
unsigned kv_rdmaloop_rails(const struct kv_rdmaloop *rl,
			   struct kv_rail_rec out[KV_RAILS_MAX]);

#endif

#ifndef KV_XFER_RDMAMR_H
#define KV_XFER_RDMAMR_H

/* Memory that is registered with all ports of the process: it stays where it
 * is, in memory, until it is given up. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xfer/rdmanic.h"
#include "xfer/rdmaplan.h"

struct kv_rdmamr {
	struct kv_rdmamem near; /* its local keys */
	struct kv_rdmamem far;  /* what the other side is told */
	struct ibv_mr *mrs[KV_RDMA_PORTS_MAX];
	const struct kv_rdmanic *const *ports;
	unsigned n;
};

enum kv_rdmamr_use {
	KV_RDMAMR_NEAR, /* work of this process alone reads and writes it */
	KV_RDMAMR_FAR_READS, /* others read it */
	KV_RDMAMR_FAR_WRITES /* and write to it */
};

/*
 * Registers it with n ports, which stay until it is given up. Pages are
 * faulted in, which takes its time. 0, or -errno: -ENOMEM (mostly the limit of
 * locked memory), -EFAULT (it is not mapped, or not writable), -EINVAL.
 */
int kv_rdmamr_register(struct kv_rdmamr *m,
		       const struct kv_rdmanic *const *ports, unsigned n,
		       void *addr, size_t len, enum kv_rdmamr_use use);
/* No work names it any more. */
void kv_rdmamr_give_up(struct kv_rdmamr *m);

#endif

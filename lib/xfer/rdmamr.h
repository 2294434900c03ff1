#ifndef KV_XFER_RDMAMR_H
#define KV_XFER_RDMAMR_H

/* Memory that is registered with ports of the process: it stays where it is, in
 * memory, until it is given up. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xfer/rdmanic.h"
#include "xfer/rdmaplan.h"
#include "xfer/rdmaregion.h"

struct kv_rdmamr {
	struct kv_rdmamem near; /* its local keys */
	struct kv_rdmamem far;  /* what the other side is told */
	const struct kv_rdmaverbs *v;
	void *addr;
	/* By number of the port; of ports that share a domain the first has
	 * it. */
	struct ibv_mr *mrs[KV_RDMA_PORTS_MAX];
};

/* Registered with no port. */
void kv_rdmamr_init(struct kv_rdmamr *m, const struct kv_rdmaverbs *v,
		    void *addr, size_t len);

/* Memory for it, to be freed by the caller, on pages of its own: where a child
 * of a fork has none of what is registered (rdmaverbs.c), it must not lack what
 * malloc() keeps for itself. NULL: out of memory. */
void *kv_rdmamr_pages(size_t bytes);

/* How many of n > 0 ports, from the first on, share its domain. */
unsigned kv_rdmamr_alike(const struct kv_rdmanic *const *ports, unsigned n);

/*
 * Registers it with n > 0 ports that share a domain, at once. Pages are faulted
 * in, which takes its time. 0, or -errno: -ENOMEM (mostly the limit of locked
 * memory), -EFAULT (it is not mapped, or not writable), -EINVAL. Any thread;
 * several at a time for different domains.
 */
KV_MUST_CHECK int kv_rdmamr_add(struct kv_rdmamr *m,
				const struct kv_rdmanic *const *ports,
				unsigned n, enum kv_rdmaregion_use use);

/* A device that refuses like this has failed, or was removed: others do without
 * it. rc: of kv_rdmamr_add(). */
bool kv_rdmamr_is_dead(int rc);
/* They have it no more: their keys are 0. */
void kv_rdmamr_leave(struct kv_rdmamr *m, const struct kv_rdmanic *const *ports,
		     unsigned n);

/* All three: with n ports, those that share a domain side by side. Those of
 * dead devices are left out, their keys are 0, unless there are no others.
 * After a failure with none. */
KV_MUST_CHECK int kv_rdmamr_register(struct kv_rdmamr *m,
				     const struct kv_rdmanic *const *ports,
				     unsigned n, void *addr, size_t len,
				     enum kv_rdmaregion_use use);

/* No work names it any more. Harmless when it is registered with none. */
void kv_rdmamr_give_up(struct kv_rdmamr *m);

#endif

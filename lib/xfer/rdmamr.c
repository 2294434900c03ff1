#include "xfer/rdmamr.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/fault.h"

/* Local write is asked for where nobody writes, too: else a kernel may pin a
 * page that a later write of the process replaces. So what is mapped for
 * reading only cannot be registered. */
static int
access_of(enum kv_rdmamr_use use)
{
	switch (use) {
	case KV_RDMAMR_NEAR:
		return IBV_ACCESS_LOCAL_WRITE;
	case KV_RDMAMR_FAR_READS:
		return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	case KV_RDMAMR_FAR_WRITES:
		return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_WRITE;
	}
	return 0;
}

/* Relaxed ordering where library and device know it: bytes of one work request
 * may then land in any order, which nobody looks at before its end came. */
static struct ibv_mr *
mr_make(const struct kv_rdmanic *p, void *addr, size_t len, int access)
{
	const struct kv_rdmaverbs *v = p->v;
	struct ibv_mr *mr = NULL;

	if (KV_FAULT_POINT()) {
		errno = ENOMEM;
		return NULL;
	}
	if (v->reg_mr_iova2)
		mr = v->reg_mr_iova2(p->pd, addr, len, (uintptr_t)addr,
				     (unsigned)access |
					     IBV_ACCESS_RELAXED_ORDERING);
	return mr ? mr : v->reg_mr(p->pd, addr, len, access);
}

int
kv_rdmamr_register(struct kv_rdmamr *m, const struct kv_rdmanic *const *ports,
		   unsigned n, void *addr, size_t len, enum kv_rdmamr_use use)
{
	unsigned at;
	int err;

	assert(n <= KV_RDMA_PORTS_MAX);
	memset(m, 0, sizeof(*m));
	m->ports = ports;
	m->near.addr = m->far.addr = (uintptr_t)addr;
	m->near.len = m->far.len = len;
	for (; m->n < n; m->n++) {
		struct ibv_mr *mr =
			mr_make(ports[m->n], addr, len, access_of(use));

		if (!mr) {
			err = errno;
			kv_rdmamr_give_up(m);
			return -err;
		}
		at = ports[m->n]->number;
		m->mrs[m->n] = mr;
		m->near.keys[at] = mr->lkey;
		m->far.keys[at] = mr->rkey;
	}
	return 0;
}

void
kv_rdmamr_give_up(struct kv_rdmamr *m)
{
	while (m->n > 0) {
		m->n--;
		m->ports[m->n]->v->dereg_mr(m->mrs[m->n]);
	}
}

#include "xfer/rdmamr.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"

/* Local write is asked for where nobody writes, too: else a kernel may pin a
 * page that a later write of the process replaces. So what is mapped for
 * reading only cannot be registered. */
static int
access_of(enum kv_rdmaregion_use use)
{
	switch (use) {
	case KV_RDMAREGION_NEAR:
		return IBV_ACCESS_LOCAL_WRITE;
	case KV_RDMAREGION_FAR_READS:
		return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	case KV_RDMAREGION_FAR_WRITES:
		return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_WRITE;
	}
	return 0;
}

/* Relaxed ordering where library and device know it: bytes of one work request
 * may then land in any order, which nobody looks at before its end came. */
static struct ibv_mr *
mr_make(const struct kv_rdmamr *m, const struct kv_rdmanic *p, int access)
{
	const struct kv_rdmaverbs *v = m->v;
	size_t len = m->near.len;
	struct ibv_mr *mr = NULL;

	if (KV_FAULT_POINT()) {
		errno = ENOMEM;
		return NULL;
	}
	if (v->reg_mr_iova2 && !p->is_ordered)
		mr = v->reg_mr_iova2(p->pd, m->addr, len, m->near.addr,
				     (unsigned)access |
					     IBV_ACCESS_RELAXED_ORDERING);
	return mr ? mr : v->reg_mr(p->pd, m->addr, len, access);
}

void
kv_rdmamr_init(struct kv_rdmamr *m, const struct kv_rdmaverbs *v, void *addr,
	       size_t len)
{
	*m = (struct kv_rdmamr){
		.near = { .addr = (uintptr_t)addr, .len = len },
		.far = { .addr = (uintptr_t)addr, .len = len },
		.v = v,
		.addr = addr,
	};
}

unsigned
kv_rdmamr_alike(const struct kv_rdmanic *const *ports, unsigned n)
{
	unsigned i = 1;

	while (i < n && ports[i]->pd == ports[0]->pd)
		i++;
	return i;
}

void *
kv_rdmamr_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return KV_FAULT_POINT()
		       ? NULL
		       : aligned_alloc(page, kv_round_up_u64(bytes, page));
}

int
kv_rdmamr_add(struct kv_rdmamr *m, const struct kv_rdmanic *const *ports,
	      unsigned n, enum kv_rdmaregion_use use)
{
	struct ibv_mr *mr = mr_make(m, ports[0], access_of(use));

	if (!mr)
		return -errno;
	m->mrs[ports[0]->number] = mr;
	for (unsigned i = 0; i < n; i++) {
		m->near.keys[ports[i]->number] = mr->lkey;
		m->far.keys[ports[i]->number] = mr->rkey;
	}
	return 0;
}

bool
kv_rdmamr_is_dead(int rc)
{
	return rc == -ENODEV || rc == -EIO;
}

void
kv_rdmamr_leave(struct kv_rdmamr *m, const struct kv_rdmanic *const *ports,
		unsigned n)
{
	struct ibv_mr *mr = kv_steal_ptr(&m->mrs[ports[0]->number]);

	if (mr)
		m->v->dereg_mr(mr);
	for (unsigned i = 0; i < n; i++)
		m->near.keys[ports[i]->number] = m->far.keys[ports[i]->number] =
			0;
}

int
kv_rdmamr_register(struct kv_rdmamr *m, const struct kv_rdmanic *const *ports,
		   unsigned n, void *addr, size_t len,
		   enum kv_rdmaregion_use use)
{
	unsigned at, alike, done = 0;
	int rc, dead = 0;

	assert(n > 0 && n <= KV_RDMA_PORTS_MAX);
	kv_rdmamr_init(m, ports[0]->v, addr, len);
	for (at = 0; at < n; at += alike) {
		alike = kv_rdmamr_alike(ports + at, n - at);
		rc = kv_rdmamr_add(m, ports + at, alike, use);
		if (rc == 0) {
			done++;
		} else if (kv_rdmamr_is_dead(rc)) {
			dead = rc;
		} else {
			kv_rdmamr_give_up(m);
			return rc;
		}
	}
	return done > 0 ? 0 : dead;
}

void
kv_rdmamr_give_up(struct kv_rdmamr *m)
{
	for (unsigned i = 0; i < KV_RDMA_PORTS_MAX; i++) {
		if (m->mrs[i])
			m->v->dereg_mr(m->mrs[i]);
		m->mrs[i] = NULL;
	}
}

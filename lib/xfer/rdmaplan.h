#ifndef KV_XFER_RDMAPLAN_H
#define KV_XFER_RDMAPLAN_H

/*
 * A transfer cut into slices, each one work request of a NIC: a range at the
 * peer, and some ranges here. What takes a slice says how large it may be, so
 * that nothing is decided before there is a rail for it. Pure: no device, no
 * clock, no memory of its own.
 */

#include <stddef.h>
#include <stdint.h>

enum {
	KV_RDMAPLAN_NEAR_MAX = 8, /* SGEs of a work request */
	KV_RDMA_PORTS_MAX = 16,   /* of a process */
};

/* As work requests name it: by the key for the port at whose side it lies. */
struct kv_rdmamem {
	uint64_t addr;
	uint64_t len;
	uint32_t keys[KV_RDMA_PORTS_MAX]; /* by number of the port there */
	/* This side's: bits of ports that are distant from it (rdmanuma.h). */
	uint16_t distant;
};

struct kv_rdmarange {
	uint64_t addr;
	uint64_t len; /* may be 0 */
	const struct kv_rdmamem *mem;
};

/* Where it has got to. Both lists have the same number of bytes, and stay as
 * they are until the end. */
struct kv_rdmaplan {
	const struct kv_rdmarange *near;
	const struct kv_rdmarange *far;
	uint64_t near_off; /* in the first one */
	uint64_t far_off;
	uint64_t left; /* bytes */
};

struct kv_rdmapart {
	struct kv_rdmarange far; /* len: of the whole part, > 0 */
	unsigned n_near;
	struct kv_rdmarange near[KV_RDMAPLAN_NEAR_MAX];
};

static inline void
kv_rdmaplan_init(struct kv_rdmaplan *p, const struct kv_rdmarange *near,
		 const struct kv_rdmarange *far, uint64_t bytes)
{
	*p = (struct kv_rdmaplan){ .near = near, .far = far, .left = bytes };
}

/* Of more than one range: neighbours in the same memory are joined, here and
 * there. */
void kv_rdmaplan_join(struct kv_rdmaplan *p, uint64_t bytes_max,
		      struct kv_rdmapart *out);

/* The next slice, of at most bytes_max > 0 bytes; p->left > 0. Most lie in one
 * range here, and in one there. */
static inline void
kv_rdmaplan_take(struct kv_rdmaplan *p, uint64_t bytes_max,
		 struct kv_rdmapart *out)
{
	const struct kv_rdmarange *near = p->near, *far = p->far;
	uint64_t n = p->left < bytes_max ? p->left : bytes_max;

	if (near->len - p->near_off < n || far->len - p->far_off < n) {
		kv_rdmaplan_join(p, n, out);
		return;
	}
	out->far = (struct kv_rdmarange){ far->addr + p->far_off, n, far->mem };
	out->near[0] =
		(struct kv_rdmarange){ near->addr + p->near_off, n, near->mem };
	out->n_near = 1;
	p->near_off += n;
	p->far_off += n;
	p->left -= n;
}

#endif

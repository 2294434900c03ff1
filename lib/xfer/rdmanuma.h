#ifndef KV_XFER_RDMANUMA_H
#define KV_XFER_RDMANUMA_H

/*
 * Which ports are distant from memory of this host: their devices are at
 * another NUMA node than the memory is, and another port's is nearer to that
 * node. All devices of one node are equally near to its memory, wherever they
 * are on the PCI bus: between the two is the root complex anyway. (It would be
 * otherwise for memory of a GPU, which is not registered.)
 */

#include <stddef.h>
#include <stdint.h>

enum {
	KV_RDMANUMA_NODES = 64, /* of others nothing is known */
};

struct kv_rdmanuma {
	/* By node: bits of ports. */
	uint16_t distant[KV_RDMANUMA_NODES];
	uint16_t any; /* 0: there is nothing to ask for */
};

/* For n ports, whose devices are at these nodes (-1: not known, and never
 * distant). root: prefix of /sys; NULL: nothing is known. */
void kv_rdmanuma_read(struct kv_rdmanuma *t, const char *root, const int *at,
		      unsigned n);

/* Bits of the ports that are distant from it, whose pages are there; 0 also
 * where it is at several nodes, or the kernel does not say. */
uint16_t kv_rdmanuma_distant(const struct kv_rdmanuma *t, const void *addr,
			     size_t len);

/* The node of memory, as the kernel says of some of its pages; -1: they are
 * at several, or it does not say. */
int kv_rdmanuma_node(const void *addr, size_t len);
/* The node that all of n > 0 pages are at; -1. Of move_pages(2), which has
 * -errno for a page that it knows nothing of. */
int kv_rdmanuma_common(const int *nodes, unsigned n);

#endif

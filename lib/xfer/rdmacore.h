#ifndef KV_XFER_RDMACORE_H
#define KV_XFER_RDMACORE_H

/* The open ports of a process, as rdma*.c alone see them. Constant while they
 * are open, but for what their devices say of themselves; any thread. */

#include "xfer/rdma.h"
#include "xfer/rdmanic.h"
#include "xfer/rdmanuma.h"
#include "xfer/rdmaplan.h"
#include "xfer/rdmawatch.h"

struct kv_rdma {
	const struct kv_rdmaverbs *v;
	const char *root; /* of /proc; NULL: the real one */
	/* As in struct kv_rdmadev_opts. */
	const char *sys_root;
	const struct ifaddrs *addrs;
	struct kv_mcenv env;
	unsigned n;
	/* All by number. Ports of one device share its context and domain. */
	struct kv_rdmanic nics[KV_RDMA_PORTS_MAX];
	const struct kv_rdmanic *ports[KV_RDMA_PORTS_MAX]; /* to them */
	struct kv_rdmadev devs[KV_RDMA_PORTS_MAX]; /* when they were opened */
	struct kv_rdmanuma numa;
	struct kv_rdmawatched watched;
};

/* An address of a port, 16 bytes, IPv4 as ::ffff:a.b.c.d, as sockets take it.
 */
void kv_rdma_sockaddr(const void *ip, uint16_t port,
		      struct sockaddr_storage *out);
/* The number of a port of a device; -1: it is none of the process's. */
int kv_rdma_number(const struct kv_rdma *r, const char *device, unsigned port);
/* The port once more, see kv_rdmadev_look(), and its `nic` accordingly. *dev is
 * what was known of it. By rdmawatch, with its lock. */
bool kv_rdma_look(struct kv_rdma *r, unsigned number, struct kv_rdmadev *dev);

#endif

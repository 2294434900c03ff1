#ifndef KV_XFER_RDMA_H
#define KV_XFER_RDMA_H

/*
 * What one process has of RDMA: the ports that it may use, opened, for all its
 * threads. Nothing of verbs is seen here, and where it was built without
 * (rdma_none.c), none can be opened.
 *
 *	rdma        the open ports
 *	rdmaregion  memory that all of them know
 *	rdmaloop    what the connections of one loop share
 *	rdmalink    all connections to one peer, and the transfers over them
 */

#include "base/attr.h"
#include "xfer/mcenv.h"
#include "xfer/rdmadev.h"

struct kv_rdma;

struct kv_rdma_opts {
	/* White list, see devglob.h; NULL or "": the environment's. */
	const char *wanted;
	const struct kv_mcenv *env; /* NULL: that of the process */
	/* As in struct kv_mcenv, whatever that says; 0: as it says. */
	unsigned qps;
	uint64_t slice_bytes;
	/* If no port is usable, one that may be later on will do. */
	bool waits;
	/* As in struct kv_rdmadev_opts: for tests. NULL: real ones, and no root
	 * where there are verbs. All of them while it is open; root: of /proc,
	 * too. */
	const char *root;
	const struct kv_rdmaverbs *verbs;
	const struct ifaddrs *addrs;
};

/*
 * Opens the ports that are wanted and usable, the first KV_RDMA_PORTS_MAX of
 * them, in the order of the list, and with them, as far as there is room, those
 * that only lack a link or a GID: they are down, and used when they are up, and
 * what is known of them is read anew then (rdmawatch.h). NULL, with errno and
 * "what is wrong; what to do" in err: ENODEV (there is none: err says why of
 * the most promising one), ENOTSUP (built without verbs, or libibverbs is not
 * to be had), ENOMEM, or what verbs say that cannot list devices. One that is
 * usable and cannot be opened is left out, and a name in the list that no
 * device has, too, each with a line in the log; so is a missing librdmacm,
 * without which queue pairs are joined (rdmajoin.h).
 *
 * What the devices say of themselves (a port went down, a device is gone) the
 * loops hear that have something of them: rdmaloop, rdmacall. Of a device that
 * has gone all can be given up as always.
 */
struct kv_rdma *kv_rdma_open(const struct kv_rdma_opts *o, char *err, size_t n);
/* All that was made of it is gone. NULL is fine. */
void kv_rdma_close(struct kv_rdma *r);

/* Its ports, by number, as they were when they were opened. Constant. */
unsigned kv_rdma_ports(const struct kv_rdma *r);
const struct kv_rdmadev *kv_rdma_port(const struct kv_rdma *r, unsigned number);

#endif

#ifndef KV_XFER_RDMADEV_H
#define KV_XFER_RDMADEV_H

/*
 * The RDMA devices of this machine and their ports: which of them kvpool can
 * use, and why not the others. For everybody: nothing of verbs is seen here,
 * and where it was built without (rdma_none.c), there is no list.
 */

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

#define KV_RDMADEV_NAME_BYTES 64
#define KV_RDMADEV_WHY_BYTES  256
#define KV_RDMADEV_IPS_MAX    8

struct ibv_context;
struct ifaddrs;
struct kv_rdmaverbs;

struct kv_rdmadev_limits {
	uint64_t mr_bytes_max; /* of one registration */
	int qp_wr_max;         /* work requests outstanding in a queue */
	int cqe_max;
	int sge_max;
	int rd_atom_max;      /* READs that a QP serves at a time, */
	int init_rd_atom_max; /* and has on their way */
};

/* A port; or a device of which no port is known, because it is not wanted or
 * could not be opened: port 0, and all that is a port's is 0, "" or -1. */
struct kv_rdmadev {
	char name[KV_RDMADEV_NAME_BYTES]; /* "mlx5_0" */
	char pci[16];                     /* "0000:3b:00.0", or "" */
	int numa_node;                    /* -1: none */
	bool is_soft;                     /* soft-RoCE */
	struct kv_rdmadev_limits limits;

	uint8_t port;      /* from 1 */
	const char *state; /* "active", "down", ...; static */
	const char *layer; /* "InfiniBand", "Ethernet"; static */
	bool is_ethernet;
	uint32_t mbit_per_s;
	uint32_t mtu_bytes;
	uint16_t lid;  /* InfiniBand; 0: none */
	int gid_index; /* the best of the port's; -1: none */
	/* RoCE: the best that is link-local, and reaches such only. */
	int local_gid_index;
	struct in6_addr gid;
	char netdev[IF_NAMESIZE];
	/* Of the port, in this network name space; IPv4 as ::ffff:a.b.c.d.
	 * None is link-local. And of each how many bits are its network's, out
	 * of 128: 120 of an IPv4 /24. */
	struct in6_addr ips[KV_RDMADEV_IPS_MAX];
	uint8_t ip_bits[KV_RDMADEV_IPS_MAX];
	unsigned n_ips;

	bool is_wanted; /* by the white list */
	bool is_usable;
	/* It is not, for want of a link or of a GID, and may be any time. */
	bool is_awaited;
	/* Why it is not usable, "what is wrong; what to do"; of one that is, in
	 * which way it is short of something, or "". */
	char why[KV_RDMADEV_WHY_BYTES];
};

struct kv_rdmadev_opts {
	const char *wanted; /* white list, see devglob.h */
	/* Prefix of /sys, "" but for tests; NULL: nothing is looked up there.
	 */
	const char *root;
	const struct kv_rdmaverbs *verbs; /* NULL: kv_rdmaverbs_load() */
	const struct ifaddrs *addrs;      /* NULL: getifaddrs() */
};

/*
 * All ports of all devices, by device, to be freed by the caller, and how many;
 * 0: this machine has no RDMA device. Those that are not wanted are in it, too.
 * Opens each device that is wanted, and closes it. -ENOTSUP: built without
 * verbs, or its libraries are not to be had; -ENOMEM; what verbs say: with
 * "what is wrong; what to do" in err.
 */
KV_MUST_CHECK long kv_rdmadev_list(const struct kv_rdmadev_opts *o,
				   struct kv_rdmadev **list, char *err,
				   size_t n);

/*
 * The port once more, of a device that is open. True: it is usable, and all
 * that is a port's is in *dev as it is by now. False: it is not, or cannot be
 * asked; *dev is as it was. Of `o` the list does not count. By rdma*.c alone.
 */
bool kv_rdmadev_look(const struct kv_rdmadev_opts *o, struct ibv_context *ctx,
		     struct kv_rdmadev *dev);

#endif

#ifndef KV_XFER_RDMASYS_H
#define KV_XFER_RDMASYS_H

/*
 * What sysfs says of RDMA devices and verbs does not. root: prefix of /sys, ""
 * but for tests; NULL: there is none, and nothing is known.
 */

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

#define KV_RDMASYS_NAME_BYTES 64

struct kv_rdmasys_name {
	char text[KV_RDMASYS_NAME_BYTES];
};

/* A port of a device. */
struct kv_rdmasys_port {
	const char *root;
	const char *device;
	unsigned port;  /* from 1 */
	unsigned ports; /* of the device */
};

/*
 * The devices that the kernel has, sorted, to be freed by the caller; how many
 * of them, or -ENOMEM.
 */
KV_MUST_CHECK long kv_rdmasys_list(const char *root,
				   struct kv_rdmasys_name **list);

/* "0000:3b:00.0"; "" where the device is on no PCI bus. */
void kv_rdmasys_pci(const char *root, const char *device, char *buf, size_t n);

/* -1: none, or not known. */
int kv_rdmasys_numa(const char *root, const char *device);
/* How far memory of that NUMA node is from each one below n, as the firmware
 * says, 10 from itself; 0: there is none, or it is not known. */
void kv_rdmasys_distances(const char *root, unsigned from, unsigned *to,
			  unsigned n);
/* It is soft-RoCE: a program of the kernel. */
bool kv_rdmasys_is_soft(const char *root, const char *device);

/* In Mbit/s, all lanes together; 0: not known. */
uint32_t kv_rdmasys_rate(const struct kv_rdmasys_port *p);

/* Whether the entry of the GID table is of RoCE v2. */
bool kv_rdmasys_is_v2(const struct kv_rdmasys_port *p, int gid_index);

/* The network interface that the entry belongs to; false: not known. */
bool kv_rdmasys_gid_netdev(const struct kv_rdmasys_port *p, int gid_index,
			   char name[IF_NAMESIZE]);

/* The network interfaces of the port: up to max of them, and how many. */
size_t kv_rdmasys_netdevs(const struct kv_rdmasys_port *p,
			  char (*names)[IF_NAMESIZE], size_t max);

#endif

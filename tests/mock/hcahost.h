#ifndef KV_MOCK_HCAHOST_H
#define KV_MOCK_HCAHOST_H

/*
 * A process on a host of two fake devices, mlx5_0 of two ports and mlx5_1 of
 * one, each with an address, for tests of what a process has of them all.
 */

#include <ifaddrs.h>

#include "hca.h"
#include "xfer/rdma.h"

enum {
	HCAHOST_DEVS = 2,
	HCAHOST_PORTS = 3,
};

extern struct kv_clock hcahost_clock;
extern struct hca *hcahost_hca;
extern struct hca_host *hcahost_host;
extern struct hca_dev *hcahost_devs[HCAHOST_DEVS];
extern struct hca_port *hcahost_ports[HCAHOST_PORTS];
/* As the fake has it, and the copy that is used: to be changed by tests. */
extern const struct kv_rdmaverbs *hcahost_real;
extern struct kv_rdmaverbs hcahost_v;
/* The addresses of this name space; a list that begins with the first one. */
extern struct ifaddrs hcahost_addrs[HCAHOST_PORTS];

/* Of a test. A fault point that is met within ends the process with code 3. */
void hcahost_open(void);
/* Whatever was not given back is found here. */
void hcahost_close(void);

/* An entry of a list of addresses, of static storage of the caller. */
void hcahost_addr(struct ifaddrs *a, struct sockaddr_in *sin, const char *ip,
		  struct ifaddrs *next);

#endif

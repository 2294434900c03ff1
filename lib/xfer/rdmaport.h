#ifndef KV_XFER_RDMAPORT_H
#define KV_XFER_RDMAPORT_H

/*
 * The numbers of verbs about a port as numbers and words of ours. No I/O. Seen
 * by rdma*.c alone.
 */

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * Mbit/s of a link: the rates of data, as sysfs and ibstat give them. 0: codes
 * that are not known here.
 */
uint32_t kv_rdmaport_speed(uint8_t speed, uint8_t width);

uint32_t kv_rdmaport_mtu(enum ibv_mtu mtu); /* bytes; 0: not known */
/* As verbs number them, 1 to 5: the largest that is not more; of 0, which is
 * not known, the largest of all. */
uint8_t kv_rdmaport_mtu_code(uint32_t bytes);

/* Static words: "active", "down"; "InfiniBand", "Ethernet". */
const char *kv_rdmaport_state(enum ibv_port_state state);
const char *kv_rdmaport_layer(uint8_t link_layer);

/* Why a port that is not active is not, and what to do; static. */
const char *kv_rdmaport_why_down(const struct ibv_port_attr *attr);

/* Why devices of that transport are not spoken to; NULL: they are. Static. */
const char *kv_rdmaport_why_not(enum ibv_transport_type transport);

/* Which of two entries of a RoCE port's GID table to prefer. */
struct kv_rdmaport_gid {
	union ibv_gid gid;
	bool is_v2;   /* RoCE v2, which goes over routers */
	bool is_here; /* an address of this network name space */
};

/* Larger is better; 0: an empty entry. */
unsigned kv_rdmaport_gid_rank(const struct kv_rdmaport_gid *g);

#endif

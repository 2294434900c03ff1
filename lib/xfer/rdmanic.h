#ifndef KV_XFER_RDMANIC_H
#define KV_XFER_RDMANIC_H

/* A port of a device that this process has opened. Constant while it is used,
 * but for what its link may change; any thread. */

#include <stdbool.h>

#include "xfer/rdmaverbs.h"

struct kv_rdmanic {
	const struct kv_rdmaverbs *v;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	unsigned number; /* among those of the process: which of a memory's keys
			  * is its own */
	uint8_t port;    /* of the device */
	/* READs at once on a queue pair: of its own, and of the other end's. */
	uint8_t initiates, responds;
	/* Of queue pairs that no connection manager connects. */
	uint8_t service_level, traffic_class;
	uint16_t pkey_index;
	_Atomic int gid_index; /* -1: there is none */
	/* Towards a link-local one; the same, if it was chosen by hand. */
	_Atomic int local_gid_index;
	_Atomic uint8_t mtu; /* of verbs, 1 to 5: no more is used of any */
	bool is_ordered;     /* no relaxed ordering */
	bool is_soft;        /* soft-RoCE: see rdmaqp.c */
};

#endif

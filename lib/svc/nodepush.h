#ifndef KV_SVC_NODEPUSH_H
#define KV_SVC_NODEPUSH_H

/*
 * The bytes of a GET on their way to another host: what was planned is handed
 * to the mover, and stays pinned until it has left. In frames each value goes
 * by itself; by RDMA all of them are one transfer.
 */

#include "svc/nodecore.h"
#include "wire/map.h"

/* What is to be done for one key. */
struct kv_nodeget_plan {
	struct kv_hash hash;
	const uint8_t *key;
	struct kv_object *object;
	uint64_t off;
	uint64_t bytes; /* to be delivered, from off on */
	uint64_t pin;
	const struct kv_piece *pieces; /* KV_MODE_RDMA: of its room, */
	uint32_t n_pieces;             /* as many as that has */
	uint16_t n_ext;                /* EXTENTS: how many */
	uint8_t status;
	uint8_t how;
};

struct kv_nodepush {
	struct kv_nodepeer *peer;
	const struct kv_msg *msg; /* the GET */
	unsigned n;               /* keys that are planned */
	unsigned pushes;          /* of them: to be sent, or written */
	unsigned weight;          /* of windows and pieces, see nodewindow.h */
	const struct kv_map_windows *windows; /* KV_MODE_RDMA */
};

/* Begins to send what is planned as KV_HOW_DATA, to write what is planned as
 * KV_HOW_RDMA. What fails is not sent, and its plan says why. */
void kv_nodepush_start(const struct kv_nodepush *push);

/* Its data connections are closed with it: what is under way ends. */
void kv_nodepush_peer_lost(struct kv_nodepeer *peer);

#endif

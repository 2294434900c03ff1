#ifndef KV_SVC_NODEPUSH_H
#define KV_SVC_NODEPUSH_H

/*
 * The bytes of a GET on their way to another host: what was planned is handed
 * to the mover, and stays pinned until it has left.
 */

#include "svc/nodecore.h"

/* What is to be done for one key. */
struct kv_nodeget_plan {
	struct kv_hash hash;
	const uint8_t *key;
	struct kv_object *object;
	uint64_t off;
	uint64_t bytes; /* to be delivered, from off on */
	uint64_t pin;
	uint16_t n_ext; /* EXTENTS: how many */
	uint8_t status;
	uint8_t how;
};

/*
 * Begins to send what is planned as KV_HOW_DATA of n keys: `pushes` of them.
 * What fails is not sent, and its plan says why.
 */
void kv_nodepush_start(struct kv_nodepeer *peer, const struct kv_msg *msg,
		       unsigned n, unsigned pushes);

/* Its data connections are closed with it: what is under way ends. */
void kv_nodepush_peer_lost(struct kv_nodepeer *peer);

#endif

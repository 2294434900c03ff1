#ifndef KV_BASE_STATUS_H
#define KV_BASE_STATUS_H

#include <stdint.h>

#include "kvpool.h" /* enum kv_status, kv_status_name, kv_status_text */

/*
 * Results as they go over the wire: small positive numbers from status.def.
 * Inside a process functions return -errno as everywhere; these functions
 * turn one into the other and into what other programs expect.
 */

/* What is broken, and so what to do; retry code looks at nothing else. */
enum kv_scope {
	KV_SCOPE_OP,   /* this operation: retry elsewhere */
	KV_SCOPE_CONN, /* the connection: reconnect */
	KV_SCOPE_PEER, /* the peer: drop its replicas */
	KV_SCOPE_SELF, /* this process: stop */
};

/*
 * All take any int, a number and its negative alike; one that is not in the
 * table answers as KV_EINTERNAL does, with its text "unknown status".
 */
int kv_status_errno(int status); /* positive; 0 for KV_OK */
int kv_status_exit(int status);
int kv_status_mooncake(int status); /* 0 or negative */
enum kv_scope kv_status_scope(int status);

/* err: an errno of either sign. What has no row of its own: KV_EINTERNAL. */
int kv_status_from_errno(int err);

/* A status that a peer sent, as this process's own: negative. Of a peer that
 * lacks something itself, KV_SCOPE_SELF, it is -KV_EBUSY here. */
int kv_status_of_peer(uint8_t status);

#endif

#ifndef KV_XFER_SAMEHOST_H
#define KV_XFER_SAMEHOST_H

/*
 * The Unix socket beside the port of an engine, in the abstract name space and
 * named by its boot id: who reaches it is in the same network name space, and
 * the kernel tells both ends who the other one is.
 */

#include <stddef.h>

#include "net/net.h"
#include "wire/proto.h"

#define KV_SAMEHOST_ADDR_BYTES 64

/* Its address, to listen on and to dial. */
void kv_samehost_addr(const struct kv_id *boot,
		      char addr[KV_SAMEHOST_ADDR_BYTES]);

/* Whether the process at the other end may share memory with this one: 0, or
 * -EACCES with the reason. */
int kv_samehost_check(const struct kv_peer *peer, char *why, size_t n);

#endif

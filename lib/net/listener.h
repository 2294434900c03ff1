#ifndef KV_NET_LISTENER_H
#define KV_NET_LISTENER_H

/*
 * Listening, on TCP or at a Unix socket. Out of descriptors it keeps what it
 * has, says so once, and does not spin: it accepts nothing for a moment, then
 * turns away who still waits, so that they try elsewhere, until there are
 * descriptors again. The file of a Unix socket that somebody removed is made
 * again within a second.
 */

#include "net/net.h"

/* As kv_net.listen and unlisten (net/net.h); group: of a Unix socket's file
 * (net/unixsock.h), -1 for none. */
struct kv_listener *kv_listener_new(struct kv_loop *loop, const char *addr,
				    gid_t group, kv_net_accept_fn *fn,
				    void *arg, int *err);

/* What it is bound to, as text; valid as long as it is. */
const char *kv_listener_bound(const struct kv_listener *l);

void kv_listener_free(struct kv_listener *l);

#endif

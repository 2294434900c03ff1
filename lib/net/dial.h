#ifndef KV_NET_DIAL_H
#define KV_NET_DIAL_H

/*
 * Connecting: the look-up of the name, then each of its addresses in turn with
 * an equal share of the time that is left. A Unix socket whose backlog is full
 * is tried until the deadline.
 */

#include "net/net.h"

/* As kv_net.connect and cancel (net/net.h). Status -ENXIO: nobody has this
 * name; -ENONET: no name server said so or otherwise before the deadline;
 * -ECONNREFUSED: nobody listens there, also without a file of the Unix socket;
 * -ETIMEDOUT: the deadline came; -EINVAL: not an address to dial; else the
 * -errno of the last address tried. */
struct kv_dial *kv_dial_start(struct kv_loop *loop, const char *addr,
			      uint64_t deadline_ns, kv_net_connect_fn *fn,
			      void *arg);
void kv_dial_cancel(struct kv_dial *d);

#endif

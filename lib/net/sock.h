#ifndef KV_NET_SOCK_H
#define KV_NET_SOCK_H

/*
 * The real network: struct kv_net over TCP and Unix sockets. One can serve
 * all threads, each with loops of its own. Nothing raises SIGPIPE, and no
 * descriptor is left open across an exec.
 */

#include "net/net.h"

/* NULL: out of memory. free: when its listeners, dials and streams are gone;
 * NULL is fine. */
struct kv_net *kv_sock_net_new(void);
void kv_sock_net_free(struct kv_net *net);

/* The group, by name or number, that may connect to Unix sockets that are
 * listened on from now on; else only the same user may. 0, -ENOENT. At the
 * start of the program: the look-up is not for several threads. */
int kv_sock_set_group(struct kv_net *net, const char *group);

/* What a status of connect or listen means, for people: "nobody listens
 * there", "cannot resolve the name: it is not known". */
const char *kv_sock_error_text(int status);

#endif

#ifndef KV_NET_LOOKUP_H
#define KV_NET_LOOKUP_H

/* From addresses as text to those that the kernel takes. */

#include <netinet/in.h>
#include <sys/un.h>

#include "base/limits.h"
#include "net/addr.h"

struct kv_loop;
struct kv_lookup; /* one under way */

union kv_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

struct kv_lookup_addr {
	socklen_t len;
	union kv_sockaddr addr;
};

struct kv_lookup_result {
	int n;
	struct kv_lookup_addr addrs[KV_LOOKUP_ADDRS_MAX];
};

/*
 * At once: may block on a name that is not numeric. Port and order are kept;
 * what is above KV_LOOKUP_ADDRS_MAX is left out. The empty name: every address
 * of this host, IPv6 (which takes IPv4 too) before IPv4. 0; -ENXIO: nobody has
 * this name; -ENONET: no name server could say; -ENOMEM, -errno.
 */
int kv_lookup_now(const struct kv_addr *a, struct kv_lookup_result *out);

/* The numeric address; IPv4 inside IPv6 as IPv4. What has no
 * name any more: "unknown". */
void kv_lookup_name(const struct kv_lookup_addr *from, struct kv_addr *out);

/*
 * In a thread of its own, that ends with the look-up, be it cancelled or not.
 * fn runs on the loop, once, with what kv_lookup_now() gives; result is valid
 * during the call only. NULL with errno: EAGAIN when KV_LOOKUPS_MAX are under
 * way, ENOMEM, EMFILE.
 */
struct kv_lookup *kv_lookup_start(struct kv_loop *loop, const struct kv_addr *a,
				  void (*fn)(void *arg, int status,
					     const struct kv_lookup_result *r),
				  void *arg);

/* Before fn ran: it will not, and the look-up is gone. */
void kv_lookup_cancel(struct kv_lookup *l);

#endif

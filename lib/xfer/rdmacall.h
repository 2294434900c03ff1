#ifndef KV_XFER_RDMACALL_H
#define KV_XFER_RDMACALL_H

/*
 * Connections of frames over RDMA: byte streams of a queue pair each
 * (rdmastream.h), dialled and accepted by the connection manager. One struct
 * kv_rdmacall is what all of one loop share. Seen by everybody; nothing of
 * verbs is.
 */

#include <netinet/in.h>
#include <stdint.h>

#include "net/net.h"
#include "xfer/rdma.h"

struct kv_rdmacall;
struct kv_rdmacall_dial;

struct kv_rdmacall_opts {
	struct kv_rdma *rdma;
	struct kv_loop *loop;
	/* Of each port, 8 KiB each, shared by all streams: messages that came
	 * and were not looked at, and that are under way. */
	unsigned receives, sends;
	/* At once, of each port. Who dials then has the place of who was
	 * accepted and was used longest ago, not within the last second, and is
	 * not is_used (NULL: nobody is), of which the stream then ends; or is
	 * refused. */
	unsigned streams;
	bool (*is_used)(const struct kv_stream *s);
};

/* NULL with errno. */
struct kv_rdmacall *kv_rdmacall_new(const struct kv_rdmacall_opts *o);
/* Its streams are closed, of which last words may be lost; nothing is dialled
 * any more. NULL is fine. */
void kv_rdmacall_free(struct kv_rdmacall *c);

/*
 * Listens at this port of the first address of each RDMA port, at those that
 * are down once they are up. fn gets what connects, as from a listener of
 * kv_net. Why it cannot stands in the log. Once.
 */
void kv_rdmacall_listen(struct kv_rdmacall *c, uint16_t port,
			kv_net_accept_fn *fn, void *arg);
/* At how many ports it does by now. */
unsigned kv_rdmacall_listens(const struct kv_rdmacall *c);
/* No more; harmless when it does not. NULL is fine. */
void kv_rdmacall_unlisten(struct kv_rdmacall *c);

struct kv_rdmacall_to {
	struct in6_addr from; /* of one of the own ports; IPv4 mapped */
	struct in6_addr to;
	uint16_t port;
	uint64_t deadline_ns;
};

/* fn runs once, deferred, as of kv_net: NULL and -EHOSTUNREACH, -ECONNREFUSED,
 * -ETIMEDOUT, ... NULL with errno: fn does not run. */
struct kv_rdmacall_dial *kv_rdmacall_dial(struct kv_rdmacall *c,
					  const struct kv_rdmacall_to *to,
					  kv_net_connect_fn *fn, void *arg);
/* Before fn ran: it will not. After it ran the dial is gone. */
void kv_rdmacall_cancel(struct kv_rdmacall_dial *d);

#endif

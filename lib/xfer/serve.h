#ifndef KV_XFER_SERVE_H
#define KV_XFER_SERVE_H

/*
 * The passive half of an engine: answers the peers that connect. Whatever they
 * name is looked up in the table of regions first; bytes then go straight
 * between socket and memory. All functions on the loop's thread.
 */

#include "net/net.h"
#include "wire/proto.h"

struct kv_guest_set;
struct kv_loop;
struct kv_note_queue;
struct kv_region;
struct kv_region_set;
struct kv_serve;

struct kv_serve_opts {
	struct kv_loop *loop;
	struct kv_region_set *regions;
	struct kv_guest_set *guests;
	struct kv_note_queue *notes;
	struct kv_id boot;         /* this engine */
	const struct kv_id *token; /* what peers on this host look for in the
				    * memory of this process; stays there */
};

/* NULL: no memory. What the options point to outlives it. */
struct kv_serve *kv_serve_new(const struct kv_serve_opts *opts);
/* Closes all connections: no memory is touched any more. NULL is fine. */
void kv_serve_free(struct kv_serve *s);

/* Listens on addr ("host:port") and, for peers on this host, beside it, and at
 * the same port of RDMA addresses. 0 with
 * the address in bound (KV_NET_BOUND_BYTES), or -errno, logged. */
int kv_serve_listen(struct kv_serve *s, const char *addr, char *bound);

/* Only the last of these. */
void kv_serve_listen_call(struct kv_serve *s, uint16_t port);

/* Takes over a stream as if it had been accepted. */
void kv_serve_accept(struct kv_serve *s, struct kv_stream *stream,
		     const struct kv_peer *peer);

/* Closes the connections whose transfers touch the region. */
void kv_serve_cut(struct kv_serve *s, const struct kv_region *r);

#endif

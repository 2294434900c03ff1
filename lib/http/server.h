#ifndef KV_HTTP_SERVER_H
#define KV_HTTP_SERVER_H

/*
 * An HTTP server on a loop: libmicrohttpd, driven by its epoll descriptor and
 * the loop's timers. It has no thread and never blocks the loop. When there are
 * as many connections as there may be, a newcomer takes the place of the one
 * that has been without a request for longest.
 */

#include <stddef.h>
#include <stdint.h>

#include "http/exchange.h"

struct kv_loop;
struct kv_server;

#define KV_SERVER_CONNS_MAX 512
#define KV_SERVER_IDLE_S    30 /* nothing moves on a connection */
#define KV_SERVER_REQUEST_S 5  /* for a request to come, once it began */
#define KV_SERVER_KEPT_S    60 /* from an answer to the next request's line */

struct kv_server_opts {
	struct kv_loop *loop; /* on the real clock */
	const char *host;     /* name or address; NULL: all addresses */
	uint16_t port;        /* 0: any */
	const struct kv_exchange_route *routes; /* stay the caller's */
	size_t n_routes;
	void *arg;          /* of their handlers */
	unsigned conns_max; /* 0: KV_SERVER_CONNS_MAX */
	unsigned idle_s;    /* 0: KV_SERVER_IDLE_S */
	unsigned request_s; /* 0: KV_SERVER_REQUEST_S */
};

/* Listens, on IPv6 and IPv4. Looking a host name up may block. NULL on failure
 * with errno set and one line in err. */
struct kv_server *kv_server_new(const struct kv_server_opts *opts, char *err,
				size_t err_bytes);
/* Closes all connections; exchanges that wait are told. Not from within a
 * handler. NULL is fine. */
void kv_server_free(struct kv_server *s);

uint16_t kv_server_port(const struct kv_server *s);

#endif

#ifndef KV_HTTP_HTTPCORE_H
#define KV_HTTP_HTTPCORE_H

/* What server.c and exchange.c share. */

#include <microhttpd.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/log.h"
#include "event/loop.h"
#include "http/exchange.h"
#include "http/server.h"
#include "http/urlquery.h"

struct kv_server {
	struct kv_server_opts o;
	struct kv_loop *loop;
	struct MHD_Daemon *daemon;
	struct kv_io events;   /* the daemon's epoll descriptor */
	struct kv_timer timer; /* when it wants to run next */
	struct kv_defer run;
	int fd;
	uint16_t port;
	struct kv_io listener;
	struct kv_timer retry; /* after a shortage */
	struct kv_log_limit shortage_log, full_log;
	struct kv_list conns; /* by the time of their last act */
	unsigned n_conns;
	struct kv_timer sweep;
	struct kv_list exchanges;
};

/* A connection, from its acceptance to its end. */
struct kv_server_conn {
	struct kv_list link;
	struct kv_server *s;
	int fd;
	uint64_t since; /* of what is said below */
	bool is_busy;   /* the request is there, and is being answered */
	bool is_kept;   /* one was answered, and no other has begun */
	bool is_ended;  /* by us: libmicrohttpd will see */
};

enum kv_exchange_state {
	KV_EXCHANGE_COMING,
	KV_EXCHANGE_HANDLED,  /* the handler has it */
	KV_EXCHANGE_ANSWERED, /* ->response is to be sent; NULL: close */
	KV_EXCHANGE_SENT,     /* it is libmicrohttpd's */
};

struct kv_exchange {
	struct kv_list link; /* server->exchanges */
	struct kv_server *s;
	struct MHD_Connection *conn;
	enum kv_exchange_state state;
	bool is_routed;
	bool is_head;
	bool is_suspended;
	const struct kv_exchange_route *route;
	struct kv_urlquery query;
	bool is_broken; /* the target */
	struct kv_bytes body;
	bool is_too_big;
	struct MHD_Response *response;
	unsigned http_status;
	struct MHD_Response *stream; /* the same, while it is sent; not owned */
	struct kv_exchange_source source; /* gone: while the handler has it */
	struct kv_bytes chunk;
	size_t chunk_off;
	bool is_ended;
	bool is_whole;
};

/* ---- server.c ---- */

/* Runs the daemon in the next turn. */
void kv_server_wake(struct kv_server *s);
/* A request begins; it is there; it was answered. */
void kv_server_begins(struct MHD_Connection *conn);
void kv_server_busy(struct MHD_Connection *conn, bool is_busy);

/* ---- exchange.c: callbacks of libmicrohttpd ---- */

void *kv_exchange_begin(void *server, const char *target,
			struct MHD_Connection *conn);
enum MHD_Result kv_exchange_handle(void *server, struct MHD_Connection *conn,
				   const char *url, const char *method,
				   const char *version, const char *upload,
				   size_t *upload_len, void **exchange);
void kv_exchange_completed(void *server, struct MHD_Connection *conn,
			   void **exchange,
			   enum MHD_RequestTerminationCode code);
/* The server ends: nothing is answered any more. */
void kv_exchange_abandon(struct kv_exchange *x);

#endif

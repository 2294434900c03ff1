#ifndef KV_HTTP_EXCHANGE_H
#define KV_HTTP_EXCHANGE_H

/*
 * One request and its answer. A handler is called when the request is there,
 * with its body, and answers at once or says that it will: then the client
 * waits and nothing else does. A long answer is made piece by piece, each when
 * the client took the one before. All calls on the server's loop; none of them
 * calls back.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "http/urlquery.h"

struct kv_bytes;
struct kv_exchange;

#define KV_EXCHANGE_BODY_BYTES_MAX (1u << 20)

#define KV_EXCHANGE_JSON "application/json; charset=utf-8"
#define KV_EXCHANGE_TEXT "text/plain; charset=utf-8"

struct kv_exchange_route {
	const char *method; /* what is there for GET is there for HEAD */
	const char *path;
	/* Answers, or calls kv_exchange_wait(). arg: the server's. */
	void (*fn)(struct kv_exchange *x, void *arg);
};

/* ---- the request ---- */

const struct kv_urlquery *kv_exchange_query(const struct kv_exchange *x);
/* NULL: there is none. */
const char *kv_exchange_header(const struct kv_exchange *x, const char *name);
/* NULL when it is empty. */
const void *kv_exchange_body(const struct kv_exchange *x, size_t *len);

/* ---- the answer: one of them, once; then x is not the handler's any more ----
 */

/* Takes what is in body over, also on failure. */
void kv_exchange_answer(struct kv_exchange *x, unsigned http_status,
			const char *content_type, struct kv_bytes *body);
/* {"success": false, "error_code": code, "error_message": "..."} */
KV_PRINTF(4, 5)
void kv_exchange_error(struct kv_exchange *x, unsigned http_status, int code,
		       const char *fmt, ...);
/* Nothing can be said, out of memory: the connection is closed. */
void kv_exchange_fail(struct kv_exchange *x);

/* The answer comes later. gone: the server ends, x is no more, and nothing may
 * be answered (a client that leaves is noticed when it is answered). */
void kv_exchange_wait(struct kv_exchange *x, void (*gone)(void *arg),
		      void *arg);

/*
 * 200, and a body of unknown length. Each time the client has room, and all
 * that was written is gone, `more` is called: to write or end, then or later.
 * Until kv_exchange_end() gone may be called, as above, also because the client
 * left. After kv_exchange_wait() or in its place, with its own gone and arg.
 */
struct kv_exchange_source {
	void (*more)(void *arg);
	void (*gone)(void *arg);
	void *arg;
};
void kv_exchange_stream(struct kv_exchange *x, const char *content_type,
			const struct kv_exchange_source *source);
/* In answer to `more`, once: takes what is in chunk, which is not empty. */
void kv_exchange_write(struct kv_exchange *x, struct kv_bytes *chunk);
/* A header that follows the body, before kv_exchange_end(). The client may not
 * look at it, or be too old to get it. */
void kv_exchange_trailer(struct kv_exchange *x, const char *name,
			 const char *value);
/* After what was written. Not is_whole: the client is to see that the end is
 * missing. */
void kv_exchange_end(struct kv_exchange *x, bool is_whole);

#endif

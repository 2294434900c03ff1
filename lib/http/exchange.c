#include "http/exchange.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "http/httpcore.h"
#include "http/json.h"

enum {
	BLOCK_BYTES = 64 << 10, /* of a long answer, at a time */
	ERROR_TEXT_MAX = 512,
	BAD_REQUEST = -600, /* Mooncake's code for invalid parameters */
};

/* ---- what the handler asks ---- */

const struct kv_urlquery *
kv_exchange_query(const struct kv_exchange *x)
{
	return &x->query;
}

const char *
kv_exchange_header(const struct kv_exchange *x, const char *name)
{
	return MHD_lookup_connection_value(x->conn, MHD_HEADER_KIND, name);
}

const void *
kv_exchange_body(const struct kv_exchange *x, size_t *len)
{
	*len = x->body.len;
	return x->body.len ? x->body.data : NULL;
}

/* ---- what the handler says ---- */

static void
proceed(struct kv_exchange *x)
{
	if (!x->is_suspended)
		return;
	x->is_suspended = false;
	MHD_resume_connection(x->conn);
	kv_server_wake(x->s);
}

/* r NULL: without memory the connection is closed. */
static void
respond(struct kv_exchange *x, unsigned http_status, const char *content_type,
	struct MHD_Response *r)
{
	assert(x->state == KV_EXCHANGE_COMING ||
	       x->state == KV_EXCHANGE_HANDLED);
	if (r && (MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE,
					  content_type) != MHD_YES ||
		  MHD_add_response_header(r, "X-Content-Type-Options",
					  "nosniff") != MHD_YES)) {
		MHD_destroy_response(r);
		r = NULL;
	}
	x->response = r;
	x->http_status = http_status;
	x->state = KV_EXCHANGE_ANSWERED;
	proceed(x);
}

void
kv_exchange_answer(struct kv_exchange *x, unsigned http_status,
		   const char *content_type, struct kv_bytes *body)
{
	struct MHD_Response *r = NULL;

	x->source.gone = NULL;
	if (!KV_FAULT_POINT())
		r = MHD_create_response_from_buffer(body->len, body->data,
						    MHD_RESPMEM_MUST_FREE);
	if (!r)
		free(body->data);
	kv_bytes_init(body);
	respond(x, http_status, content_type, r);
}

void
kv_exchange_error(struct kv_exchange *x, unsigned http_status, int code,
		  const char *fmt, ...)
{
	struct kv_bytes body = { 0 };
	struct kv_json j = { .out = &body };
	char text[ERROR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	kv_json_begin(&j, NULL, '{');
	kv_json_bool(&j, "success", false);
	kv_json_i64(&j, "error_code", code);
	kv_json_string(&j, "error_message", text);
	kv_json_end(&j, '{');
	if (j.status == 0)
		kv_exchange_answer(x, http_status, KV_EXCHANGE_JSON, &body);
	else
		kv_exchange_fail(x);
	kv_bytes_fini(&body);
}

void
kv_exchange_fail(struct kv_exchange *x)
{
	x->source.gone = NULL;
	respond(x, 0, NULL, NULL);
}

void
kv_exchange_wait(struct kv_exchange *x, void (*gone)(void *arg), void *arg)
{
	assert(x->state == KV_EXCHANGE_HANDLED);
	x->source.gone = gone;
	x->source.arg = arg;
}

/* ---- long answers ---- */

static bool
has_chunk(const struct kv_exchange *x)
{
	return x->chunk_off < x->chunk.len;
}

/* libmicrohttpd wants bytes: what there is, or it sleeps until there is. */
static ssize_t
stream_read(void *arg, uint64_t pos, char *to, size_t max)
{
	struct kv_exchange *x = arg;
	size_t n;

	(void)pos;
	if (!has_chunk(x) && !x->is_ended) {
		kv_bytes_fini(&x->chunk);
		x->chunk_off = 0;
		x->source.more(x->source.arg);
	}
	if (has_chunk(x)) {
		n = kv_min_size(max, x->chunk.len - x->chunk_off);
		memcpy(to, x->chunk.data + x->chunk_off, n);
		x->chunk_off += n;
		return (ssize_t)n;
	}
	if (x->is_ended)
		return x->is_whole ? MHD_CONTENT_READER_END_OF_STREAM
				   : MHD_CONTENT_READER_END_WITH_ERROR;
	MHD_suspend_connection(x->conn);
	x->is_suspended = true;
	return 0;
}

void
kv_exchange_stream(struct kv_exchange *x, const char *content_type,
		   const struct kv_exchange_source *source)
{
	struct MHD_Response *r = NULL;

	x->source = *source;
	if (!KV_FAULT_POINT())
		r = MHD_create_response_from_callback(
			MHD_SIZE_UNKNOWN, BLOCK_BYTES, stream_read, x, NULL);
	/* Else HEAD would be followed by the end of a body in chunks. */
	if (r && x->is_head)
		MHD_set_response_options(r, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT,
					 MHD_RO_END);
	respond(x, MHD_HTTP_OK, content_type, r);
	x->stream = x->response;
}

void
kv_exchange_write(struct kv_exchange *x, struct kv_bytes *chunk)
{
	assert(!has_chunk(x) && !x->is_ended && chunk->len > 0);
	kv_bytes_fini(&x->chunk);
	x->chunk = *chunk;
	x->chunk_off = 0;
	kv_bytes_init(chunk);
	proceed(x);
}

void
kv_exchange_trailer(struct kv_exchange *x, const char *name, const char *value)
{
	if (x->stream &&
	    MHD_add_response_footer(x->stream, name, value) != MHD_YES)
		kv_debug("no memory for a trailer");
}

void
kv_exchange_end(struct kv_exchange *x, bool is_whole)
{
	x->source.gone = NULL;
	x->is_ended = true;
	x->is_whole = is_whole;
	proceed(x);
}

/* ---- from the request to the handler ---- */

static bool
serves(const struct kv_exchange_route *r, const char *method)
{
	return strcmp(r->method, method) == 0 ||
	       (strcmp(r->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

static void
refuse_method(struct kv_exchange *x, const char *method, const char *allow)
{
	kv_exchange_error(x, MHD_HTTP_METHOD_NOT_ALLOWED, BAD_REQUEST,
			  "%.32s is not for this path (but %s)", method, allow);
	if (x->response &&
	    MHD_add_response_header(x->response, MHD_HTTP_HEADER_ALLOW,
				    allow) != MHD_YES)
		kv_debug("no memory for an Allow header");
}

/* Sets x->route, or answers. */
static void
route(struct kv_exchange *x, const char *method)
{
	const struct kv_exchange_route *r = x->s->o.routes;
	const struct kv_exchange_route *end = r + x->s->o.n_routes;
	const struct kv_urlquery_text *path = &x->query.path;
	char allow[64] = "";
	size_t n = 0;

	for (; r < end; r++) {
		if (strlen(r->path) != path->len ||
		    memcmp(r->path, path->p, path->len) != 0)
			continue;
		if (serves(r, method)) {
			x->route = r;
			return;
		}
		if (n < sizeof(allow))
			n += (size_t)snprintf(
				allow + n, sizeof(allow) - n, "%s%s%s",
				n ? ", " : "", r->method,
				strcmp(r->method, "GET") ? "" : ", HEAD");
	}
	if (n)
		refuse_method(x, method, allow);
	else
		kv_exchange_error(x, MHD_HTTP_NOT_FOUND, BAD_REQUEST,
				  "there is nothing at this path");
}

/* Of the body; 1 when it is to come in chunks. */
static uint64_t
announced_bytes(const struct kv_exchange *x)
{
	const char *len = kv_exchange_header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);

	if (kv_exchange_header(x, MHD_HTTP_HEADER_TRANSFER_ENCODING))
		return 1;
	return len ? strtoull(len, NULL, 10) : 0;
}

static void
refuse_body(struct kv_exchange *x)
{
	kv_exchange_error(x, MHD_HTTP_CONTENT_TOO_LARGE, BAD_REQUEST,
			  "the body is larger than %u bytes",
			  KV_EXCHANGE_BODY_BYTES_MAX);
}

/* The headers are there. */
static void
check(struct kv_exchange *x, const char *method)
{
	if (x->is_broken) {
		kv_exchange_error(x, MHD_HTTP_BAD_REQUEST, BAD_REQUEST,
				  "a %% in the path or query is not followed "
				  "by two hexadecimal digits");
		return;
	}
	route(x, method);
	if (!x->route)
		return;
	/* Browsers say so when a page of another place makes them send it. */
	if (strcmp(x->route->method, "GET") != 0 &&
	    kv_exchange_header(x, MHD_HTTP_HEADER_ORIGIN))
		kv_exchange_error(x, MHD_HTTP_FORBIDDEN, BAD_REQUEST,
				  "a web page may not ask for this");
	else if (announced_bytes(x) > KV_EXCHANGE_BODY_BYTES_MAX)
		refuse_body(x);
}

static enum MHD_Result
take_body(struct kv_exchange *x, const char *p, size_t n)
{
	if (n > KV_EXCHANGE_BODY_BYTES_MAX - x->body.len)
		x->is_too_big = true;
	if (x->is_too_big)
		return MHD_YES;
	return kv_bytes_append(&x->body, p, n) ? MHD_NO : MHD_YES;
}

static void
call_handler(struct kv_exchange *x)
{
	if (x->is_too_big) {
		refuse_body(x);
		return;
	}
	x->state = KV_EXCHANGE_HANDLED;
	kv_server_busy(x->conn, true);
	x->route->fn(x, x->s->o.arg);
	assert(x->state != KV_EXCHANGE_HANDLED || x->source.gone);
}

static enum MHD_Result
advance(struct kv_exchange *x)
{
	enum MHD_Result is_queued;

	if (x->state == KV_EXCHANGE_HANDLED) {
		MHD_suspend_connection(x->conn);
		x->is_suspended = true;
		return MHD_YES;
	}
	if (x->state != KV_EXCHANGE_ANSWERED || !x->response)
		return MHD_NO;
	is_queued = MHD_queue_response(x->conn, x->http_status, x->response);
	MHD_destroy_response(x->response);
	x->response = NULL;
	x->state = KV_EXCHANGE_SENT;
	return is_queued;
}

/* ---- callbacks of libmicrohttpd ---- */

/*
 * libmicrohttpd takes some 70 bytes of the connection's memory for each
 * argument, and when that is used up no answer can be sent. Nobody asks it for
 * arguments: it finds none. The target is a part of its buffer that ends in
 * NUL, and that it writes to itself.
 */
static void
hide_args(const char *target)
{
	char *args = strchr(kv_unconst(target), '?');

	if (args)
		args[1] = '\0';
}

void *
kv_exchange_begin(void *server, const char *target, struct MHD_Connection *conn)
{
	struct kv_exchange *x = NULL;
	int err;

	kv_server_begins(conn);
	if (!KV_FAULT_POINT())
		x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	x->s = server;
	x->conn = conn;
	err = kv_urlquery_parse(&x->query, target, strlen(target));
	if (err == -ENOMEM) {
		free(x);
		return NULL;
	}
	x->is_broken = err != 0;
	hide_args(target);
	kv_list_add_tail(&x->s->exchanges, &x->link);
	return x;
}

/* First with the headers, then with the body in pieces, then with none; again
 * when it was suspended. */
enum MHD_Result
/* NOLINTNEXTLINE(readability-function-size): libmicrohttpd calls it so */
kv_exchange_handle(void *server, struct MHD_Connection *conn, const char *url,
		   const char *method, const char *version, const char *upload,
		   size_t *upload_len, void **exchange)
{
	struct kv_exchange *x = *exchange;
	size_t n;

	(void)server;
	(void)conn;
	(void)url;
	(void)version;
	if (!x)
		return MHD_NO;
	if (!x->is_routed) {
		x->is_routed = true;
		x->is_head = strcmp(method, "HEAD") == 0;
		check(x, method);
		/* Answered before its body was read, a request is the last of
		 * its connection. */
		return x->state == KV_EXCHANGE_ANSWERED && announced_bytes(x)
			       ? advance(x)
			       : MHD_YES;
	}
	if (*upload_len > 0) {
		n = *upload_len;
		*upload_len = 0;
		return take_body(x, upload, n);
	}
	if (x->state == KV_EXCHANGE_COMING)
		call_handler(x);
	return advance(x);
}

void
kv_exchange_abandon(struct kv_exchange *x)
{
	void (*gone)(void *arg) = x->source.gone;

	x->source.gone = NULL;
	if (gone)
		gone(x->source.arg);
	if (x->state == KV_EXCHANGE_HANDLED)
		x->state = KV_EXCHANGE_ANSWERED;
	x->is_ended = true;
	x->is_whole = false;
	proceed(x);
}

void
kv_exchange_completed(void *server, struct MHD_Connection *conn,
		      void **exchange, enum MHD_RequestTerminationCode code)
{
	struct kv_exchange *x = *exchange;

	(void)server;
	(void)code;
	kv_server_busy(conn, false);
	if (!x)
		return;
	*exchange = NULL;
	if (x->source.gone)
		x->source.gone(x->source.arg);
	if (x->response)
		MHD_destroy_response(x->response);
	kv_list_del(&x->link);
	kv_urlquery_fini(&x->query);
	kv_bytes_fini(&x->body);
	kv_bytes_fini(&x->chunk);
	free(x);
}

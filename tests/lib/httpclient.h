#ifndef KV_TEST_HTTPCLIENT_H
#define KV_TEST_HTTPCLIENT_H

/* An HTTP client for tests, on the loop of the server that it asks: it turns
 * that loop while it waits, ten seconds at most. */

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "event/loop.h"

struct httpclient {
	struct kv_loop *loop;
	int fd;
	struct kv_bytes in; /* read, and not yet taken by an answer */
	bool is_eof;
	/* the last answer */
	int status;
	struct kv_bytes head; /* lines that end in \r\n, and a NUL */
	struct kv_bytes body; /* and a NUL that does not count */
	struct kv_bytes tail; /* headers behind a body in chunks, and a NUL */
	bool is_whole;        /* it ended as it should */
};

/* On 127.0.0.1; is_v6: on ::1. fd -1 when it cannot connect. */
void httpclient_open(struct httpclient *c, struct kv_loop *loop, uint16_t port);
void httpclient_open6(struct httpclient *c, struct kv_loop *loop,
		      uint16_t port);
void httpclient_close(struct httpclient *c);

void httpclient_turn(struct httpclient *c, unsigned ms);
void httpclient_send(struct httpclient *c, const void *p, size_t n);
void httpclient_say(struct httpclient *c, const char *text);

/* Reads what there is for so long. */
void httpclient_read(struct httpclient *c, unsigned ms);
/* Reads one answer; its status, 0 when the connection ended before one. */
int httpclient_take(struct httpclient *c, bool has_body);
/* Sends "METHOD target HTTP/1.1", headers, and takes the answer. */
int httpclient_ask(struct httpclient *c, const char *method, const char *target,
		   const char *headers);
int httpclient_get(struct httpclient *c, const char *target);
/* The same on a connection of its own, which is closed; the answer stays in c
 * until httpclient_close(). */
int httpclient_once(struct httpclient *c, struct kv_loop *loop, uint16_t port,
		    const char *target);
bool httpclient_has_header(const struct httpclient *c, const char *line);

#endif

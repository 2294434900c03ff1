#ifndef KV_TEST_SERVERRIG_H
#define KV_TEST_SERVERRIG_H

/* An HTTP server on a real port, with handlers of every kind. */

#include <stdbool.h>
#include <stdint.h>

#include "event/loop.h"
#include "http/server.h"
#include "httpclient.h"

enum {
	SERVERRIG_PAGES = 200, /* of GET /list, unless pages_max says else */
	SERVERRIG_PAGE_BYTES = 50000,
};

/* What the handlers see. */
struct serverrig {
	struct kv_loop *loop;
	struct kv_server *s;
	uint16_t port;
	struct kv_exchange *waiting;
	struct kv_timer later;
	int gone;
	/* of a list under way */
	struct kv_exchange *list;
	int pages, pages_max;
	bool is_slow; /* pages come later */
	bool is_cut;
};

extern struct serverrig sc;
extern char serverrig_logged[4096]; /* since the start, a line each */
extern const struct kv_server_opts serverrig_defaults;

/* For tests that need other options: instead of serverrig_setup. */
void serverrig_start(struct kv_server_opts opts);
/* Fixtures of cmocka. */
int serverrig_setup(void **state);
int serverrig_teardown(void **state);

/* Answers GET /wait or GET /never; a timer does, or with NULL a test. */
void serverrig_answer(struct kv_timer *t);

void serverrig_client(struct httpclient *c);
/* The answer is whole, and this is its body. */
void serverrig_check_body(const struct httpclient *c, const char *want);
/* The server is well: a new client is served. */
void serverrig_check_serves(void);

#endif

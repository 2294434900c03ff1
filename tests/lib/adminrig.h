#ifndef KV_TEST_ADMINRIG_H
#define KV_TEST_ADMINRIG_H

/*
 * The HTTP server of a master, the master's rig behind it with two nodes, and
 * one client. What is asked needs a turn of both loops: adminrig_say(), then
 * what the nodes answer, then adminrig_take().
 */

#include "event/loop.h"
#include "httpclient.h"
#include "masterrig.h"
#include "svc/admin.h"

extern struct adminrig {
	struct kv_loop *loop; /* of the HTTP server */
	struct kv_admin *admin;
	struct httpclient c;
	struct rignode a, b;
} web;

/* Fixtures of cmocka. */
int adminrig_setup(void **state);
int adminrig_teardown(void **state);
#define ADMINRIG_TEST(f) \
	cmocka_unit_test_setup_teardown(f, adminrig_setup, adminrig_teardown)

void adminrig_open(struct httpclient *cl);
/* Sends a request that nodes must answer, and lets it reach the master. */
void adminrig_say(struct httpclient *cl, const char *method,
		  const char *target);
/* The status of the answer to web.c. */
int adminrig_take(void);

/* The body of that answer is this text, has it, has it not. */
void adminrig_is(const char *want);
void adminrig_has(const char *want);
void adminrig_has_not(const char *what);

/* Waits for this question to a node. web.c reads on meanwhile: it may be what
 * makes the master ask. */
struct wireframe *adminrig_asked(struct rignode *n, enum kv_msg_type type);
/* Frees the question. tail may be NULL. */
void adminrig_answer(struct rignode *n, struct wireframe *f, const void *body,
		     const struct kv_bytes *tail);
/* Waits for a QUERY of this key, and answers with one copy; size 0: with none.
 */
void adminrig_tell(struct rignode *n, const char *tenant, const char *key,
		   size_t key_len, uint64_t size);
/* The rig's keys are hashes of nothing; only a node that publishes a key's own
 * hash is asked for it. */
void adminrig_publish(struct rignode *n, const char *tenant, const char *key,
		      size_t len);

#endif

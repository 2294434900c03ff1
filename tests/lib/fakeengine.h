#ifndef KV_TEST_FAKEENGINE_H
#define KV_TEST_FAKEENGINE_H

/*
 * An engine played by a test: threads with plain blocking sockets, which say
 * hello, and then do with each message what the test wants. It listens on TCP,
 * and beside it on the Unix socket if it is to be of this host.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/msg.h"

struct fakeengine;

/* One connection. */
struct fakeconn {
	struct fakeengine *engine;
	int fd;
	bool is_unix;
};

struct fakeengine {
	struct kv_id boot;
	int hello_status; /* what HELLO_R says */
	bool is_mute;     /* says no HELLO_R */
	bool is_local;
	/* Any message but HELLO; false: hang up. On the connection's thread. */
	bool (*obey)(struct fakeconn *c, const struct kv_msg *msg);
	atomic_bool over;  /* obey must not go on for long then */
	atomic_int served; /* messages obeyed */
	char addr[32];
	int listeners[2];
	pthread_t thread;
	atomic_int conns;
};

/* The first fields are set. */
void fakeengine_start(struct fakeengine *e);
void fakeengine_end(struct fakeengine *e);

/* For obey. Waits for n bytes; false: the peer is gone. */
bool fakeengine_get(struct fakeconn *c, void *p, size_t n);
/* Sends them, unless the peer or the engine is gone. */
void fakeengine_put(struct fakeconn *c, const void *p, size_t n);
/* A frame; its payload is put afterwards. fd -1: none goes along. */
void fakeengine_answer(struct fakeconn *c, enum kv_msg_type type, uint64_t id,
		       const void *body, uint32_t payload);
struct fakeengine_extra {
	const void *tail;
	size_t tail_len;
	int fd;
};
void fakeengine_answer_more(struct fakeconn *c, enum kv_msg_type type,
			    uint64_t id, const void *body,
			    const struct fakeengine_extra *extra);

#endif

#ifndef KV_XFER_LANE_H
#define KV_XFER_LANE_H

/*
 * One connection to another engine, driven by the thread that uses it: dial,
 * HELLO, then requests.
 *
 *	CLOSED -> DIALLING -> GREETING -> READY -> LOST -> CLOSED
 */

#include "net/conn.h"
#include "net/hello.h"
#include "net/net.h"
#include "net/rpc.h"
#include "xfer/wait.h"

enum kv_lane_state {
	KV_LANE_CLOSED,
	KV_LANE_DIALLING,
	KV_LANE_GREETING,
	KV_LANE_READY,
	KV_LANE_LOST,
};

struct kv_lane;

/* What more there is than requests and answers; each may be NULL. */
struct kv_lane_ops {
	/* As kv_conn_ops.on_payload. */
	int (*on_payload)(struct kv_lane *lane, const struct kv_msg *msg,
			  struct iovec *iov);
	/* It is READY, and nothing has come since: 0; -errno: it is LOST. */
	int (*ready)(struct kv_lane *lane);
	/* Sees each message first: 1: it has it; 0: it is for others; -errno:
	 * the lane is LOST. */
	int (*take)(struct kv_lane *lane, const struct kv_msg *msg);
	/* The connection, if there was one, is about to be closed. */
	void (*leave)(struct kv_lane *lane);
};

struct kv_lane {
	enum kv_lane_state state;
	int status; /* LOST: why */
	struct kv_loop *loop;
	struct kv_id own;  /* who dials */
	struct kv_id boot; /* who is meant (zero: whoever is there); once READY
			    * who answered */
	uint64_t features; /* that are offered; once READY: had */
	uint64_t token;    /* once READY */
	uint64_t deadline_ns; /* of dial and HELLO */
	struct kv_dial *dial;
	struct kv_conn *conn;
	struct kv_rpc rpc;
	struct kv_call hello;
	const struct kv_lane_ops *ops; /* NULL: none */
};

/* A zeroed lane, or a closed one, for this loop. What is offered and the ops
 * are set afterwards. */
void kv_lane_init(struct kv_lane *lane, struct kv_loop *loop,
		  const struct kv_id *own, const struct kv_id *boot);

/* Towards READY: the outcome shows in its state after some turns. A failure to
 * begin is told so too. */
void kv_lane_dial(struct kv_lane *lane, const char *addr, uint64_t deadline_ns);

/* The same with a connection that is there; takes it over. */
void kv_lane_greet(struct kv_lane *lane, struct kv_stream *s,
		   uint64_t deadline_ns);

/* Turns until it is READY (0) or LOST (its status), or as kv_wait_turn. */
int kv_lane_settle(struct kv_lane *lane, const struct kv_wait *w);

/* Calls under way are forgotten, no memory is touched any more. */
void kv_lane_close(struct kv_lane *lane);

/*
 * A request whose answer the caller waits for. begin gives the zeroed body, or
 * NULL when the lane is not READY or full; then the tail, if any
 * (kv_conn_tail); finish sends it and turns until the answer is there, which
 * it gives to `take`, whose result it returns; else -errno. After -ETIMEDOUT
 * the lane can be used on: the late answer is dropped.
 */
struct kv_lane_ask {
	struct kv_call call; /* zeroed */
	int (*take)(void *arg, const struct kv_msg *msg);
	void *arg;
	bool over;
	int result;
};
void *kv_lane_begin(struct kv_lane *lane, struct kv_lane_ask *ask,
		    enum kv_msg_type type);
int kv_lane_finish(struct kv_lane *lane, struct kv_lane_ask *ask,
		   const struct kv_wait *w);

#endif

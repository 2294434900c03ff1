#ifndef KV_NET_RPC_H
#define KV_NET_RPC_H

/*
 * Requests by id over a connection: each call gets its answer (some have
 * several, marked KV_FLAG_MORE, the last without) or a failure, exactly once.
 * Deadlines, answers out of order, all calls fail when the connection is lost.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "event/loop.h"
#include "net/conn.h"

/* Chains of the table id -> call. Ids count up, so answers that come about in
 * order find their call at the head of a chain however many there are. */
#define KV_RPC_CHAINS 256

struct kv_rpc;

/* Zeroed, with fn set, before the first use. */
struct kv_call {
	struct kv_list link;  /* of all calls, oldest first */
	struct kv_list chain; /* of those with an equal low part of the id */
	struct kv_timer timer;
	struct kv_rpc *rpc; /* NULL while not under way */
	uint64_t id;
	bool takes_more; /* else an answer with KV_FLAG_MORE is -EPROTO */
	/* status 0: msg is an answer, the last one unless msg->flags has
	 * KV_FLAG_MORE. status < 0 (-ETIMEDOUT, or that of kv_rpc_fail()): msg
	 * is NULL, the call is over. Never called inside kv_rpc_begin/end.
	 * After the last answer and after a failure the call is free to be used
	 * again (or freed) by fn. */
	void (*fn)(struct kv_call *call, int status, const struct kv_msg *msg);
};

struct kv_rpc {
	struct kv_conn *conn;
	struct kv_list calls;
	struct kv_list chains[KV_RPC_CHAINS];
	uint64_t next_id;
	/* Answers to calls given up (timed out, cancelled): they may carry what
	 * must be given back. NULL: dropped. */
	void (*stray)(struct kv_rpc *rpc, const struct kv_msg *msg);
	void *arg;
};

/* Must stay where it is while calls are under way. Nothing to be undone. */
void kv_rpc_init(struct kv_rpc *rpc, struct kv_conn *c);

/* All calls under way fail with `status` now, oldest first; calls begun in
 * their fn are left alone. For on_close, before the connection is freed; fn
 * may close the connection, but rpc must outlive this. */
void kv_rpc_fail(struct kv_rpc *rpc, int status);

/* Begins a request: returns the zeroed body, to be filled (kv_conn_tail for
 * more) and sealed by kv_rpc_end / kv_conn_end_payload. NULL with the errno of
 * kv_conn_error(), or ENOMEM: the call is not under way (no callback). When
 * kv_conn_tail fails later the connection is lost, and the call fails with it.
 * deadline_ns: absolute, on the connection's loop. */
void *kv_rpc_begin(struct kv_rpc *rpc, struct kv_call *call,
		   enum kv_msg_type type, uint64_t deadline_ns);
static inline void
kv_rpc_end(struct kv_rpc *rpc)
{
	kv_conn_end(rpc->conn);
}

/* Forgets the call: fn is not called any more, late answers are stray.
 * Harmless when it is not under way. */
void kv_rpc_cancel(struct kv_call *call);

static inline bool
kv_rpc_is_under_way(const struct kv_call *call)
{
	return call->rpc;
}

/* To be called by the connection's on_msg for every message. False: it is no
 * answer but a request or a one-way message of the peer, for others to see. */
bool kv_rpc_take(struct kv_rpc *rpc, const struct kv_msg *msg);

#endif

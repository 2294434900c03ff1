#include "net/rpc.h"

#include <errno.h>
#include <stddef.h>

static struct kv_list *
chain_of(struct kv_rpc *rpc, uint64_t id)
{
	return &rpc->chains[id % KV_RPC_CHAINS];
}

void
kv_rpc_init(struct kv_rpc *rpc, struct kv_conn *c)
{
	rpc->conn = c;
	rpc->next_id = 1;
	rpc->stray = NULL;
	rpc->arg = NULL;
	kv_list_init(&rpc->calls);
	for (size_t i = 0; i < KV_RPC_CHAINS; i++)
		kv_list_init(&rpc->chains[i]);
}

/* Makes the call free to be used again. */
static void
end(struct kv_call *call)
{
	kv_list_del(&call->link);
	kv_list_del(&call->chain);
	kv_loop_timer_del(&call->timer);
	call->rpc = NULL;
}

void
kv_rpc_cancel(struct kv_call *call)
{
	if (call->rpc)
		end(call);
}

static void
fail(struct kv_call *call, int status)
{
	end(call);
	call->fn(call, status, NULL);
}

static void
time_is_up(struct kv_timer *t)
{
	fail(KV_CONTAINER_OF(t, struct kv_call, timer), -ETIMEDOUT);
}

void
kv_rpc_fail(struct kv_rpc *rpc, int status)
{
	struct kv_list failed;

	kv_list_init(&failed);
	kv_list_splice_tail(&failed, &rpc->calls);
	while (!kv_list_is_empty(&failed))
		fail(KV_LIST_FIRST(&failed, struct kv_call, link), status);
}

void *
kv_rpc_begin(struct kv_rpc *rpc, struct kv_call *call, enum kv_msg_type type,
	     uint64_t deadline_ns)
{
	void *body = kv_conn_begin(rpc->conn, type, rpc->next_id, 0);

	assert(!call->rpc);
	if (!body) {
		errno = -kv_conn_error(rpc->conn);
		return NULL;
	}
	call->timer.fn = time_is_up;
	if (kv_loop_timer_set(kv_conn_loop(rpc->conn), &call->timer,
			      deadline_ns) < 0) {
		kv_conn_abort(rpc->conn);
		errno = ENOMEM;
		return NULL;
	}
	call->rpc = rpc;
	call->id = rpc->next_id++;
	kv_list_add_tail(&rpc->calls, &call->link);
	kv_list_add_tail(chain_of(rpc, call->id), &call->chain);
	return body;
}

static struct kv_call *
find(struct kv_rpc *rpc, uint64_t id)
{
	struct kv_call *call;

	KV_LIST_FOREACH(call, chain_of(rpc, id), chain)
		if (call->id == id)
			return call;
	return NULL;
}

bool
kv_rpc_take(struct kv_rpc *rpc, const struct kv_msg *msg)
{
	struct kv_call *call;

	if (!kv_msg_is_answer(msg->type))
		return false;
	call = find(rpc, msg->id);
	if (!call) {
		if (rpc->stray)
			rpc->stray(rpc, msg);
		return true;
	}
	if (!(msg->flags & KV_FLAG_MORE)) {
		end(call);
	} else if (!call->takes_more) {
		fail(call, -EPROTO);
		return true;
	}
	call->fn(call, 0, msg);
	return true;
}

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "clustercall.h"

static int
remove_build(struct kv_ask *ask, struct kv_conn *c, void *body)
{
	const char *tenant = ask->ch->hub->tenant;
	struct kv_remove *b = body;
	void *tail;

	b->op = KV_REMOVE_ALL;
	b->flags = KV_REMOVE_FORCE;
	b->tenant_len = (uint8_t)strlen(tenant);
	tail = kv_conn_tail(c, strlen(tenant));
	if (!tail)
		return -ENOMEM;
	memcpy(tail, tenant, strlen(tenant));
	return 0;
}

static void
remove_ended(struct kv_ask *ask, int status, const struct kv_msg *msg)
{
	struct sim_call *call = KV_CONTAINER_OF(ask, struct sim_call, ask);
	struct cluster *cl = call->r->cl;
	const struct kv_remove_r *b = msg ? msg->body : NULL;

	kv_debug("%.6f requester %u: remove all: %s",
		 (double)cl->clock.ns / 1e9, call->r->i,
		 kv_status_text(status));
	if (b && b->status == KV_OK && kv_get32(b->away) == 0 &&
	    cluster_is_promised(call) && !call->is_split && !cl->is_split)
		cluster_model_removed(call);
	cluster_model_forget(cl);
	cluster_call_ended(call);
}

/* It goes on where it was asked for, for nobody knows how long. */
void
cluster_remove_abort(struct sim_requester *r)
{
	kv_ask_cancel(&r->call->ask);
	cluster_lost(r->cl);
	cluster_call_free(kv_steal_ptr(&r->call));
}

void
cluster_remove_start(struct sim_call *call, uint64_t deadline)
{
	cluster_model_forget(call->r->cl);
	call->epoch = call->r->cl->epoch;
	call->ask = (struct kv_ask){
		.type = KV_MSG_REMOVE,
		.deadline = deadline,
		.try_ns = 4 * KV_NS_PER_S,
		.build = remove_build,
		.fn = remove_ended,
	};
	kv_ask_start(call->r->ch, &call->ask);
}

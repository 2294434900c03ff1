/* Removing all, or keys, as svc/client_admin.c does it: the first master that
 * answers removes; the others do it too, or are told, one after another. */

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "clustercall.h"
#include "svc/gentable.h"

/* What a master may take: it asks nodes. */
#define RELAY_NS   (6 * KV_NS_PER_S)
#define LATE_TRIES 4 /* of one master; others remove at the same time */

static size_t
keys_bytes(const struct sim_call *call)
{
	size_t bytes = 0;
	unsigned i;

	for (i = 0; !call->is_all && i < call->n; i++)
		bytes += sizeof(struct kv_le16) + strlen(call->name[i]);
	return bytes;
}

static void
keys_write(const struct sim_call *call, char *p)
{
	struct kv_le16 len;
	unsigned i;

	for (i = 0; i < call->n; i++) {
		len = kv_le16((uint16_t)strlen(call->name[i]));
		memcpy(p, &len, sizeof(len));
		p += sizeof(len);
	}
	for (i = 0; i < call->n; i++) {
		memcpy(p, call->name[i], strlen(call->name[i]));
		p += strlen(call->name[i]);
	}
}

static int
remove_build(struct kv_ask *ask, struct kv_conn *c, void *body)
{
	struct sim_call *call = KV_CONTAINER_OF(ask, struct sim_call, ask);
	const char *tenant = ask->ch->hub->tenant;
	struct kv_remove *b = body;
	char *tail;

	b->op = call->is_all ? KV_REMOVE_ALL : KV_REMOVE_KEYS;
	b->flags = KV_REMOVE_FORCE;
	if (call->is_answered && !call->is_begun && !call->is_partly)
		b->flags |= KV_REMOVE_RECORD;
	b->generation = kv_gentable_build(call->generation);
	b->tenant_len = (uint8_t)strlen(tenant);
	b->count = kv_le32(call->is_all ? 0 : call->n);
	tail = kv_conn_tail(c, strlen(tenant) + keys_bytes(call));
	if (!tail)
		return -ENOMEM;
	memcpy(tail, tenant, strlen(tenant));
	if (!call->is_all)
		keys_write(call, tail + strlen(tenant));
	return 0;
}

static void
remove_may_fail(const struct sim_call *call, const char *why)
{
	if (cluster_is_well(call) && !call->r->cl->is_afflicted &&
	    call->is_healthy)
		cluster_forbid(call->r->cl, "all is well, but remove all: %s",
			       why);
}

static void
remove_end(struct sim_call *call)
{
	struct cluster *cl = call->r->cl;

	cl->n_removing--;
	cluster_model_forget(cl);
	cluster_call_ended(call);
}

/* A master that was killed has forgotten who is away. */
static bool
has_all_nodes(const struct cluster *cl)
{
	unsigned i;

	for (i = 0; i < cl->o.nodes; i++)
		if (!cl->nodes[i].node ||
		    kv_node_sessions(cl->nodes[i].node) < cl->o.masters)
			return false;
	return true;
}

static void
remove_over(struct sim_call *call)
{
	struct cluster *cl = call->r->cl;

	kv_debug("%.6f requester %u: %s, first %s, is removed, away %u%s",
		 (double)cl->clock.ns / 1e9, call->r->i,
		 call->is_all ? "all" : "some", call->name[0], call->away,
		 call->is_unheard ? ", unheard" : "");
	if (call->away > 0)
		remove_may_fail(call, "some nodes were away");
	/* What is put at a node before it joins there may go with the rest;
	 * keys go again, wherever some master did not reach a node. */
	cl->is_undone |= call->is_all ? call->away > 0 && call->is_unheard
				      : call->away > 0 || cl->is_afflicted;
	cl->is_stale |= call->is_unheard;
	if (call->away == 0 && cluster_is_promised(call) && !call->is_split &&
	    !cl->is_split)
		cluster_model_removed(call);
	/* A killed one gives nothing out before it knows. */
	if (cl->is_crashed && !call->is_unheard)
		cluster_model_removed(call);
	/* What is away gives it up before it is shown again. (A master that
	 * was not heard may have a removal of which this one does not know.) */
	if (call->is_all ? call->away == 0 || !call->is_unheard
			 : !call->is_unheard && has_all_nodes(cl))
		cluster_model_removes(call);
	remove_end(call);
}

static void
remove_failed(struct sim_call *call, int status)
{
	remove_may_fail(call, kv_status_text(status));
	/* It may be done yet, as soon as what is broken is mended. */
	call->r->cl->is_undone = true;
	remove_end(call);
}

static void
choose(struct sim_call *call)
{
	struct kv_hub *hub = &call->r->hub;

	if (!call->is_all)
		return;
	call->generation =
		kv_generation_next(kv_hub_generation(hub), kv_hub_seed(hub));
}

/* By number and by time, as the client. */
static bool
may_insist(struct sim_call *call)
{
	if (call->tries == 0)
		call->until = call->asked + DEADLINE_NS;
	return ++call->tries < LATE_TRIES &&
	       call->r->cl->clock.ns < call->until;
}

static void
take_generation(struct sim_call *call, const struct kv_remove_r *b)
{
	struct kv_generation g = kv_gentable_parse(&b->generation);

	call->is_begun = kv_generation_is_equal(g, call->generation);
	call->generation = g;
}

/* Who did it too, and reached more nodes, has done it there. */
static void
away_take(struct sim_call *call, const struct kv_remove_r *b)
{
	bool is_record = !call->is_begun && !call->is_partly;
	uint32_t away = kv_get32(b->away);

	if (is_record || b->flags != 0 ? away > call->away : away < call->away)
		call->away = away;
	if (!is_record)
		call->is_partly = b->flags != 0 || away > 0;
}

static void remove_ask(struct sim_call *call);
static void recorded(struct kv_ask *ask, int status, const struct kv_msg *msg);

/* The next master, if there is one, does it too. */
static void
record_next(struct sim_call *call)
{
	struct cluster *cl = call->r->cl;

	call->told += call->told == call->first;
	if (call->told >= (int)cl->o.masters) {
		remove_over(call);
		return;
	}
	call->asked = call->r->cl->clock.ns;
	call->ask = (struct kv_ask){
		.type = KV_MSG_REMOVE,
		.is_extra = true,
		.skip = ~(1u << call->told++),
		.deadline = cl->clock.ns + DEADLINE_NS,
		.try_ns = RELAY_NS,
		.build = remove_build,
		.fn = recorded,
	};
	kv_ask_start(call->r->ch, &call->ask);
}

/* This master began a higher one: the others come to that again. */
static bool
raise_all(struct sim_call *call)
{
	call->is_raised = false;
	call->first = call->told - 1;
	call->told = 0;
	return ++call->raises < LATE_TRIES;
}

static void
recorded(struct kv_ask *ask, int status, const struct kv_msg *msg)
{
	struct sim_call *call = KV_CONTAINER_OF(ask, struct sim_call, ask);
	const struct kv_remove_r *b = msg ? msg->body : NULL;

	(void)status;
	if (b)
		kv_hub_heard(&call->r->hub, kv_gentable_parse(&b->generation));
	if (b && b->status == KV_EBUSY && may_insist(call)) {
		choose(call);
		call->is_raised = true;
		call->told--;
		record_next(call);
		return;
	}
	if (b && b->status == KV_EBUSY) {
		remove_failed(call, -KV_EBUSY);
		return;
	}
	call->tries = 0;
	call->is_unheard |= !b || b->status != KV_OK;
	if (b)
		away_take(call, b);
	if (b && call->is_begun)
		take_generation(call, b);
	if (call->is_raised && !raise_all(call)) {
		remove_failed(call, -KV_EBUSY);
		return;
	}
	record_next(call);
}

static void
removed(struct kv_ask *ask, int status, const struct kv_msg *msg)
{
	struct sim_call *call = KV_CONTAINER_OF(ask, struct sim_call, ask);
	struct cluster *cl = call->r->cl;
	const struct kv_remove_r *b = msg ? msg->body : NULL;

	kv_debug("%.6f requester %u: remove all: %s",
		 (double)cl->clock.ns / 1e9, call->r->i,
		 kv_status_text(status));
	if (b)
		kv_hub_heard(&call->r->hub, kv_gentable_parse(&b->generation));
	if (b && b->status == KV_EBUSY && may_insist(call)) {
		remove_ask(call);
		return;
	}
	if (!b || b->status != KV_OK) {
		remove_failed(call, b ? -b->status : status);
		return;
	}
	if (call->is_all)
		take_generation(call, b);
	call->is_answered = true;
	call->away = kv_get32(b->away);
	call->is_partly = b->flags != 0 || call->away > 0;
	call->first = ask->master;
	record_next(call);
}

static void
remove_ask(struct sim_call *call)
{
	choose(call);
	call->is_answered = call->is_partly = false;
	call->told = 0;
	call->asked = call->r->cl->clock.ns;
	call->ask = (struct kv_ask){
		.type = KV_MSG_REMOVE,
		.deadline = call->r->cl->clock.ns + DEADLINE_NS,
		.try_ns = RELAY_NS,
		.build = remove_build,
		.fn = removed,
	};
	kv_ask_start(call->r->ch, &call->ask);
}

/* It goes on where it was asked for, for nobody knows how long. */
void
cluster_remove_abort(struct sim_requester *r)
{
	kv_ask_cancel(&r->call->ask);
	r->cl->n_removing--;
	cluster_lost(r->cl);
	cluster_call_free(kv_steal_ptr(&r->call));
}

void
cluster_remove_start(struct sim_call *call)
{
	call->is_all = kv_rng_below(&call->r->cl->rng, 3) > 0;
	call->r->cl->n_removing++;
	cluster_model_forget(call->r->cl);
	call->epoch = call->r->cl->epoch;
	remove_ask(call);
}

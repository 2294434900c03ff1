#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "clustercall.h"

/* A call may end so much after its deadline: a turn of the loop. */
#define SLACK_NS KV_NS_PER_MS

void
cluster_call_free(struct sim_call *call)
{
	unsigned i;

	kv_survey_fini(&call->survey);
	for (i = 0; i < call->n; i++) {
		if (call->is_registered[i])
			kv_ranges_del(&call->r->hub.ranges, call->bytes[i]);
		free(call->bytes[i]);
	}
	free(call);
}

/* A put waits for one of the same key by who cannot reach the node. */
static bool
is_prompt(const struct sim_call *call)
{
	return call->kind != CALL_REMOVE && cluster_is_promised(call) &&
	       call->r->is_alive && !call->r->cl->is_node_lost;
}

void
cluster_call_ended(struct sim_call *call)
{
	struct cluster *cl = call->r->cl;
	uint64_t took = cl->clock.ns - call->started;
	/* Each master has its time, and is asked again within that. */
	uint64_t masters = call->kind == CALL_REMOVE ? 2 * cl->o.masters : 1;

	if (took > DEADLINE_NS * masters + SLACK_NS ||
	    (is_prompt(call) && took > cl->patience_ns))
		cluster_forbid(cl, "requester %u: a call took %.6f s",
			       call->r->i, (double)took / 1e9);
	call->r->call = NULL;
	cluster_call_free(call);
}

static void
put_ended(struct kv_putop *op)
{
	struct sim_call *call = KV_CONTAINER_OF(op, struct sim_call, putop);
	unsigned i;

	for (i = 0; i < call->n; i++)
		cluster_judge_put(call, i);
	cluster_call_ended(call);
}

static void
get_ended(struct kv_getop *op)
{
	struct sim_call *call = KV_CONTAINER_OF(op, struct sim_call, getop);
	unsigned i;

	for (i = 0; i < call->n; i++)
		cluster_judge_get(call, i);
	cluster_call_ended(call);
}

static void
exist_ended(struct kv_survey *s, int status)
{
	struct sim_call *call = KV_CONTAINER_OF(s, struct sim_call, survey);
	unsigned i;

	for (i = 0; i < call->n; i++)
		cluster_judge_exist(call, i, status);
	cluster_call_ended(call);
}

/* With RDMA some memory is known to it before, and some is not. */
static void
memory_new(struct cluster *cl, struct sim_call *call, unsigned i, uint64_t size)
{
	call->bytes[i] = malloc(size + 1);
	assert(call->bytes[i]);
	call->is_registered[i] = cl->o.rdma && kv_rng_below(&cl->rng, 2);
	if (call->is_registered[i] &&
	    kv_ranges_add(&call->r->hub.ranges, call->bytes[i], size + 1) < 0)
		cluster_forbid(cl, "memory cannot be registered");
}

static void
put_prepare(struct cluster *cl, struct sim_call *call, unsigned i)
{
	uint64_t size = kv_rng_below(&cl->rng, cl->o.size_max);
	uint64_t cut;

	switch (kv_rng_below(&cl->rng, 8)) {
	case 0:
		size %= 64;
		break;
	case 1:
		size %= 20000;
		break;
	default:
		break;
	}
	if (size < sizeof(uint64_t))
		size = 0;
	call->tag[i] = cl->next_tag++;
	memory_new(cl, call, i, size);
	cluster_value_write(call->bytes[i], call->tag[i], size);
	cut = size ? kv_rng_below(&cl->rng, size) : 0;
	call->bufs[i][0] = (struct kv_buf){ call->bytes[i], cut };
	call->bufs[i][1] = (struct kv_buf){ call->bytes[i] + cut, size - cut };
	call->puts[i] = (struct kv_put_item){
		.key = { call->name[i], strlen(call->name[i]) },
		.bufs = call->bufs[i],
		.nbufs = 2,
	};
	cluster_model_put(call, i, size);
}

static void
get_prepare(struct cluster *cl, struct sim_call *call, unsigned i)
{
	uint64_t room = cl->o.size_max;
	uint64_t cut = kv_rng_below(&cl->rng, room);

	memory_new(cl, call, i, room);
	call->bufs[i][0] = (struct kv_buf){ call->bytes[i], cut };
	call->bufs[i][1] = (struct kv_buf){ call->bytes[i] + cut, room - cut };
	call->gets[i] = (struct kv_get_item){
		.key = { call->name[i], strlen(call->name[i]) },
		.bufs = call->bufs[i],
		.nbufs = 2,
	};
}

static struct sim_call *
call_new(struct cluster *cl, struct sim_requester *r, enum call_kind kind)
{
	struct sim_call *call = calloc(1, sizeof(*call));
	unsigned i;

	assert(call);
	call->r = r;
	call->kind = kind;
	call->started = cl->clock.ns;
	call->epoch = cl->epoch;
	call->is_parted = r->is_parted;
	call->is_split = cl->is_split;
	call->is_healthy = !cl->is_afflicted;
	call->n = 1 + (unsigned)kv_rng_below(&cl->rng, BATCH_MAX);
	for (i = 0; i < call->n; i++) {
		call->key[i] = (unsigned)kv_rng_below(&cl->rng, cl->o.keys);
		snprintf(call->name[i], sizeof(call->name[i]), "key-%u",
			 call->key[i]);
	}
	cluster_model_ask(call);
	r->call = call;
	return call;
}

/* One get of four believes to know where its keys lie. */
static const char *
believed(struct cluster *cl)
{
	static const char *const names[] = { "n0", "n1", "n2", "n3" };

	return kv_rng_below(&cl->rng, 4) ? NULL
					 : names[kv_rng_below(&cl->rng, 4)];
}

static void
call_start(struct cluster *cl, struct sim_requester *r, struct sim_call *call)
{
	uint64_t deadline = cl->clock.ns + DEADLINE_NS;
	unsigned i;

	for (i = 0; i < call->n; i++) {
		if (call->kind == CALL_PUT)
			put_prepare(cl, call, i);
		else if (call->kind == CALL_GET)
			get_prepare(cl, call, i);
		else if (call->kind == CALL_EXIST)
			call->exists[i].hash =
				kv_key_hash(r->hub.key_seed, call->name[i],
					    strlen(call->name[i]));
	}
	kv_loop_refresh(cl->loop);
	switch (call->kind) {
	case CALL_PUT:
		call->putop = (struct kv_putop){
			.items = call->puts,
			.n = call->n,
			.replicas = 1 + (unsigned)kv_rng_below(
						&cl->rng, cl->o.replicas_max),
			.deadline = deadline,
			.done = put_ended,
		};
		kv_putop_start(r->ch, &call->putop);
		break;
	case CALL_GET:
		call->getop = (struct kv_getop){
			.items = call->gets,
			.n = call->n,
			.prefer = believed(cl),
			.deadline = deadline,
			.done = get_ended,
		};
		kv_getop_start(r->ch, &call->getop);
		break;
	case CALL_EXIST:
		call->survey = (struct kv_survey){
			.keys = call->exists,
			.n = call->n,
			.exist_only = true,
			.deadline = deadline,
			.done = exist_ended,
		};
		kv_survey_start(r->ch, &call->survey);
		break;
	case CALL_REMOVE:
		cluster_remove_start(call);
		break;
	}
}

void
cluster_work(struct cluster *cl)
{
	struct sim_requester *r =
		&cl->requesters[kv_rng_below(&cl->rng, cl->o.requesters)];
	static const enum call_kind mix[] = { CALL_PUT, CALL_PUT, CALL_GET,
					      CALL_GET, CALL_GET, CALL_EXIST };
	enum call_kind kind;

	if (r->call)
		return;
	kind = mix[kv_rng_below(&cl->rng, 6)];
	/* With several masters one that stood still may end its removal long
	 * after another one has. */
	if (kv_rng_below(&cl->rng, 50) == 0)
		kind = CALL_REMOVE;
	call_start(cl, r, call_new(cl, r, kind));
}

void
cluster_call_abort(struct sim_requester *r)
{
	if (r->call->kind == CALL_PUT)
		kv_putop_abort(&r->call->putop, -KV_ECLOSED);
	else if (r->call->kind == CALL_GET)
		kv_getop_abort(&r->call->getop, -KV_ECLOSED);
	else if (r->call->kind == CALL_REMOVE)
		cluster_remove_abort(r);
	else
		cluster_call_free(kv_steal_ptr(&r->call));
}

static bool
is_idle(const struct cluster *cl)
{
	unsigned i;

	for (i = 0; i < cl->o.requesters; i++)
		if (cl->requesters[i].call)
			return false;
	return true;
}

void
cluster_drain(struct cluster *cl)
{
	uint64_t until = cl->clock.ns + (2 * MASTERS_MAX + 1) * DEADLINE_NS;

	while (!is_idle(cl)) {
		if (cl->clock.ns > until)
			cluster_forbid(cl, "a call hangs");
		cluster_run(cl, 10 * KV_NS_PER_MS);
	}
}

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "clustercore.h"
#include "svc/ask.h"
#include "svc/getop.h"
#include "svc/putop.h"
#include "svc/survey.h"

#define ATTEMPTS_MAX 1024 /* of one key that are remembered */
#define BATCH_MAX    6
/* A call may end so much after its deadline: a turn of the loop. */
#define SLACK_NS KV_NS_PER_MS

/* One attempt to put a key; the model's memory. */
struct attempt {
	uint64_t tag;
	uint64_t size;
	uint64_t stored;  /* when that was said; 0: never */
	uint64_t removed; /* with all others; 0: never */
	bool is_refused;  /* exists, no space, invalid: it never was */
};

struct sim_key {
	struct attempt attempts[ATTEMPTS_MAX];
	unsigned n;    /* in all; the last ATTEMPTS_MAX are kept */
	uint64_t must; /* tag that every get has to find; 0: none */
	bool is_seen;  /* there is a value, whichever */
	unsigned puts; /* under way */
};

enum call_kind {
	CALL_PUT,
	CALL_GET,
	CALL_EXIST,
	CALL_REMOVE, /* all */
};

struct sim_call {
	struct sim_requester *r;
	enum call_kind kind;
	uint64_t started;
	unsigned epoch;
	bool is_parted, is_split;
	unsigned n;
	unsigned key[BATCH_MAX];
	uint64_t must[BATCH_MAX]; /* tags that a get has to find */
	bool is_seen[BATCH_MAX];
	uint64_t tag[BATCH_MAX];
	char name[BATCH_MAX][32];
	struct kv_buf bufs[BATCH_MAX][2];
	char *bytes[BATCH_MAX];
	struct kv_put_item puts[BATCH_MAX];
	struct kv_get_item gets[BATCH_MAX];
	struct kv_survey_key exists[BATCH_MAX];
	struct kv_putop putop;
	struct kv_getop getop;
	struct kv_survey survey;
	struct kv_ask ask;
};

/* ---- the model ---- */

static void
value_write(char *p, uint64_t tag, uint64_t size)
{
	struct kv_rng r;
	uint64_t n = size < sizeof(tag) ? size : sizeof(tag);

	memcpy(p, &tag, n);
	kv_rng_seed(&r, tag);
	kv_rng_bytes(&r, p + n, size - n);
}

static bool
value_is(const char *p, uint64_t tag, uint64_t size, char *scratch)
{
	value_write(scratch, tag, size);
	return memcmp(p, scratch, size) == 0;
}

static struct attempt *
attempt_add(struct cluster *cl, unsigned key, uint64_t tag, uint64_t size)
{
	struct sim_key *m = &cl->model[key];
	struct attempt *a = &m->attempts[m->n++ % ATTEMPTS_MAX];

	*a = (struct attempt){ .tag = tag, .size = size };
	return a;
}

static struct attempt *
attempt_find(struct cluster *cl, unsigned key, uint64_t tag)
{
	struct sim_key *m = &cl->model[key];
	unsigned i, n = m->n < ATTEMPTS_MAX ? m->n : ATTEMPTS_MAX;

	for (i = 0; i < n; i++)
		if (m->attempts[i].tag == tag)
			return &m->attempts[i];
	return NULL;
}

struct sim_key *
cluster_keys_new(unsigned n)
{
	return calloc(n, sizeof(struct sim_key));
}

void
cluster_lost(struct cluster *cl)
{
	unsigned k;

	cl->is_quiet = false;
	cl->epoch++;
	for (k = 0; k < cl->o.keys; k++) {
		cl->model[k].must = 0;
		cl->model[k].is_seen = false;
	}
}

void
cluster_split(struct cluster *cl)
{
	struct sim_key *m;

	cl->is_split = true;
	for (m = cl->model; m < cl->model + cl->o.keys; m++) {
		m->is_seen |= m->must != 0;
		m->must = 0;
	}
}

/* What came of this call is bound by the promises. */
static bool
is_promised(const struct sim_call *call)
{
	const struct cluster *cl = call->r->cl;

	return cl->is_quiet && call->epoch == cl->epoch;
}

/* And it can reach every node. */
static bool
is_well(const struct sim_call *call)
{
	return is_promised(call) && !call->is_parted && !call->r->is_parted &&
	       call->r->is_alive;
}

/* The key has this value, and keeps it. */
static void
value_is_seen(struct sim_call *call, unsigned i, uint64_t tag)
{
	struct cluster *cl = call->r->cl;
	struct sim_key *m = &cl->model[call->key[i]];

	if (!is_promised(call))
		return;
	if (m->must == 0 && !cl->is_split && !call->is_split)
		m->must = tag;
	else if (m->must != 0 && m->must != tag)
		cluster_forbid(cl, "%s had value %llu, and has %llu",
			       call->name[i], (unsigned long long)m->must,
			       (unsigned long long)tag);
	m->is_seen = true;
}

/* ---- calls ---- */

static void
call_free(struct sim_call *call)
{
	unsigned i;

	kv_survey_fini(&call->survey);
	for (i = 0; i < call->n; i++)
		free(call->bytes[i]);
	free(call);
}

static bool
is_parted(const struct cluster *cl)
{
	unsigned i;

	for (i = 0; i < cl->o.requesters; i++)
		if (cl->requesters[i].is_parted)
			return true;
	return false;
}

static void
call_ended(struct sim_call *call)
{
	struct cluster *cl = call->r->cl;
	uint64_t took = cl->clock.ns - call->started;

	/* A put waits for one of the same key by who cannot reach the node. */
	if (took > DEADLINE_NS + SLACK_NS ||
	    (is_well(call) && !is_parted(cl) && took > cl->patience_ns))
		cluster_forbid(cl, "requester %u: a call took %.6f s",
			       call->r->i, (double)took / 1e9);
	call->r->call = NULL;
	call_free(call);
}

static void
put_judge(struct cluster *cl, struct sim_call *call, unsigned i)
{
	struct kv_put_item *it = &call->puts[i];
	struct attempt *a = attempt_find(cl, call->key[i], call->tag[i]);

	kv_debug("%.6f requester %u: put %s tag %llu: %s, %u copies",
		 (double)cl->clock.ns / 1e9, call->r->i, call->name[i],
		 (unsigned long long)call->tag[i], kv_status_text(it->status),
		 it->replicas);
	switch (-it->status) {
	case KV_OK:
		cl->puts++;
		if (it->replicas == 0)
			cluster_forbid(cl, "a put of %s succeeded nowhere",
				       call->name[i]);
		if (a)
			a->stored = cl->clock.ns;
		value_is_seen(call, i, call->tag[i]);
		break;
	case KV_EEXISTS:
		/* In bad times another value may have stayed only for as long
		 * as its owner lived. */
		if (a)
			a->is_refused = is_well(call) && !call->is_split &&
					!cl->is_split;
		break;
	case KV_ENOSPACE:
	case KV_EINVALID:
	case KV_ETOOBIG:
		if (a)
			a->is_refused = true;
		break;
	case KV_ETIMEOUT:
	case KV_ECLOSED:
	case KV_EUNREACHABLE:
	case KV_ECONNLOST:
	case KV_EBUSY:
	case KV_EGONE:
	case KV_ECANCELED:
		if (is_well(call))
			cluster_forbid(cl, "put of %s failed: %s",
				       call->name[i],
				       kv_status_text(it->status));
		break;
	default:
		cluster_forbid(cl, "put of %s: %s", call->name[i],
			       kv_status_text(it->status));
	}
}

static void
put_ended(struct kv_putop *op)
{
	struct sim_call *call = KV_CONTAINER_OF(op, struct sim_call, putop);
	unsigned i;

	for (i = 0; i < call->n; i++) {
		call->r->cl->model[call->key[i]].puts--;
		put_judge(call->r->cl, call, i);
	}
	call_ended(call);
}

static void
get_judge_hit(struct cluster *cl, struct sim_call *call, unsigned i)
{
	struct kv_get_item *it = &call->gets[i];
	struct sim_key *m = &cl->model[call->key[i]];
	char *scratch = malloc(cl->o.size_max + 16);
	const struct attempt *a = NULL;
	unsigned j, n = m->n < ATTEMPTS_MAX ? m->n : ATTEMPTS_MAX;

	assert(scratch);
	cl->hits++;
	for (j = 0; j < n && !a; j++)
		if (m->attempts[j].size == it->len && it->len > 0 &&
		    value_is(call->bytes[i], m->attempts[j].tag, it->len,
			     scratch))
			a = &m->attempts[j];
	free(scratch);
	if (it->len == 0) {
		/* The empty value has no tag. */
		cl->model[call->key[i]].is_seen |= is_promised(call);
		return;
	}
	if (!a) {
		cluster_forbid(cl, "get of %s gave %llu bytes that nobody put",
			       call->name[i], (unsigned long long)it->len);
		return;
	}
	if (a->is_refused)
		cluster_forbid(cl, "get of %s gave a value that was refused",
			       call->name[i]);
	if (a->removed && a->removed <= call->started)
		cluster_forbid(cl, "get of %s gave a value that was removed",
			       call->name[i]);
	if (it->size_total != it->len)
		cluster_forbid(cl, "get of %s gave a part", call->name[i]);
	value_is_seen(call, i, a->tag);
}

/* What a get may end with when it does not hit. */
static void
get_judge_failure(struct cluster *cl, const struct sim_call *call, unsigned i)
{
	int status = call->gets[i].status;

	switch (-status) {
	case KV_EMISS:
	case KV_EBUSY:
	case KV_ETIMEOUT:
	case KV_EUNREACHABLE:
	case KV_ECONNLOST:
	case KV_EGONE:
	case KV_ECLOSED: /* it was killed */
		break;
	default:
		cluster_forbid(cl, "get of %s: %s", call->name[i],
			       kv_status_text(status));
	}
	if ((call->must[i] || call->is_seen[i]) && is_well(call))
		cluster_forbid(cl, "get of %s lost it: %s", call->name[i],
			       kv_status_text(status));
}

static void
get_ended(struct kv_getop *op)
{
	struct sim_call *call = KV_CONTAINER_OF(op, struct sim_call, getop);
	struct cluster *cl = call->r->cl;
	unsigned i;

	for (i = 0; i < call->n; i++) {
		kv_debug("%.6f requester %u: get %s begun %.6f: %s",
			 (double)cl->clock.ns / 1e9, call->r->i, call->name[i],
			 (double)call->started / 1e9,
			 kv_status_text(call->gets[i].status));
		if (call->gets[i].status == 0)
			get_judge_hit(cl, call, i);
		else
			get_judge_failure(cl, call, i);
	}
	call_ended(call);
}

static void
exist_ended(struct kv_survey *s, int status)
{
	struct sim_call *call = KV_CONTAINER_OF(s, struct sim_call, survey);
	struct cluster *cl = call->r->cl;
	unsigned i;

	for (i = 0; i < call->n; i++) {
		kv_debug("%.6f requester %u: exist %s begun %.6f: %u",
			 (double)cl->clock.ns / 1e9, call->r->i, call->name[i],
			 (double)call->started / 1e9, call->exists[i].exists);
		/* One that is being put exists, but need not be found yet. */
		if (call->exists[i].exists)
			cl->model[call->key[i]].is_seen |=
				is_promised(call) &&
				cl->model[call->key[i]].puts == 0;
		else if ((call->must[i] || call->is_seen[i]) && is_well(call))
			cluster_forbid(cl, "%s is said not to exist (%s)",
				       call->name[i], kv_status_text(status));
	}
	call_ended(call);
}

/* ---- removing all ---- */

/* Nothing need be found, and no verdict counts, of what overlaps with it. */
static void
forget_all(struct cluster *cl)
{
	unsigned k;

	cl->epoch++;
	for (k = 0; k < cl->o.keys; k++) {
		cl->model[k].must = 0;
		cl->model[k].is_seen = false;
	}
}

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

/* What was stored before it began is not to be seen again, whatever happens
 * from now on. */
static void
removed_all(struct cluster *cl, const struct sim_call *call)
{
	struct attempt *a;
	unsigned k, i;

	cl->removals++;
	for (k = 0; k < cl->o.keys; k++)
		for (i = 0; i < ATTEMPTS_MAX; i++) {
			a = &cl->model[k].attempts[i];
			if (a->stored && a->stored < call->started &&
			    !a->removed)
				a->removed = cl->clock.ns;
		}
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
	    is_promised(call) && !call->is_split && !cl->is_split)
		removed_all(cl, call);
	forget_all(cl);
	call_ended(call);
}

/* It goes on where it was asked for, for nobody knows how long. */
static void
remove_abort(struct sim_requester *r)
{
	kv_ask_cancel(&r->call->ask);
	cluster_lost(r->cl);
	call_free(kv_steal_ptr(&r->call));
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
	call->bytes[i] = malloc(size + 1);
	assert(call->bytes[i]);
	value_write(call->bytes[i], call->tag[i], size);
	cut = size ? kv_rng_below(&cl->rng, size) : 0;
	call->bufs[i][0] = (struct kv_buf){ call->bytes[i], cut };
	call->bufs[i][1] = (struct kv_buf){ call->bytes[i] + cut, size - cut };
	call->puts[i] = (struct kv_put_item){
		.key = { call->name[i], strlen(call->name[i]) },
		.bufs = call->bufs[i],
		.nbufs = 2,
	};
	attempt_add(cl, call->key[i], call->tag[i], size);
	cl->model[call->key[i]].puts++;
}

static void
get_prepare(struct cluster *cl, struct sim_call *call, unsigned i)
{
	uint64_t room = cl->o.size_max;
	uint64_t cut = kv_rng_below(&cl->rng, room);

	call->bytes[i] = malloc(room);
	assert(call->bytes[i]);
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
	call->n = 1 + (unsigned)kv_rng_below(&cl->rng, BATCH_MAX);
	for (i = 0; i < call->n; i++) {
		call->key[i] = (unsigned)kv_rng_below(&cl->rng, cl->o.keys);
		call->must[i] = cl->model[call->key[i]].must;
		call->is_seen[i] = cl->model[call->key[i]].is_seen;
		snprintf(call->name[i], sizeof(call->name[i]), "key-%u",
			 call->key[i]);
	}
	r->call = call;
	return call;
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
		forget_all(cl);
		call->epoch = cl->epoch;
		call->ask = (struct kv_ask){
			.type = KV_MSG_REMOVE,
			.deadline = deadline,
			.try_ns = 4 * KV_NS_PER_S,
			.build = remove_build,
			.fn = remove_ended,
		};
		kv_ask_start(r->ch, &call->ask);
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
	if (cl->o.masters == 1 && kv_rng_below(&cl->rng, 100) == 0)
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
		remove_abort(r);
	else
		call_free(kv_steal_ptr(&r->call));
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
	uint64_t until = cl->clock.ns + 2 * DEADLINE_NS;

	while (!is_idle(cl)) {
		if (cl->clock.ns > until)
			cluster_forbid(cl, "a call hangs");
		cluster_run(cl, 10 * KV_NS_PER_MS);
	}
}

#include "cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "event/loop.h"
#include "simnet.h"
#include "svc/getop.h"
#include "svc/master.h"
#include "svc/node.h"
#include "svc/putop.h"
#include "svc/survey.h"

#define MASTERS_MAX    3
#define NODES_MAX      8
#define REQUESTERS_MAX 16
#define ATTEMPTS_MAX   1024 /* of one key that are remembered */
#define BATCH_MAX      6
#define DEADLINE_NS    (5 * KV_NS_PER_S)
/* A call may end so much after its deadline: a turn of the loop. */
#define SLACK_NS KV_NS_PER_MS

/* One attempt to put a key; the model's memory. */
struct attempt {
	uint64_t tag;
	uint64_t size;
	bool is_refused; /* exists, no space, invalid: it never was */
};

struct model_key {
	struct attempt attempts[ATTEMPTS_MAX];
	unsigned n;    /* in all; the last ATTEMPTS_MAX are kept */
	uint64_t must; /* tag that every get has to find; 0: none */
};

struct sim_master {
	char host[16];
	pid_t pid;
	struct kv_master *m; /* NULL: dead */
};

/* A pool lives as long as somebody maps it: here, to the end. */
struct sim_pool {
	struct sim_pool *next;
	struct kv_id boot;
	char *bytes;
};

struct sim_node {
	char host[16];
	char socket[40];
	pid_t pid;
	struct kv_node *node; /* NULL: dead */
};

struct requester {
	struct cluster *cl;
	unsigned i;
	const char *host;
	pid_t pid;
	bool is_alive;
	struct kv_hub hub;
	struct kv_chan *ch;
	struct call *call; /* one at a time */
};

enum call_kind {
	CALL_PUT,
	CALL_GET,
	CALL_EXIST,
};

struct call {
	struct requester *r;
	enum call_kind kind;
	uint64_t started;
	unsigned n;
	unsigned key[BATCH_MAX];
	uint64_t must[BATCH_MAX]; /* tags that a get has to find */
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
};

struct cluster {
	struct cluster_opts o;
	struct kv_clock clock;
	struct kv_loop *loop;
	struct simnet *net;
	struct kv_rng rng;
	pid_t next_pid;
	uint64_t next_tag;
	struct sim_master masters[MASTERS_MAX];
	struct sim_node nodes[NODES_MAX];
	struct requester requesters[REQUESTERS_MAX];
	struct sim_pool *pools;
	struct model_key *model;
	char master_list[64];
	bool is_quiet; /* nothing is broken: puts must be found */
	uint64_t hits, puts;
};

KV_PRINTF(2, 3)
static void
forbid(const struct cluster *cl, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr,
		"sim: seed %llu, at %.6f s: ", (unsigned long long)cl->o.seed,
		(double)cl->clock.ns / 1e9);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}

static struct kv_id
id_of(struct cluster *cl, unsigned kind)
{
	struct kv_id id;

	kv_rng_bytes(&cl->rng, &id, sizeof(id));
	id.b[0] = (uint8_t)kind;
	return id;
}

static struct kv_id
host_id(const char *host)
{
	struct kv_id id = { { 0 } };

	snprintf((char *)id.b, sizeof(id.b), "%s", host);
	return id;
}

/* ---- values ---- */

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
	struct model_key *m = &cl->model[key];
	struct attempt *a = &m->attempts[m->n++ % ATTEMPTS_MAX];

	*a = (struct attempt){ .tag = tag, .size = size };
	return a;
}

static struct attempt *
attempt_find(struct cluster *cl, unsigned key, uint64_t tag)
{
	struct model_key *m = &cl->model[key];
	unsigned i, n = m->n < ATTEMPTS_MAX ? m->n : ATTEMPTS_MAX;

	for (i = 0; i < n; i++)
		if (m->attempts[i].tag == tag)
			return &m->attempts[i];
	return NULL;
}

/* ---- processes ---- */

void
cluster_master_start(struct cluster *cl, unsigned i)
{
	struct sim_master *m = &cl->masters[i];
	struct kv_master_opts o = {
		.loop = cl->loop,
		.boot = id_of(cl, 'M'),
		.seed = kv_rng_u64(&cl->rng),
	};
	char listen[40], err[256] = "";

	if (m->m)
		return;
	m->pid = cl->next_pid++;
	snprintf(listen, sizeof(listen), "tcp:%s:50051", m->host);
	o.listen[0] = listen;
	o.net = simnet_process(cl->net, m->host, m->pid);
	m->m = kv_master_new(&o, err, sizeof(err));
	if (!m->m)
		forbid(cl, "master %u does not start: %s", i, err);
}

void
cluster_master_kill(struct cluster *cl, unsigned i)
{
	struct sim_master *m = &cl->masters[i];

	if (!m->m)
		return;
	simnet_process_exit(cl->net, m->pid);
	kv_master_free(m->m);
	m->m = NULL;
}

void
cluster_node_start(struct cluster *cl, unsigned i)
{
	struct sim_node *n = &cl->nodes[i];
	struct sim_pool *pool;
	struct kv_node_opts o = {
		.loop = cl->loop,
		.pool_bytes = cl->o.pool_bytes,
		.pool_fd = -1,
		.pool_fd_ro = -1,
		.name = n->host,
		.boot = id_of(cl, 'N'),
		.host = host_id(n->host),
		.seed = kv_rng_u64(&cl->rng),
	};
	char listen[40], local[48], err[256] = "";
	char masters[MASTERS_MAX][24];
	unsigned j;

	if (n->node)
		return;
	pool = calloc(1, sizeof(*pool));
	assert(pool);
	pool->bytes = calloc(1, cl->o.pool_bytes);
	assert(pool->bytes);
	pool->boot = o.boot;
	pool->next = cl->pools;
	cl->pools = pool;
	n->pid = cl->next_pid++;
	snprintf(listen, sizeof(listen), "tcp:%s:50052", n->host);
	snprintf(local, sizeof(local), "unix:%s", n->socket);
	o.listen[0] = listen;
	o.listen[1] = local;
	o.addr = listen + strlen("tcp:");
	o.pool = pool->bytes;
	for (j = 0; j < cl->o.masters; j++) {
		snprintf(masters[j], sizeof(masters[j]), "%s:50051",
			 cl->masters[j].host);
		o.masters[j] = masters[j];
	}
	o.net = simnet_process(cl->net, n->host, n->pid);
	n->node = kv_node_new(&o, err, sizeof(err));
	if (!n->node)
		forbid(cl, "node %u does not start: %s", i, err);
	kv_node_ready(n->node, 0, cl->o.pool_bytes);
	kv_node_ready_end(n->node);
}

static void
lost_something(struct cluster *cl)
{
	unsigned k;

	cl->is_quiet = false;
	for (k = 0; k < cl->o.keys; k++)
		cl->model[k].must = 0;
}

void
cluster_node_kill(struct cluster *cl, unsigned i)
{
	struct sim_node *n = &cl->nodes[i];

	if (!n->node)
		return;
	lost_something(cl);
	simnet_process_exit(cl->net, n->pid);
	kv_node_free(n->node);
	n->node = NULL;
}

/* ---- requesters ---- */

static int
sim_map(void *arg, struct kv_hub_map *map, bool write)
{
	struct cluster *cl = arg;
	struct sim_pool *p;

	for (p = cl->pools; p; p = p->next) {
		if (!kv_id_is_equal(p->boot, map->boot))
			continue;
		*(write ? &map->write : &map->read) = p->bytes;
		return 0;
	}
	return -1;
}

static void
sim_unmap(void *arg, struct kv_hub_map *map)
{
	(void)arg;
	(void)map;
}

static void
requester_start(struct cluster *cl, unsigned i)
{
	struct requester *r = &cl->requesters[i];
	/* The last one has no node beside it. */
	bool has_local = i + 1 < cl->o.requesters || cl->o.requesters == 1;
	unsigned n = i % cl->o.nodes;
	char local[48];
	struct kv_hub_opts o = {
		.masters = cl->master_list,
		.name = "sim",
		.boot = id_of(cl, 'R'),
		.rng_seed = kv_rng_u64(&cl->rng),
		.mapper = { .map = sim_map, .unmap = sim_unmap, .arg = cl },
	};

	r->host = has_local ? cl->nodes[n].host : "h-req";
	snprintf(local, sizeof(local), "unix:%s", cl->nodes[n].socket);
	r->cl = cl;
	r->i = i;
	r->pid = cl->next_pid++;
	r->is_alive = true;
	o.local = has_local ? local : NULL;
	o.host = host_id(r->host);
	o.net = simnet_process(cl->net, r->host, r->pid);
	if (kv_hub_init(&r->hub, &o) < 0)
		forbid(cl, "requester %u does not start", i);
	r->ch = kv_chan_new(&r->hub, cl->loop);
	assert(r->ch);
}

static void
call_free(struct call *call)
{
	unsigned i;

	kv_survey_fini(&call->survey);
	for (i = 0; i < call->n; i++)
		free(call->bytes[i]);
	free(call);
}

static void
requester_stop(struct cluster *cl, struct requester *r)
{
	unsigned i;

	if (!r->is_alive)
		return;
	r->is_alive = false;
	simnet_process_exit(cl->net, r->pid);
	/* The program's memory goes with it; here it is given up by hand. */
	if (r->call && r->call->kind == CALL_PUT)
		kv_putop_abort(&r->call->putop, -KV_ECLOSED);
	else if (r->call && r->call->kind == CALL_GET)
		kv_getop_abort(&r->call->getop, -KV_ECLOSED);
	else if (r->call)
		call_free(kv_steal_ptr(&r->call));
	kv_chan_free(r->ch);
	kv_hub_fini(&r->hub);
	for (i = 0; i < cl->o.nodes; i++)
		if (cl->nodes[i].node)
			kv_node_process_exit(cl->nodes[i].node, r->pid);
}

void
cluster_requester_kill(struct cluster *cl, unsigned i)
{
	requester_stop(cl, &cl->requesters[i]);
	requester_start(cl, i);
}

/* ---- calls ---- */

static void
call_ended(struct call *call)
{
	struct cluster *cl = call->r->cl;
	uint64_t took = cl->clock.ns - call->started;

	if (took > DEADLINE_NS + SLACK_NS)
		forbid(cl, "requester %u: a call took %.6f s", call->r->i,
		       (double)took / 1e9);
	call->r->call = NULL;
	call_free(call);
}

static void
put_judge(struct cluster *cl, struct call *call, unsigned i)
{
	struct kv_put_item *it = &call->puts[i];
	struct attempt *a = attempt_find(cl, call->key[i], call->tag[i]);
	struct model_key *m = &cl->model[call->key[i]];

	kv_debug("%.6f requester %u: put %s tag %llu: %s, %u copies",
		 (double)cl->clock.ns / 1e9, call->r->i, call->name[i],
		 (unsigned long long)call->tag[i], kv_status_text(it->status),
		 it->replicas);
	switch (-it->status) {
	case KV_OK:
		cl->puts++;
		if (it->replicas == 0)
			forbid(cl, "a put of %s succeeded nowhere",
			       call->name[i]);
		/* The first one that was told so is the one that stays. */
		if (cl->is_quiet && m->must == 0)
			m->must = call->tag[i];
		else if (cl->is_quiet && m->must != call->tag[i])
			forbid(cl, "two puts of %s succeeded", call->name[i]);
		break;
	case KV_EEXISTS:
		/* In bad times another value may have stayed only for as long
		 * as its owner lived. */
		if (a)
			a->is_refused = cl->is_quiet;
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
		if (cl->is_quiet && call->r->is_alive)
			forbid(cl, "put of %s failed in quiet times: %s",
			       call->name[i], kv_status_text(it->status));
		break;
	default:
		forbid(cl, "put of %s: %s", call->name[i],
		       kv_status_text(it->status));
	}
}

static void
put_ended(struct kv_putop *op)
{
	struct call *call = KV_CONTAINER_OF(op, struct call, putop);
	unsigned i;

	for (i = 0; i < call->n; i++)
		put_judge(call->r->cl, call, i);
	call_ended(call);
}

static void
get_judge_hit(struct cluster *cl, struct call *call, unsigned i)
{
	struct kv_get_item *it = &call->gets[i];
	struct model_key *m = &cl->model[call->key[i]];
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
	if (it->len == 0)
		return; /* the empty value has no tag */
	if (!a)
		forbid(cl, "get of %s gave %llu bytes that nobody put",
		       call->name[i], (unsigned long long)it->len);
	if (a->is_refused)
		forbid(cl, "get of %s gave a value that was refused",
		       call->name[i]);
	if (it->size_total != it->len)
		forbid(cl, "get of %s gave a part", call->name[i]);
	if (call->must[i] && cl->is_quiet && a->tag != call->must[i])
		forbid(cl, "get of %s gave another value than the put",
		       call->name[i]);
}

static void
get_ended(struct kv_getop *op)
{
	struct call *call = KV_CONTAINER_OF(op, struct call, getop);
	struct cluster *cl = call->r->cl;
	unsigned i;

	for (i = 0; i < call->n; i++) {
		kv_debug("%.6f requester %u: get %s begun %.6f: %s",
			 (double)cl->clock.ns / 1e9, call->r->i, call->name[i],
			 (double)call->started / 1e9,
			 kv_status_text(call->gets[i].status));
		if (call->gets[i].status == 0)
			get_judge_hit(cl, call, i);
		else if (call->must[i] && cl->is_quiet && call->r->is_alive)
			forbid(cl, "get of %s lost it: %s", call->name[i],
			       kv_status_text(call->gets[i].status));
	}
	call_ended(call);
}

static void
exist_ended(struct kv_survey *s, int status)
{
	struct call *call = KV_CONTAINER_OF(s, struct call, survey);
	struct cluster *cl = call->r->cl;
	unsigned i;

	for (i = 0; i < call->n; i++)
		if (call->must[i] && cl->is_quiet && !call->exists[i].exists)
			forbid(cl, "%s is said not to exist (%s)",
			       call->name[i], kv_status_text(status));
	call_ended(call);
}

static void
put_prepare(struct cluster *cl, struct call *call, unsigned i)
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
}

static void
get_prepare(struct cluster *cl, struct call *call, unsigned i)
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

static struct call *
call_new(struct cluster *cl, struct requester *r, enum call_kind kind)
{
	struct call *call = calloc(1, sizeof(*call));
	unsigned i;

	assert(call);
	call->r = r;
	call->kind = kind;
	call->started = cl->clock.ns;
	call->n = 1 + (unsigned)kv_rng_below(&cl->rng, BATCH_MAX);
	for (i = 0; i < call->n; i++) {
		call->key[i] = (unsigned)kv_rng_below(&cl->rng, cl->o.keys);
		call->must[i] = cl->model[call->key[i]].must;
		snprintf(call->name[i], sizeof(call->name[i]), "key-%u",
			 call->key[i]);
	}
	r->call = call;
	return call;
}

static void
call_start(struct cluster *cl, struct requester *r, struct call *call)
{
	uint64_t deadline = cl->clock.ns + DEADLINE_NS;
	unsigned i;

	for (i = 0; i < call->n; i++) {
		if (call->kind == CALL_PUT)
			put_prepare(cl, call, i);
		else if (call->kind == CALL_GET)
			get_prepare(cl, call, i);
		else
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
	}
}

void
cluster_work(struct cluster *cl)
{
	struct requester *r =
		&cl->requesters[kv_rng_below(&cl->rng, cl->o.requesters)];
	static const enum call_kind mix[] = { CALL_PUT, CALL_PUT, CALL_GET,
					      CALL_GET, CALL_GET, CALL_EXIST };

	if (r->call)
		return;
	call_start(cl, r, call_new(cl, r, mix[kv_rng_below(&cl->rng, 6)]));
}

void
cluster_run(struct cluster *cl, uint64_t ns)
{
	simnet_run(cl->net, cl->clock.ns + ns);
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
			forbid(cl, "a call hangs");
		cluster_run(cl, 10 * KV_NS_PER_MS);
	}
}

/* ---- misfortune ---- */

static const char *
host_of(struct cluster *cl, unsigned i)
{
	if (i < cl->o.masters)
		return cl->masters[i].host;
	i -= cl->o.masters;
	return i < cl->o.nodes ? cl->nodes[i].host : "h-req";
}

static const char *
host_any(struct cluster *cl)
{
	return host_of(cl, (unsigned)kv_rng_below(
				   &cl->rng, cl->o.masters + cl->o.nodes + 1));
}

void
cluster_fault(struct cluster *cl)
{
	unsigned node = (unsigned)kv_rng_below(&cl->rng, cl->o.nodes);
	unsigned master = (unsigned)kv_rng_below(&cl->rng, cl->o.masters);
	unsigned req = (unsigned)kv_rng_below(&cl->rng, cl->o.requesters);
	const char *a = host_any(cl), *b = host_any(cl);

	lost_something(cl);
	switch (kv_rng_below(&cl->rng, 12)) {
	case 0:
		cluster_node_kill(cl, node);
		break;
	case 1:
	case 2:
		cluster_node_start(cl, node);
		break;
	case 3:
		cluster_master_kill(cl, master);
		break;
	case 4:
	case 5:
		cluster_master_start(cl, master);
		break;
	case 6:
		cluster_requester_kill(cl, req);
		break;
	case 7:
		simnet_cut(cl->net, a, b);
		break;
	case 8:
		simnet_cut(cl->net, a, b);
		simnet_cut(cl->net, b, a);
		break;
	case 9:
		simnet_heal(cl->net, a, b);
		simnet_heal(cl->net, b, a);
		break;
	case 10:
		simnet_reset(cl->net, a, b);
		break;
	default:
		simnet_delay(cl->net, a, b,
			     kv_rng_below(&cl->rng, 300 * KV_NS_PER_MS));
		break;
	}
}

void
cluster_settle(struct cluster *cl)
{
	unsigned i, j, n = cl->o.masters + cl->o.nodes + 1;

	for (i = 0; i < n; i++) {
		for (j = 0; j < n; j++) {
			simnet_heal(cl->net, host_of(cl, i), host_of(cl, j));
			simnet_delay(cl->net, host_of(cl, i), host_of(cl, j),
				     0);
		}
	}
	for (i = 0; i < cl->o.masters; i++)
		cluster_master_start(cl, i);
	for (i = 0; i < cl->o.nodes; i++)
		cluster_node_start(cl, i);
	/* Dead sessions end, backed-off dials come, sickness is forgotten. */
	cluster_run(cl, 25 * KV_NS_PER_S);
	cluster_drain(cl);
	cl->is_quiet = true;
}

/* ---- agreement ---- */

struct agreement {
	struct kv_getop op;
	struct kv_get_item item;
	struct kv_buf buf;
	struct kv_survey survey;
	struct kv_survey_key exist;
	bool is_got, is_told;
};

static void
agreement_got(struct kv_getop *op)
{
	KV_CONTAINER_OF(op, struct agreement, op)->is_got = true;
}

static void
agreement_told(struct kv_survey *s, int status)
{
	(void)status;
	KV_CONTAINER_OF(s, struct agreement, survey)->is_told = true;
}

static void
read_one(struct cluster *cl, struct requester *r, const char *name,
	 struct agreement *a)
{
	uint64_t until = cl->clock.ns + 2 * DEADLINE_NS;

	kv_loop_refresh(cl->loop);
	a->item = (struct kv_get_item){ .key = { name, strlen(name) },
					.bufs = &a->buf,
					.nbufs = 1 };
	a->op = (struct kv_getop){ .items = &a->item,
				   .n = 1,
				   .deadline = cl->clock.ns + DEADLINE_NS,
				   .done = agreement_got };
	a->exist = (struct kv_survey_key){
		.hash = kv_key_hash(r->hub.key_seed, name, strlen(name))
	};
	a->survey = (struct kv_survey){ .keys = &a->exist,
					.n = 1,
					.exist_only = true,
					.deadline = cl->clock.ns + DEADLINE_NS,
					.done = agreement_told };
	a->is_got = a->is_told = false;
	kv_getop_start(r->ch, &a->op);
	kv_survey_start(r->ch, &a->survey);
	while (!a->is_got || !a->is_told) {
		if (cl->clock.ns > until)
			forbid(cl, "reading %s hangs", name);
		cluster_run(cl, KV_NS_PER_MS);
	}
	kv_survey_fini(&a->survey);
}

static void
key_check_agreement(struct cluster *cl, unsigned key, struct agreement *a,
		    struct agreement *first)
{
	char name[32];
	unsigned i;

	snprintf(name, sizeof(name), "key-%u", key);
	for (i = 0; i < cl->o.requesters; i++) {
		read_one(cl, &cl->requesters[i], name, i ? a : first);
		if (i == 0)
			continue;
		if (a->item.status != first->item.status)
			forbid(cl, "%s: requester 0 says %s, requester %u %s",
			       name, kv_status_text(first->item.status), i,
			       kv_status_text(a->item.status));
		if (a->item.status == 0 &&
		    (a->item.len != first->item.len ||
		     memcmp(a->buf.data, first->buf.data, a->item.len) != 0))
			forbid(cl,
			       "%s: requesters 0 and %u read different "
			       "values",
			       name, i);
		if (a->exist.exists != (a->item.status == 0))
			forbid(cl, "%s: exist says %u, get says %s", name,
			       a->exist.exists, kv_status_text(a->item.status));
	}
}

void
cluster_check_agreement(struct cluster *cl)
{
	struct agreement a = { 0 }, first = { 0 };
	unsigned key;

	a.buf = (struct kv_buf){ malloc(cl->o.size_max), cl->o.size_max };
	first.buf = (struct kv_buf){ malloc(cl->o.size_max), cl->o.size_max };
	assert(a.buf.data && first.buf.data);
	for (key = 0; key < cl->o.keys; key++)
		key_check_agreement(cl, key, &a, &first);
	free(a.buf.data);
	free(first.buf.data);
}

/* ---- life ---- */

struct cluster *
cluster_new(const struct cluster_opts *o)
{
	struct cluster *cl = calloc(1, sizeof(*cl));
	struct simnet_opts net = {
		.seed = o->seed,
		.latency_ns = 50 * KV_NS_PER_US,
		.jitter_ns = 100 * KV_NS_PER_US,
		.local_ns = 10 * KV_NS_PER_US,
		.bytes_per_ns = 10,
		.chunked = o->chunked,
	};
	size_t used = 0;
	unsigned i;

	assert(cl && o->masters <= MASTERS_MAX && o->nodes <= NODES_MAX &&
	       o->requesters <= REQUESTERS_MAX);
	kv_log_set_level(getenv("SIM_LOG") ? KV_LOG_DEBUG : KV_LOG_ERR);
	cl->o = *o;
	cl->clock = (struct kv_clock){ .is_virtual = true, .ns = KV_NS_PER_S };
	cl->loop = kv_loop_new(&cl->clock);
	cl->net = simnet_new(cl->loop, &cl->clock, &net);
	cl->model = calloc(o->keys, sizeof(*cl->model));
	assert(cl->loop && cl->model);
	kv_rng_seed(&cl->rng, o->seed);
	cl->next_pid = 100;
	cl->next_tag = 1;
	for (i = 0; i < o->masters; i++) {
		snprintf(cl->masters[i].host, 16, "m%u", i);
		used += (size_t)snprintf(cl->master_list + used,
					 sizeof(cl->master_list) - used,
					 "%sm%u:50051", i ? "," : "", i);
		cluster_master_start(cl, i);
	}
	for (i = 0; i < o->nodes; i++) {
		snprintf(cl->nodes[i].host, 16, "n%u", i);
		snprintf(cl->nodes[i].socket, sizeof(cl->nodes[i].socket),
			 "/n%u.sock", i);
		cluster_node_start(cl, i);
	}
	for (i = 0; i < o->requesters; i++)
		requester_start(cl, i);
	return cl;
}

/* With its requesters gone nothing is pinned or reserved at a node. */
static void
node_check_end(struct cluster *cl, unsigned i)
{
	struct kv_heartbeat room;

	if (!cl->nodes[i].node)
		return;
	kv_node_room(cl->nodes[i].node, &room);
	if (kv_get64(room.pinned_bytes) != 0)
		forbid(cl, "node %u: %llu bytes are pinned by nobody", i,
		       (unsigned long long)kv_get64(room.pinned_bytes));
}

static void
node_stopped(void *arg)
{
	*(bool *)arg = true;
}

static void
node_end(struct cluster *cl, unsigned i)
{
	bool is_stopped = false;
	uint64_t until = cl->clock.ns + 20 * KV_NS_PER_S;

	if (!cl->nodes[i].node)
		return;
	kv_node_stop(cl->nodes[i].node, node_stopped, &is_stopped);
	while (!is_stopped) {
		if (cl->clock.ns > until)
			forbid(cl, "node %u does not stop", i);
		cluster_run(cl, 10 * KV_NS_PER_MS);
	}
	simnet_process_exit(cl->net, cl->nodes[i].pid);
	kv_node_free(cl->nodes[i].node);
}

void
cluster_free(struct cluster *cl)
{
	struct sim_pool *p;
	unsigned i;

	for (i = 0; i < cl->o.requesters; i++)
		requester_stop(cl, &cl->requesters[i]);
	cluster_run(cl, 10 * KV_NS_PER_S);
	for (i = 0; i < cl->o.nodes; i++)
		node_check_end(cl, i);
	for (i = 0; i < cl->o.nodes; i++)
		node_end(cl, i);
	for (i = 0; i < cl->o.masters; i++)
		cluster_master_kill(cl, i);
	simnet_free(cl->net);
	kv_loop_free(cl->loop);
	while ((p = cl->pools)) {
		cl->pools = p->next;
		free(p->bytes);
		free(p);
	}
	free(cl->model);
	free(cl);
}

struct kv_rng *
cluster_rng(struct cluster *cl)
{
	return &cl->rng;
}

uint64_t
cluster_hits(const struct cluster *cl)
{
	return cl->hits;
}

uint64_t
cluster_puts(const struct cluster *cl)
{
	return cl->puts;
}

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "clustercall.h"

#define ATTEMPTS_MAX 1024 /* of one key that are remembered */

/* What came to a pool so short a time before its node was killed may have no
 * sum yet. */
#define UNSUMMED_NS (100 * KV_NS_PER_MS)
/* A master that was stopped says for a moment what it knew before. */
#define STALE_NS KV_NS_PER_S

/* One attempt to put a key; the model's memory. */
struct attempt {
	uint64_t tag;
	uint64_t size;
	uint64_t stored;  /* when that was said; 0: never */
	uint64_t removed; /* 0: never */
	bool is_orphan;   /* its requester was killed: it may be put later */
	bool is_refused;  /* exists, no space, invalid: it never was */
};

struct sim_key {
	struct attempt attempts[ATTEMPTS_MAX];
	unsigned n;       /* in all; the last ATTEMPTS_MAX are kept */
	uint64_t must;    /* tag that every get has to find; 0: none */
	bool is_seen;     /* there is a value, whichever */
	uint64_t since;   /* when that was known first */
	unsigned puts;    /* under way */
	uint64_t removal; /* the last one of which masters know: when it began;
			   * 0: none */
	bool is_all;      /* that one removed all */
};

void
cluster_value_write(char *p, uint64_t tag, uint64_t size)
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
	cluster_value_write(scratch, tag, size);
	return memcmp(p, scratch, size) == 0;
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

static void
key_forget(struct sim_key *m)
{
	m->must = 0;
	m->is_seen = false;
}

void
cluster_lost(struct cluster *cl)
{
	cl->is_quiet = false;
	cluster_model_forget(cl);
}

void
cluster_unsummed(struct cluster *cl)
{
	struct sim_key *m;

	for (m = cl->model; m < cl->model + cl->o.keys; m++)
		if (m->is_seen && cl->clock.ns < m->since + UNSUMMED_NS)
			key_forget(m);
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

bool
cluster_is_promised(const struct sim_call *call)
{
	const struct cluster *cl = call->r->cl;

	return cl->is_quiet && call->epoch == cl->epoch;
}

bool
cluster_is_well(const struct sim_call *call)
{
	return cluster_is_promised(call) && !call->is_parted &&
	       !call->r->is_parted && call->r->is_alive;
}

/* What it saw or put is there from now on. */
static bool
is_kept(const struct sim_call *call)
{
	const struct cluster *cl = call->r->cl;

	return cluster_is_promised(call) && !cl->is_undone &&
	       cl->n_removing == 0;
}

void
cluster_model_ask(struct sim_call *call)
{
	const struct sim_key *m;
	unsigned i;

	for (i = 0; i < call->n; i++) {
		m = &call->r->cl->model[call->key[i]];
		call->must[i] = m->must;
		call->is_seen[i] = m->is_seen;
	}
}

void
cluster_model_put(struct sim_call *call, unsigned i, uint64_t size)
{
	struct sim_key *m = &call->r->cl->model[call->key[i]];

	m->attempts[m->n++ % ATTEMPTS_MAX] =
		(struct attempt){ .tag = call->tag[i], .size = size };
	m->puts++;
}

static void
key_is_seen(const struct cluster *cl, struct sim_key *m)
{
	if (!m->is_seen)
		m->since = cl->clock.ns;
	m->is_seen = true;
}

/* The key has this value, and keeps it. */
static void
value_is_seen(struct sim_call *call, unsigned i, uint64_t tag)
{
	struct cluster *cl = call->r->cl;
	struct sim_key *m = &cl->model[call->key[i]];

	if (!is_kept(call))
		return;
	if (m->must == 0 && !cl->is_split && !call->is_split)
		m->must = tag;
	else if (m->must != 0 && m->must != tag)
		cluster_forbid(cl, "%s had value %llu, and has %llu",
			       call->name[i], (unsigned long long)m->must,
			       (unsigned long long)tag);
	key_is_seen(cl, m);
}

void
cluster_judge_put(struct sim_call *call, unsigned i)
{
	struct cluster *cl = call->r->cl;
	struct kv_put_item *it = &call->puts[i];
	struct attempt *a = attempt_find(cl, call->key[i], call->tag[i]);

	cl->model[call->key[i]].puts--;
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
		if (a)
			a->is_orphan = !call->r->is_alive;
		value_is_seen(call, i, call->tag[i]);
		break;
	case KV_EEXISTS:
		/* In bad times another value may have stayed only for as long
		 * as its owner lived. */
		if (a)
			a->is_refused = cluster_is_well(call) &&
					!call->is_split && !cl->is_split;
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
		if (cluster_is_well(call))
			cluster_forbid(cl, "put of %s failed: %s",
				       call->name[i],
				       kv_status_text(it->status));
		break;
	default:
		cluster_forbid(cl, "put of %s: %s", call->name[i],
			       kv_status_text(it->status));
	}
}

static const struct attempt *
value_find(const struct cluster *cl, unsigned key, const char *bytes,
	   uint64_t len)
{
	const struct sim_key *m = &cl->model[key];
	unsigned j, n = m->n < ATTEMPTS_MAX ? m->n : ATTEMPTS_MAX;
	char *scratch = malloc(cl->o.size_max + 16);
	const struct attempt *a = NULL;

	assert(scratch);
	for (j = 0; j < n && !a; j++)
		if (m->attempts[j].size == len && len > 0 &&
		    value_is(bytes, m->attempts[j].tag, len, scratch))
			a = &m->attempts[j];
	free(scratch);
	return a;
}

void
cluster_judge_bytes(const struct cluster *cl, unsigned key, const char *bytes,
		    uint64_t len)
{
	const struct attempt *a = value_find(cl, key, bytes, len);

	if (len > 0 && !a)
		cluster_forbid(cl, "key-%u has bytes that nobody put", key);
	if (a && a->removed)
		cluster_forbid(cl, "key-%u has what was removed", key);
}

static void
get_judge_hit(struct cluster *cl, struct sim_call *call, unsigned i)
{
	struct kv_get_item *it = &call->gets[i];
	struct sim_key *m = &cl->model[call->key[i]];
	const struct attempt *a;

	cl->hits++;
	a = value_find(cl, call->key[i], call->bytes[i], it->len);
	if (it->len == 0) {
		/* The empty value has no tag. */
		if (is_kept(call))
			key_is_seen(cl, m);
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
	if ((call->must[i] || call->is_seen[i]) && cluster_is_well(call))
		cluster_forbid(cl, "get of %s lost it: %s", call->name[i],
			       kv_status_text(status));
}

void
cluster_judge_get(struct sim_call *call, unsigned i)
{
	struct cluster *cl = call->r->cl;

	kv_debug("%.6f requester %u: get %s begun %.6f: %s",
		 (double)cl->clock.ns / 1e9, call->r->i, call->name[i],
		 (double)call->started / 1e9,
		 kv_status_text(call->gets[i].status));
	if (call->gets[i].status == 0)
		get_judge_hit(cl, call, i);
	else
		get_judge_failure(cl, call, i);
}

void
cluster_judge_exist(struct sim_call *call, unsigned i, int status)
{
	struct cluster *cl = call->r->cl;
	struct sim_key *m = &cl->model[call->key[i]];

	kv_debug("%.6f requester %u: exist %s begun %.6f: %u",
		 (double)cl->clock.ns / 1e9, call->r->i, call->name[i],
		 (double)call->started / 1e9, call->exists[i].exists);
	/* One that is being put exists, but need not be found yet. */
	if (call->exists[i].exists && is_kept(call) && m->puts == 0 &&
	    !cl->is_stale && cl->clock.ns > cl->thawed + STALE_NS)
		key_is_seen(cl, m);
	else if (!call->exists[i].exists &&
		 (call->must[i] || call->is_seen[i]) && cluster_is_well(call))
		cluster_forbid(cl, "%s is said not to exist (%s)",
			       call->name[i], kv_status_text(status));
}

/* ---- removals ---- */

void
cluster_model_forget(struct cluster *cl)
{
	unsigned k;

	cl->epoch++;
	for (k = 0; k < cl->o.keys; k++)
		key_forget(&cl->model[k]);
}

/* Of a killed requester only what goes with all others is told from what is
 * put later. */
static void
key_removed(struct sim_key *m, uint64_t began, bool is_all, uint64_t now)
{
	struct attempt *a;

	for (a = m->attempts; a < m->attempts + ATTEMPTS_MAX; a++)
		if (a->stored && a->stored < began && !a->removed &&
		    (is_all || !a->is_orphan))
			a->removed = now;
}

void
cluster_model_removed(const struct sim_call *call)
{
	struct cluster *cl = call->r->cl;
	unsigned i, n = call->is_all ? cl->o.keys : call->n;

	cl->removals++;
	for (i = 0; i < n; i++)
		key_removed(&cl->model[call->is_all ? i : call->key[i]],
			    call->started, call->is_all, cl->clock.ns);
}

void
cluster_model_removes(const struct sim_call *call)
{
	struct cluster *cl = call->r->cl;
	unsigned i, n = call->is_all ? cl->o.keys : call->n;
	struct sim_key *m;

	for (i = 0; i < n; i++) {
		m = &cl->model[call->is_all ? i : call->key[i]];
		m->removal = call->started;
		m->is_all = call->is_all;
	}
}

void
cluster_removals_done(struct cluster *cl)
{
	struct sim_key *m;

	for (m = cl->model; m < cl->model + cl->o.keys; m++)
		if (m->removal)
			key_removed(m, m->removal, m->is_all, cl->clock.ns);
	cluster_removals_forget(cl);
}

void
cluster_removals_forget(struct cluster *cl)
{
	struct sim_key *m;

	for (m = cl->model; m < cl->model + cl->o.keys; m++)
		m->removal = 0;
}

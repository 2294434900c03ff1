/* How cost grows with the keys that are held: pools of few keys and of many,
 * measured in turns. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sysexits.h>
#include <time.h>

#include "base/num.h"
#include "cmd/kvbench_run.h"

/* Beside the keys that are held, for what is put and goes again. */
#define ROOM_BYTES (1ull << 30)
/* Values of 4 KiB among those that are held, as many as half of them. */
#define SMALL_MAX  50000
#define EXIST_KEYS 32
#define LARGE_KEYS 100000

/* ---- the pools ---- */

static double
per_key(int64_t bytes, uint64_t n)
{
	return bytes < 0 ? 0 : (double)bytes / (double)n;
}

/* Of what is put from `first` on, and of how much it costs. */
static bool
hold(struct run *r, uint64_t n, bool is_watched)
{
	uint64_t n_small = kv_min_u64(SMALL_MAX, n / 2), tiny = n - n_small;
	struct kvbench_pool *p = r->pool;
	int64_t master = kvbench_own_bytes(&p->own.master);
	int64_t node = kvbench_own_bytes(&p->own.node);

	if (is_watched && tiny >= KVBENCH_MANY) {
		if (!kvbench_hold_watched(r, tiny) ||
		    !kvbench_hold(r, 0, n_small))
			return false;
	} else if (!kvbench_hold(r, tiny, n_small)) {
		return false;
	}
	/* Tables move on for a while after the last key. */
	nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
	master = kvbench_own_bytes(&p->own.master) - master;
	node = kvbench_own_bytes(&p->own.node) - node;
	p->master_bytes = per_key(master, n);
	p->node_bytes = per_key(node, n) - (double)r->b->key_len;
	if (p->node_bytes < 0)
		p->node_bytes = 0;
	return true;
}

static int
probes_open(struct run *r)
{
	struct kv_floor_probe_opts o = {
		.key_len = r->b->key_len,
		.ask_max = KVBENCH_ASK_MAX,
		.key = kvbench_key,
		.arg = r,
	};
	unsigned i;
	int rc;

	for (i = 0; i < r->n_pools; i++) {
		o.held = r->b->held[i];
		o.first = r->pools[i].first;
		rc = kv_floor_probe_open(&r->probes[i], &o);
		if (rc < 0) {
			kvbench_floor_failed("exist_100k", rc);
			return EX_OSERR;
		}
	}
	return 0;
}

/* Processes first: this one has no threads yet. */
int
kvbench_grow_open(struct run *r)
{
	unsigned i;
	int rc = kvbench_many_open(r);

	for (i = 0; rc == 0 && i < r->b->n_held; i++)
		rc = kvbench_pool_start(r, r->b->held[i] * KVBENCH_TINY_BYTES +
						   ROOM_BYTES);
	if (rc == 0)
		rc = probes_open(r);
	for (i = 0; rc == 0 && i < r->n_pools; i++) {
		r->pool = &r->pools[i];
		if (!hold(r, r->b->held[i], i + 1 == r->n_pools))
			rc = EX_UNAVAILABLE;
	}
	if (rc == 0)
		kvbench_pool_settle(r);
	return rc;
}

/* The pool is running, and others use it: one number of keys. */
int
kvbench_exist_open(struct run *r)
{
	int rc = kvbench_many_open(r);

	if (rc == 0)
		rc = kvbench_calls_open(r);
	if (rc == 0)
		rc = kvbench_pool_attach(r, &r->b->client);
	if (rc == 0)
		rc = probes_open(r);
	if (rc == 0 && !kvbench_hold(r, r->b->held[0], 0))
		rc = EX_UNAVAILABLE;
	return rc;
}

/* What was held in a pool of others is removed. */
void
kvbench_grow_close(struct run *r)
{
	unsigned i;

	for (i = 0; i < KVBENCH_POOLS_MAX; i++)
		kv_floor_probe_close(&r->probes[i]);
	if (r->pool && r->pool->c && !r->pool->own.master.name && r->ask) {
		r->pool->kept = r->pool->first;
		kvbench_drop(r);
	}
	kvbench_calls_close(r);
	kvbench_many_close(r);
}

/* ---- measurements ---- */

/* Millions of keys a second, half of them there, in calls of 100,000. */
static double
ask_many(struct run *r, int64_t (*ask)(struct run *r))
{
	uint64_t took = 0, n = 0;
	int64_t t;

	if (r->pool->held < KVBENCH_ASK_MAX / 2)
		return NAN;
	for (; took < r->b->time_ns; took += (uint64_t)t, n++) {
		kvbench_ask(r, KVBENCH_ASK_MAX, KVBENCH_ASK_MAX / 2);
		t = ask(r);
		if (t < 0)
			return -1;
	}
	return (double)(n * KVBENCH_ASK_MAX) * 1e3 / (double)took;
}

static int64_t
ask_pool(struct run *r)
{
	return kvbench_call_exist(r, KVBENCH_ASK_MAX, KVBENCH_ASK_MAX / 2);
}

static int64_t
ask_probe(struct run *r)
{
	struct kv_floor_probe *p = &r->probes[r->pool - r->pools];
	int64_t t = kv_floor_probe_ask(p, r->ask, KVBENCH_ASK_MAX, r->found);

	return t < 0 ? kvbench_floor_failed("exist_100k", t) : t;
}

double
kvbench_exist_100k(struct run *r)
{
	return ask_many(r, ask_pool);
}

double
kvbench_floor_exist_100k(struct run *r)
{
	return ask_many(r, ask_probe);
}

static int64_t
get_small(struct run *r)
{
	const struct kvbench_pool *p = r->pool;

	return kvbench_call_get(r,
				p->first + p->held - 1 -
					kv_rng_below(&r->rng, p->held_small));
}

static int64_t
exist_some(struct run *r)
{
	kvbench_ask(r, EXIST_KEYS, EXIST_KEYS / 2);
	return kvbench_call_exist(r, EXIST_KEYS, EXIST_KEYS / 2);
}

double
kvbench_grow_get_4k(struct run *r)
{
	return kvbench_median_us(r, get_small);
}

double
kvbench_grow_put_1000(struct run *r)
{
	return kvbench_median_us(r, kvbench_call_put_many);
}

double
kvbench_grow_get_1000(struct run *r)
{
	return kvbench_median_us(r, kvbench_call_get_many);
}

double
kvbench_grow_exist(struct run *r)
{
	return kvbench_median_us(r, exist_some);
}

static bool
is_last(const struct run *r)
{
	return r->pool + 1 == r->pools + r->n_pools;
}

double
kvbench_grow_stall(struct run *r)
{
	return is_last(r) ? r->stall_ms : NAN;
}

double
kvbench_grow_stall_bare(struct run *r)
{
	return is_last(r) ? r->stall_bare_ms : NAN;
}

/* Of few keys it would be what a daemon has in any case. */
static bool
is_large(const struct run *r)
{
	return is_last(r) || r->pool->held >= LARGE_KEYS;
}

double
kvbench_master_mem(struct run *r)
{
	return is_large(r) ? r->pool->master_bytes : NAN;
}

double
kvbench_node_mem(struct run *r)
{
	return is_large(r) ? r->pool->node_bytes : NAN;
}

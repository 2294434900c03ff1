/* Figures of short calls, beside chains of bare processes that pass on as many
 * bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/hist.h"
#include "cmd/kvbench_run.h"

#define EXIST_KEYS 32

double
kvbench_median_us(struct run *r, int64_t (*call)(struct run *r))
{
	uint64_t until = kvbench_now_ns() + r->b->time_ns;
	struct kv_hist h;
	int64_t t;

	kv_hist_init(&h);
	do {
		t = call(r);
		if (t < 0)
			return -1;
		kv_hist_add(&h, (uint64_t)t);
	} while (kvbench_now_ns() < until);
	return (double)kv_hist_percentile(&h, 50) / 1e3;
}

/* ---- the pool ---- */

int64_t
kvbench_call_put(struct run *r)
{
	uint64_t start;
	int rc;

	kvbench_key(r, kvbench_key_next(r), r->one_key);
	start = kvbench_now_ns();
	rc = kv_client_put_one(r->pool->c, r->one_key, r->b->key_len, r->value,
			       KVBENCH_SMALL_BYTES);
	if (rc < 0)
		return kvbench_failed("put", rc);
	return (int64_t)(kvbench_now_ns() - start);
}

int64_t
kvbench_call_get(struct run *r, uint64_t key)
{
	uint64_t start;
	int64_t rc;

	kvbench_key(r, key, r->one_key);
	start = kvbench_now_ns();
	rc = kv_client_get_one(r->pool->c, r->one_key, r->b->key_len, r->value,
			       KVBENCH_SMALL_BYTES, NULL);
	if (rc < 0)
		return kvbench_failed("get", (long)rc);
	return (int64_t)(kvbench_now_ns() - start);
}

int64_t
kvbench_call_exist(struct run *r, size_t n, size_t there)
{
	uint64_t start = kvbench_now_ns(), took;
	long rc = kv_client_exist(r->pool->c, r->ask, n, r->found, 0);

	took = kvbench_now_ns() - start;
	if (rc < 0)
		return kvbench_failed("exist", rc);
	if ((size_t)rc == there)
		return (int64_t)took;
	fprintf(stderr,
		"kvbench: exist: %ld of %zu keys are there: is the pool too "
		"small?\n",
		rc, there);
	return -1;
}

/* Nothing of it stays: it is removed when all rounds are over, so that no
 * removal's aftermath is in the way of a put. */
double
kvbench_put_4k(struct run *r)
{
	return kvbench_median_us(r, kvbench_call_put);
}

static int64_t
get_last(struct run *r)
{
	return kvbench_call_get(r, r->pool->next - 1);
}

double
kvbench_get_4k(struct run *r)
{
	return kvbench_call_put(r) < 0 ? -1 : kvbench_median_us(r, get_last);
}

static int64_t
exist_half(struct run *r)
{
	return kvbench_call_exist(r, EXIST_KEYS, EXIST_KEYS / 2);
}

/* Half of them are there. */
double
kvbench_exist_32(struct run *r)
{
	struct kvbench_pool *p = r->pool;
	uint64_t first = p->first, held = p->held;
	double us;

	p->first = p->next;
	p->held = EXIST_KEYS / 2;
	if (!kvbench_many_put(r, KVBENCH_TINY_BYTES, p->held, 1))
		return -1;
	kvbench_ask(r, EXIST_KEYS, EXIST_KEYS / 2);
	us = kvbench_median_us(r, exist_half);
	p->first = first;
	p->held = held;
	return us;
}

/* ---- the chains ---- */

static int64_t
chain_call(struct run *r)
{
	int64_t t = kv_floor_chain_round(r->chain);

	return t < 0 ? kvbench_floor_failed("a call", t) : t;
}

static double
chain_median(struct run *r, struct kv_floor_chain *c)
{
	r->chain = c;
	return kvbench_median_us(r, chain_call);
}

double
kvbench_floor_put_4k(struct run *r)
{
	return chain_median(r, &r->put_chain);
}

double
kvbench_floor_get_4k(struct run *r)
{
	return chain_median(r, &r->get_chain);
}

double
kvbench_floor_exist_32(struct run *r)
{
	return chain_median(r, &r->exist_chain);
}

double
kvbench_floor_put_awake(struct run *r)
{
	return chain_median(r, &r->put_awake);
}

double
kvbench_floor_get_awake(struct run *r)
{
	return chain_median(r, &r->get_awake);
}

double
kvbench_floor_exist_awake(struct run *r)
{
	return chain_median(r, &r->exist_awake);
}

/* One whose processes sleep, and one whose do not. */
static int
chains_open(struct kv_floor_chain *c, struct kv_floor_chain *awake,
	    struct kv_floor_hops hops)
{
	int rc = kv_floor_chain_open(c, &hops);

	hops.is_awake = true;
	return rc ? rc : kv_floor_chain_open(awake, &hops);
}

int
kvbench_calls_open(struct run *r)
{
	int rc = chains_open(
		&r->put_chain, &r->put_awake,
		kv_floor_hops_put(1, r->b->key_len, KVBENCH_SMALL_BYTES));

	if (rc == 0)
		rc = chains_open(
			&r->get_chain, &r->get_awake,
			kv_floor_hops_get(r->b->key_len, KVBENCH_SMALL_BYTES));
	if (rc == 0)
		rc = chains_open(&r->exist_chain, &r->exist_awake,
				 kv_floor_hops_exist(EXIST_KEYS));
	if (rc == 0)
		return 0;
	kvbench_floor_failed("short calls", rc);
	return EX_OSERR;
}

void
kvbench_calls_close(struct run *r)
{
	kv_floor_chain_close(&r->put_chain);
	kv_floor_chain_close(&r->get_chain);
	kv_floor_chain_close(&r->exist_chain);
	kv_floor_chain_close(&r->put_awake);
	kv_floor_chain_close(&r->get_awake);
	kv_floor_chain_close(&r->exist_awake);
}

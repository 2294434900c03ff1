/* Figures of short calls, beside chains of bare processes that pass on as many
 * bytes. */
#include <errno.h>
#include <stdlib.h>

#include "base/hist.h"
#include "cmd/kvbench_run.h"

#define EXIST_KEYS 32

/* Median of single calls, in microseconds; -1: one failed. */
static double
median_us(struct run *r, int64_t (*call)(struct run *r))
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

/* The first key of the batch, anew. */
static int64_t
small_put(struct run *r)
{
	uint64_t start;
	int rc;

	kvbench_key_renew(r, 0);
	start = kvbench_now_ns();
	rc = kv_client_put_one(r->c, r->keys, r->b->key_len,
			       kv_floor_private(r->floor), KVBENCH_SMALL_BYTES);
	if (rc < 0)
		return kvbench_failed("put", rc);
	return (int64_t)(kvbench_now_ns() - start);
}

static bool
small_remove(struct run *r)
{
	long rc = kv_client_remove(r->c, &r->puts[0].key, 1, 1, NULL, NULL);

	return rc >= 0 || kvbench_failed("remove", rc) >= 0;
}

static int64_t
call_put(struct run *r)
{
	int64_t t = small_put(r);

	return t < 0 || small_remove(r) ? t : -1;
}

static int64_t
call_get(struct run *r)
{
	uint64_t start = kvbench_now_ns();
	int64_t rc = kv_client_get_one(r->c, r->keys, r->b->key_len,
				       kv_floor_private(r->floor),
				       KVBENCH_SMALL_BYTES, NULL);

	if (rc < 0)
		return kvbench_failed("get", (long)rc);
	return (int64_t)(kvbench_now_ns() - start);
}

static int64_t
call_exist(struct run *r)
{
	uint64_t start = kvbench_now_ns();
	long rc = kv_client_exist(r->c, r->all, EXIST_KEYS, r->found, 0);

	if (rc < 0)
		return kvbench_failed("exist", rc);
	return (int64_t)(kvbench_now_ns() - start);
}

static double
put_4k(struct run *r)
{
	return median_us(r, call_put);
}

static double
get_4k(struct run *r)
{
	double us;

	if (small_put(r) < 0)
		return -1;
	us = median_us(r, call_get);
	return small_remove(r) ? us : -1;
}

static double
exist_32(struct run *r)
{
	return median_us(r, call_exist);
}

/* ---- the chains ---- */

static int64_t
call_put_chain(struct run *r)
{
	return kv_floor_chain_round(&r->put_chain);
}

static int64_t
call_get_chain(struct run *r)
{
	return kv_floor_chain_round(&r->get_chain);
}

static int64_t
call_exist_chain(struct run *r)
{
	return kv_floor_chain_round(&r->exist_chain);
}

static double
floor_put_4k(struct run *r)
{
	return median_us(r, call_put_chain);
}

static double
floor_get_4k(struct run *r)
{
	return median_us(r, call_get_chain);
}

static double
floor_exist_32(struct run *r)
{
	return median_us(r, call_exist_chain);
}

const struct kvbench_figure kvbench_calls[KVBENCH_CALLS] = {
	{ "local", "put_4k", "us", "chain", put_4k, floor_put_4k },
	{ "local", "get_4k", "us", "chain", get_4k, floor_get_4k },
	{ "local", "exist_32", "us", "chain", exist_32, floor_exist_32 },
};

/* The chains' frames are as long as the pool's: keys, a value, a status. */
int
kvbench_call_open(struct run *r)
{
	size_t key = r->b->key_len, i;
	int rc;

	r->all = calloc(EXIST_KEYS, sizeof(*r->all));
	r->found = calloc(EXIST_KEYS, 1);
	if (!r->all || !r->found)
		return -ENOMEM;
	for (i = 0; i < EXIST_KEYS; i++)
		r->all[i] = r->puts[i < r->b->batch ? i : 0].key;
	rc = kv_floor_chain_open(&r->put_chain, false,
				 100 + key + KVBENCH_SMALL_BYTES, 96, 64);
	if (rc == 0)
		rc = kv_floor_chain_open(&r->get_chain, false, 100 + key, 0,
					 80 + KVBENCH_SMALL_BYTES);
	if (rc == 0)
		rc = kv_floor_chain_open(&r->exist_chain, true,
					 40 + 16 * EXIST_KEYS, 0,
					 40 + EXIST_KEYS);
	return rc;
}

void
kvbench_call_close(struct run *r)
{
	kv_floor_chain_close(&r->put_chain);
	kv_floor_chain_close(&r->get_chain);
	kv_floor_chain_close(&r->exist_chain);
	free(r->all);
	free(r->found);
}

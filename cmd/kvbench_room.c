/* Figures of room: a pool that was never used, one that fills, one that is
 * full beside one that is empty. Pools of their own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "base/clock.h"
#include "base/num.h"
#include "cmd/kvbench_run.h"

#define FRESH_BYTES (4ull << 30)
#define FILL_BYTES  (1ull << 30)
/* Values of a KV block of two models. */
#define FILL_LARGE 3274752
#define FILL_SMALL 658432

/* ---- never used ---- */

int
kvbench_fresh_open(struct run *r)
{
	const struct kvbench_own_opts o = {
		.pool_bytes = r->b->pool_bytes ? r->b->pool_bytes : FRESH_BYTES,
		.host = "127.0.0.1",
		.netns = -1,
		.ttl_ns = r->b->ttl_ns,
	};
	int rc = kvbench_batch_open(r);

	if (rc == 0)
		rc = kvbench_many_open(r);
	if (rc == 0)
		rc = kvbench_pool_begin(r, &o);
	if (rc)
		return rc;
	if (o.pool_bytes / r->b->rounds < r->b->batch * r->b->size) {
		fprintf(stderr, "kvbench: put_fresh: the pool has no room for "
				"a batch each round\n");
		return EX_USAGE;
	}
	kvbench_sleep_until(r->pool->own.started_ns + r->b->age_ns);
	return 0;
}

/* Each batch goes where nothing was before; all rounds share the pool. */
double
kvbench_put_fresh(struct run *r)
{
	size_t bytes = r->b->batch * r->b->size;
	uint64_t n = r->pool->bytes / 20 * 19 / r->b->rounds / bytes;
	uint64_t took = 0, i, t;

	n = kv_max_u64(n, 1);
	for (i = 0; i < n; i++, took += t)
		if (!kvbench_batch_put(r, &t))
			return -1;
	return (double)(n * bytes) / (double)took;
}

void
kvbench_fresh_close(struct run *r)
{
	kvbench_batch_close(r);
	kvbench_many_close(r);
}

/* ---- filling ---- */

int
kvbench_fill_open(struct run *r)
{
	r->own = malloc(FILL_LARGE);
	if (!r->own)
		return EX_OSERR;
	memset(r->own, 7, FILL_LARGE);
	return kvbench_many_open(r);
}

void
kvbench_fill_close(struct run *r)
{
	free(r->own);
	r->own = NULL;
	kvbench_many_close(r);
}

static int
put_next(struct run *r, uint64_t i, uint64_t *bytes)
{
	int rc;

	*bytes = i % 2 ? FILL_SMALL : FILL_LARGE;
	kvbench_key(r, kvbench_key_next(r), r->one_key);
	rc = kv_client_put_one(r->pool->c, r->one_key, r->b->key_len, r->own,
			       *bytes);
	return rc < 0 ? kvbench_failed("fill", rc) : 0;
}

/* Percent of the pool that are values when the first one is evicted. As much
 * again must fit, then. */
static double
fill(struct run *r)
{
	uint64_t total = 0, i, last;
	double used;

	for (i = 0;; i++) {
		if (put_next(r, i, &last) < 0)
			return -1;
		if (kvbench_pool_stat(r, "evicted_keys") > 0)
			break;
		total += last;
		if (total > r->pool->bytes) {
			fprintf(stderr, "kvbench: fill: more than the pool\n");
			return -1;
		}
	}
	used = (double)total * 100 / (double)r->pool->bytes;
	for (; total > 0; i++) {
		if (put_next(r, i, &last) < 0)
			return -1;
		total -= kv_min_u64(total, last);
	}
	return used;
}

double
kvbench_fill(struct run *r)
{
	double used;

	if (kvbench_pool_start(r, FILL_BYTES))
		used = -1;
	else
		used = fill(r);
	return kvbench_pools_close(r) ? used : -1;
}

/* ---- full and empty ---- */

int
kvbench_full_open(struct run *r)
{
	int rc = kvbench_batch_open(r);

	if (rc == 0)
		rc = kvbench_many_open(r);
	if (rc == 0)
		rc = kvbench_pool_start(r, FILL_BYTES);
	return rc ? rc : kvbench_pool_start(r, FILL_BYTES);
}

void
kvbench_full_close(struct run *r)
{
	kvbench_batch_close(r);
	kvbench_many_close(r);
}

/* The second pool is the full one: full of what is put now. */
double
kvbench_full_put_4k(struct run *r)
{
	double us;

	if (r->pool != &r->pools[0] &&
	    !kvbench_many_put(r, KVBENCH_SMALL_BYTES,
			      r->pool->bytes / KVBENCH_SMALL_BYTES, 1))
		return -1;
	us = kvbench_put_4k(r);
	/* What is evicted need not be removed. */
	if (r->pool != &r->pools[0])
		r->pool->kept = r->pool->next;
	return us < 0 || kvbench_drop(r) ? us : -1;
}

/* Microseconds of one large object. */
double
kvbench_full_put_copy(struct run *r)
{
	uint64_t took = 0, n = 0, bytes = 0, t;
	bool is_empty = r->pool == &r->pools[0];

	for (; !is_empty && bytes < r->pool->bytes;
	     bytes += r->b->batch * r->b->size)
		if (!kvbench_batch_put(r, &t))
			return -1;
	for (; took < r->b->time_ns; took += t, n += r->b->batch) {
		if (!kvbench_batch_put(r, &t))
			return -1;
		if (is_empty && !kvbench_drop(r))
			return -1;
		r->pool->kept = r->pool->next;
	}
	return (double)took / (double)n / 1e3;
}

/* Calls of many tiny objects, one or several at once; keys that stay, and
 * questions for them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/num.h"
#include "base/status.h"
#include "cmd/kvbench_run.h"

#define WAIT_MS 1000
/* What bare processes have room for: 0.6 GB with keys of 130 bytes. */
#define BARE_KEYS_MAX (2u << 20)
/* Held while keys are published, in measurements. */
#define PUBLISH_HELD 4

/* ---- memory ---- */

static bool
many_make(struct run *r, struct kvbench_many *m)
{
	size_t len = r->b->key_len, i;

	m->keys = calloc(KVBENCH_MANY, len);
	m->puts = calloc(KVBENCH_MANY, sizeof(*m->puts));
	m->gets = calloc(KVBENCH_MANY, sizeof(*m->gets));
	m->bufs = calloc(KVBENCH_MANY, sizeof(*m->bufs));
	m->values = calloc(KVBENCH_MANY, KVBENCH_TINY_BYTES);
	if (!m->keys || !m->puts || !m->gets || !m->bufs || !m->values)
		return false;
	for (i = 0; i < KVBENCH_MANY; i++) {
		struct kv_key key = { m->keys + i * len, len };

		m->bufs[i] =
			(struct kv_buf){ m->values + i * KVBENCH_TINY_BYTES,
					 KVBENCH_TINY_BYTES };
		m->puts[i] = (struct kv_put_item){ .key = key, .nbufs = 1 };
		m->gets[i] = (struct kv_get_item){ .key = key,
						   .bufs = &m->bufs[i],
						   .nbufs = 1 };
	}
	return true;
}

int
kvbench_many_open(struct run *r)
{
	bool is_good;
	unsigned i;

	r->value = calloc(1, KVBENCH_SMALL_BYTES);
	r->one_key = calloc(1, r->b->key_len);
	r->ask = calloc(KVBENCH_ASK_MAX, sizeof(*r->ask));
	r->ask_keys = calloc(KVBENCH_ASK_MAX, r->b->key_len);
	r->found = calloc(KVBENCH_ASK_MAX, 1);
	is_good = r->value && r->one_key && r->ask && r->ask_keys && r->found;
	for (i = 0; i < KVBENCH_FLIGHT; i++)
		is_good = many_make(r, &r->many[i]) && is_good;
	if (is_good)
		return 0;
	fprintf(stderr, "kvbench: no memory for keys\n");
	return EX_OSERR;
}

void
kvbench_many_close(struct run *r)
{
	struct kvbench_many *m;

	for (m = r->many; m < r->many + KVBENCH_FLIGHT; m++) {
		free(m->keys);
		free(m->puts);
		free(m->gets);
		free(m->bufs);
		free(m->values);
	}
	memset(r->many, 0, sizeof(r->many));
	free(r->value);
	free(r->one_key);
	free(r->ask);
	free(r->ask_keys);
	free(r->found);
	r->value = r->one_key = r->ask_keys = NULL;
	r->ask = NULL;
	r->found = NULL;
}

/* ---- puts ---- */

static void
many_fill(struct run *r, struct kvbench_many *m, const struct kv_buf *value,
	  size_t n)
{
	size_t i;

	m->n = n;
	for (i = 0; i < n; i++) {
		kvbench_key(r, kvbench_key_next(r),
			    m->keys + i * r->b->key_len);
		m->puts[i].bufs = value;
	}
}

/* 0, or -kv_status of the call or of one of its keys. */
static long
many_check(const struct kvbench_many *m, long rc)
{
	size_t i;

	for (i = 0; rc >= 0 && i < m->n; i++)
		if (m->puts[i].status < 0)
			rc = m->puts[i].status;
	return rc < 0 ? rc : 0;
}

static long
many_wait(struct kvbench_many *m)
{
	long rc = 0;

	if (!m->op)
		return 0;
	while (kv_op_wait(m->op, WAIT_MS, &rc) == -KV_ETIMEOUT)
		;
	m->op = NULL;
	return many_check(m, rc);
}

bool
kvbench_many_put(struct run *r, size_t bytes, uint64_t n, unsigned flight)
{
	struct kv_buf value = { r->value, bytes };
	struct kvbench_many *m;
	unsigned i = 0;
	long rc = 0, end;

	while (n > 0 && rc == 0) {
		m = &r->many[i++ % flight];
		rc = many_wait(m);
		if (rc < 0)
			break;
		many_fill(r, m, &value, kv_min_u64(n, KVBENCH_MANY));
		n -= m->n;
		m->op = kv_client_put_submit(r->pool->c, m->puts, m->n, NULL);
		rc = m->op ? 0 : -KV_ENOMEM;
	}
	for (i = 0; i < flight; i++) {
		end = many_wait(&r->many[i]);
		rc = rc < 0 ? rc : end;
	}
	return rc == 0 || kvbench_failed("put", rc) >= 0;
}

/* As many keys as the bar has in the time of one measurement. */
static uint64_t
publish_keys(const struct run *r)
{
	return (uint64_t)((double)r->b->time_ns * 1e-3 * KVBENCH_PUBLISH_BAR);
}

/* Millions of keys a second, all of them known to the master. */
static double
publish(struct run *r, uint64_t n)
{
	uint64_t start = kvbench_now_ns();

	if (n > 0 &&
	    !kvbench_many_put(r, KVBENCH_TINY_BYTES, n, KVBENCH_FLIGHT))
		return -1;
	return (double)n * 1e3 / (double)(kvbench_now_ns() - start);
}

double
kvbench_publish_grow(struct run *r)
{
	return publish(r, publish_keys(r));
}

/* Some times as many keys are held meanwhile, so that tables have their size
 * and their memory. */
double
kvbench_publish(struct run *r)
{
	uint64_t n = publish_keys(r), held = PUBLISH_HELD * n;
	struct kvbench_pool *p = r->pool;
	double rate;

	rate = publish(r, held - kv_min_u64(p->next - p->kept, held));
	if (rate >= 0)
		rate = publish(r, n);
	if (rate < 0)
		return -1;
	return kvbench_drop_until(r, p->next - held) ? rate : -1;
}

/* The same by bare processes. */
double
kvbench_publish_bare(struct run *r)
{
	const struct kv_floor_publish_opts o = {
		.keys = KVBENCH_MANY,
		.flight = KVBENCH_FLIGHT,
		.key_len = r->b->key_len,
		.bytes = KVBENCH_TINY_BYTES,
		.keys_max = BARE_KEYS_MAX,
		.key = kvbench_key,
		.arg = r,
	};
	uint64_t keys;
	int64_t t = kv_floor_publish(&o, r->b->time_ns, &keys);

	if (t < 0)
		return kvbench_floor_failed("puts", t);
	return (double)keys * 1e3 / (double)t;
}

int64_t
kvbench_call_put_many(struct run *r)
{
	struct kv_buf value = { r->value, KVBENCH_TINY_BYTES };
	struct kvbench_many *m = &r->many[0];
	uint64_t start, took;
	long rc;

	many_fill(r, m, &value, KVBENCH_MANY);
	start = kvbench_now_ns();
	rc = kv_client_put(r->pool->c, m->puts, m->n, NULL);
	took = kvbench_now_ns() - start;
	rc = many_check(m, rc);
	return rc < 0 ? kvbench_failed("put", rc) : (int64_t)took;
}

/* ---- keys that stay ---- */

bool
kvbench_hold(struct run *r, uint64_t n, uint64_t n_small)
{
	struct kvbench_pool *p = r->pool;

	if (!kvbench_many_put(r, KVBENCH_TINY_BYTES, n, KVBENCH_FLIGHT) ||
	    !kvbench_many_put(r, KVBENCH_SMALL_BYTES, n_small, KVBENCH_FLIGHT))
		return false;
	p->held = p->next - p->first;
	p->held_small = n_small;
	p->kept = p->next;
	return true;
}

int64_t
kvbench_call_get_many(struct run *r)
{
	const struct kvbench_pool *p = r->pool;
	struct kvbench_many *m = &r->many[0];
	uint64_t start, took;
	size_t i;
	long rc;

	for (i = 0; i < KVBENCH_MANY; i++)
		kvbench_key(r,
			    p->first + kv_rng_below(&r->rng,
						    p->held - p->held_small),
			    m->keys + i * r->b->key_len);
	start = kvbench_now_ns();
	rc = kv_client_get(p->c, m->gets, KVBENCH_MANY, NULL);
	took = kvbench_now_ns() - start;
	for (i = 0; rc >= 0 && i < KVBENCH_MANY; i++)
		if (m->gets[i].status < 0)
			rc = m->gets[i].status;
	return rc < 0 ? kvbench_failed("get", rc) : (int64_t)took;
}

/* Keys that nobody has lie half of all numbers away. */
void
kvbench_ask(struct run *r, size_t n, size_t there)
{
	const struct kvbench_pool *p = r->pool;
	uint64_t key;
	size_t i;

	for (i = 0; i < n; i++) {
		char *at = r->ask_keys + i * r->b->key_len;

		key = p->first + kv_rng_below(&r->rng, p->held);
		if (kv_rng_below(&r->rng, n - i) < there)
			there--;
		else
			key ^= 1ull << 63;
		kvbench_key(r, key, at);
		r->ask[i] = (struct kv_key){ at, r->b->key_len };
	}
}

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/hist.h"
#include "base/num.h"
#include "base/status.h"
#include "cmd/kvbench_run.h"

#define SMALL_BYTES 4096
#define EXIST_KEYS  32
#define RATE_BYTES  1e9 /* GB/s */

/* One figure: a measurement and its floor, taken in turns. Both give what
 * stands in `unit`; NAN: failed, and a line was written. */
struct figure {
	const char *workload;
	const char *name;
	const char *unit;
	const char *floor_name;
	double (*measure)(struct run *r);
	double (*floor)(struct run *r);
};

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static double
failed(const char *what, long status)
{
	fprintf(stderr, "kvbench: %s: %s\n", what, kv_status_text((int)status));
	return -1;
}

static double
rate(uint64_t bytes, uint64_t ns)
{
	return ns > 0 ? (double)bytes / (double)ns * 1e9 / RATE_BYTES : 0;
}

static uint64_t
batch_bytes(const struct run *r)
{
	return r->b->batch * r->b->size;
}

/* ---- keys ---- */

static void
key_write(const struct run *r, char *key, uint64_t serial)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%016llx",
			 (unsigned long long)serial);

	memset(key, 'k', r->b->key_len);
	memcpy(key, text, (size_t)n);
}

/* Names for a batch that were never used. */
static void
keys_renew(struct run *r)
{
	size_t i;

	for (i = 0; i < r->b->batch; i++)
		key_write(r, r->keys + i * r->b->key_len, r->serial++);
}

static int
keys_remove(struct run *r)
{
	struct kv_key *k = calloc(r->b->batch, sizeof(*k));
	long rc = -KV_ENOMEM;
	size_t i;

	if (k) {
		for (i = 0; i < r->b->batch; i++)
			k[i] = r->puts[i].key;
		rc = kv_client_remove(r->c, k, r->b->batch, 1, NULL, NULL);
	}
	free(k);
	return rc < 0 ? (int)rc : 0;
}

/* ---- copy ---- */

/* Puts fresh batches for the time of a measurement; what it stored goes again,
 * outside of the time. */
static double
put_copy(struct run *r)
{
	uint64_t took = 0, n = 0, start;
	long rc;

	while (took < r->b->time_ns) {
		keys_renew(r);
		start = now_ns();
		rc = kvbench_batch_do(r, KVBENCH_PUT);
		took += now_ns() - start;
		if (rc < 0)
			return failed("put", rc);
		n++;
		rc = keys_remove(r);
		if (rc < 0)
			return failed("remove", rc);
	}
	return rate(n * batch_bytes(r), took);
}

/* A batch that is there, for the figures that read. */
static long
get_ready(struct run *r)
{
	keys_renew(r);
	return kvbench_batch_do(r, KVBENCH_PUT);
}

static double
get_copy(struct run *r)
{
	uint64_t start, took, n = 0;
	long rc = get_ready(r);

	if (rc < 0)
		return failed("put", rc);
	start = now_ns();
	do {
		rc = kvbench_batch_do(r, KVBENCH_GET);
		if (rc < 0)
			return failed("get", rc);
		took = now_ns() - start;
		n++;
	} while (took < r->b->time_ns);
	rc = keys_remove(r);
	if (rc < 0)
		return failed("remove", rc);
	return rate(n * batch_bytes(r), took);
}

/* Objects a second, in units of 1,000. */
static double
get_zero(struct run *r)
{
	uint64_t start, took, n = 0;
	long rc = get_ready(r);
	size_t i;

	if (rc < 0)
		return failed("put", rc);
	for (i = 0; i < r->b->batch; i++)
		r->views[i] = (struct kv_view){ .key = r->puts[i].key };
	start = now_ns();
	do {
		rc = kvbench_batch_do(r, KVBENCH_VIEW);
		if (rc < 0)
			return failed("view", rc);
		took = now_ns() - start;
		n++;
	} while (took < r->b->time_ns);
	rc = keys_remove(r);
	if (rc < 0)
		return failed("remove", rc);
	return (double)(n * r->b->batch) / (double)took * 1e6;
}

static double
floor_copy(struct run *r, enum kvbench_batch_op op)
{
	uint64_t start = now_ns(), took, n = 0;

	do {
		if (kvbench_batch_do(r, op) < 0)
			return failed("copy", -KV_ENOMEM);
		took = now_ns() - start;
		n++;
	} while (took < r->b->time_ns);
	return rate(n * batch_bytes(r), took);
}

static double
floor_put(struct run *r)
{
	return floor_copy(r, KVBENCH_COPY_IN);
}

static double
floor_get(struct run *r)
{
	return floor_copy(r, KVBENCH_COPY_OUT);
}

/* What a get by copying would give, in thousands of objects a second. */
static double
floor_zero(struct run *r)
{
	return floor_get(r) * RATE_BYTES / (double)r->b->size / 1e3;
}

static double
floor_stream(struct run *r)
{
	int64_t ns = kv_floor_stream(r->floor);

	return ns < 0 ? -1 : rate(batch_bytes(r), (uint64_t)ns);
}

/* ---- latency ---- */

/* Median of single calls, in microseconds; -1: one failed. */
static double
median_us(struct run *r, int64_t (*call)(struct run *r))
{
	uint64_t until = now_ns() + r->b->time_ns;
	struct kv_hist h;
	int64_t t;

	kv_hist_init(&h);
	do {
		t = call(r);
		if (t < 0)
			return -1;
		kv_hist_add(&h, (uint64_t)t);
	} while (now_ns() < until);
	return (double)kv_hist_percentile(&h, 50) / 1e3;
}

/* The first key of the batch, anew. */
static int64_t
small_put(struct run *r)
{
	uint64_t start;
	int rc;

	key_write(r, r->keys, r->serial++);
	start = now_ns();
	rc = kv_client_put_one(r->c, r->keys, r->b->key_len,
			       kv_floor_private(r->floor), SMALL_BYTES);
	if (rc < 0)
		return (int64_t)failed("put", rc);
	return (int64_t)(now_ns() - start);
}

static bool
small_remove(struct run *r)
{
	long rc = kv_client_remove(r->c, &r->puts[0].key, 1, 1, NULL, NULL);

	return rc >= 0 || failed("remove", rc) >= 0;
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
	uint64_t start = now_ns();
	int64_t rc = kv_client_get_one(r->c, r->keys, r->b->key_len,
				       kv_floor_private(r->floor), SMALL_BYTES,
				       NULL);

	if (rc < 0)
		return (int64_t)failed("get", (long)rc);
	return (int64_t)(now_ns() - start);
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

/* ---- exist ---- */

static int64_t
call_exist(struct run *r)
{
	uint64_t start = now_ns();
	long rc = kv_client_exist(r->c, r->all, EXIST_KEYS, r->found, 0);

	if (rc < 0)
		return (int64_t)failed("exist", rc);
	return (int64_t)(now_ns() - start);
}

static int64_t
call_exist_chain(struct run *r)
{
	return kv_floor_chain_round(&r->exist_chain);
}

static double
exist_32(struct run *r)
{
	return median_us(r, call_exist);
}

static double
floor_exist_32(struct run *r)
{
	return median_us(r, call_exist_chain);
}

/* ---- the table ---- */

static const struct figure figures[] = {
	{ "local", "put_copy", "GB/s", "copy", put_copy, floor_put },
	{ "local", "get_copy", "GB/s", "copy", get_copy, floor_get },
	{ "local", "get_zero", "k objects/s", "get by copy", get_zero,
	  floor_zero },
	{ "local", "put_4k", "us", "chain", put_4k, floor_put_4k },
	{ "local", "get_4k", "us", "chain", get_4k, floor_get_4k },
	{ "local", "exist_32", "us", "chain", exist_32, floor_exist_32 },
	{ "store", "tcp_put", "GB/s", "stream", put_copy, floor_stream },
	{ "store", "tcp_get", "GB/s", "stream", get_copy, floor_stream },
};

bool
kvbench_workload_is(const char *name)
{
	size_t i;

	for (i = 0; i < KV_ARRAY_LEN(figures); i++)
		if (strcmp(figures[i].workload, name) == 0)
			return true;
	return false;
}

/* Whether it is one of the names, separated by commas. */
static bool
is_named(const char *names, const char *name)
{
	size_t len = strlen(name);
	const char *p = names;

	for (; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strncmp(p, name, len) == 0 &&
		    (p[len] == 0 || p[len] == ','))
			return true;
	return false;
}

bool
kvbench_figures_are(const char *names)
{
	const char *p = names;
	size_t i, known = 0, n = 1;

	for (; *p; p++)
		n += *p == ',';
	for (i = 0; i < KV_ARRAY_LEN(figures); i++)
		known += is_named(names, figures[i].name);
	return known == n;
}

static bool
is_wanted(const struct kvbench *b, const struct figure *f)
{
	return strcmp(f->workload, b->workload) == 0 &&
	       (!b->only || is_named(b->only, f->name));
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static bool
figure_take(struct run *r, const struct figure *f)
{
	double value[KVBENCH_ROUNDS_MAX] = { 0 };
	double floor[KVBENCH_ROUNDS_MAX] = { 0 };
	struct kvbench_result *res = &r->b->results[r->b->n_results];
	unsigned i, n = r->b->rounds;

	f->measure(r); /* once for the caches, the page tables, the links */
	for (i = 0; i < n; i++) {
		floor[i] = f->floor(r);
		value[i] = f->measure(r);
		if (value[i] < 0 || floor[i] < 0)
			return false;
	}
	*res = (struct kvbench_result){
		.name = f->name,
		.unit = f->unit,
		.floor_name = f->floor_name,
		.value = median(value, n),
		.floor = median(floor, n),
	};
	res->ratio = res->value / res->floor;
	r->b->n_results++;
	return true;
}

/* ---- set-up ---- */

static bool
items_make(struct run *r)
{
	size_t n = r->b->batch, i;
	char *value = kv_floor_private(r->floor);

	r->keys = calloc(n, r->b->key_len);
	r->bufs = calloc(n, sizeof(*r->bufs));
	r->puts = calloc(n, sizeof(*r->puts));
	r->gets = calloc(n, sizeof(*r->gets));
	r->views = calloc(n, sizeof(*r->views));
	r->all = calloc(EXIST_KEYS, sizeof(*r->all));
	r->found = calloc(EXIST_KEYS, 1);
	if (!r->keys || !r->bufs || !r->puts || !r->gets || !r->views ||
	    !r->all || !r->found)
		return false;
	for (i = 0; i < n; i++) {
		struct kv_key key = { r->keys + i * r->b->key_len,
				      r->b->key_len };

		r->bufs[i] =
			(struct kv_buf){ value + i * r->b->size, r->b->size };
		r->puts[i] = (struct kv_put_item){ .key = key,
						   .bufs = &r->bufs[i],
						   .nbufs = 1 };
		r->gets[i] = (struct kv_get_item){ .key = key,
						   .bufs = &r->bufs[i],
						   .nbufs = 1 };
		if (i < EXIST_KEYS)
			r->all[i] = key;
	}
	for (; i < EXIST_KEYS; i++)
		r->all[i] = r->all[0];
	return true;
}

static void
run_free(struct run *r)
{
	kv_client_close(r->c);
	kv_floor_chain_close(&r->put_chain);
	kv_floor_chain_close(&r->get_chain);
	kv_floor_chain_close(&r->exist_chain);
	kv_floor_free(r->floor);
	free(r->keys);
	free(r->all);
	free(r->found);
	free(r->bufs);
	free(r->puts);
	free(r->gets);
	free(r->views);
}

/* The chains' frames are as long as the pool's: keys, a value, a status. */
static int
run_open(struct run *r)
{
	struct kvbench *b = r->b;
	struct kv_client_opts o = b->client;
	char err[512];

	r->floor = kv_floor_new(kv_max_size(b->batch * b->size, SMALL_BYTES));
	if (!r->floor || !items_make(r)) {
		fprintf(stderr, "kvbench: no memory for %zu objects\n",
			b->batch);
		return EX_OSERR;
	}
	if (kv_floor_chain_open(&r->put_chain, false,
				100 + b->key_len + SMALL_BYTES, 96, 64) < 0 ||
	    kv_floor_chain_open(&r->get_chain, false, 100 + b->key_len, 0,
				80 + SMALL_BYTES) < 0 ||
	    kv_floor_chain_open(&r->exist_chain, true, 40 + 16 * EXIST_KEYS, 0,
				40 + EXIST_KEYS) < 0) {
		fprintf(stderr, "kvbench: cannot start the floors: %m\n");
		return EX_OSERR;
	}
	if (strcmp(b->workload, "store") == 0)
		o.socket = ""; /* as if there were no node on this host */
	r->c = kv_client_open(&o, err, sizeof(err));
	if (!r->c) {
		fprintf(stderr, "kvbench: %s\n", err);
		return EX_UNAVAILABLE;
	}
	r->serial = now_ns() << 20;
	return 0;
}

int
kvbench_run(struct kvbench *b)
{
	struct run r = {
		.b = b,
		.put_chain.fd = -1,
		.get_chain.fd = -1,
		.exist_chain.fd = -1,
	};
	int rc = run_open(&r);
	size_t i;

	kv_progress_init(&r.progress, STDERR_FILENO, b->quiet, now_ns());
	r.progress.keys = KV_ARRAY_LEN(figures);
	for (i = 0; rc == 0 && i < KV_ARRAY_LEN(figures); i++) {
		if (is_wanted(b, &figures[i]) && !figure_take(&r, &figures[i]))
			rc = EX_UNAVAILABLE;
		kv_progress_update(&r.progress, i + 1, 0, now_ns());
	}
	kv_progress_clear(&r.progress);
	run_free(&r);
	return rc;
}

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "cmd/kvbench_run.h"

#define FIGURES (KVBENCH_COPIES + KVBENCH_CALLS)

uint64_t
kvbench_now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

int
kvbench_failed(const char *what, long status)
{
	fprintf(stderr, "kvbench: %s: %s\n", what, kv_status_text((int)status));
	return -1;
}

/* The serial number as text, and a tail of k. */
void
kvbench_key_renew(struct run *r, size_t i)
{
	char *key = r->keys + i * r->b->key_len;
	char text[32];
	int n = snprintf(text, sizeof(text), "%016llx",
			 (unsigned long long)r->serial++);

	memset(key, 'k', r->b->key_len);
	memcpy(key, text, (size_t)n);
}

/* ---- figures ---- */

static const struct kvbench_figure *
figure(size_t i)
{
	return i < KVBENCH_COPIES ? &kvbench_copies[i]
				  : &kvbench_calls[i - KVBENCH_COPIES];
}

bool
kvbench_workload_is(const char *name)
{
	size_t i;

	for (i = 0; i < FIGURES; i++)
		if (strcmp(figure(i)->workload, name) == 0)
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
	for (i = 0; i < FIGURES; i++)
		known += is_named(names, figure(i)->name);
	return known == n;
}

static bool
is_wanted(const struct kvbench *b, const struct kvbench_figure *f)
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
figure_take(struct run *r, const struct kvbench_figure *f)
{
	double value[KVBENCH_ROUNDS_MAX] = { 0 };
	double floor[KVBENCH_ROUNDS_MAX] = { 0 };
	struct kvbench_result *res = &r->b->results[r->b->n_results];
	unsigned i, n = r->b->rounds;

	/* Once for the caches, the page tables, the links. */
	if (f->measure(r) < 0)
		return false;
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
	if (!r->keys || !r->bufs || !r->puts || !r->gets || !r->views)
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
	}
	return true;
}

static void
run_free(struct run *r)
{
	kv_client_close(r->c);
	kvbench_call_close(r);
	kv_floor_free(r->floor);
	free(r->keys);
	free(r->bufs);
	free(r->puts);
	free(r->gets);
	free(r->views);
}

static int
run_open(struct run *r)
{
	struct kvbench *b = r->b;
	struct kv_client_opts o = b->client;
	char err[512];
	int rc;

	r->floor = kv_floor_new(
		kv_max_size(b->batch * b->size, KVBENCH_SMALL_BYTES));
	if (!r->floor || !items_make(r)) {
		fprintf(stderr, "kvbench: no memory for %zu objects\n",
			b->batch);
		return EX_OSERR;
	}
	rc = kvbench_call_open(r);
	if (rc < 0) {
		fprintf(stderr, "kvbench: cannot start the floors: %s\n",
			strerror(-rc));
		return EX_OSERR;
	}
	if (strcmp(b->workload, "store") == 0)
		o.socket = ""; /* as if there were no node on this host */
	o.status = &rc;
	r->c = kv_client_open(&o, err, sizeof(err));
	if (!r->c) {
		fprintf(stderr, "kvbench: %s\n", err);
		return kv_status_exit(rc);
	}
	r->serial = kvbench_now_ns() << 20;
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

	kv_progress_init(&r.progress, STDERR_FILENO, b->quiet,
			 kvbench_now_ns());
	r.progress.keys = FIGURES;
	for (i = 0; rc == 0 && i < FIGURES; i++) {
		if (is_wanted(b, figure(i)) && !figure_take(&r, figure(i)))
			rc = EX_UNAVAILABLE;
		kv_progress_update(&r.progress, i + 1, 0, kvbench_now_ns());
	}
	kv_progress_clear(&r.progress);
	run_free(&r);
	return rc;
}

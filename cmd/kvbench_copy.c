/* Figures of many bytes: batches of large objects, beside copies. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/num.h"
#include "cmd/kvbench_run.h"

double
kvbench_bytes_rate(const struct run *r, double ns)
{
	return ns < 0 ? -1 : (double)(r->b->batch * r->b->size) / ns;
}

/* Thousands of objects a second. */
static double
objects_rate(const struct run *r, double ns)
{
	return ns < 0 ? -1 : (double)r->b->batch / ns * 1e6;
}

/* ---- a batch ---- */

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
		r->views[i] = (struct kv_view){ .key = key };
	}
	return true;
}

int
kvbench_batch_open(struct run *r)
{
	struct kv_floor_opts o = { .bytes = r->b->size, .pieces = r->b->batch };
	char err[512] = "no memory for keys";

	if (r->pool)
		o.hugepages = kvbench_pool_stat(r, "page_bytes") >
			      sysconf(_SC_PAGESIZE);
	r->floor = kv_floor_new(&o, err, sizeof(err));
	if (r->floor && items_make(r))
		return 0;
	fprintf(stderr, "kvbench: objects and floor of a batch: %s\n", err);
	return EX_OSERR;
}

void
kvbench_batch_close(struct run *r)
{
	kv_floor_free(r->floor);
	free(r->keys);
	free(r->bufs);
	free(r->puts);
	free(r->gets);
	free(r->views);
	r->floor = NULL;
	r->keys = NULL;
	r->bufs = NULL;
	r->puts = NULL;
	r->gets = NULL;
	r->views = NULL;
}

bool
kvbench_batch_put(struct run *r, uint64_t *ns)
{
	uint64_t start;
	size_t i;
	long rc;

	for (i = 0; i < r->b->batch; i++)
		kvbench_key(r, kvbench_key_next(r),
			    r->keys + i * r->b->key_len);
	start = kvbench_now_ns();
	rc = kv_client_put(r->pool->c, r->puts, r->b->batch, NULL);
	*ns = kvbench_now_ns() - start;
	for (i = 0; rc >= 0 && i < r->b->batch; i++)
		if (r->puts[i].status < 0)
			rc = r->puts[i].status;
	return rc >= 0 || kvbench_failed("put", rc) >= 0;
}

static long
batch_get(struct run *r, struct kv_client *c)
{
	long rc = kv_client_get(c, r->gets, r->b->batch, NULL);
	size_t i;

	for (i = 0; rc >= 0 && i < r->b->batch; i++)
		if (r->gets[i].status < 0)
			rc = r->gets[i].status;
	return rc;
}

static long
batch_view(struct run *r, struct kv_client *c)
{
	long rc = kv_client_view(c, r->views, r->b->batch, 0);
	size_t i;

	for (i = 0; rc >= 0 && i < r->b->batch; i++)
		if (r->views[i].status < 0)
			rc = r->views[i].status;
	if (rc >= 0)
		kv_client_release(c, r->views, r->b->batch);
	return rc;
}

/* ---- measurements: ns for a batch ---- */

/* Of a batch that is in the pool meanwhile. */
static double
repeat(struct run *r, struct kv_client *c,
       long (*fn)(struct run *r, struct kv_client *c), const char *what)
{
	uint64_t start, took, n = 0;
	long rc;

	if (!kvbench_batch_put(r, &took))
		return -1;
	start = kvbench_now_ns();
	do {
		rc = fn(r, c);
		if (rc < 0)
			return kvbench_failed(what, rc);
		took = kvbench_now_ns() - start;
		n++;
	} while (took < r->b->time_ns);
	return kvbench_drop(r) ? (double)took / (double)n : -1;
}

double
kvbench_copies(struct run *r, const struct kv_floor *f, bool into_shared,
	       const uint32_t *to)
{
	struct kv_floor_copies how = {
		.into_shared = into_shared,
		.to = to,
		.threads = r->b->threads,
	};
	uint64_t took[2] = { 0 }, n = 0;
	int64_t t;

	do {
		how.by_libc = n++ % 2;
		t = kv_floor_copy(f, &how);
		if (t < 0)
			return kvbench_floor_failed("copies", t);
		took[how.by_libc] += (uint64_t)t;
	} while (n % 2 || took[0] + took[1] < r->b->time_ns);
	return (double)kv_min_u64(took[0], took[1]) * 2 / (double)n;
}

/* What it stored goes again, outside of the time. */
double
kvbench_put_copy(struct run *r)
{
	uint64_t took = 0, n = 0, t;

	for (; took < r->b->time_ns; took += t, n++)
		if (!kvbench_batch_put(r, &t) || !kvbench_drop(r))
			return -1;
	return kvbench_bytes_rate(r, (double)took / (double)n);
}

double
kvbench_get_copy(struct run *r)
{
	return kvbench_bytes_rate(r, repeat(r, r->pool->c, batch_get, "get"));
}

double
kvbench_get_copy_mt(struct run *r)
{
	return kvbench_bytes_rate(r, repeat(r, r->twice, batch_get, "get"));
}

double
kvbench_get_zero(struct run *r)
{
	return objects_rate(r, repeat(r, r->pool->c, batch_view, "view"));
}

double
kvbench_floor_in(struct run *r)
{
	return kvbench_bytes_rate(r, kvbench_copies(r, r->floor, true, NULL));
}

double
kvbench_floor_out(struct run *r)
{
	return kvbench_bytes_rate(r, kvbench_copies(r, r->floor, false, NULL));
}

/* What gets by copying give. */
double
kvbench_floor_zero(struct run *r)
{
	return objects_rate(r, repeat(r, r->pool->c, batch_get, "get"));
}

/* Figures of many bytes: batches of large objects, by the floor's copies. */
#include <stdlib.h>

#include "base/status.h"
#include "cmd/kvbench_run.h"

/* Of ns for a batch: GB/s. */
static double
bytes_rate(const struct run *r, double ns)
{
	return ns < 0 ? -1 : (double)(r->b->batch * r->b->size) / ns;
}

/* Of the same: thousands of objects a second. */
static double
objects_rate(const struct run *r, double ns)
{
	return ns < 0 ? -1 : (double)r->b->batch / ns * 1e6;
}

/* ---- batches ---- */

static void
batch_renew(struct run *r)
{
	size_t i;

	for (i = 0; i < r->b->batch; i++)
		kvbench_key_renew(r, i);
}

static int
batch_remove(struct run *r)
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
	return rc < 0 ? kvbench_failed("remove", rc) : 0;
}

/* Does it again and again for the time of a measurement. Returns ns for a
 * batch; -1: failed, and a line was written. */
static double
repeat(struct run *r, enum kvbench_batch_op op, const char *what)
{
	uint64_t start = kvbench_now_ns(), took, n = 0;
	long rc;

	do {
		rc = kvbench_batch_do(r, op);
		if (rc < 0)
			return kvbench_failed(what, rc);
		took = kvbench_now_ns() - start;
		n++;
	} while (took < r->b->time_ns);
	return (double)took / (double)n;
}

/* The same with a batch that is in the pool meanwhile. */
static double
repeat_stored(struct run *r, enum kvbench_batch_op op, const char *what)
{
	double ns;
	size_t i;
	long rc;

	batch_renew(r);
	rc = kvbench_batch_do(r, KVBENCH_PUT);
	if (rc < 0)
		return kvbench_failed("put", rc);
	for (i = 0; i < r->b->batch; i++)
		r->views[i] = (struct kv_view){ .key = r->puts[i].key };
	ns = repeat(r, op, what);
	return ns < 0 ? ns : batch_remove(r) < 0 ? -1 : ns;
}

/* ---- measurements ---- */

/* What it stored goes again, outside of the time. */
static double
put_copy(struct run *r)
{
	uint64_t took = 0, n = 0, start;
	long rc;

	while (took < r->b->time_ns) {
		batch_renew(r);
		start = kvbench_now_ns();
		rc = kvbench_batch_do(r, KVBENCH_PUT);
		took += kvbench_now_ns() - start;
		if (rc < 0)
			return kvbench_failed("put", rc);
		n++;
		if (batch_remove(r) < 0)
			return -1;
	}
	return bytes_rate(r, (double)took / (double)n);
}

static double
get_copy(struct run *r)
{
	return bytes_rate(r, repeat_stored(r, KVBENCH_GET, "get"));
}

static double
get_zero(struct run *r)
{
	return objects_rate(r, repeat_stored(r, KVBENCH_VIEW, "view"));
}

static double
floor_put(struct run *r)
{
	return bytes_rate(r, repeat(r, KVBENCH_COPY_IN, "copy"));
}

static double
floor_get(struct run *r)
{
	return bytes_rate(r, repeat(r, KVBENCH_COPY_OUT, "copy"));
}

/* What a get by copying would give. */
static double
floor_zero(struct run *r)
{
	return objects_rate(r, repeat(r, KVBENCH_COPY_OUT, "copy"));
}

static double
floor_stream(struct run *r)
{
	return bytes_rate(r, (double)kv_floor_stream(r->floor));
}

const struct kvbench_figure kvbench_copies[KVBENCH_COPIES] = {
	{ "local", "put_copy", "GB/s", "copy", put_copy, floor_put },
	{ "local", "get_copy", "GB/s", "copy", get_copy, floor_get },
	{ "local", "get_zero", "k objects/s", "get by copy", get_zero,
	  floor_zero },
	{ "store", "tcp_put", "GB/s", "stream", put_copy, floor_stream },
	{ "store", "tcp_get", "GB/s", "stream", get_copy, floor_stream },
};

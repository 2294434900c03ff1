#include <assert.h>
#include <pthread.h>

#include "base/num.h"
#include "cmd/kvbench_run.h"

/* Does n objects of the batch, from one on. 0 or -kv_status. */
typedef long slice_fn(struct run *r, size_t from, size_t n);

static long
put_slice(struct run *r, size_t from, size_t n)
{
	long rc = kv_client_put(r->c, r->puts + from, n, NULL);
	size_t i;

	for (i = from; rc >= 0 && i < from + n; i++)
		if (r->puts[i].status < 0)
			return r->puts[i].status;
	return rc < 0 ? rc : 0;
}

static long
get_slice(struct run *r, size_t from, size_t n)
{
	long rc = kv_client_get(r->c, r->gets + from, n, NULL);
	size_t i;

	for (i = from; rc >= 0 && i < from + n; i++)
		if (r->gets[i].status < 0)
			return r->gets[i].status;
	return rc < 0 ? rc : 0;
}

static long
view_slice(struct run *r, size_t from, size_t n)
{
	long rc = kv_client_view(r->c, r->views + from, n, 0);
	size_t i;

	for (i = from; rc >= 0 && i < from + n; i++)
		if (r->views[i].status < 0)
			return r->views[i].status;
	if (rc >= 0)
		kv_client_release(r->c, r->views + from, n);
	return rc < 0 ? rc : 0;
}

static long
copy_in_slice(struct run *r, size_t from, size_t n)
{
	size_t i;

	for (i = from; i < from + n; i++)
		kv_floor_copy(r->floor, true, i * r->b->size, r->b->size);
	return 0;
}

static long
copy_out_slice(struct run *r, size_t from, size_t n)
{
	size_t i;

	for (i = from; i < from + n; i++)
		kv_floor_copy(r->floor, false, i * r->b->size, r->b->size);
	return 0;
}

struct slice {
	pthread_t thread;
	struct run *r;
	slice_fn *fn;
	size_t from;
	size_t n;
	long rc;
};

static void *
slice_run(void *arg)
{
	struct slice *s = arg;

	s->rc = s->fn(s->r, s->from, s->n);
	return NULL;
}

/* The calling thread is the first. */
long
kvbench_batch_do(struct run *r, enum kvbench_batch_op op)
{
	static slice_fn *const fns[] = {
		[KVBENCH_PUT] = put_slice,
		[KVBENCH_GET] = get_slice,
		[KVBENCH_VIEW] = view_slice,
		[KVBENCH_COPY_IN] = copy_in_slice,
		[KVBENCH_COPY_OUT] = copy_out_slice,
	};
	struct slice s[KVBENCH_THREADS_MAX];
	size_t n = kv_min_size(r->b->threads, r->b->batch), made, i;
	long rc;

	assert(n > 0);
	for (i = 0; i < n; i++)
		s[i] = (struct slice){
			.r = r,
			.fn = fns[op],
			.from = i * r->b->batch / n,
			.n = (i + 1) * r->b->batch / n - i * r->b->batch / n,
		};
	for (made = 1; made < n; made++)
		if (pthread_create(&s[made].thread, NULL, slice_run, &s[made]))
			break;
	slice_run(&s[0]);
	rc = made < n ? -KV_ENOMEM : s[0].rc;
	for (i = 1; i < made; i++) {
		pthread_join(s[i].thread, NULL);
		if (rc == 0)
			rc = s[i].rc;
	}
	return rc;
}

#include "mem/faulter.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/num.h"
#include "base/thread.h"
#include "mem/seg.h"

#define CHUNK_BYTES (UINT64_C(32) << 20)

struct kv_faulter {
	struct kv_faulter_opts o;
	uint64_t chunks;
	unsigned threads;

	pthread_mutex_t lock; /* guards what follows and the callbacks */
	bool stop;
	uint64_t next;      /* chunk that nobody took yet */
	uint64_t announced; /* chunks that ready() was called for */
	int err;            /* 0, or what chunk err_at met */
	uint64_t err_at;
	bool *done; /* by chunk */
	pthread_t thread[];
};

static uint64_t
chunk_len(const struct kv_faulter *f, uint64_t i)
{
	uint64_t off = i * f->o.chunk_bytes;

	return kv_min_u64(f->o.chunk_bytes, f->o.seg->bytes - off);
}

/* Announces what is there without a gap; then, if that is next, the failure. */
static void
announce(struct kv_faulter *f)
{
	uint64_t off;

	while (!f->stop && f->announced < f->chunks && f->done[f->announced]) {
		off = f->announced * f->o.chunk_bytes;
		f->o.ready(f->o.arg, off, chunk_len(f, f->announced));
		f->announced++;
	}
	if (!f->stop && f->err && f->announced == f->err_at) {
		f->stop = true;
		f->o.failed(f->o.arg, f->err_at * f->o.chunk_bytes, f->err);
	}
}

static void
chunk_done(struct kv_faulter *f, uint64_t i, int err)
{
	KV_LOCKED(&f->lock) {
		if (!err) {
			f->done[i] = true;
		} else if (!f->err || i < f->err_at) {
			f->err = err;
			f->err_at = i;
		}
		announce(f);
	}
}

static bool
chunk_take(struct kv_faulter *f, uint64_t *i)
{
	bool more = false;

	KV_LOCKED(&f->lock) {
		more = !f->stop && !f->err && f->next < f->chunks;
		if (more)
			*i = f->next++;
	}
	return more;
}

static void *
fault_in(void *arg)
{
	struct kv_faulter *f = arg;
	uint64_t i;

	while (chunk_take(f, &i))
		chunk_done(f, i,
			   kv_seg_populate(f->o.seg, i * f->o.chunk_bytes,
					   chunk_len(f, i)));
	return NULL;
}

static int
start_threads(struct kv_faulter *f, unsigned n)
{
	int rc = 0;

	for (; f->threads < n && rc == 0; f->threads += rc == 0)
		rc = kv_thread_start(&f->thread[f->threads], KV_THREAD_ANY_CPU,
				     fault_in, f);
	/* Fewer than wanted is slower, no failure. */
	return f->threads ? 0 : rc;
}

int
kv_faulter_start(const struct kv_faulter_opts *o, struct kv_faulter **out)
{
	unsigned threads = o->threads ? o->threads : 1;
	struct kv_faulter *f =
		calloc(1, sizeof(*f) + threads * sizeof(f->thread[0]));
	int rc;

	if (!f)
		return -ENOMEM;
	f->o = *o;
	if (!f->o.chunk_bytes)
		f->o.chunk_bytes = CHUNK_BYTES;
	assert(f->o.chunk_bytes % o->seg->page_bytes == 0);
	f->chunks = kv_div_up_u64(o->seg->bytes, f->o.chunk_bytes);
	f->done = calloc(f->chunks, sizeof(f->done[0]));
	if (!f->done || KV_FAULT_POINT()) {
		free(f->done);
		free(f);
		return -ENOMEM;
	}
	pthread_mutex_init(&f->lock, NULL);
	rc = start_threads(f, threads);
	if (rc) {
		kv_faulter_stop(f);
		return rc;
	}
	*out = f;
	return 0;
}

void
kv_faulter_stop(struct kv_faulter *f)
{
	unsigned i;

	if (!f)
		return;
	KV_LOCKED(&f->lock)
		f->stop = true;
	for (i = 0; i < f->threads; i++)
		pthread_join(f->thread[i], NULL);
	pthread_mutex_destroy(&f->lock);
	free(f->done);
	free(f);
}

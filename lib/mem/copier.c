#include "mem/copier.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/num.h"
#include "base/thread.h"
#include "mem/copy.h"

/* What a thread takes at once. */
#define PART_BYTES ((size_t)512 << 10)

enum {
	PARTS_EACH = 2, /* fewer are not worth another thread */
	THREADS_USUAL_MAX = 4,
};

/* One call, on its caller's stack. */
struct job {
	struct kv_list link; /* in c->jobs while parts may be left */
	const struct kv_copier_piece *pieces;
	size_t n;
	size_t parts;
	atomic_size_t next; /* part that nobody has taken */
	unsigned helpers;   /* at it; under the lock */
};

struct kv_copier {
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t work;  /* a job came, or closing */
	pthread_cond_t done;  /* a helper left its job */
	struct kv_list jobs;
	bool closing;
	unsigned idle; /* threads that wait for work */
	unsigned threads;
	unsigned threads_max;
	pthread_t ids[];
};

unsigned
kv_copier_threads_usual(void)
{
	cpu_set_t cpus;
	int n = sched_getaffinity(0, sizeof(cpus), &cpus) == 0
			? CPU_COUNT(&cpus)
			: 1;

	return n < 2 ? 1
		     : (unsigned)kv_min_size((size_t)n / 2, THREADS_USUAL_MAX);
}

/* Bytes [from, from + len) of what the pieces are in a row, or as many of them
 * as there are. */
static void
range_copy(const struct job *job, size_t from, size_t len)
{
	const struct kv_copier_piece *p = job->pieces;
	const struct kv_copier_piece *end = p + job->n;
	size_t n;

	for (; p < end && from >= p->len; p++)
		from -= p->len;
	for (; p < end && len > 0; p++, len -= n, from = 0) {
		n = kv_min_size(p->len - from, len);
		kv_copy((char *)p->dst + from, (const char *)p->src + from, n);
	}
}

/* Until no part is left to take. */
static void
job_do(struct job *job)
{
	size_t i;

	while ((i = atomic_fetch_add(&job->next, 1)) < job->parts)
		range_copy(job, i * PART_BYTES, PART_BYTES);
}

static struct job *
job_take(struct kv_copier *c)
{
	struct job *job = NULL;

	KV_LOCKED(&c->lock) {
		c->idle++;
		while (kv_list_is_empty(&c->jobs) && !c->closing)
			pthread_cond_wait(&c->work, &c->lock);
		c->idle--;
		job = KV_LIST_FIRST(&c->jobs, struct job, link);
		if (job)
			job->helpers++;
	}
	return job;
}

static void *
help(void *arg)
{
	struct kv_copier *c = arg;
	struct job *job;

	while ((job = job_take(c))) {
		job_do(job);
		KV_LOCKED(&c->lock) {
			kv_list_del(&job->link);
			if (--job->helpers == 0)
				pthread_cond_broadcast(&c->done);
		}
	}
	return NULL;
}

struct kv_copier *
kv_copier_new(unsigned threads)
{
	unsigned others = threads > 1 ? threads - 1 : 0;
	struct kv_copier *c =
		KV_FAULT_POINT()
			? NULL
			: calloc(1, sizeof(*c) + others * sizeof(c->ids[0]));

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, NULL);
	pthread_cond_init(&c->done, NULL);
	kv_list_init(&c->jobs);
	c->threads_max = others;
	return c;
}

void
kv_copier_free(struct kv_copier *c)
{
	unsigned i;

	if (!c)
		return;
	KV_LOCKED(&c->lock) {
		assert(kv_list_is_empty(&c->jobs));
		c->closing = true;
		pthread_cond_broadcast(&c->work);
	}
	for (i = 0; i < c->threads; i++)
		pthread_join(c->ids[i], NULL);
	pthread_cond_destroy(&c->work);
	pthread_cond_destroy(&c->done);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Lets up to `wanted` helpers know. Threads that cannot be started are no
 * failure: who is there copies more. The lock is held. */
static void
helpers_call(struct kv_copier *c, unsigned wanted)
{
	unsigned i;

	while (c->idle < wanted && c->threads < c->threads_max &&
	       kv_thread_start(&c->ids[c->threads], KV_THREAD_ANY_CPU, help,
			       c) == 0) {
		c->threads++;
		wanted--; /* it looks for work by itself */
	}
	for (i = 0; i < kv_min_u64(wanted, c->idle); i++)
		pthread_cond_signal(&c->work);
}

void
kv_copier_run(struct kv_copier *c, const struct kv_copier_piece *pieces,
	      size_t n)
{
	struct job job = { .pieces = pieces, .n = n };
	size_t bytes = 0, i;

	for (i = 0; i < n; i++)
		bytes += pieces[i].len;
	job.parts = kv_div_up_u64(bytes, PART_BYTES);
	if (!c || c->threads_max == 0 || job.parts / PARTS_EACH < 2) {
		range_copy(&job, 0, bytes);
		return;
	}
	KV_LOCKED(&c->lock) {
		kv_list_add_tail(&c->jobs, &job.link);
		helpers_call(c, (unsigned)kv_min_u64(job.parts / PARTS_EACH - 1,
						     c->threads_max));
	}
	job_do(&job);
	KV_LOCKED(&c->lock) {
		kv_list_del(&job.link);
		while (job.helpers > 0)
			pthread_cond_wait(&c->done, &c->lock);
	}
}

#include "event/op.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/attr.h"
#include "base/list.h"
#include "base/log.h"
#include "base/thread.h"

struct kv_op_crew {
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t work;  /* something was queued, or closing */
	struct kv_list queue;
	unsigned queued;
	unsigned queue_max;
	unsigned threads;
	unsigned threads_max;
	unsigned idle;
	bool closing;
	char name[16];
	pthread_t ids[];
};

/* Held by the waiter and by the crew; the second to let go frees it. */
struct kv_op {
	struct kv_list link;
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool is_over;
	long result;
	long (*run)(void *arg);
	void (*drop)(void *arg);
	void *arg;
};

static void
op_finish(struct kv_op *op, long result)
{
	if (op->drop)
		op->drop(op->arg);
	KV_LOCKED(&op->lock) {
		op->result = result;
		op->is_over = true;
		pthread_cond_signal(&op->over);
	}
}

static struct kv_op *
crew_next(struct kv_op_crew *crew)
{
	struct kv_op *op = NULL;

	KV_LOCKED(&crew->lock) {
		crew->idle++;
		while (kv_list_is_empty(&crew->queue) && !crew->closing)
			pthread_cond_wait(&crew->work, &crew->lock);
		crew->idle--;
		if (!crew->closing) {
			op = KV_LIST_FIRST(&crew->queue, struct kv_op, link);
			kv_list_del(&op->link);
			crew->queued--;
		}
	}
	return op;
}

static void *
crew_main(void *arg)
{
	struct kv_op_crew *crew = arg;
	struct kv_op *op;

	kv_log_set_thread(crew->name);
	while ((op = crew_next(crew)))
		op_finish(op, op->run(op->arg));
	return NULL;
}

struct kv_op_crew *
kv_op_crew_new(const char *name, unsigned threads, unsigned queue)
{
	struct kv_op_crew *crew;

	crew = calloc(1, sizeof(*crew) + threads * sizeof(crew->ids[0]));
	if (!crew)
		return NULL;
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->work, NULL);
	kv_list_init(&crew->queue);
	crew->threads_max = threads;
	crew->queue_max = queue;
	snprintf(crew->name, sizeof(crew->name), "%s", name);
	return crew;
}

void
kv_op_crew_free(struct kv_op_crew *crew)
{
	struct kv_op *op;
	unsigned i;

	if (!crew)
		return;
	KV_LOCKED(&crew->lock) {
		crew->closing = true;
		pthread_cond_broadcast(&crew->work);
	}
	for (i = 0; i < crew->threads; i++)
		pthread_join(crew->ids[i], NULL);
	while ((op = KV_LIST_FIRST(&crew->queue, struct kv_op, link))) {
		kv_list_del(&op->link);
		op_finish(op, -KV_ECLOSED);
	}
	pthread_cond_destroy(&crew->work);
	pthread_mutex_destroy(&crew->lock);
	free(crew);
}

/* Queues, and starts a thread when none is idle. The lock is held. */
static int
crew_add(struct kv_op_crew *crew, struct kv_op *op)
{
	if (crew->closing || crew->queued >= crew->queue_max)
		return -EAGAIN;
	if (crew->idle <= crew->queued && crew->threads < crew->threads_max) {
		if (kv_thread_start(&crew->ids[crew->threads],
				    KV_THREAD_ANY_CPU, crew_main, crew) == 0)
			crew->threads++;
		else if (crew->threads == 0)
			return -EAGAIN;
	}
	kv_list_add_tail(&crew->queue, &op->link);
	crew->queued++;
	pthread_cond_signal(&crew->work);
	return 0;
}

static void
op_free(struct kv_op *op)
{
	pthread_cond_destroy(&op->over);
	pthread_mutex_destroy(&op->lock);
	free(op);
}

struct kv_op *
kv_op_start(struct kv_op_crew *crew, long (*run)(void *arg),
	    void (*drop)(void *arg), void *arg)
{
	struct kv_op *op = calloc(1, sizeof(*op));
	pthread_condattr_t attr;
	int rc = -ENOMEM;

	if (op) {
		pthread_mutex_init(&op->lock, NULL);
		pthread_condattr_init(&attr);
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		pthread_cond_init(&op->over, &attr);
		pthread_condattr_destroy(&attr);
		kv_list_init(&op->link);
		op->run = run;
		op->drop = drop;
		op->arg = arg;
		KV_LOCKED(&crew->lock)
			rc = crew_add(crew, op);
	}
	if (rc < 0) {
		if (drop)
			drop(arg);
		if (op)
			op_free(op);
		return NULL;
	}
	return op;
}

int
kv_op_wait(struct kv_op *op, uint32_t timeout_ms, long *result)
{
	struct timespec until;
	bool is_over = false;

	if (!op)
		return -KV_EINVALID;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	KV_LOCKED(&op->lock) {
		while (!op->is_over)
			if (pthread_cond_timedwait(&op->over, &op->lock,
						   &until) == ETIMEDOUT)
				break;
		is_over = op->is_over;
	}
	if (!is_over)
		return -KV_ETIMEOUT;
	if (result)
		*result = op->result;
	op_free(op);
	return 0;
}

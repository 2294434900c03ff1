#include "event/worker.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/thread.h"

struct kv_worker {
	pthread_t thread;
	struct kv_loop *loop;
	struct kv_mbox mbox;
	struct kv_mail stop;
	char name[16];
	int (*init)(struct kv_worker *w, void *arg);
	void *arg;
	sem_t started;
	int status; /* of init; read after `started` */
};

static void
on_stop(struct kv_mail *mail)
{
	kv_loop_stop(KV_CONTAINER_OF(mail, struct kv_worker, stop)->loop);
}

static void *
run(void *arg)
{
	struct kv_worker *w = arg;
	int err;

	pthread_setname_np(pthread_self(), w->name);
	kv_log_set_thread(w->name);
	err = w->init ? w->init(w, w->arg) : 0;
	w->status = err;
	sem_post(&w->started);
	if (err)
		return NULL;
	err = kv_loop_run(w->loop);
	assert(!err); /* only a closed epoll descriptor could make it fail */
	return NULL;
}

static void
free_worker(struct kv_worker *w)
{
	kv_mbox_fini(&w->mbox);
	kv_loop_free(w->loop);
	sem_destroy(&w->started);
	free(w);
}

static int
start_thread(struct kv_worker *w, int cpu)
{
	int err = kv_thread_start(&w->thread, cpu, run, w);

	if (err)
		return err;
	while (sem_wait(&w->started))
		assert(errno == EINTR);
	if (w->status)
		pthread_join(w->thread, NULL);
	return w->status;
}

struct kv_worker *
kv_worker_start(const char *name, int cpu,
		int (*init)(struct kv_worker *w, void *arg), void *arg)
{
	struct kv_worker *w = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*w));
	int err;

	if (!w) {
		errno = ENOMEM;
		return NULL;
	}
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->init = init;
	w->arg = arg;
	w->stop.fn = on_stop;
	w->loop = kv_loop_new(NULL);
	if (!w->loop)
		goto free_storage;
	err = kv_mbox_init(&w->mbox, w->loop);
	if (err)
		goto free_loop;
	sem_init(&w->started, 0, 0);
	err = start_thread(w, cpu);
	if (!err)
		return w;
	free_worker(w);
	errno = -err;
	return NULL;
free_loop:
	kv_loop_free(w->loop);
	errno = -err;
free_storage:
	free(w);
	return NULL;
}

const char *
kv_worker_error_text(int status)
{
	const char *text;

	if (status == -EAGAIN)
		return "no memory, or not allowed, for one more thread "
		       "(see ulimit -v and -u)";
	text = strerrordesc_np(-status);
	return text ? text : "unknown error";
}

struct kv_loop *
kv_worker_loop(struct kv_worker *w)
{
	return w->loop;
}

struct kv_mbox *
kv_worker_mbox(struct kv_worker *w)
{
	return &w->mbox;
}

void
kv_worker_stop(struct kv_worker *w)
{
	kv_mbox_post(&w->mbox, &w->stop);
}

void
kv_worker_join(struct kv_worker *w)
{
	pthread_join(w->thread, NULL);
	free_worker(w);
}

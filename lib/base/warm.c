#include "base/warm.h"

#include "base/attr.h"
#include "base/num.h"
#include "base/thread.h"

enum {
	PAGE_BYTES = 4096,
	/* Between two looks at what is asked for. */
	STEP_BYTES = 64 << 10,
	/* So far ahead, and half of it before the thread is woken again. */
	AHEAD_BYTES = 8 << 20,
};

void
kv_warm_init(struct kv_warm *w)
{
	*w = (struct kv_warm){
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.asked = PTHREAD_COND_INITIALIZER,
		.rests = PTHREAD_COND_INITIALIZER,
	};
}

void
kv_warm_fini(struct kv_warm *w)
{
	KV_LOCKED(&w->lock) {
		w->is_ending = true;
		pthread_cond_signal(&w->asked);
	}
	if (w->has_thread)
		pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->asked);
	pthread_cond_destroy(&w->rests);
	pthread_mutex_destroy(&w->lock);
}

/* Without changing what is there, whoever uses it meanwhile. With madvise() a
 * fault would keep others from the address space; this one keeps them from
 * nothing but the page. */
__attribute__((no_sanitize("address", "thread"))) static void
fault_in(char *mem, size_t bytes)
{
	size_t at;

	for (at = 0; at < bytes; at += PAGE_BYTES)
		__atomic_fetch_or(mem + at, 0, __ATOMIC_RELAXED);
}

static void *
go_ahead(void *arg)
{
	struct kv_warm *w = arg;
	size_t done, n;

	pthread_mutex_lock(&w->lock);
	while (!w->is_ending) {
		done = atomic_load_explicit(&w->done, memory_order_relaxed);
		if (done >= w->until) {
			pthread_cond_wait(&w->asked, &w->lock);
			continue;
		}
		n = kv_min_size(w->until - done, STEP_BYTES);
		w->is_busy = true;
		pthread_mutex_unlock(&w->lock);
		fault_in(w->mem + done, n);
		pthread_mutex_lock(&w->lock);
		w->is_busy = false;
		atomic_store_explicit(&w->done, done + n, memory_order_release);
		pthread_cond_signal(&w->rests);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

void
kv_warm_set(struct kv_warm *w, void *mem, size_t bytes)
{
	KV_LOCKED(&w->lock) {
		w->until = 0;
		while (w->is_busy)
			pthread_cond_wait(&w->rests, &w->lock);
		w->mem = mem;
		w->bytes = bytes;
		atomic_store_explicit(&w->done, 0, memory_order_relaxed);
	}
}

static void
ask(struct kv_warm *w, size_t until)
{
	KV_LOCKED(&w->lock) {
		w->until = until;
		if (!w->has_thread && !w->has_none) {
			w->has_thread =
				kv_thread_start(&w->thread, KV_THREAD_ANY_CPU,
						go_ahead, w) == 0;
			w->has_none = !w->has_thread;
		}
		pthread_cond_signal(&w->asked);
	}
}

bool
kv_warm_reaches(struct kv_warm *w, size_t to)
{
	to = kv_min_size(to, w->bytes);
	if (to + AHEAD_BYTES / 2 > w->until && w->until < w->bytes)
		ask(w, kv_min_size(to + AHEAD_BYTES, w->bytes));
	return w->has_none ||
	       atomic_load_explicit(&w->done, memory_order_acquire) >= to;
}

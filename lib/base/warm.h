#ifndef KV_BASE_WARM_H
#define KV_BASE_WARM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Faults in memory that is about to be used, from its begin to its end, in a
 * thread of its own and some MiB ahead. A new huge page takes 0.3 ms to clear,
 * and on a virtual machine, whose host has to find it, 10 ms: no loop should
 * wait for that. For one owner's thread.
 *
 * Nothing is lost where no thread can be had: who uses the memory faults it in.
 */
struct kv_warm {
	pthread_mutex_t lock; /* guards all but has_none */
	pthread_cond_t asked; /* there is more to do, or the end */
	pthread_cond_t rests;
	char *mem;
	size_t bytes;
	size_t until;        /* asked for; the owner reads it unlocked */
	_Atomic size_t done; /* read unlocked */
	bool is_busy;
	bool is_ending;
	bool has_thread;
	bool has_none; /* it could not be started */
	pthread_t thread;
};

void kv_warm_init(struct kv_warm *w);
void kv_warm_fini(struct kv_warm *w);

/* Begins with other memory, in whole pages; NULL, 0: with none. What was there
 * before is not touched any more on return. */
void kv_warm_set(struct kv_warm *w, void *mem, size_t bytes);

/* Whether the first `to` bytes are in memory, or nobody is there to see to it.
 * Asks for what comes next. */
bool kv_warm_reaches(struct kv_warm *w, size_t to);

#endif

#ifndef KV_BASE_THREAD_H
#define KV_BASE_THREAD_H

#include <pthread.h>

/*
 * A thread of ours in somebody else's process, where signal handlers must not
 * run on it. What the thread itself does wrong is still told: blocked, that
 * would end the process without a word.
 *
 * cpu: the only one it runs on, or KV_THREAD_ANY_CPU. 0 or -errno.
 */
#define KV_THREAD_ANY_CPU (-1)

int kv_thread_start(pthread_t *thread, int cpu, void *(*run)(void *arg),
		    void *arg);

/*
 * The calling thread, and those that it starts, would rather run soon than
 * long: they get the same share of a CPU as before in shorter pieces, and whom
 * they wake up or are woken up by waits less for the end of one. It is of use
 * since Linux 6.12; nothing changes where it is not to be had, or for a thread
 * that the system schedules in another way than usual.
 */
void kv_thread_run_soon(void);

#endif

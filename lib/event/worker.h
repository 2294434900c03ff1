#ifndef KV_EVENT_WORKER_H
#define KV_EVENT_WORKER_H

/*
 * A thread with a loop and a mailbox of its own. All work reaches it as mail;
 * what lives on its loop is made and ended by mail too.
 */

#include "base/thread.h"
#include "event/mbox.h"

struct kv_worker;

#define KV_WORKER_NO_CPU KV_THREAD_ANY_CPU

/*
 * Starts a thread called `name` (cut to 15 bytes), with all signals blocked
 * that come from outside, pinned to `cpu` unless that is KV_WORKER_NO_CPU.
 * init(worker, arg), if not NULL, runs on it before any mail; this call
 * waits for it. NULL with errno set on failure, also by init's -errno (init
 * then has left nothing on the loop).
 */
struct kv_worker *kv_worker_start(const char *name, int cpu,
				  int (*init)(struct kv_worker *w, void *arg),
				  void *arg);

/* For people: why a thread, or what was to run on one, did not start
 * (-errno). */
const char *kv_worker_error_text(int status);

struct kv_loop *kv_worker_loop(struct kv_worker *w); /* for its own thread */
struct kv_mbox *kv_worker_mbox(struct kv_worker *w); /* for any thread */

/* Asks it to end: mail that the caller posted before is delivered first. Any
 * thread, once; nobody else may post any more. */
void kv_worker_stop(struct kv_worker *w);

/* Waits for the end and frees. After stop; not on its own thread. */
void kv_worker_join(struct kv_worker *w);

#endif

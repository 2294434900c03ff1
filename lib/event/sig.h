#ifndef KV_EVENT_SIG_H
#define KV_EVENT_SIG_H

/*
 * Signals as loop events, for daemons. The library itself never touches the
 * signals of the process that it lives in.
 */

#include <signal.h>

#include "event/loop.h"

struct kv_sig {
	struct kv_io io;
	sigset_t before; /* the thread's mask */
	void (*fn)(struct kv_sig *sig, int signo);
};

/*
 * Blocks the signals of `set` in the calling thread and calls fn, on the loop,
 * for each one that arrives; one that came several times meanwhile may be
 * told once. To be called before other threads start: they inherit the mask,
 * else a signal that finds a thread with an open mask is not seen here. A
 * signal that the daemon wants ignored is one for which fn does nothing; so
 * it holds for PID 1 of a container too. 0 or -errno with the mask as before.
 */
int kv_sig_init(struct kv_sig *sig, struct kv_loop *loop, const sigset_t *set,
		void (*fn)(struct kv_sig *sig, int signo));

/* Forgets what is pending and puts the mask of the thread back. Same thread
 * as init. May be called by fn. */
void kv_sig_fini(struct kv_sig *sig);

#endif

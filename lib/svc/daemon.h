#ifndef KV_SVC_DAEMON_H
#define KV_SVC_DAEMON_H

/*
 * What every daemon is built on: a loop, and the signals that end it. SIGTERM
 * and SIGINT begin the end, a second one hastens it; SIGHUP and SIGPIPE are
 * ignored.
 */

#include <stdbool.h>

#include "event/loop.h"
#include "event/sig.h"

struct kv_daemon {
	struct kv_loop *loop;
	struct kv_sig sig;
	void (*stop)(struct kv_daemon *d);
	bool is_ending; /* by a signal */
};

/*
 * Makes the loop. To be called before other threads start, as kv_sig_init().
 * On each signal to end `stop` runs, on the loop; what it begins calls
 * kv_daemon_done(). 0, or -errno with a line logged.
 */
int kv_daemon_init(struct kv_daemon *d, void (*stop)(struct kv_daemon *d));
/* After the loop; nothing uses it any more. Says "ended", if it was told to. */
void kv_daemon_fini(struct kv_daemon *d);

/* All is drained: the loop ends. arg is the struct kv_daemon. */
void kv_daemon_done(void *arg);

#endif

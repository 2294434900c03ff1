#include "svc/daemon.h"

#include <errno.h>
#include <string.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/thread.h"

static void
on_signal(struct kv_sig *sig, int signo)
{
	struct kv_daemon *d = KV_CONTAINER_OF(sig, struct kv_daemon, sig);

	if (signo != SIGTERM && signo != SIGINT)
		return;
	kv_info("ending signal=%s", strsignal(signo));
	d->is_ending = true;
	d->stop(d);
}

static int
signals_init(struct kv_daemon *d)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	return kv_sig_init(&d->sig, d->loop, &set, on_signal);
}

int
kv_daemon_init(struct kv_daemon *d, void (*stop)(struct kv_daemon *d))
{
	int rc;

	kv_thread_run_soon(); /* somebody waits for each turn of it */
	d->stop = stop;
	d->is_ending = false;
	d->loop = kv_loop_new(NULL);
	rc = d->loop ? signals_init(d) : -errno;
	if (rc == 0)
		return 0;
	errno = -rc;
	kv_err("cannot start: %m");
	kv_loop_free(d->loop);
	return rc;
}

void
kv_daemon_fini(struct kv_daemon *d)
{
	kv_sig_fini(&d->sig);
	kv_loop_free(d->loop);
	if (d->is_ending)
		kv_info("ended");
}

void
kv_daemon_done(void *arg)
{
	struct kv_daemon *d = arg;

	kv_loop_stop(d->loop);
}

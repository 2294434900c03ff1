#include "event/sig.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/attr.h"

static bool
next_signal(int fd, int *signo)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		return false;
	*signo = (int)info.ssi_signo;
	return true;
}

/* One a turn: fn may end this. */
static void
on_readable(struct kv_io *io, uint32_t ready)
{
	struct kv_sig *sig = KV_CONTAINER_OF(io, struct kv_sig, io);
	int signo;

	(void)ready;
	if (next_signal(io->fd, &signo))
		sig->fn(sig, signo);
}

int
kv_sig_init(struct kv_sig *sig, struct kv_loop *loop, const sigset_t *set,
	    void (*fn)(struct kv_sig *sig, int signo))
{
	kv_auto_close int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	int err;

	if (fd < 0)
		return -errno;
	*sig = (struct kv_sig){ .io.fn = on_readable, .fn = fn };
	err = pthread_sigmask(SIG_BLOCK, set, &sig->before);
	if (err)
		return -err;
	err = kv_loop_io_add(loop, &sig->io, fd, EPOLLIN);
	if (err) {
		pthread_sigmask(SIG_SETMASK, &sig->before, NULL);
		return err;
	}
	kv_steal_fd(&fd);
	return 0;
}

void
kv_sig_fini(struct kv_sig *sig)
{
	int signo;

	kv_loop_io_del(&sig->io);
	while (next_signal(sig->io.fd, &signo))
		;
	close(sig->io.fd);
	pthread_sigmask(SIG_SETMASK, &sig->before, NULL);
}

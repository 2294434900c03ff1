#include "event/mbox.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/attr.h"

static void
deliver(struct kv_mbox *mbox)
{
	struct kv_mail *mail;

	for (;;) {
		mail = KV_LIST_FIRST(&mbox->taken, struct kv_mail, link);
		if (!mail)
			return;
		kv_list_del(&mail->link);
		mail->fn(mail);
	}
}

/* Takes what is there now, so that one turn's mail is bounded. A callback may
 * drain as well: the rest of this round is then still before what it takes. */
void
kv_mbox_drain(struct kv_mbox *mbox)
{
	KV_LOCKED(&mbox->lock) {
		kv_list_splice_tail(&mbox->taken, &mbox->queue);
	}
	deliver(mbox);
}

static void
on_event(struct kv_io *io, uint32_t ready)
{
	struct kv_mbox *mbox = KV_CONTAINER_OF(io, struct kv_mbox, io);
	eventfd_t count;

	(void)ready;
	(void)eventfd_read(io->fd, &count);
	kv_mbox_drain(mbox);
}

static void
on_defer(struct kv_defer *d)
{
	kv_mbox_drain(KV_CONTAINER_OF(d, struct kv_mbox, defer));
}

static int
open_event(struct kv_mbox *mbox)
{
	kv_auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int err;

	if (fd < 0)
		return -errno;
	err = kv_loop_io_add(mbox->loop, &mbox->io, fd, EPOLLIN);
	if (!err)
		kv_steal_fd(&fd);
	return err;
}

int
kv_mbox_init(struct kv_mbox *mbox, struct kv_loop *loop)
{
	*mbox = (struct kv_mbox){
		.loop = loop,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.io.fd = -1,
		.io.fn = on_event,
		.defer.fn = on_defer,
	};
	kv_list_init(&mbox->queue);
	kv_list_init(&mbox->taken);
	return kv_loop_is_virtual(loop) ? 0 : open_event(mbox);
}

void
kv_mbox_fini(struct kv_mbox *mbox)
{
	bool is_empty = false;

	/* What a callback posts here is delivered too. Under the lock, since
	 * the last sender may be just about to leave it. */
	while (!is_empty) {
		kv_mbox_drain(mbox);
		KV_LOCKED(&mbox->lock) {
			is_empty = kv_list_is_empty(&mbox->queue);
		}
	}
	kv_loop_defer_del(&mbox->defer);
	kv_loop_io_del(&mbox->io);
	if (mbox->io.fd >= 0)
		close(mbox->io.fd);
	mbox->io.fd = -1;
	pthread_mutex_destroy(&mbox->lock);
}

void
kv_mbox_post(struct kv_mbox *mbox, struct kv_mail *mail)
{
	/* The receiver may close the box on this very mail, so that after the
	 * lock nothing of the box may be touched. */
	KV_LOCKED(&mbox->lock) {
		bool was_empty = kv_list_is_empty(&mbox->queue);

		kv_list_add_tail(&mbox->queue, &mail->link);
		if (!was_empty)
			break;
		if (kv_loop_is_virtual(mbox->loop))
			kv_loop_defer(mbox->loop, &mbox->defer);
		else
			(void)eventfd_write(mbox->io.fd, 1);
	}
}

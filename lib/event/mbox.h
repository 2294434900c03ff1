#ifndef KV_EVENT_MBOX_H
#define KV_EVENT_MBOX_H

/*
 * Mail from any thread to one loop: an intrusive list under a lock and an
 * eventfd. Ownership of what the mail is embedded in travels with it.
 * On a virtual loop (one thread) delivery is a deferred call.
 */

#include <pthread.h>

#include "base/list.h"
#include "event/loop.h"

struct kv_mail {
	struct kv_list link;
	/* Runs on the receiving loop; may free the mail or post it again. */
	void (*fn)(struct kv_mail *mail);
};

struct kv_mbox {
	struct kv_loop *loop;
	pthread_mutex_t lock;
	struct kv_list queue; /* under lock */
	struct kv_list taken; /* the receiver's: off the queue, to be called */
	struct kv_io io;
	struct kv_defer defer;
};

/* 0 or -errno. Called on the loop's thread, as is fini. */
int kv_mbox_init(struct kv_mbox *mbox, struct kv_loop *loop);

/* Delivers what is queued, then closes. Nobody but the callbacks of that mail
 * may post any more. Not from within a mail's callback. */
void kv_mbox_fini(struct kv_mbox *mbox);

/* Any thread. Never blocks long, never fails. Mails of one sender arrive in
 * order. */
void kv_mbox_post(struct kv_mbox *mbox, struct kv_mail *mail);

/* Receiving thread: delivers at once what is queued (for a receiver that
 * meets a reference to mail that it has not seen yet). */
void kv_mbox_drain(struct kv_mbox *mbox);

#endif

#ifndef KV_XFER_RDMAWATCH_H
#define KV_XFER_RDMAWATCH_H

/*
 * What devices say of themselves, unasked: a port went down, or is up again; a
 * completion queue is lost; the device is gone. Each loop that has something of
 * a device listens for it. Of all the loops of a process whichever wakes up
 * first takes what was said, writes it to the log, and tells the others.
 *
 * A port that is down, or was when it was opened, is up when its device says
 * so, or, for some never do, when a look at it shows so, each 5 s. What is
 * known of it (addresses, MTU, speed, ...) is read anew then, and when the
 * device says that its addresses have changed.
 *
 * Seen by rdma*.c alone. Devices of which nothing is ever heard are taken to be
 * well: what fails on them shows otherwise.
 */

#include <pthread.h>
#include <stdint.h>

#include "base/list.h"
#include "event/loop.h"
#include "xfer/rdmadev.h"
#include "xfer/rdmaplan.h"

struct kv_rdma;

enum kv_rdmawatch_news {
	KV_RDMAWATCH_UP,
	KV_RDMAWATCH_DOWN,
	KV_RDMAWATCH_GONE, /* for good */
	/* A queue of the device is lost, which says so itself: see
	 * kv_rdmacq_look(). */
	KV_RDMAWATCH_QUEUE,
};

struct kv_rdmawatch_port {
	enum kv_rdmawatch_news is; /* UP, DOWN or GONE */
	uint32_t queues;           /* that were lost, ever */
	uint32_t changes;          /* of what is known of it, ever */
};

/* The process's part of it, in struct kv_rdma. */
struct kv_rdmawatched {
	pthread_mutex_t lock;
	struct kv_list readers;
	struct kv_rdmawatch_port ports[KV_RDMA_PORTS_MAX];
	struct kv_rdmadev devs[KV_RDMA_PORTS_MAX]; /* that have changed */
	uint64_t look_ns; /* when to look at those that are down */
};

void kv_rdmawatch_open(struct kv_rdmawatched *w);
/* Nobody watches any more. */
void kv_rdmawatch_close(struct kv_rdmawatched *w);

struct kv_rdmawatch_reader;

/* One that wants to know. Its owner's storage, zeroed. */
struct kv_rdmawatch {
	/* On the loop's thread, and not within a call. A state that did not
	 * last is not told; UP once more when something else has changed. No
	 * watch ends within it. */
	void (*fn)(struct kv_rdmawatch *w, unsigned port,
		   enum kv_rdmawatch_news news);

	struct kv_list link;
	struct kv_rdmawatch_reader *reader; /* NULL: it does not watch */
	struct kv_rdmawatch_port seen[KV_RDMA_PORTS_MAX];
	struct kv_rdmadev devs[KV_RDMA_PORTS_MAX]; /* as they were told */
};

/* fn is set. Of the ports as they are now nothing is told. 0 or -errno. */
int kv_rdmawatch_start(struct kv_rdmawatch *w, struct kv_rdma *r,
		       struct kv_loop *loop);
/* Harmless when it does not watch. */
void kv_rdmawatch_stop(struct kv_rdmawatch *w);

/* As it was last told. */
static inline enum kv_rdmawatch_news
kv_rdmawatch_port(const struct kv_rdmawatch *w, unsigned port)
{
	return w->seen[port].is;
}

#endif

#ifndef KV_XFER_RDMACQ_H
#define KV_XFER_RDMACQ_H

/*
 * What the queue pairs of one port and one loop share: a completion queue, and
 * a shared receive queue for the ends of transfers (WRITE_WITH_IMM), whose
 * receives have no memory.
 *
 * It is looked at each turn of the loop while work is under way and something
 * came within the last KV_LOOP_AWAKE_NS; else it is armed, and the loop sleeps.
 */

#include "base/htab.h"
#include "event/loop.h"
#include "xfer/rdmanic.h"

struct kv_rdmaqp;

/* Id of all receives. Of a completion that failed only the id and the number
 * of the queue pair mean anything. */
#define KV_RDMACQ_RECEIVE 0

struct kv_rdmacq {
	const struct kv_rdmanic *port;
	struct kv_loop *loop;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct kv_io io;
	struct kv_defer poll;
	struct kv_htab qps; /* by number */
	unsigned cqe;       /* room for completions, */
	uint32_t lives;     /* of queue pairs, ever */
	unsigned promised;  /* of which so many are the queue pairs' */
	unsigned missing;   /* receives of the SRQ, to be posted again */
	unsigned events;    /* of the channel, not acknowledged */
	uint64_t last_ns;   /* when something came, or was posted */
	bool is_lost;       /* overrun, or the device is gone: nothing comes */
};

struct kv_rdmacq_opts {
	unsigned sends;    /* of all queue pairs together */
	unsigned receives; /* transfers that end and were not looked at */
};

/* NULL with errno. */
struct kv_rdmacq *kv_rdmacq_new(const struct kv_rdmanic *port,
				struct kv_loop *loop,
				const struct kv_rdmacq_opts *opts);
/* Its queue pairs are gone. NULL is fine. */
void kv_rdmacq_free(struct kv_rdmacq *c);

/* Work was posted: it is looked at from now on. */
void kv_rdmacq_wake(struct kv_rdmacq *c);

/* Takes what is there, without waiting for a turn. */
void kv_rdmacq_poll(struct kv_rdmacq *c);

#endif

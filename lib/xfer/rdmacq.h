#ifndef KV_XFER_RDMACQ_H
#define KV_XFER_RDMACQ_H

/*
 * What the queue pairs of one port and one loop share: a completion queue, and
 * a shared receive queue, for the ends of transfers (WRITE_WITH_IMM) and for
 * what is sent. Its receives have memory only where something is.
 *
 * It is looked at each turn of the loop while work is under way and something
 * came within the last KV_LOOP_AWAKE_NS; else it is armed, and the loop sleeps.
 */

#include <stdatomic.h>

#include "base/htab.h"
#include "event/loop.h"
#include "xfer/rdmamr.h"

struct kv_rdmaqp;

/* Ids below are those of receives. Of a completion that failed only the id and
 * the number of the queue pair mean anything. */
#define KV_RDMACQ_RECEIVES_MAX 65536

enum {
	KV_RDMACQ_KNOWN = 64,
};

struct kv_rdmacq {
	const struct kv_rdmanic *port;
	struct kv_loop *loop;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct kv_io io;
	struct kv_defer poll;
	struct kv_htab qps; /* by number; */
	/* some of them by its low bits, too: most have a place here. */
	struct kv_rdmaqp *known[KV_RDMACQ_KNOWN];
	unsigned cqe;      /* room for completions, */
	uint32_t lives;    /* of queue pairs, ever */
	unsigned promised; /* of which so many are the queue pairs' */
	uint16_t *idle;    /* receives that are to be posted again */
	unsigned n_idle;
	unsigned receives; /* in all */
	uint8_t *memory;   /* of receives, recv_bytes each; or NULL */
	unsigned recv_bytes;
	struct kv_rdmamr mr;
	unsigned events;  /* of the channel, not acknowledged */
	uint64_t last_ns; /* when something came, or was posted */
	bool has_come;    /* something, when it was looked at */
	bool is_virtual;  /* the loop's time: it does not stay awake */
	bool is_armed;    /* the next completion makes the channel readable */
	bool is_lost;     /* overrun, or the device is gone: nothing comes */
	atomic_bool is_condemned; /* the device says that it is */
};

struct kv_rdmacq_opts {
	unsigned sends; /* of all queue pairs together */
	/* Transfers that ended and messages that came and were not looked at;
	 * below KV_RDMACQ_RECEIVES_MAX. */
	unsigned receives;
	unsigned recv_bytes; /* of a message; 0: none are sent */
};

/* NULL with errno. */
struct kv_rdmacq *kv_rdmacq_new(const struct kv_rdmanic *port,
				struct kv_loop *loop,
				const struct kv_rdmacq_opts *opts);
/* Its queue pairs are gone. NULL is fine. */
void kv_rdmacq_free(struct kv_rdmacq *c);

/* A queue pair of that number is its, or is not any more. -ENOMEM. */
KV_MUST_CHECK int kv_rdmacq_add(struct kv_rdmacq *c, struct kv_rdmaqp *qp,
				uint32_t number);
void kv_rdmacq_del(struct kv_rdmacq *c, struct kv_rdmaqp *qp);

/* Work was posted: it is looked at from now on. */
void kv_rdmacq_wake(struct kv_rdmacq *c);

/* Takes what is there, without waiting for a turn. */
void kv_rdmacq_poll(struct kv_rdmacq *c);

/* Nothing comes any more: its queue pairs are lost. More than once is harmless.
 */
void kv_rdmacq_lose(struct kv_rdmacq *c);
/* Its queue pairs are fenced. */
void kv_rdmacq_fence(struct kv_rdmacq *c);
/* The device says that this queue is lost. Any thread. */
void kv_rdmacq_condemn(struct kv_rdmacq *c);
/* It is lost if the device has said so. */
void kv_rdmacq_look(struct kv_rdmacq *c);

/* Nobody looks at what this receive brought any more. */
void kv_rdmacq_give(struct kv_rdmacq *c, unsigned receive);

#endif

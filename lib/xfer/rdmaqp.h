#ifndef KV_XFER_RDMAQP_H
#define KV_XFER_RDMAQP_H

/*
 * One end of a reliable connection.
 *
 *	MAKING -> READY -> ENDING -> OVER
 *
 * Work is posted in chains, with one doorbell, and ends in its order. When
 * something fails, or the end is fenced, the NIC touches nothing any more for
 * it, neither for what was posted here nor for what the other end has posted,
 * and whatever was posted comes back (ENDING); then it is OVER. It does not
 * work again: another one takes its place.
 *
 * All on the loop's thread of its completion queue.
 */

#include "base/htab.h"
#include "event/loop.h"
#include "xfer/rdmacq.h"

enum {
	/* No acknowledgement for 4.096 us * 2^14 = 67 ms: it is sent again, six
	 * times, and then given up: after half a second. (7 would be for ever
	 * on some devices; the defaults of librdmacm take 18 s.) */
	KV_RDMAQP_ACK_TIMEOUT = 14,
	KV_RDMAQP_RETRIES = 6,
	/* The other side has no receive: it is asked again after 0.64 ms, for
	 * ever (7): it is busy. Whoever waits has a deadline. */
	KV_RDMAQP_RNR_TIMER = 12,
	KV_RDMAQP_RNR_RETRIES = 7,
	/* What the other side may do, where it has a key. */
	KV_RDMAQP_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ,
};

enum kv_rdmaqp_state {
	KV_RDMAQP_MAKING, /* not connected */
	KV_RDMAQP_READY,
	KV_RDMAQP_ENDING,
	KV_RDMAQP_OVER,
};

/*
 * One work request; its owner fills in wr but for wr_id, next and send_flags,
 * and keeps it, and what it points to, until `done` was called.
 * status: 0; -ECANCELED (behind one that failed, or fenced), -ETIMEDOUT (the
 * other end does not answer), -EACCES (it forbids it), -EFAULT (this end does),
 * -ENOBUFS (no receive there), -EIO.
 */
struct kv_rdmawr {
	struct ibv_send_wr wr;
	void (*done)(struct kv_rdmawr *w, int status);
};

struct kv_rdmaqp;

/* A message that came. */
struct kv_rdmarecv {
	const uint8_t *data;
	uint32_t bytes;
	uint32_t imm; /* 0: none */
	unsigned receive;
};

struct kv_rdmaqp_ops {
	/* The end of a transfer of the other side: its number. */
	void (*imm)(struct kv_rdmaqp *qp, uint32_t number);
	/* It is OVER, deferred. why: of the first that failed; -ECANCELED: it
	 * was fenced. It may be freed in it. */
	void (*over)(struct kv_rdmaqp *qp, int why);
	/* Valid until kv_rdmacq_give(). NULL: nothing is sent to it. */
	void (*recv)(struct kv_rdmaqp *qp, const struct kv_rdmarecv *r);
};

struct kv_rdmaqp {
	struct kv_htab_node node; /* cq->qps */
	struct kv_rdmacq *cq;
	struct ibv_qp *qp;
	const struct kv_rdmaqp_ops *ops;
	void *arg;
	enum kv_rdmaqp_state state;
	int why;
	bool is_soft; /* its device */
	struct kv_defer over;
	/* A ring of what was posted, of `depth` places, a power of two. */
	struct kv_rdmawr **posted;
	unsigned depth;
	uint64_t head, tail; /* posted, and come back, ever */
	uint64_t life;       /* in ids of work: not what an earlier one had
			      * posted that had the same number */
};

struct kv_rdmaqp_opts {
	unsigned depth; /* work requests under way; a power of two */
	const struct kv_rdmaqp_ops *ops;
	void *arg;
};

/* MAKING, in the state RESET of verbs. NULL with errno; ENOSPC: the completion
 * queue has no room for another one. */
struct kv_rdmaqp *kv_rdmaqp_new(struct kv_rdmacq *cq,
				const struct kv_rdmaqp_opts *opts);
/* At any time, but not from within `done`: what was posted comes back with
 * -ECANCELED first, `over` is not called. Nothing is touched on return. NULL is
 * fine. */
void kv_rdmaqp_free(struct kv_rdmaqp *qp);

/* It is connected (verbs say RTS). */
void kv_rdmaqp_ready(struct kv_rdmaqp *qp);

/* So many more can be posted; 0 unless READY. */
static inline unsigned
kv_rdmaqp_room(const struct kv_rdmaqp *qp)
{
	if (qp->state != KV_RDMAQP_READY)
		return 0;
	return qp->depth - (unsigned)(qp->head - qp->tail);
}

/* Posts them, n > 0. A failure is told as theirs; -ECANCELED: there is no room
 * for all. */
void kv_rdmaqp_post(struct kv_rdmaqp *qp, struct kv_rdmawr *const *wrs,
		    unsigned n);

/* From now on nothing is touched for it, here. More than once is harmless. */
void kv_rdmaqp_fence(struct kv_rdmaqp *qp);

/* For rdmacq.c: what came for it. True: its receive is kept. */
bool kv_rdmaqp_take(struct kv_rdmaqp *qp, const struct ibv_wc *wc);
/* Nothing more will come. */
void kv_rdmaqp_lost(struct kv_rdmaqp *qp);

#endif

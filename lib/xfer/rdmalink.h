#ifndef KV_XFER_RDMALINK_H
#define KV_XFER_RDMALINK_H

/*
 * All queue pairs between this process and another one, and the transfers over
 * them. It stands beside a connection (net/conn.h), on which the two sides
 * speak of it (wire/protordma.h), and does not outlive that.
 *
 * One side listens, and says where (RAILS); the other one pairs those ports
 * with its own, by network, then by place in the list, then by trial, and
 * connects two queue pairs for each pair of ports, a rail, all at the same
 * time. What is lost it connects again, after a pause that grows.
 *
 * One side moves: it reads and writes memory of the other one, by work requests
 * of its own. Either may be the one that dials. Slices of a transfer go to all
 * rails (rdmashare.h), in the order of the transfers. What fails on one rail is
 * tried on the others: reads at once, for the failed queue pair's end here
 * touches nothing any more; writes when the other side has said that it has
 * fenced its end. When no rail is left, or a part has failed four times, the
 * transfer has failed, and its owner has other means.
 *
 * Queue pairs are bounded, by the completion queues of the loop. Where there is
 * no room for another one, the link that was used longest ago, not within the
 * last second, is laid to rest: its own go, and are not connected again before
 * somebody would use it.
 *
 * All on the loop's thread. Callbacks are deferred, and may do anything but
 * free the link from within another one's call.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "net/conn.h"
#include "xfer/rdmaloop.h"
#include "xfer/rdmaplan.h"

struct kv_rdmalink;

struct kv_rdmalink_ops {
	/* Dialling: every rail is up or has failed, or half a second is over
	 * since RAILS told of the first ports, or since it was woken.
	 * Listening: never. */
	void (*settled)(struct kv_rdmalink *l);
	/* Dialling: something was asked for which the other side reads, unseen
	 * by this one. NULL: never. */
	bool (*is_used)(const struct kv_rdmalink *l);
};

struct kv_rdmalink_opts {
	bool dials;     /* else it listens: kv_rdmalink_tell() */
	uint64_t token; /* of the connection, as who listens named it; random:
			 * who dials a queue pair shows it */
	bool is_unseen; /* listening: who dials moves, and nobody here awaits
			 * it */
	const struct kv_rdmalink_ops *ops; /* dialling */
	void *arg;
};

/* NULL with errno. */
struct kv_rdmalink *kv_rdmalink_new(struct kv_rdmaloop *rl, struct kv_conn *c,
				    const struct kv_rdmalink_opts *o);
/* Fences all queue pairs: when it returns nothing is touched any more, by
 * either side's work; transfers of this side were done with -ECANCELED, and
 * what is awaited with -ECANCELED, both within the call. NULL is fine. */
void kv_rdmalink_free(struct kv_rdmalink *l);

void *kv_rdmalink_arg(const struct kv_rdmalink *l);
/* Listening: says where; again when that has changed. */
void kv_rdmalink_tell(struct kv_rdmalink *l);
/* What is said on the connection of links. */
static inline bool
kv_rdmalink_is_for(unsigned type)
{
	return type == KV_MSG_RAILS || type == KV_MSG_QPFENCE ||
	       type == KV_MSG_QPFENCE_R || type == KV_MSG_QPJOIN ||
	       type == KV_MSG_QPJOIN_R || type == KV_MSG_QPSTATE;
}
/* Takes such a message; false: it is broken, or not for this link, and the
 * connection is to be closed. */
bool kv_rdmalink_take(struct kv_rdmalink *l, const struct kv_msg *msg);

/* Somebody would use it, and it has no rails: if it rests, or the other side's
 * does, they are connected again. Until then he has other means. True: that
 * begins now, and `settled` comes, unless the other side has none. More than
 * once is harmless. */
bool kv_rdmalink_wake(struct kv_rdmalink *l);

/* Rails with a queue pair that works. */
unsigned kv_rdmalink_rails(const struct kv_rdmalink *l);
/* Dialling: rails that there would be if all worked, and why the first of them
 * that does not does not, for people ("": all work). */
unsigned kv_rdmalink_pairs(const struct kv_rdmalink *l, char *why, size_t n);
bool kv_rdmalink_is_settled(const struct kv_rdmalink *l);
/* Dialling: the addresses of a rail that the connection manager has connected,
 * here and there. False: there is none. */
bool kv_rdmalink_path(const struct kv_rdmalink *l, struct in6_addr *near,
		      struct in6_addr *far);
/* Why the last rail that failed did, for people; "" when none has. Until the
 * next call of the link. */
const char *kv_rdmalink_why(const struct kv_rdmalink *l);

/* ---- this side moves ---- */

enum kv_rdmaxfer_kind {
	KV_RDMAXFER_READ,  /* the other side's memory to this one's */
	KV_RDMAXFER_WRITE, /* the other way; its end is told to who awaits it */
	/* And nobody awaits it: it is done when the bytes are in place, as a
	 * read behind them on each queue pair has shown. */
	KV_RDMAXFER_WRITE_ALONE,
};

struct kv_rdmaxfer {
	/* Set by its owner, and constant until it is done. */
	enum kv_rdmaxfer_kind kind;
	const struct kv_rdmarange *near, *far; /* both add up to bytes */
	uint64_t bytes;                        /* > 0 */
	uint32_t number; /* WRITE: as the other side awaits it; < 2^20 */
	/* Nothing is touched for it any more. 0; -EHOSTUNREACH (no rail, or
	 * none any more); -ECANCELED; -EACCES (the other side's keys or bounds
	 * are wrong); -EFAULT (this side's are); -EIO. Of a WRITE that failed
	 * otherwise than with the link the other side was told. */
	void (*done)(struct kv_rdmaxfer *x, int status);

	/* The link's. */
	struct kv_list link;
	struct kv_rdmalink *to;
	struct kv_rdmaplan plan;
	struct kv_list again; /* slices to be tried again */
	uint64_t qps;         /* bits of those that carry a part of it */
	uint64_t to_end;      /* and of those that have yet to tell its end */
	unsigned out;         /* slices and ends under way */
	uint16_t near_ports, far_ports; /* that can be used for its memory, */
	uint16_t distant_ports;         /* and are distant from it here; */
	uint16_t rails, distant;        /* and so these rails, */
	uint32_t rails_as_of;           /* when they were like that */
	uint8_t round, ends;
	uint8_t state;
	uint8_t opcode;  /* of its slices */
	bool has_ended;  /* the ends of this round are chosen */
	bool is_asked;   /* it stands in a QPFENCE under way, */
	bool is_telling; /* which says that it is given up */
	bool is_told;    /* the other side knows that it is given up */
	bool is_fenced;  /* given up: its queue pairs are fenced */
	int status;
	struct kv_defer over;
};

/* It belongs to the link until it is done. */
void kv_rdmalink_start(struct kv_rdmalink *l, struct kv_rdmaxfer *x);
/* done follows, deferred, -ECANCELED unless it is over before: as soon as
 * nothing is touched, for which queue pairs that carry parts of it are fenced.
 * Harmless when it is done. */
void kv_rdmalink_cancel(struct kv_rdmaxfer *x);

/* ---- the other side moves ---- */

/* Awaits a WRITE of the other side. */
struct kv_rdmaend {
	/* Set by its owner. 0: all bytes are in place. -EIO: it was given up,
	 * and nothing is written for it any more; -ECANCELED: the link went. */
	void (*done)(struct kv_rdmaend *e, int status);

	/* The link's. */
	struct kv_rdmalink *to; /* NULL: not awaited */
	struct kv_list link;
	uint32_t number; /* to be told to who moves */
	uint8_t round;
	uint8_t ends, total; /* that came in this round; of so many */
	bool is_given_up;    /* over when the queue pairs are fenced */
	int status;
	struct kv_defer over;
};

/* Chooses a number. */
void kv_rdmalink_await(struct kv_rdmalink *l, struct kv_rdmaend *e);
/* Nothing of that number will be written: the other side was not asked, or has
 * answered so. (Who gives up otherwise frees the link.) Harmless when it is not
 * awaited. */
void kv_rdmalink_forget(struct kv_rdmaend *e);

#endif

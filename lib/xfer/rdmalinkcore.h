#ifndef KV_XFER_RDMALINKCORE_H
#define KV_XFER_RDMALINKCORE_H

/*
 * What the files of a link share, and nobody else sees.
 *
 *	rdmaloop      queues and listeners of a loop; finds the link that is
 *	              dialled
 *	rdmalink      its life, and what is said of it
 *	rdmapair      which ports are paired
 *	rdmadial      when they are dialled, and how
 *	rdmarail      queue pairs of a rail: made, lost, and forgotten
 *	rdmarailjoin  those that no connection manager connects
 *	rdmarest      who gives his own to others, and has them again
 *	rdmamove      transfers of this side, from their start to their end
 *	rdmafeed      what of them is posted, where
 *	rdmafence     what the other side is to fence for them, and has
 *	rdmaend       transfers of the other side
 *
 * A queue pair has a slot, of which transfers know the bit:
 *
 *	MAKING -> UP -> DYING -> DEAD
 *
 * It is DYING from its failure on, or since it was fenced: nothing is touched
 * for it any more on this side. When all that was posted has come back it is
 * DEAD. It is forgotten when nothing of it is wanted here (slices that are to
 * be tried again), and the other side has fenced it, if there were writes.
 */

#include "base/htab.h"
#include "base/rng.h"
#include "xfer/rdmacm.h"
#include "xfer/rdmacore.h"
#include "xfer/rdmajoin.h"
#include "xfer/rdmalink.h"
#include "xfer/rdmashare.h"

enum {
	KV_RDMALINK_RAILS = 16,
	KV_RDMALINK_SLOTS = 64,
	KV_RDMALINK_DEPTH = 32,       /* work requests of a queue pair */
	KV_RDMALINK_QPS_MAX = 4,      /* of a rail, as others make them */
	KV_RDMALINK_TRIES = 4,        /* of a part */
	KV_RDMALINK_DEEP = 4,         /* full slices under way on a rail */
	KV_RDMALINK_LEAST = 64 << 10, /* of a slice, if a rail has work */
	KV_RDMALINK_ROUNDS = 1 << KV_RAIL_ROUND_BITS,
	KV_RDMALINK_LINES = 64, /* lists of awaited transfers, by number */
	KV_RDMALINK_WHY_BYTES = 160,
};

#define KV_RDMALINK_NUMBERS (1u << KV_RAIL_NUMBER_BITS)

struct kv_rdmaloop {
	struct kv_rdma *r;
	struct kv_loop *loop;
	struct kv_rdmacm *cm; /* NULL: there is no connection manager */
	bool is_mtu_said;     /* of two ports that differ */
	struct kv_rdmacq *cqs[KV_RDMA_PORTS_MAX]; /* NULL: not to be had */
	const struct kv_rdmanic *ports[KV_RDMA_PORTS_MAX]; /* that have one */
	unsigned n_ports;
	bool is_gone[KV_RDMA_PORTS_MAX]; /* its device was removed */
	bool may_listen;
	struct kv_rdmalisten *listens[KV_RDMA_PORTS_MAX]; /* NULL: not there */
	struct in6_addr listens_at[KV_RDMA_PORTS_MAX];
	struct kv_htab links;      /* those that listen, by token */
	struct kv_list all;        /* links */
	struct kv_rdmawatch watch; /* and what is known of the ports */
	struct kv_list lru; /* all, the one that was used last at the end */
	/* What reads that prove writes bring, which nobody looks at. */
	uint64_t *scrap;
	struct kv_rdmamr scrap_mr;
};

enum kv_rdmaslot_state {
	KV_RDMASLOT_MAKING,
	KV_RDMASLOT_UP,
	KV_RDMASLOT_DYING,
	KV_RDMASLOT_DEAD,
};

/* A work request: of a part of a transfer, or for the end of it. */
struct kv_rdmaslice {
	struct kv_rdmawr w;
	struct kv_list link; /* x->again */
	struct kv_rdmaslot *slot;
	struct kv_rdmaxfer *x;
	bool is_end; /* far.len: 0 */
	uint8_t failures;
	struct ibv_sge sges[KV_RDMAPLAN_NEAR_MAX];
	struct kv_rdmapart part;
};

struct kv_rdmaslot {
	struct kv_rdmalink *l;
	enum kv_rdmaslot_state state;
	unsigned index;           /* in l->slots, */
	uint64_t bit;             /* and that of it */
	struct kv_rdmarail *rail; /* NULL when it does not count any more */
	uint8_t at;               /* of that, in l->rails */
	uint32_t id;              /* its name on both sides */
	uint8_t near, far;        /* numbers of the ports */
	bool is_innocent; /* fenced here, not for a failure of its own */
	bool is_owed;     /* the other side waits for its end */
	bool by_join;     /* not by the connection manager */
	struct kv_rdmaconn *conn; /* NULL: over, or joined */
	struct kv_rdmajoin *join; /* NULL: over, or not joined */
	struct kv_rdmaqp *qp;     /* NULL: none yet, or none any more */
	uint64_t progress_ns;     /* something came back, or was posted */
	/* Of a side that moves, else NULL. */
	struct kv_rdmaslice *slices;
	unsigned busy;      /* so many of them; */
	uint64_t under_way; /* bytes, as its rail counts them */
	/* the others are idle, and stand here from [busy] on. */
	struct kv_rdmaslice *idle[KV_RDMALINK_DEPTH];
	unsigned n_chain;
	struct kv_rdmawr *chain[KV_RDMALINK_DEPTH]; /* to be posted together */
};

struct kv_rdmarail {
	bool is_used;
	uint8_t near, far; /* numbers of the ports */
	uint64_t slots;    /* bits of those MAKING or UP, */
	uint64_t up;       /* and of the latter */
	double speed;      /* bytes a nanosecond */
	double ramp;       /* as much of it is used */
	/* Dialling. */
	struct kv_rail_rec to; /* of far */
	bool by_join;          /* how it is dialled */
	bool is_proven;        /* this pair of ports has worked */
	bool has_failed;       /* all pairs that there are, once */
	unsigned tries;        /* pairs that failed, one after the other */
	int lost;              /* why the last queue pair was; 0: none yet */
	uint64_t pause_ns, dial_ns;
};

struct kv_rdmalink {
	struct kv_rdmaloop *rl;
	struct kv_loop *loop;
	struct kv_conn *c;
	struct kv_rdmalink_opts o;
	struct kv_htab_node node; /* rl->links, if it listens */
	struct kv_list in_all;    /* rl->all */
	bool is_closing;
	struct kv_rng rng;
	char why[KV_RDMALINK_WHY_BYTES];

	struct kv_rdmarail rails[KV_RDMALINK_RAILS];
	struct kv_rdmashare share;
	unsigned n_rails; /* up to the last one that is used */
	uint32_t rails_up;
	uint32_t rails_changed; /* times, from 1 on */
	struct kv_rdmaslot *slots[KV_RDMALINK_SLOTS];
	uint64_t up;      /* bits of slots that are UP */
	uint64_t waiting; /* of those that are not forgotten yet: writes there
			   * may be under way, or may have been */

	/* rdmarest.c */
	struct kv_list lru; /* rl->lru */
	uint64_t used_ns;
	uint64_t said_ns; /* when RAILS without ports was sent */
	bool is_resting;  /* it does not dial, or is not to be dialled */
	bool is_leaving;  /* the other side rests: its queue pairs go, too,
			   * once they are not used */
	struct kv_timer leave;

	/* rdmadial.c */
	struct kv_rail_rec recs[KV_RAILS_MAX];
	unsigned n_recs;
	uint32_t paired_as_of; /* changes of own ports, when ports were paired
				*/
	bool is_told;          /* RAILS came, or went */
	bool is_settled;
	uint32_t next_qp;
	uint64_t settle_ns;
	struct kv_timer dial;
	struct kv_defer settled;

	/* rdmamove.c */
	bool moves;                               /* has, at least once */
	bool has_failed, has_aborted, is_changed; /* something to look for */
	uint64_t chained;      /* slots that have work to be posted */
	struct kv_list queue;  /* transfers to be posted, */
	struct kv_list flying; /* all of which is, */
	struct kv_list over;   /* and whose owners are to be told */
	uint64_t left;         /* bytes of the queue */
	struct kv_defer pump;
	struct kv_timer watch;

	/* rdmafence.c */
	uint64_t collected; /* slots to be fenced by the other side, */
	uint64_t sent;      /* and those in the QPFENCE under way */
	bool is_fencing;    /* one is */
	bool has_to_tell;   /* of transfers that are given up */
	uint64_t fences;    /* ever */

	/* rdmaend.c */
	struct kv_list ends[KV_RDMALINK_LINES];
	struct kv_list ends_over;
	uint32_t next_number;
	unsigned owed; /* slots that a QPFENCE waits for */
	void *fence;   /* its tail, or NULL */
	uint32_t n_fence_qps, n_fence_xfers;
	uint64_t fence_id;
};

/* What became of a transfer, in x->state. */
enum {
	KV_RDMAXFER_MOVING,
	KV_RDMAXFER_THERE, /* the other side has everything */
	KV_RDMAXFER_OVER,
};

static inline uint64_t
kv_rdmaslot_bit(const struct kv_rdmaslot *s)
{
	return s->bit;
}

/* The lowest bit, taken away; bits != 0. */
static inline unsigned
kv_rdmalink_pop(uint64_t *bits)
{
	unsigned i = (unsigned)__builtin_ctzll(*bits);

	*bits &= *bits - 1;
	return i;
}

/* ---- rdmarail.c ---- */

/* A slot of that rail, MAKING, without a queue pair. NULL: no memory, or too
 * many. */
struct kv_rdmaslot *kv_rdmarail_slot(struct kv_rdmalink *l,
				     struct kv_rdmarail *rail, uint32_t id);
/* Its queue pair, of the rail's own port. 0 or -errno. */
int kv_rdmarail_make(struct kv_rdmaslot *s);
extern const struct kv_rdmaconn_ops kv_rdmarail_conn_ops;
/* Somebody dials this link. */
void kv_rdmarail_asked(struct kv_rdmalink *l, struct kv_rdmaconn *c,
		       unsigned number, const struct kv_rail_word *word);
/* From now on nothing is touched for it on this side. Harmless when it is dead
 * or dying. In `done` of a slice, or for one that is UP. */
void kv_rdmarail_die(struct kv_rdmaslot *s, int why);
/* The same for any, which may be gone then; not from within a callback of its
 * own. */
void kv_rdmarail_drop(struct kv_rdmaslot *s, int why);
/* It is dying, and the device does not say what became of its work. */
void kv_rdmarail_cut(struct kv_rdmaslot *s);
/* The slot with that name, or NULL. */
struct kv_rdmaslot *kv_rdmarail_find(const struct kv_rdmalink *l, uint32_t id);
/* Forgets it, if nothing of it is wanted any more. */
void kv_rdmarail_settle(struct kv_rdmaslot *s);
/* Its slices, if this side moves. False: no memory. */
bool kv_rdmarail_equip(struct kv_rdmaslot *s);
/* Of a link that goes: at once, and its slices come back. */
void kv_rdmarail_close(struct kv_rdmaslot *s);
void kv_rdmarail_free(struct kv_rdmaslot *s);
/* Nothing passes that port (why: -ENETDOWN), or nothing ever will (-ENODEV):
 * its queue pairs are dropped, and their work goes to other rails. */
void kv_rdmarail_port_lost(struct kv_rdmalink *l, unsigned port, int why);
/* Says how it is with its speed. */
void kv_rdmarail_share(struct kv_rdmalink *l, struct kv_rdmarail *rail);

/* A slot for the queue pair of that name, which the other side asks for, of its
 * port `far` and this port `near`. NULL: there are too many, or no memory; or
 * there is one. */
struct kv_rdmaslot *kv_rdmarail_place(struct kv_rdmalink *l, unsigned near,
				      uint8_t far, uint32_t id);
/* It is connected, and carries work if it can be used. */
void kv_rdmarail_ready(struct kv_rdmaslot *s);

/* ---- rdmarailjoin.c ---- */

/* Dials: 0 or -errno, and the slot is to be dropped. */
int kv_rdmarailjoin_dial(struct kv_rdmaslot *s);
/* Takes a QPJOIN, QPJOIN_R or QPSTATE, as kv_rdmalink_take(). */
bool kv_rdmarailjoin_take(struct kv_rdmalink *l, const struct kv_msg *msg);

/* ---- rdmapair.c ---- */

struct kv_rdmapair {
	uint8_t near; /* number of the own port */
	uint8_t far;  /* place in the list of the other side's */
};

/* Which ports to connect, each of either side at least once as far as there is
 * a way, but for own ones that are awaited; how many pairs. Pure. */
unsigned kv_rdmapair_find(const struct kv_rdmadev *near, unsigned n_near,
			  const struct kv_rail_rec *far, unsigned n_far,
			  struct kv_rdmapair out[KV_RDMALINK_RAILS]);
/* Which of the own addresses is in the network of that one; else any. */
unsigned kv_rdmapair_ip(const struct kv_rdmadev *near,
			const struct kv_rail_rec *far);
/* They are of one link layer. */
bool kv_rdmapair_is_linked(const struct kv_rdmadev *near,
			   const struct kv_rail_rec *far);

/* ---- rdmadial.c ---- */

bool kv_rdmadial_take(struct kv_rdmalink *l, const struct kv_msg *msg);
/* Bytes a nanosecond of a port that says so. */
double kv_rdmadial_speed(uint32_t mbit_per_s);
/* A queue pair of the rail has come up, or was lost, or never came. */
void kv_rdmadial_up(struct kv_rdmarail *rail);
void kv_rdmadial_lost(struct kv_rdmalink *l, struct kv_rdmarail *rail,
		      const struct kv_rdmaslot *s, int why);
/* Why the rail's last queue pair was lost, for people. */
void kv_rdmadial_why(const struct kv_rdmalink *l,
		     const struct kv_rdmarail *rail, char *out, size_t n);
void kv_rdmadial_look(struct kv_rdmalink *l);
/* An own port works again, or in another way: its rails are dialled without a
 * pause. */
void kv_rdmadial_port_up(struct kv_rdmalink *l, unsigned port);
/* All rails at once, without a pause. */
void kv_rdmadial_again(struct kv_rdmalink *l);
/* None, as the other side has told. */
void kv_rdmadial_leave(struct kv_rdmalink *l);
void kv_rdmadial_init(struct kv_rdmalink *l);
void kv_rdmadial_fini(struct kv_rdmalink *l);

/* ---- rdmarest.c ---- */

void kv_rdmarest_init(struct kv_rdmalink *l);
void kv_rdmarest_fini(struct kv_rdmalink *l);
/* Somebody has work for it. */
void kv_rdmarest_use(struct kv_rdmalink *l);
/* Room in the queue, at the expense of another link. False: there is none. */
bool kv_rdmarest_room(const struct kv_rdmalink *for_whom,
		      const struct kv_rdmacq *cq);
bool kv_rdmarest_wake(struct kv_rdmalink *l);
/* Listening: a RAILS. False: it is broken. */
bool kv_rdmarest_wish(struct kv_rdmalink *l, const struct kv_msg *msg);
/* Dialling: the other side rests. True: kv_rdmadial_leave() follows, when what
 * there is of queue pairs is not used any more. */
bool kv_rdmarest_leave(struct kv_rdmalink *l);
/* It does not. True: kv_rdmadial_leave() was to follow. */
bool kv_rdmarest_stay(struct kv_rdmalink *l);

/* ---- rdmamove.c ---- */

void kv_rdmamove_start(struct kv_rdmalink *l, struct kv_rdmaxfer *x);
void kv_rdmamove_cancel(struct kv_rdmaxfer *x);
/* A slice has come back. */
void kv_rdmamove_done(struct kv_rdmawr *w, int status);
/* It is idle again. Its slot may be gone then. */
void kv_rdmamove_release(struct kv_rdmaslice *s);
void kv_rdmamove_init(struct kv_rdmalink *l);
/* The queue pairs are gone. */
void kv_rdmamove_fini(struct kv_rdmalink *l);
/* Looks at all there is to do, at the end of the turn. */
void kv_rdmamove_wake(struct kv_rdmalink *l);
/* It fails: nothing more of it is posted. */
void kv_rdmamove_abort(struct kv_rdmaxfer *x, int status);
/* The other side has everything. */
void kv_rdmamove_there(struct kv_rdmaxfer *x);
/* The other side has fenced what was there of the slot. */
void kv_rdmamove_forget(struct kv_rdmaslot *s);

/* ---- rdmafeed.c ---- */

/* Which ports its memory is known to. */
void kv_rdmafeed_ports(struct kv_rdmaxfer *x);
/* What failed is to be posted again, first of all. */
void kv_rdmafeed_again(struct kv_rdmalink *l);
/* Gives queue pairs what they take, to be posted. */
void kv_rdmafeed_queue(struct kv_rdmalink *l);
void kv_rdmafeed_post(struct kv_rdmalink *l);

/* ---- rdmafence.c ---- */

/* The slot is dying. */
void kv_rdmafence_collect(struct kv_rdmaslot *s);
/* Sends what was collected, unless one is under way. False: it has to wait for
 * the connection. */
bool kv_rdmafence_send(struct kv_rdmalink *l);
bool kv_rdmafence_answer(struct kv_rdmalink *l, const struct kv_msg *msg);

/* ---- rdmaend.c ---- */

/* What tells the end of a transfer. */
static inline uint32_t
kv_rdmaend_word(uint32_t number, unsigned round, unsigned ends)
{
	return number | round << KV_RAIL_NUMBER_BITS |
	       ends << (KV_RAIL_NUMBER_BITS + KV_RAIL_ROUND_BITS);
}

void kv_rdmaend_await(struct kv_rdmalink *l, struct kv_rdmaend *e);
void kv_rdmaend_forget(struct kv_rdmaend *e);
void kv_rdmaend_init(struct kv_rdmalink *l);
void kv_rdmaend_fini(struct kv_rdmalink *l);
void kv_rdmaend_imm(struct kv_rdmalink *l, uint32_t imm);
bool kv_rdmaend_fence(struct kv_rdmalink *l, const struct kv_msg *msg);
/* A slot that the other side waits for is dead. */
void kv_rdmaend_dead(struct kv_rdmalink *l);

#endif

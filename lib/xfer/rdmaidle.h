#ifndef KV_XFER_RDMAIDLE_H
#define KV_XFER_RDMAIDLE_H

/*
 * The inside of streams (rdmastream.c), and which one of those that share a
 * completion queue gives its place to another one: that which was used longest
 * ago, not within the last second, and is not being used.
 */

#include "xfer/rdmastream.h"

/* A message that is sent. */
struct kv_rdmaletter {
	struct kv_list link; /* idle */
	struct kv_rdmawr w;
	struct ibv_sge sge;
	struct kv_rdmastream *s;
};

struct kv_rdmapost {
	struct kv_rdmacq *cq;
	struct kv_rdmamr mr;
	uint8_t *memory;
	struct kv_rdmaletter *letters;
	struct kv_list idle;
	struct kv_list waiting; /* streams, for a letter */
	struct kv_list leaving; /* streams that were closed */
	struct kv_list lru; /* those that work, the last one used at the end */
	unsigned held;      /* receives that brought what nobody has read */
	bool is_watching;   /* they are many: */
	struct kv_timer shortage;
};

struct kv_rdmastream {
	struct kv_stream base;
	struct kv_list link; /* waiting, or leaving */
	struct kv_list lru;  /* post->lru */
	uint64_t used_ns;
	struct kv_rdmapost *post;
	struct kv_rdmaqp *qp; /* NULL: another stream has its place */
	struct kv_rdmaconn *conn;
	struct kv_defer turn;
	struct kv_timer late; /* leaving */
	uint32_t want;
	int status;       /* why nothing is sent any more; -errno */
	bool is_ended;    /* nothing more comes */
	bool is_closed;   /* leaving */
	unsigned credits; /* messages that the other side takes */
	unsigned owed;    /* that this side does, and has not told yet */
	unsigned letters; /* under way */
	bool is_telling;  /* `credit` is under way */
	struct kv_rdmawr credit;
	/* What came and was not read: a ring. */
	struct kv_rdmarecv came[KV_RDMASTREAM_CREDITS];
	unsigned first, n_came;
	uint32_t off; /* in the first */
};

/* Some of it came, or was sent, or it is up. */
void kv_rdmaidle_use(struct kv_rdmastream *s);
/* Ends one. is_used: of who has it, NULL: nobody has anything under way by it.
 * False: there is none to be ended. */
bool kv_rdmaidle_room(struct kv_rdmapost *p,
		      bool (*is_used)(const struct kv_stream *s));

/* A receive more is held. When they are half of all, those streams are ended of
 * which nothing was read for a second, so that others are heard. */
void kv_rdmaidle_hold(struct kv_rdmapost *p);
void kv_rdmaidle_init(struct kv_rdmapost *p);

/* rdmastream.c: its queue pair is gone, and what was not read; the other side
 * is told, then who has it. */
void kv_rdmastream_lose(struct kv_rdmastream *s);

#endif

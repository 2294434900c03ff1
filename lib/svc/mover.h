#ifndef KV_SVC_MOVER_H
#define KV_SVC_MOVER_H

/*
 * Moves the bytes of values between a pool and data connections, on threads of
 * its own. The node decides what goes where; a mover sees ranges of the pool
 * and numbers, never a key.
 *
 * Home is the node's loop: all functions here are called on it, and all
 * callbacks run on it, deferred. The workers are n threads with a loop each, or
 * (n = 0) home itself. A data connection lives on one worker; the two
 * sides exchange mail.
 *
 * A move is one value to come in (a grant) or to go out (a push), or a transfer
 * by RDMA beside a data connection, either way. It belongs to the mover from
 * kv_mover_expect/push/transfer until `done` runs, exactly once; from then on
 * its range of the pool is not touched any more.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/htab.h"
#include "base/list.h"
#include "event/mbox.h"
#include "mem/extent.h"
#include "net/conn.h"
#include "svc/stats.h"
#include "xfer/rdmalink.h"
#include "xfer/rdmaregion.h"

struct kv_dataconn;
struct kv_mover;

enum kv_move_kind {
	KV_MOVE_EXPECT,
	KV_MOVE_PUSH,
	KV_MOVE_TRANSFER, /* of a struct kv_transfermove */
};

struct kv_move {
	/* Set by the owner, unchanged while under way. */
	const struct kv_extent *ext; /* of the pool; in order */
	unsigned n_ext;
	uint64_t skip;  /* bytes of ext before the first one to be moved */
	uint64_t bytes; /* > 0 */
	uint64_t ref;   /* struct kv_data: the grant, or the id of the GET */
	uint32_t index; /* push: of the key in the GET */
	void (*done)(struct kv_move *m);

	int status; /* for done: 0, -ECONNRESET, -ECANCELED; of a transfer also
		     * what rdmalink.h says */

	/* The rest is the mover's. Home: */
	struct kv_dataconn *dc;
	bool is_out;        /* `mail` is with the worker */
	bool is_cancelling; /* `cancel` is */
	struct kv_mail mail;
	struct kv_mail cancel;
	/* The worker's: */
	uint8_t kind;    /* enum kv_move_kind */
	bool is_parked;  /* with its connection, or that one's link */
	bool is_sending; /* a frame of it is in the connection's queue */
	struct kv_list list;
	struct kv_htab_node node;
	struct kv_conn_sent sent;
	uint64_t moved;
};

/* Of `move` the owner sets `done` only; of `xfer` all that is an owner's, but
 * not that one's `done`. */
struct kv_transfermove {
	struct kv_move move;
	struct kv_rdmaxfer xfer;
};

struct kv_mover_opts {
	struct kv_loop *loop; /* home */
	unsigned workers;
	void *pool;
	struct kv_rdma *rdma;         /* NULL: none */
	struct kv_rdmaregion *region; /* of the pool, with rdma */
	/* A data connection is gone, by itself or by kv_mover_close(); all of
	 * its moves are done. It is freed after the call. */
	void (*closed)(void *owner, struct kv_dataconn *dc);
};

/* NULL with errno set. */
struct kv_mover *kv_mover_new(const struct kv_mover_opts *opts);

/* Ends the threads and all connections that are left: their moves are done and
 * `closed` has run for each when it returns. NULL is fine. */
void kv_mover_free(struct kv_mover *m);

/* With rdma: the region is complete, or (false) never will be. Connections are
 * told where to dial. Once. */
void kv_mover_registered(struct kv_mover *m, bool is_complete);

/* How HELLO is answered that came on a connection. */
struct kv_mover_hello {
	uint64_t id;
	const struct kv_id *boot;
	uint64_t token; /* the connection's name */
	bool asks_rdma;
};

/* Takes the stream over, also on failure (NULL, errno set). */
struct kv_dataconn *kv_mover_adopt(struct kv_mover *m, struct kv_stream *s,
				   const struct kv_mover_hello *hello,
				   void *owner);

/* It ends, at once on its worker; `closed` follows. More than once is
 * harmless. */
void kv_mover_close(struct kv_dataconn *dc);

uint64_t kv_mover_token(const struct kv_dataconn *dc);

/* Can there be RDMA beside it? */
bool kv_mover_has_rdma(const struct kv_dataconn *dc);

/* The value's bytes will come on it, in DATA frames from the first to the last
 * byte. 0, or -ECONNRESET when it is gone (no done then). */
int kv_mover_expect(struct kv_dataconn *dc, struct kv_move *m);
/* Sends the value in DATA frames. As above. */
int kv_mover_push(struct kv_dataconn *dc, struct kv_move *m);
/* Moves between the pool and the memory of the process at the other end, beside
 * a connection that can have RDMA. As above. */
int kv_mover_transfer(struct kv_dataconn *dc, struct kv_transfermove *t);

/* Ends a move early; done follows (with whatever came first). A
 * connection in the middle of a frame of it is closed, queue pairs that carry
 * parts of it are ended: there is no other way to be sure. */
void kv_mover_cancel(struct kv_move *m);

/* Adds the workers' counters. */
void kv_mover_stats(const struct kv_mover *m, struct kv_stats_set *sum);

#endif

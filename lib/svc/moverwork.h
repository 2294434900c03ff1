#ifndef KV_SVC_MOVERWORK_H
#define KV_SVC_MOVERWORK_H

/*
 * What the two sides of a mover share: mover.c runs at home, moverwork.c on the
 * workers. Every field has one side; mail carries a connection or a move
 * across.
 */

#include "svc/mover.h"

struct kv_moverwork {
	struct kv_mbox *home; /* mail to home */
	void *pool;
	struct kv_rdma *rdma; /* NULL: none */
	const struct kv_rdmaregion *region;

	/* Home's. */
	struct kv_worker *thread; /* NULL: home does the work */
	struct kv_mbox own;       /* then */
	struct kv_mbox *mbox;     /* mail to the worker */
	unsigned dataconns;

	/* The worker's. */
	struct kv_loop *loop;  /* constant */
	struct kv_htab grants; /* moves expected, by ref */
	/* While it drains the mailbox: NULL when a mail ended it, and home may
	 * have freed it. */
	struct kv_dataconn *reading;
	struct kv_stats_set stats;
	struct kv_rdmaloop *rdmaloop; /* NULL: none */
	struct kv_list links;         /* data connections with one */

	struct kv_mail begin; /* to the worker, with rdma */
	struct kv_mail registered;
	struct kv_mail end;
};

struct kv_dataconn {
	/* Constant. */
	struct kv_mover *mover;
	struct kv_moverwork *work;
	struct kv_id boot; /* for the answer to HELLO */
	uint64_t hello;
	uint64_t token;
	bool asks_rdma; /* and perhaps there is some */

	/* Home's. */
	struct kv_list list;
	void *owner;
	unsigned moves;  /* not done */
	bool is_closing; /* `close` was posted */
	bool is_close_out;
	bool is_gone;

	/* The worker's. */
	struct kv_stream *stream; /* until the connection is made */
	struct kv_conn *conn;     /* NULL: gone */
	struct kv_list expected;
	struct kv_list pushes;    /* wait for the connection to take them */
	struct kv_list sending;   /* a frame of each is in its queue */
	struct kv_move *filling;  /* payload is arriving for it */
	struct kv_rdmalink *link; /* NULL: none */
	struct kv_list linked;    /* work->links */
	int status;               /* gone: why */

	struct kv_mail adopt; /* to the worker */
	struct kv_mail close; /* there and back */
	struct kv_mail gone;  /* home */
};

/* Mail for a worker. */
void kv_moverwork_adopt(struct kv_mail *mail);
void kv_moverwork_close(struct kv_mail *mail);
void kv_moverwork_take(struct kv_mail *mail);
void kv_moverwork_cancel(struct kv_mail *mail);
void kv_moverwork_begin(struct kv_mail *mail);
void kv_moverwork_registered(struct kv_mail *mail);
void kv_moverwork_end(struct kv_mail *mail);

/* Mail for home. */
void kv_mover_dataconn_gone(struct kv_mail *mail);
void kv_mover_dataconn_closed(struct kv_mail *mail);
void kv_mover_move_back(struct kv_mail *mail);
void kv_mover_cancel_back(struct kv_mail *mail);

#endif

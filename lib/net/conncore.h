#ifndef KV_NET_CONNCORE_H
#define KV_NET_CONNCORE_H

/* What the files of a connection share: conn.c reads, conn_send.c writes. */

#include "event/loop.h"
#include "net/conn.h"
#include "net/recvq.h"
#include "net/sendq.h"
#include "net/stream.h"

struct kv_conn {
	uint32_t magic;
	int depth; /* calls under way that still use this struct */
	struct kv_loop *loop;
	struct kv_stream *stream; /* NULL: CLOSED */
	const struct kv_conn_ops *ops;
	void *arg;
	int status;   /* CLOSED: why */
	int broken;   /* nothing can be written any more: why; else 0 */
	bool gone;    /* its owner closed it: free at depth 0 */
	bool told;    /* on_close was called */
	bool paused;  /* by the owner */
	bool again;   /* a turn's share was used up: go on in the next */
	bool blocked; /* the stream took less than there was */
	bool full;    /* above the high mark, not yet below the low one */
	bool drained; /* on_drain is due */
	uint32_t want;
	uint64_t last_rx;
	struct kv_recvq in;
	struct {
		struct kv_timer timer; /* while something has begun */
		uint64_t since;        /* so long it waits for the peer */
		uint64_t msgs;         /* c->msgs then */
	} begun;
	uint64_t msgs; /* handed over */
	struct kv_sendq out;
	struct {
		enum kv_msg_type type;
		uint8_t flags;
		uint64_t id;
	} frame;                /* the one that is being built */
	struct kv_list done;    /* kv_conn_sent, called when that is safe */
	struct kv_list calling; /* those whose turn it is */
	struct kv_defer defer;
};

/* It is lost: closed at once, and told in a later turn. */
void kv_conn_fail(struct kv_conn *c, int status);
/* There is something to do at the end of this turn. */
void kv_conn_schedule(struct kv_conn *c);
/* Gives the stream what it takes. */
void kv_conn_write(struct kv_conn *c);

#endif

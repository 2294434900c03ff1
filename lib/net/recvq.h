#ifndef KV_NET_RECVQ_H
#define KV_NET_RECVQ_H

/*
 * What a connection has received: one buffer in which frames are parsed where
 * they lie, so a turn costs one read however many small frames it brings. A
 * frame with a payload stays in the buffer until its payload is in place. What
 * is read for that goes to the owner's pieces, with a little room of the
 * buffer behind them: the next frame's header comes with the same call, hardly
 * any of its payload. For conn.c only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/attr.h"
#include "wire/msg.h"

enum {
	KV_RECVQ_IOV_MAX = 64
}; /* pieces of one read */

struct kv_recvq {
	uint8_t *mem; /* bytes start..end have arrived, are not used up */
	size_t cap, start, end;
	size_t least;   /* cap of one that is needed at all */
	bool narrow;    /* payloads follow each other: read little ahead */
	size_t peak;    /* most that was needed since it was last empty */
	unsigned small; /* times it was emptied while far too large */

	/* The payload that is coming; its frame lies at `start`. */
	bool has_payload;
	bool drops;         /* it is read and forgotten */
	struct kv_msg msg;  /* its frame */
	size_t used;        /* length of that, and of what lies behind it */
	size_t left;        /* of the payload */
	struct iovec *iov;  /* KV_CONN_PIECES_MAX, made at the first payload */
	int pieces, filled; /* iov[filled..pieces) have room */
};

/* least: what is to be read at once; 0: as for a socket. */
void kv_recvq_init(struct kv_recvq *q, size_t least);
void kv_recvq_fini(struct kv_recvq *q);

enum {
	KV_RECVQ_MORE,    /* bytes are missing */
	KV_RECVQ_MSG,     /* *msg: a frame, its payload in place */
	KV_RECVQ_PAYLOAD, /* *msg: one whose payload comes; place it next */
};

/* The next of what arrived: one of the above, valid until the next call, or
 * -EPROTO, -EPROTONOSUPPORT, -ENOMEM (then it is of no use any more). */
KV_MUST_CHECK int kv_recvq_next(struct kv_recvq *q, struct kv_msg *msg);

/* After KV_RECVQ_PAYLOAD: the first n of q->iov say where it goes; 0: drop it.
 * They add up to the payload (asserted). */
void kv_recvq_place(struct kv_recvq *q, int n);

/* Where to read to, for the one call before kv_recvq_took(): the number of
 * pieces, at most KV_RECVQ_IOV_MAX, or -ENOMEM. *bytes is their sum. */
KV_MUST_CHECK int kv_recvq_aim(struct kv_recvq *q, struct iovec *iov,
			       size_t *bytes);

/* n bytes were read there. */
void kv_recvq_took(struct kv_recvq *q, size_t n);

/* Every byte that arrived was handed over. */
static inline bool
kv_recvq_is_empty(const struct kv_recvq *q)
{
	return q->start == q->end && !q->has_payload;
}

#endif

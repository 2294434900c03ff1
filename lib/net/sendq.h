#ifndef KV_NET_SENDQ_H
#define KV_NET_SENDQ_H

/*
 * What a connection has yet to send: frames, which are built in the queue's own
 * buffer, and between them references to payload that lies elsewhere. Memory
 * grows with what is queued and is kept for reuse. For conn.c only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/attr.h"
#include "base/list.h"

struct kv_conn_sent;

/* Bytes are added at the end and taken from the head. */
struct kv_sendq_store {
	uint8_t *mem;
	size_t cap, head, used;
};

struct kv_sendq {
	struct kv_sendq_store bytes; /* of frames; the last `open` are of the
				      * one that is being built */
	struct kv_sendq_store runs;  /* struct run: the order to send in */
	size_t open;
	size_t peak;    /* most bytes since the queue was last empty */
	unsigned small; /* times it was emptied with a buffer far too large */
};

void kv_sendq_init(struct kv_sendq *q);
void kv_sendq_fini(struct kv_sendq *q);

/* n more bytes of the frame that is being built (the first call begins one),
 * uninitialised, valid until the next call. NULL with errno ENOBUFS (over
 * KV_CONN_QUEUE_BYTES_MAX) or ENOMEM; what was built so far stays. */
KV_MUST_CHECK void *kv_sendq_grow(struct kv_sendq *q, size_t n);

/* The first byte of the frame that is being built; its length is q->open. */
static inline uint8_t *
kv_sendq_frame(const struct kv_sendq *q)
{
	return q->bytes.mem + q->bytes.head + q->bytes.used - q->open;
}

/* Forgets the frame that is being built. */
void kv_sendq_drop(struct kv_sendq *q);

/* The frame is complete, the n pieces (copied) follow it. `sent`, which may be
 * NULL, belongs to its last byte. 0, -ENOBUFS or -ENOMEM: nothing changed. */
KV_MUST_CHECK int kv_sendq_end(struct kv_sendq *q, const struct iovec *iov,
			       int n, struct kv_conn_sent *sent);

/* Writes the first pieces to send to iov, up to max; gives their number. */
int kv_sendq_gather(const struct kv_sendq *q, struct iovec *iov, int max);

/* n bytes of these were taken: `sent` of what is complete moves to `done`, with
 * status 0. */
void kv_sendq_advance(struct kv_sendq *q, size_t n, struct kv_list *done);

/* Forgets everything; what waited moves to `done` with this status. */
void kv_sendq_fail(struct kv_sendq *q, int status, struct kv_list *done);

/* Nothing to send; a frame that is being built does not count. */
static inline bool
kv_sendq_is_empty(const struct kv_sendq *q)
{
	return q->runs.used == 0;
}

/* Memory in use for what is queued; payload itself is not counted. */
static inline size_t
kv_sendq_bytes(const struct kv_sendq *q)
{
	return q->bytes.used + q->runs.used;
}

#endif

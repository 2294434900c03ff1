#ifndef KV_NET_CONN_H
#define KV_NET_CONN_H

/*
 * A framed connection over a stream: cuts frames out of what arrives, checks
 * them (wire/msg.h) and hands them over; queues what is sent. Frames of a type
 * that carries a payload (DATA, XFER) have it read straight to where the owner
 * says and written straight from where it lies; only bytes that arrived
 * together with their frame are copied once.
 *
 * States: OPEN -> CLOSED. A connection that fails (peer gone, broken frame,
 * queue limit) closes itself and says so once, deferred, through on_close;
 * then the owner frees it. kv_conn_close() says nothing.
 *
 * All calls on the loop's thread. Callbacks may send, close and free the
 * connection they were called for.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/limits.h"
#include "base/list.h"
#include "wire/msg.h"

struct kv_conn;
struct kv_loop;
struct kv_stream;

struct kv_conn_ops {
	/* A whole frame; for one with a payload after the payload is in place.
	 * msg and what it points to are valid during the call only (also when
	 * the connection is closed in it). */
	void (*on_msg)(struct kv_conn *c, const struct kv_msg *msg);
	/* A frame with msg->payload > 0 bytes to come. Writes up to `max`
	 * pieces that add up to msg->payload exactly and returns their number;
	 * they must stay valid until on_msg, on_close, or kv_conn_close()
	 * returned. 0: read and drop the payload (on_msg still comes).
	 * -errno: close. NULL op: types with payload are refused (-EPROTO). */
	int (*on_payload)(struct kv_conn *c, const struct kv_msg *msg,
			  struct iovec *iov, int max);
	/* It is lost. status: -ECONNRESET (also for an orderly end), -EPROTO
	 * and -EPROTONOSUPPORT (what came is no frame of ours), -ENOBUFS (the
	 * send queue is at its limit), -EMSGSIZE (a tail was too long),
	 * -ETIMEDOUT (a frame was not there 30 s after its beginning, or
	 * nothing of it or of a payload came for 10 s), what on_payload
	 * returned, another -errno of the stream. What the peer had
	 * sent before it closed was handed over first. All sends with a `sent`
	 * callback were called back before. */
	void (*on_close)(struct kv_conn *c, int status);
	/* The send queue fell below its low mark after having been above the
	 * high mark (kv_conn_is_full). May be NULL. */
	void (*on_drain)(struct kv_conn *c);
};

#define KV_CONN_PIECES_MAX 1024 /* iovec pieces of one payload */

/* Takes the stream over, also on failure (NULL, errno set). Bytes per frame
 * are limited by wire/msg.h; queued bytes by KV_CONN_QUEUE_BYTES_MAX. */
struct kv_conn *kv_conn_new(struct kv_loop *loop, struct kv_stream *s,
			    const struct kv_conn_ops *ops, void *arg);

/* Closes at once and frees. Payloads under way are not touched any more when
 * this returns; `sent` callbacks of what was queued run first, with
 * -ECANCELED (with 0 those whose bytes had left already). NULL is fine. */
void kv_conn_close(struct kv_conn *c);
/* And what was sent and has not arrived does not any more. */
void kv_conn_reset(struct kv_conn *c);

/* Gives the stream back, without interest, and frees the connection: for a
 * connection that another loop is to drive. Only between frames with nothing
 * queued: when bytes of a next frame were read, or of an earlier one wait to
 * be written, NULL, and the connection stays as it is. */
struct kv_stream *kv_conn_detach(struct kv_conn *c);

void *kv_conn_arg(const struct kv_conn *c);
/* Whose stream that is. */
struct kv_conn *kv_conn_of(const struct kv_stream *s);
void kv_conn_set_arg(struct kv_conn *c, void *arg);
/* Another owner takes it over (after the handshake). */
void kv_conn_set_ops(struct kv_conn *c, const struct kv_conn_ops *ops,
		     void *arg);
struct kv_loop *kv_conn_loop(const struct kv_conn *c);
struct kv_stream *kv_conn_stream(const struct kv_conn *c); /* NULL: CLOSED */
/* False from the moment on in which nothing can be sent any more; messages
 * that the peer sent before may still come. */
bool kv_conn_is_open(const struct kv_conn *c);
/* Why it is not: as on_close will say; 0 while it is. */
int kv_conn_error(const struct kv_conn *c);

/*
 * Sending: begin, fill the body and the tail in place, end. One frame at a
 * time. begin returns the zeroed body struct of the type, or NULL when the
 * connection is closed or its queue is at its limit (then nothing must be
 * ended; the connection closes itself on such overflow: queues of well-behaved
 * owners stay under the high mark).
 */
void *kv_conn_begin(struct kv_conn *c, enum kv_msg_type type, uint64_t id,
		    uint8_t flags);
/* Appends n uninitialised bytes to the tail. The pointer, and the one of begin,
 * are valid until the next call for this connection. NULL: as begin (the frame
 * under way is dropped); so ends a tail longer than kv_msg_tail_max(). */
void *kv_conn_tail(struct kv_conn *c, size_t n);
/* begin and one tail: the body, and the tail in *tail. NULL: as begin. */
void *kv_conn_begin_tail(struct kv_conn *c, enum kv_msg_type type, uint64_t id,
			 uint8_t flags, size_t n, void **tail);
/* The body again, after tails moved it. */
void *kv_conn_body(struct kv_conn *c);
/* Seals the frame. It leaves with the next kv_conn_flush() or at the end of
 * the turn, whichever comes first (much of it earlier). */
void kv_conn_end(struct kv_conn *c);

/* A payload behind the frame: `iov` (copied; up to KV_CONN_PIECES_MAX pieces,
 * KV_PAYLOAD_MAX bytes) stays readable until `sent` was called, deferred: 0
 * when the last byte was taken by the stream, else -errno. `sent` may be NULL
 * for bytes that are always there. */
struct kv_conn_sent {
	struct kv_list link;
	void (*fn)(struct kv_conn_sent *sent, int status);
	int status;
};
void kv_conn_end_payload(struct kv_conn *c, const struct iovec *iov, int n,
			 struct kv_conn_sent *sent);

/* Drops the frame begun and not ended. */
void kv_conn_abort(struct kv_conn *c);

/* Writes what the stream takes now, without waiting for the turn's end. */
void kv_conn_flush(struct kv_conn *c);

/* Went above its high mark: hold back until on_drain. */
bool kv_conn_is_full(const struct kv_conn *c);

/* Stops and resumes reading (back pressure). While it is stopped no message
 * comes and a peer that went away is noticed only by sending to it. */
void kv_conn_pause(struct kv_conn *c, bool pause);

/* One descriptor beside the next frame begun: 0 or -errno; the caller keeps
 * its own. One that came with the frames handed over so far, or earlier than
 * its frame (-1: none); the caller owns it. */
int kv_conn_send_fd(struct kv_conn *c, int fd);
int kv_conn_recv_fd(struct kv_conn *c);

/* Time (ns, the loop's) when bytes last arrived; at first, of its making. */
uint64_t kv_conn_last_rx(const struct kv_conn *c);

#endif

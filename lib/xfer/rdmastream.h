#ifndef KV_XFER_RDMASTREAM_H
#define KV_XFER_RDMASTREAM_H

/*
 * A byte stream over a queue pair of its own, for control frames: what is
 * written is copied to registered memory and sent in messages; what came is
 * copied out of the receives that all streams of one completion queue share. So
 * memory follows what is under way, and not the number of connections.
 *
 * Each side has KV_RDMASTREAM_CREDITS messages that it may send, and more as
 * the other one has read some: that rides as immediate data on what is sent, or
 * on a message of no bytes. So nobody can fill the receives of all others.
 *
 * Seen by rdma*.c alone. All on the loop's thread.
 */

#include "net/stream.h"
#include "xfer/rdmacm.h"

enum {
	KV_RDMASTREAM_BYTES = 8192, /* of a message: a value of 4 KiB and its
				     * frame are one */
	KV_RDMASTREAM_CREDITS = 16, /* a value of 64 KiB is under way at once */
	KV_RDMASTREAM_DEPTH = 32,   /* of a queue pair: these, and credits */
};

/* Memory that the streams of one completion queue send from. */
struct kv_rdmapost;

/* The completion queue has receives of KV_RDMASTREAM_BYTES. NULL with errno. */
struct kv_rdmapost *kv_rdmastream_post_new(struct kv_rdmacq *cq,
					   unsigned messages);
/* Its streams are closed; last words that did not leave are lost. NULL is fine.
 */
void kv_rdmastream_post_free(struct kv_rdmapost *p);

struct kv_rdmastream;

/* With a queue pair to be connected. It is closed as any stream is, connected
 * or not. NULL with errno. */
struct kv_rdmastream *kv_rdmastream_new(struct kv_rdmapost *p);
struct kv_rdmaqp *kv_rdmastream_qp(struct kv_rdmastream *s);
struct kv_stream *kv_rdmastream_base(struct kv_rdmastream *s);
/* Its queue pair works; it gives the connection up when it is closed. */
void kv_rdmastream_up(struct kv_rdmastream *s, struct kv_rdmaconn *c);
/* Of the other side, of one that is up. */
const struct sockaddr *kv_rdmastream_peer(const struct kv_rdmastream *s);
/* The connection is over (kv_rdmaconn_ops): the stream ends behind what came.
 */
void kv_rdmastream_end(struct kv_rdmastream *s, int why);

#endif

#ifndef KV_XFER_RDMAJOIN_H
#define KV_XFER_RDMAJOIN_H

/*
 * Queue pairs are joined without a connection manager: the two sides tell each
 * other on a connection what their ends are called, and bring them up
 * themselves.
 *
 *	who dials                  who is dialled
 *	makes its end   QPJOIN   ->
 *	             <- QPJOIN_R   has brought up its own
 *	brings up its own, and sees an empty WRITE acknowledged
 *	ready           QPSTATE  -> ready
 *
 * So what is ready has a way in both directions. When it is over, whoever knows
 * it first says so, QPSTATE.
 */

#include "base/status.h"
#include "event/loop.h"
#include "net/conn.h"
#include "wire/protordma.h"
#include "xfer/rdmaqp.h"

struct kv_rdmajoin;

struct kv_rdmajoin_opts {
	struct kv_conn *c;     /* where it is spoken of */
	struct kv_rdmaqp *qp;  /* MAKING */
	struct kv_qpjoin name; /* qp, near and far, psn: the rest is filled in
				*/
	/* An address of the other port, 16 bytes: the own GID is one that
	 * reaches such. */
	const uint8_t *towards;
	uint64_t deadline_ns; /* until it is ready */
	/* It carries work. */
	void (*ready)(struct kv_rdmajoin *j);
	/* There is none, or none any more: -ETIMEDOUT, -ECONNRESET (the other
	 * side has ended it), -errno. Not of what the queue pair tells itself,
	 * as when nobody has answered its first WRITE. */
	void (*over)(struct kv_rdmajoin *j, int why);
	void *arg;
};

/* What a peer has sent could be an end. */
bool kv_rdmajoin_is_good(const struct kv_qpjoin *far);

/* Sends QPJOIN. NULL with errno: EADDRNOTAVAIL (the port has no such GID),
 * ENETDOWN (it is down), ENOBUFS (the connection is), what verbs say. */
struct kv_rdmajoin *kv_rdmajoin_dial(const struct kv_rdmajoin_opts *o);
/* Sends QPJOIN_R. NULL, nothing is sent: the same; EPROTOTYPE: the other end is
 * of another link layer; EADDRNOTAVAIL: or it has no address. */
struct kv_rdmajoin *kv_rdmajoin_accept(const struct kv_rdmajoin_opts *o,
				       const struct kv_qpjoin *far);
/* Instead: why is -errno. */
void kv_rdmajoin_refuse(struct kv_conn *c, const struct kv_qpjoin *far,
			int why);

/* Says to the other side what has become of a queue pair, joined or not. */
void kv_rdmajoin_say(struct kv_conn *c, struct kv_le32 qp,
		     enum kv_status status);

/* QPJOIN_R and QPSTATE of it have come. False: the peer breaks the protocol. */
bool kv_rdmajoin_answer(struct kv_rdmajoin *j, const struct kv_qpjoin *far);
bool kv_rdmajoin_state(struct kv_rdmajoin *j, uint8_t status);

void *kv_rdmajoin_arg(const struct kv_rdmajoin *j);
/* Its queue pair is gone. Tells the other side, if that does not know. NULL is
 * fine. */
void kv_rdmajoin_free(struct kv_rdmajoin *j);

#endif

#ifndef KV_XFER_RDMACM_H
#define KV_XFER_RDMACM_H

/*
 * Queue pairs are connected by librdmacm, between IP addresses of two ports:
 * which GID, VLAN and MTU is the kernel's business. One struct kv_rdmacm is the
 * event channel of one loop.
 *
 * The queue pairs are of our own making. Who dials is asked for one when it is
 * known which port leads there; who listens is asked for one, or to refuse,
 * with what the other side says of itself. A connection lives until either side
 * gives it up; that of a process that was killed ends at once, too.
 */

#include <sys/socket.h>

#include "base/list.h"
#include "event/loop.h"
#include "xfer/rdmaqp.h"

/* What the two sides tell each other: as much as every kind of port carries. */
#define KV_RDMACM_WORD_BYTES 48

struct kv_rdmacm;
struct kv_rdmaconn;
struct kv_rdmalisten;

/* traffic_class of what is dialled and accepted; -1: as the system has it.
 * NULL with errno; ENOTSUP: there is no librdmacm. */
struct kv_rdmacm *kv_rdmacm_new(const struct kv_rdmaverbs *v,
				struct kv_loop *loop, int traffic_class);
/* Its connections and listeners are gone. NULL is fine. */
void kv_rdmacm_free(struct kv_rdmacm *cm);

struct kv_rdmaconn_ops {
	/* Dialling: a queue pair of this port of this device, or NULL: give up
	 * (over follows, with -ENODEV). It stays the caller's, and longer than
	 * the connection. */
	struct kv_rdmaqp *(*make)(struct kv_rdmaconn *c, const char *device,
				  unsigned port);
	/* It carries work. word: of who was dialled, for who dialled. It may
	 * not be given up from within this, nor from within make. */
	void (*ready)(struct kv_rdmaconn *c, const void *word, size_t bytes);
	/* There is none, or none any more: to be given up, in this or later.
	 * -EHOSTUNREACH (no port leads there), -ECONNREFUSED,
	 * -ETIMEDOUT, -ECONNRESET (the other side has ended it), -ENODEV (the
	 * device is gone), -errno. */
	void (*over)(struct kv_rdmaconn *c, int why);
};

struct kv_rdmaconn_opts {
	const struct kv_rdmaconn_ops *ops;
	void *arg;
	const void *word;     /* copied */
	size_t bytes;         /* KV_RDMACM_WORD_BYTES at most */
	uint64_t deadline_ns; /* until it is ready */
	uint8_t mtu;          /* of verbs; the path's is no more; 0: no bound */
};

/* From this address here (a port 0) to that one. NULL with errno. */
struct kv_rdmaconn *kv_rdmacm_dial(struct kv_rdmacm *cm,
				   const struct sockaddr *from,
				   const struct sockaddr *to,
				   const struct kv_rdmaconn_opts *opts);
void *kv_rdmacm_arg(const struct kv_rdmaconn *c);
/* It is another owner's from now on; in ready, or after it. */
void kv_rdmacm_pass(struct kv_rdmaconn *c, const struct kv_rdmaconn_ops *ops,
		    void *arg);
/* Of the other side, once it is known; until the connection is given up. */
const struct sockaddr *kv_rdmacm_peer(const struct kv_rdmaconn *c);
/* Ends it, and tells the other side. NULL is fine. The queue pair is to be
 * fenced by itself. */
void kv_rdmacm_give_up(struct kv_rdmaconn *c);

/* Somebody dials. kv_rdmacm_accept() or kv_rdmacm_refuse() follows, at once or
 * later. */
typedef void kv_rdmalisten_fn(void *arg, struct kv_rdmaconn *c,
			      const char *device, unsigned port,
			      const void *word, size_t bytes);

/* At this address, of one port. NULL with errno. */
struct kv_rdmalisten *kv_rdmacm_listen(struct kv_rdmacm *cm,
				       const struct sockaddr *at,
				       kv_rdmalisten_fn *fn, void *arg);
void kv_rdmacm_unlisten(struct kv_rdmalisten *l);
/* The port of the address, which was 0 perhaps. */
uint16_t kv_rdmacm_port(const struct kv_rdmalisten *l);

/* With a queue pair of the port that was named. 0; or -errno, and it is to be
 * given up: -ECONNRESET: whoever dialled has ended it meanwhile. */
int kv_rdmacm_accept(struct kv_rdmaconn *c, struct kv_rdmaqp *qp,
		     const struct kv_rdmaconn_opts *opts);
void kv_rdmacm_refuse(struct kv_rdmaconn *c);

#endif

#ifndef KV_SVC_LINK_H
#define KV_SVC_LINK_H

/*
 * A client's connection to one daemon: dialled when needed, introduced by
 * HELLO, dialled again after a loss. For other nodes a data connection stands
 * beside it, on which bytes travel; on the local node's the pool's descriptor
 * is asked for first (ATTACH), so that an open local link means a mapping.
 *
 *   IDLE -> DIALING -> HELLO [-> ATTACH] [-> RAILS] -> UP -> IDLE
 *
 * Where both sides have RDMA there are queue pairs beside the data connection,
 * which is up when they are, or will not be (link_rails.c).
 *
 * All on the channel's loop.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "event/loop.h"
#include "net/net.h"
#include "net/rpc.h"
#include "svc/hub.h"

struct kv_chan;
struct kv_rdmalink;

enum kv_link_state {
	KV_LINK_IDLE,
	KV_LINK_DIALING,
	KV_LINK_HELLO,
	KV_LINK_ATTACH,
	KV_LINK_RAILS,
	KV_LINK_UP,
};

/* Waits for a link. fn: 0 when it is up, else -kv_status; deferred, once. */
struct kv_link_wait {
	struct kv_list link;
	struct kv_link *to; /* NULL while it does not wait */
	bool data;          /* for the data connection too */
	uint64_t until_ns;  /* an attempt is not given up before */
	void (*fn)(struct kv_link_wait *w, int status);
};

/* Receives the payloads of DATA frames with one ref. */
struct kv_link_rx {
	struct kv_list link;
	struct kv_link *to; /* NULL while not added */
	uint64_t ref;
	/* As kv_conn_ops.on_payload. */
	int (*payload)(struct kv_link_rx *rx, const struct kv_msg *msg,
		       struct iovec *iov, int max);
	void (*got)(struct kv_link_rx *rx, const struct kv_msg *msg);
	/* The data connection is gone (-kv_status); it is off the link. */
	void (*lost)(struct kv_link_rx *rx, int status);
};

/* One of the two connections. */
struct kv_link_end {
	struct kv_link *link;
	enum kv_link_state state;
	struct kv_dial *dial;
	struct kv_conn *conn;
	struct kv_rpc rpc;
	struct kv_call call; /* HELLO, ATTACH */
	uint64_t token;      /* the far side's name of this connection */
};

struct kv_link {
	struct kv_chan *ch;
	struct kv_list node; /* in ch->nodes: links to other nodes */
	char addr[KV_SOCKPATH_BYTES_MAX + 32];
	struct kv_id want;   /* whom it must be; zero: anybody */
	struct kv_id boot;   /* who it is, while UP */
	bool is_told;        /* masters know that it can be reached */
	bool is_local;       /* over the Unix socket: bytes by the mapping */
	uint64_t deadline;   /* of the attempt under way */
	int dialled;         /* how dialling ended: 0 or -errno */
	const char *foreign; /* why it is hardly kvpool, or NULL */
	struct kv_link_end ctl;
	struct kv_link_end data;
	/* Beside ctl and by RDMA, while there are rails: for what can be asked
	 * again when it is lost. */
	struct kv_link_end fast;
	struct kv_rdmacall_dial *fast_dial;
	uint64_t fast_again_ns; /* it was lost, and is not dialled before */
	uint64_t fast_pause_ns;
	uint64_t features;           /* of the other side, by ctl */
	struct kv_rdmalink *rails;   /* NULL: none */
	struct kv_timer rails_timer; /* they are waited for so long */
	struct kv_list waits;
	struct kv_list rxs;
	unsigned users; /* operations that hold it: it is not evicted */
};

/* addr: "unix:/path", "host:port". NULL, errno. */
struct kv_link *kv_link_new(struct kv_chan *ch, const char *addr,
			    const struct kv_id *want, bool is_local);
/* Waits and receivers are gone already. NULL is fine. */
void kv_link_free(struct kv_link *l);

/* 1: it is up (with the data connection, when asked for) and fn is not called.
 * 0: fn will be. -KV_ENOMEM. -KV_EUNREACHABLE: the local node did not answer a
 * moment ago. The attempt ends well before deadline_ns, or after a second. */
int kv_link_open(struct kv_link *l, struct kv_link_wait *w, bool data,
		 uint64_t deadline_ns);
/* Why the attempt that ended with status (-kv_status) failed, for people. */
const char *kv_link_why(const struct kv_link *l, int status);
/* Harmless when it does not wait. */
void kv_link_wait_cancel(struct kv_link_wait *w);

/* Gives the link up: every call, wait and receiver of it fails with status
 * (-kv_status). */
void kv_link_drop(struct kv_link *l, int status);
/* Only the data connection. When it returns nothing moves any more between it
 * and anybody's buffers: this is how a call that gives up fences them. */
void kv_link_drop_data(struct kv_link *l, int status);

/* Requests go by the fast end, but for those whose bytes follow by TCP; what it
 * loses is asked again by ctl. False: they go by ctl now; it is dialled again
 * if it was lost some time ago. */
bool kv_link_fast_use(struct kv_link *l);
/* The fast end failed, or does not answer (-kv_status): its calls fail, ctl is
 * used, and it is dialled again when it would be used, after a pause. */
void kv_link_fast_fail(struct kv_link *l, int status);

/* Rails of the link that is up; 0: values go by TCP now. */
unsigned kv_link_rails(const struct kv_link *l);
/* Why there is none, or not all that there could be, for people; "" when all
 * are there, or none would be of use. */
void kv_link_rails_why(const struct kv_link *l, char *out, size_t n);
/* There are none, and something would go by them: if they went to others while
 * nobody used them, they are connected again. */
void kv_link_rails_wake(struct kv_link *l);

void kv_link_rx_add(struct kv_link *l, struct kv_link_rx *rx);
void kv_link_rx_del(struct kv_link_rx *rx);

/* Gives back what a GRANT_R granted, as far as it was not filled. */
void kv_link_ungrant(struct kv_link *l, const struct kv_msg *msg);

/* Lets pins of the local node go; n may be 0. No answer is waited for. */
void kv_link_unpin(struct kv_link *l, const struct kv_le64 *pins, uint32_t n);

#endif

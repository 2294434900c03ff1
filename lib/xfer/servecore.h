#ifndef KV_XFER_SERVECORE_H
#define KV_XFER_SERVECORE_H

/* What the files of kv_serve share: one connection that it serves. */

#include "event/loop.h"
#include "net/conn.h"
#include "net/net.h"
#include "xfer/region.h"
#include "xfer/serve.h"

enum kv_serve_state {
	KV_SERVE_GREETING, /* HELLO is to come */
	KV_SERVE_OPEN,
	KV_SERVE_REFUSED, /* was told so: closes it, or the time does */
};

struct kv_serveconn {
	struct kv_list link;
	struct kv_serve *serve;
	struct kv_region_set *regions;
	struct kv_conn *conn;
	enum kv_serve_state state;
	struct kv_timer timer; /* until it is OPEN */
	struct kv_peer peer;
	struct kv_guest *guest;    /* NULL: asked for no fence */
	int fence_fd;              /* the guest's */
	struct kv_rdmalink *rails; /* NULL: it was not asked for */
	/* The WRITE whose payload is coming. */
	struct kv_region_hold *hold; /* NULL before the first one */
	int verdict;                 /* enum kv_status */
	/* READs that are being answered. */
	struct kv_list reads;
	unsigned n_reads;
};

/* servexfer.c: XFER, before and after its payload; 0, or a negative number:
 * the peer broke the protocol. */
int kv_servexfer_place(struct kv_serveconn *c, const struct kv_msg *msg,
		       struct iovec *iov);
int kv_servexfer_take(struct kv_serveconn *c, const struct kv_msg *msg);
bool kv_servexfer_touches(const struct kv_serveconn *c,
			  const struct kv_region *r);
/* After its connection was closed. */
void kv_servexfer_fini(struct kv_serveconn *c);

/* serve.c: stops and resumes reading, as what is under way demands. */
void kv_serve_pace(struct kv_serveconn *c);

#endif

#ifndef KV_XFER_ENGINECORE_H
#define KV_XFER_ENGINECORE_H

/* What the files of kv_engine share. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "event/mbox.h"
#include "kvpool.h"
#include "net/net.h"
#include "xfer/guest.h"
#include "xfer/note.h"
#include "xfer/rdma.h"
#include "xfer/region.h"
#include "xfer/remote.h"

struct kv_op_crew;
struct kv_serve;
struct kv_worker;

struct kv_engine {
	struct kv_id boot;
	struct kv_id token; /* read by peers, where it lies */
	struct kv_engine_opts o;
	unsigned forks;
	atomic_bool closing;
	atomic_uint calls;    /* inside */
	struct kv_rdma *rdma; /* NULL: none, and why */
	char no_rdma[KV_RDMADEV_WHY_BYTES];
	struct kv_region_set regions;
	struct kv_guest_set guests;
	struct kv_note_queue notes;
	struct kv_remote_set remotes;
	struct kv_op_crew *crew;    /* runs what is submitted */
	struct kv_op_crew *helpers; /* copy along; NULL: none */
	struct kv_worker *worker;
	struct kv_serve *serve; /* the worker's */
	struct kv_mail end;     /* to the worker: no more of it */
	char bound[KV_NET_BOUND_BYTES];
	uint16_t port;
};

/* The beginning of a call: 0, then leave is to follow; or what it returns. */
int kv_engine_enter(struct kv_engine *e);
void kv_engine_leave(struct kv_engine *e);

/* When a call ends; timeout_ms 0: the engine's. */
struct kv_wait kv_engine_wait(const struct kv_engine *e, uint32_t timeout_ms);

/* -errno as the public number. */
int kv_engine_result(int rc);

#endif

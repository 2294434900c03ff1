#ifndef KV_SVC_PROBE_H
#define KV_SVC_PROBE_H

/*
 * Is a node's port alive, and is it still that node? Dials, says HELLO as a
 * probe, and asks for a PING: an answer means that the node's loop runs.
 */

#include <stdbool.h>

#include "net/net.h"
#include "net/rpc.h"

struct kv_probe_opts {
	struct kv_loop *loop;
	struct kv_net *net;
	const char *addr;  /* "host:port" */
	struct kv_id boot; /* the asking side */
	struct kv_id want; /* whom it should be */
	uint64_t deadline_ns;
};

/* Owned by the caller, zeroed before the first use. */
struct kv_probe {
	struct kv_probe_opts o;
	struct kv_dial *dial;
	struct kv_conn *conn;
	struct kv_rpc *rpc;
	struct kv_call call;
	struct kv_defer end;
	int status;
	bool is_on;
	/* Once, deferred. 0: it answers. -ECONNREFUSED: nobody listens there.
	 * -ESTALE: somebody else does. -ETIMEDOUT, another -errno: it is not
	 * known what became of it. */
	void (*fn)(struct kv_probe *probe, int status);
};

/* fn is set and it is not on. opts->addr is copied by nobody: it stays. */
void kv_probe_start(struct kv_probe *probe, const struct kv_probe_opts *opts);
/* fn is not called any more. Harmless when it is not on. */
void kv_probe_cancel(struct kv_probe *probe);

#endif

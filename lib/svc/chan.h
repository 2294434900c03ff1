#ifndef KV_SVC_CHAN_H
#define KV_SVC_CHAN_H

/*
 * A channel: one thread's way into the cluster. It has a loop and its own
 * connections: to the local node, to masters, to other nodes. The thread that
 * makes a call runs the channel's loop until the call is over; nobody else
 * touches it meanwhile. (The simulator runs many on one loop.)
 */

#include "base/rng.h"
#include "event/loop.h"
#include "net/rpc.h"
#include "svc/hub.h"
#include "svc/link.h"

#define KV_CHAN_NODES_MAX 64 /* links to other nodes; more: the oldest goes */

struct kv_chan;

/* A master that failed is dialled again, and one that will be asked is asked
 * for a sign of life, while nobody waits. */
struct kv_chan_trial {
	struct kv_link_wait wait;
	struct kv_call ping;
	uint64_t pinged_ns;
	struct kv_chan *ch;
	unsigned i;
};

struct kv_chan {
	struct kv_hub *hub;
	struct kv_loop *loop;
	struct kv_rng rng;
	struct kv_link *local; /* NULL: none */
	struct kv_link *masters[KV_HUB_MASTERS_MAX];
	struct kv_chan_trial trials[KV_HUB_MASTERS_MAX];
	struct kv_list nodes; /* struct kv_link, latest used first */
	unsigned n_nodes;
	struct kv_chan_refresh *refresh; /* NODES under way; made on demand */
	struct kv_rdmaloop *rdma;        /* made on demand; NULL: none yet */
	struct kv_rdmacall *call;        /* the same */
};

/* NULL, errno. loop and hub outlive it. */
struct kv_chan *kv_chan_new(struct kv_hub *hub, struct kv_loop *loop);
/* Masters were added to the hub since. False: no memory. */
bool kv_chan_add_masters(struct kv_chan *ch);
/* No operation may be under way. NULL is fine. */
void kv_chan_free(struct kv_chan *ch);

/* The link to a node: the local one when it is that node and its pool can be
 * mapped, else one to the address that the hub knows. NULL, errno: ENOENT when
 * there is none. The caller raises link->users while it uses it. */
struct kv_link *kv_chan_link(struct kv_chan *ch, const struct kv_id *boot);

/* Has this channel a connection to that node? */
bool kv_chan_is_linked(const struct kv_chan *ch, const struct kv_id *boot);

/* Until when one peer is waited for: for half of what the call has left, so
 * that there is time for another one; at least and at most so long. */
uint64_t kv_chan_patience(const struct kv_chan *ch, uint64_t deadline,
			  uint64_t least_ns, uint64_t most_ns);

/*
 * Asks for the table of nodes, if no question is under way. fn (NULL: nobody
 * waits) runs once, deferred, when it is over, whatever came of it. False: it
 * will not run: there is no master, no memory, or somebody waits already.
 */
bool kv_chan_refresh(struct kv_chan *ch,
		     void (*fn)(struct kv_chan *ch, void *arg), void *arg);
/* fn with this arg will not run. */
void kv_chan_refresh_cancel(struct kv_chan *ch, const void *arg);

/* Dials a master that failed; the hub is told what came of it. */
void kv_chan_try_master(struct kv_chan *ch, unsigned i);
/* For a call that waits for something else: do the masters that it may ask next
 * still answer? If not the hub knows it by then. To be called often. */
void kv_chan_watch_masters(struct kv_chan *ch);

/* Tells the master what was seen of an owner, when that is news. */
void kv_chan_report(struct kv_chan *ch, const struct kv_id *boot, int status);

#endif

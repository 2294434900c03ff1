#ifndef KV_SVC_NODECORE_H
#define KV_SVC_NODECORE_H

/*
 * What the files of a node share: its state, its connections, and what each
 * file does for the others.
 */

#include "base/htab.h"
#include "base/list.h"
#include "base/log.h"
#include "base/rng.h"
#include "event/loop.h"
#include "net/conn.h"
#include "net/net.h"
#include "store/generation.h"
#include "store/index.h"
#include "store/key.h"
#include "svc/mover.h"
#include "svc/node.h"
#include "svc/stats.h"

struct kv_cut;
struct kv_nodekept;
struct kv_nodepeer;
struct kv_nodeput;
struct kv_putkey;
struct kv_nodeget_plan;
struct kv_proc;
struct kv_session;
struct kv_sum;

/* nodegen.c */
enum {
	KV_NODEGEN_EMPTIED = 16, /* removals that have not ended elsewhere */
};

struct kv_nodegen {
	struct kv_generations known;
	/* For the sake of which ones all was removed last, in a ring: the
	 * random part tells whose they are. */
	struct kv_generation emptied[KV_NODEGEN_EMPTIED];
	unsigned n_emptied;
	struct kv_defer purge;
	uint64_t cursor;   /* of it; 0: it begins */
	bool must_restart; /* what it has passed is outdated now */
	struct kv_timer hold;
};

enum kv_node_phase {
	KV_NODE_RUNNING,
	KV_NODE_DRAINING, /* told masters; what is under way may end */
	KV_NODE_STOPPED,
};

struct kv_node {
	struct kv_node_opts o; /* its strings: own copies */
	struct kv_loop *loop;
	struct kv_net *net;
	struct kv_id boot;
	struct kv_rng rng;
	struct kv_stats_set stats; /* of the node's own loop */
	uint64_t next_id;          /* grants and pins */

	struct kv_slab *slab;
	struct kv_index *index;
	uint64_t pool_bytes;  /* less than o.pool_bytes when pages ended */
	uint64_t ready_bytes; /* announced */
	struct kv_extent scratch[KV_EXTENTS_MAX];

	struct kv_mover *mover;
	struct kv_nodekept *kept; /* NULL: the pool ends with the node */

	/* nodepeer.c */
	struct kv_listener *listeners[KV_NODE_LISTEN_MAX];
	char bound[KV_NODE_LISTEN_MAX][KV_NET_BOUND_BYTES];
	char addr[KV_NAME_BYTES_MAX + 1];
	struct kv_rdmacall *call; /* NULL: no requests by RDMA */
	struct kv_list peers;
	unsigned n_conns; /* peers and data connections */
	uint64_t n_keys;  /* being put or sent */
	struct kv_log_limit full_log;
	struct kv_log_limit bad_log;

	/* proc.c */
	struct kv_list procs;
	unsigned n_procs;
	unsigned n_pinning; /* processes with pins */
	struct kv_log_limit lost_log;
	struct kv_htab pins; /* by id */
	struct kv_list free_pins;

	/* nodeput.c */
	struct kv_list puts;                  /* not over */
	uint16_t seen[2 * KV_BATCH_KEYS_MAX]; /* for one call: keys by hash */
	uint64_t kept_bytes;                  /* of small puts that wait */
	struct kv_htab writing; /* the one put of a key that may go on */
	struct kv_htab grants;  /* keys being filled, by grant */
	struct kv_list early;   /* keys that wait for a master */
	struct kv_list pages;   /* keys that wait for pages */
	struct kv_list hidden;  /* keys inserted, verdict awaited */

	/* nodepush.c */
	struct kv_list gets; /* with bytes on their way out */

	/* nodeget.c */
	struct kv_nodeget_plan *plan; /* KV_BATCH_KEYS_MAX, for one call */

	/* nodejob.c */
	struct kv_list jobs;
	unsigned n_jobs;
	struct kv_defer jobs_turn;

	struct kv_nodegen gen;

	/* session.c */
	struct kv_session *sessions[KV_MASTERS_MAX];
	bool was_alone; /* no master heard of it for a time, and not all that
			 * do have been told of everything since */
	unsigned n_sessions;

	enum kv_node_phase phase;
	struct kv_timer drain;
	struct kv_defer stop;
	kv_node_done_fn *done;
	void *done_arg;
};

/* ---- node.c ---- */

/* A number that cannot be guessed (on a virtual loop: from the seed); not 0. */
uint64_t kv_node_random(struct kv_node *node);
/* Short for who a requester is; never 0. Two may have the same. */
static inline uint16_t
kv_node_putter(const struct kv_id *boot)
{
	uint16_t n = (uint16_t)(boot->b[0] | boot->b[1] << 8);

	return n ? n : 1;
}
/* Something ended: perhaps it was the last that draining waits for. */
void kv_node_drained(struct kv_node *node);

/* ---- nodepeer.c: connections ---- */

enum kv_nodepeer_from {
	KV_FROM_STRANGER = 0, /* no HELLO yet */
	KV_FROM_REQUESTER = 1,
	KV_FROM_MASTER = 2, /* the node's own session */
	KV_FROM_PROBE = 4,
	KV_FROM_LEAVING = 8, /* was refused; the answer is on its way */
};

/* Work for a peer that goes on in slices, one slice of one job a turn. */
struct kv_nodejob {
	struct kv_list turn; /* node->jobs */
	struct kv_list link; /* peer->jobs */
	struct kv_nodepeer *peer;
	uint64_t id; /* of the request */
	/* False: it is done and has answered. */
	bool (*step)(struct kv_nodejob *job);
	/* Done, or the peer is lost. */
	void (*free)(struct kv_nodejob *job);
};

/* One that sends requests: a connection that was accepted, or a session. */
struct kv_nodepeer {
	struct kv_list link; /* node->peers; sessions' are in no list */
	struct kv_node *node;
	struct kv_conn *conn; /* NULL once it is lost */
	enum kv_nodepeer_from from;
	struct kv_timer timer; /* until HELLO came */
	struct kv_peer who;    /* as the kernel says */
	struct kv_id boot;
	uint64_t token;
	unsigned tenant; /* interned */
	uint64_t seed;   /* of its keys */
	struct kv_proc *proc;
	struct kv_list puts;      /* not answered */
	struct kv_list gets;      /* with bytes on their way */
	struct kv_list data;      /* its data connections */
	struct kv_nodepeer *main; /* another one of that process, whose data
				   * connections it uses, too */
	struct kv_list jobs;
	unsigned requests; /* puts, gets and jobs under way */
	unsigned n_keys;   /* of these puts and gets */
};

/* A data connection. */
struct kv_nodepeer_data {
	struct kv_list link; /* peer->data; alone once the peer is gone */
	struct kv_node *node;
	struct kv_dataconn *conn;
};

int kv_nodepeer_listen(struct kv_node *node, char *err, size_t err_bytes);
void kv_nodepeer_unlisten(struct kv_node *node);
/* Ends every connection. */
void kv_nodepeer_close_all(struct kv_node *node);
/* Ends the connections of a process that has ended. */
void kv_nodepeer_close_of(struct kv_node *node, const struct kv_proc *proc);
/* The one that a session hands its requests to; NULL: no memory. The
 * connection stays the session's. */
struct kv_nodepeer *kv_nodepeer_of_session(struct kv_node *node,
					   struct kv_conn *conn);
/* Lost: what it asked for is cancelled or goes on without it. */
void kv_nodepeer_free(struct kv_nodepeer *peer);
/*
 * A request, by the table. False: it is broken, or none that this peer may
 * make; its connection is to be closed. So it is with all the functions of
 * this form below.
 */
bool kv_nodepeer_dispatch(struct kv_nodepeer *peer, const struct kv_msg *msg);
/* Would another request, with so many keys to be put or sent, be too much? It
 * is answered KV_EBUSY, then. */
bool kv_nodepeer_is_busy(struct kv_nodepeer *peer, unsigned keys);
/* Its data connection with this token, or NULL. */
struct kv_dataconn *kv_nodepeer_data(struct kv_nodepeer *peer, uint64_t token);
/* The mover's: a data connection is gone. */
void kv_nodepeer_data_closed(void *owner, struct kv_dataconn *dc);

/* ---- proc.c: who holds what ---- */

/*
 * A process of this host, or a connection from another one. Pins and grants
 * belong to it: a lost connection changes nothing while the process lives.
 */
struct kv_proc {
	struct kv_list link; /* node->procs */
	struct kv_node *node;
	unsigned refs; /* peers, grants, pins, moves */
	pid_t pid;     /* 0: a connection of its own */
	int pidfd;     /* own; -1: none */
	struct kv_io io;
	bool is_attached;
	bool may_write;
	bool is_gone;
	struct kv_list grants; /* of kv_putkey, to be filled in place */
	struct kv_list pins;
	uint64_t pinned_bytes; /* of small ones, KV_PIN_BYTES_MIN each */
	uint64_t n_pins;
};

/* The process behind a connection, referenced; NULL: out of memory or
 * descriptors. */
struct kv_proc *kv_proc_of(struct kv_node *node, const struct kv_peer *who);
void kv_proc_ref(struct kv_proc *p);
void kv_proc_unref(struct kv_proc *p);
/* It has ended: everything that it holds is let go, its connections too. */
void kv_proc_exit(struct kv_proc *p);
void kv_proc_exit_pid(struct kv_node *node, pid_t pid);
/* Nobody holds anything any more (the node ends). */
void kv_proc_fini(struct kv_node *node);

/* May it have this one pinned too? */
bool kv_proc_has_room(const struct kv_proc *p, const struct kv_object *o);
/* Pins the object for it; the pin's id, 0 without memory. */
uint64_t kv_proc_pin(struct kv_proc *p, struct kv_object *o, uint64_t token);
/* Lets go; unknown ids and other processes' pins are ignored. */
void kv_proc_unpin(struct kv_proc *p, uint64_t id);

bool kv_proc_attach(struct kv_nodepeer *peer, const struct kv_msg *msg);
bool kv_proc_release(struct kv_nodepeer *peer, const struct kv_msg *msg);

/* ---- nodeput.c, nodeget.c ---- */

bool kv_nodeput_start(struct kv_nodepeer *peer, const struct kv_msg *msg);
bool kv_nodeput_filled(struct kv_nodepeer *peer, const struct kv_msg *msg);
/* Pages came, or will never come. */
void kv_nodeput_pages(struct kv_node *node);
/* A master was heard of, or is waited for no longer. */
void kv_nodeput_early(struct kv_node *node);
void kv_nodeput_peer_lost(struct kv_nodepeer *peer);

struct kv_nodeget_plan *kv_nodeget_plan_new(void);
bool kv_nodeget_start(struct kv_nodepeer *peer, const struct kv_msg *msg);
/* The same, for one whose keys were seen to be checked. */
bool kv_nodeget_run(struct kv_nodepeer *peer, const struct kv_msg *msg);
/* Of the i-th key of the one that is planned. */
struct kv_hash kv_nodeget_hash(const struct kv_node *node, unsigned i);

/* ---- nodelookup.c ---- */

bool kv_nodelookup_start(struct kv_nodepeer *peer, const struct kv_msg *msg);
bool kv_nodelookup_want(struct kv_nodepeer *peer, const struct kv_msg *msg);

/* ---- session.c: masters ---- */

int kv_session_open_all(struct kv_node *node);
/* Says LEAVE to all. */
void kv_session_leave_all(struct kv_node *node);
void kv_session_close_all(struct kv_node *node);
bool kv_session_is_live(const struct kv_node *node, unsigned session);
/* Is the copy shown, and has a master known of it ever since? */
bool kv_session_vouches(const struct kv_node *node, const struct kv_object *o);
/* How many different ones it was given. */
unsigned kv_session_masters(const struct kv_node *node);
/* What JOIN says has changed: masters that were told it are told anew. */
void kv_session_rejoin(struct kv_node *node);
/* Queues the object for every live master. A bit for each that has to answer
 * (kv_putkey_verdict) or to be given up (kv_putkey_session_lost). */
unsigned kv_session_publish(struct kv_node *node, const struct kv_object *o);
void kv_session_publish_to(struct kv_node *node, unsigned session,
			   const struct kv_object *o);
/* The node has this no more. */
void kv_session_withdraw(struct kv_node *node, const struct kv_object *o);
/* The node has more or less memory. */
void kv_session_room_changed(struct kv_node *node);

/* ---- nodekept.c: a pool that outlives the node ---- */

/* Adopts what is in it, if there is one. 0, or -errno with a line in err. */
int kv_nodekept_start(struct kv_node *node, char *err, size_t err_bytes);
/* Nothing of what follows is written to it. */
void kv_nodekept_detach(struct kv_node *node);
void kv_nodekept_free(struct kv_node *node);
/* Pages up to there are in memory. */
void kv_nodekept_ready(struct kv_node *node, uint64_t end);
/* An object was shown: its sum is due. */
void kv_nodekept_shown(struct kv_node *node);
/* All that is shown would be adopted. */
bool kv_nodekept_is_idle(const struct kv_node *node);
/* The sum of an unchecked object's bytes: it is checked, or dropped and false.
 */
bool kv_nodekept_judge(struct kv_node *node, struct kv_object *o, uint64_t sum);
/* A record for the key's space. 0, -ENOSPC, -ENOMEM. */
int kv_nodekept_reserve(struct kv_node *node, struct kv_putkey *k,
			bool may_evict);
void kv_nodekept_release(struct kv_node *node, struct kv_putkey *k);
/* Its identity, whoever serves it; zero: there is none. */
struct kv_id kv_nodekept_pool(const struct kv_node *node);
/* Objects that would not be adopted yet. */
uint64_t kv_nodekept_unsummed(const struct kv_node *node);
/* Held for processes of earlier nodes, but for objects. */
uint64_t kv_nodekept_held_bytes(const struct kv_node *node);

/* Its tenants' generations are added to t. 0 or -ENOMEM. */
int kv_nodekept_generations(struct kv_node *node, struct kv_generations *t);
/* This one holds, and what came to the tenant before the epoch will not be
 * adopted. */
void kv_nodekept_generation(struct kv_node *node, const char *name, size_t len,
			    struct kv_generation g, uint32_t epoch);

/* ---- nodegen.c: what was removed as a whole ---- */

/* After nodekept.c's. 0 or -ENOMEM. */
int kv_nodegen_start(struct kv_node *node);
void kv_nodegen_stop(struct kv_node *node);
void kv_nodegen_fini(struct kv_node *node);

/* The one that holds for a tenant. */
struct kv_generation kv_nodegen_get(const struct kv_node *node,
				    unsigned tenant);
/* Somebody names this one. When it is news all of the tenant goes. */
void kv_nodegen_learn(struct kv_node *node, const char *name, size_t len,
		      struct kv_generation heard);
/* The same for a table; false: it is broken. */
bool kv_nodegen_take(struct kv_node *node, struct kv_cut *cut, unsigned count);
bool kv_nodegen_msg(struct kv_nodepeer *peer, const struct kv_msg *msg);

/* Nothing of the tenant is found from now on; it is to be dropped, by the
 * caller or by kv_nodegen_purge(). */
void kv_nodegen_outdate(struct kv_node *node, unsigned tenant);
void kv_nodegen_purge(struct kv_node *node);
/* All of its tenant was removed for the sake of this one, which will be told.
 */
void kv_nodegen_emptied(struct kv_node *node, struct kv_generation g);

/* A session began or ended, or what it had to say came: what waited for that
 * goes on. */
void kv_nodegen_settle(struct kv_node *node);
/* It has a pool file, and no master has said yet what of that counts, nor what
 * was removed meanwhile: what is put now would seem to be from before that. */
bool kv_nodegen_is_early(const struct kv_node *node);
/* The peer, a session, has had a REMOVE that the node missed answered. */
void kv_nodegen_told(struct kv_nodepeer *peer);

/* ---- nodesum.c: sums of values in slices ---- */

/* One value being summed; it is pinned. Zeroed before. */
struct kv_nodesum {
	struct kv_node *node;
	struct kv_object *object; /* NULL: none */
	struct kv_sum *sum;
	unsigned ext; /* the next one */
	uint64_t off; /* in it */
	uint64_t left;
};

/* 0 or -ENOMEM. */
int kv_nodesum_begin(struct kv_nodesum *s, struct kv_node *node,
		     struct kv_object *o);
/* A slice. True: there is more. */
bool kv_nodesum_step(struct kv_nodesum *s);
/* Of all of it. False: the object was unchecked and is damaged, it is gone. */
bool kv_nodesum_check(const struct kv_nodesum *s, uint64_t *value);
/* Lets the object go; harmless when there is none. */
void kv_nodesum_fini(struct kv_nodesum *s);

/* If some of the n keys of a GET that is planned are unchecked: checks them,
 * then runs it, and true. */
bool kv_nodesum_before_get(struct kv_nodepeer *peer, const struct kv_msg *msg,
			   unsigned n);

/* ---- nodejob.c ---- */

void kv_nodejob_init(struct kv_node *node);
void kv_nodejob_start(struct kv_nodejob *job, struct kv_nodepeer *peer,
		      uint64_t id);
/* Frees it. */
void kv_nodejob_end(struct kv_nodejob *job);

/* ---- nodeadmin.c ---- */

bool kv_nodeadmin_remove(struct kv_nodepeer *peer, const struct kv_msg *msg);
bool kv_nodeadmin_keys(struct kv_nodepeer *peer, const struct kv_msg *msg);

/* An object leaves otherwise than by eviction: withdrawn, then dropped. */
void kv_nodeadmin_drop(struct kv_node *node, struct kv_object *o);

/* ---- nodeinfo.c ---- */

bool kv_nodeinfo_query(struct kv_nodepeer *peer, const struct kv_msg *msg);
bool kv_nodeinfo_stats(struct kv_nodepeer *peer, const struct kv_msg *msg);
bool kv_nodeinfo_nodes(struct kv_nodepeer *peer, const struct kv_msg *msg);
bool kv_nodeinfo_check(struct kv_nodepeer *peer, const struct kv_msg *msg);
/* The node's record, as NODES_R and LOOKUP_R carry it. */
size_t kv_nodeinfo_record_bytes(const struct kv_node *node);
void kv_nodeinfo_record(const struct kv_node *node, void *out);

/* The tenant that a message names, for this peer: its number, -ENOENT when
 * nothing was ever stored under it, -EACCES when it is not the peer's own. */
int kv_nodeinfo_tenant(const struct kv_nodepeer *peer, const char *name,
		       size_t len);

static inline struct kv_hash
kv_node_hash(const struct kv_object *o)
{
	return (struct kv_hash){ .lo = o->node.hash, .hi = o->hash_hi };
}

#endif

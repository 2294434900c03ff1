#ifndef KV_SIM_CLUSTERCORE_H
#define KV_SIM_CLUSTERCORE_H

/* The inside of a cluster: cluster.c has its processes, clustercall.c what they
 * are asked, clustermodel.c the model, clusterfault.c what befalls them,
 * clusteragree.c compares what they see. */

#include "base/attr.h"
#include "base/clock.h"
#include "cluster.h"
#include "event/loop.h"
#include "simnet.h"
#include "simpool.h"
#include "svc/chan.h"
#include "svc/hub.h"
#include "svc/master.h"
#include "svc/node.h"

#define MASTERS_MAX    3
#define NODES_MAX      12
#define REQUESTERS_MAX 16
#define DEADLINE_NS    (5 * KV_NS_PER_S) /* of every call */

struct sim_call;
struct sim_key;

struct sim_master {
	char host[16];
	pid_t pid;
	struct kv_master *m; /* NULL: dead */
	bool is_frozen;
};

/* A pool lives as long as somebody maps it: here, to the end. */
struct sim_pool {
	struct sim_pool *next;
	struct kv_id boot;
	char *bytes;
	bool is_shared; /* the bytes are the node's */
};

struct sim_node {
	char host[16];
	char socket[40];
	pid_t pid;
	struct kv_node *node; /* NULL: dead */
	bool has_file;        /* its pool outlives it */
	struct simpool file;
	char *bytes; /* with a file: those of the pool */
	struct kv_rdma *rdma;
	struct kv_rdmaregion *region;
};

struct sim_requester {
	struct cluster *cl;
	unsigned i;
	const char *host;
	pid_t pid;
	bool is_alive;
	bool is_parted; /* it cannot reach a node: it may miss things */
	struct kv_rdma *rdma;
	struct kv_hub hub;
	struct kv_chan *ch;
	struct sim_call *call; /* one at a time */
};

struct cluster {
	struct cluster_opts o;
	struct kv_clock clock;
	struct kv_loop *loop;
	struct simnet *net;
	struct kv_rng rng;
	pid_t next_pid;
	uint64_t next_tag;
	struct sim_master masters[MASTERS_MAX];
	struct sim_node nodes[NODES_MAX];
	struct sim_requester requesters[REQUESTERS_MAX];
	struct sim_pool *pools;
	struct sim_key *model;
	char master_list[64];
	bool is_quiet;        /* what was put must be found, and soon */
	bool is_split;        /* but there may be two values of a key */
	bool is_undone;       /* and a removal may come late: until all is well
			       * nothing need be found */
	bool is_crashed;      /* nothing is broken but a node with a pool file,
			       * which was killed */
	bool is_node_lost;    /* some requester cannot reach a node */
	bool is_damaging;     /* what dead nodes left is written over */
	bool is_stale;        /* a master has not heard of a removal: what it
			       * says of existence does not count */
	uint64_t thawed;      /* when a master went on last */
	unsigned n_removing;  /* removals under way */
	bool is_afflicted;    /* something is broken */
	unsigned epoch;       /* what was before the last loss counts no more */
	uint64_t patience_ns; /* in which calls end while it is */
	uint64_t hits, puts, removals;
};

/* Ends the program, with the seed and the time. */
KV_PRINTF(2, 3)
void cluster_forbid(const struct cluster *cl, const char *fmt, ...);

/* The model's memory of all keys, to be freed. */
struct sim_key *cluster_keys_new(unsigned n);
/* Something is broken: what was put need not be found any more. */
void cluster_lost(struct cluster *cl);

/* Nobody is putting: these are the bytes of a put of that key. */
void cluster_judge_bytes(const struct cluster *cl, unsigned key,
			 const char *bytes, uint64_t len);
/* A node with a pool file was killed: what was new need not come back. */
void cluster_unsummed(struct cluster *cl);
/* Until it is mended masters may not hear of each other's nodes: there may be
 * two values of a key. One is found still. */
void cluster_split(struct cluster *cl);

/* Masters know of removals, nodes do not yet: that is over now; or the masters
 * have forgotten them. */
void cluster_removals_done(struct cluster *cl);
void cluster_removals_forget(struct cluster *cl);

/* The program of a requester is gone, with the call under way. */
void cluster_call_abort(struct sim_requester *r);

#endif

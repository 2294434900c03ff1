#ifndef KV_SIM_CLUSTER_H
#define KV_SIM_CLUSTER_H

/*
 * A cluster in one process on a virtual clock: the real cores of masters, nodes
 * and clients over a simulated network, and a model of what a get may return.
 * What the model forbids ends the program with the seed and the time.
 *
 * The model. Every attempt to put has a tag of its own, from which all bytes of
 * its value follow. A get that hits must give the whole value of one attempt on
 * that key that had begun by then and was not refused. Calls end by their
 * deadline.
 *
 * While nothing was broken, removed or evicted (cluster_settle() begins such a
 * time), and while of all that is there only one master, or the ways between
 * requesters and one node, or between nodes and some of the masters, are broken
 * (cluster_afflict()), the promises hold:
 * a put that returned 0 is found by every get and every existence check that
 * begins later, with its value, and so is what a get or a check has found once;
 * of two puts of a key one succeeds; no put fails; no call takes longer than a
 * second, unless some requester cannot reach a node. Only who cannot reach a
 * node, or the master that knows it, may miss what lies there; and as long as
 * masters do not hear of all nodes there may be two values of a key.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/rng.h"

struct cluster;
struct kv_clock;
struct kv_loop;
struct kv_rdma;

/* RDMA of the processes; simrails.h has one. */
struct cluster_rdma {
	/* The first call, on the cluster's loop. */
	void (*begin)(struct cluster_rdma *r, struct kv_loop *loop,
		      struct kv_clock *clock);
	/* Of a new process. Never NULL. */
	struct kv_rdma *(*open)(struct cluster_rdma *r, const char *host,
				pid_t pid);
	/* It has ended: nothing is touched for it any more. */
	void (*exit)(struct cluster_rdma *r, pid_t pid);
	/* And gave back what it had. */
	void (*close)(struct cluster_rdma *r, pid_t pid);
	void (*end)(struct cluster_rdma *r);
};

struct cluster_opts {
	uint64_t seed;
	unsigned masters;
	unsigned nodes;
	unsigned requesters; /* spread over the nodes' hosts, and one without */
	unsigned keys;       /* names in use */
	uint64_t pool_bytes; /* of each node */
	uint64_t size_max;   /* of a value */
	unsigned replicas_max;
	unsigned files;      /* bits: nodes with a pool that outlives them */
	bool chunked;        /* see simnet.h */
	uint64_t latency_ns; /* one way between hosts; 0: 50 us, and jitter */
	/* NULL: none. Outlives the cluster. */
	struct cluster_rdma *rdma;
};

struct cluster *cluster_new(const struct cluster_opts *o);
/* Ends all processes in order; checks that nothing is left pinned, reserved or
 * open. */
void cluster_free(struct cluster *cl);

/* Lets time pass. */
void cluster_run(struct cluster *cl, uint64_t ns);

/* Random work: starts a call of a random requester on random keys. */
void cluster_work(struct cluster *cl);
/* Waits until every call has ended (they do, by their deadlines). */
void cluster_drain(struct cluster *cl);

/* One random misfortune, or repair. */
void cluster_fault(struct cluster *cl);
/* Repairs everything, starts again what is dead, and waits until the pool is
 * whole. */
void cluster_settle(struct cluster *cl);
/* One such thing happens. Then it is mended, and time passes until
 * all masters know all nodes. */
void cluster_afflict(struct cluster *cl);
void cluster_recover(struct cluster *cl);
/* Particular ones. */
void cluster_master_kill(struct cluster *cl, unsigned i);
void cluster_master_start(struct cluster *cl, unsigned i);
void cluster_master_freeze(struct cluster *cl, unsigned i, bool freeze);
void cluster_node_kill(struct cluster *cl, unsigned i);
void cluster_node_start(struct cluster *cl, unsigned i);
void cluster_requester_kill(struct cluster *cl, unsigned i);

/* Every requester reads every key: all see the same, and existence says what
 * get gives. Nothing may be broken. */
void cluster_check_agreement(struct cluster *cl);

struct kv_rng *cluster_rng(struct cluster *cl);
uint64_t cluster_hits(const struct cluster *cl);
uint64_t cluster_puts(const struct cluster *cl);
/* Bytes that went by RDMA, to and from clients that live. */
uint64_t cluster_rdma_bytes(struct cluster *cl);

#endif

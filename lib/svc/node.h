#ifndef KV_SVC_NODE_H
#define KV_SVC_NODE_H

/*
 * A node: the owner of one pool of memory. It takes values in, hands them out,
 * lets the oldest go when it needs room, and tells the masters what it has.
 *
 * One loop drives it, all its surroundings are arguments, and it holds no
 * globals: the same code runs in kvclient, inside an engine's process, and many
 * times in one simulated cluster. Everything here is called on the loop's
 * thread.
 *
 * Where to read on: nodepeer.c (connections, the table of messages), nodeput.c
 * (one put, from top to bottom), nodeget.c (one get), session.c (masters),
 * proc.c (what processes of this host hold), mover.h (bytes on the network),
 * nodewindow.h (memory of requesters, by RDMA), nodeadmin.c (remove, list,
 * query), nodegen.c (what stays removed), nodekept.c (a pool that outlives it).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"
#include "wire/proto.h"

struct kv_bytes;
struct kv_ledger;
struct kv_loop;
struct kv_net;
struct kv_node;
struct kv_rdma;
struct kv_rdmaregion;

#define KV_NODE_LISTEN_MAX 4

/* A pool that outlives its node: where it is kept (svc/poolfile.h, or a
 * simulator). Lives are the numbers of the nodes that served it. */
struct kv_node_file {
	struct kv_ledger *ledger;
	bool is_void; /* what it says counts for nothing */
	/* A descriptor for a process that attaches, or -errno; from then on
	 * that process is attached in the life of this node. */
	int (*attach)(void *arg, bool may_write);
	/* Is any process there that attached in one of these lives? */
	bool (*is_attached)(void *arg, uint32_t from, uint32_t to);
	/* From `off` on the pool's bytes were kept up to where? */
	uint64_t (*data_end)(void *arg, uint64_t off);
	/* Nothing is held for processes of earlier lives any more. */
	void (*settled)(void *arg);
	void *arg;
};

struct kv_node_opts {
	struct kv_loop *loop;
	struct kv_net *net;

	/* The pool. Nothing in it is used before kv_node_ready(), but what was
	 * there already when it is `file`'s. */
	void *pool;
	uint64_t pool_bytes;
	uint64_t page_bytes;             /* to be told */
	const struct kv_node_file *file; /* NULL: it ends with the node */
	/* What processes of this host attach to; -1: they may not (on a
	 * virtual loop: they may, and get no descriptor). Stay the caller's. */
	int pool_fd;
	int pool_fd_ro;
	uint8_t pool_flags; /* KV_POOL_SEALED, KV_POOL_HUGETLB */
	/* Once the region is complete other hosts are served by RDMA, too. */
	struct kv_rdma *rdma;         /* NULL: no RDMA */
	struct kv_rdmaregion *region; /* of the pool, with rdma */

	/* Addresses as net->listen takes them; NULL ends the list. */
	const char *listen[KV_NODE_LISTEN_MAX];
	/* What others are to dial, "host" or "host:port"; without a port (or
	 * with port 0) that of the first TCP address. NULL: that address, or
	 * only its port when it is every address of this host: then others
	 * take the host that the master sees. */
	const char *addr;
	const char *name;  /* for people */
	struct kv_id boot; /* zero: random */
	struct kv_id host; /* kv_ident_host(); zero: not told */

	/* As net->connect takes them; NULL ends the list. */
	const char *masters[KV_MASTERS_MAX];

	uint64_t grace_ns;  /* exist grace; 0: 5 s */
	uint64_t drain_ns;  /* kv_node_stop waits so long; 0: 5 s */
	unsigned workers;   /* threads for data connections; 0: the loop */
	unsigned conns_max; /* 0: KV_NODE_CONNS_MAX */
	uint64_t seed;      /* of all that is random, on a virtual loop */
};

/*
 * Listens, and starts to look for its masters. Strings are copied. NULL on
 * failure, with one line in err.
 */
struct kv_node *kv_node_new(const struct kv_node_opts *opts, char *err,
			    size_t err_bytes);

/* [off, off + len) of the pool is faulted in: it is used from now on; with a
 * file, ranges ascend without gaps. 0, or -errno when the range is none of the
 * pool's or was announced before. */
int kv_node_ready(struct kv_node *node, uint64_t off, uint64_t len);

/* No more pages will come: what was announced is the pool. (Until then, or
 * until all of it was announced, puts wait for pages rather than evict.) */
void kv_node_ready_end(struct kv_node *node);

/* With rdma: the region is complete, or (false) never will be. Once; not due
 * when it was complete at kv_node_new(). */
void kv_node_registered(struct kv_node *node, bool is_complete);

/*
 * Ends it: masters are told, nobody is let in any more, what is under way may
 * end within drain_ns, then all connections are closed and what processes hold
 * is let go. done runs once, deferred; then kv_node_free() is due. A second
 * call ends the waiting at once.
 */
typedef void kv_node_done_fn(void *arg);
void kv_node_stop(struct kv_node *node, kv_node_done_fn *done, void *arg);

/* After done, or on a virtual loop at any time (the node "crashes": nothing is
 * said to anybody). NULL is fine. */
void kv_node_free(struct kv_node *node);

/* A process of this host has ended: for where no pidfd can say so (the
 * simulator). */
void kv_node_process_exit(struct kv_node *node, pid_t pid);

const struct kv_id *kv_node_boot(const struct kv_node *node);
/* As masters are told it. */
const char *kv_node_addr(const struct kv_node *node);
/* The host in it turned out to mean another one to others: masters are told the
 * port only, also those that were told it, and take the host that they see. */
void kv_node_forget_host(struct kv_node *node);
/* The address that listen[i] was bound to, port 0 resolved. */
const char *kv_node_bound(const struct kv_node *node, unsigned i);
/* How many masters it was given, and with how many it has a session. */
unsigned kv_node_masters(const struct kv_node *node);
unsigned kv_node_sessions(const struct kv_node *node);

/* What it has and how full it is, as heartbeats tell it. */
void kv_node_room(const struct kv_node *node, struct kv_heartbeat *out);

/* Everything that it counts, and what it holds. */
struct kv_node_stat {
	const char *name;
	const char *text;
	bool is_counter; /* else a gauge */
	uint64_t value;
};
typedef void kv_node_stat_fn(void *arg, const struct kv_node_stat *stat);
void kv_node_stats_each(const struct kv_node *node, kv_node_stat_fn *fn,
			void *arg);

/* The same as lines "name value\n". 0 or -ENOMEM. */
int kv_node_stats(const struct kv_node *node, struct kv_bytes *out);

#endif

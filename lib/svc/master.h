#ifndef KV_SVC_MASTER_H
#define KV_SVC_MASTER_H

/*
 * A master: the directory of a cluster. Nodes open a session with it and
 * publish which keys they hold; requesters ask who holds a key. It owns
 * nothing that the nodes could not tell it again, so it may be killed at any
 * time.
 *
 * One loop drives it, all its surroundings are arguments, and it holds no
 * globals: the same code runs in kvmaster and in a simulated cluster.
 * Everything here is called on the loop's thread.
 *
 * Where to read on: masterpeer.c (connections, the table of messages), intake.c
 * (one PUBLISH, from top to bottom) and verdict.c (which of two values of one
 * key stays), locate.c (one LOOKUP), member.c (sessions of nodes, how they come
 * and end), suspect.c (nodes that cannot be reached), relay.c (questions that
 * only the nodes can answer), missed.c (what was removed stays so).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "store/key.h"
#include "wire/proto.h"

struct kv_bytes;
struct kv_loop;
struct kv_master;
struct kv_net;

#define KV_MASTER_LISTEN_MAX 4

struct kv_master_opts {
	struct kv_loop *loop;
	struct kv_net *net;

	/* Addresses as net->listen takes them; NULL ends the list. */
	const char *listen[KV_MASTER_LISTEN_MAX];

	struct kv_id boot;  /* zero: random */
	uint64_t ttl_ns;    /* silence after which a node is dead; 0: 10 s */
	uint64_t grace_ns;  /* exist grace; 0: 5 s */
	unsigned slots;     /* nodes at a time; 0: KV_NODES_MAX */
	unsigned conns_max; /* 0: KV_MASTER_CONNS_MAX */
	uint64_t seed;      /* of all that is random, on a virtual loop */
};

/* Listens. Strings are used during the call only. NULL on failure, with errno
 * set and one line in err. */
struct kv_master *kv_master_new(const struct kv_master_opts *opts, char *err,
				size_t err_bytes);

/*
 * Ends it: nobody is let in any more, questions under way may be answered (two
 * seconds at most), then all connections are closed. done runs once, deferred;
 * then kv_master_free() is due. A second call ends the waiting at once.
 */
typedef void kv_master_done_fn(void *arg);
void kv_master_stop(struct kv_master *m, kv_master_done_fn *done, void *arg);

/* After done, or at any time: then it is as if it crashed, nothing is said to
 * anybody. NULL is fine. */
void kv_master_free(struct kv_master *m);

const struct kv_id *kv_master_boot(const struct kv_master *m);
/* The address that listen[i] was bound to, port 0 resolved. */
const char *kv_master_bound(const struct kv_master *m, unsigned i);
/* Nodes that are counted as living. */
unsigned kv_master_nodes(const struct kv_master *m);

/* False: a key that nobody is known to hold may be there all the same. */
bool kv_master_is_complete(struct kv_master *m);
/* Whether a list of all keys, made node by node, is to have the key from this
 * node: of several owners one has it. */
bool kv_master_lists(const struct kv_master *m, struct kv_id node,
		     struct kv_hash key);

/* Appends kv_node_rec records with their strings, as NODES_R carries them
 * (wire/map.h reads them); their number in *count. 0 or -ENOMEM. */
int kv_master_records(struct kv_master *m, struct kv_bytes *out,
		      unsigned *count);

#endif

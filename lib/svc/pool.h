#ifndef KV_SVC_POOL_H
#define KV_SVC_POOL_H

/*
 * A node with memory of its own, ready to run: the segment, the threads that
 * fault it in, sockets, and the node core on a loop. What kvclient is, and what
 * a process with an embedded node has inside.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/proto.h"

struct kv_loop;
struct kv_node;
struct kv_pool;
struct kv_rdma;

struct kv_pool_opts {
	uint64_t bytes;
	bool hugepages;
	const char *file; /* the pool outlives the process there; NULL: no */
	const char *root; /* prefix of /proc and /sys for tests; NULL: none */
	const char *masters; /* "host:port", several separated by commas;
			      * NULL: none */
	const char *listen;  /* "host:port"; NULL: no TCP */
	const char *addr;    /* told to others instead of `listen`: "host" or
			      * "host:port"; see struct kv_node_opts */
	const char *socket;  /* path of the Unix socket; NULL: none */
	const char *socket_group; /* who may attach besides the own user;
				   * NULL: nobody */
	const char *name;         /* for people; NULL: the host's name */
	uint64_t grace_ns;        /* exist grace; 0: the default */
	uint64_t drain_ns;        /* kv_pool_stop waits so long; 0: default */
	unsigned workers;         /* threads that move bytes; 0: one */
	/* Other hosts are served by RDMA, too, as soon as its ports know all of
	 * the pool. It outlives the pool. NULL: none. */
	struct kv_rdma *rdma;
};

/*
 * Starts it on `loop`, or (NULL) on a thread of its own. Strings are copied.
 * Returns when the addresses are bound; pages come and masters are looked for
 * in the background. NULL on failure with errno, and one line in err that says
 * what to do.
 */
struct kv_pool *kv_pool_start(const struct kv_pool_opts *opts,
			      struct kv_loop *loop, char *err,
			      size_t err_bytes);

/* On its loop: drains; done runs once, deferred; then kv_pool_free() is due. A
 * second call cuts the draining short. */
void kv_pool_stop(struct kv_pool *p, void (*done)(void *arg), void *arg);
void kv_pool_free(struct kv_pool *p);

/* With a thread of its own: drains, waits for the end, frees. NULL is fine. */
void kv_pool_close(struct kv_pool *p);

/* For the loop's thread. */
struct kv_node *kv_pool_node(struct kv_pool *p);

/* Unchanging; any thread. */
const struct kv_id *kv_pool_boot(const struct kv_pool *p);
const char *kv_pool_addr(const struct kv_pool *p);   /* as masters know it */
const char *kv_pool_socket(const struct kv_pool *p); /* "": none */

#endif

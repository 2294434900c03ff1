#ifndef KV_SIM_SIMPIPE_H
#define KV_SIM_SIMPIPE_H

/* Connections of the simulated network: simnet.c makes them, they move bytes;
 * simproc.c has the processes. For these three files only. */

#include "simnet.h"

#include "base/list.h"
#include "base/rng.h"
#include "event/loop.h"
#include "net/stream.h"

enum {
	SIMPIPE_FDS_MAX = 8
};

struct simnet {
	struct kv_loop *loop;
	struct kv_clock *clock;
	struct simnet_opts opts;
	struct kv_rng rng;
	struct kv_list hosts, paths, procs, links, listeners, dials;
	struct kv_list runners; /* processes with loops of their own */
	size_t streams;
};

struct simnet_host {
	struct kv_list link;
	unsigned next_port;
	char name[48];
};

/* The way from one host to another. */
struct simnet_path {
	struct kv_list link;
	struct simnet_host *from, *to;
	bool cut;
	uint64_t delay_ns;
	uint64_t free_ns; /* the line has sent what it was given so far */
};

struct simnet_proc {
	struct kv_net net; /* first: what simnet_process() gives out */
	struct kv_list link;
	struct kv_list runner;
	struct simnet *sn;
	struct simnet_host *host;
	pid_t pid;
	struct kv_loop *loop; /* the simnet's, or its own */
	bool dead;
	bool stopped;
};

/* One direction of a connection, at the end that reads. */
struct simpipe {
	struct simnet_path *path;
	struct kv_list packets; /* on their way */
	struct kv_timer timer;  /* of the first of them */
	uint64_t last_ns;       /* no packet overtakes another */
	uint8_t *ring;
	uint64_t put, got, here; /* bytes written, read, arrived; in all */
	bool ended, reset;       /* arrived, behind all bytes */
	int fds[SIMPIPE_FDS_MAX];
	uint64_t fd_at[SIMPIPE_FDS_MAX]; /* the byte that brings it */
	int n_fds;
};

struct simpipe_end {
	struct kv_stream s; /* first */
	struct simpipe_link *link;
	struct simnet_proc *proc;
	struct simpipe in;
	bool shut;  /* towards the network */
	bool freed; /* by its owner */
	uint32_t want;
	struct kv_defer defer;
	struct kv_list queue; /* of the listener, until it is accepted */
	char peer_addr[64];
};

struct simpipe_link {
	struct kv_list link;
	struct simnet *sn;
	struct simpipe_end ends[2];
	bool is_unix;
	int holds; /* callbacks under way */
};

extern const struct kv_net simnet_calls;
struct simnet_host *simnet_host_make(struct simnet *sn, const char *name);
/* Those of a dead process come to nothing. */
void simnet_dials_end(struct simnet_proc *p);
void simnet_procs_free(struct simnet *sn);

/* When what is sent now will be there. */
uint64_t simpipe_arrival(struct simnet *sn, struct simnet_path *path,
			 size_t bytes);
void simpipe_arm(struct simnet *sn, struct kv_timer *t, uint64_t at_ns);
void *simpipe_alloc(size_t bytes); /* zeroed, never NULL */

/* ends[0] is dialler's, there its bytes come by `to_dialler`. */
struct simpipe_link *simpipe_new(struct simnet_proc *dialler,
				 struct simnet_proc *listener, bool is_unix,
				 struct simnet_path *to_dialler,
				 struct simnet_path *to_listener);

/* The end of one side, as the kernel does it for a dead process. */
void simpipe_shut(struct simpipe_end *e);
/* Both ends are told that the connection was reset. */
void simpipe_reset(struct simpipe_link *l);
/* The way of its bytes is open again. */
void simpipe_resume(struct simpipe_end *e);

#endif

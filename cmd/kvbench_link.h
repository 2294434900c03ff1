#ifndef KVBENCH_LINK_H
#define KVBENCH_LINK_H

/*
 * kvbench link: what goes between this machine and another one, over each path
 * that there is.
 *
 *	kvbench_link.c       who is at the other end; all cells, in turns
 *	kvbench_linkpath.c   paths: each rail, all of them, TCP
 *	kvbench_linkpeer.c   the other end is a `kvbench link --listen`
 *	kvbench_linknode.c   it is a kvclient
 *	kvbench_linkload.c   calls by several threads, timed
 *	kvbench_linkfloor.c  one plain stream, copies
 *	kvbench_linkctl.c    the connection beside the one that is measured
 *	kvbench_linkserve.c  the listening side
 *	kvbench_linktool.c   perftest
 *	kvbench_linkrows.c   results
 *
 * A cell is an operation, a size and a depth; a way is a path or a floor. Each
 * cell takes rounds, in which all ways take turns.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hist.h"
#include "base/rng.h"
#include "kvpool.h"
#include "net/addr.h"
#include "xfer/rdmadev.h"

#define KVBENCH_LINK_PORT       50060
#define KVBENCH_LINK_BYTES_MAX  (1ull << 30) /* of one transfer */
#define KVBENCH_LINK_SEND_MAX   1000000
#define KVBENCH_LINK_MEMORY_MIN (1ull << 16)
#define KVBENCH_LINK_MEMORY_MAX (1ull << 40)

enum {
	KVBENCH_LINK_DEPTH_MAX = 64,
	KVBENCH_LINK_DEPTHS_MAX = 8,
	KVBENCH_LINK_SIZES_MAX = 32,
	KVBENCH_LINK_PATHS_MAX = 18,
	KVBENCH_LINK_WAYS_MAX = 2 * KVBENCH_LINK_PATHS_MAX + 3,
	KVBENCH_LINK_NAME_BYTES = KV_RDMADEV_NAME_BYTES,
	KVBENCH_LINK_ROUNDS_MAX = 101,
};

/* ---- what is asked ---- */

enum kvbench_link_op {
	KVBENCH_LINK_WRITE, /* of an engine */
	KVBENCH_LINK_READ,
	KVBENCH_LINK_SEND,
	KVBENCH_LINK_PUT, /* of a client */
	KVBENCH_LINK_GET,
	KVBENCH_LINK_OPS,
};

struct kvbench_link {
	const char *peer; /* "HOST[:PORT]"; NULL: this side listens */
	bool is_listener;
	const char *listen; /* where; NULL: everywhere */
	uint64_t sizes[KVBENCH_LINK_SIZES_MAX];
	unsigned n_sizes;
	bool has_options; /* that only link takes were given */
	bool has_sizes;   /* were given; else those that there is memory for */
	uint64_t depths[KVBENCH_LINK_DEPTHS_MAX];
	unsigned n_depths;
	uint64_t memory;  /* of each side */
	const char *only; /* operations, separated by commas; NULL: all */
	bool local;       /* ways of one host, too */
	bool perftest;
	bool keep; /* listens on when a measurement is over */
	uint64_t time_ns;
	unsigned rounds;
	uint32_t timeout_ms;
	bool json;
	enum kv_protocol protocol;
	const char *devices;
	struct kv_client_opts client; /* for a node */
};

/* ---- options: kvbench_linkopts.c ---- */

enum {
	KVBENCH_LINK_OPT_LISTEN = 1100,
	KVBENCH_LINK_OPT_DEPTH,
	KVBENCH_LINK_OPT_MEMORY,
	KVBENCH_LINK_OPT_LOCAL,
	KVBENCH_LINK_OPT_KEEP,
	KVBENCH_LINK_OPT_PERFTEST,
};

struct argp_state;
struct kv_opts;

/* Whether it is one of the operations in the list; NULL: all. */
bool kvbench_link_has(const char *only, enum kvbench_link_op op);
/* Whether the option is one of link. What is wrong ends the program. */
bool kvbench_link_option(struct kvbench_link *l, int key, const char *arg,
			 const struct argp_state *state);
/* After all options and arguments. SIZE: as it was given, or NULL. */
void kvbench_link_check(struct kvbench_link *l, const char *size,
			const struct argp_state *state);

/* Fills what common options say, and does it. 0 or an exit code after one line,
 * here and below. */
int kvbench_link_run(struct kvbench_link *l, const struct kv_opts *opts);
int kvbench_link_measure(const struct kvbench_link *l);
int kvbench_link_serve(const struct kvbench_link *l);

/* ---- cells and their sums ---- */

struct kvbench_link_cell {
	enum kvbench_link_op op;
	uint64_t size;
	unsigned depth;
	uint64_t time_ns; /* of one round */
	/* Transfers go to and from slots in turns, each on its own cache lines;
	 * slot i holds the pattern of seed + i. */
	uint64_t stride;
	uint64_t slots;
	uint64_t seed;
};

/* What all rounds of a cell gave by one way. */
struct kvbench_link_sum {
	uint64_t calls, ns;
	uint64_t cpu_ns;
	uint64_t far_cpu_ns;
	bool has_far_cpu;
	double rates[KVBENCH_LINK_ROUNDS_MAX]; /* calls/s of each round */
	unsigned rounds;
	/* Of perftest: it tells but rates, or but these. */
	enum {
		KVBENCH_LINK_ALL,
		KVBENCH_LINK_RATES,
		KVBENCH_LINK_TIMES
	} kind;
	double p50_ns, p99_ns, max_ns;
	struct kv_hist hist;
};

struct kvbench_link_job;

struct kvbench_link_way {
	char path[KVBENCH_LINK_NAME_BYTES];
	bool is_floor;
	bool is_rdma;
	bool has_no_sends;
	unsigned device;   /* perftest's, by number */
	const char *floor; /* path of the way that it stands beside, or NULL */
	/* One round, added to sum; 0 or an exit code after one line. */
	int (*take)(struct kvbench_link_way *w,
		    const struct kvbench_link_cell *cell,
		    struct kvbench_link_sum *sum);
	bool (*takes)(const struct kvbench_link_way *w,
		      const struct kvbench_link_cell *cell);
	struct kvbench_link_job *run;
	struct kv_engine *engine;
	struct kv_client *client;
	const char *path_of_sends; /* if another one */
};

/* ---- one run ---- */

struct kvbench_link_path {
	char name[KVBENCH_LINK_NAME_BYTES];
	enum kv_protocol protocol;
	const char *devices;
};

struct kvbench_link_row {
	const char *op;
	char path[KVBENCH_LINK_NAME_BYTES];
	uint64_t size;
	unsigned depth;
	double bytes_per_s;
	double calls_per_s;
	double p50_ns, p99_ns, max_ns; /* NAN: not known, here and below */
	double cpu_s_per_gb, far_s_per_gb;
	const char *floor;         /* NULL: none */
	double value, floor_value; /* GB/s; of less than 64 KiB us */
	bool is_floor;
};

struct kvbench_link_job {
	const struct kvbench_link *l;
	struct kv_rng rng;
	struct kvbench_link_path paths[KVBENCH_LINK_PATHS_MAX];
	struct kvbench_link_way ways[KVBENCH_LINK_WAYS_MAX];
	struct kvbench_link_row *rows;
	size_t n_rows;
	const enum kvbench_link_op *ops;
	void (*close)(struct kvbench_link_job *r);

	char *buf;       /* of `memory` bytes: what goes away and what comes */
	char *spare;     /* as large: what copies go to, what is read again */
	uint64_t memory; /* that both sides have */
	uint64_t far;    /* address of that of a listening side */
	struct kvbench_link_node *node;
	double rate; /* calls/s of the way that came last */

	struct kv_rdmadev *devices;
	long n_devices;

	unsigned n_paths, n_ways, n_ops;
	unsigned n_sizes; /* that are measured */
	int ctl;          /* to a listening side, or to a floor; -1: none */
	int floor_pid;
	bool is_loopback;
	bool is_good;         /* all was measured */
	unsigned far_devices; /* that perftest can use there */
	uint16_t port;
	char peer[KV_ADDR_TEXT_BYTES_MAX];     /* "HOST:PORT" */
	char host[KV_ADDR_NAME_BYTES_MAX + 1]; /* of it, without brackets */
	char no_rdma[KV_RDMADEV_WHY_BYTES];    /* why not; "" */
};

extern const char *const kvbench_link_op_names[KVBENCH_LINK_OPS];

/* ---- paths, the two kinds of other ends ---- */

/* Which there are on this machine; tells why there is no RDMA. 0 or an exit
 * code. */
int kvbench_link_paths(struct kvbench_link_job *r);

/* 0 or an exit code after one line; closed by r->close in any case. */
int kvbench_link_peer_open(struct kvbench_link_job *r);
int kvbench_link_node_open(struct kvbench_link_job *r);

/* A way more, of that name; is_floor until it says otherwise. */
struct kvbench_link_way *kvbench_link_way(struct kvbench_link_job *r,
					  const char *path);

/* ---- load ---- */

struct kvbench_load {
	unsigned depth; /* threads */
	uint64_t time_ns;
	uint64_t calls_max; /* 0: as many as there is time for */
	/* Call n; of thread i: i, i + depth, i + 2 depth, ... So with as many
	 * slots as threads each has its own. 0 or -kv_status. */
	int (*call)(void *arg, uint64_t n);
	void *arg;
	/* out */
	uint64_t calls;
	uint64_t whole; /* all below this one were made, */
	uint64_t end;   /* none from this one on */
};

/* Adds to sum unless NULL. 0, or the first -kv_status that a call gave. */
int kvbench_load_run(struct kvbench_load *load, struct kvbench_link_sum *sum);
uint64_t kvbench_load_cpu_ns(void);

/* Memory that is there, on huge pages where they are to be had. NULL. */
char *kvbench_load_memory(uint64_t bytes);
void kvbench_load_memory_free(char *p, uint64_t bytes);

/* All slots get their pattern; the first slot that has another one, -1: none.
 */
void kvbench_load_fill(char *buf, const struct kvbench_link_cell *cell);
int64_t kvbench_load_check(const char *buf,
			   const struct kvbench_link_cell *cell);

/* ---- floors ---- */

/* The way of a stream over r->ctl, and of copies from buf to spare. */
int kvbench_floor_take(struct kvbench_link_way *w,
		       const struct kvbench_link_cell *cell,
		       struct kvbench_link_sum *sum);
int kvbench_floor_copy(struct kvbench_link_way *w,
		       const struct kvbench_link_cell *cell,
		       struct kvbench_link_sum *sum);
/* The other end of such a stream, in a process of its own: for a node of this
 * host. 0 or an exit code after one line. No threads may run. */
int kvbench_floor_start(struct kvbench_link_job *r);
void kvbench_floor_end(struct kvbench_link_job *r);

/* ---- perftest ---- */

struct kvbench_tool {
	uint64_t op; /* enum kvbench_link_op */
	uint64_t bytes, calls, depth;
	const struct kv_rdmadev *device;
	uint16_t port;
	int pid; /* 0: none */
};

/* One of those that are wanted and usable, by number, or NULL. */
const struct kv_rdmadev *kvbench_tool_device(const struct kv_rdmadev *list,
					     long n, uint64_t number);
/* Adds a way for each pair of devices. 0 or an exit code. */
int kvbench_tool_open(struct kvbench_link_job *r);
/* The listening side: starts its program and waits until that listens, at
 * t->port. 0 or -errno: -ENOENT: it is not installed. End it in any case. */
int kvbench_tool_listen(struct kvbench_tool *t);
void kvbench_tool_end(struct kvbench_tool *t);

/* ---- results ---- */

/* A row of each way that took part in the cell. False: out of memory. */
bool kvbench_link_rows_add(struct kvbench_link_job *r,
			   const struct kvbench_link_cell *cell,
			   struct kvbench_link_sum *const *sums);
/* 0 or an exit code. */
int kvbench_link_rows_print(const struct kvbench_link_job *r);

#endif

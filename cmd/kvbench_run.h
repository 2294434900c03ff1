#ifndef KVBENCH_RUN_H
#define KVBENCH_RUN_H

/*
 * What the measurements share. A scene is what a group of figures needs: pools
 * that run or are started for it, floors, objects. kvbench_run.c opens a scene,
 * takes its figures in turns with their floors, and closes it.
 */

#include "base/rng.h"
#include "cli/progress.h"
#include "cmd/kvbench.h"
#include "kvpool.h"
#include "svc/floor.h"

#define KVBENCH_SMALL_BYTES 4096
#define KVBENCH_TINY_BYTES  256
#define KVBENCH_MANY        1000 /* keys of a call of many tiny ones */
#define KVBENCH_FLIGHT      4    /* such calls at once */
#define KVBENCH_PUBLISH_BAR 1.5  /* millions of them a second */
#define KVBENCH_ASK_MAX     100000

/* ---- daemons of one's own: kvbench_own.c ---- */

struct kvbench_process {
	const char *name; /* NULL: was never started */
	int pid;
	int log;
};

struct kvbench_own {
	struct kvbench_process master;
	struct kvbench_process node;
	char addr[64];   /* the master's */
	char socket[64]; /* the node's */
	uint64_t started_ns;
};

struct kvbench_own_opts {
	uint64_t pool_bytes;
	const char *host; /* IPv4 to listen on */
	int netns;        /* -1: this one */
	uint64_t ttl_ns;  /* of the master */
};

/* A kvmaster and a kvclient that end with this process. 0 or an exit code after
 * one line; stop it in any case. */
int kvbench_own_start(struct kvbench_own *o,
		      const struct kvbench_own_opts *opts);
/* False after one line: a daemon did not end well. A zeroed one is fine. */
bool kvbench_own_stop(struct kvbench_own *o);
/* CPU time; memory that is no other's and no pool. -1: it is gone. */
int64_t kvbench_own_cpu_ns(const struct kvbench_process *p);
int64_t kvbench_own_bytes(const struct kvbench_process *p);

/* ---- a process to write into: kvbench_target.c ---- */

struct kvbench_target {
	int pid;
	int in; /* it ends when this is closed */
	uint16_t port;
	uint64_t any; /* memory that it has from anywhere, and registered */
	uint64_t own; /* memory that its engine allocated */
};

/* So much of both. False: no memory. End it in any case. */
bool kvbench_target_start(struct kvbench_target *t, size_t bytes);
void kvbench_target_end(struct kvbench_target *t);

/* ---- a veth pair: kvbench_net.c ---- */

struct kvbench_net {
	int before; /* the name space where kvbench was; -1: none is open */
	int far;
};
#define KVBENCH_NET_FAR "10.78.0.2"

/* Moves this thread to a new network name space with a link to another new one.
 * 0 or an exit code after one line; close it in any case. */
int kvbench_net_open(struct kvbench_net *n);
void kvbench_net_close(struct kvbench_net *n);

/* ---- pools, and what there is in them ---- */

struct kvbench_pool {
	struct kv_client *c;
	struct kvbench_own own;
	uint64_t bytes; /* of its node */
	uint64_t first; /* keys: those from first on, held of them, stay; */
	uint64_t held;
	uint64_t held_small; /* so many of these, the last ones, have 4 KiB */
	uint64_t kept;       /* those from kept to next are to be dropped */
	uint64_t next;
	double master_bytes; /* a held key: what it costs */
	double node_bytes;
};

/* A call of many tiny objects. */
struct kvbench_many {
	struct kv_op *op;
	size_t n;
	char *keys;
	struct kv_put_item *puts;
	struct kv_get_item *gets;
	struct kv_buf *bufs; /* of the gets */
	char *values;
};

struct run {
	struct kvbench *b;
	struct kvbench_pool pools[KVBENCH_POOLS_MAX];
	unsigned n_pools;
	struct kvbench_pool *pool; /* the one whose turn it is */
	struct kv_rng rng;
	struct kv_progress progress;

	/* A batch of large objects: kvbench_copy.c. */
	struct kv_floor *floor;
	char *keys; /* batch of key_len each */
	struct kv_buf *bufs;
	struct kv_put_item *puts;
	struct kv_get_item *gets;
	struct kv_view *views;
	struct kv_client *twice; /* with twice as many copy threads */

	/* Small calls: kvbench_call.c, kvbench_many.c. */
	char *value; /* of KVBENCH_SMALL_BYTES, and room for a copy */
	char *one_key;
	struct kvbench_many many[KVBENCH_FLIGHT];
	struct kv_key *ask; /* KVBENCH_ASK_MAX */
	char *ask_keys;
	uint8_t *found;
	struct kv_floor_chain put_chain, get_chain, exist_chain;
	struct kv_floor_chain put_awake, get_awake, exist_awake;
	struct kv_floor_chain *chain; /* the one whose turn it is */

	struct kvbench_net net;
	struct kv_floor_stream stream;
	struct kv_floor_probe probes[KVBENCH_POOLS_MAX];
	double stall_ms; /* the longest one while the last pool's tables grew */
	double stall_bare_ms; /* of a bare chain meanwhile */
	void *own;            /* the scene's */
};

/* ---- figures and scenes ---- */

enum {
	KVBENCH_LESS = 1, /* the less the better */
	KVBENCH_COLD = 2, /* no measurement ahead that does not count */
};

/*
 * A measurement and its floor, taken in turns. Both give what stands in
 * `unit`; below 0: failed, and a line was written; NAN: not with this pool, or
 * no floor.
 */
struct kvbench_figure {
	const char *name;
	const char *unit;
	const char *floor_name;
	double (*measure)(struct run *r);
	double (*floor)(struct run *r); /* NULL: `constant` */
	double constant; /* 0: the first pool's value, which is no result */
	double bar;      /* what value / floor should reach; 0: nothing */
	unsigned flags;
};

struct kvbench_scene {
	const struct kvbench_figure *figures;
	unsigned n;
	/* 0 or an exit code after one line. It is closed in any case. */
	int (*open)(struct run *r);
	void (*close)(struct run *r);
};

/* Scene i of them all, and the workload that it belongs to; NULL: no more. */
const struct kvbench_scene *kvbench_scene(unsigned i, const char **workload);

/* Adds its results to r->b. False after one line. */
bool kvbench_figure_take(struct run *r, const struct kvbench_figure *f);

/* ---- shared by the files of figures; a double below 0, a false and an exit
 * code come after one line ---- */

uint64_t kvbench_now_ns(void);
/* Tells a -kv_status; returns -1. */
int kvbench_failed(const char *what, long status);
/* Tells -errno of a floor; returns -1. */
int kvbench_floor_failed(const char *what, int64_t rc);

int kvbench_client(const struct kv_client_opts *o, struct kv_client **c);
/* The client of a pool that runs, of one that was started. Fills `bytes`. */
int kvbench_pool_attach(struct run *r, const struct kv_client_opts *o);
int kvbench_pool_start(struct run *r, uint64_t bytes);
/* The same, but does not wait until the pool is faulted in. */
int kvbench_pool_begin(struct run *r, const struct kvbench_own_opts *o);
/* Until all of its memory is there. 0 or an exit code. */
int kvbench_pool_wait(struct run *r);
/* Until its master believes that it knows all: before that requesters ask the
 * nodes for what it does not know. */
void kvbench_pool_settle(struct run *r);
void kvbench_sleep_until(uint64_t ns);
/* False: daemons of ours did not end well. */
bool kvbench_pools_close(struct run *r);
/* A counter of the pool's node; -1: it cannot be asked. */
int64_t kvbench_pool_stat(struct run *r, const char *name);

/* Name of key i (a run's own), b->key_len bytes. kv_floor_key_fn. */
void kvbench_key(void *run, uint64_t i, char *key);
/* A key that was never used. */
uint64_t kvbench_key_next(struct run *r);
/* Removes what was put since the last time. */
bool kvbench_drop(struct run *r);
/* Of that only the keys below `end`. */
bool kvbench_drop_until(struct run *r, uint64_t end);

/* The floor has pages of the kind of the pool, if that is there already. */
int kvbench_batch_open(struct run *r);
void kvbench_batch_close(struct run *r);
/* ns to copy all pieces by the faster of two ways, which take turns. */
double kvbench_copies(struct run *r, const struct kv_floor *f, bool into_shared,
		      const uint32_t *to);
/* GB/s, of ns for a batch; of what failed, -1. */
double kvbench_bytes_rate(const struct run *r, double ns);
/* Puts the batch under new keys. */
bool kvbench_batch_put(struct run *r, uint64_t *ns);

int kvbench_calls_open(struct run *r);
void kvbench_calls_close(struct run *r);
/* Median of single calls, in microseconds, for the time of a measurement. */
double kvbench_median_us(struct run *r, int64_t (*call)(struct run *r));
/* ns of one put of 4 KiB under a new key. */
int64_t kvbench_call_put(struct run *r);
/* ns to ask for n keys, prepared by kvbench_ask(), of which so many exist. */
int64_t kvbench_call_exist(struct run *r, size_t n, size_t there);
/* ns of one get of that key, of at most 4 KiB. */
int64_t kvbench_call_get(struct run *r, uint64_t key);

int kvbench_many_open(struct run *r);
void kvbench_many_close(struct run *r);
/* Puts n tiny objects; `flight` calls at once. */
bool kvbench_many_put(struct run *r, size_t bytes, uint64_t n, unsigned flight);
/* ns of one call. */
int64_t kvbench_call_put_many(struct run *r);
int64_t kvbench_call_get_many(struct run *r);
/* Prepares the question for n keys, `there` of them held, in random order. */
void kvbench_ask(struct run *r, size_t n, size_t there);
/* Puts n tiny and n_small small values that stay, as all since `first` do. */
bool kvbench_hold(struct run *r, uint64_t n, uint64_t n_small);
/* Puts n tiny ones, at least KVBENCH_MANY, and sets stall_ms. */
bool kvbench_hold_watched(struct run *r, uint64_t n);

/* ---- measurements and floors, see kvbench_scene.c ---- */

double kvbench_idle(struct run *r);
double kvbench_put_copy(struct run *r);
double kvbench_get_copy(struct run *r);
double kvbench_get_copy_mt(struct run *r);
double kvbench_get_zero(struct run *r);
double kvbench_floor_in(struct run *r);
double kvbench_floor_out(struct run *r);
double kvbench_floor_zero(struct run *r);
int kvbench_store_open(struct run *r);
int kvbench_tcp_open(struct run *r);
void kvbench_stream_close(struct run *r);
double kvbench_floor_stream_put(struct run *r);
double kvbench_floor_stream_get(struct run *r);

double kvbench_put_4k(struct run *r);
double kvbench_get_4k(struct run *r);
double kvbench_exist_32(struct run *r);
double kvbench_floor_put_4k(struct run *r);
double kvbench_floor_get_4k(struct run *r);
double kvbench_floor_exist_32(struct run *r);
double kvbench_floor_put_awake(struct run *r);
double kvbench_floor_get_awake(struct run *r);
double kvbench_floor_exist_awake(struct run *r);
double kvbench_publish(struct run *r);
double kvbench_publish_grow(struct run *r);
double kvbench_publish_bare(struct run *r);

int kvbench_raw_open(struct run *r);
void kvbench_raw_close(struct run *r);
double kvbench_raw_write(struct run *r);
double kvbench_raw_write_own(struct run *r);
double kvbench_floor_raw_write(struct run *r);
double kvbench_floor_raw_write_own(struct run *r);

int kvbench_fresh_open(struct run *r);
void kvbench_fresh_close(struct run *r);
double kvbench_put_fresh(struct run *r);
int kvbench_fill_open(struct run *r);
void kvbench_fill_close(struct run *r);
double kvbench_fill(struct run *r);
int kvbench_full_open(struct run *r);
void kvbench_full_close(struct run *r);
double kvbench_full_put_4k(struct run *r);
double kvbench_full_put_copy(struct run *r);

int kvbench_exist_open(struct run *r);
int kvbench_grow_open(struct run *r);
void kvbench_grow_close(struct run *r);
double kvbench_exist_100k(struct run *r);
double kvbench_floor_exist_100k(struct run *r);
double kvbench_grow_get_4k(struct run *r);
double kvbench_grow_put_1000(struct run *r);
double kvbench_grow_get_1000(struct run *r);
double kvbench_grow_exist(struct run *r);
double kvbench_grow_stall(struct run *r);
double kvbench_grow_stall_bare(struct run *r);
double kvbench_master_mem(struct run *r);
double kvbench_node_mem(struct run *r);

#endif

#ifndef KVBENCH_RUN_H
#define KVBENCH_RUN_H

/* What the measurements share: kvbench_run.c takes the figures in turns with
 * their floors, kvbench_copy.c has those of many bytes, kvbench_call.c those of
 * short calls. */

#include "cli/progress.h"
#include "cmd/kvbench.h"
#include "kvpool.h"
#include "svc/floor.h"

#define KVBENCH_SMALL_BYTES 4096

struct run {
	struct kvbench *b;
	struct kv_client *c;
	struct kv_floor *floor;
	struct kv_floor_chain put_chain, get_chain, exist_chain;
	char *keys;         /* batch of key_len each */
	struct kv_key *all; /* those that kvbench_call.c asks for */
	uint8_t *found;
	struct kv_buf *bufs;
	struct kv_put_item *puts;
	struct kv_get_item *gets;
	struct kv_view *views;
	uint64_t serial; /* of fresh keys */
	struct kv_progress progress;
};

/* One figure: a measurement and its floor, taken in turns. Both give what
 * stands in `unit`; below 0: failed, and a line was written. */
struct kvbench_figure {
	const char *workload;
	const char *name;
	const char *unit;
	const char *floor_name;
	double (*measure)(struct run *r);
	double (*floor)(struct run *r);
};

enum {
	KVBENCH_COPIES = 5,
	KVBENCH_CALLS = 3,
};

extern const struct kvbench_figure kvbench_copies[KVBENCH_COPIES];
extern const struct kvbench_figure kvbench_calls[KVBENCH_CALLS];

/* What the calls need; r's fields are zero. 0 or -errno: close it then, too. */
int kvbench_call_open(struct run *r);
void kvbench_call_close(struct run *r);

/* What is done with the objects of a batch. */
enum kvbench_batch_op {
	KVBENCH_PUT,
	KVBENCH_GET,
	KVBENCH_VIEW,
	KVBENCH_COPY_IN,  /* the floor: private to shared memory */
	KVBENCH_COPY_OUT, /* and back */
};

/* Does it with the whole batch, by all threads at once. 0 or -kv_status. */
long kvbench_batch_do(struct run *r, enum kvbench_batch_op op);

uint64_t kvbench_now_ns(void);
/* Key i of the batch gets a name that was never used. */
void kvbench_key_renew(struct run *r, size_t i);
/* Tells a -kv_status; returns -1. */
int kvbench_failed(const char *what, long status);

#endif

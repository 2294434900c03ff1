#ifndef KVBENCH_RUN_H
#define KVBENCH_RUN_H

/* What the measurements share. */

#include "cli/progress.h"
#include "cmd/kvbench.h"
#include "kvpool.h"
#include "svc/floor.h"

struct run {
	struct kvbench *b;
	struct kv_client *c;
	struct kv_floor *floor;
	struct kv_floor_chain put_chain, get_chain, exist_chain;
	char *keys;         /* batch of key_len each */
	struct kv_key *all; /* EXIST_KEYS of them */
	uint8_t *found;
	struct kv_buf *bufs;
	struct kv_put_item *puts;
	struct kv_get_item *gets;
	struct kv_view *views;
	uint64_t serial; /* of fresh keys */
	struct kv_progress progress;
};

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

#endif

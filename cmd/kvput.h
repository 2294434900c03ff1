#ifndef KV_CMD_KVPUT_H
#define KV_CMD_KVPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/batch.h"
#include "cli/opts.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/records.h"
#include "kvpool.h"

struct kvput_options {
	struct kv_opts common;
	struct kv_put_opts put;
	bool is_batch;
	bool is_nul;
	const char *args[2];
	unsigned n_args;
	struct kv_key key; /* without is_batch */
	const char *path;  /* of the value, or of the lines */
};

/* What is under way. */
struct kvput {
	const struct kvput_options *o;
	struct kv_client *client;
	struct kv_out *out; /* NULL: no --json */
	FILE *lines;        /* with --batch */
	struct kv_records records;
	struct kv_progress progress;
	struct kv_progress_watch watch; /* of what is read */
	struct kv_clock clock;
	struct kv_batch batch[2];
	struct kv_put_opts put; /* of the batch that is under way */
	struct kv_op *op;
	uint64_t keys, existed; /* done */
	uint64_t bytes;         /* read */
	int code;
	bool is_end;  /* of the lines */
	bool is_over; /* it is of no use to go on */
};

/* Puts what the options say. Returns the exit code. */
int kvput_run(const struct kvput_options *o, struct kv_client *c);

/* Adds the file at PATH to the batch, or tells what is wrong with it. */
void kvput_add(struct kvput *r, struct kv_batch *b, const struct kv_key *key,
	       const char *path);

/* Opens the lines. Returns the exit code. */
int kvput_open_lines(struct kvput *r);

/* Adds what the next lines name, until the batch is full or they end. */
void kvput_add_lines(struct kvput *r, struct kv_batch *b);

/* Tells of one object, with --json. */
void kvput_print(const struct kvput *r, const struct kv_key *key,
		 const char *status, uint64_t bytes, uint32_t replicas);

/* CODE is that of something that failed. */
void kvput_fail(struct kvput *r, int code);

#endif

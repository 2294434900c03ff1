#ifndef KVBENCH_H
#define KVBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvpool.h"

enum {
	KVBENCH_ROUNDS_MAX = 101,
	KVBENCH_RESULTS_MAX = 64,
	KVBENCH_THREADS_MAX = 32,
	KVBENCH_POOLS_MAX = 6, /* measured in turns */
	KVBENCH_FILES_MAX = 16,
};

struct kvbench_result {
	const char *name;
	const char *unit;
	const char *floor_name;
	uint64_t held; /* keys in the pool; 0: it does not matter */
	double value;  /* medians of the rounds */
	double floor;
	double ratio; /* of the value to the floor */
	double bar;   /* what the ratio should reach; 0: nothing */
	bool is_less; /* or stay below */
};

struct kvbench {
	/* what is asked */
	const char *workload;
	struct kv_client_opts client;
	const char *only; /* NULL, or names separated by commas */
	uint64_t size;
	size_t batch;
	unsigned threads;
	size_t key_len;
	size_t pieces; /* of a raw transfer */
	uint64_t time_ns;
	unsigned rounds;
	uint64_t held[KVBENCH_POOLS_MAX];
	unsigned n_held;
	uint64_t pool_bytes; /* of pools of its own; 0: what each row needs */
	uint64_t age_ns;     /* of a pool that counts as fresh */
	uint64_t ttl_ns;     /* of the masters of its own */
	bool quiet;

	/* what came out */
	struct kvbench_result results[KVBENCH_RESULTS_MAX];
	unsigned n_results;
};

bool kvbench_workload_is(const char *name);
/* Whether each of the names, separated by commas, is a figure of it. */
bool kvbench_figures_are(const char *workload, const char *names);

/* 0, or an exit code after one line on stderr; there may be results all the
 * same. */
int kvbench_run(struct kvbench *b);

/* Writes the results. 0 or an exit code. */
int kvbench_print(const struct kvbench *b, bool json);

/* What was measured, from the files that --json wrote. */
struct kvbench_report {
	const char *files[KVBENCH_FILES_MAX];
	unsigned n;
	const char *output; /* Markdown; NULL: stdout unless there is svg */
	const char *svg;    /* a chart; "-": stdout; NULL: none */
};
/* 0 or an exit code after one line. */
int kvbench_report(const struct kvbench_report *r);

#endif

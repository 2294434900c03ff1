#ifndef KVBENCH_H
#define KVBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvpool.h"

#define KVBENCH_ROUNDS_MAX  101
#define KVBENCH_RESULTS_MAX 32
#define KVBENCH_THREADS_MAX 64

struct kvbench_result {
	const char *name;
	const char *unit;
	const char *floor_name;
	double value; /* medians of the rounds */
	double floor;
	double ratio; /* of the floor reached: 1 is as good as it */
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
	uint64_t time_ns;
	unsigned rounds;
	bool quiet;

	/* what came out */
	struct kvbench_result results[KVBENCH_RESULTS_MAX];
	unsigned n_results;
};

bool kvbench_workload_is(const char *name);
/* Whether each of the names, separated by commas, is a figure. */
bool kvbench_figures_are(const char *names);

/* 0, or an exit code after one line on stderr. */
int kvbench_run(struct kvbench *b);

#endif

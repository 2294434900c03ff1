/*
 * kvbench: how fast the pool is here, each figure beside what the machine can
 * do by itself, measured in turns in the same run.
 */

#include <argp.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cli/opts.h"
#include "cli/tool.h"
#include "cmd/kvbench.h"
#include "cmd/kvbench_link.h"
#include "kvpool.h"

enum {
	OPT_SIZE = 1000,
	OPT_BATCH,
	OPT_THREADS,
	OPT_KEY_LEN,
	OPT_PIECES,
	OPT_HELD,
	OPT_POOL_SIZE,
	OPT_AGE,
	OPT_TTL,
	OPT_ROUNDS,
	OPT_ONLY,
	OPT_SVG,
};

static const struct argp_option options[] = {
	{ "size", OPT_SIZE, "SIZE", 0,
	  "Bytes of a large object (2MB); for link a list (4..64MB)", 0 },
	{ "batch", OPT_BATCH, "N", 0, "Large objects of a call (64)", 0 },
	{ "threads", OPT_THREADS, "N", 0,
	  "Threads that share the copies of a call (1)", 0 },
	{ "key-length", OPT_KEY_LEN, "N", 0, "Bytes of a key (130)", 0 },
	{ "pieces", OPT_PIECES, "N", 0,
	  "Pieces of 32 KiB of a raw transfer (10000)", 0 },
	{ "held", OPT_HELD, "N,...", 0,
	  "Keys in the pool for exist (1000000) and for how cost grows "
	  "(10000,1000000,10000000)",
	  0 },
	{ "pool-size", OPT_POOL_SIZE, "SIZE", 0,
	  "Bytes of each pool of bars, instead of what its figures need", 0 },
	{ "age", OPT_AGE, "DURATION", 0, "Of the fresh pool of bars (5s)", 0 },
	{ "client-ttl", OPT_TTL, "DURATION", 0,
	  "Of the masters of bars, which know all after so long (10s)", 0 },
	{ "depth", KVBENCH_LINK_OPT_DEPTH, "N,...", 0,
	  "link: calls under way (1)", 0 },
	{ "keep", KVBENCH_LINK_OPT_KEEP, NULL, 0,
	  "link: listen on when a measurement is over", 0 },
	{ "listen", KVBENCH_LINK_OPT_LISTEN, "HOST:PORT", OPTION_ARG_OPTIONAL,
	  "link: be the other side", 0 },
	{ "local", KVBENCH_LINK_OPT_LOCAL, NULL, 0,
	  "link: also by ways of one host", 0 },
	{ "memory", KVBENCH_LINK_OPT_MEMORY, "SIZE", 0,
	  "link: of each side (256MB)", 0 },
	{ "perftest", KVBENCH_LINK_OPT_PERFTEST, NULL, 0,
	  "link: run its programs for comparison", 0 },
	{ "time", 't', "DURATION", 0, "Of one measurement (300ms; link: 100ms)",
	  0 },
	{ "rounds", OPT_ROUNDS, "N", 0, "Measurements of each figure (5)", 0 },
	{ "only", OPT_ONLY, "NAME,...", 0, "Only these figures", 0 },
	{ "output", 'o', "FILE", 0, "Where report writes its table", 0 },
	{ "svg", OPT_SVG, "FILE", 0, "Where report draws a chart", 0 },
	{ 0 },
};

struct input {
	struct kvbench bench;
	struct kvbench_report report;
	struct kvbench_link link;
	const char *size; /* as it was given */
	bool is_report;
	bool is_link;
};

#define TIME_NS      300000000
#define LINK_TIME_NS 100000000

static const uint64_t held_usual[] = { 10000, 1000000, 10000000 };

static void
parse_held(const struct argp_state *state, struct kvbench *b, const char *arg)
{
	char list[256], *save = NULL, *p;

	snprintf(list, sizeof(list), "%s", arg);
	b->n_held = 0;
	for (p = strtok_r(list, ",", &save); p;
	     p = strtok_r(NULL, ",", &save)) {
		if (b->n_held == KVBENCH_POOLS_MAX)
			argp_error(state, "--held: more than %d numbers",
				   KVBENCH_POOLS_MAX);
		b->held[b->n_held++] =
			kv_opts_number(state, "--held", p, 2, 1ull << 32);
	}
	if (b->n_held == 0)
		argp_error(state, "--held: no number");
}

static void
parse_argument(const struct argp_state *state, struct input *in, char *arg)
{
	struct kvbench_report *r = &in->report;

	if (state->arg_num == 0) {
		in->bench.workload = arg;
		in->is_report = strcmp(arg, "report") == 0;
		in->is_link = strcmp(arg, "link") == 0;
		if (!in->is_report && !in->is_link && !kvbench_workload_is(arg))
			argp_error(state,
				   "no workload '%s': local, store, "
				   "exist, link, bars, or report",
				   arg);
	} else if (in->is_link && !in->link.peer) {
		in->link.peer = arg;
	} else if (!in->is_report) {
		argp_error(state, "one workload");
	} else if (r->n == KVBENCH_FILES_MAX) {
		argp_error(state, "more than %d files", KVBENCH_FILES_MAX);
	} else {
		r->files[r->n++] = arg;
	}
}

static void
check(const struct argp_state *state, struct input *in)
{
	struct kvbench *b = &in->bench;

	if (!b->workload)
		argp_error(state, "name a workload: local, store, exist, link, "
				  "bars, or report");
	assert(b->workload);
	if (in->is_report && in->report.n == 0)
		argp_error(state, "report: name files that --json wrote");
	if (in->link.has_options && !in->is_link)
		argp_error(state,
			   "%s: --depth, --keep, --listen, --local, "
			   "--memory and --perftest are of link",
			   b->workload);
	in->link.only = b->only;
	if (in->is_link)
		kvbench_link_check(&in->link, in->size, state);
	else if (in->size)
		b->size =
			kv_opts_size(state, "--size", in->size, 1, 1ull << 30);
	if (b->time_ns == 0)
		b->time_ns = in->is_link ? LINK_TIME_NS : TIME_NS;
	in->link.time_ns = b->time_ns;
	in->link.rounds = b->rounds;
	if (b->only && !in->is_report && !in->is_link &&
	    !kvbench_figures_are(b->workload, b->only))
		argp_error(state, "--only: '%s' has no such figure: %s",
			   b->workload, b->only);
	if (b->n_held == 0) {
		memcpy(b->held, held_usual, sizeof(held_usual));
		b->n_held = 3;
		if (strcmp(b->workload, "exist") == 0)
			b->held[0] = 1000000;
	}
}

static error_t
parse_size(int key, char *arg, struct argp_state *state, struct kvbench *b)
{
	switch (key) {
	case OPT_BATCH:
		b->batch = kv_opts_number(state, "--batch", arg, 1, 65536);
		return 0;
	case OPT_THREADS:
		b->threads = (unsigned)kv_opts_number(state, "--threads", arg,
						      1, KVBENCH_THREADS_MAX);
		return 0;
	case OPT_KEY_LEN:
		b->key_len =
			kv_opts_number(state, "--key-length", arg, 20, 1024);
		return 0;
	case OPT_PIECES:
		b->pieces = kv_opts_number(state, "--pieces", arg, 1, 1000000);
		return 0;
	case OPT_HELD:
		parse_held(state, b, arg);
		return 0;
	case OPT_POOL_SIZE:
		b->pool_bytes = kv_opts_size(state, "--pool-size", arg,
					     16 << 20, 1ull << 40);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t
parse(int key, char *arg, struct argp_state *state)
{
	struct input *in = state->input;
	struct kvbench *b = &in->bench;

	if (kvbench_link_option(&in->link, key, arg, state))
		return 0;
	switch (key) {
	case OPT_SIZE:
		in->size = arg;
		return 0;
	case OPT_AGE:
		b->age_ns = kv_opts_time(state, "--age", arg, 0, 60000000000);
		return 0;
	case OPT_TTL:
		b->ttl_ns = kv_opts_time(state, "--client-ttl", arg, 1000000000,
					 60000000000);
		return 0;
	case 't':
		b->time_ns = kv_opts_time(state, "--time", arg, 1000000,
					  60000000000);
		return 0;
	case OPT_ROUNDS:
		b->rounds = (unsigned)kv_opts_number(state, "--rounds", arg, 1,
						     KVBENCH_ROUNDS_MAX);
		return 0;
	case OPT_ONLY:
		b->only = arg;
		return 0;
	case 'o':
		in->report.output = arg;
		return 0;
	case OPT_SVG:
		in->report.svg = arg;
		return 0;
	case ARGP_KEY_ARG:
		parse_argument(state, in, arg);
		return 0;
	case ARGP_KEY_END:
		check(state, in);
		return 0;
	default:
		return parse_size(key, arg, state, b);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "local|store|exist|bars\nlink --listen[=HOST:PORT]\n"
		    "link HOST[:PORT]\nreport FILE...",
	.doc = "Measures a pool, each figure beside its floor: what the "
	       "machine does by itself.\v"
	       "local: this host's node, through shared memory.  store: other "
	       "nodes, over TCP.  exist: the master.  These need a pool that "
	       "runs.  bars: all that the pool should reach, with daemons of "
	       "its own.  link: between two hosts, by each path.  report: a "
	       "table of files that --json wrote.",
};

int
main(int argc, char **argv)
{
	struct kv_opts opts;
	struct input in = {
		.bench = {
			.size = 2 << 20,
			.batch = 64,
			.threads = 1,
			.key_len = 130,
			.pieces = 10000,
			.age_ns = 5000000000,
			.ttl_ns = 10000000000,
			.rounds = 5,
		},
	};
	const struct kv_opts_program program = {
		&argp,
		&in,
		KV_CONF_TOOL | KV_CONF_DIALER | KV_CONF_MOVER,
	};
	struct kvbench *b = &in.bench;
	int rc, printed = 0;

	kv_opts_parse(&opts, &program, argc, argv);
	if (in.is_report)
		return kvbench_report(&in.report);
	/* Daemons of its own have nothing to do with what is configured. */
	rc = strcmp(b->workload, "bars") == 0 ? 0 : kv_opts_load(&opts);
	if (rc)
		return rc;
	if (in.is_link)
		return kvbench_link_run(&in.link, &opts);
	kv_tool_client_opts(&opts, &b->client);
	b->client.timeout_ms = kv_tool_timeout_ms(&opts, b->batch * b->size);
	b->client.copy_threads = b->threads;
	b->quiet = opts.json;
	rc = kvbench_run(b);
	if (rc == 0 || b->n_results > 0)
		printed = kvbench_print(b, opts.json);
	return rc ? rc : printed;
}

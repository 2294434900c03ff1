/*
 * kvbench: how fast the pool is here, each figure beside what the machine can
 * do by itself, measured in turns in the same run.
 */

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cli/opts.h"
#include "cli/out.h"
#include "cli/tool.h"
#include "cmd/kvbench.h"
#include "kvpool.h"

enum {
	OPT_SIZE = 1000,
	OPT_BATCH,
	OPT_THREADS,
	OPT_KEY_LEN,
	OPT_ROUNDS,
	OPT_ONLY,
};

static const struct argp_option options[] = {
	{ "size", OPT_SIZE, "SIZE", 0, "Bytes of a large object (2MB)", 0 },
	{ "batch", OPT_BATCH, "N", 0, "Large objects of a call (64)", 0 },
	{ "threads", OPT_THREADS, "N", 0,
	  "Threads that share the large objects (1)", 0 },
	{ "key-length", OPT_KEY_LEN, "N", 0, "Bytes of a key (130)", 0 },
	{ "time", 't', "DURATION", 0, "Of one measurement (300ms)", 0 },
	{ "rounds", OPT_ROUNDS, "N", 0, "Measurements of each figure (5)", 0 },
	{ "only", OPT_ONLY, "NAME,...", 0, "Only these figures", 0 },
	{ 0 },
};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
	struct kvbench *b = state->input;

	switch (key) {
	case OPT_SIZE:
		b->size = kv_opts_size(state, "--size", arg, 1, 1ull << 30);
		return 0;
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
	case 't':
		b->time_ns = kv_opts_time(state, "--time", arg, 1000000,
					  60000000000);
		return 0;
	case OPT_ROUNDS:
		b->rounds = (unsigned)kv_opts_number(state, "--rounds", arg, 1,
						     KVBENCH_ROUNDS_MAX);
		return 0;
	case OPT_ONLY:
		if (!kvbench_figures_are(arg))
			argp_error(state, "--only: '%s' has no such figure",
				   arg);
		b->only = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 0)
			argp_error(state, "one workload: local or store");
		b->workload = arg;
		return 0;
	case ARGP_KEY_END:
		if (!b->workload || !kvbench_workload_is(b->workload))
			argp_error(state, "name a workload: local or store");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "local|store",
	.doc = "Measures the pool of a running kvclient and kvmaster.\v"
	       "local: this host's node, through shared memory.  store: other "
	       "nodes, over TCP.",
};

static int
print(const struct kvbench *b, bool json)
{
	struct kv_out *o =
		json ? kv_out_json_new(stdout) : kv_out_text_new(stdout, false);
	const struct kvbench_result *r;
	char host[256] = "?";
	unsigned i;

	if (!o)
		return EX_OSERR;
	gethostname(host, sizeof(host) - 1);
	kv_out_begin(o, KV_OUT_OBJECT, NULL);
	kv_out_string(o, "host", host);
	kv_out_string(o, "version", KVPOOL_VERSION);
	kv_out_begin(o, KV_OUT_TABLE, "results");
	for (i = 0; i < b->n_results; i++) {
		r = &b->results[i];
		kv_out_begin(o, KV_OUT_ROW, NULL);
		kv_out_string(o, "name", r->name);
		kv_out_double(o, "value", r->value, 2);
		kv_out_string(o, "unit", r->unit);
		kv_out_double(o, "floor", r->floor, 2);
		kv_out_string(o, "floor_name", r->floor_name);
		kv_out_double(o, "ratio", r->ratio, 2);
		kv_out_end(o, KV_OUT_ROW);
	}
	kv_out_end(o, KV_OUT_TABLE);
	kv_out_end(o, KV_OUT_OBJECT);
	return kv_out_finish(o) < 0 ? EX_IOERR : 0;
}

int
main(int argc, char **argv)
{
	struct kv_opts opts;
	struct kvbench b = {
		.size = 2 << 20,
		.batch = 64,
		.threads = 1,
		.key_len = 130,
		.time_ns = 300000000,
		.rounds = 5,
	};
	const struct kv_opts_program program = { &argp, &b, KV_CONF_TOOL };
	int rc;

	kv_opts_parse(&opts, &program, argc, argv);
	rc = kv_opts_load(&opts);
	if (rc)
		return rc;
	kv_tool_client_opts(&opts, &b.client);
	b.client.timeout_ms = kv_tool_timeout_ms(&opts, b.batch * b.size);
	b.quiet = opts.json;
	rc = kvbench_run(&b);
	return rc ? rc : print(&b, opts.json);
}

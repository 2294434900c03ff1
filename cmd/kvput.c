/* kvput: objects from files and pipes. */
#include <argp.h>
#include <stdio.h>
#include <sysexits.h>

#include "base/limits.h"
#include "cli/tool.h"
#include "cmd/kvput.h"
#include "svc/client.h"

enum {
	OPT_SOFT_PIN = 0x100,
	OPT_HARD_PIN,
	OPT_PREFER,
};

static const struct argp_option options[] = {
	{ "batch", 'b', NULL, 0, "put many: FILE has lines KEY<TAB>PATH", 0 },
	{ "null", '0', NULL, 0, "the lines of --batch end in NUL", 0 },
	{ "replicas", 'r', "N", 0, "copies, each on another node (1)", 0 },
	{ "soft-pin", OPT_SOFT_PIN, NULL, 0, "evict it after all others", 0 },
	{ "hard-pin", OPT_HARD_PIN, NULL, 0, "never evict it", 0 },
	{ "prefer", OPT_PREFER, "NODE", 0, "try this node first", 0 },
	{ 0 },
};

static void
check(struct kvput_options *o, const struct argp_state *state)
{
	unsigned max = o->is_batch ? 1 : 2;

	if (o->n_args > max)
		argp_failure(state, EX_USAGE, 0, "one argument too many: '%s'",
			     o->args[max]);
	if (o->put.soft_pin && o->put.hard_pin)
		argp_failure(state, EX_USAGE, 0,
			     "either --soft-pin or --hard-pin");
	if (o->is_nul && !o->is_batch)
		argp_failure(state, EX_USAGE, 0, "--null goes with --batch");
	if (!o->is_batch && !o->n_args)
		argp_failure(state, EX_USAGE, 0, "no KEY; see kvput --help");
	if (!o->is_batch)
		o->key = kv_tool_key_arg(state, o->args[0]);
	o->path = o->n_args == max ? o->args[max - 1] : "-";
}

static error_t
parse(int key, char *arg, struct argp_state *state)
{
	struct kvput_options *o = state->input;

	switch (key) {
	case 'b':
		o->is_batch = true;
		return 0;
	case '0':
		o->is_nul = true;
		return 0;
	case 'r':
		o->put.replicas = (uint32_t)kv_opts_number(
			state, "--replicas", arg, 1, KV_REPLICAS_MAX);
		return 0;
	case OPT_SOFT_PIN:
		o->put.soft_pin = 1;
		return 0;
	case OPT_HARD_PIN:
		o->put.hard_pin = 1;
		return 0;
	case OPT_PREFER:
		o->put.prefer = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->n_args == 2)
			argp_failure(state, EX_USAGE, 0,
				     "one argument too many: '%s'", arg);
		o->args[o->n_args++] = arg;
		return 0;
	case ARGP_KEY_END:
		check(o, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int
run(void *input, struct kv_client *c)
{
	kv_client_map_exactly(c);
	return kvput_run(input, c);
}

int
main(int argc, char **argv)
{
	struct kvput_options o = { .put.size = sizeof(o.put) };
	const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "KEY [FILE]\n--batch [FILE]",
		.doc = "Put a file (- or none: stdin) into the pool, under KEY."
		       " A key that exists keeps its value, which is success.",
	};
	const struct kv_opts_program program = {
		&argp,
		&o,
		KV_CONF_TOOL | KV_CONF_DIALER,
	};

	return kv_tool_main(&o.common, &program, argc, argv, run);
}

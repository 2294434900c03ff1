/* kvget: objects to files and pipes, and whether they exist. */
#include <argp.h>
#include <stdio.h>
#include <sysexits.h>

#include "cli/tool.h"
#include "cmd/kvget.h"
#include "svc/client.h"

enum {
	OPT_EXIST = 0x100,
};

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0, "write to FILE instead of stdout", 0 },
	{ "batch", 'b', "DIR", 0, "get many, each into a file below DIR", 0 },
	{ "exist", OPT_EXIST, NULL, 0, "print KEY<TAB>1 or 0, for each", 0 },
	{ "null", '0', NULL, 0, "the lines of stdin and of --exist end in NUL",
	  0 },
	{ 0 },
};

static void
check(const struct kvget_options *o, const struct argp_state *state)
{
	const char *why = NULL;

	if (o->is_exist && (o->dir || o->output))
		why = "--exist goes with neither --batch nor --output";
	else if (o->dir && o->output)
		why = "either --batch or --output";
	else if (o->is_nul && !o->dir && !o->is_exist)
		why = "--null goes with --batch or --exist";
	else if (o->common.json && !o->dir && !o->is_exist && !o->output)
		why = "--json needs --output: the value takes stdout";
	else if (!o->dir && !o->is_exist && o->n_keys == 0)
		why = "no KEY; see kvget --help";
	else if (!o->dir && !o->is_exist && o->n_keys > 1)
		why = "several keys need --batch";
	if (why)
		argp_failure(state, EX_USAGE, 0, "%s", why);
	for (size_t i = 0; i < o->n_keys; i++)
		(void)kv_tool_key_arg(state, o->keys[i]);
}

static error_t
parse(int key, char *arg, struct argp_state *state)
{
	struct kvget_options *o = state->input;

	switch (key) {
	case 'o':
		o->output = arg;
		return 0;
	case 'b':
		o->dir = arg;
		return 0;
	case OPT_EXIST:
		o->is_exist = true;
		return 0;
	case '0':
		o->is_nul = true;
		return 0;
	case ARGP_KEY_ARGS:
		o->keys = state->argv + state->next;
		o->n_keys = (size_t)(state->argc - state->next);
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
	const struct kvget_options *o = input;

	kv_client_map_exactly(c);
	return o->is_exist ? kvget_exist(o, c) : kvget_fetch(o, c);
}

int
main(int argc, char **argv)
{
	struct kvget_options o = { 0 };
	const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "KEY\n--batch DIR [KEY...]\n--exist [KEY...]",
		.doc = "Get objects out of the pool. Without KEY, --batch and"
		       " --exist read keys from stdin, one a line.",
	};
	const struct kv_opts_program program = {
		&argp,
		&o,
		KV_CONF_TOOL | KV_CONF_DIALER,
	};

	return kv_tool_main(&o.common, &program, argc, argv, run);
}

/* kvdiag: questions to a running pool. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/status.h"
#include "cli/tool.h"
#include "cmd/kvdiag.h"
#include "svc/client.h"

enum arity {
	ARG_NONE,
	ARG_OPTIONAL,
	ARG_KEY,
};

static const struct command {
	const char *name;
	enum arity arity;
	bool is_offline;
	int (*run)(struct kvdiag *d);
} commands[] = {
	{ "nodes", ARG_NONE, false, kvdiag_nodes },
	{ "pools", ARG_NONE, false, kvdiag_pools },
	{ "keys", ARG_OPTIONAL, false, kvdiag_keys },
	{ "key", ARG_KEY, false, kvdiag_key },
	{ "stats", ARG_OPTIONAL, false, kvdiag_stats },
	{ "links", ARG_OPTIONAL, false, kvdiag_links },
	{ "devices", ARG_NONE, true, kvdiag_devices },
	{ "config", ARG_OPTIONAL, true, kvdiag_config },
	{ "doctor", ARG_OPTIONAL, true, kvdiag_doctor },
	{ "watch", ARG_NONE, true, kvdiag_watch },
};

static const char doc[] =
	"Ask a running pool.\v"
	"  nodes               who is in the pool, and in which state\n"
	"  pools               memory of each node: free, used, pinned\n"
	"  keys [REGEX]        keys, or those that match (PCRE2)\n"
	"  key KEY             copies of one object, and whether they are equal\n"
	"  stats [WHOSE]       counters of the master, the local node, the client\n"
	"  links [HOST:PORT]   how each node is reached from here, and how fast;\n"
	"                      how bytes go to the engine at that address\n"
	"  devices             RDMA devices of this machine: usable, or why not\n"
	"  config [FILE]       configuration: each value, and where it is from\n"
	"  doctor [FILE]       what is wrong here and in the pool, and what helps\n"
	"  watch               the pool as it lives, until q or Ctrl-C";

static const struct argp_option options[] = {
	{ "null", '0', NULL, 0, "keys end in NUL, not in newline", 0 },
	{ "interval", 'n', "SECONDS", 0, "how often watch looks (1)", 0 },
	{ 0 },
};

static const struct command *
find(const char *name)
{
	for (size_t i = 0; i < KV_ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static void
check(struct kvdiag *d, const struct argp_state *state)
{
	const struct command *c = d->command ? find(d->command) : NULL;
	char why[256];

	if (!c) {
		argp_failure(
			state, EX_USAGE, 0, "%s%s%s; see kvdiag --help",
			d->command ? "'" : "", d->command ? d->command : "",
			d->command ? "' is no subcommand" : "no subcommand");
		return;
	}
	if (c->arity == ARG_NONE && d->arg)
		argp_failure(state, EX_USAGE, 0, "one argument too many: '%s'",
			     d->arg);
	else if (c->arity == ARG_KEY && !d->arg)
		argp_failure(state, EX_USAGE, 0, "key: which KEY?");
	else if (c->arity == ARG_KEY)
		(void)kv_tool_key_arg(state, d->arg);
	if (c->run == kvdiag_keys && d->arg &&
	    kv_client_check_pattern(d->arg, why, sizeof(why)) < 0)
		argp_failure(state, EX_USAGE, 0, "keys: %s", why);
	if (d->is_nul && c->run != kvdiag_keys)
		argp_failure(state, EX_USAGE, 0, "--null goes with keys");
	if (d->interval_ns && c->run != kvdiag_watch)
		argp_failure(state, EX_USAGE, 0, "--interval goes with watch");
	if (d->is_nul && d->common.json)
		argp_failure(state, EX_USAGE, 0, "either --null or --json");
}

static error_t
parse(int key, char *arg, struct argp_state *state)
{
	struct kvdiag *d = state->input;

	switch (key) {
	case '0':
		d->is_nul = true;
		return 0;
	case 'n':
		d->interval_ns =
			kv_opts_time(state, "--interval", arg,
				     100 * KV_NS_PER_MS, 3600 * KV_NS_PER_S);
		return 0;
	case ARGP_KEY_ARG:
		if (!d->command)
			d->command = arg;
		else if (!d->arg)
			d->arg = arg;
		else
			argp_failure(state, EX_USAGE, 0,
				     "one argument too many: '%s'", arg);
		return 0;
	case ARGP_KEY_END:
		check(d, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int
kvdiag_fail(const struct kvdiag *d, int status)
{
	const char *text = kv_status_text(status), *hint = kv_tool_hint(status);

	if (status == -KV_EUNREACHABLE) {
		text = "no master answers";
		hint = *d->common.conf.master_server_address
			       ? "; is kvmaster running there?"
			       : "; --master HOST:PORT names one";
	}
	return kv_tool_say(kv_status_exit(status), "%s: %s%s", d->command, text,
			   hint);
}

int
kvdiag_away(uint32_t nodes)
{
	if (!nodes)
		return 0;
	return kv_tool_say(EX_TEMPFAIL,
			   "%" PRIu32 " node%s did not answer; `kvdiag nodes` "
			   "shows who is there",
			   nodes, kv_tool_plural(nodes));
}

/* Also when the own node, which was named, does not answer: masters may. 0, or
 * the exit code. */
static int
open_client(struct kvdiag *d)
{
	struct kv_conf *conf = &d->common.conf;
	int code = kv_tool_connect(&d->common, &d->client);

	if (code != EX_UNAVAILABLE || !*conf->socket ||
	    !*conf->master_server_address)
		return code;
	d->is_alone = true;
	*conf->socket = '\0';
	conf->source[KV_CONF_SOCKET] = KV_CONF_OPTION;
	return kv_tool_connect(&d->common, &d->client);
}

static int
ask(struct kvdiag *d, const struct command *command)
{
	/* An engine is in no pool. */
	bool is_engine = command->run == kvdiag_links && d->arg;
	int code = command->is_offline || is_engine ? 0 : open_client(d);

	if (code)
		return code;
	d->out = d->common.json ? kv_out_json_new(stdout)
				: kv_out_text_new(stdout, d->is_nul);
	if (d->out)
		code = kv_tool_end(d->out,
				   kv_tool_worse(command->run(d), d->is_alone));
	else
		code = kv_tool_say(EX_OSERR, "out of memory");
	kv_client_close(d->client);
	return code;
}

int
main(int argc, char **argv)
{
	struct kvdiag d = { 0 };
	const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "SUBCOMMAND [ARG]",
		.doc = doc,
	};
	const struct kv_opts_program program = { &argp, &d, KV_CONF_TOOL };
	const struct command *command;
	int code;

	kv_opts_parse(&d.common, &program, argc, argv);
	command = find(d.command);
	if (command->run == kvdiag_config || command->run == kvdiag_doctor)
		d.common.config = d.arg;
	code = kv_opts_load(&d.common);
	return code ? code : ask(&d, command);
}

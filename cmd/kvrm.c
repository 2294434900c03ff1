/* kvrm: removes objects, by key, by pattern or all. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/status.h"
#include "cli/opts.h"
#include "cli/out.h"
#include "cli/tool.h"
#include "kvpool.h"
#include "svc/client.h"

enum {
	OPT_ALL = 0x100,
};

static const struct argp_option options[] = {
	{ "regex", 'e', "PATTERN", 0, "remove the keys that match (PCRE2)", 0 },
	{ "all", OPT_ALL, NULL, 0, "remove all keys of the tenant", 0 },
	{ "force", 'f', NULL, 0, "hard-pinned ones too; missing ones are fine",
	  0 },
	{ 0 },
};

struct options {
	struct kv_opts common;
	const char *pattern;
	bool is_all;
	bool is_forced;
	char **args;
	size_t n;
};

struct result {
	uint64_t removed;
	uint64_t missing;
	uint64_t failed;
	uint64_t kept; /* for their hard pins */
	uint64_t undecided;
	uint32_t away; /* nodes that could not be told */
	int code;
};

static void
check_pattern(const char *pattern, const struct argp_state *state)
{
	char why[256];

	/* As likely a variable that was not set. */
	if (!*pattern)
		argp_failure(state, EX_USAGE, 0,
			     "--regex: every key matches the empty pattern; "
			     "--all removes all");
	else if (kv_client_check_pattern(pattern, why, sizeof(why)) < 0)
		argp_failure(state, EX_USAGE, 0, "--regex: %s", why);
}

static void
check(const struct options *o, const struct argp_state *state)
{
	if (!!o->n + !!o->pattern + o->is_all > 1)
		argp_failure(state, EX_USAGE, 0,
			     "either KEYs, or --regex, or --all");
	if (!o->n && !o->pattern && !o->is_all)
		argp_failure(state, EX_USAGE, 0, "no KEY; see kvrm --help");
	if (o->pattern)
		check_pattern(o->pattern, state);
	for (size_t i = 0; i < o->n; i++)
		(void)kv_tool_key_arg(state, o->args[i]);
}

static error_t
parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'e':
		o->pattern = arg;
		return 0;
	case OPT_ALL:
		o->is_all = true;
		return 0;
	case 'f':
		o->is_forced = true;
		return 0;
	case ARGP_KEY_ARGS:
		o->args = state->argv + state->next;
		o->n = (size_t)(state->argc - state->next);
		return 0;
	case ARGP_KEY_END:
		check(o, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void
count(const struct options *o, struct result *r, const struct kv_key *key,
      int status)
{
	char buf[KV_TOOL_KEY_SIZE];

	if (status == 0)
		return;
	if (status == -KV_EMISS) {
		r->missing++;
		if (o->is_forced)
			return;
	} else if (status == -KV_EBUSY) {
		r->kept++;
	} else {
		r->failed++;
	}
	if (status == -KV_EBUSY)
		status = kv_tool_say(kv_status_exit(status),
				     "%s: hard-pinned; --force removes it",
				     kv_tool_key(buf, key));
	else
		status = kv_tool_fail_key(key, status, 0);
	r->code = kv_tool_worse(r->code, status);
}

/* The number removed, or -kv_status. */
static long
remove_keys(const struct options *o, struct kv_client *c, struct result *r)
{
	struct kv_key *keys = calloc(o->n, sizeof(*keys));
	int *status = calloc(o->n, sizeof(*status));
	long n = -KV_ENOMEM;

	for (size_t i = 0; keys && i < o->n; i++)
		keys[i] = (struct kv_key){ o->args[i], strlen(o->args[i]) };
	if (keys && status)
		n = kv_client_remove(c, keys, o->n, o->is_forced, status,
				     &r->away);
	for (size_t i = 0; n >= 0 && i < o->n; i++)
		count(o, r, &keys[i], status[i]);
	free(keys);
	free(status);
	return n;
}

static long
remove_matching(const struct options *o, struct kv_client *c, struct result *r)
{
	long n = kv_client_remove_matching(c, o->pattern, o->is_forced,
					   &r->kept, &r->undecided, &r->away);

	if (n < 0)
		return n;
	if (r->kept)
		r->code = kv_tool_say(EX_TEMPFAIL,
				      "%" PRIu64 " hard-pinned object%s left; "
				      "--force removes %s",
				      r->kept, kv_tool_plural(r->kept),
				      r->kept == 1 ? "it" : "them");
	r->code = kv_tool_worse(r->code, kv_tool_undecided(r->undecided));
	if (n == 0 && !r->code && !r->away && o->pattern && !o->is_forced)
		r->code = kv_tool_say(1, "no key matches");
	return n;
}

static int
print(const struct options *o, const struct result *r)
{
	struct kv_out *out = o->common.json ? kv_out_json_new(stdout)
					    : kv_out_text_new(stdout, false);

	if (!out)
		return kv_tool_say(EX_OSERR, "out of memory");
	kv_out_begin(out, KV_OUT_OBJECT, NULL);
	kv_out_u64(out, "removed", r->removed);
	if (o->common.json) {
		kv_out_u64(out, "missing", r->missing);
		kv_out_u64(out, "kept", r->kept);
		kv_out_u64(out, "undecided", r->undecided);
		kv_out_u64(out, "failed", r->failed);
		kv_out_u64(out, "nodes_away", r->away);
	}
	kv_out_end(out, KV_OUT_OBJECT);
	return kv_tool_end(out, r->code);
}

static int
run(void *input, struct kv_client *c)
{
	const struct options *o = input;
	struct result r = { 0 };
	int code = 0;
	long n;

	n = o->n ? remove_keys(o, c, &r) : remove_matching(o, c, &r);
	if (n < 0)
		return kv_tool_fail((int)n);
	r.removed = (uint64_t)n;
	if (r.away)
		code = kv_tool_say(EX_TEMPFAIL,
				   "%" PRIu32 " node%s away: pending, %s told "
				   "when %s back",
				   r.away, r.away == 1 ? " is" : "s are",
				   r.away == 1 ? "it is" : "they are",
				   r.away == 1 ? "it is" : "they are");
	r.code = kv_tool_worse(code, r.code);
	return print(o, &r);
}

int
main(int argc, char **argv)
{
	struct options o = { 0 };
	const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "KEY...\n--regex PATTERN\n--all",
		.doc = "Remove objects from the pool and say how many.",
	};
	const struct kv_opts_program program = { &argp, &o, KV_CONF_TOOL };

	return kv_tool_main(&o.common, &program, argc, argv, run);
}

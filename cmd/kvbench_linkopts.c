#include <argp.h>
#include <string.h>
#include <sysexits.h>

#include "base/num.h"
#include "cli/opts.h"
#include "cli/sizelist.h"
#include "cli/tool.h"
#include "cmd/kvbench_link.h"

#define MEMORY_USUAL (256u << 20)

static void
parse_depth(struct kvbench_link *l, const char *arg,
	    const struct argp_state *state)
{
	const struct kv_sizelist_rule rule = { 1, KVBENCH_LINK_DEPTH_MAX,
					       KVBENCH_LINK_DEPTHS_MAX, true };
	char err[200];
	int n = kv_sizelist_parse(arg, &rule, l->depths, err, sizeof(err));

	if (n < 0)
		argp_error(state, "--depth: %s", err);
	else
		l->n_depths = (unsigned)n;
}

bool
kvbench_link_option(struct kvbench_link *l, int key, const char *arg,
		    const struct argp_state *state)
{
	if (key >= KVBENCH_LINK_OPT_LISTEN && key <= KVBENCH_LINK_OPT_PERFTEST)
		l->has_options = true;
	switch (key) {
	case KVBENCH_LINK_OPT_LISTEN:
		l->is_listener = true;
		l->listen = arg;
		return true;
	case KVBENCH_LINK_OPT_DEPTH:
		parse_depth(l, arg, state);
		return true;
	case KVBENCH_LINK_OPT_MEMORY:
		l->memory = kv_opts_size(state, "--memory", arg,
					 KVBENCH_LINK_MEMORY_MIN,
					 KVBENCH_LINK_MEMORY_MAX);
		return true;
	case KVBENCH_LINK_OPT_LOCAL:
		l->local = true;
		return true;
	case KVBENCH_LINK_OPT_KEEP:
		l->keep = true;
		return true;
	case KVBENCH_LINK_OPT_PERFTEST:
		l->perftest = true;
		return true;
	default:
		return false;
	}
}

/* The operation of that name, or KVBENCH_LINK_OPS. */
static unsigned
op_find(const char *name, size_t n)
{
	unsigned i;

	for (i = 0; i < KVBENCH_LINK_OPS; i++)
		if (strlen(kvbench_link_op_names[i]) == n &&
		    memcmp(kvbench_link_op_names[i], name, n) == 0)
			break;
	return i;
}

bool
kvbench_link_has(const char *only, enum kvbench_link_op op)
{
	size_t n;

	for (; only; only = only[n] ? only + n + 1 : NULL) {
		n = strcspn(only, ",");
		if (op_find(only, n) == op)
			return true;
		if (!only[n])
			return false;
	}
	return true;
}

void
kvbench_link_check(struct kvbench_link *l, const char *size,
		   const struct argp_state *state)
{
	const struct kv_sizelist_rule rule = { 1, KVBENCH_LINK_BYTES_MAX,
					       KVBENCH_LINK_SIZES_MAX, false };
	char err[200];
	int n = kv_sizelist_parse(size ? size : "4..64MB", &rule, l->sizes, err,
				  sizeof(err));

	if (n < 0)
		argp_error(state, "--size: %s", err);
	if (l->only && kvbench_link_has(l->only, KVBENCH_LINK_OPS))
		argp_error(state, "--only: link has write, read and send, of a "
				  "kvclient put and get");
	if (l->is_listener && l->peer)
		argp_error(state,
			   "link: either --listen or HOST:PORT; to "
			   "listen at an address: --listen=%s",
			   l->peer);
	if (!l->is_listener && !l->peer)
		argp_error(state, "link: name the other side as HOST:PORT, or "
				  "--listen");
	l->n_sizes = n < 0 ? 0 : (unsigned)n;
	if (l->n_depths == 0)
		l->depths[l->n_depths++] = 1;
	if (l->memory == 0)
		l->memory = MEMORY_USUAL;
	l->has_sizes = size;
	for (int i = 0; i < n && size; i++)
		if (l->sizes[i] > l->memory)
			argp_error(state, "--size: larger than --memory");
}

int
kvbench_link_run(struct kvbench_link *l, const struct kv_opts *opts)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < l->n_sizes; i++)
		bytes = kv_max_u64(bytes, l->sizes[i]);
	l->timeout_ms = kv_tool_timeout_ms(opts, bytes);
	l->json = opts->json;
	l->protocol = kv_opts_protocol(opts);
	l->devices = opts->conf.device_name;
	kv_tool_client_opts(opts, &l->client);
	return l->is_listener ? kvbench_link_serve(l) : kvbench_link_measure(l);
}

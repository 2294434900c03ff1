/* kvmaster: knows which nodes hold which keys, and which of them live. */
#include <argp.h>
#include <errno.h>
#include <sys/resource.h>
#include <sysexits.h>

#include "base/attr.h"
#include "base/log.h"
#include "cli/opts.h"
#include "svc/daemon.h"
#include "svc/masterd.h"

enum {
	OPT_EXIST_GRACE = 0x100,
};

static const struct argp_option options[] = {
	{ "exist-grace", OPT_EXIST_GRACE, "TIME", 0,
	  "nodes keep what was found to exist for so long if possible (5s)",
	  0 },
	{ 0 },
};

struct options {
	struct kv_opts common;
	uint64_t grace_ns;
};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case OPT_EXIST_GRACE:
		o->grace_ns = kv_opts_time(state, "--exist-grace", arg, 0,
					   3600 * KV_NS_PER_S);
		if (!o->grace_ns)
			o->grace_ns = 1; /* none: 0 is the default */
		return 0;
	case ARGP_KEY_ARG:
		argp_failure(state, EX_USAGE, 0,
			     "'%s': there are options, but no arguments", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

struct daemon {
	struct kv_daemon base;
	struct kv_masterd *master;
};

static void
stop(struct kv_daemon *base)
{
	struct daemon *d = KV_CONTAINER_OF(base, struct daemon, base);

	kv_masterd_stop(d->master, kv_daemon_done, base);
}

/* A connection for each node and each engine: as many as we may have. */
static void
raise_descriptors(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return;
	lim.rlim_cur = lim.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &lim);
}

/* 0 or an exit code, after one line. */
static int
daemon_start(struct daemon *d, const struct options *o)
{
	const struct kv_conf *c = &o->common.conf;
	bool has_http = c->source[KV_CONF_HTTP_LISTEN] != KV_CONF_DEFAULT;
	const struct kv_masterd_opts mo = {
		.listen = c->listen,
		.port = c->rpc_port,
		.http_listen = has_http ? c->http_listen : NULL,
		.http_port = c->http_port,
		.ttl_ns = c->client_ttl_ns,
		.grace_ns = o->grace_ns,
	};
	char err[512];
	int code;

	d->master = kv_masterd_start(&mo, d->base.loop, err, sizeof(err));
	if (!d->master) {
		code = kv_opts_exit_code(errno);
		if (err[0])
			kv_err("%s", err);
		return code;
	}
	kv_info("ready addr=%s http=%u client_ttl=%llums",
		kv_masterd_addr(d->master), kv_masterd_http_port(d->master),
		(unsigned long long)(c->client_ttl_ns / KV_NS_PER_MS));
	return 0;
}

static int
run(const struct options *o)
{
	struct daemon d = { 0 };
	int code;

	if (kv_daemon_init(&d.base, stop) < 0)
		return EX_OSERR;
	code = daemon_start(&d, o);
	if (code == 0 && kv_loop_run(d.base.loop) < 0)
		code = EX_OSERR;
	kv_masterd_free(d.master);
	kv_daemon_fini(&d.base);
	return code;
}

int
main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Keep the directory of a pool: which nodes hold which "
		       "keys, and which of them live.",
	};
	struct options o = { 0 };
	const struct kv_opts_program program = {
		.argp = &argp,
		.input = &o,
		.who = KV_CONF_MASTER,
	};
	int code;

	kv_opts_parse(&o.common, &program, argc, argv);
	code = kv_opts_load(&o.common);
	if (code)
		return code;
	raise_descriptors();
	return run(&o);
}

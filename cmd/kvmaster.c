/* kvmaster: knows which nodes hold which keys, and which of them live. */
#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>

#include "base/log.h"
#include "cli/opts.h"
#include "event/loop.h"
#include "event/sig.h"
#include "net/addr.h"
#include "net/sock.h"
#include "svc/admin.h"
#include "svc/master.h"

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
		o->grace_ns = kv_opts_time(state, "--exist-grace", arg, 1,
					   3600 * KV_NS_PER_S);
		return 0;
	case ARGP_KEY_ARG:
		argp_failure(state, EX_USAGE, 0, "%s: no arguments here", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The addresses of --listen, as the network takes them. */
struct listen {
	char host[KV_ADDR_NAME_BYTES_MAX + 1]; /* of the first; "": all */
	char text[KV_MASTER_LISTEN_MAX][KV_ADDR_TEXT_BYTES_MAX + 4];
	int n;
};

/* 0 or an exit code, after one line. */
static int
listen_parse(struct listen *l, const struct kv_conf *c)
{
	struct kv_addr addrs[KV_MASTER_LISTEN_MAX];
	char err[KV_ADDR_ERROR_BYTES], buf[KV_ADDR_TEXT_BYTES_MAX];
	char v6[KV_CONF_TEXT_SIZE + 3];
	const char *list = c->listen[0] ? c->listen : "*";
	struct in6_addr in6;
	int i;

	if (inet_pton(AF_INET6, list, &in6) == 1) {
		snprintf(v6, sizeof(v6), "[%s]", list);
		list = v6;
	}
	/* Port 1 stands for "none given": nobody types it. */
	l->n = kv_addr_parse_list(list, 1, addrs, KV_MASTER_LISTEN_MAX, err,
				  sizeof(err));
	if (l->n < 0) {
		kv_err("--listen: %s", err);
		return EX_USAGE;
	}
	snprintf(l->host, sizeof(l->host), "%s", addrs[0].name);
	for (i = 0; i < l->n; i++) {
		if (addrs[i].kind != KV_ADDR_TCP || addrs[i].port != 1) {
			kv_err("--listen %s: an address or a name; the port "
			       "is --rpc-port",
			       list);
			return EX_USAGE;
		}
		addrs[i].port = c->rpc_port;
		snprintf(l->text[i], sizeof(l->text[i]), "tcp:%s",
			 kv_addr_format(&addrs[i], buf));
	}
	return 0;
}

struct daemon {
	struct kv_loop *loop;
	struct kv_net *net;
	struct kv_sig sig;
	struct kv_master *master;
	struct kv_admin *admin; /* NULL: no HTTP */
};

static void
daemon_done(void *arg)
{
	struct daemon *d = arg;

	kv_loop_stop(d->loop);
}

static void
daemon_signal(struct kv_sig *sig, int signo)
{
	struct daemon *d = KV_CONTAINER_OF(sig, struct daemon, sig);

	if (signo != SIGTERM && signo != SIGINT)
		return; /* SIGHUP, SIGPIPE */
	kv_info("ending signal=%s", strsignal(signo));
	kv_admin_drain(d->admin);
	kv_master_stop(d->master, daemon_done, d);
}

/* Before any thread: they inherit the mask. */
static int
daemon_signals(struct daemon *d)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	return kv_sig_init(&d->sig, d->loop, &set, daemon_signal);
}

/* A connection for each node and each engine: as many as we may have. */
static void
raise_descriptors(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_cur == lim.rlim_max)
		return;
	lim.rlim_cur = lim.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &lim) < 0)
		kv_debug("cannot raise the limit of descriptors: %m");
}

/* 0 or an exit code, after one line. */
static int
http_start(struct daemon *d, const struct kv_conf *c, const struct listen *l)
{
	const struct kv_admin_opts ao = {
		.loop = d->loop,
		.host = l->host[0] ? l->host : NULL,
		.port = c->http_port,
		.master = d->master,
	};
	char err[512];

	if (c->http_port == 0)
		return 0;
	d->admin = kv_admin_new(&ao, err, sizeof(err));
	if (d->admin)
		return 0;
	kv_err("--http-port: %s", err);
	return kv_opts_exit_code(errno);
}

/* 0 or an exit code, after one line. */
static int
daemon_start(struct daemon *d, const struct options *o, const struct listen *l)
{
	const struct kv_conf *c = &o->common.conf;
	struct kv_master_opts mo = {
		.loop = d->loop,
		.net = d->net,
		.ttl_ns = c->client_ttl_ns,
		.grace_ns = o->grace_ns,
	};
	char err[512];
	int i, code;

	for (i = 0; i < l->n; i++)
		mo.listen[i] = l->text[i];
	d->master = kv_master_new(&mo, err, sizeof(err));
	if (!d->master) {
		code = kv_opts_exit_code(errno);
		/* Why it cannot listen was logged where it failed. */
		if (strncmp(err, "cannot listen", 13) != 0)
			kv_err("%s", err);
		return code;
	}
	code = http_start(d, c, l);
	if (code == 0)
		kv_info("ready addr=%s http=%u client_ttl=%llums",
			kv_master_bound(d->master, 0),
			d->admin ? kv_admin_port(d->admin) : 0,
			(unsigned long long)(c->client_ttl_ns / KV_NS_PER_MS));
	return code;
}

static int
run(const struct options *o, const struct listen *l)
{
	struct daemon d = { .loop = kv_loop_new(NULL),
			    .net = kv_sock_net_new() };
	int code = EX_OSERR;

	if (!d.loop || !d.net || daemon_signals(&d) < 0) {
		kv_err("cannot start: %m");
		kv_sock_net_free(d.net);
		kv_loop_free(d.loop);
		return code;
	}
	code = daemon_start(&d, o, l);
	if (code == 0 && kv_loop_run(d.loop) < 0)
		code = EX_OSERR;
	kv_admin_free(d.admin);
	kv_master_free(d.master);
	kv_sig_fini(&d.sig);
	kv_sock_net_free(d.net);
	kv_loop_free(d.loop);
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
	struct listen l;
	int code;

	kv_opts_parse(&o.common, &program, argc, argv);
	code = kv_opts_load(&o.common);
	if (code == 0)
		code = listen_parse(&l, &o.common.conf);
	if (code)
		return code;
	raise_descriptors();
	return run(&o, &l);
}

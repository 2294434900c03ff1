/* kvclient: owns memory of this machine, serves processes of this host and
 * other nodes. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/opts.h"
#include "svc/admin.h"
#include "svc/daemon.h"
#include "svc/node.h"
#include "svc/pool.h"
#include "svc/rdmaopen.h"
#include "xfer/rdma.h"

enum {
	OPT_SOCKET_GROUP = 0x100,
	OPT_EXIST_GRACE,
	OPT_WORKERS,
};

enum {
	WORKERS_MAX = 64,
};

static const struct argp_option options[] = {
	{ "socket-group", OPT_SOCKET_GROUP, "GROUP", 0,
	  "group that may attach (default: only the same user)", 0 },
	{ "exist-grace", OPT_EXIST_GRACE, "TIME", 0,
	  "keep what was found to exist for so long if possible (5s)", 0 },
	{ "workers", OPT_WORKERS, "N", 0, "threads that move bytes (2)", 0 },
	{ 0 },
};

struct options {
	struct kv_opts common;
	const char *socket_group;
	uint64_t grace_ns;
	unsigned workers;
};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case OPT_SOCKET_GROUP:
		o->socket_group = arg;
		return 0;
	case OPT_EXIST_GRACE:
		o->grace_ns = kv_opts_time(state, "--exist-grace", arg, 0,
					   3600 * KV_NS_PER_S);
		if (!o->grace_ns)
			o->grace_ns = 1; /* none: 0 is the default */
		return 0;
	case OPT_WORKERS:
		o->workers = (unsigned)kv_opts_number(state, "--workers", arg,
						      1, WORKERS_MAX);
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
	struct kv_rdma *rdma; /* NULL: none */
	struct kv_pool *pool;
	struct kv_admin *admin; /* NULL: no HTTP */
};

static void
stop(struct kv_daemon *base)
{
	struct daemon *d = KV_CONTAINER_OF(base, struct daemon, base);

	kv_admin_drain(d->admin);
	kv_pool_stop(d->pool, kv_daemon_done, base);
}

static void
say_ready(const struct daemon *d, const struct kv_conf *c)
{
	const char *socket = kv_pool_socket(d->pool);
	char size[16];

	kv_info("ready addr=%s socket=%s http=%u pool=\"%s\" master=%s",
		kv_pool_addr(d->pool), *socket ? socket : "none",
		d->admin ? kv_admin_port(d->admin) : 0,
		kv_str_size_format(size, sizeof(size),
				   (uint64_t)c->global_segment_size),
		c->master_server_address[0] ? c->master_server_address
					    : "none");
}

/* Without a port, and an IPv6 address perhaps without brackets. */
static const char *
addr_build(const char *host, uint16_t port, char *buf, size_t n)
{
	bool is_bare = strchr(host, ':') && host[0] != '[';

	snprintf(buf, n, is_bare ? "[%s]:%u" : "%s:%u", host, port);
	return host[0] ? buf : NULL;
}

static struct kv_pool *
pool_start(const struct options *o, const struct daemon *d, const char *socket)
{
	const struct kv_conf *c = &o->common.conf;
	char listen[16], addr[KV_CONF_TEXT_SIZE + 16], err[512];
	struct kv_pool_opts po = {
		.bytes = (uint64_t)c->global_segment_size,
		.hugepages = c->hugepages,
		.file = c->pool_file[0] ? c->pool_file : NULL,
		.masters = c->master_server_address,
		.listen = listen,
		.addr = addr_build(c->host, c->port, addr, sizeof(addr)),
		.socket = *socket ? socket : NULL,
		.socket_group = o->socket_group,
		.name = c->host[0] ? c->host : NULL,
		.grace_ns = o->grace_ns,
		.workers = o->workers,
		.rdma = d->rdma,
	};
	struct kv_pool *p;
	int code;

	if (!c->master_server_address[0])
		po.masters = NULL;
	snprintf(listen, sizeof(listen), ":%u", c->port);
	p = kv_pool_start(&po, d->base.loop, err, sizeof(err));
	if (!p) {
		code = errno;
		/* Why it cannot listen was logged where it failed, unless it
		 * was for want of memory or descriptors. */
		if (strncmp(err, "cannot listen", 13) != 0 ||
		    kv_opts_exit_code(code) == EX_OSERR)
			kv_err("%s", err);
		errno = code;
	}
	return p;
}

/* 0, also when none is wanted, or an exit code after one line. */
static int
http_start(struct daemon *d, uint16_t port)
{
	const struct kv_admin_opts ao = {
		.loop = d->base.loop,
		.port = port,
		.node = kv_pool_node(d->pool),
	};
	char err[256];

	if (port == 0)
		return 0;
	d->admin = kv_admin_new(&ao, err, sizeof(err));
	if (d->admin)
		return 0;
	kv_err("--http-port: %s", err);
	return kv_opts_exit_code(errno);
}

/* 0, also when there is none, or an exit code after one line. */
static int
rdma_open(struct daemon *d, const struct kv_opts *o)
{
	char err[512];
	const struct kv_rdmaopen_opts r = {
		.protocol = kv_opts_protocol(o),
		.devices = o->conf.device_name,
		.slice_bytes = kv_opts_slice_bytes(o),
	};
	int rc = kv_rdmaopen(&r, &d->rdma, err, sizeof(err));

	if (rc == 0)
		return 0;
	kv_err("--protocol: %s", err);
	return kv_opts_exit_code(-rc);
}

static int
run(const struct options *o, const char *socket)
{
	struct daemon d = { 0 };
	int code;

	code = rdma_open(&d, &o->common);
	if (code)
		return code;
	if (kv_daemon_init(&d.base, stop) < 0) {
		kv_rdma_close(d.rdma);
		return EX_OSERR;
	}
	d.pool = pool_start(o, &d, socket);
	code = d.pool ? http_start(&d, o->common.conf.client_http_port)
		      : kv_opts_exit_code(errno);
	if (d.pool && code == 0)
		say_ready(&d, &o->common.conf);
	else if (d.pool)
		kv_pool_stop(d.pool, kv_daemon_done, &d.base);
	if (d.pool && kv_loop_run(d.base.loop) < 0)
		code = EX_OSERR;
	kv_admin_free(d.admin);
	kv_pool_free(d.pool);
	kv_daemon_fini(&d.base);
	kv_rdma_close(d.rdma);
	return code;
}

int
main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Give memory of this machine to the pool, and serve the "
		       "processes of this host and other nodes.",
	};
	struct options o = { .workers = 2 };
	const struct kv_opts_program program = {
		.argp = &argp,
		.input = &o,
		.who = KV_CONF_CLIENT,
	};
	char socket[KV_SOCKPATH_BYTES_MAX + 1];
	int code;

	kv_opts_parse(&o.common, &program, argc, argv);
	code = kv_opts_load(&o.common);
	if (code)
		return code;
	if (o.common.conf.global_segment_size <= 0) {
		kv_err("--global-segment-size: a kvclient needs memory to "
		       "give: more than 0");
		return EX_USAGE;
	}
	if (kv_opts_socket(&o.common, socket, sizeof(socket)) < 0) {
		kv_err("--socket: a path may have %d bytes",
		       KV_SOCKPATH_BYTES_MAX);
		return EX_USAGE;
	}
	return run(&o, socket);
}

#include "svc/masterd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "net/addr.h"
#include "net/sock.h"
#include "svc/admin.h"

struct kv_masterd {
	struct kv_net *net;
	struct kv_master *master;
	struct kv_admin *admin; /* NULL: no HTTP */
};

/* A list taken apart. */
struct listen {
	const char *option, *port_option;
	uint16_t port;
	char host[KV_ADDR_NAME_BYTES_MAX + 1]; /* of the first; "": all */
	char text[KV_MASTER_LISTEN_MAX][KV_ADDR_TEXT_BYTES_MAX + 4];
	int n;
};

/* No port stands in the list; to the parser the lack of one is this, which
 * nobody types. */
#define NO_PORT 1

static int
listen_parse(struct listen *l, const char *list, char *err, size_t err_bytes)
{
	struct kv_addr addrs[KV_MASTER_LISTEN_MAX];
	char v6[INET6_ADDRSTRLEN + 3], buf[KV_ADDR_TEXT_BYTES_MAX];
	struct in6_addr in6;
	char why[KV_ADDR_ERROR_BYTES];
	int i;

	if (!*list)
		list = "*";
	if (inet_pton(AF_INET6, list, &in6) == 1) {
		snprintf(v6, sizeof(v6), "[%s]", list);
		list = v6;
	}
	l->n = kv_addr_parse_list(list, NO_PORT, addrs, KV_MASTER_LISTEN_MAX,
				  why, sizeof(why));
	if (l->n < 0) {
		snprintf(err, err_bytes, "%s: %s", l->option, why);
		return -EINVAL;
	}
	memcpy(l->host, addrs[0].name, sizeof(l->host));
	for (i = 0; i < l->n; i++) {
		if (addrs[i].kind != KV_ADDR_TCP || addrs[i].port != NO_PORT) {
			snprintf(err, err_bytes,
				 "%s %s: an address or a name; the port is %s",
				 l->option, list, l->port_option);
			return -EINVAL;
		}
		addrs[i].port = l->port;
		snprintf(l->text[i], sizeof(l->text[i]), "tcp:%s",
			 kv_addr_format(&addrs[i], buf));
	}
	return 0;
}

static int
master_start(struct kv_masterd *d, const struct kv_masterd_opts *opts,
	     const struct listen *l, struct kv_loop *loop, char *err,
	     size_t err_bytes)
{
	struct kv_master_opts mo = {
		.loop = loop,
		.net = d->net,
		.ttl_ns = opts->ttl_ns,
		.grace_ns = opts->grace_ns,
	};
	int i, rc;

	for (i = 0; i < l->n; i++)
		mo.listen[i] = l->text[i];
	d->master = kv_master_new(&mo, err, err_bytes);
	if (d->master)
		return 0;
	rc = -errno;
	if (strncmp(err, "cannot listen", 13) == 0)
		err[0] = '\0'; /* sock.c said it, with the reason */
	return rc;
}

/* On the address of L, unless the options name another one. */
static int
http_start(struct kv_masterd *d, const struct kv_masterd_opts *opts,
	   const struct listen *l, struct kv_loop *loop, char *err,
	   size_t err_bytes)
{
	struct listen own = {
		.option = "--http-listen",
		.port_option = "--http-port",
		.port = opts->http_port,
	};
	struct kv_admin_opts ao = {
		.loop = loop,
		.port = opts->http_port,
		.master = d->master,
	};
	char why[512];
	int rc;

	if (opts->http_port == 0)
		return 0;
	if (opts->http_listen) {
		rc = listen_parse(&own, opts->http_listen, err, err_bytes);
		if (rc == 0 && own.n > 1) {
			snprintf(err, err_bytes,
				 "--http-listen %s: one address",
				 opts->http_listen);
			rc = -EINVAL;
		}
		if (rc < 0)
			return rc;
		l = &own;
	}
	ao.host = l->host[0] ? l->host : NULL;
	d->admin = kv_admin_new(&ao, why, sizeof(why));
	if (d->admin)
		return 0;
	rc = -errno;
	snprintf(err, err_bytes, "--http-port: %s", why);
	return rc;
}

struct kv_masterd *
kv_masterd_start(const struct kv_masterd_opts *opts, struct kv_loop *loop,
		 char *err, size_t err_bytes)
{
	struct kv_masterd *d = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*d));
	struct listen l = {
		.option = "--listen",
		.port_option = "--rpc-port",
		.port = opts->port,
	};
	int rc;

	if (d)
		d->net = kv_sock_net_new();
	snprintf(err, err_bytes, "cannot start: out of memory");
	rc = d && d->net ? listen_parse(&l, opts->listen, err, err_bytes)
			 : -ENOMEM;
	if (rc == 0)
		rc = master_start(d, opts, &l, loop, err, err_bytes);
	if (rc == 0)
		rc = http_start(d, opts, &l, loop, err, err_bytes);
	if (rc == 0)
		return d;
	kv_masterd_free(d);
	errno = -rc;
	return NULL;
}

void
kv_masterd_stop(struct kv_masterd *d, kv_master_done_fn *done, void *arg)
{
	kv_admin_drain(d->admin);
	kv_master_stop(d->master, done, arg);
}

void
kv_masterd_free(struct kv_masterd *d)
{
	if (!d)
		return;
	kv_admin_free(d->admin);
	kv_master_free(d->master);
	kv_sock_net_free(d->net);
	free(d);
}

const char *
kv_masterd_addr(const struct kv_masterd *d)
{
	const char *bound = kv_master_bound(d->master, 0);

	return strncmp(bound, "tcp:", 4) == 0 ? bound + 4 : bound;
}

uint16_t
kv_masterd_http_port(const struct kv_masterd *d)
{
	return d->admin ? kv_admin_port(d->admin) : 0;
}

#include "svc/admin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/limits.h"
#include "base/status.h"
#include "http/server.h"
#include "kvpool.h"
#include "svc/admincore.h"

void
kv_admin_answer(struct kv_exchange *x, const char *type, int status,
		struct kv_bytes *body)
{
	if (status == 0)
		kv_exchange_answer(x, 200, type, body);
	else
		kv_exchange_fail(x);
	kv_bytes_fini(body);
}

void
kv_admin_refuse(struct kv_exchange *x, unsigned http_status,
		enum kv_status status)
{
	kv_exchange_error(x, http_status, kv_status_mooncake(status), "%s",
			  kv_status_text(status));
}

bool
kv_admin_is_over(struct kv_admin *a, struct kv_exchange *x)
{
	if (a->is_draining)
		kv_exchange_error(x, 503, kv_status_mooncake(KV_ECLOSED),
				  "service plane is not active");
	return a->is_draining;
}

bool
kv_admin_argument(struct kv_exchange *x, const char *name,
		  const struct kv_urlquery_text **value)
{
	const struct kv_urlquery *q = kv_exchange_query(x);
	size_t i, n = 0;

	*value = NULL;
	for (i = 0; i < q->n_args; i++) {
		if (strcmp(q->args[i].name.p, name) != 0)
			continue;
		*value = &q->args[i].value;
		n++;
	}
	if (n != 1)
		kv_exchange_error(x, 400, kv_status_mooncake(KV_EINVALID),
				  "?%s= is %s", name,
				  n ? "there more than once" : "missing");
	return n == 1;
}

bool
kv_admin_tenant(struct kv_exchange *x, struct kv_urlquery_text *tenant)
{
	const struct kv_urlquery *q = kv_exchange_query(x);
	const struct kv_urlquery_text *found = kv_urlquery_find(q, "tenant");

	if (!found)
		found = kv_urlquery_find(q, "tenant_id");
	*tenant = found ? *found : (struct kv_urlquery_text){ "", 0 };
	if (tenant->len <= KV_TENANT_BYTES_MAX)
		return true;
	kv_exchange_error(x, 400, kv_status_mooncake(KV_EINVALID),
			  "a tenant's name has at most %d bytes",
			  KV_TENANT_BYTES_MAX);
	return false;
}

bool
kv_admin_flag(struct kv_exchange *x, const char *name)
{
	const struct kv_urlquery_text *t =
		kv_urlquery_find(kv_exchange_query(x), name);

	return t && (strcmp(t->p, "1") == 0 || strcmp(t->p, "true") == 0);
}

void
kv_admin_build_info(struct kv_prom *p)
{
	kv_prom_family(p, "kvpool_build_info", KV_PROM_GAUGE,
		       "1, and the version of this program");
	kv_prom_labelled(p, "version", KVPOOL_VERSION, 1);
}

struct kv_admin_uuid
kv_admin_uuid(struct kv_id id)
{
	struct kv_admin_uuid out;
	size_t i, n = 0;

	for (i = 0; i < sizeof(id.b); i++)
		n += (size_t)snprintf(
			out.s + n, sizeof(out.s) - n, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			id.b[i]);
	return out;
}

struct kv_admin *
kv_admin_new(const struct kv_admin_opts *opts, char *err, size_t err_bytes)
{
	struct kv_server_opts so = {
		.loop = opts->loop,
		.host = opts->host,
		.port = opts->port,
		.routes = opts->master ? kv_adminmaster_routes
				       : kv_adminnode_routes,
		.n_routes = opts->master ? kv_adminmaster_n_routes
					 : kv_adminnode_n_routes,
	};
	struct kv_admin *a = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*a));
	int code;

	if (!a) {
		snprintf(err, err_bytes, "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	a->master = opts->master;
	a->node = opts->node;
	so.arg = a;
	a->server = kv_server_new(&so, err, err_bytes);
	if (a->server)
		return a;
	code = errno;
	free(a);
	errno = code;
	return NULL;
}

void
kv_admin_free(struct kv_admin *a)
{
	if (a)
		kv_server_free(a->server);
	free(a);
}

uint16_t
kv_admin_port(const struct kv_admin *a)
{
	return kv_server_port(a->server);
}

void
kv_admin_drain(struct kv_admin *a)
{
	if (a)
		a->is_draining = true;
}

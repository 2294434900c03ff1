#include "svc/rdmaopen.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "xfer/rdma.h"
#include "xfer/rdmaplan.h"

/* Of a port that is opened, and cannot be used yet. */
static void
say_awaited(enum kv_log_level level, const struct kv_rdmadev *d)
{
	kv_log(level, "RDMA not before port %u of %s is up: %s", d->port,
	       d->name, d->why);
}

/* "mlx5_0:1, mlx5_1:1", and in lines of their own those that are not up. False:
 * that is all of them. */
static bool
say_found(const struct kv_rdma *r)
{
	char text[KV_RDMA_PORTS_MAX * (KV_RDMADEV_NAME_BYTES + 8)] = "";
	unsigned i, n = 0;
	size_t at = 0;

	for (i = 0; i < kv_rdma_ports(r); i++) {
		const struct kv_rdmadev *d = kv_rdma_port(r, i);

		if (d->is_usable)
			at += (size_t)snprintf(text + at, sizeof(text) - at,
					       "%s%s:%u", n++ ? ", " : "",
					       d->name, d->port);
	}
	if (n == 0)
		return false;
	kv_info("RDMA ports=%u: %s", n, text);
	for (i = 0; i < kv_rdma_ports(r); i++)
		if (!kv_rdma_port(r, i)->is_usable)
			say_awaited(KV_LOG_INFO, kv_rdma_port(r, i));
	return true;
}

/* Whether the kernel has a device, whatever can be done with it. */
static bool
has_device(const char *root)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/sys/class/infiniband", root);
	dir = opendir(path);
	if (!dir)
		return false;
	do
		e = readdir(dir);
	while (e && e->d_name[0] == '.');
	closedir(dir);
	return e != NULL;
}

/* Somebody who has asked for it is warned; where a device is, or was told not
 * to be used, somebody may wonder. */
static enum kv_log_level
level_of(const struct kv_rdmaopen_opts *opts, const struct kv_rdma_opts *o)
{
	if (opts->protocol == KV_PROTOCOL_RDMA_OR_TCP || o->wanted ||
	    (o->env->devices[0] && !o->env->is_tcp))
		return KV_LOG_WARN;
	if (o->env->is_tcp || has_device(opts->root ? opts->root : ""))
		return KV_LOG_INFO;
	return KV_LOG_DEBUG;
}

int
kv_rdmaopen(const struct kv_rdmaopen_opts *opts, struct kv_rdma **out,
	    char *err, size_t err_bytes)
{
	const char *devices = opts->devices;
	struct kv_mcenv env;
	const struct kv_rdma_opts o = {
		.wanted = devices && devices[0] ? devices : NULL,
		.env = &env,
		.root = opts->root,
		.qps = opts->qps,
		.slice_bytes = opts->slice_bytes,
		.waits = opts->protocol != KV_PROTOCOL_RDMA,
	};
	char why[KV_RDMADEV_WHY_BYTES];
	int rc;

	*out = NULL;
	kv_mcenv_warn((const char *const *)environ);
	if (opts->protocol == KV_PROTOCOL_TCP) {
		snprintf(err, err_bytes, "--protocol=tcp");
		return 0;
	}
	kv_mcenv_read(&env, (const char *const *)environ);
	*out = kv_rdma_open(&o, why, sizeof(why));
	if (*out) {
		snprintf(err, err_bytes, "%s", "");
		if (!say_found(*out))
			say_awaited(level_of(opts, &o), kv_rdma_port(*out, 0));
		return 0;
	}
	rc = -errno;
	snprintf(err, err_bytes, "%s", why);
	if (opts->protocol == KV_PROTOCOL_RDMA) {
		snprintf(err, err_bytes, "no RDMA: %s", why);
		return rc;
	}
	kv_log(level_of(opts, &o), "no RDMA, values go by TCP: %s", why);
	return 0;
}

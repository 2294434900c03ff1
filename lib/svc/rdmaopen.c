#include "svc/rdmaopen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "xfer/rdma.h"
#include "xfer/rdmaplan.h"

/* "mlx5_0:1, mlx5_1:1" */
static void
say_found(const struct kv_rdma *r)
{
	char text[KV_RDMA_PORTS_MAX * (KV_RDMADEV_NAME_BYTES + 8)] = "";
	unsigned i, n = kv_rdma_ports(r);
	size_t at = 0;

	for (i = 0; i < n; i++) {
		const struct kv_rdmadev *d = kv_rdma_port(r, i);

		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s:%u",
				       i ? ", " : "", d->name, d->port);
	}
	kv_info("RDMA ports=%u: %s", n, text);
}

/* Perhaps somebody wonders why it is not used. */
static bool
has_device(const char *wanted)
{
	const struct kv_rdmadev_opts o = { .wanted = wanted };
	char err[KV_RDMADEV_WHY_BYTES];
	struct kv_rdmadev *list = NULL;
	long n = kv_rdmadev_list(&o, &list, err, sizeof(err));

	free(list);
	return n > 0;
}

int
kv_rdmaopen(const struct kv_rdmaopen_opts *opts, struct kv_rdma **out,
	    char *err, size_t err_bytes)
{
	const char *devices = opts->devices;
	const struct kv_rdma_opts o = {
		.wanted = devices && devices[0] ? devices : NULL,
		.qps = opts->qps,
		.slice_bytes = opts->slice_bytes,
	};
	char why[KV_RDMADEV_WHY_BYTES];
	int rc;

	*out = NULL;
	kv_mcenv_warn((const char *const *)environ);
	if (opts->protocol == KV_PROTOCOL_TCP) {
		snprintf(err, err_bytes, "--protocol=tcp");
		return 0;
	}
	*out = kv_rdma_open(&o, why, sizeof(why));
	if (*out) {
		snprintf(err, err_bytes, "%s", "");
		say_found(*out);
		return 0;
	}
	rc = -errno;
	snprintf(err, err_bytes, "%s", why);
	if (opts->protocol == KV_PROTOCOL_RDMA) {
		snprintf(err, err_bytes, "no RDMA: %s", why);
		return rc;
	}
	if (opts->protocol == KV_PROTOCOL_RDMA_OR_TCP || o.wanted)
		kv_warn("no RDMA, values go by TCP: %s", why);
	else
		kv_log(has_device(NULL) ? KV_LOG_INFO : KV_LOG_DEBUG,
		       "no RDMA, values go by TCP: %s", why);
	return 0;
}

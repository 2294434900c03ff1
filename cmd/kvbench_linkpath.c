/* The paths that there are from this machine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/kvbench_link.h"
#include "xfer/devlist.h"
#include "xfer/mcenv.h"

static void
path_add(struct kvbench_link_job *r, const char *name,
	 enum kv_protocol protocol, const char *devices)
{
	struct kvbench_link_path *p = &r->paths[r->n_paths++];

	snprintf(p->name, sizeof(p->name), "%s", name);
	p->protocol = protocol;
	p->devices = devices;
}

static void
why_not(struct kvbench_link_job *r, const char *why)
{
	snprintf(r->no_rdma, sizeof(r->no_rdma), "%s", why);
}

/* The ports of one device are one rail to whoever names devices. */
static bool
is_rail(const struct kvbench_link_job *r, long i)
{
	const struct kv_rdmadev *d = &r->devices[i];

	if (!d->is_usable || !d->is_wanted)
		return false;
	for (unsigned k = 0; k < r->n_paths; k++)
		if (strcmp(r->paths[k].name, d->name) == 0)
			return false;
	return true;
}

static void
rails_add(struct kvbench_link_job *r)
{
	const char *why = NULL;

	for (long i = 0; i < r->n_devices; i++) {
		const struct kv_rdmadev *d = &r->devices[i];

		if (!d->is_usable && (d->is_wanted || !why))
			why = d->why;
		if (is_rail(r, i) && r->n_paths < KVBENCH_LINK_PATHS_MAX - 2)
			path_add(r, r->devices[i].name, KV_PROTOCOL_RDMA,
				 r->devices[i].name);
	}
	if (r->n_paths > 1)
		path_add(r, "rdma", KV_PROTOCOL_RDMA, r->l->devices);
	if (r->n_paths == 0)
		why_not(r, why ? why : "no port is called so");
}

static void
rails_find(struct kvbench_link_job *r)
{
	const char *devices = r->l->devices;
	char why[KV_RDMADEV_WHY_BYTES] = "";
	struct kv_mcenv env;
	const struct kv_rdmadev_opts o = {
		.wanted = devices && *devices ? devices : env.devices,
		.root = "",
	};

	kv_mcenv_read(&env, (const char *const *)environ);
	if (env.is_tcp) {
		why_not(r, "MC_FORCE_TCP is set");
		return;
	}
	r->n_devices = kv_rdmadev_list(&o, &r->devices, why, sizeof(why));
	if (r->n_devices > 0 &&
	    kv_devlist_check(o.wanted, r->devices, (size_t)r->n_devices, why,
			     sizeof(why)) == 0) {
		kv_devlist_env(&env, devices, r->devices, (size_t)r->n_devices);
		rails_add(r);
	} else {
		why_not(r, *why ? why : "this machine has no RDMA device");
	}
}

int
kvbench_link_paths(struct kvbench_link_job *r)
{
	if (r->l->protocol != KV_PROTOCOL_TCP)
		rails_find(r);
	if (r->l->protocol == KV_PROTOCOL_RDMA && r->n_paths == 0)
		return -ENODEV;
	if (r->l->protocol != KV_PROTOCOL_RDMA)
		path_add(r, "tcp", KV_PROTOCOL_TCP, NULL);
	return 0;
}

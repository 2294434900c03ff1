#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cli/tool.h"
#include "cmd/kvdiag.h"
#include "xfer/devlist.h"

#define IPS_BYTES ((size_t)KV_RDMADEV_IPS_MAX * (INET6_ADDRSTRLEN + 1))

const char *
kvdiag_wanted(const struct kvdiag *d, const struct kv_mcenv *env)
{
	const char *wanted = d->common.conf.device_name;

	return *wanted ? wanted : env->devices;
}

long
kvdiag_list_devices(const struct kvdiag *d, const struct kv_mcenv *env,
		    struct kv_rdmadev **list, char why[KV_RDMADEV_WHY_BYTES])
{
	const struct kv_rdmadev_opts o = {
		.wanted = kvdiag_wanted(d, env),
		.root = "",
	};
	long n = kv_rdmadev_list(&o, list, why, KV_RDMADEV_WHY_BYTES);

	if (n > 0)
		kv_devlist_env(env, d->common.conf.device_name, *list,
			       (size_t)n);
	return n;
}

/* Separated by commas, or NULL. */
static const char *
ips_of(const struct kv_rdmadev *p, char buf[IPS_BYTES])
{
	char ip[INET6_ADDRSTRLEN];
	size_t at = 0;

	for (unsigned i = 0; i < p->n_ips; i++)
		at += (size_t)snprintf(
			buf + at, IPS_BYTES - at, "%s%s", i ? "," : "",
			kv_devlist_ip(ip, sizeof(ip), &p->ips[i]));
	return at ? buf : NULL;
}

static const char *
gid_of(const struct kv_rdmadev *p, char buf[INET6_ADDRSTRLEN])
{
	if (p->gid_index < 0)
		return NULL;
	return kv_devlist_ip(buf, INET6_ADDRSTRLEN, &p->gid);
}

static void
print_number(struct kv_out *out, const char *name, int64_t v, int64_t min)
{
	if (v >= min)
		kv_out_u64(out, name, (uint64_t)v);
	else
		kv_out_none(out, name);
}

/* What both faces have. */
static void
print_port(struct kv_out *out, const struct kv_rdmadev *p)
{
	kv_out_string(out, "device", p->name);
	print_number(out, "port", p->port, 1);
	kv_out_string(out, "state", p->port ? p->state : NULL);
	kv_out_string(out, "link", p->port ? p->layer : NULL);
	if (p->mbit_per_s)
		kv_out_double(out, "speed_gbit", p->mbit_per_s / 1000.0,
			      p->mbit_per_s % 1000 ? 1 : 0);
	else
		kv_out_none(out, "speed_gbit");
	kv_out_string(out, "interface", *p->netdev ? p->netdev : NULL);
}

static void
print_text(struct kv_out *out, const struct kv_rdmadev *p)
{
	char ips[IPS_BYTES], gid[INET6_ADDRSTRLEN];
	char usable[KV_RDMADEV_WHY_BYTES + 8];

	print_port(out, p);
	kv_out_string(out, "address",
		      p->n_ips ? ips_of(p, ips) : gid_of(p, gid));
	print_number(out, "gid", p->gid_index, 0);
	print_number(out, "numa", p->numa_node, 0);
	snprintf(usable, sizeof(usable), "%s%s%s", p->is_usable ? "yes" : "no",
		 *p->why ? ": " : "", p->why);
	kv_out_string(out, "usable", usable);
}

static void
print_json(struct kv_out *out, const struct kv_rdmadev *p)
{
	char ips[IPS_BYTES], gid[INET6_ADDRSTRLEN];
	const struct kv_rdmadev_limits *max = &p->limits;

	print_port(out, p);
	kv_out_string(out, "ips", ips_of(p, ips));
	kv_out_string(out, "gid", gid_of(p, gid));
	print_number(out, "gid_index", p->gid_index, 0);
	print_number(out, "lid", p->lid, 1);
	print_number(out, "mtu_bytes", p->mtu_bytes, 1);
	print_number(out, "numa_node", p->numa_node, 0);
	kv_out_string(out, "pci", *p->pci ? p->pci : NULL);
	print_number(out, "qp_wr_max", max->qp_wr_max, 1);
	print_number(out, "cqe_max", max->cqe_max, 1);
	print_number(out, "sge_max", max->sge_max, 1);
	print_number(out, "rd_atom_max", max->rd_atom_max, 1);
	print_number(out, "init_rd_atom_max", max->init_rd_atom_max, 1);
	if (max->mr_bytes_max > 0)
		kv_out_bytes(out, "mr_max_bytes", max->mr_bytes_max);
	else
		kv_out_none(out, "mr_max_bytes");
	kv_out_bool(out, "wanted", p->is_wanted);
	kv_out_bool(out, "usable", p->is_usable);
	kv_out_string(out, "why", *p->why ? p->why : NULL);
}

/* 1 unless all ports that are wanted can be used, and there are such. */
static int
health(const struct kv_rdmadev *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].is_wanted && !list[i].is_usable)
			return 1;
	return kv_devlist_usable(list, n) ? 0 : 1;
}

int
kvdiag_devices(struct kvdiag *d)
{
	kv_auto_free struct kv_rdmadev *list = NULL;
	char why[2 * KV_RDMADEV_WHY_BYTES];
	struct kv_mcenv env;
	int code;
	long n;

	kv_mcenv_read(&env, (const char *const *)environ);
	kv_mcenv_warn((const char *const *)environ);
	n = kvdiag_list_devices(d, &env, &list, why);
	if (n < 0)
		return kv_tool_say(n == -ENOTSUP ? 1 : EX_OSERR, "devices: %s",
				   why);
	code = health(list, (size_t)n);
	if (kv_devlist_check(kvdiag_wanted(d, &env), list, (size_t)n, why,
			     sizeof(why)) < 0)
		code = kv_tool_say(1, "devices: %s", why);
	else if (!n)
		code = kv_tool_say(1, "this machine has no RDMA device; is its "
				      "driver loaded?");
	kv_out_begin(d->out, KV_OUT_TABLE, NULL);
	for (long i = 0; i < n; i++) {
		kv_out_begin(d->out, KV_OUT_ROW, NULL);
		if (d->common.json)
			print_json(d->out, &list[i]);
		else
			print_text(d->out, &list[i]);
		kv_out_end(d->out, KV_OUT_ROW);
	}
	kv_out_end(d->out, KV_OUT_TABLE);
	return code;
}

#include "xfer/rdmadev.h"

#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "xfer/devglob.h"
#include "xfer/rdmaport.h"
#include "xfer/rdmasys.h"
#include "xfer/rdmaverbs.h"

#define NETDEVS_MAX 8

/* The list while it grows. */
struct listing {
	const struct kv_rdmaverbs *v;
	const char *wanted;
	const char *root;
	const struct ifaddrs *addrs;
	struct kv_rdmadev *list;
	size_t n;
};

/* A port while it is looked at. */
struct look {
	const struct listing *l;
	struct ibv_context *ctx;
	struct ibv_port_attr attr;
	struct kv_rdmasys_port sys;
	struct kv_rdmadev *dev;
	bool has_foreign; /* an IP, but of another network name space */
};

KV_PRINTF(2, 3)
static void
say(struct kv_rdmadev *dev, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(dev->why, sizeof(dev->why), fmt, ap);
	va_end(ap);
}

/* Another entry, of that device and of no port; NULL: no memory. */
static struct kv_rdmadev *
grow(struct listing *l, const char *name)
{
	struct kv_rdmadev *dev;

	if (KV_FAULT_POINT())
		return NULL;
	dev = reallocarray(l->list, l->n + 1, sizeof(*l->list));
	if (!dev)
		return NULL;
	l->list = dev;
	dev += l->n++;
	*dev = (struct kv_rdmadev){
		.state = "unknown",
		.layer = "unknown",
		.gid_index = -1,
		.local_gid_index = -1,
		.is_wanted = kv_devglob_has(l->wanted, name),
	};
	snprintf(dev->name, sizeof(dev->name), "%s", name);
	kv_rdmasys_pci(l->root, name, dev->pci, sizeof(dev->pci));
	dev->numa_node = kv_rdmasys_numa(l->root, name);
	dev->is_soft = kv_rdmasys_is_soft(l->root, name);
	return dev;
}

/* ---- addresses ---- */

/* False: of another kind, or link-local, which means nothing elsewhere. */
static bool
ip_of(const struct sockaddr *sa, struct in6_addr *ip)
{
	struct sockaddr_in6 sin6;
	struct sockaddr_in sin;

	if (sa && sa->sa_family == AF_INET) {
		memcpy(&sin, sa, sizeof(sin));
		*ip = (struct in6_addr){ .s6_addr = {
						 [10] = 0xff, [11] = 0xff } };
		memcpy(&ip->s6_addr[12], &sin.sin_addr, 4);
		return true;
	}
	if (!sa || sa->sa_family != AF_INET6)
		return false;
	memcpy(&sin6, sa, sizeof(sin6));
	*ip = sin6.sin6_addr;
	return !IN6_IS_ADDR_LINKLOCAL(ip);
}

/* The interface of this name space that has the address, or NULL. */
static const struct ifaddrs *
interface_of(const struct ifaddrs *a, const struct in6_addr *want)
{
	struct in6_addr ip;

	for (; a; a = a->ifa_next)
		if (ip_of(a->ifa_addr, &ip) && IN6_ARE_ADDR_EQUAL(&ip, want))
			return a;
	return NULL;
}

/* Of an address that ip_of() takes: its network's, out of 128; all of one whose
 * network is not known. */
static uint8_t
bits_of(const struct ifaddrs *a)
{
	struct sockaddr_in6 sin6;
	struct sockaddr_in sin;
	int bits = 0;

	if (!a->ifa_netmask)
		return 128;
	if (a->ifa_addr->sa_family == AF_INET) {
		memcpy(&sin, a->ifa_netmask, sizeof(sin));
		return (uint8_t)(96 + __builtin_popcount(sin.sin_addr.s_addr));
	}
	memcpy(&sin6, a->ifa_netmask, sizeof(sin6));
	for (int i = 0; i < 16; i++)
		bits += __builtin_popcount(sin6.sin6_addr.s6_addr[i]);
	return (uint8_t)bits;
}

/* The address of that entry. */
static void
add_ip(struct kv_rdmadev *dev, const struct ifaddrs *a)
{
	struct in6_addr ip;

	if (!ip_of(a->ifa_addr, &ip) || dev->n_ips == KV_RDMADEV_IPS_MAX)
		return;
	for (unsigned i = 0; i < dev->n_ips; i++)
		if (IN6_ARE_ADDR_EQUAL(&dev->ips[i], &ip))
			return;
	dev->ip_bits[dev->n_ips] = bits_of(a);
	dev->ips[dev->n_ips++] = ip;
}

/* ---- GIDs ---- */

static bool
read_gid(const struct look *k, int index, struct kv_rdmaport_gid *g)
{
	const struct kv_rdmaverbs *v = k->l->v;
	struct ibv_gid_entry e = { 0 };

	*g = (struct kv_rdmaport_gid){ 0 };
	if (v->query_gid_ex) {
		if (v->query_gid_ex(k->ctx, k->dev->port, (uint32_t)index, &e,
				    0, sizeof(e)))
			return false;
		g->gid = e.gid;
		g->is_v2 = e.gid_type == IBV_GID_TYPE_ROCE_V2;
		return true;
	}
	if (v->query_gid(k->ctx, k->dev->port, index, &g->gid))
		return false;
	g->is_v2 = kv_rdmasys_is_v2(&k->sys, index);
	return true;
}

/* Of all, and of those that are link-local. */
struct best {
	unsigned all, local;
};

/* Takes the entry if it is better than the one that there is, and of RoCE its
 * address: a port has an entry for each address of its interfaces. */
static void
take_gid(struct look *k, int index, struct kv_rdmaport_gid *g,
	 struct best *best)
{
	struct kv_rdmadev *dev = k->dev;
	const struct ifaddrs *a = NULL;
	struct in6_addr ip;
	unsigned rank;

	memcpy(&ip, g->gid.raw, sizeof(ip));
	if (k->attr.link_layer == IBV_LINK_LAYER_ETHERNET &&
	    !IN6_IS_ADDR_LINKLOCAL(&ip) && !IN6_IS_ADDR_UNSPECIFIED(&ip)) {
		a = interface_of(k->l->addrs, &ip);
		g->is_here = a != NULL;
		k->has_foreign |= !a;
		if (a)
			add_ip(dev, a);
	}
	rank = kv_rdmaport_gid_rank(g);
	if (IN6_IS_ADDR_LINKLOCAL(&ip) && rank > best->local) {
		best->local = rank;
		dev->local_gid_index = index;
	}
	if (rank <= best->all)
		return;
	best->all = rank;
	dev->gid_index = index;
	dev->gid = ip;
	snprintf(dev->netdev, sizeof(dev->netdev), "%s", a ? a->ifa_name : "");
}

static void
look_at_gids(struct look *k)
{
	struct best best = { 0 };
	struct kv_rdmaport_gid g;

	for (int i = 0; i < k->attr.gid_tbl_len; i++)
		if (read_gid(k, i, &g))
			take_gid(k, i, &g, &best);
}

/* InfiniBand has its IPs on interfaces of their own (IPoIB). Of an Ethernet
 * port without any, the name is what matters. */
static void
look_at_netdevs(struct look *k)
{
	char names[NETDEVS_MAX][IF_NAMESIZE];
	size_t n = kv_rdmasys_netdevs(&k->sys, names, NETDEVS_MAX);
	struct kv_rdmadev *dev = k->dev;
	const struct ifaddrs *a;

	if (*dev->netdev)
		return;
	if (k->attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
		if (!kv_rdmasys_gid_netdev(
			    &k->sys, dev->gid_index < 0 ? 0 : dev->gid_index,
			    dev->netdev) &&
		    n)
			memcpy(dev->netdev, names[0], IF_NAMESIZE);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		for (a = k->l->addrs; a; a = a->ifa_next)
			if (strcmp(a->ifa_name, names[i]) == 0)
				add_ip(dev, a);
		if (!*dev->netdev && (dev->n_ips || i + 1 == n))
			memcpy(dev->netdev, names[i], IF_NAMESIZE);
	}
}

/* ---- verdict ---- */

static void
judge(struct look *k)
{
	bool is_ethernet = k->attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	const char *why = kv_rdmaport_why_not(k->ctx->device->transport_type);
	struct kv_rdmadev *dev = k->dev;
	const char *netdev = *dev->netdev ? dev->netdev : "DEV";

	if (why) {
		say(dev, "%s", why);
		return;
	}
	if (k->attr.state != IBV_PORT_ACTIVE) {
		dev->is_awaited = true;
		say(dev, "%s", kv_rdmaport_why_down(&k->attr));
		return;
	}
	if (is_ethernet && dev->gid_index < 0) {
		dev->is_awaited = true;
		say(dev,
		    "no IP on the port%s%s; ip addr add ADDRESS/BITS dev %s",
		    *dev->netdev ? ", which is " : "", dev->netdev, netdev);
		return;
	}
	dev->is_usable = true;
	if (dev->n_ips)
		return;
	say(dev, "%s: connected without the connection manager",
	    k->has_foreign ? "its IPs are of another network name space"
			   : "no IP on the port");
}

/* All that is a port's, and was not known before. */
static void
look_at_port(struct look *k)
{
	struct kv_rdmadev *dev = k->dev;

	dev->state = kv_rdmaport_state(k->attr.state);
	dev->layer = kv_rdmaport_layer(k->attr.link_layer);
	dev->is_ethernet = k->attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	dev->lid = k->attr.lid;
	dev->mtu_bytes = kv_rdmaport_mtu(k->attr.active_mtu);
	dev->mbit_per_s = kv_rdmasys_rate(&k->sys);
	if (!dev->mbit_per_s)
		dev->mbit_per_s = kv_rdmaport_speed(k->attr.active_speed,
						    k->attr.active_width);
	look_at_gids(k);
	look_at_netdevs(k);
	judge(k);
}

/* ---- devices ---- */

static const char unwanted[] = "not in the list of devices";
static const char no_uverbs[] =
	"the kernel has no verbs for programs; modprobe ib_uverbs";
static const char no_driver[] =
	"no driver in libibverbs, or no /dev/infiniband; apt install "
	"ibverbs-providers, or give the container that folder";

static int
add_port(struct listing *l, struct ibv_context *ctx, uint8_t port,
	 const struct ibv_device_attr *attr)
{
	const char *name = l->v->get_device_name(ctx->device);
	struct look k = {
		.l = l,
		.ctx = ctx,
		.sys = { l->root, name, port, attr->phys_port_cnt },
		.dev = grow(l, name),
	};
	struct kv_rdmadev *dev = k.dev;
	int rc;

	if (!dev)
		return -ENOMEM;
	dev->port = port;
	dev->limits = (struct kv_rdmadev_limits){
		.mr_bytes_max = attr->max_mr_size,
		.qp_wr_max = attr->max_qp_wr,
		.cqe_max = attr->max_cqe,
		.sge_max = attr->max_sge,
		.rd_atom_max = attr->max_qp_rd_atom,
		.init_rd_atom_max = attr->max_qp_init_rd_atom,
	};
	rc = l->v->query_port(ctx, port, (void *)&k.attr);
	if (rc) {
		say(dev, "port cannot be asked: %s; see dmesg",
		    strerror(rc > 0 ? rc : errno));
		return 0;
	}
	look_at_port(&k);
	return 0;
}

static int
add_unopened(struct listing *l, const char *name, int err)
{
	struct kv_rdmadev *dev = grow(l, name);

	if (!dev)
		return -ENOMEM;
	say(dev, "cannot be opened: %s; %s", strerror(err),
	    err == ENOENT || err == EACCES || err == EPERM
		    ? "give this user or container /dev/infiniband"
		    : "see dmesg");
	return 0;
}

static int
add_unwanted(struct listing *l, const char *name)
{
	struct kv_rdmadev *dev = grow(l, name);

	if (!dev)
		return -ENOMEM;
	say(dev, "%s", unwanted);
	return 0;
}

static int
add_ports(struct listing *l, struct ibv_context *ctx)
{
	struct ibv_device_attr attr = { 0 };
	int rc = l->v->query_device(ctx, &attr);

	if (rc)
		return add_unopened(l, l->v->get_device_name(ctx->device),
				    rc > 0 ? rc : errno);
	for (int port = 1; rc == 0 && port <= attr.phys_port_cnt; port++)
		rc = add_port(l, ctx, (uint8_t)port, &attr);
	return rc;
}

static int
add_device(struct listing *l, struct ibv_device *device)
{
	const char *name = l->v->get_device_name(device);
	struct ibv_context *ctx;
	int rc;

	if (!kv_devglob_has(l->wanted, name))
		return add_unwanted(l, name);
	ctx = l->v->open_device(device);
	if (!ctx)
		return add_unopened(l, name, errno);
	rc = add_ports(l, ctx);
	l->v->close_device(ctx);
	return rc;
}

/* Devices that the kernel has, and verbs do not list. */
static int
add_unlisted(struct listing *l, const struct kv_rdmasys_name *names, long n,
	     const char *why)
{
	size_t listed = l->n, i;
	struct kv_rdmadev *dev;

	for (long j = 0; j < n; j++) {
		for (i = 0; i < listed; i++)
			if (strcmp(l->list[i].name, names[j].text) == 0)
				break;
		if (i < listed)
			continue;
		dev = grow(l, names[j].text);
		if (!dev)
			return -ENOMEM;
		say(dev, "%s", dev->is_wanted ? why : unwanted);
	}
	return 0;
}

static int
by_place(const void *a, const void *b)
{
	const struct kv_rdmadev *x = a, *y = b;
	int names = strverscmp(x->name, y->name);

	return names ? names : x->port - y->port;
}

static int
fill(struct listing *l, const struct kv_rdmasys_name *names, long n_names,
     char *err, size_t errlen)
{
	int n = 0, rc = 0;
	struct ibv_device **devices = l->v->get_device_list(&n);

	if (!devices && errno != ENOSYS) {
		rc = -errno;
		snprintf(err, errlen,
			 "cannot list RDMA devices: %m; see dmesg");
		return rc;
	}
	for (int i = 0; devices && rc == 0 && i < n; i++)
		rc = add_device(l, devices[i]);
	if (devices)
		l->v->free_device_list(devices);
	if (rc == 0)
		rc = add_unlisted(l, names, n_names,
				  devices ? no_driver : no_uverbs);
	if (rc < 0)
		snprintf(err, errlen, "out of memory; free some");
	else if (l->n)
		qsort(l->list, l->n, sizeof(*l->list), by_place);
	return rc;
}

/* The libraries are not loaded where there is no device. */
static int
find_verbs(struct listing *l, const struct kv_rdmadev_opts *o, char *err,
	   size_t errlen)
{
	const char *why = "";

	l->v = o->verbs ? o->verbs : kv_rdmaverbs_load(&why);
	if (l->v)
		return 0;
	snprintf(err, errlen, "%s; %s", why,
		 strstr(why, " is not installed ")
			 ? "install it, or say --protocol=tcp"
			 : "mend that, or say --protocol=tcp");
	return -ENOTSUP;
}

long
kv_rdmadev_list(const struct kv_rdmadev_opts *o, struct kv_rdmadev **list,
		char *err, size_t n)
{
	struct listing l = { .wanted = o->wanted, .root = o->root };
	kv_auto_free struct kv_rdmasys_name *names = NULL;
	long n_names = kv_rdmasys_list(o->root, &names);
	struct ifaddrs *addrs = NULL;
	int rc;

	*list = NULL;
	if (n_names < 0) {
		snprintf(err, n, "out of memory; free some");
		return n_names;
	}
	if (!n_names && !o->verbs)
		return 0;
	rc = find_verbs(&l, o, err, n);
	if (rc < 0)
		return rc;
	if (!o->addrs && getifaddrs(&addrs) < 0)
		addrs = NULL;
	l.addrs = o->addrs ? o->addrs : addrs;
	rc = fill(&l, names, n_names, err, n);
	if (addrs)
		freeifaddrs(addrs);
	if (rc < 0) {
		free(l.list);
		return rc;
	}
	*list = l.list;
	return (long)l.n;
}

/* ---- later ---- */

/* What of it is the device's. */
static struct kv_rdmadev
without_port(const struct kv_rdmadev *dev)
{
	struct kv_rdmadev d = {
		.numa_node = dev->numa_node,
		.is_soft = dev->is_soft,
		.limits = dev->limits,
		.port = dev->port,
		.gid_index = -1,
		.local_gid_index = -1,
		.is_wanted = dev->is_wanted,
	};

	memcpy(d.name, dev->name, sizeof(d.name));
	memcpy(d.pci, dev->pci, sizeof(d.pci));
	return d;
}

bool
kv_rdmadev_look(const struct kv_rdmadev_opts *o, struct ibv_context *ctx,
		struct kv_rdmadev *dev)
{
	struct listing l = { .v = o->verbs, .root = o->root };
	struct kv_rdmadev d = without_port(dev);
	struct ibv_device_attr attr = { 0 };
	struct ifaddrs *addrs = NULL;
	struct look k = { .l = &l, .ctx = ctx, .dev = &d };

	if (l.v->query_port(ctx, d.port, (void *)&k.attr) ||
	    k.attr.state != IBV_PORT_ACTIVE || l.v->query_device(ctx, &attr) ||
	    (!o->addrs && getifaddrs(&addrs) < 0))
		return false;
	k.sys = (struct kv_rdmasys_port){ l.root, d.name, d.port,
					  attr.phys_port_cnt };
	l.addrs = o->addrs ? o->addrs : addrs;
	look_at_port(&k);
	if (addrs)
		freeifaddrs(addrs);
	if (d.is_usable)
		*dev = d;
	return d.is_usable;
}

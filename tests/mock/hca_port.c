/* Devices and their ports: what they are, where they are, whether they are. */

#include "hca_internal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	GBPS = 100,
	IFINDEX_FIRST = 100,
};

struct hca_dev *
hca_dev_add(struct hca_host *host, const char *name)
{
	struct hca_dev *dev = hca_alloc(sizeof(*dev));

	dev->host = host;
	dev->ordinal = host->hca->n_devs++;
	snprintf(dev->name, sizeof(dev->name), "%s", name);
	kv_list_init(&dev->ports);
	kv_list_init(&dev->ctxs);
	kv_list_init(&dev->qps);
	kv_list_add_tail(&host->devs, &dev->link);
	return dev;
}

static void
gid_add(struct hca_port *port, enum ibv_gid_type type, const uint8_t *raw)
{
	struct ibv_gid_entry *e = &port->gids[port->n_gids];

	memcpy(e->gid.raw, raw, sizeof(e->gid.raw));
	e->gid_index = port->n_gids++;
	e->port_num = port->num;
	e->gid_type = type;
	if (!port->opts.infiniband)
		e->ndev_ifindex = IFINDEX_FIRST + port->lid;
}

/* As a kernel fills the table: each address in both versions of RoCE. */
static void
gids_add(struct hca_port *port)
{
	uint8_t local[16] = { 0xfe,
			      0x80,
			      [7] = port->opts.subnet,
			      [8] = 2,
			      [14] = (uint8_t)(port->lid >> 8),
			      [15] = (uint8_t)port->lid };
	uint8_t mapped[16] = { [10] = 0xff, [11] = 0xff };

	if (port->opts.infiniband) {
		gid_add(port, IBV_GID_TYPE_IB, local);
		return;
	}
	gid_add(port, IBV_GID_TYPE_ROCE_V1, local);
	gid_add(port, IBV_GID_TYPE_ROCE_V2, local);
	if (!port->ip.s_addr)
		return;
	memcpy(mapped + 12, &port->ip, 4);
	gid_add(port, IBV_GID_TYPE_ROCE_V1, mapped);
	gid_add(port, IBV_GID_TYPE_ROCE_V2, mapped);
}

static void
ip_set(struct hca_port *port, const char *ip)
{
	struct in_addr a = { 0 };
	int is_ok = ip ? inet_pton(AF_INET, ip, &a) : 1;

	assert(is_ok == 1);
	assert(!ip || !hca_port_by_ip(port->dev->host->hca, a));
	port->ip = a;
}

struct hca_port *
hca_port_add(struct hca_dev *dev, const struct hca_port_opts *opts)
{
	struct hca_port *port = hca_alloc(sizeof(*port));

	port->dev = dev;
	port->opts = *opts;
	port->opts.ip = NULL;
	if (port->opts.gbps <= 0)
		port->opts.gbps = GBPS;
	if (!port->opts.pkeys)
		port->opts.pkeys = 1;
	if (!port->opts.mtu)
		port->opts.mtu = IBV_MTU_4096;
	ip_set(port, opts->ip);
	port->num = (uint8_t)++dev->n_ports;
	port->lid = (uint16_t)++dev->host->hca->n_ports;
	port->up = true;
	port->rate = port->opts.gbps / 8;
	gids_add(port);
	kv_list_add_tail(&dev->ports, &port->link);
	return port;
}

struct hca_port *
hca_port_of(struct hca_dev *dev, unsigned num)
{
	struct hca_port *port;

	KV_LIST_FOREACH(port, &dev->ports, link)
		if (port->num == num)
			return port;
	return NULL;
}

/* ---- the port of an address, for one that would reach it ---- */

typedef bool match_fn(const struct hca_port *port, const void *arg);

static struct hca_port *
port_search(struct hca *h, match_fn *fn, const void *arg)
{
	struct hca_host *host;
	struct hca_dev *dev;
	struct hca_port *port;

	KV_LIST_FOREACH(host, &h->hosts, link)
		KV_LIST_FOREACH(dev, &host->devs, link)
			KV_LIST_FOREACH(port, &dev->ports, link)
				if (fn(port, arg))
					return port;
	return NULL;
}

/* On the wire of another port. */
struct target {
	const struct hca_port *from;
	const union ibv_gid *gid;
	uint16_t lid;
};

static bool
is_on_wire(const struct hca_port *port, const struct target *t)
{
	return port->opts.fabric == t->from->opts.fabric &&
	       port->opts.infiniband == t->from->opts.infiniband;
}

static bool
has_gid(const struct hca_port *port, const void *arg)
{
	const struct target *t = arg;

	for (unsigned i = 0; is_on_wire(port, t) && i < port->n_gids; i++)
		if (memcmp(&port->gids[i].gid, t->gid, sizeof(*t->gid)) == 0)
			return true;
	return false;
}

static bool
has_lid(const struct hca_port *port, const void *arg)
{
	const struct target *t = arg;

	return is_on_wire(port, t) && port->lid == t->lid &&
	       port->opts.subnet == t->from->opts.subnet;
}

static bool
has_ip(const struct hca_port *port, const void *arg)
{
	const struct in_addr *ip = arg;

	return port->ip.s_addr && port->ip.s_addr == ip->s_addr;
}

struct hca_port *
hca_port_by_gid(struct hca_port *from, const union ibv_gid *gid)
{
	struct target t = { .from = from, .gid = gid };

	return port_search(from->dev->host->hca, has_gid, &t);
}

struct hca_port *
hca_port_by_lid(struct hca_port *from, uint16_t lid)
{
	struct target t = { .from = from, .lid = lid };

	return port_search(from->dev->host->hca, has_lid, &t);
}

struct hca_port *
hca_port_by_ip(struct hca *h, struct in_addr ip)
{
	return port_search(h, has_ip, &ip);
}

/* ---- what goes wrong ---- */

static void
tell_all(struct hca_dev *dev, const struct ibv_async_event *event)
{
	struct hca_ctx *ctx;

	KV_LIST_FOREACH(ctx, &dev->ctxs, dev_link)
		hca_async(ctx, event);
}

static void
tell_of_port(const struct hca_port *port, enum ibv_event_type type)
{
	struct ibv_async_event event = {
		.event_type = type,
		.element.port_num = port->num,
	};

	if (!port->dev->mute)
		tell_all(port->dev, &event);
}

void
hca_port_up(struct hca_port *port, bool up)
{
	if (port->up == up)
		return;
	port->up = up;
	tell_of_port(port, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void
hca_dev_mute(struct hca_dev *dev, bool mute)
{
	dev->mute = mute;
}

void
hca_port_bare(struct hca_port *port)
{
	port->n_gids = 0;
	port->ip.s_addr = 0;
	tell_of_port(port, IBV_EVENT_GID_CHANGE);
}

void
hca_port_address(struct hca_port *port, const char *ip)
{
	ip_set(port, ip);
	port->n_gids = 0;
	gids_add(port);
	tell_of_port(port, IBV_EVENT_GID_CHANGE);
}

void
hca_dev_remove(struct hca_dev *dev)
{
	struct ibv_async_event event = {
		.event_type = IBV_EVENT_DEVICE_FATAL,
	};
	struct hca_qp *qp;

	if (dev->removed)
		return;
	KV_LIST_FOREACH(qp, &dev->qps, link)
		hca_qp_still(qp);
	KV_LOCKED(&dev->host->lock) { /* for those who register meanwhile */
		dev->removed = true;
	}
	tell_all(dev, &event);
	hca_cm_removed(dev);
}

void
hca_fail_wr(struct hca_port *port, const struct hca_fault *fault)
{
	port->fault = *fault;
}

void
hca_memlock(struct hca_host *host, uint64_t bytes)
{
	host->memlock = bytes;
}

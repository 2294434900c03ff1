#include "xfer/rdmaport.h"

#include <netinet/in.h>
#include <string.h>

#include "base/attr.h"

/*
 * One lane in Mbit/s by PortInfo:LinkSpeedActive and LinkSpeedExtActive
 * (InfiniBand Architecture Specification, volume 1, 14.2.5.6; enum
 * ib_port_speed of the kernel's rdma/ib_verbs.h), rounded as the kernel does in
 * drivers/infiniband/core/sysfs.c, rate_show(). XDR does not fit the eight bits
 * of verbs.
 */
static const struct {
	uint8_t code;
	uint32_t mbit_per_s;
} speeds[] = {
	{ 1, 2500 },     /* SDR */
	{ 2, 5000 },     /* DDR */
	{ 4, 10000 },    /* QDR */
	{ 8, 10000 },    /* FDR10 */
	{ 16, 14000 },   /* FDR */
	{ 32, 25000 },   /* EDR */
	{ 64, 50000 },   /* HDR */
	{ 128, 100000 }, /* NDR */
};

/* PortInfo:LinkWidthActive (ibidem; enum ib_port_width). */
static const struct {
	uint8_t code;
	uint8_t lanes;
} widths[] = {
	{ 1, 1 }, { 2, 4 }, { 4, 8 }, { 8, 12 }, { 16, 2 },
};

uint32_t
kv_rdmaport_speed(uint8_t speed, uint8_t width)
{
	uint32_t lane = 0, lanes = 0;
	size_t i;

	for (i = 0; i < KV_ARRAY_LEN(speeds); i++)
		if (speeds[i].code == speed)
			lane = speeds[i].mbit_per_s;
	for (i = 0; i < KV_ARRAY_LEN(widths); i++)
		if (widths[i].code == width)
			lanes = widths[i].lanes;
	return lane * lanes;
}

uint32_t
kv_rdmaport_mtu(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0;
}

uint8_t
kv_rdmaport_mtu_code(uint32_t bytes)
{
	uint8_t code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && (bytes == 0 || 256U << code <= bytes))
		code++;
	return code;
}

const char *
kv_rdmaport_state(enum ibv_port_state state)
{
	static const char *const words[] = {
		[IBV_PORT_NOP] = "unknown",   [IBV_PORT_DOWN] = "down",
		[IBV_PORT_INIT] = "init",     [IBV_PORT_ARMED] = "armed",
		[IBV_PORT_ACTIVE] = "active", [IBV_PORT_ACTIVE_DEFER] = "defer",
	};

	return (size_t)state < KV_ARRAY_LEN(words) ? words[state] : "unknown";
}

const char *
kv_rdmaport_layer(uint8_t link_layer)
{
	switch (link_layer) {
	case IBV_LINK_LAYER_ETHERNET:
		return "Ethernet";
	case IBV_LINK_LAYER_INFINIBAND:
	case IBV_LINK_LAYER_UNSPECIFIED: /* by devices older than RoCE */
		return "InfiniBand";
	default:
		return "unknown";
	}
}

/* PortInfo:PortPhysicalState. */
enum {
	PHYS_POLLING = 2,
	PHYS_DISABLED = 3,
};

const char *
kv_rdmaport_why_down(const struct ibv_port_attr *attr)
{
	bool is_ethernet = attr->link_layer == IBV_LINK_LAYER_ETHERNET;

	if (attr->state == IBV_PORT_INIT || attr->state == IBV_PORT_ARMED)
		return is_ethernet ? "port is not yet up; wait for its link"
				   : "port is up, but no subnet manager has "
				     "set it up; start opensm, or that of the "
				     "switch";
	if (attr->phys_state == PHYS_POLLING)
		return "port down: it finds nobody at the other end; plug in "
		       "the cable, or enable the switch's port";
	if (attr->phys_state == PHYS_DISABLED && is_ethernet)
		return "port down: it is disabled; `ip link set DEV up` on its "
		       "network interface";
	return "port down; see to its link";
}

const char *
kv_rdmaport_why_not(enum ibv_transport_type transport)
{
	switch (transport) {
	case IBV_TRANSPORT_IB:
		return NULL;
	case IBV_TRANSPORT_IWARP:
		return "it is of iWARP, of which kvpool makes no use; leave it "
		       "out of the list of devices";
	default:
		return "it is neither of InfiniBand nor of RoCE; leave it out "
		       "of the list of devices";
	}
}

unsigned
kv_rdmaport_gid_rank(const struct kv_rdmaport_gid *g)
{
	struct in6_addr ip;

	memcpy(&ip, g->gid.raw, sizeof(ip));
	if (IN6_IS_ADDR_UNSPECIFIED(&ip))
		return 0;
	/* v1 and v2 do not understand each other, so that comes first. One of
	 * another name space belongs to another pod. */
	return 1 + (g->is_v2 ? 8 : 0) + (g->is_here ? 4 : 0) +
	       (IN6_IS_ADDR_LINKLOCAL(&ip) ? 0 : 2) +
	       (IN6_IS_ADDR_V4MAPPED(&ip) ? 1 : 0);
}

#include "xfer/devlist.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "xfer/devglob.h"
#include "xfer/mcenv.h"
#include "xfer/rdmadev.h"

static const char *
names_of(char *buf, size_t size, const struct kv_rdmadev *list, size_t n)
{
	size_t at = 0;

	*buf = '\0';
	for (size_t i = 0; i < n && at < size; i++)
		if (!i || strcmp(list[i].name, list[i - 1].name) != 0)
			at += (size_t)snprintf(buf + at, size - at, "%s%s",
					       at ? ", " : "", list[i].name);
	return buf;
}

/* What means any name, even none, is no mistake. */
static bool
is_name(const char *glob, size_t len, const struct kv_rdmadev *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (kv_devglob_is(glob, len, list[i].name))
			return true;
	return kv_devglob_is(glob, len, "");
}

int
kv_devlist_check(const char *wanted, const struct kv_rdmadev *list, size_t n,
		 char *err, size_t errlen)
{
	char wrong[256] = "", names[512];
	const char *at = wanted, *glob;
	size_t len, used = 0;

	while ((glob = kv_devglob_next(&at, &len)))
		if (!is_name(glob, len, list, n) && used < sizeof(wrong))
			used += (size_t)snprintf(
				wrong + used, sizeof(wrong) - used, "%s'%.*s'",
				used ? " or " : "", (int)len, glob);
	if (used == 0)
		return 0;
	snprintf(err, errlen, "no RDMA device is called %s; there %s %s", wrong,
		 n ? "are" : "is",
		 n ? names_of(names, sizeof(names), list, n) : "none at all");
	return -ENODEV;
}

unsigned
kv_devlist_usable(const struct kv_rdmadev *list, size_t n)
{
	const char *last = "";
	unsigned devices = 0;

	for (size_t i = 0; i < n; i++) {
		if (!list[i].is_usable || strcmp(list[i].name, last) == 0)
			continue;
		last = list[i].name;
		devices++;
	}
	return devices;
}

static void
leave_out(struct kv_rdmadev *d, const char *why)
{
	d->is_wanted = d->is_usable = false;
	snprintf(d->why, sizeof(d->why), "not used: %s", why);
}

void
kv_devlist_env(const struct kv_mcenv *m, const char *wanted,
	       struct kv_rdmadev *list, size_t n)
{
	bool is_list = m->devices[0] && (!wanted || !wanted[0]);
	char why[64];

	for (struct kv_rdmadev *d = list; d < list + n; d++) {
		snprintf(why, sizeof(why), "MC_IB_PORT is %u", m->port);
		if (m->is_tcp)
			leave_out(d, "MC_FORCE_TCP is set");
		else if (is_list && !d->is_wanted)
			leave_out(d, "not in MC_TE_FILTERS or MC_MS_FILTERS");
		else if (m->port && d->port && d->port != m->port)
			leave_out(d, why);
		else if (m->gid_index >= 0 && d->is_usable && !d->why[0])
			snprintf(d->why, sizeof(d->why),
				 "MC_GID_INDEX: without the connection manager "
				 "GID %d",
				 m->gid_index);
	}
}

const char *
kv_devlist_ip(char *buf, size_t n, const struct in6_addr *ip)
{
	bool is_v4 = IN6_IS_ADDR_V4MAPPED(ip);
	const void *from = is_v4 ? &ip->s6_addr[12] : ip->s6_addr;

	if (!inet_ntop(is_v4 ? AF_INET : AF_INET6, from, buf, (socklen_t)n))
		*buf = '\0';
	return buf;
}

#include "xfer/devlist.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "xfer/devglob.h"
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

int
kv_devlist_check(const char *wanted, const struct kv_rdmadev *list, size_t n,
		 char *err, size_t errlen)
{
	const char *at = wanted, *glob;
	char names[512];
	size_t len, i;

	while ((glob = kv_devglob_next(&at, &len))) {
		for (i = 0; i < n; i++)
			if (kv_devglob_is(glob, len, list[i].name))
				break;
		/* What means any name, even none, is no mistake. */
		if (i < n || kv_devglob_is(glob, len, ""))
			continue;
		if (n)
			snprintf(err, errlen,
				 "no RDMA device is called '%.*s'; there are "
				 "%s",
				 (int)len, glob,
				 names_of(names, sizeof(names), list, n));
		else
			snprintf(err, errlen,
				 "no RDMA device is called '%.*s'; there is "
				 "none at all",
				 (int)len, glob);
		return -ENODEV;
	}
	return 0;
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

const char *
kv_devlist_ip(char *buf, size_t n, const struct in6_addr *ip)
{
	bool is_v4 = IN6_IS_ADDR_V4MAPPED(ip);
	const void *from = is_v4 ? &ip->s6_addr[12] : ip->s6_addr;

	if (!inet_ntop(is_v4 ? AF_INET : AF_INET6, from, buf, (socklen_t)n))
		*buf = '\0';
	return buf;
}

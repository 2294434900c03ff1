#include "xfer/samehost.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* What the kernel gives for users that this user name space has not: several
 * of them look alike. */
#define UID_OVERFLOW 65534

void
kv_samehost_addr(const struct kv_id *boot, char addr[KV_SAMEHOST_ADDR_BYTES])
{
	int n = snprintf(addr, KV_SAMEHOST_ADDR_BYTES, "unix:@kvpool-engine-");

	for (size_t i = 0; i < sizeof(boot->b); i++)
		n += snprintf(addr + n, KV_SAMEHOST_ADDR_BYTES - (size_t)n,
			      "%02x", boot->b[i]);
}

int
kv_samehost_check(const struct kv_peer *peer, char *why, size_t n)
{
	if (peer->uid != geteuid() || peer->uid == UID_OVERFLOW)
		snprintf(why, n, "the other process runs as another user");
	else if (peer->pidfd < 0)
		snprintf(why, n,
			 "the kernel gives no descriptor of the other process");
	else
		return 0;
	return -EACCES;
}

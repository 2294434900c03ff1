#include "base/sockpath.h"

#include "base/limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int
kv_sockpath_default(char *buf, size_t n)
{
	char path[KV_SOCKPATH_BYTES_MAX + 1];
	const char *dir = getenv("XDG_RUNTIME_DIR");
	uid_t uid = geteuid();
	int len;

	if (uid == 0)
		len = snprintf(path, sizeof(path), "%s", KV_SOCKPATH_SYSTEM);
	else if (dir && dir[0] == '/')
		len = snprintf(path, sizeof(path), "%s/kvpool/kvclient.sock",
			       dir);
	else
		len = snprintf(path, sizeof(path),
			       "/tmp/kvpool-%u/kvclient.sock", uid);
	if (len >= (int)sizeof(path) || len >= (int)n)
		return -ENAMETOOLONG;
	return snprintf(buf, n, "%s", path);
}

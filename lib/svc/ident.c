#include "svc/ident.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/rng.h"
#include "store/key.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

int
kv_ident_random(struct kv_id *out)
{
	return kv_rng_os(out, sizeof(*out));
}

int
kv_ident_host(struct kv_id *out)
{
	struct {
		char boot[36]; /* a UUID's text */
		struct kv_le64 netns;
	} host;
	kv_auto_close int fd = -1;
	struct stat st;

	fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (read(fd, host.boot, sizeof(host.boot)) != sizeof(host.boot))
		return -EIO;
	if (stat("/proc/self/ns/net", &st) < 0)
		return -errno;
	host.netns = kv_le64(st.st_ino);
	*out = kv_key_hash_build(kv_key_hash(0, &host, sizeof(host)));
	return 0;
}

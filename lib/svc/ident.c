#include "svc/ident.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/rng.h"
#include "store/key.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

enum {
	BOOT_ID_BYTES = 36, /* a UUID's text */
};

static int
boot_id_read(const char *root, char *text)
{
	char path[PATH_MAX];
	kv_auto_close int fd = -1;

	if (snprintf(path, sizeof(path), "%s" BOOT_ID_FILE, root) >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return read(fd, text, BOOT_ID_BYTES) == BOOT_ID_BYTES ? 0 : -EIO;
}

int
kv_ident_random(struct kv_id *out)
{
	return kv_rng_os(out, sizeof(*out));
}

int
kv_ident_kernel(const char *root, struct kv_id *out)
{
	char text[BOOT_ID_BYTES];
	int rc = boot_id_read(root, text);

	if (rc == 0)
		*out = kv_key_hash_build(kv_key_hash(0, text, sizeof(text)));
	return rc;
}

int
kv_ident_host(struct kv_id *out)
{
	struct {
		char boot[BOOT_ID_BYTES];
		struct kv_le64 netns;
	} host;
	struct stat st;
	int rc = boot_id_read("", host.boot);

	if (rc < 0)
		return rc;
	if (stat("/proc/self/ns/net", &st) < 0)
		return -errno;
	host.netns = kv_le64(st.st_ino);
	*out = kv_key_hash_build(kv_key_hash(0, &host, sizeof(host)));
	return 0;
}

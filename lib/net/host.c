#include "net/host.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/rng.h"
#include "base/str.h"

/* "8ab0c1d2-..." to 16 bytes; the dashes do not count. */
static bool
parse_uuid(const char *s, struct kv_id *out)
{
	size_t digits = 0;

	for (; *s && digits < 2 * sizeof(out->b); s++) {
		int d = kv_str_hex(*s);

		if (d < 0)
			continue;
		out->b[digits / 2] = (uint8_t)(out->b[digits / 2] << 4 | d);
		digits++;
	}
	return digits == 2 * sizeof(out->b);
}

static bool
read_boot_id(struct kv_id *out)
{
	kv_auto_close int fd =
		open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[64];
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = 0;
	return parse_uuid(text, out);
}

struct kv_id
kv_host_id(void)
{
	struct kv_id id = { 0 };
	struct stat net;
	int err;

	if (read_boot_id(&id) && !stat("/proc/self/ns/net", &net)) {
		for (size_t i = 0; i < 8; i++)
			id.b[8 + i] ^= (uint8_t)(net.st_ino >> (8 * i));
		return id;
	}
	err = kv_rng_os(&id, sizeof(id));
	assert(!err); /* the kernel always has 16 bytes, once it is up */
	return id;
}

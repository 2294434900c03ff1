#include "cli/filein.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/num.h"
#include "cli/progress.h"

enum {
	CHUNK_BYTES = 1 << 16,
	READ_BYTES_MAX = 8 << 20, /* then who watches is told */
};

static bool
is_same(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int
read_all(struct kv_bytes *b, int fd, const struct kv_progress_watch *w)
{
	size_t start = b->len;
	ssize_t n;
	void *to;

	for (;;) {
		to = kv_bytes_reserve(b, CHUNK_BYTES);
		if (!to)
			return -ENOMEM;
		n = read(fd, to, kv_min_u64(b->cap - b->len, READ_BYTES_MAX));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		b->len += (size_t)n;
		if (b->len - start > KV_FILEIN_BYTES_MAX)
			return -EFBIG;
		if (w)
			w->moved(w->arg, (size_t)n);
	}
}

static int
read_fd(struct kv_bytes *b, int fd, const struct kv_progress_watch *w)
{
	struct stat before, after;
	int rc;

	if (fstat(fd, &before) < 0)
		return -errno;
	if (S_ISREG(before.st_mode)) {
		if ((uint64_t)before.st_size > KV_FILEIN_BYTES_MAX)
			return -EFBIG;
		/* All of it and room to see its end, in one step. */
		if (!kv_bytes_reserve(b, (size_t)before.st_size + CHUNK_BYTES))
			return -ENOMEM;
	}
	rc = read_all(b, fd, w && !isatty(fd) ? w : NULL);
	if (rc < 0 || !S_ISREG(before.st_mode))
		return rc;
	if (fstat(fd, &after) < 0)
		return -errno;
	return is_same(&before, &after) ? 0 : -ESTALE;
}

int
kv_filein_read(struct kv_bytes *b, const char *path, bool is_dash_stdin,
	       const struct kv_progress_watch *w)
{
	kv_auto_close int fd = -1;
	size_t start = b->len;
	int rc;

	if (is_dash_stdin && strcmp(path, "-") == 0) {
		rc = read_fd(b, STDIN_FILENO, w);
	} else {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		rc = fd < 0 ? -errno : read_fd(b, fd, w);
	}
	if (rc < 0)
		b->len = start;
	return rc;
}

ssize_t
kv_filein_text(const char *path, char *buf, size_t size)
{
	kv_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t n = 0;
	ssize_t got = 1;

	if (fd < 0)
		return -errno;
	while (got > 0 && n < size) {
		got = read(fd, buf + n, size - n);
		if (got < 0 && errno == EINTR)
			got = 1;
		else if (got < 0)
			return -errno;
		else
			n += (size_t)got;
	}
	return (ssize_t)n;
}

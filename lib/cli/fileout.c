#include "cli/fileout.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "cli/keyfile.h"
#include "cli/progress.h"

enum {
	WRITE_BYTES_MAX = 1 << 20, /* then who watches is told */
};

/* The temporary file that must not stay behind; for the signal handler. */
static struct {
	volatile sig_atomic_t is_there;
	int dir;
	char name[32];
} temp;

static void
end_by_signal(int sig)
{
	if (temp.is_there)
		unlinkat(temp.dir, temp.name, 0);
	(void)signal(sig, SIG_DFL);
	raise(sig);
}

/* What is ignored (nohup) or handled stays so. */
static void
watch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction mine = { .sa_handler = end_by_signal };
	struct sigaction old;

	for (size_t i = 0; i < KV_ARRAY_LEN(signals); i++)
		if (sigaction(signals[i], NULL, &old) == 0 &&
		    old.sa_handler == SIG_DFL)
			sigaction(signals[i], &mine, NULL);
}

/* Its descriptor or -errno. */
static int
temp_open(int dir)
{
	uint64_t random;
	int fd, rc;

	watch_signals();
	rc = kv_rng_os(&random, sizeof(random));
	if (rc < 0)
		return rc;
	temp.dir = dir;
	snprintf(temp.name, sizeof(temp.name), ".kvpool-%016" PRIx64, random);
	temp.is_there = 1;
	fd = openat(dir, temp.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0666);
	if (fd < 0) {
		temp.is_there = 0;
		return -errno;
	}
	return fd;
}

/* Writes and closes. 0 or -errno. */
static int
fill(int fd, const struct stat *old, const void *data, size_t n,
     const struct kv_progress_watch *w)
{
	int rc = kv_fileout_write(fd, data, n, w);

	/* Not everybody may give files away; then it is the caller's. */
	if (rc == 0 && old && fchown(fd, old->st_uid, old->st_gid) < 0)
		rc = errno == EPERM ? 0 : -errno;
	if (rc == 0 && old && fchmod(fd, old->st_mode & 0777) < 0)
		rc = -errno;
	/* Some file systems tell only here that the disk is full. */
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

/* OLD: the file that is there, or NULL. */
static int
replace(int dir, const char *name, const struct stat *old, const void *data,
	size_t n, const struct kv_progress_watch *w)
{
	int fd = temp_open(dir), rc;

	if (fd < 0)
		return fd;
	rc = fill(fd, old, data, n, w);
	if (rc == 0 && renameat(dir, temp.name, dir, name) < 0)
		rc = -errno;
	if (rc < 0)
		unlinkat(dir, temp.name, 0);
	temp.is_there = 0;
	return rc;
}

int
kv_fileout_write(int fd, const void *data, size_t n,
		 const struct kv_progress_watch *w)
{
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	const char *p = data;
	ssize_t done;

	while (n) {
		done = write(fd, p, n < WRITE_BYTES_MAX ? n : WRITE_BYTES_MAX);
		if (done < 0 && errno == EAGAIN)
			done = poll(&ready, 1, -1) < 0 ? -1 : 0;
		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			p += done;
			n -= (size_t)done;
			if (w)
				w->moved(w->arg, (size_t)done);
		}
	}
	return 0;
}

static int
write_into(const char *path, const void *data, size_t n,
	   const struct kv_progress_watch *w)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : fill(fd, NULL, data, n, w);
}

/* PATH names no link; it is taken apart. OLD as replace()'s. */
static int
save_real(char *path, const struct stat *old, const void *data, size_t n,
	  const struct kv_progress_watch *w)
{
	char *slash = strrchr(path, '/');
	const char *folder = !slash ? "." : slash == path ? "/" : path;
	kv_auto_close int dir = -1;

	if (slash)
		*slash = '\0';
	dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	return replace(dir, slash ? slash + 1 : path, old, data, n, w);
}

int
kv_fileout_save(const char *path, const void *data, size_t n,
		const struct kv_progress_watch *w)
{
	bool is_there;
	struct stat st;
	char *real;
	int rc;

	is_there = stat(path, &st) == 0;
	if (is_there && !S_ISREG(st.st_mode))
		return write_into(path, data, n, w);
	real = is_there ? realpath(path, NULL) : strdup(path);
	if (!real)
		return -errno;
	rc = save_real(real, is_there ? &st : NULL, data, n, w);
	free(real);
	return rc;
}

int
kv_fileout_save_key(int dir, const struct kv_key *key, const void *data,
		    size_t n, const struct kv_progress_watch *w)
{
	char path[KV_KEYFILE_SIZE], *name = path, *end;
	kv_auto_close int at = -1;
	int next;

	kv_keyfile_name(path, key);
	while ((end = strchr(name, '/'))) {
		*end = '\0';
		if (mkdirat(dir, name, 0777) < 0 && errno != EEXIST)
			return -errno;
		next = openat(dir, name,
			      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		if (at >= 0)
			close(at);
		dir = at = next;
		name = end + 1;
	}
	return replace(dir, name, NULL, data, n, w);
}

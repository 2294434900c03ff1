#include "net/unixsock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/sockpath.h"
#include "base/str.h"

#define LOCK       ".lock"
#define LOCK_BYTES (KV_SOCKPATH_BYTES_MAX + sizeof(LOCK))

enum {
	PID_TRIES = 20, /* until the holder of a fresh lock has written its */
	PID_WAIT_MS = 5,
};

static int
open_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	return fd;
}

static struct sockaddr_un
name_of(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	if (path[0] == '@')
		un.sun_path[0] = 0;
	return un;
}

/* 1: somebody listens there, with *pid if it is known. 0: nobody. Else why
 * that cannot be told. */
static int
probe(const char *path, pid_t *pid)
{
	struct sockaddr_un un = name_of(path);
	kv_auto_close int fd = open_socket();
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);

	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&un, sizeof(un))) {
		if (errno == ECONNREFUSED)
			return 0;
		return errno == EAGAIN ? 1 : -errno;
	}
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		*pid = cred.pid;
	return 1;
}

static int
refuse_live(const char *path, pid_t pid)
{
	if (pid > 0)
		kv_err("cannot listen on %s: already running, pid %d", path,
		       (int)pid);
	else
		kv_err("cannot listen on %s: already running", path);
	return -EADDRINUSE;
}

static void
write_pid(int fd)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	/* For people alone; the lock is what counts. */
	if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n)
		kv_debug("cannot write the pid to a lock file: %m");
}

/* Of the process that holds the lock; 0 when it does not say. */
static pid_t
read_pid(int fd)
{
	const struct timespec pause = { .tv_nsec = PID_WAIT_MS * 1000000L };
	char text[16];
	uint64_t pid;

	for (int i = 0; i < PID_TRIES; i++) {
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

		if (n > 1) {
			text[n - 1] = 0;
			return kv_str_u64(text, 1, INT_MAX, &pid) ? 0
								  : (pid_t)pid;
		}
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Whoever removed the file under us has let go of another file's lock. */
static bool
is_file_at(int fd, const char *path)
{
	struct stat open_one, named;

	return !fstat(fd, &open_one) && !stat(path, &named) &&
	       open_one.st_dev == named.st_dev &&
	       open_one.st_ino == named.st_ino;
}

/* The locked descriptor of PATH.lock, -EWOULDBLOCK with *holder, -errno. */
static int
lock_path(const char *path, pid_t *holder)
{
	char lock[LOCK_BYTES];

	snprintf(lock, sizeof(lock), "%s" LOCK, path);
	for (;;) {
		kv_auto_close int fd = open(
			lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			int err = -errno;

			if (err == -EWOULDBLOCK)
				*holder = read_pid(fd);
			return err;
		}
		if (is_file_at(fd, lock)) {
			write_pid(fd);
			return kv_steal_fd(&fd);
		}
	}
}

static int
take_lock(const char *path)
{
	pid_t pid = 0;
	int fd = lock_path(path, &pid);

	if (fd >= 0)
		return fd;
	if (fd == -EWOULDBLOCK) {
		/* What the kernel says is right in every pid namespace. */
		(void)probe(path, &pid);
		return refuse_live(path, pid);
	}
	errno = -fd;
	if (fd == -ENOENT)
		kv_err("cannot listen on %s: its folder does not exist", path);
	else
		kv_err("cannot listen on %s: cannot lock %s" LOCK ": %m", path,
		       path);
	return fd;
}

/* With the lock held. Makes way at path, or says why not. */
static int
remove_stale(const char *path)
{
	struct stat st;
	pid_t pid = 0;
	int is_live;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode)) {
		kv_err("cannot listen on %s: the file is there and no socket",
		       path);
		return -EEXIST;
	}
	is_live = probe(path, &pid);
	if (is_live == 1)
		return refuse_live(path, pid);
	if (!is_live && !unlink(path))
		return 0;
	if (is_live)
		errno = -is_live;
	kv_err("cannot listen on %s: cannot replace the old socket: %m", path);
	return -errno;
}

/* Nobody can connect before it listens, so the mode may be set afterwards. */
static int
bind_file(int fd, struct kv_unixsock *u, gid_t group)
{
	struct sockaddr_un un = name_of(u->path);
	bool has_group = group != (gid_t)-1;
	struct stat st;
	int err;

	if (bind(fd, (struct sockaddr *)&un, sizeof(un))) {
		kv_err("cannot listen on %s: %m", u->path);
		return -errno;
	}
	if ((has_group && lchown(u->path, (uid_t)-1, group)) ||
	    chmod(u->path, has_group ? 0660 : 0600) || lstat(u->path, &st)) {
		err = -errno;
		kv_err("cannot listen on %s: cannot set its owner and mode: %m",
		       u->path);
		unlink(u->path);
		return err;
	}
	u->dev = st.st_dev;
	u->ino = st.st_ino;
	return 0;
}

/* Cuts the last part off. */
static void
to_folder(char *path)
{
	char *slash = strrchr(path, '/');

	*(slash ? slash : path) = 0;
}

/* Nothing there yet, or ours and nobody else can put a file into it. */
static bool
is_own_folder(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT;
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* Members of the group must be able to reach the socket in it. */
static int
make_default_folder(const char *path, gid_t group)
{
	char usual[KV_SOCKPATH_BYTES_MAX + 1], folder[sizeof(usual)];

	if (kv_sockpath_default(usual, sizeof(usual)) < 0)
		return 0;
	snprintf(folder, sizeof(folder), "%s", path);
	to_folder(folder);
	to_folder(usual);
	if (strcmp(folder, usual) != 0)
		return 0;
	if (!is_own_folder(folder)) {
		kv_err("cannot listen on %s: somebody else owns %s, or may "
		       "write to it",
		       path, folder);
		return -EPERM;
	}
	if (mkdir(folder, 0700) && errno != EEXIST)
		goto fail;
	if (group != (gid_t)-1 &&
	    (lchown(folder, (uid_t)-1, group) || chmod(folder, 0710)))
		goto fail;
	return 0;
fail:
	kv_err("cannot listen on %s: cannot make %s: %m", path, folder);
	return -errno;
}

static bool
has_lock(const struct kv_unixsock *u)
{
	char lock[LOCK_BYTES];

	snprintf(lock, sizeof(lock), "%s" LOCK, u->path);
	return u->lock_fd >= 0 && is_file_at(u->lock_fd, lock);
}

/* Under the lock the file may be removed: is_file_at() is for the others. */
static void
drop_lock(struct kv_unixsock *u)
{
	char lock[LOCK_BYTES];

	snprintf(lock, sizeof(lock), "%s" LOCK, u->path);
	if (has_lock(u))
		unlink(lock);
	if (u->lock_fd >= 0)
		close(u->lock_fd);
	u->lock_fd = -1;
}

static int
bind_locked(struct kv_unixsock *u, gid_t group)
{
	kv_auto_close int fd = -1;
	int err = KV_FAULT_POINT() ? -EMFILE : remove_stale(u->path);

	if (err)
		return err;
	fd = open_socket();
	if (fd < 0)
		return fd;
	err = bind_file(fd, u, group);
	return err ? err : kv_steal_fd(&fd);
}

/* A name of the kernel's alone: no file, no lock, nothing left behind. */
static int
bind_abstract(struct kv_unixsock *u)
{
	struct sockaddr_un un = name_of(u->path);
	kv_auto_close int fd = open_socket();

	if (fd < 0)
		return fd;
	if (bind(fd, (struct sockaddr *)&un, sizeof(un))) {
		kv_err("cannot listen on %s: %m", u->path);
		return -errno;
	}
	return kv_steal_fd(&fd);
}

int
kv_unixsock_bind(struct kv_unixsock *u, const char *path, gid_t group)
{
	int fd, err;

	if (strlen(path) > KV_SOCKPATH_BYTES_MAX)
		return -ENAMETOOLONG;
	snprintf(u->path, sizeof(u->path), "%s", path);
	u->lock_fd = -1;
	if (path[0] == '@')
		return bind_abstract(u);
	err = make_default_folder(path, group);
	if (err)
		return err;
	u->lock_fd = take_lock(path);
	if (u->lock_fd < 0)
		return u->lock_fd;
	fd = bind_locked(u, group);
	if (fd < 0)
		drop_lock(u);
	return fd;
}

bool
kv_unixsock_is_there(const struct kv_unixsock *u)
{
	struct stat st;

	return u->path[0] == '@' ||
	       (!lstat(u->path, &st) && st.st_dev == u->dev &&
		st.st_ino == u->ino);
}

int
kv_unixsock_rebind(struct kv_unixsock *u, gid_t group)
{
	int err = make_default_folder(u->path, group);

	if (err)
		return err;
	u->ino = 0; /* the number may be another file's soon */
	if (!has_lock(u)) {
		drop_lock(u);
		u->lock_fd = take_lock(u->path);
	}
	return u->lock_fd < 0 ? u->lock_fd : bind_locked(u, group);
}

void
kv_unixsock_unbind(struct kv_unixsock *u)
{
	if (u->path[0] == '@')
		return;
	if (kv_unixsock_is_there(u))
		unlink(u->path);
	drop_lock(u);
}

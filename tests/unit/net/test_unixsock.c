#include "net/unixsock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/sockpath.h"

#include "need.h"

#define NO_GROUP ((gid_t)-1)

enum {
	RIVALS = 6,
	ROUNDS = 20,
	NOBODY = 65534
};

static char folder[] = "/tmp/kv-unixsock-XXXXXX";
static char path[64];
static char lock[80];
static char last_log[512];

static void
keep_log(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	snprintf(last_log, sizeof(last_log), "%s", msg);
}

static int
make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/kv-unixsock-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/s", folder);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	kv_log_set_sink(keep_log, NULL);
	last_log[0] = 0;
	return 0;
}

/* Fails when a test has left a file behind. */
static int
remove_folder(void **state)
{
	(void)state;
	kv_log_set_sink(NULL, NULL);
	return rmdir(folder);
}

static bool
is_there(const char *name)
{
	struct stat st;

	return !lstat(name, &st);
}

static int
bind_and_listen(struct kv_unixsock *u, const char *at)
{
	int fd = kv_unixsock_bind(u, at, NO_GROUP);

	if (fd >= 0)
		listen(fd, 16);
	return fd;
}

static void
unbind(struct kv_unixsock *u, int fd)
{
	kv_unixsock_unbind(u);
	close(fd);
}

static bool
can_connect(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	bool is_good;

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	is_good = !connect(fd, (struct sockaddr *)&un, sizeof(un));
	close(fd);
	return is_good;
}

/* A process that listens at path until it is killed, or says why not. */
static pid_t
start_daemon(void)
{
	struct kv_unixsock u;
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		if (bind_and_listen(&u, path) < 0 ||
		    write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void
kill_daemon(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void
a_fresh_one_is_for_the_user_alone_and_goes_again(void **state)
{
	struct kv_unixsock u;
	struct stat st;
	int fd;

	(void)state;
	fd = bind_and_listen(&u, path);
	assert_true(fd >= 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(can_connect());
	unbind(&u, fd);
	assert_false(is_there(path));
	assert_false(is_there(lock));
}

static void
a_group_is_let_in(void **state)
{
	mode_t mask = umask(077);
	struct kv_unixsock u;
	struct stat st;
	int fd;

	(void)state;
	fd = kv_unixsock_bind(&u, path, getuid() ? getgid() : 4711);
	umask(mask);
	assert_true(fd >= 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(st.st_gid, getuid() ? getgid() : 4711);
	unbind(&u, fd);
}

static void
a_stale_one_is_replaced(void **state)
{
	struct kv_unixsock u;
	int fd;

	(void)state;
	kill_daemon(start_daemon());
	assert_true(is_there(path));
	assert_false(can_connect());
	fd = bind_and_listen(&u, path);
	assert_true(fd >= 0);
	assert_true(can_connect());
	unbind(&u, fd);
}

static void
assert_refused_for(pid_t pid)
{
	struct kv_unixsock u;
	char want[64];

	assert_int_equal(bind_and_listen(&u, path), -EADDRINUSE);
	snprintf(want, sizeof(want), "already running, pid %d", (int)pid);
	if (!strstr(last_log, want))
		fail_msg("'%s' lacks '%s'", last_log, want);
	assert_true(can_connect());
}

static void
a_live_one_is_refused_and_left_alone(void **state)
{
	pid_t pid = start_daemon();
	struct kv_unixsock u;
	int fd;

	(void)state;
	assert_refused_for(pid);
	/* Stopped, it still is one. */
	kill(pid, SIGSTOP);
	assert_refused_for(pid);
	kill_daemon(pid);
	fd = bind_and_listen(&u, path);
	assert_true(fd >= 0);
	/* The same holds within one process. */
	assert_refused_for(getpid());
	unbind(&u, fd);
}

static void
a_live_one_is_refused_although_its_lock_was_cleaned_away(void **state)
{
	pid_t pid = start_daemon();
	struct kv_unixsock u;
	int fd;

	(void)state;
	assert_int_equal(unlink(lock), 0);
	assert_refused_for(pid);
	assert_false(is_there(lock));
	kill_daemon(pid);
	fd = bind_and_listen(&u, path);
	assert_true(fd >= 0);
	unbind(&u, fd);
}

static void
one_that_has_the_lock_but_no_socket_yet_is_named(void **state)
{
	struct kv_unixsock u;
	pid_t pid;

	(void)state;
	pid = start_daemon();
	assert_int_equal(unlink(path), 0);
	assert_int_equal(bind_and_listen(&u, path), -EADDRINUSE);
	assert_non_null(strstr(last_log, "already running, pid "));
	assert_int_equal(atoi(strstr(last_log, "pid ") + 4), pid);
	kill_daemon(pid);
	assert_int_equal(unlink(lock), 0);
}

/* Waits for the start, then exits with 0 (won, and held it) or 1. */
static _Noreturn void
be_rival(int start)
{
	struct kv_unixsock u;
	char c;
	int fd;

	if (read(start, &c, 1) != 0)
		_exit(99);
	fd = bind_and_listen(&u, path);
	if (fd == -EADDRINUSE)
		_exit(1);
	if (fd < 0 || !can_connect())
		_exit(98);
	/* The others are all refused in this time. */
	usleep(100000);
	unbind(&u, fd);
	_exit(0);
}

static void
of_several_over_a_stale_one_just_one_wins(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		int start[2], wins = 0, losses = 0, status;

		if (round % 2)
			kill_daemon(start_daemon());
		assert_int_equal(pipe(start), 0);
		for (int i = 0; i < RIVALS; i++) {
			if (fork())
				continue;
			close(start[1]);
			be_rival(start[0]);
		}
		close(start[0]);
		close(start[1]); /* go */
		while (wait(&status) > 0) {
			wins += WEXITSTATUS(status) == 0;
			losses += WEXITSTATUS(status) == 1;
		}
		assert_int_equal(wins, 1);
		assert_int_equal(losses, RIVALS - 1);
	}
}

static void
only_the_own_file_is_removed(void **state)
{
	struct kv_unixsock mine, other;
	int fd, other_fd;

	(void)state;
	fd = bind_and_listen(&mine, path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(lock), 0);
	other_fd = bind_and_listen(&other, path);
	assert_true(other_fd >= 0);
	unbind(&mine, fd);
	assert_true(is_there(path));
	assert_true(is_there(lock));
	assert_true(can_connect());
	unbind(&other, other_fd);
}

static void
a_file_that_is_no_socket_is_left_unchanged(void **state)
{
	struct kv_unixsock u;
	struct stat st;
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	(void)state;
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	assert_int_equal(bind_and_listen(&u, path), -EEXIST);
	assert_non_null(strstr(last_log, "no socket"));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 1);
	assert_false(is_there(lock));
	unlink(path);
}

static void
lengths_up_to_the_limit_work_and_none_is_cut(void **state)
{
	char name[256];
	struct kv_unixsock u;
	int fd;

	(void)state;
	memset(name, 'x', sizeof(name));
	memcpy(name, path, strlen(path));
	name[107] = 0;
	fd = bind_and_listen(&u, name);
	assert_true(fd >= 0);
	assert_true(is_there(name));
	unbind(&u, fd);
	name[107] = 'x';
	name[108] = 0;
	assert_int_equal(bind_and_listen(&u, name), -ENAMETOOLONG);
}

static void
a_folder_that_is_missing_is_named(void **state)
{
	struct kv_unixsock u;

	(void)state;
	assert_int_equal(bind_and_listen(&u, "/tmp/kv-none/sub/s"), -ENOENT);
	assert_non_null(strstr(last_log, "its folder does not exist"));
	/* A file system that takes no file. */
	assert_true(bind_and_listen(&u, "/proc/s") < 0);
	assert_non_null(strstr(last_log, "cannot listen on /proc/s: "));
}

/* As somebody who owns nothing here; 0, or the line that failed. */
static int
as_nobody(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (setgid(NOBODY) || setuid(NOBODY))
			_exit(255);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

#define CHECK(x)                                   \
	do {                                       \
		if (!(x))                          \
			return __LINE__ % 127 + 1; \
	} while (0)

static int
bind_without_permission(void)
{
	struct kv_unixsock u;

	CHECK(kv_unixsock_bind(&u, path, NO_GROUP) == -EACCES);
	CHECK(strstr(last_log, "Permission denied"));
	return 0;
}

static void
a_folder_that_may_not_be_written_is_told(void **state)
{
	(void)state;
	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(as_nobody(bind_without_permission), 0);
}

static int
use_default_of_user(void)
{
	char usual[KV_SOCKPATH_BYTES_MAX + 1], want[128];
	struct kv_unixsock u;
	struct stat st;
	int fd;

	setenv("XDG_RUNTIME_DIR", folder, 1);
	CHECK(kv_sockpath_default(usual, sizeof(usual)) > 0);
	snprintf(want, sizeof(want), "%s/kvpool/kvclient.sock", folder);
	CHECK(!strcmp(usual, want));
	fd = kv_unixsock_bind(&u, usual, getgid());
	CHECK(fd >= 0);
	unbind(&u, fd);
	snprintf(want, sizeof(want), "%s/kvpool", folder);
	CHECK(!stat(want, &st) && (st.st_mode & 07777) == 0710);
	CHECK(!rmdir(want));
	fd = kv_unixsock_bind(&u, usual, NO_GROUP);
	CHECK(fd >= 0);
	unbind(&u, fd);
	CHECK(!stat(want, &st) && (st.st_mode & 07777) == 0700);
	/* Others could put their socket there. */
	CHECK(!chmod(want, 0777));
	CHECK(kv_unixsock_bind(&u, usual, NO_GROUP) == -EPERM);
	CHECK(strstr(last_log, "somebody else owns"));
	CHECK(!rmdir(want));
	return 0;
}

static void
the_default_folder_is_made_and_is_private(void **state)
{
	(void)state;
	assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
	assert_int_equal(as_nobody(use_default_of_user), 0);
}

static void
a_removed_file_is_noticed_and_made_again(void **state)
{
	struct kv_unixsock u;
	int old, fd, other;
	struct kv_unixsock rival;

	(void)state;
	old = bind_and_listen(&u, path);
	assert_true(old >= 0);
	assert_true(kv_unixsock_is_there(&u));
	/* The file alone; then its lock, too. */
	for (int i = 0; i < 2; i++) {
		unlink(path);
		if (i == 1)
			unlink(lock);
		assert_false(kv_unixsock_is_there(&u));
		fd = kv_unixsock_rebind(&u, NO_GROUP);
		assert_true(fd >= 0);
		assert_true(kv_unixsock_is_there(&u));
		assert_true(is_there(lock));
		close(old);
		old = fd;
	}
	assert_int_equal(listen(old, 16), 0);
	/* Without the lock somebody else may have it. */
	unlink(path);
	unlink(lock);
	other = bind_and_listen(&rival, path);
	assert_true(other >= 0);
	assert_false(kv_unixsock_is_there(&u));
	assert_int_equal(kv_unixsock_rebind(&u, NO_GROUP), -EADDRINUSE);
	assert_non_null(strstr(last_log, "already running, pid"));
	assert_int_equal(kv_unixsock_rebind(&u, NO_GROUP), -EADDRINUSE);
	kv_unixsock_unbind(&u);
	assert_true(is_there(path));
	assert_true(is_there(lock));
	/* Another file stays. */
	unlink(path);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(kv_unixsock_rebind(&rival, NO_GROUP), -EEXIST);
	kv_unixsock_unbind(&rival);
	assert_true(is_there(path));
	unlink(path);
	close(old);
	close(other);
}

int
main(void)
{
#define CLEAN(t) cmocka_unit_test_setup_teardown(t, make_folder, remove_folder)
#define ROOT(t)  need_test(!geteuid(), "root", t, make_folder, remove_folder)
	const struct CMUnitTest tests[] = {
		CLEAN(a_fresh_one_is_for_the_user_alone_and_goes_again),
		CLEAN(a_group_is_let_in),
		CLEAN(a_stale_one_is_replaced),
		CLEAN(a_live_one_is_refused_and_left_alone),
		CLEAN(a_live_one_is_refused_although_its_lock_was_cleaned_away),
		CLEAN(one_that_has_the_lock_but_no_socket_yet_is_named),
		CLEAN(of_several_over_a_stale_one_just_one_wins),
		CLEAN(only_the_own_file_is_removed),
		CLEAN(a_removed_file_is_noticed_and_made_again),
		CLEAN(a_file_that_is_no_socket_is_left_unchanged),
		CLEAN(lengths_up_to_the_limit_work_and_none_is_cut),
		CLEAN(a_folder_that_is_missing_is_named),
		ROOT(a_folder_that_may_not_be_written_is_told),
		ROOT(the_default_folder_is_made_and_is_private),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

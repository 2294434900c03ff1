#include "base/sockpath.h"

#include "test.h"

#include "base/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* The default path of a user, asked in a child so that the test stays root. */
static int
path_of(uid_t uid, char *buf, size_t n)
{
	int fds[2], status, len = 0;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (geteuid() != uid && seteuid(uid) < 0)
			_exit(1);
		len = kv_sockpath_default(buf, n);
		if (write(fds[1], &len, sizeof(len)) != sizeof(len) ||
		    write(fds[1], buf, n) != (ssize_t)n)
			_exit(1);
		_exit(0);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &len, sizeof(len)), sizeof(len));
	assert_int_equal(read(fds[0], buf, n), n);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return len;
}

static void
of_root(void **state)
{
	char buf[128] = "";

	(void)state;
	if (geteuid() != 0)
		skip();
	setenv("XDG_RUNTIME_DIR", "/run/user/0", 1);
	assert_int_equal(kv_sockpath_default(buf, sizeof(buf)), 25);
	assert_string_equal(buf, "/run/kvpool/kvclient.sock");
	assert_int_equal(kv_sockpath_default(buf, 26), 25);
	buf[0] = 'x';
	assert_int_equal(kv_sockpath_default(buf, 25), -ENAMETOOLONG);
	assert_int_equal(buf[0], 'x');
}

static void
of_others(void **state)
{
	uid_t uid = geteuid() ? geteuid() : 4711;
	char buf[128] = "", want[128];

	(void)state;
	setenv("XDG_RUNTIME_DIR", "/run/user/4711", 1);
	assert_int_equal(path_of(uid, buf, sizeof(buf)), 35);
	assert_string_equal(buf, "/run/user/4711/kvpool/kvclient.sock");

	snprintf(want, sizeof(want), "/tmp/kvpool-%u/kvclient.sock", uid);
	setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
	assert_int_equal(path_of(uid, buf, sizeof(buf)), strlen(want));
	assert_string_equal(buf, want);
	unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(path_of(uid, buf, sizeof(buf)), strlen(want));
	assert_string_equal(buf, want);
}

static void
never_cut(void **state)
{
	uid_t uid = geteuid() ? geteuid() : 4711;
	size_t rest = strlen("/kvpool/kvclient.sock");
	char dir[256], buf[256] = "";

	(void)state;
	memset(dir, 'a', sizeof(dir));
	dir[0] = '/';
	dir[KV_SOCKPATH_BYTES_MAX - rest] = '\0';
	setenv("XDG_RUNTIME_DIR", dir, 1);
	assert_int_equal(path_of(uid, buf, sizeof(buf)), KV_SOCKPATH_BYTES_MAX);
	assert_int_equal(strlen(buf), KV_SOCKPATH_BYTES_MAX);

	dir[KV_SOCKPATH_BYTES_MAX - rest] = 'a';
	dir[KV_SOCKPATH_BYTES_MAX - rest + 1] = '\0';
	setenv("XDG_RUNTIME_DIR", dir, 1);
	assert_int_equal(path_of(uid, buf, sizeof(buf)), -ENAMETOOLONG);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_root),
		cmocka_unit_test(of_others),
		cmocka_unit_test(never_cut),
	};

	return cmocka_run_group_tests_name("base/sockpath", tests, NULL, NULL);
}

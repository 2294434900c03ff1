#include "cli/fileout.h"

#include "cli/progress.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvpool.h"

static char dir[] = "/tmp/kv.test_fileout.XXXXXX";

static int
make_dir(void **state)
{
	(void)state;
	umask(022);
	return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int
remove_dir(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static void
expect_file(const char *path, const char *want)
{
	char buf[64];
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(buf, 1, sizeof(buf) - 1, f);
	buf[n] = '\0';
	fclose(f);
	assert_string_equal(buf, want);
}

/* How many names there are in the folder, hidden ones too. */
static unsigned
count(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	assert_non_null(d);
	/* cppcheck-suppress readdirCalled; its _r variant is obsolete */
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static unsigned
mode(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode;
}

static void
test_new_and_replaced(void **state)
{
	(void)state;
	assert_int_equal(kv_fileout_save("new", "one", 3, NULL), 0);
	expect_file("new", "one");
	assert_int_equal(mode("new"), S_IFREG | 0644);
	assert_int_equal(chmod("new", 0600), 0);
	assert_int_equal(kv_fileout_save("./new", "", 0, NULL), 0);
	expect_file("new", "");
	assert_int_equal(mode("new"), S_IFREG | 0600);
	assert_int_equal(count("."), 1);
	assert_int_equal(unlink("new"), 0);
}

static void
test_links_are_followed(void **state)
{
	(void)state;
	assert_int_equal(mkdir("d", 0755), 0);
	assert_int_equal(kv_fileout_save("d/f", "old", 3, NULL), 0);
	assert_int_equal(symlink("d/f", "link"), 0);
	assert_int_equal(kv_fileout_save("link", "new", 3, NULL), 0);
	expect_file("d/f", "new");
	assert_true(S_ISLNK(mode("link")));
	assert_int_equal(unlink("link"), 0);
	assert_int_equal(unlink("d/f"), 0);
	assert_int_equal(rmdir("d"), 0);
}

static void
test_what_is_no_file_is_written_to(void **state)
{
	char buf[8] = "";
	int fd;

	(void)state;
	assert_int_equal(kv_fileout_save("/dev/null", "x", 1, NULL), 0);
	assert_true(S_ISCHR(mode("/dev/null")));
	assert_int_equal(mkfifo("fifo", 0600), 0);
	fd = open("fifo", O_RDWR);
	assert_int_equal(kv_fileout_save("fifo", "through", 7, NULL), 0);
	assert_int_equal(read(fd, buf, 7), 7);
	assert_string_equal(buf, "through");
	assert_true(S_ISFIFO(mode("fifo")));
	close(fd);
	assert_int_equal(unlink("fifo"), 0);
	assert_int_equal(kv_fileout_save("/dev/full", "x", 1, NULL), -ENOSPC);
}

static void
test_failures_leave_no_trace(void **state)
{
	(void)state;
	assert_int_equal(kv_fileout_save("absent/f", "x", 1, NULL), -ENOENT);
	assert_int_equal(kv_fileout_save(".", "x", 1, NULL), -EISDIR);
	assert_int_equal(kv_fileout_save("absent/", "x", 1, NULL), -ENOENT);
	assert_int_equal(kv_fileout_save("", "x", 1, NULL), -ENOENT);
	assert_int_equal(count("."), 0);
}

/* The disk is full half way: the file is the old one. */
static void
test_full_disk(void **state)
{
	const struct rlimit limit = { 1000, 1000 };
	static char big[5000];
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(kv_fileout_save("f", "old", 3, NULL), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGXFSZ, SIG_IGN);
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
			_exit(1);
		_exit(kv_fileout_save("f", big, sizeof(big), NULL) == -EFBIG
			      ? 0
			      : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	expect_file("f", "old");
	assert_int_equal(count("."), 1);
	assert_int_equal(unlink("f"), 0);
}

/* Killed in the middle of it: the old file and nothing else. */
static void
test_signals(void **state)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	size_t n = 64 << 20;
	char *big = calloc(1, n);
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(big);
	assert_int_equal(kv_fileout_save("f", "old", 3, NULL), 0);
	for (size_t i = 0; i < KV_ARRAY_LEN(signals); i++) {
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			signal(signals[i], SIG_DFL);
			for (;;)
				if (kv_fileout_save("g", big, n, NULL) < 0)
					_exit(1);
		}
		while (count(".") < 2)
			usleep(1000);
		usleep(5000);
		kill(pid, signals[i]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), signals[i]);
		/* A whole one of an earlier turn may be there. */
		unlink("g");
		assert_int_equal(count("."), 1);
	}
	expect_file("f", "old");
	assert_int_equal(unlink("f"), 0);
	free(big);
}

static int
save_key(int at, const char *key, const char *value)
{
	const struct kv_key k = { key, strlen(key) };

	return kv_fileout_save_key(at, &k, value, strlen(value), NULL);
}

static void
test_keys_stay_below_the_folder(void **state)
{
	char key[1001] = "";
	int at;

	(void)state;
	assert_int_equal(mkdir("d", 0755), 0);
	at = open("d", O_PATH | O_DIRECTORY);
	assert_true(at >= 0);
	assert_int_equal(save_key(at, "../x", "1"), 0);
	expect_file("d/%2E.%2Fx", "1");
	assert_int_equal(save_key(at, "/etc/x", "2"), 0);
	expect_file("d/%2Fetc%2Fx", "2");
	memset(key, 'k', 1000);
	assert_int_equal(save_key(at, key, "3"), 0);
	assert_int_equal(save_key(at, key, "4"), 0);
	assert_int_equal(count("d"), 3);

	/* Links that somebody left there lead nowhere. */
	assert_int_equal(kv_fileout_save("victim", "old", 3, NULL), 0);
	assert_int_equal(symlink("../victim", "d/link"), 0);
	assert_int_equal(save_key(at, "link", "5"), 0);
	expect_file("victim", "old");
	expect_file("d/link", "5");
	memset(key, 'l', 1000);
	key[240] = '\0';
	strcat(key, "%");
	assert_int_equal(symlinkat("..", at, key), 0);
	memset(key, 'l', 1000);
	assert_int_equal(save_key(at, key, "6"), -ENOTDIR);
	assert_int_equal(count("."), 2);
	close(at);
}

static void
count_piece(void *arg, size_t bytes)
{
	size_t *n = arg;

	n[0]++;
	n[1] += bytes;
}

static void
test_watched(void **state)
{
	static char big[4 << 20];
	size_t n[2] = { 0, 0 };
	const struct kv_progress_watch w = { count_piece, n };

	(void)state;
	assert_int_equal(kv_fileout_save("w", big, sizeof(big), &w), 0);
	assert_true(n[0] >= 4);
	assert_int_equal(n[1], sizeof(big));
	assert_int_equal(kv_fileout_save("/dev/null", big, sizeof(big), &w), 0);
	assert_int_equal(n[1], 2 * sizeof(big));
	assert_int_equal(unlink("w"), 0);
}

static void
test_write_to_a_full_pipe(void **state)
{
	static char big[1 << 20];
	int fds[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[0]);
		_exit(kv_fileout_write(fds[1], big, sizeof(big), NULL) ? 1 : 0);
	}
	close(fds[1]);
	while ((got = read(fds[0], big, 5000)) != 0) {
		if (got > 0)
			n += (size_t)got;
		else
			usleep(100);
	}
	assert_int_equal(n, sizeof(big));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fds[0]);

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	assert_int_equal(kv_fileout_write(fds[1], "x", 1, NULL), -EPIPE);
	close(fds[1]);
	assert_int_equal(kv_fileout_write(fds[1], "x", 1, NULL), -EBADF);
	signal(SIGPIPE, SIG_DFL);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_and_replaced),
		cmocka_unit_test(test_links_are_followed),
		cmocka_unit_test(test_what_is_no_file_is_written_to),
		cmocka_unit_test(test_failures_leave_no_trace),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_keys_stay_below_the_folder),
		cmocka_unit_test(test_watched),
		cmocka_unit_test(test_write_to_a_full_pipe),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

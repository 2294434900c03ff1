#include "cli/filein.h"

#include "cli/progress.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"

static char dir[] = "/tmp/kv.test_filein.XXXXXX";

static int
make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int
remove_dir(void **state)
{
	(void)state;
	unlink("f");
	unlink("fifo");
	return rmdir(dir);
}

static void
make_file(size_t n)
{
	FILE *f = fopen("f", "w");

	assert_non_null(f);
	for (size_t i = 0; i < n; i++)
		putc((int)(i * 7 + i / 251) & 0xff, f);
	assert_int_equal(fclose(f), 0);
}

static void
test_sizes(void **state)
{
	static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, 3000000 };
	struct kv_bytes b = { 0 };

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(sizes); i++) {
		make_file(sizes[i]);
		kv_bytes_reset(&b);
		assert_int_equal(kv_bytes_append(&b, "ab", 2), 0);
		assert_int_equal(kv_filein_read(&b, "f", true, NULL), 0);
		assert_int_equal(b.len, 2 + sizes[i]);
		assert_memory_equal(b.data, "ab", 2);
		for (size_t j = 0; j < sizes[i]; j++)
			assert_int_equal(b.data[2 + j],
					 (j * 7 + j / 251) & 0xff);
	}
	kv_bytes_fini(&b);
}

static void
test_no_size_known_beforehand(void **state)
{
	struct kv_bytes b = { 0 };

	(void)state;
	/* A regular file of "0 bytes" that has some. */
	assert_int_equal(kv_filein_read(&b, "/proc/self/status", true, NULL),
			 0);
	assert_true(b.len > 100);
	kv_bytes_fini(&b);
}

static void
count_piece(void *arg, size_t bytes)
{
	size_t *n = arg;

	n[0]++;
	n[1] += bytes;
}

/* A large file comes in pieces, so that there is something to tell; a terminal
 * shows already what is typed. */
static void
test_watched(void **state)
{
	size_t n[2] = { 0, 0 };
	const struct kv_progress_watch w = { count_piece, n };
	struct kv_bytes b = { 0 };
	char name[64];
	int keyboard, tty;

	(void)state;
	make_file(0);
	assert_int_equal(truncate("f", 20 << 20), 0);
	assert_int_equal(kv_filein_read(&b, "f", true, &w), 0);
	assert_int_equal(b.len, 20 << 20);
	assert_true(n[0] >= 3);
	assert_int_equal(n[1], b.len);

	n[0] = 0;
	if (openpty(&keyboard, &tty, NULL, NULL, NULL) < 0)
		skip();
	assert_int_equal(ttyname_r(tty, name, sizeof(name)), 0);
	assert_int_equal(write(keyboard, "typed\n\4", 7), 7);
	kv_bytes_reset(&b);
	assert_int_equal(kv_filein_read(&b, name, true, &w), 0);
	assert_int_equal(b.len, 6);
	assert_int_equal(n[0], 0);
	close(keyboard);
	close(tty);
	kv_bytes_fini(&b);
}

static void
test_fifo(void **state)
{
	struct kv_bytes b = { 0 };
	int fd, status;
	pid_t pid;

	(void)state;
	make_file(200000);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fd = open("fifo", O_WRONLY);
		for (int i = 0; i < 200000; i += 1000)
			if (write(fd, dir, 10) != 10)
				_exit(1);
		_exit(0);
	}
	assert_int_equal(kv_filein_read(&b, "fifo", true, NULL), 0);
	assert_int_equal(b.len, 2000);
	assert_memory_equal(b.data + 1990, dir, 10);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	kv_bytes_fini(&b);
}

static void
test_failures_leave_the_buffer(void **state)
{
	struct kv_bytes b = { 0 };

	(void)state;
	assert_int_equal(kv_bytes_append(&b, "ab", 2), 0);
	assert_int_equal(kv_filein_read(&b, "absent", true, NULL), -ENOENT);
	assert_int_equal(kv_filein_read(&b, ".", true, NULL), -EISDIR);
	assert_int_equal(kv_filein_read(&b, "-", false, NULL), -ENOENT);
	/* Larger than what is taken; nothing is read of it. */
	make_file(0);
	assert_int_equal(truncate("f", (off_t)KV_FILEIN_BYTES_MAX + 1), 0);
	assert_int_equal(kv_filein_read(&b, "f", true, NULL), -EFBIG);
	assert_int_equal(b.len, 2);
	kv_bytes_fini(&b);
}

/* Somebody writes while we read: what came may be half of each. */
static void
test_changing_file_is_refused(void **state)
{
	struct kv_bytes b = { 0 };
	int rc = 0, fd;
	pid_t pid;

	(void)state;
	make_file(4 << 20);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fd = open("f", O_WRONLY | O_APPEND);
		while (write(fd, "x", 1) == 1)
			usleep(50);
		_exit(1);
	}
	for (int i = 0; i < 1000 && rc == 0; i++) {
		kv_bytes_reset(&b);
		rc = kv_filein_read(&b, "f", true, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(rc, -ESTALE);
	assert_int_equal(b.len, 0);
	kv_bytes_fini(&b);
}

static void
test_text(void **state)
{
	char buf[16];

	(void)state;
	make_file(10);
	assert_int_equal(kv_filein_text("f", buf, sizeof(buf)), 10);
	assert_int_equal(kv_filein_text("f", buf, 4), 4);
	assert_int_equal(kv_filein_text("nothing", buf, 4), -ENOENT);
	assert_int_equal(kv_filein_text(".", buf, 4), -EISDIR);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_no_size_known_beforehand),
		cmocka_unit_test(test_watched),
		cmocka_unit_test(test_fifo),
		cmocka_unit_test(test_failures_leave_the_buffer),
		cmocka_unit_test(test_changing_file_is_refused),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

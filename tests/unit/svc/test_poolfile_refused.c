/* A pool in a file: what is refused, and left as it is. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "poolfilerig.h"
#include "store/ledger.h"
#include "test.h"

static uint32_t
life_of(struct kv_poolfile *p)
{
	return kv_ledger_head(kv_poolfile_ledger(p))->life;
}

/* Refused with these words, and both files are what they were. */
static void
refused(int rc, const char *words)
{
	uint64_t before = poolfilerig_size(pool_path),
		 index_before = poolfilerig_size(pool_index_path);
	static uint8_t old[64 << 10], new[64 << 10];
	struct kv_poolfile *p;
	ssize_t n = 0;
	int fd = open(pool_index_path, O_RDONLY);

	if (fd >= 0)
		n = pread(fd, old, sizeof(old), 0);
	if (n < 0)
		n = 0; /* a directory */
	assert_int_equal(poolfilerig_try(POOL_BYTES, &p), rc);
	if (!strstr(pool_err, words))
		fail_msg("no \"%s\" in: %s", words, pool_err);
	assert_int_equal(poolfilerig_size(pool_path), before);
	assert_int_equal(poolfilerig_size(pool_index_path), index_before);
	if (fd >= 0) {
		assert_true(n == 0 || pread(fd, new, sizeof(new), 0) == n);
		assert_memory_equal(old, new, (size_t)n);
		close(fd);
	}
}

static void
foreign_files_are_left_alone(void **state)
{
	struct kv_poolfile *p;

	(void)state;
	poolfilerig_write(pool_path, 0, "precious", 8);
	refused(-EINVAL, "no index beside it");
	assert_int_equal(poolfilerig_size(pool_index_path), UINT64_MAX);
	poolfilerig_write(pool_index_path, 0, "something", 9);
	refused(-EINVAL, "its index is damaged, or something else");
	unlink(pool_path);
	refused(-EINVAL, "its index is damaged, or something else");
	assert_int_equal(poolfilerig_size(pool_path), UINT64_MAX);
	unlink(pool_index_path);
	poolfilerig_write(pool_path, 0, "precious", 8);
	poolfilerig_write(pool_index_path, 0, "", 0);
	refused(-EINVAL, "its index is damaged, or something else");
	unlink(pool_path);
	unlink(pool_index_path);
	/* Another pool's file. */
	p = poolfilerig_open(POOL_BYTES);
	kv_poolfile_close(p);
	unlink(pool_path);
	poolfilerig_write(pool_path, 0, "precious", 8);
	refused(-EINVAL, "belongs to another file");
}

static void
a_head_damaged_twice_is_refused(void **state)
{
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES);
	const uint8_t noise[4096] = { 1, 2, 3 };

	(void)state;
	kv_poolfile_close(p);
	poolfilerig_write(pool_index_path, 0, noise, sizeof(noise));
	p = poolfilerig_open(POOL_BYTES);
	assert_int_equal(life_of(p), 2);
	kv_poolfile_close(p);
	poolfilerig_write(pool_index_path, 0, noise, sizeof(noise));
	poolfilerig_write(pool_index_path, 4096, noise, sizeof(noise));
	refused(-EINVAL, "its index is damaged");
}

static void
a_later_format_is_refused(void **state)
{
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES);

	(void)state;
	kv_poolfile_close(p);
	poolfilerig_write(pool_index_path, 8, "\x02", 1);
	refused(-EPROTONOSUPPORT,
		"a later version: format 2, this one knows 1");
	poolfilerig_write(pool_index_path, 8, "\x01", 1);
	poolfilerig_write(pool_index_path, 4096 + 8, "\x09", 1);
	refused(-EPROTONOSUPPORT, "format 9");
}

static void
a_pool_in_use_is_refused_with_its_pid(void **state)
{
	struct kv_poolfile *p;
	char words[64];
	int to[2], from[2];
	char c = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(to) | pipe(from), 0);
	pid = fork();
	if (pid == 0) {
		if (poolfilerig_try(POOL_BYTES, &p) < 0)
			_exit(1);
		if (write(from[1], "", 1) != 1 || read(to[0], &c, 1) != 1)
			_exit(2);
		_exit(0);
	}
	assert_int_equal(read(from[0], &c, 1), 1);
	snprintf(words, sizeof(words), "is in use by pid %d", (int)pid);
	refused(-EBUSY, words);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	p = poolfilerig_open(POOL_BYTES);
	assert_int_equal(life_of(p), 2);
	kv_poolfile_close(p);
	close(to[0]);
	close(to[1]);
	close(from[0]);
	close(from[1]);
}

static void
what_is_no_file_is_refused(void **state)
{
	struct kv_poolfile *p;

	(void)state;
	assert_int_equal(mkdir(pool_path, 0700), 0);
	refused(-EINVAL, "not a regular file");
	rmdir(pool_path);
	assert_int_equal(mkdir(pool_index_path, 0700), 0);
	refused(-EISDIR, "cannot open");
	assert_int_equal(poolfilerig_size(pool_path), UINT64_MAX);
	rmdir(pool_index_path);
	strcat(pool_folder, "/nowhere/pool");
	{
		const struct kv_poolfile_opts o = { pool_folder, POOL_BYTES,
						    NULL };

		assert_int_equal(
			kv_poolfile_open(&o, &p, pool_err, sizeof(pool_err)),
			-ENOENT);
	}
	pool_folder[strlen(pool_folder) - strlen("/nowhere/pool")] = 0;
}

static void
another_users_file_is_refused(void **state)
{
	struct kv_poolfile *p;

	(void)state;
	if (geteuid() != 0)
		skip();
	poolfilerig_write(pool_path, 0, "", 0);
	assert_int_equal(chown(pool_path, 1, 1), 0);
	refused(-EPERM, "belongs to another user, uid 1");
	assert_int_equal(poolfilerig_size(pool_index_path), UINT64_MAX);
	assert_int_equal(chown(pool_path, 0, 0), 0);
	p = poolfilerig_open(POOL_BYTES);
	kv_poolfile_close(p);
	assert_int_equal(chown(pool_index_path, 1, 1), 0);
	refused(-EPERM, "belongs to another user, uid 1");
}

static void
nobody_else_may_open_it(void **state)
{
	struct kv_poolfile *p;
	struct stat st;

	(void)state;
	poolfilerig_write(pool_path, 0, "", 0);
	assert_int_equal(chmod(pool_path, 0666), 0);
	p = poolfilerig_open(POOL_BYTES);
	kv_poolfile_close(p);
	assert_int_equal(stat(pool_path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(chmod(pool_index_path, 0644), 0);
	p = poolfilerig_open(POOL_BYTES);
	kv_poolfile_close(p);
	assert_int_equal(stat(pool_index_path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void
a_pool_that_does_not_fit_leaves_nothing(void **state)
{
	struct kv_poolfile *p;

	(void)state;
	if (!pool_is_mounted)
		skip();
	assert_int_equal(poolfilerig_try(64 * MIB, &p), -ENOSPC);
	assert_non_null(strstr(pool_err, "does not fit"));
	assert_int_equal(poolfilerig_size(pool_path), UINT64_MAX);
	assert_int_equal(poolfilerig_size(pool_index_path), UINT64_MAX);
	p = poolfilerig_open(POOL_BYTES);
	kv_poolfile_close(p);
	/* One that was there stays. */
	assert_int_equal(poolfilerig_try(64 * MIB, &p), -ENOSPC);
	assert_int_equal(poolfilerig_size(pool_path), POOL_BYTES);
	p = poolfilerig_open(POOL_BYTES);
	assert_false(kv_poolfile_is_void(p));
	kv_poolfile_close(p);
}

static void
a_file_system_that_is_read_only_is_told(void **state)
{
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES);

	(void)state;
	kv_poolfile_close(p);
	if (!pool_is_mounted ||
	    mount("kv_test", pool_folder, "tmpfs", MS_REMOUNT | MS_RDONLY, ""))
		skip();
	refused(-EROFS, "cannot open");
	unlink(pool_path);
	assert_int_equal(poolfilerig_try(POOL_BYTES, &p), -EROFS);
	assert_int_equal(
		mount("kv_test", pool_folder, "tmpfs", MS_REMOUNT, "size=32m"),
		0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		POOLFILERIG_TEST(foreign_files_are_left_alone),
		POOLFILERIG_TEST(a_head_damaged_twice_is_refused),
		POOLFILERIG_TEST(a_later_format_is_refused),
		POOLFILERIG_TEST(a_pool_in_use_is_refused_with_its_pid),
		POOLFILERIG_TEST(what_is_no_file_is_refused),
		POOLFILERIG_TEST(another_users_file_is_refused),
		POOLFILERIG_TEST(nobody_else_may_open_it),
		POOLFILERIG_TEST(a_pool_that_does_not_fit_leaves_nothing),
		POOLFILERIG_TEST(a_file_system_that_is_read_only_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

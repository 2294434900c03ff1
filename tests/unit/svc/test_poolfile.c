/* A pool in a file: what is opened, what is refused and left as it is, and who
 * is seen to be attached. */

#include "svc/poolfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/log.h"
#include "mem/seg.h"
#include "nth_fault.h"
#include "store/ledger.h"
#include "test.h"

#define MIB   (UINT64_C(1) << 20)
#define BYTES (4 * MIB)

static char folder[64], path[96], index_path[96], err[512];
static bool is_mounted;

static int
setup(void **state)
{
	(void)state;
	kv_log_set_level(KV_LOG_ERR);
	snprintf(folder, sizeof(folder), "/tmp/kv.test_poolfile.XXXXXX");
	assert_non_null(mkdtemp(folder));
	is_mounted = mount("kv_test", folder, "tmpfs", 0, "size=32m") == 0;
	snprintf(path, sizeof(path), "%s/pool", folder);
	snprintf(index_path, sizeof(index_path), "%s/pool.index", folder);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	unlink(path);
	unlink(index_path);
	umount2(folder, MNT_DETACH);
	assert_int_equal(rmdir(folder), 0);
	return 0;
}

static int
try_open(uint64_t bytes, struct kv_poolfile **p)
{
	const struct kv_poolfile_opts o = { .path = path, .bytes = bytes };

	err[0] = 0;
	*p = NULL;
	return kv_poolfile_open(&o, p, err, sizeof(err));
}

static struct kv_poolfile *
open_ok(uint64_t bytes)
{
	struct kv_poolfile *p;
	int rc = try_open(bytes, &p);

	if (rc < 0)
		fail_msg("%s", err);
	return p;
}

static uint64_t
size_of(const char *name)
{
	struct stat st;

	return stat(name, &st) ? UINT64_MAX : (uint64_t)st.st_size;
}

static uint32_t
life_of(struct kv_poolfile *p)
{
	return kv_ledger_head(kv_poolfile_ledger(p))->life;
}

/* Refused with these words, and both files are what they were. */
static void
refused(int rc, const char *words)
{
	uint64_t before = size_of(path), index_before = size_of(index_path);
	static uint8_t old[64 << 10], new[64 << 10];
	struct kv_poolfile *p;
	ssize_t n = 0;
	int fd = open(index_path, O_RDONLY);

	if (fd >= 0)
		n = pread(fd, old, sizeof(old), 0);
	if (n < 0)
		n = 0; /* a directory */
	assert_int_equal(try_open(BYTES, &p), rc);
	if (!strstr(err, words))
		fail_msg("no \"%s\" in: %s", words, err);
	assert_int_equal(size_of(path), before);
	assert_int_equal(size_of(index_path), index_before);
	if (fd >= 0) {
		assert_true(n == 0 || pread(fd, new, sizeof(new), 0) == n);
		assert_memory_equal(old, new, (size_t)n);
		close(fd);
	}
}

static void
file_write(const char *name, off_t off, const void *bytes, size_t n)
{
	int fd = open(name, O_RDWR | O_CREAT, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, off), n);
	close(fd);
}

/* ---- whole lives ---- */

static void
a_pool_is_made_and_found_again(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES);
	struct kv_id pool = kv_ledger_head(kv_poolfile_ledger(p))->pool;
	struct kv_seg *seg = kv_poolfile_seg(p);
	struct stat st;

	(void)state;
	assert_true(kv_poolfile_is_void(p));
	assert_int_equal(life_of(p), 1);
	assert_int_equal(seg->bytes, BYTES);
	assert_int_equal(size_of(path), BYTES);
	assert_int_equal(size_of(index_path), MIB);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_false(kv_id_is_zero(pool));
	assert_int_equal(kv_seg_populate(seg, 0, BYTES), 0);
	seg->base[12345] = 7;
	kv_poolfile_close(p);
	kv_poolfile_close(NULL);
	p = open_ok(BYTES);
	assert_false(kv_poolfile_is_void(p));
	assert_int_equal(life_of(p), 2);
	assert_true(kv_id_is_equal(kv_ledger_head(kv_poolfile_ledger(p))->pool,
				   pool));
	assert_int_equal(kv_poolfile_seg(p)->base[12345], 7);
	kv_poolfile_close(p);
}

static void
it_grows_and_shrinks(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES);

	(void)state;
	kv_poolfile_close(p);
	p = open_ok(2 * BYTES);
	assert_int_equal(size_of(path), 2 * BYTES);
	kv_poolfile_close(p);
	p = open_ok(BYTES / 2);
	assert_int_equal(kv_poolfile_seg(p)->bytes, BYTES / 2);
	/* Somebody may still read what lies beyond. */
	assert_int_equal(size_of(path), 2 * BYTES);
	kv_poolfile_settled(p);
	assert_int_equal(size_of(path), BYTES / 2);
	kv_poolfile_settled(p);
	kv_poolfile_close(p);
}

static void
what_is_there_of_it_is_known(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES);

	(void)state;
	if (!is_mounted)
		skip();
	assert_int_equal(kv_poolfile_data_end(p, 0), 0);
	assert_int_equal(kv_seg_populate(kv_poolfile_seg(p), 0, BYTES), 0);
	kv_poolfile_close(p);
	p = open_ok(BYTES);
	assert_int_equal(kv_poolfile_data_end(p, 4096), BYTES);
	assert_int_equal(kv_poolfile_data_end(p, BYTES), BYTES);
	assert_int_equal(fallocate(kv_poolfile_seg(p)->fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   (off_t)MIB, (off_t)MIB),
			 0);
	assert_int_equal(kv_poolfile_data_end(p, 4096), MIB);
	assert_int_equal(kv_poolfile_data_end(p, MIB), MIB);
	assert_int_equal(kv_poolfile_data_end(p, 2 * MIB + 5), BYTES);
	kv_poolfile_close(p);
	assert_int_equal(truncate(path, 3 * MIB + 17), 0);
	p = open_ok(BYTES);
	assert_int_equal(size_of(path), BYTES);
	assert_int_equal(kv_poolfile_data_end(p, 2 * MIB), 3 * MIB + 17);
	assert_int_equal(kv_poolfile_data_end(p, 3 * MIB + 17), 3 * MIB + 17);
	kv_poolfile_close(p);
}

/* A kill while the two files are made leaves what the next one can use. */
static void
a_beginning_that_was_cut_short_is_none(void **state)
{
	struct kv_poolfile *p;

	(void)state;
	file_write(path, 0, "", 0);
	p = open_ok(BYTES);
	kv_poolfile_close(p);
	unlink(path);
	unlink(index_path);
	file_write(path, 0, "", 0);
	file_write(index_path, 0, "", 0);
	p = open_ok(BYTES);
	kv_poolfile_close(p);
	unlink(path);
	unlink(index_path);
	file_write(index_path, 0, (uint8_t[5000]){ 0 }, 5000);
	p = open_ok(BYTES);
	assert_true(kv_poolfile_is_void(p));
	kv_poolfile_close(p);
}

static void
an_index_without_its_pool_begins_anew(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES);

	(void)state;
	kv_poolfile_close(p);
	unlink(path);
	p = open_ok(BYTES);
	assert_true(kv_poolfile_is_void(p));
	assert_int_equal(life_of(p), 2);
	kv_poolfile_close(p);
	/* Cut to nothing it is still the same. */
	assert_int_equal(truncate(path, 0), 0);
	p = open_ok(BYTES);
	assert_false(kv_poolfile_is_void(p));
	assert_int_equal(kv_poolfile_data_end(p, 0), 0);
	kv_poolfile_close(p);
}

static void
an_index_that_was_cut_is_long_again(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES);
	uint32_t slot = KV_RECORD_SLOT_MIN + 5;

	(void)state;
	assert_int_equal(
		kv_record_state(kv_ledger_file(kv_poolfile_ledger(p)), slot),
		KV_RECORD_FREE);
	kv_poolfile_close(p);
	assert_int_equal(truncate(index_path, slot * KV_RECORD_BYTES), 0);
	p = open_ok(BYTES);
	assert_int_equal(size_of(index_path), MIB);
	assert_int_equal(
		kv_record_state(kv_ledger_file(kv_poolfile_ledger(p)), slot),
		KV_RECORD_BROKEN);
	kv_poolfile_close(p);
}

/* ---- what is refused ---- */

static void
foreign_files_are_left_alone(void **state)
{
	struct kv_poolfile *p;

	(void)state;
	file_write(path, 0, "precious", 8);
	refused(-EINVAL, "no index beside it");
	assert_int_equal(size_of(index_path), UINT64_MAX);
	file_write(index_path, 0, "something", 9);
	refused(-EINVAL, "its index is damaged, or something else");
	unlink(path);
	refused(-EINVAL, "its index is damaged, or something else");
	assert_int_equal(size_of(path), UINT64_MAX);
	unlink(index_path);
	file_write(path, 0, "precious", 8);
	file_write(index_path, 0, "", 0);
	refused(-EINVAL, "its index is damaged, or something else");
	unlink(path);
	unlink(index_path);
	/* Another pool's file. */
	p = open_ok(BYTES);
	kv_poolfile_close(p);
	unlink(path);
	file_write(path, 0, "precious", 8);
	refused(-EINVAL, "belongs to another file");
}

static void
a_head_damaged_twice_is_refused(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES);
	const uint8_t noise[4096] = { 1, 2, 3 };

	(void)state;
	kv_poolfile_close(p);
	file_write(index_path, 0, noise, sizeof(noise));
	p = open_ok(BYTES);
	assert_int_equal(life_of(p), 2);
	kv_poolfile_close(p);
	file_write(index_path, 0, noise, sizeof(noise));
	file_write(index_path, 4096, noise, sizeof(noise));
	refused(-EINVAL, "its index is damaged");
}

static void
a_later_format_is_refused(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES);

	(void)state;
	kv_poolfile_close(p);
	file_write(index_path, 8, "\x02", 1);
	refused(-EPROTONOSUPPORT,
		"a later version: format 2, this one knows 1");
	file_write(index_path, 8, "\x01", 1);
	file_write(index_path, 4096 + 8, "\x09", 1);
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
		if (try_open(BYTES, &p) < 0)
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
	p = open_ok(BYTES);
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
	assert_int_equal(mkdir(path, 0700), 0);
	refused(-EINVAL, "not a regular file");
	rmdir(path);
	assert_int_equal(mkdir(index_path, 0700), 0);
	refused(-EISDIR, "cannot open");
	assert_int_equal(size_of(path), UINT64_MAX);
	rmdir(index_path);
	strcat(folder, "/nowhere/pool");
	{
		const struct kv_poolfile_opts o = { folder, BYTES, NULL };

		assert_int_equal(kv_poolfile_open(&o, &p, err, sizeof(err)),
				 -ENOENT);
	}
	folder[strlen(folder) - strlen("/nowhere/pool")] = 0;
}

static void
another_users_file_is_refused(void **state)
{
	struct kv_poolfile *p;

	(void)state;
	if (geteuid() != 0)
		skip();
	file_write(path, 0, "", 0);
	assert_int_equal(chown(path, 1, 1), 0);
	refused(-EPERM, "belongs to another user, uid 1");
	assert_int_equal(size_of(index_path), UINT64_MAX);
	assert_int_equal(chown(path, 0, 0), 0);
	p = open_ok(BYTES);
	kv_poolfile_close(p);
	assert_int_equal(chown(index_path, 1, 1), 0);
	refused(-EPERM, "belongs to another user, uid 1");
}

static void
nobody_else_may_open_it(void **state)
{
	struct kv_poolfile *p;
	struct stat st;

	(void)state;
	file_write(path, 0, "", 0);
	assert_int_equal(chmod(path, 0666), 0);
	p = open_ok(BYTES);
	kv_poolfile_close(p);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(chmod(index_path, 0644), 0);
	p = open_ok(BYTES);
	kv_poolfile_close(p);
	assert_int_equal(stat(index_path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void
a_pool_that_does_not_fit_leaves_nothing(void **state)
{
	struct kv_poolfile *p;

	(void)state;
	if (!is_mounted)
		skip();
	assert_int_equal(try_open(64 * MIB, &p), -ENOSPC);
	assert_non_null(strstr(err, "does not fit"));
	assert_int_equal(size_of(path), UINT64_MAX);
	assert_int_equal(size_of(index_path), UINT64_MAX);
	p = open_ok(BYTES);
	kv_poolfile_close(p);
	/* One that was there stays. */
	assert_int_equal(try_open(64 * MIB, &p), -ENOSPC);
	assert_int_equal(size_of(path), BYTES);
	p = open_ok(BYTES);
	assert_false(kv_poolfile_is_void(p));
	kv_poolfile_close(p);
}

static void
a_file_system_that_is_read_only_is_told(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES);

	(void)state;
	kv_poolfile_close(p);
	if (!is_mounted ||
	    mount("kv_test", folder, "tmpfs", MS_REMOUNT | MS_RDONLY, ""))
		skip();
	refused(-EROFS, "cannot open");
	unlink(path);
	assert_int_equal(try_open(BYTES, &p), -EROFS);
	assert_int_equal(
		mount("kv_test", folder, "tmpfs", MS_REMOUNT, "size=32m"), 0);
}

/* ---- the index grows ---- */

static int
reserve(struct kv_poolfile *p, unsigned i)
{
	char key[16];
	struct kv_record r = {
		.tenant = "default",
		.tenant_len = 7,
		.key = key,
	};
	uint32_t slot;

	r.key_len = (uint16_t)snprintf(key, sizeof(key), "k%u", i);
	r.hash = kv_key_hash(kv_key_seed("", 0), key, r.key_len);
	return kv_ledger_reserve(kv_poolfile_ledger(p), &r, false, &slot);
}

static void
the_index_grows_as_long_as_there_is_room(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES);
	unsigned i = 0, tries;
	int rc = 0;

	(void)state;
	if (!is_mounted)
		skip();
	while (rc == 0 && i < 200000)
		rc = reserve(p, i++);
	assert_int_equal(rc, -ENOSPC);
	/* 32 MiB are full; the pool has not touched its own yet. */
	assert_true(size_of(index_path) >= 30 * MIB);
	assert_int_equal(
		mount("kv_test", folder, "tmpfs", MS_REMOUNT, "size=64m"), 0);
	/* Which it looks for once a second. */
	for (tries = 0; tries < 100 && reserve(p, i) == -ENOSPC; tries++)
		usleep(100000);
	assert_in_range(tries, 1, 99);
	kv_poolfile_close(p);
	p = open_ok(BYTES);
	assert_int_equal(kv_ledger_head(kv_poolfile_ledger(p))->slots_end *
				 (uint64_t)KV_RECORD_BYTES,
			 size_of(index_path));
	kv_poolfile_close(p);
}

/* ---- another kernel ---- */

static void
boot_id_write(const char *root, const char *id)
{
	char dir[160];
	FILE *f;

	snprintf(dir, sizeof(dir), "mkdir -p %s/proc/sys/kernel/random", root);
	assert_int_equal(system(dir), 0);
	snprintf(dir, sizeof(dir), "%s/proc/sys/kernel/random/boot_id", root);
	f = fopen(dir, "we");
	assert_non_null(f);
	fprintf(f, "%s\n", id);
	fclose(f);
}

static bool
is_void_under(const char *root)
{
	const struct kv_poolfile_opts o = { path, BYTES, root };
	struct kv_poolfile *p;
	bool is_void;

	if (kv_poolfile_open(&o, &p, err, sizeof(err)) < 0)
		fail_msg("%s", err);
	is_void = kv_poolfile_is_void(p);
	kv_poolfile_close(p);
	return is_void;
}

static void
another_kernel_is_noticed(void **state)
{
	const char *one = "11111111-2222-3333-4444-555555555555";
	const char *two = "11111111-2222-3333-4444-555555555556";
	char root[128], cmd[160];

	(void)state;
	snprintf(root, sizeof(root), "%s/root", folder);
	boot_id_write(root, one);
	assert_true(is_void_under(root));
	assert_false(is_void_under(root));
	boot_id_write(root, two);
	assert_true(is_void_under(root));
	assert_false(is_void_under(root));
	boot_id_write(root, "short");
	kv_log_set_level(KV_LOG_ERR - 1);
	assert_true(is_void_under(root));
	assert_true(is_void_under(root));
	kv_log_set_level(KV_LOG_ERR);
	snprintf(cmd, sizeof(cmd), "rm -r %s", root);
	assert_int_equal(system(cmd), 0);
}

/* ---- who is attached ---- */

static void
attachments_are_seen_until_their_last_mapping(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES), *q;
	const struct kv_seg_attach_opts o = { .bytes = BYTES };
	struct kv_seg *seg;
	int a, b, c;

	(void)state;
	a = kv_poolfile_attach(p, true);
	b = kv_poolfile_attach(p, false);
	assert_true(a >= 0 && b >= 0);
	assert_int_equal(fcntl(a, F_GETFL) & O_ACCMODE, O_RDWR);
	assert_int_equal(fcntl(b, F_GETFL) & O_ACCMODE, O_RDONLY);
	/* The same open file, as a descriptor that is passed on. */
	c = dup(b);
	assert_int_equal(kv_seg_attach(c, &o, &seg, err, sizeof(err)), 0);
	kv_poolfile_close(p);
	q = open_ok(BYTES);
	assert_true(kv_poolfile_is_attached(q, 1, 1));
	assert_false(kv_poolfile_is_attached(q, 2, 100));
	kv_poolfile_close(q);
	q = open_ok(BYTES);
	assert_true(kv_poolfile_is_attached(q, 1, 2));
	assert_false(kv_poolfile_is_attached(q, 2, 2));
	close(a);
	close(b);
	assert_true(kv_poolfile_is_attached(q, 1, 1));
	/* Of the descriptor nothing is left, but of the mapping. */
	assert_int_equal(mprotect(seg->base, BYTES, PROT_NONE), 0);
	assert_true(kv_poolfile_is_attached(q, 1, 1));
	kv_seg_close(seg);
	assert_false(kv_poolfile_is_attached(q, 1, 1));
	kv_poolfile_close(q);
}

static void
a_killed_process_is_not_attached(void **state)
{
	struct kv_poolfile *p = open_ok(BYTES);
	int fd = kv_poolfile_attach(p, true), wait;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		pause();
		_exit(0);
	}
	close(fd);
	kv_poolfile_close(p);
	p = NULL;
	/* The child has inherited the lock of the pool as well. */
	assert_int_equal(try_open(BYTES, &p), -EBUSY);
	kill(pid, SIGKILL);
	waitpid(pid, &wait, 0);
	p = open_ok(BYTES);
	assert_false(kv_poolfile_is_attached(p, 1, 1));
	kv_poolfile_close(p);
}

/* ---- want of memory, descriptors, space ---- */

static int
open_with_faults(void)
{
	struct kv_poolfile *p;
	int rc = try_open(BYTES, &p);
	int fd = -1;

	if (rc < 0)
		return err[0] ? 1 : 3;
	fd = kv_poolfile_attach(p, true);
	kv_poolfile_close(p);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? 2 : 0;
}

static void
each_failure_leaves_nothing_or_a_pool(void **state)
{
	unsigned n = 0, i, seen = 0, good;
	int rc;

	setup(state);
	do {
		/* New, and again. */
		n++;
		good = 0;
		for (i = 0; i < 2; i++) {
			rc = nth_fault_run(n, open_with_faults);
			assert_true(rc <= 2);
			seen |= 1u << rc;
			good += rc == 0;
		}
		assert_int_equal(nth_fault_run(100000, open_with_faults), 0);
		unlink(path);
		unlink(index_path);
	} while (good < 2 && n < 100);
	assert_int_equal(seen, 7);
	teardown(state);
}

int
main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		nth_fault_test(each_failure_leaves_nothing_or_a_pool),
		TEST(a_pool_is_made_and_found_again),
		TEST(it_grows_and_shrinks),
		TEST(what_is_there_of_it_is_known),
		TEST(a_beginning_that_was_cut_short_is_none),
		TEST(an_index_without_its_pool_begins_anew),
		TEST(an_index_that_was_cut_is_long_again),
		TEST(foreign_files_are_left_alone),
		TEST(a_head_damaged_twice_is_refused),
		TEST(a_later_format_is_refused),
		TEST(a_pool_in_use_is_refused_with_its_pid),
		TEST(what_is_no_file_is_refused),
		TEST(another_users_file_is_refused),
		TEST(nobody_else_may_open_it),
		TEST(a_pool_that_does_not_fit_leaves_nothing),
		TEST(a_file_system_that_is_read_only_is_told),
		TEST(the_index_grows_as_long_as_there_is_room),
		TEST(another_kernel_is_noticed),
		TEST(attachments_are_seen_until_their_last_mapping),
		TEST(a_killed_process_is_not_attached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

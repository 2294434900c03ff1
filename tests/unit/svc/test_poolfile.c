/* A pool in a file: its lives, its index, who is seen to be attached. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "mem/seg.h"
#include "nth_fault.h"
#include "poolfilerig.h"
#include "store/ledger.h"
#include "test.h"

static uint32_t
life_of(struct kv_poolfile *p)
{
	return kv_ledger_head(kv_poolfile_ledger(p))->life;
}

/* ---- whole lives ---- */

static void
a_pool_is_made_and_found_again(void **state)
{
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES);
	struct kv_id pool = kv_ledger_head(kv_poolfile_ledger(p))->pool;
	struct kv_seg *seg = kv_poolfile_seg(p);
	struct stat st;

	(void)state;
	assert_true(kv_poolfile_is_void(p));
	assert_int_equal(life_of(p), 1);
	assert_int_equal(seg->bytes, POOL_BYTES);
	assert_int_equal(poolfilerig_size(pool_path), POOL_BYTES);
	assert_int_equal(poolfilerig_size(pool_index_path), MIB);
	assert_int_equal(stat(pool_path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_false(kv_id_is_zero(pool));
	assert_int_equal(kv_seg_populate(seg, 0, POOL_BYTES), 0);
	seg->base[12345] = 7;
	kv_poolfile_close(p);
	kv_poolfile_close(NULL);
	p = poolfilerig_open(POOL_BYTES);
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
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES);

	(void)state;
	kv_poolfile_close(p);
	p = poolfilerig_open(2 * POOL_BYTES);
	assert_int_equal(poolfilerig_size(pool_path), 2 * POOL_BYTES);
	kv_poolfile_close(p);
	p = poolfilerig_open(POOL_BYTES / 2);
	assert_int_equal(kv_poolfile_seg(p)->bytes, POOL_BYTES / 2);
	/* Somebody may still read what lies beyond. */
	assert_int_equal(poolfilerig_size(pool_path), 2 * POOL_BYTES);
	kv_poolfile_settled(p);
	assert_int_equal(poolfilerig_size(pool_path), POOL_BYTES / 2);
	kv_poolfile_settled(p);
	kv_poolfile_close(p);
}

static void
what_is_there_of_it_is_known(void **state)
{
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES);

	(void)state;
	if (!pool_is_mounted)
		skip();
	assert_int_equal(kv_poolfile_data_end(p, 0), 0);
	assert_int_equal(kv_seg_populate(kv_poolfile_seg(p), 0, POOL_BYTES), 0);
	kv_poolfile_close(p);
	p = poolfilerig_open(POOL_BYTES);
	assert_int_equal(kv_poolfile_data_end(p, 4096), POOL_BYTES);
	assert_int_equal(kv_poolfile_data_end(p, POOL_BYTES), POOL_BYTES);
	assert_int_equal(fallocate(kv_poolfile_seg(p)->fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   (off_t)MIB, (off_t)MIB),
			 0);
	assert_int_equal(kv_poolfile_data_end(p, 4096), MIB);
	assert_int_equal(kv_poolfile_data_end(p, MIB), MIB);
	assert_int_equal(kv_poolfile_data_end(p, 2 * MIB + 5), POOL_BYTES);
	kv_poolfile_close(p);
	assert_int_equal(truncate(pool_path, 3 * MIB + 17), 0);
	p = poolfilerig_open(POOL_BYTES);
	assert_int_equal(poolfilerig_size(pool_path), POOL_BYTES);
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
	poolfilerig_write(pool_path, 0, "", 0);
	p = poolfilerig_open(POOL_BYTES);
	kv_poolfile_close(p);
	unlink(pool_path);
	unlink(pool_index_path);
	poolfilerig_write(pool_path, 0, "", 0);
	poolfilerig_write(pool_index_path, 0, "", 0);
	p = poolfilerig_open(POOL_BYTES);
	kv_poolfile_close(p);
	unlink(pool_path);
	unlink(pool_index_path);
	poolfilerig_write(pool_index_path, 0, (uint8_t[5000]){ 0 }, 5000);
	p = poolfilerig_open(POOL_BYTES);
	assert_true(kv_poolfile_is_void(p));
	kv_poolfile_close(p);
}

static void
an_index_without_its_pool_begins_anew(void **state)
{
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES);

	(void)state;
	kv_poolfile_close(p);
	unlink(pool_path);
	p = poolfilerig_open(POOL_BYTES);
	assert_true(kv_poolfile_is_void(p));
	assert_int_equal(life_of(p), 2);
	kv_poolfile_close(p);
	/* Cut to nothing it is still the same. */
	assert_int_equal(truncate(pool_path, 0), 0);
	p = poolfilerig_open(POOL_BYTES);
	assert_false(kv_poolfile_is_void(p));
	assert_int_equal(kv_poolfile_data_end(p, 0), 0);
	kv_poolfile_close(p);
}

static void
an_index_that_was_cut_is_long_again(void **state)
{
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES);
	uint32_t slot = KV_RECORD_SLOT_MIN + 5;

	(void)state;
	assert_int_equal(
		kv_record_state(kv_ledger_file(kv_poolfile_ledger(p)), slot),
		KV_RECORD_FREE);
	kv_poolfile_close(p);
	assert_int_equal(truncate(pool_index_path, slot * KV_RECORD_BYTES), 0);
	p = poolfilerig_open(POOL_BYTES);
	assert_int_equal(poolfilerig_size(pool_index_path), MIB);
	assert_int_equal(
		kv_record_state(kv_ledger_file(kv_poolfile_ledger(p)), slot),
		KV_RECORD_BROKEN);
	kv_poolfile_close(p);
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
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES);
	unsigned i = 0, tries;
	int rc = 0;

	(void)state;
	if (!pool_is_mounted)
		skip();
	while (rc == 0 && i < 200000)
		rc = reserve(p, i++);
	assert_int_equal(rc, -ENOSPC);
	/* 32 MiB are full; the pool has not touched its own yet. */
	assert_true(poolfilerig_size(pool_index_path) >= 30 * MIB);
	assert_int_equal(
		mount("kv_test", pool_folder, "tmpfs", MS_REMOUNT, "size=64m"),
		0);
	/* Which it looks for once a second. */
	for (tries = 0; tries < 100 && reserve(p, i) == -ENOSPC; tries++)
		usleep(100000);
	assert_in_range(tries, 1, 99);
	kv_poolfile_close(p);
	p = poolfilerig_open(POOL_BYTES);
	assert_int_equal(kv_ledger_head(kv_poolfile_ledger(p))->slots_end *
				 (uint64_t)KV_RECORD_BYTES,
			 poolfilerig_size(pool_index_path));
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
	const struct kv_poolfile_opts o = { pool_path, POOL_BYTES, root };
	struct kv_poolfile *p;
	bool is_void;

	if (kv_poolfile_open(&o, &p, pool_err, sizeof(pool_err)) < 0)
		fail_msg("%s", pool_err);
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
	snprintf(root, sizeof(root), "%s/root", pool_folder);
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
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES), *q;
	const struct kv_seg_attach_opts o = { .bytes = POOL_BYTES };
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
	assert_int_equal(kv_seg_attach(c, &o, &seg, pool_err, sizeof(pool_err)),
			 0);
	kv_poolfile_close(p);
	q = poolfilerig_open(POOL_BYTES);
	assert_true(kv_poolfile_is_attached(q, 1, 1));
	assert_false(kv_poolfile_is_attached(q, 2, 100));
	kv_poolfile_close(q);
	q = poolfilerig_open(POOL_BYTES);
	assert_true(kv_poolfile_is_attached(q, 1, 2));
	assert_false(kv_poolfile_is_attached(q, 2, 2));
	close(a);
	close(b);
	assert_true(kv_poolfile_is_attached(q, 1, 1));
	/* Of the descriptor nothing is left, but of the mapping. */
	assert_int_equal(mprotect(seg->base, POOL_BYTES, PROT_NONE), 0);
	assert_true(kv_poolfile_is_attached(q, 1, 1));
	kv_seg_close(seg);
	assert_false(kv_poolfile_is_attached(q, 1, 1));
	kv_poolfile_close(q);
}

static void
a_killed_process_is_not_attached(void **state)
{
	struct kv_poolfile *p = poolfilerig_open(POOL_BYTES);
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
	assert_int_equal(poolfilerig_try(POOL_BYTES, &p), -EBUSY);
	kill(pid, SIGKILL);
	waitpid(pid, &wait, 0);
	p = poolfilerig_open(POOL_BYTES);
	assert_false(kv_poolfile_is_attached(p, 1, 1));
	kv_poolfile_close(p);
}

/* ---- want of memory, descriptors, space ---- */

static int
open_with_faults(void)
{
	struct kv_poolfile *p;
	int rc = poolfilerig_try(POOL_BYTES, &p);
	int fd = -1;

	if (rc < 0)
		return pool_err[0] ? 1 : 3;
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

	poolfilerig_setup(state);
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
		unlink(pool_path);
		unlink(pool_index_path);
	} while (good < 2 && n < 100);
	assert_int_equal(seen, 7);
	poolfilerig_teardown(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(each_failure_leaves_nothing_or_a_pool),
		POOLFILERIG_TEST(a_pool_is_made_and_found_again),
		POOLFILERIG_TEST(it_grows_and_shrinks),
		POOLFILERIG_TEST(what_is_there_of_it_is_known),
		POOLFILERIG_TEST(a_beginning_that_was_cut_short_is_none),
		POOLFILERIG_TEST(an_index_without_its_pool_begins_anew),
		POOLFILERIG_TEST(an_index_that_was_cut_is_long_again),
		POOLFILERIG_TEST(the_index_grows_as_long_as_there_is_room),
		POOLFILERIG_TEST(another_kernel_is_noticed),
		POOLFILERIG_TEST(attachments_are_seen_until_their_last_mapping),
		POOLFILERIG_TEST(a_killed_process_is_not_attached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

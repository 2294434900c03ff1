#include "mem/seg.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/num.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

static char err[512];

static void
assert_says(const char *what)
{
	if (!strstr(err, what))
		fail_msg("no \"%s\" in: %s", what, err);
}

static struct kv_seg *
open_memory(uint64_t bytes)
{
	const struct kv_seg_opts o = { .bytes = bytes };
	struct kv_seg *seg = NULL;

	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), 0);
	return seg;
}

static int
try_file(const char *path, uint64_t bytes, struct kv_seg **seg)
{
	const struct kv_seg_opts o = { .bytes = bytes, .path = path };

	err[0] = '\0';
	return kv_seg_open(&o, seg, err, sizeof(err));
}

static int
try_attach(int fd, uint64_t bytes, bool writable, bool sealed,
	   struct kv_seg **seg)
{
	const struct kv_seg_attach_opts o = { .bytes = bytes,
					      .writable = writable,
					      .sealed = sealed };

	err[0] = '\0';
	return kv_seg_attach(fd, &o, seg, err, sizeof(err));
}

static uint64_t
blocks_bytes(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* A directory, on a file system of its own when bytes > 0; "" for neither. */
static void
make_dir(char dir[64], uint64_t bytes)
{
	char options[64];

	snprintf(dir, 64, "/tmp/kv_seg.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(options, sizeof(options), "size=%ju", (uintmax_t)bytes);
	if (bytes && mount("kv_seg", dir, "tmpfs", 0, options)) {
		rmdir(dir);
		dir[0] = '\0';
	}
}

static void
remove_dir(const char *dir)
{
	umount2(dir, MNT_DETACH);
	assert_int_equal(rmdir(dir), 0);
}

static void
path_in(char path[96], const char *dir)
{
	snprintf(path, 96, "%s/pool", dir);
}

/* Whether a child finds that byte there; if nothing is there, it dies. */
static bool
child_sees(const unsigned char *p, unsigned char byte)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		_exit(*(const volatile unsigned char *)p == byte ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !WIFSIGNALED(status) && WEXITSTATUS(status);
}

static void
test_memory_is_shared_and_sealed(void **state)
{
	struct kv_seg *seg = open_memory(5 * MIB + 1);
	int seals = fcntl(seg->fd, F_GET_SEALS);

	(void)state;
	assert_int_equal(seg->bytes, 5 * MIB + seg->page_bytes);
	assert_int_equal((uintptr_t)seg->base % (2 * MIB), 0);
	assert_true(seg->writable && seg->sealed && !seg->in_file);
	assert_int_equal(seals, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_int_equal(ftruncate(seg->fd, MIB), -1);
	assert_int_equal(errno, EPERM);
	assert_true(fcntl(seg->fd, F_GETFD) & FD_CLOEXEC);
	kv_seg_close(seg);
	kv_seg_close(NULL);
}

static void
test_children_do_not_inherit(void **state)
{
	struct kv_seg *seg = open_memory(MIB);

	(void)state;
	assert_int_equal(kv_seg_populate(seg, 0, MIB), 0);
	seg->base[0] = 7;
	assert_false(child_sees(seg->base, 7));
	assert_int_equal(madvise(seg->base, MIB, MADV_DOFORK), 0);
	assert_true(child_sees(seg->base, 7));
	kv_seg_close(seg);
}

static void
check_populate(bool by_hand)
{
	struct kv_seg *seg = open_memory(8 * MIB);

	seg->by_hand |= by_hand;
	assert_int_equal(blocks_bytes(seg->fd), 0);
	assert_int_equal(kv_seg_populate(seg, 0, 0), 0);
	assert_int_equal(blocks_bytes(seg->fd), 0);
	assert_int_equal(kv_seg_populate(seg, 2 * MIB, 2 * MIB), 0);
	assert_true(blocks_bytes(seg->fd) >= 2 * MIB);
	assert_true(blocks_bytes(seg->fd) <= 6 * MIB);
	memset(seg->base + 2 * MIB, 7, 2 * MIB);
	assert_int_equal(kv_seg_populate(seg, 0, 8 * MIB), 0);
	assert_int_equal(blocks_bytes(seg->fd), 8 * MIB);
	assert_int_equal(seg->base[2 * MIB], 7);
	assert_int_equal(seg->base[4 * MIB - 1], 7);
	assert_int_equal(seg->base[4 * MIB], 0);
	kv_seg_close(seg);
}

static void
test_populate(void **state)
{
	(void)state;
	check_populate(false);
}

static void
test_populate_by_hand(void **state)
{
	(void)state;
	check_populate(true);
}

static void
test_populate_stops_before_memory_ends(void **state)
{
	char root[] = "/tmp/kv_seg.XXXXXX", path[64];
	struct kv_seg_opts o = { .bytes = 64 * MIB, .root = root };
	struct kv_seg *seg;
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(root));
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), 0);
	snprintf(path, sizeof(path), "%s/proc", root);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	f = fopen(path, "we");
	assert_non_null(f);
	fprintf(f, "MemAvailable: %ju kB\n", (uintmax_t)(40 * MIB / 1024));
	fclose(f);
	assert_int_equal(kv_seg_populate(seg, 0, 8 * MIB), 0);
	assert_int_equal(kv_seg_populate(seg, 8 * MIB, 16 * MIB), 0);
	assert_int_equal(kv_seg_populate(seg, 24 * MIB, 32 * MIB), -ENOMEM);
	kv_seg_close(seg);

	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), -ENOMEM);
	assert_says("40.0 MiB of memory are available");
	unlink(path);
	snprintf(path, sizeof(path), "%s/proc", root);
	rmdir(path);
	rmdir(root);
}

static void
test_open_refuses_nonsense(void **state)
{
	struct kv_seg_opts o = { .bytes = 0 };
	struct kv_seg *seg;

	(void)state;
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), -EINVAL);
	o.bytes = UINT64_MAX;
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), -EINVAL);
	o.bytes = UINT64_C(1) << 50;
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), -ENOMEM);
	assert_says("does not fit");
	o.bytes = MIB;
	o.path = "/tmp";
	o.hugepages = true;
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), -EINVAL);
	o.hugepages = false;
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), -EISDIR);
	o.path = "/dev/null";
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), -EINVAL);
	assert_says("/dev/null is not a regular file");
	o.path = "/nowhere/pool";
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), -ENOENT);
	assert_says("cannot open /nowhere/pool: No such file");
}

static void
test_limit_of_file_sizes(void **state)
{
	const struct kv_seg_opts o = { .bytes = 2 * MIB };
	struct rlimit old, tight;
	struct kv_seg *seg;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tight = (struct rlimit){ MIB, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), -EFBIG);
	assert_says("ulimit -f unlimited");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

static void
test_a_sparse_file_grows_with_its_pages(void **state)
{
	char dir[64], path[96];
	struct kv_seg_opts o = { .path = path, .sparse = true };
	struct rlimit old, tight;
	struct kv_seg *seg;
	struct stat st;

	(void)state;
	make_dir(dir, 0);
	path_in(path, dir);
	o.bytes = UINT64_C(1) << 40; /* more than there is room for */
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), 0);
	assert_int_equal(fstat(seg->fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(kv_seg_populate(seg, MIB, MIB), 0);
	assert_int_equal(fstat(seg->fd, &st), 0);
	assert_int_equal(st.st_size, 2 * MIB);
	seg->base[2 * MIB - 1] = 1;
	assert_int_equal(kv_seg_populate(seg, 0, MIB), 0);
	assert_int_equal(fstat(seg->fd, &st), 0);
	assert_int_equal(st.st_size, 2 * MIB);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tight = (struct rlimit){ 2 * MIB, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	assert_int_equal(kv_seg_populate(seg, 2 * MIB, MIB), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	kv_seg_close(seg);
	unlink(path);
	remove_dir(dir);
}

static void
test_no_huge_pages(void **state)
{
	const struct kv_seg_opts o = { .bytes = UINT64_C(1) << 40,
				       .hugepages = true };
	struct kv_seg *seg;

	(void)state;
	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), -ENOMEM);
	assert_says("needs 524288 huge pages");
	assert_says("/nr_hugepages");
}

static void
test_huge_pages(void **state)
{
	const struct kv_seg_opts o = { .bytes = 3 * MIB, .hugepages = true };
	struct kv_seg *seg, *other;
	int fd;

	(void)state;
	if (kv_seg_open(&o, &seg, err, sizeof(err))) {
		print_message("# %s\n", err);
		skip();
	}
	assert_int_equal(seg->bytes, 4 * MIB);
	assert_int_equal(seg->page_bytes, 2 * MIB);
	assert_int_equal(kv_seg_populate(seg, 0, 4 * MIB), 0);
	memset(seg->base, 3, 4 * MIB);
	fd = kv_seg_fd(seg, false);
	assert_int_equal(try_attach(fd, 4 * MIB, false, true, &other), 0);
	assert_int_equal(kv_seg_map_ahead(other, 5, 7), 0);
	assert_int_equal(other->base[4 * MIB - 1], 3);
	kv_seg_close(other);
	kv_seg_close(seg);
}

static void
test_attach_reads(void **state)
{
	struct kv_seg *seg = open_memory(4 * MIB), *reader;
	int fd = kv_seg_fd(seg, false);

	(void)state;
	assert_true(fd >= 0 && fd != seg->fd);
	assert_int_equal(try_attach(fd, 4 * MIB, true, true, &reader), -EACCES);
	assert_int_equal(try_attach(fd, 4 * MIB, false, true, &reader), 0);
	assert_int_equal((uintptr_t)reader->base % (2 * MIB), 0);
	assert_false(reader->writable);
	assert_int_equal(kv_seg_populate(seg, 0, 4 * MIB), 0);
	memset(seg->base + MIB, 9, MIB);
	assert_int_equal(kv_seg_map_ahead(reader, MIB + 100, 1000), 0);
	assert_int_equal(kv_seg_map_ahead(reader, 4 * MIB - 1, 1), 0);
	assert_int_equal(kv_seg_map_ahead(reader, 4 * MIB, 0), 0);
	assert_int_equal(reader->base[MIB + 5], 9);
	assert_int_equal(reader->base[0], 0);
	kv_seg_close(reader);
	kv_seg_close(seg);
}

static void
test_attach_writes(void **state)
{
	struct kv_seg *seg = open_memory(4 * MIB), *writer;
	int fd = kv_seg_fd(seg, true);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(kv_seg_populate(seg, 0, 4 * MIB), 0);
	assert_int_equal(try_attach(fd, 4 * MIB, true, true, &writer), 0);
	assert_int_equal(kv_seg_map_ahead(writer, 0, 2 * MIB), 0);
	memset(writer->base, 5, 4 * MIB);
	assert_int_equal(seg->base[0], 5);
	assert_int_equal(seg->base[4 * MIB - 1], 5);
	kv_seg_close(writer);
	kv_seg_close(seg);
}

/* The child maps for itself: it would not inherit the mapping. */
static void
test_reader_cannot_store(void **state)
{
	struct kv_seg *seg = open_memory(MIB), *reader;
	int fd = kv_seg_fd(seg, false), status;
	pid_t pid;

	(void)state;
	assert_int_equal(kv_seg_populate(seg, 0, MIB), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		if (try_attach(fd, MIB, false, true, &reader))
			_exit(2);
		if (*(volatile unsigned char *)reader->base)
			_exit(3);
		*(volatile unsigned char *)reader->base = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	close(fd);
	kv_seg_close(seg);
}

static void
test_attach_refuses(void **state)
{
	int fd = memfd_create("kv_test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int pipe_fd[2];
	struct kv_seg *seg;

	(void)state;
	assert_int_equal(pipe(pipe_fd), 0);
	assert_int_equal(try_attach(pipe_fd[0], MIB, false, true, &seg),
			 -EINVAL);
	assert_int_equal(try_attach(-1, MIB, false, true, &seg), -EINVAL);
	assert_int_equal(ftruncate(fd, MIB), 0);
	assert_int_equal(try_attach(fd, 0, false, true, &seg), -EINVAL);
	assert_int_equal(try_attach(fd, UINT64_MAX, false, true, &seg),
			 -EINVAL);
	assert_int_equal(try_attach(fd, 2 * MIB, false, true, &seg), -EINVAL);
	assert_says("1048576 bytes is said to have 2097152");
	assert_int_equal(try_attach(fd, MIB, false, true, &seg), -EINVAL);
	assert_says("shrink");
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(try_attach(fd, MIB, false, true, &seg), 0);
	kv_seg_close(seg);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
}

static void
check_file(const char *path)
{
	struct kv_seg *seg, *again, *other;
	int fd;

	assert_int_equal(try_file(path, 4 * MIB, &seg), 0);
	assert_int_equal(seg->found_bytes, 0);
	assert_true(seg->in_file && !seg->sealed);
	assert_int_equal(kv_seg_populate(seg, 0, 4 * MIB), 0);
	assert_int_equal(blocks_bytes(seg->fd) >= 4 * MIB, 1);
	memset(seg->base, 8, 4 * MIB);

	assert_int_equal(try_file(path, 4 * MIB, &again), -EBUSY);
	assert_says("is the pool of another process");

	fd = kv_seg_fd(seg, true);
	assert_int_equal(try_attach(fd, 4 * MIB, true, false, &other), 0);
	assert_int_equal(kv_seg_map_ahead(other, 0, 4 * MIB), 0);
	other->base[0] = 6;
	kv_seg_close(seg);

	/* The lock went with its owner, though others still use the file. */
	assert_int_equal(try_file(path, 8 * MIB, &again), 0);
	assert_int_equal(again->found_bytes, 4 * MIB);
	kv_seg_close(other);
	assert_int_equal(again->base[0], 6);
	assert_int_equal(again->base[4 * MIB - 1], 8);
	assert_int_equal(kv_seg_populate(again, 0, 4 * MIB), 0);
	assert_int_equal(again->base[4 * MIB - 1], 8);
	assert_int_equal(kv_seg_grow(again), 0);
	assert_int_equal(kv_seg_grow(again), 0);
	assert_int_equal(kv_seg_populate(again, 0, 8 * MIB), 0);
	assert_int_equal(again->base[4 * MIB - 1], 8);
	assert_int_equal(again->base[8 * MIB - 1], 0);
	kv_seg_close(again);
	assert_int_equal(unlink(path), 0);
}

static void
test_pool_file(void **state)
{
	char dir[64], path[96];

	(void)state;
	make_dir(dir, 0);
	path_in(path, dir);
	check_file(path);
	remove_dir(dir);
}

static void
test_pool_file_in_tmpfs(void **state)
{
	char dir[64], path[96];

	(void)state;
	make_dir(dir, 64 * MIB);
	if (!dir[0])
		skip(); /* mounting is for root */
	path_in(path, dir);
	check_file(path);
	remove_dir(dir);
}

static void
test_found_file_is_left_alone(void **state)
{
	char dir[64], path[96], text[16] = "";
	struct kv_seg *seg;
	struct stat st;
	int fd;

	(void)state;
	make_dir(dir, 0);
	path_in(path, dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "precious", 8), 8);
	assert_int_equal(try_file(path, 4 * MIB, &seg), 0);
	assert_int_equal(seg->found_bytes, 8);
	kv_seg_close(seg);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 8);
	assert_int_equal(pread(fd, text, sizeof(text), 0), 8);
	assert_string_equal(text, "precious");
	close(fd);
	unlink(path);
	remove_dir(dir);
}

static void
test_file_system_too_small(void **state)
{
	char dir[64], path[96];
	struct kv_seg *seg;

	(void)state;
	make_dir(dir, 64 * MIB);
	if (!dir[0])
		skip();
	path_in(path, dir);
	assert_int_equal(try_file(path, 256 * MIB, &seg), -ENOSPC);
	assert_says("a pool of 256.0 MiB does not fit: the file system of ");
	assert_says("has 64.0 MiB left");
	assert_int_equal(access(path, F_OK), -1);
	remove_dir(dir);
}

/* Others fill the file system after the pool was opened. */
static void
check_filled_later(bool by_hand)
{
	char dir[64], path[96], junk[96];
	struct kv_seg *seg;
	int fd, rc;

	make_dir(dir, 64 * MIB);
	if (!dir[0])
		skip();
	path_in(path, dir);
	snprintf(junk, sizeof(junk), "%s/junk", dir);
	assert_int_equal(try_file(path, 48 * MIB, &seg), 0);
	seg->by_hand |= by_hand;
	assert_int_equal(kv_seg_populate(seg, 0, 16 * MIB), 0);
	fd = open(junk, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(posix_fallocate(fd, 0, 40 * MIB), 0);
	rc = kv_seg_populate(seg, 16 * MIB, 16 * MIB);
	assert_int_equal(rc, -ENOSPC);
	memset(seg->base, 1, 16 * MIB);
	close(fd);
	unlink(junk);
	assert_int_equal(kv_seg_populate(seg, 16 * MIB, 32 * MIB), 0);
	memset(seg->base, 1, 48 * MIB);
	kv_seg_close(seg);
	unlink(path);
	remove_dir(dir);
}

static void
test_file_system_filled_later(void **state)
{
	(void)state;
	check_filled_later(false);
}

static void
test_file_system_filled_later_by_hand(void **state)
{
	(void)state;
	check_filled_later(true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_is_shared_and_sealed),
		cmocka_unit_test(test_children_do_not_inherit),
		cmocka_unit_test(test_populate),
		cmocka_unit_test(test_populate_by_hand),
		cmocka_unit_test(test_populate_stops_before_memory_ends),
		cmocka_unit_test(test_open_refuses_nonsense),
		cmocka_unit_test(test_limit_of_file_sizes),
		cmocka_unit_test(test_a_sparse_file_grows_with_its_pages),
		cmocka_unit_test(test_no_huge_pages),
		cmocka_unit_test(test_huge_pages),
		cmocka_unit_test(test_attach_reads),
		cmocka_unit_test(test_attach_writes),
		cmocka_unit_test(test_reader_cannot_store),
		cmocka_unit_test(test_attach_refuses),
		cmocka_unit_test(test_pool_file),
		cmocka_unit_test(test_pool_file_in_tmpfs),
		cmocka_unit_test(test_found_file_is_left_alone),
		cmocka_unit_test(test_file_system_too_small),
		cmocka_unit_test(test_file_system_filled_later),
		cmocka_unit_test(test_file_system_filled_later_by_hand),
	};

	return cmocka_run_group_tests_name("seg", tests, NULL, NULL);
}

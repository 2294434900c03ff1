#include "mem/seg.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fault.h"
#include "base/num.h"
#include "mem/room.h"

#define HUGE_BYTES (UINT64_C(2) << 20)

/* glibc of Debian 12 has both; the numbers are the kernel's. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

static struct kv_seg *
seg_new(void)
{
	struct kv_seg *seg;

	if (KV_FAULT_POINT())
		return NULL;
	seg = calloc(1, sizeof(*seg));
	if (!seg)
		return NULL;
	seg->fd = -1;
	seg->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	seg->root = "";
	seg->by_hand = madvise(NULL, 0, MADV_POPULATE_WRITE) != 0;
	return seg;
}

/* Which file system the descriptor is on, and its pages. */
static int
look_at_fs(struct kv_seg *seg)
{
	struct statfs fs;

	if (fstatfs(seg->fd, &fs))
		return -errno;
	seg->fs_type = fs.f_type;
	if (fs.f_type == HUGETLBFS_MAGIC)
		seg->page_bytes = (uint64_t)fs.f_bsize;
	seg->bytes = kv_round_up_u64(seg->bytes, seg->page_bytes);
	return 0;
}

bool
kv_seg_is_in_memory(const struct kv_seg *seg)
{
	return seg->fs_type == TMPFS_MAGIC || seg->fs_type == HUGETLBFS_MAGIC;
}

void
kv_seg_close(struct kv_seg *seg)
{
	if (!seg)
		return;
	if (seg->base)
		munmap(seg->base, seg->bytes);
	if (seg->fd >= 0)
		close(seg->fd);
	free(seg);
}

/*
 * Maps the whole segment at a multiple of 2 MiB: reserves more address space
 * than needed, maps inside of it and gives the rest back.
 */
static int
map(struct kv_seg *seg)
{
	int prot = seg->writable ? PROT_READ | PROT_WRITE : PROT_READ;
	int flags = MAP_SHARED | MAP_FIXED | (seg->sparse ? MAP_NORESERVE : 0);
	size_t room = seg->bytes + HUGE_BYTES, head;
	unsigned char *raw, *base;
	int err;

	if (KV_FAULT_POINT())
		return -ENOMEM;
	raw = mmap(NULL, room, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		return -errno;
	head = -(uintptr_t)raw & (HUGE_BYTES - 1);
	base = mmap(raw + head, seg->bytes, prot, flags, seg->fd, 0);
	if (base == MAP_FAILED) {
		err = -errno;
		munmap(raw, room);
		return err;
	}
	if (head)
		munmap(raw, head);
	munmap(base + seg->bytes, room - head - seg->bytes);
	seg->base = base;
	/* Advice: where it is not taken, it only costs speed or space. */
	madvise(base, seg->bytes, MADV_HUGEPAGE);
	madvise(base, seg->bytes, MADV_DONTFORK);
	madvise(base, seg->bytes, MADV_DONTDUMP);
	return 0;
}

static int
map_or_say(struct kv_seg *seg, char *err, size_t errlen)
{
	int rc = map(seg);

	if (rc)
		snprintf(err, errlen, "cannot map %ju bytes: %s%s",
			 (uintmax_t)seg->bytes, strerror(-rc),
			 rc != -ENOMEM                   ? ""
			 : seg->page_bytes == HUGE_BYTES ? " (huge pages gone)"
							 : " (see ulimit -v)");
	return rc;
}

/* Growing beyond it would raise SIGXFSZ. */
static int
check_file_limit(uint64_t bytes, char *err, size_t errlen)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_FSIZE, &rl) || bytes <= rl.rlim_cur)
		return 0;
	snprintf(err, errlen,
		 "a pool of %ju bytes is above the limit of file sizes: "
		 "ulimit -f unlimited",
		 (uintmax_t)bytes);
	return -EFBIG;
}

static int
open_memory(struct kv_seg *seg, bool hugepages, char *err, size_t errlen)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int rc;

	if (hugepages) {
		flags |= MFD_HUGETLB | MFD_HUGE_2MB;
		seg->bytes = kv_round_up_u64(seg->bytes, HUGE_BYTES);
		rc = kv_room_check_huge(seg->root, seg->bytes, err, errlen);
	} else {
		rc = kv_room_check(seg->root, seg->bytes, err, errlen);
	}
	if (rc)
		return rc;
	seg->fd = memfd_create("kvpool", flags);
	if (seg->fd < 0 || look_at_fs(seg) ||
	    ftruncate(seg->fd, (off_t)seg->bytes) ||
	    fcntl(seg->fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		rc = -errno;
		snprintf(err, errlen, "cannot make %sshared memory: %m",
			 hugepages ? "huge-page " : "");
		return rc;
	}
	seg->sealed = true;
	return map_or_say(seg, err, errlen);
}

/*
 * The lock of a file's owner. It belongs to this open of the file, so no
 * descriptor that is handed out carries it on.
 */
static int
lock_file(int fd, const char *path, char *err, size_t errlen)
{
	struct flock fl = { .l_type = F_WRLCK,
			    .l_whence = SEEK_SET,
			    .l_len = 1 };
	int rc;

	if (!fcntl(fd, F_OFD_SETLK, &fl))
		return 0;
	rc = errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
	if (rc == -EBUSY)
		snprintf(err, errlen,
			 "%s is the pool of another process that runs (see "
			 "fuser %s)",
			 path, path);
	else
		snprintf(err, errlen, "cannot lock %s: %m", path);
	return rc;
}

/* Once the file is open. */
static int
set_up_file(struct kv_seg *seg, const char *path, char *err, size_t errlen)
{
	const struct kv_room_file file = { seg->fd, path };
	struct stat st;
	int rc = look_at_fs(seg);

	if (rc || fstat(seg->fd, &st)) {
		rc = rc ? rc : -errno;
		snprintf(err, errlen, "cannot look at %s: %s", path,
			 strerror(-rc));
		return rc;
	}
	if (!S_ISREG(st.st_mode)) {
		snprintf(err, errlen, "%s is not a regular file", path);
		return -EINVAL;
	}
	rc = lock_file(seg->fd, path, err, errlen);
	if (rc)
		return rc;
	seg->found_bytes = (uint64_t)st.st_size;
	if (seg->sparse)
		return map_or_say(seg, err, errlen);
	rc = kv_room_check_file(seg->root, &file, seg->bytes, err, errlen);
	if (rc)
		return rc;
	if (!st.st_size && ftruncate(seg->fd, (off_t)seg->bytes)) {
		rc = -errno;
		snprintf(err, errlen, "cannot make %s %ju bytes long: %m", path,
			 (uintmax_t)seg->bytes);
		return rc;
	}
	return map_or_say(seg, err, errlen);
}

static int
open_file(struct kv_seg *seg, const char *path, char *err, size_t errlen)
{
	bool created = true;
	int rc;

	seg->in_file = true;
	seg->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (seg->fd < 0 && errno == EEXIST) {
		created = false;
		seg->fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	}
	if (seg->fd < 0) {
		rc = -errno;
		snprintf(err, errlen, "cannot open %s: %m", path);
		return rc;
	}
	rc = set_up_file(seg, path, err, errlen);
	/* Who locked it between the two calls keeps it. */
	if (rc && rc != -EBUSY && created)
		unlink(path);
	return rc;
}

int
kv_seg_open(const struct kv_seg_opts *o, struct kv_seg **out, char *err,
	    size_t errlen)
{
	struct kv_seg *seg;
	int rc = -EINVAL;

	if (!o->bytes || o->bytes > INT64_MAX - HUGE_BYTES) {
		snprintf(err, errlen, "a pool of %ju bytes cannot be",
			 (uintmax_t)o->bytes);
		return rc;
	}
	if (o->hugepages && o->path) {
		snprintf(err, errlen,
			 "for a pool file of huge pages, give a "
			 "path on a hugetlbfs alone");
		return rc;
	}
	seg = seg_new();
	if (!seg) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	if (o->root)
		seg->root = o->root;
	seg->bytes = o->bytes;
	seg->writable = true;
	seg->sparse = o->sparse;
	rc = o->sparse ? 0 : check_file_limit(seg->bytes, err, errlen);
	if (!rc && o->path)
		rc = open_file(seg, o->path, err, errlen);
	else if (!rc)
		rc = open_memory(seg, o->hugepages, err, errlen);
	if (rc) {
		kv_seg_close(seg);
		return rc;
	}
	*out = seg;
	return 0;
}

/* Makes the file that long, if it is shorter. */
static int
grow_to(const struct kv_seg *seg, uint64_t bytes)
{
	struct rlimit rl;
	struct stat st;

	if (fstat(seg->fd, &st))
		return -errno;
	if ((uint64_t)st.st_size >= bytes)
		return 0;
	/* It would raise SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &rl) == 0 && bytes > rl.rlim_cur)
		return -EFBIG;
	return ftruncate(seg->fd, (off_t)bytes) ? -errno : 0;
}

int
kv_seg_grow(struct kv_seg *seg)
{
	return grow_to(seg, seg->bytes);
}

static void
assert_inside(const struct kv_seg *seg, uint64_t off, uint64_t len)
{
	assert(off <= seg->bytes);
	assert(len <= seg->bytes - off);
}

/* Whether faulting in `len` more leaves the machine enough to live on; with
 * less the kernel would kill soon. */
static bool
memory_is_left(const struct kv_seg *seg, uint64_t len)
{
	uint64_t spare = kv_room_spare(seg->bytes) / 2;
	struct stat st;
	uint64_t has, more;

	/* On a disk it need not be memory, in hugetlbfs it is promised. */
	if (seg->fs_type != TMPFS_MAGIC || fstat(seg->fd, &st))
		return true;
	has = (uint64_t)st.st_blocks * 512;
	more = has < seg->bytes ? kv_min_u64(seg->bytes - has, len) : 0;
	return !more || kv_room_memory(seg->root) >= more + spare;
}

/* For kernels that cannot populate: writes to each page what is there. */
static void
touch(const struct kv_seg *seg, uint64_t off, uint64_t len)
{
	uint64_t end = off + len;

	for (; off < end; off += seg->page_bytes)
		__atomic_fetch_or(seg->base + off, 0, __ATOMIC_RELAXED);
}

int
kv_seg_populate(const struct kv_seg *seg, uint64_t off, uint64_t len)
{
	int rc = 0;

	assert_inside(seg, off, len);
	assert(off % seg->page_bytes == 0 && len % seg->page_bytes == 0);
	if (!len)
		return 0;
	if (!memory_is_left(seg, len))
		return -ENOMEM;
	if (seg->sparse)
		rc = grow_to(seg, off + len);
	if (rc)
		return rc;
	/*
	 * A file's blocks must be there before its pages. Memory needs this
	 * only when the pages are touched by hand, and is better off without:
	 * it gets huge pages from the fault, not from here.
	 */
	if ((seg->in_file || seg->by_hand) &&
	    fallocate(seg->fd, 0, (off_t)off, (off_t)len) &&
	    (errno != EOPNOTSUPP || seg->by_hand))
		return -errno;
	if (seg->by_hand)
		touch(seg, off, len);
	else if (madvise(seg->base + off, len, MADV_POPULATE_WRITE))
		return -errno;
	return 0;
}

int
kv_seg_fd(const struct kv_seg *seg, bool writable)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", seg->fd);
	fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fd;
}

/* Whether fd is what the owner says. */
static int
check_attached(int fd, const struct kv_seg_attach_opts *o, char *err,
	       size_t errlen)
{
	int seals, want = F_SEAL_SHRINK;
	struct stat st;

	if (!o->bytes || o->bytes > INT64_MAX - HUGE_BYTES || fstat(fd, &st) ||
	    !S_ISREG(st.st_mode)) {
		snprintf(err, errlen, "what came is no shared memory");
		return -EINVAL;
	}
	if ((uint64_t)st.st_size < o->bytes) {
		snprintf(err, errlen,
			 "shared memory of %ju bytes is said to have %ju",
			 (uintmax_t)st.st_size, (uintmax_t)o->bytes);
		return -EINVAL;
	}
	seals = o->sealed ? fcntl(fd, F_GET_SEALS) : want;
	if (seals < 0 || !(seals & want)) {
		snprintf(err, errlen, "shared memory can shrink under us");
		return -EINVAL;
	}
	return 0;
}

int
kv_seg_attach(int fd, const struct kv_seg_attach_opts *o, struct kv_seg **out,
	      char *err, size_t errlen)
{
	int rc = check_attached(fd, o, err, errlen);
	struct kv_seg *seg;

	if (rc)
		return rc;
	seg = seg_new();
	if (!seg) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	seg->bytes = o->bytes;
	seg->writable = o->writable;
	seg->sealed = o->sealed;
	seg->fd = fd;
	rc = look_at_fs(seg);
	if (rc)
		snprintf(err, errlen, "cannot look at shared memory: %s",
			 strerror(-rc));
	else
		rc = map_or_say(seg, err, errlen);
	if (rc) {
		seg->fd = -1; /* still the caller's */
		kv_seg_close(seg);
		return rc;
	}
	*out = seg;
	return 0;
}

int
kv_seg_map_ahead(const struct kv_seg *seg, uint64_t off, uint64_t len)
{
	uint64_t first = kv_round_down_u64(off, seg->page_bytes), end;
	int advice = MADV_POPULATE_READ;

	assert_inside(seg, off, len);
	if (seg->by_hand || !len)
		return 0;
	end = kv_round_up_u64(off + len, seg->page_bytes);
	/*
	 * Reading maps 16 pages at a time, and what is in memory is writable
	 * then as well: a third of the cost. Only a disk wants to be told.
	 */
	if (seg->writable && !kv_seg_is_in_memory(seg))
		advice = MADV_POPULATE_WRITE;
	return madvise(seg->base + first, end - first, advice) ? -errno : 0;
}

#include "svc/poolfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "mem/seg.h"
#include "store/ledger.h"
#include "svc/ident.h"

/* The lock of an attachment of life n lies at this byte plus n. */
#define LIVES_OFF 1000

/* The index may have a record for each granule of the pool, and these more, of
 * empty values. */
#define SPARE_BYTES (UINT64_C(64) << 20)

#define GROW_AGAIN_NS KV_NS_PER_S

struct kv_poolfile {
	char *path;
	char *index_path;
	const char *root;
	struct kv_seg *seg;
	struct kv_seg *index;
	struct kv_ledger *ledger;
	uint64_t index_bytes; /* populated */
	uint64_t grow_at;     /* 0, or when the index may grow again */
	uint32_t life;
	bool is_void;
	bool made_path; /* by this process: gone again if it fails */
	bool made_index;
};

/* Where the messages go. */
struct text {
	char *p;
	size_t n;
};

/* ---- the two files ---- */

/* In a folder for everybody a file may have been prepared by anybody. */
static int
owner_check(const char *path, const struct stat *st, struct text *err)
{
	if (st->st_uid == geteuid())
		return 0;
	snprintf(err->p, err->n, "%s belongs to another user, uid %u", path,
		 st->st_uid);
	return -EPERM;
}

/* There is a file of that path, perhaps an empty one. */
static int
path_make(struct kv_poolfile *p, struct stat *st, struct text *err)
{
	kv_auto_close int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && errno == ENOENT) {
		fd = open(p->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		p->made_path = fd >= 0;
	}
	if (fd < 0 || fstat(fd, st)) {
		int rc = -errno;

		snprintf(err->p, err->n, "cannot open %s: %m", p->path);
		return rc;
	}
	if (!S_ISREG(st->st_mode)) {
		snprintf(err->p, err->n, "%s is not a regular file", p->path);
		return -EINVAL;
	}
	return owner_check(p->path, st, err);
}

/* Reads the head without a lock, or under one. As kv_poolhead_parse(). */
static int
head_read(int fd, struct kv_poolhead *h, uint32_t *format)
{
	uint8_t *buf = KV_FAULT_POINT() ? NULL : malloc(KV_POOLHEAD_BYTES);
	ssize_t n;
	int rc;

	if (!buf)
		return -ENOMEM;
	n = pread(fd, buf, KV_POOLHEAD_BYTES, 0);
	rc = n < 0 ? -errno : kv_poolhead_parse(buf, (size_t)n, h, format);
	free(buf);
	return rc;
}

/* What is known before the index is locked: how long it may be, and who may
 * have it. -ENOENT: there is none. */
static int
head_peek(struct kv_poolfile *p, struct kv_poolhead *h)
{
	kv_auto_close int fd =
		open(p->index_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint32_t format;

	memset(h, 0, sizeof(*h));
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd >= 0 && head_read(fd, h, &format) < 0)
		memset(h, 0, sizeof(*h));
	return 0;
}

static int
refuse_foreign(const struct kv_poolfile *p, const char *why, struct text *err)
{
	snprintf(err->p, err->n,
		 "%s is no pool of kvclient, or not this one's: %s; remove "
		 "both to begin anew",
		 p->path, why);
	return -EINVAL;
}

static int
index_open(struct kv_poolfile *p, uint64_t bytes, const struct stat *st,
	   struct text *err)
{
	struct kv_seg_opts so = {
		.path = p->index_path,
		.sparse = true,
		.root = p->root,
	};
	struct kv_poolhead h;
	bool is_new = head_peek(p, &h) < 0;
	struct stat own = { 0 };
	int rc;

	if (is_new && st->st_size)
		return refuse_foreign(p, "it has no index beside it", err);
	so.bytes = kv_max_u64(bytes + SPARE_BYTES,
			      (uint64_t)h.slots_end * KV_RECORD_BYTES);
	so.bytes = kv_round_up_u64(so.bytes, KV_LEDGER_STEP_BYTES);
	rc = kv_seg_open(&so, &p->index, err->p, err->n);
	if (rc == -EBUSY)
		snprintf(err->p, err->n, "%s is in use by pid %u", p->path,
			 h.pid);
	if (rc < 0)
		return rc;
	p->made_index = is_new;
	if (fstat(p->index->fd, &own))
		own.st_uid = (uid_t)-1;
	return owner_check(p->index_path, &own, err);
}

/* ---- whose they are ---- */

/* *h is the one that the next life begins with. */
static int
head_check(struct kv_poolfile *p, const struct stat *st, struct kv_id kernel,
	   struct kv_poolhead *h, struct text *err)
{
	uint32_t format = 0;
	bool is_same;
	int rc = head_read(p->index->fd, h, &format);

	if (rc == -ENOENT && st->st_size == 0) {
		p->is_void = true;
		memset(h, 0, sizeof(*h));
		return 0;
	}
	if (rc == -EPROTONOSUPPORT) {
		snprintf(err->p, err->n,
			 "%s was written by a later version: format %u, this "
			 "one knows %d",
			 p->index_path, format, KV_POOLHEAD_FORMAT);
		return rc;
	}
	if (rc == -EBADMSG || rc == -ENOENT)
		return refuse_foreign(p,
				      "its index is damaged, or something "
				      "else",
				      err);
	if (rc < 0) {
		snprintf(err->p, err->n, "cannot read %s: %s", p->index_path,
			 strerror(-rc));
		return rc;
	}
	/* Numbers of devices change from boot to boot. */
	p->is_void =
		kv_id_is_zero(kernel) || !kv_id_is_equal(kernel, h->kernel);
	is_same = h->ino == st->st_ino && (p->is_void || h->dev == st->st_dev);
	if (st->st_size && !is_same)
		return refuse_foreign(p, "its index belongs to another file",
				      err);
	p->is_void |= !is_same;
	if ((uint64_t)h->slots_end * KV_RECORD_BYTES <= p->index->bytes)
		return 0;
	snprintf(err->p, err->n, "%s has just changed: try again", p->path);
	return -EBUSY;
}

/* ---- the index ---- */

/* To find out that there is no room takes as long as a hundred puts, which then
 * evict instead: it is not asked at each. */
static int
index_grow(void *arg, uint64_t bytes)
{
	struct kv_poolfile *p = arg;
	uint64_t end = kv_round_up_u64(bytes, p->index->page_bytes);
	uint64_t now = kv_clock_now(&(struct kv_clock){ 0 });
	int rc;

	if (end <= p->index_bytes)
		return 0;
	if (now < p->grow_at)
		return -ENOSPC;
	rc = KV_FAULT_POINT() ? -ENOSPC
			      : kv_seg_populate(p->index, p->index_bytes,
						end - p->index_bytes);
	if (rc == 0)
		p->index_bytes = end;
	else
		p->grow_at = now + GROW_AGAIN_NS;
	return rc;
}

static int
ledger_open(struct kv_poolfile *p, uint64_t bytes, struct kv_poolhead *h,
	    struct text *err)
{
	struct kv_ledger_opts lo = { .grow = index_grow, .arg = p };
	bool is_new = h->slots_end == 0;
	uint64_t has = (uint64_t)h->slots_end * KV_RECORD_BYTES;
	int rc;

	has = kv_round_up_u64(kv_max_u64(has, 1), KV_LEDGER_STEP_BYTES);
	rc = index_grow(p, has);
	if (rc < 0) {
		snprintf(err->p, err->n, "cannot make %s %ju bytes long: %s",
			 p->index_path, (uintmax_t)has, strerror(-rc));
		return rc;
	}
	if (is_new)
		kv_poolhead_init(p->index->base);
	h->life++;
	h->pid = (uint32_t)getpid();
	h->pool_bytes = bytes;
	lo.file = p->index->base;
	lo.head = *h;
	lo.bytes_max = p->index->bytes;
	p->life = h->life;
	p->ledger = kv_ledger_new(&lo);
	if (p->ledger)
		return 0;
	snprintf(err->p, err->n, "out of memory");
	return -errno;
}

/* ---- open ---- */

/* Whoever may open it reads and writes what others put. */
static void
make_private(const struct kv_seg *seg, const char *path)
{
	struct stat st;

	if (fstat(seg->fd, &st) == 0 && st.st_mode & 077 &&
	    fchmod(seg->fd, st.st_mode & 0700))
		kv_warn("others can open %s: %m", path);
}

static int
bytes_open(struct kv_poolfile *p, uint64_t bytes, struct text *err)
{
	const struct kv_seg_opts so = {
		.path = p->path,
		.bytes = bytes,
		.root = p->root,
	};
	int rc = kv_seg_open(&so, &p->seg, err->p, err->n);

	if (rc < 0)
		return rc;
	make_private(p->seg, p->path);
	make_private(p->index, p->index_path);
	rc = kv_seg_grow(p->seg);
	if (rc < 0)
		snprintf(err->p, err->n, "cannot make %s %ju bytes long: %s",
			 p->path, (uintmax_t)p->seg->bytes, strerror(-rc));
	return rc;
}

static int
pool_open(struct kv_poolfile *p, uint64_t bytes, struct text *err)
{
	struct kv_id kernel = { 0 };
	struct kv_poolhead h = { 0 };
	struct stat st = { 0 };
	int rc;

	rc = kv_ident_kernel(p->root ? p->root : "", &kernel);
	if (rc < 0)
		kv_warn("the kernel's boot id cannot be read, so nothing of %s "
			"is kept: %s",
			p->path, strerror(-rc));
	rc = path_make(p, &st, err);
	if (rc == 0)
		rc = index_open(p, bytes, &st, err);
	if (rc == 0)
		rc = head_check(p, &st, kernel, &h, err);
	if (rc < 0)
		return rc;
	if (kv_id_is_zero(h.pool))
		rc = kv_ident_random(&h.pool);
	if (rc < 0) {
		snprintf(err->p, err->n, "no random numbers: %s",
			 strerror(-rc));
		return rc;
	}
	h.kernel = kernel;
	h.dev = st.st_dev;
	h.ino = st.st_ino;
	/* The index first: a file with bytes but without an index is none of
	 * ours. */
	rc = ledger_open(p, bytes, &h, err);
	return rc < 0 ? rc : bytes_open(p, bytes, err);
}

static void
say_void(const struct kv_poolfile *p)
{
	if (p->life == 1)
		kv_info("made a pool file path=%s", p->path);
	else
		kv_info("the pool file begins empty, its kernel or its bytes "
			"are gone path=%s",
			p->path);
}

/* What was made, unless it is somebody's by now. */
static void
files_unmake(const struct kv_poolfile *p, int rc)
{
	if (p->made_path && rc != -EBUSY)
		unlink(p->path);
	if (p->made_index && rc != -EBUSY)
		unlink(p->index_path);
}

static struct kv_poolfile *
poolfile_new(const struct kv_poolfile_opts *o)
{
	struct kv_poolfile *p = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->root = o->root;
	p->path = strdup(o->path);
	if (asprintf(&p->index_path, "%s.index", o->path) < 0)
		p->index_path = NULL;
	if (p->path && p->index_path)
		return p;
	kv_poolfile_close(p);
	return NULL;
}

int
kv_poolfile_open(const struct kv_poolfile_opts *o, struct kv_poolfile **out,
		 char *err, size_t err_bytes)
{
	struct kv_poolfile *p = poolfile_new(o);
	struct text text = { err, err_bytes };
	int rc;

	snprintf(err, err_bytes, "out of memory");
	if (!p)
		return -ENOMEM;
	rc = pool_open(p, o->bytes, &text);
	if (rc < 0) {
		files_unmake(p, rc);
		kv_poolfile_close(p);
		return rc;
	}
	if (p->is_void)
		say_void(p);
	*out = p;
	return 0;
}

void
kv_poolfile_close(struct kv_poolfile *p)
{
	if (!p)
		return;
	kv_ledger_free(p->ledger);
	kv_seg_close(p->seg);
	kv_seg_close(p->index);
	free(p->path);
	free(p->index_path);
	free(p);
}

/* ---- looking in ---- */

struct kv_seg *
kv_poolfile_seg(struct kv_poolfile *p)
{
	return p->seg;
}

struct kv_ledger *
kv_poolfile_ledger(struct kv_poolfile *p)
{
	return p->ledger;
}

bool
kv_poolfile_is_void(const struct kv_poolfile *p)
{
	return p->is_void;
}

/* ---- who attaches ---- */

int
kv_poolfile_attach(void *arg, bool may_write)
{
	const struct kv_poolfile *p = arg;
	struct flock fl = {
		.l_type = F_RDLCK,
		.l_whence = SEEK_SET,
		.l_start = LIVES_OFF + p->life,
		.l_len = 1,
	};
	kv_auto_close int fd = kv_seg_fd(p->seg, may_write);

	if (fd < 0)
		return fd;
	if (KV_FAULT_POINT() || fcntl(fd, F_OFD_SETLK, &fl))
		return -ENOLCK;
	return kv_steal_fd(&fd);
}

bool
kv_poolfile_is_attached(void *arg, uint32_t from, uint32_t to)
{
	const struct kv_poolfile *p = arg;
	struct flock fl = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = LIVES_OFF + from,
		.l_len = to - from + 1,
	};

	/* Who cannot tell must not say no. */
	return fcntl(p->seg->fd, F_OFD_GETLK, &fl) || fl.l_type != F_UNLCK;
}

uint64_t
kv_poolfile_data_end(void *arg, uint64_t off)
{
	const struct kv_poolfile *p = arg;
	off_t end;

	if (off >= p->seg->found_bytes)
		return off;
	end = lseek(p->seg->fd, (off_t)off, SEEK_HOLE);
	if (end < 0)
		return errno == ENXIO ? off : p->seg->found_bytes;
	return kv_min_u64((uint64_t)end, p->seg->found_bytes);
}

void
kv_poolfile_settled(void *arg)
{
	const struct kv_poolfile *p = arg;
	struct stat st;

	if (fstat(p->seg->fd, &st) == 0 &&
	    (uint64_t)st.st_size > p->seg->bytes &&
	    ftruncate(p->seg->fd, (off_t)p->seg->bytes))
		kv_warn("cannot cut %s: %m", p->path);
}

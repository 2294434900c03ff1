#include "simpool.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int
index_grow(void *arg, uint64_t bytes)
{
	const struct simpool *p = arg;

	return bytes > p->index_max ? -ENOSPC : 0;
}

/* A descriptor with a lock, which goes when nobody has it any more. */
static int
lock_life(const struct simpool *p)
{
	struct flock fl = {
		.l_type = F_RDLCK,
		.l_whence = SEEK_SET,
		.l_start = p->head.life,
		.l_len = 1,
	};
	char path[40];
	int fd, rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->locks);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert(fd >= 0);
	rc = fcntl(fd, F_OFD_SETLK, &fl);
	assert(rc == 0);
	return fd;
}

static int
file_attach(void *arg, bool may_write)
{
	struct simpool *p = arg;

	(void)may_write;
	if (p->locks >= 0)
		return lock_life(p);
	p->attached |= UINT64_C(1) << p->head.life;
	return -1; /* there are no descriptors */
}

static bool
file_is_attached(void *arg, uint32_t from, uint32_t to)
{
	const struct simpool *p = arg;
	struct flock fl = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = from,
		.l_len = to - from + 1,
	};
	int rc;

	if (p->locks >= 0) {
		rc = fcntl(p->locks, F_OFD_GETLK, &fl);
		assert(rc == 0);
		return fl.l_type != F_UNLCK;
	}
	for (; from <= to && from < 64; from++)
		if (p->attached & UINT64_C(1) << from)
			return true;
	return false;
}

static uint64_t
file_data_end(void *arg, uint64_t off)
{
	const struct simpool *p = arg;

	return off < p->data_end ? p->data_end : off;
}

static void
file_settled(void *arg)
{
	struct simpool *p = arg;

	p->settled++;
}

void
simpool_open(struct simpool *p, uint64_t pool_bytes)
{
	memset(p, 0, sizeof(*p));
	p->index = mmap(NULL, SIMPOOL_INDEX_MAX, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert(p->index != MAP_FAILED);
	p->index_max = SIMPOOL_INDEX_MAX;
	p->data_end = pool_bytes;
	p->head.pool.b[0] = 77;
	p->locks = -1;
	kv_poolhead_init(p->index);
}

void
simpool_close(struct simpool *p)
{
	simpool_end(p);
	munmap(p->index, SIMPOOL_INDEX_MAX);
	if (p->locks >= 0)
		close(p->locks);
}

void
simpool_lock(struct simpool *p)
{
	p->locks = memfd_create("simpool", MFD_CLOEXEC);
	assert(p->locks >= 0);
}

bool
simpool_is_attached(struct simpool *p)
{
	return p->head.life > 0 && file_is_attached(p, 1, p->head.life);
}

const struct kv_node_file *
simpool_begin(struct simpool *p)
{
	struct kv_ledger_opts lo = {
		.file = p->index,
		.bytes_max = SIMPOOL_INDEX_MAX,
		.grow = index_grow,
		.arg = p,
	};

	p->head.life++;
	lo.head = p->head;
	p->ledger = kv_ledger_new(&lo);
	assert(p->ledger);
	p->file = (struct kv_node_file){
		.ledger = p->ledger,
		.attach = file_attach,
		.is_attached = file_is_attached,
		.data_end = file_data_end,
		.settled = file_settled,
		.arg = p,
	};
	return &p->file;
}

void
simpool_end(struct simpool *p)
{
	if (p->ledger)
		p->head = *kv_ledger_head(p->ledger);
	kv_ledger_free(p->ledger);
	p->ledger = NULL;
}

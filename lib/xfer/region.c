#include "xfer/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "mem/seg.h"
#include "xfer/rdmaregion.h"

_Static_assert(KV_ENGINE_REGIONS_MAX * sizeof(struct kv_region_rec) <=
		       KV_TAIL_MAX,
	       "one REGIONS_R tells all regions");

void
kv_region_init(struct kv_region_set *set, struct kv_rdma *rdma)
{
	pthread_condattr_t attr;

	*set = (struct kv_region_set){ .rdma = rdma };
	kv_packring_init(&set->ring, rdma, KV_RDMAREGION_NEAR);
	pthread_mutex_init(&set->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&set->idle, &attr);
	pthread_condattr_destroy(&attr);
}

/* Peers that have it mapped may keep it so for long: the pages go now. */
static void
seg_free(struct kv_seg *seg)
{
	if (!seg)
		return;
	(void)fallocate(seg->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			(off_t)seg->bytes);
	kv_seg_close(seg);
}

static void
region_free(struct kv_region *r)
{
	assert(r->users == 0);
	kv_rdmaregion_free(r->nic);
	seg_free(r->seg);
	free(r);
}

void
kv_region_fini(struct kv_region_set *set)
{
	for (size_t i = 0; i < set->n_addr; i++)
		region_free(set->by_addr[i]);
	free(set->by_addr);
	free(set->by_handle);
	kv_packring_fini(&set->ring);
	pthread_cond_destroy(&set->idle);
	pthread_mutex_destroy(&set->lock);
}

/* ---- the two arrays; all under the lock ---- */

/* The first whose end lies behind addr. */
static size_t
find_addr(const struct kv_region_set *set, uint64_t addr)
{
	size_t low = 0, high = set->n_addr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct kv_region *r = set->by_addr[mid];

		if (r->addr + r->len > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* The first whose handle is not below. */
static size_t
find_handle(const struct kv_region_set *set, uint64_t handle)
{
	size_t low = 0, high = set->n_handle;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (set->by_handle[mid]->handle >= handle)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static struct kv_region *
get_handle(const struct kv_region_set *set, uint64_t handle)
{
	size_t i = find_handle(set, handle);

	if (i == set->n_handle || set->by_handle[i]->handle != handle)
		return NULL;
	return set->by_handle[i];
}

static void
insert(struct kv_region **array, size_t *n, size_t at, struct kv_region *r)
{
	memmove(&array[at + 1], &array[at],
		(*n - at) * sizeof(struct kv_region *));
	array[at] = r;
	++*n;
}

static void
take_out(struct kv_region **array, size_t *n, size_t at)
{
	--*n;
	memmove(&array[at], &array[at + 1],
		(*n - at) * sizeof(struct kv_region *));
}

static int
make_room(struct kv_region_set *set)
{
	size_t cap = set->cap ? 2 * set->cap : 16;
	struct kv_region **p;

	if (set->n_addr < set->cap)
		return 0;
	if (set->n_addr >= KV_ENGINE_REGIONS_MAX || KV_FAULT_POINT())
		return -ENOMEM;
	p = realloc(set->by_addr, cap * sizeof(*p));
	if (!p)
		return -ENOMEM;
	set->by_addr = p;
	p = realloc(set->by_handle, cap * sizeof(*p));
	if (!p)
		return -ENOMEM;
	set->by_handle = p;
	set->cap = cap;
	return 0;
}

/* 1: counted. 0: the range is free. */
static int
count_repeat(struct kv_region_set *set, const struct kv_region *r)
{
	size_t i = find_addr(set, r->addr);
	struct kv_region *there = i < set->n_addr ? set->by_addr[i] : NULL;

	if (!there || there->addr >= r->addr + r->len)
		return 0;
	if (there->dying)
		return -EBUSY;
	if (there->addr != r->addr || there->len != r->len)
		return -EINVAL;
	there->count++;
	return 1;
}

/* 0: r belongs to the set. 1: it is there already. */
static int
add(struct kv_region_set *set, struct kv_region *r)
{
	int rc = count_repeat(set, r);

	if (rc == 0)
		rc = make_room(set);
	if (rc)
		return rc;
	r->handle = ++set->last_handle;
	insert(set->by_addr, &set->n_addr, find_addr(set, r->addr), r);
	insert(set->by_handle, &set->n_handle, set->n_handle, r);
	return 0;
}

static const char *
why_not(int err)
{
	switch (err) {
	case ENOMEM:
		return "it cannot be locked in memory; raise that limit "
		       "(ulimit -l)";
	case EFAULT:
		return "not all of it is mapped and writable";
	default:
		return strerrordesc_np(err);
	}
}

static bool
is_first_to_tell(struct kv_region_set *set)
{
	bool told = true;

	KV_LOCKED(&set->lock) {
		told = set->told;
		set->told = true;
	}
	return !told;
}

/* Without the lock: it takes its time, with all pages. */
static void
show_nics(struct kv_region_set *set, struct kv_region *r)
{
	int err;

	if (!set->rdma)
		return;
	r->nic = kv_rdmaregion_new(set->rdma, r->base, r->len,
				   KV_RDMAREGION_FAR_WRITES);
	if (r->nic)
		return;
	err = errno;
	if (is_first_to_tell(set))
		kv_warn("engine: memory of %ju bytes is reached by TCP, not by "
			"RDMA: %s",
			(uintmax_t)r->len, why_not(err));
}

uint64_t
kv_region_ring_begin(struct kv_region_set *set)
{
	long max = kv_packring_begin(&set->ring);

	if (max < 0 && is_first_to_tell(set))
		kv_warn("engine: small memory that is not registered goes by "
			"TCP, not by RDMA: %s",
			why_not((int)-max));
	return max > 0 ? (uint64_t)max : 0;
}

static struct kv_region *
region_new(void *data, size_t len)
{
	struct kv_region *r = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->base = data;
	r->addr = (uintptr_t)data;
	r->len = len;
	r->count = 1;
	return r;
}

int
kv_region_add(struct kv_region_set *set, void *data, size_t len,
	      struct kv_seg *seg)
{
	struct kv_region *r;
	int rc = 0;

	if (!data || !len || (uintptr_t)data + len < len)
		return -EINVAL;
	r = region_new(data, len);
	if (!r)
		return -ENOMEM;
	KV_LOCKED(&set->lock)
		rc = count_repeat(set, r);
	if (rc == 0) {
		show_nics(set, r);
		r->seg = seg;
		KV_LOCKED(&set->lock)
			rc = add(set, r);
	}
	if (rc) {
		r->seg = NULL;
		region_free(r);
	}
	return rc < 0 ? rc : 0;
}

/* ---- the end of one ---- */

static int
begin_end(struct kv_region_set *set, struct kv_region *r,
	  enum kv_region_end how)
{
	if (r->waiting)
		return -EBUSY;
	if (!r->dying) {
		bool last = how == KV_REGION_FREE || r->count == 1;

		if (last && !r->seg != (how == KV_REGION_UNREGISTER))
			return -EINVAL;
		if (!last) {
			r->count--;
			return 1;
		}
		take_out(set->by_handle, &set->n_handle,
			 find_handle(set, r->handle));
		r->dying = true;
	}
	r->waiting = true;
	return 0;
}

int
kv_region_begin_end(struct kv_region_set *set, const void *data,
		    enum kv_region_end how, struct kv_region **out)
{
	uint64_t addr = (uintptr_t)data;
	int rc = -EINVAL;

	KV_LOCKED(&set->lock) {
		size_t i = find_addr(set, addr);

		if (i < set->n_addr && set->by_addr[i]->addr == addr) {
			rc = begin_end(set, set->by_addr[i], how);
			if (rc == 0)
				*out = set->by_addr[i];
		}
	}
	return rc;
}

int
kv_region_wait(struct kv_region_set *set, struct kv_region *r,
	       uint64_t deadline_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline_ns / KV_NS_PER_S),
		.tv_nsec = (long)(deadline_ns % KV_NS_PER_S),
	};
	int rc = 0;

	KV_LOCKED(&set->lock)
		while (r->users > 0 && rc == 0)
			rc = -pthread_cond_timedwait(&set->idle, &set->lock,
						     &until);
	/* This thread alone is at it. */
	if (rc == 0)
		kv_rdmaregion_free(kv_steal_ptr(&r->nic));
	return rc;
}

void
kv_region_end(struct kv_region_set *set, struct kv_region *r, bool gone)
{
	KV_LOCKED(&set->lock) {
		r->waiting = false;
		if (gone)
			take_out(set->by_addr, &set->n_addr,
				 find_addr(set, r->addr));
	}
	if (gone)
		region_free(r);
}

/* ---- holds ---- */

/* Under the lock. */
static void
take_hold(struct kv_region_hold *hold, struct kv_region *r)
{
	if (hold->n > 0 && hold->regions[hold->n - 1] == r)
		return;
	hold->regions[hold->n++] = r;
	r->users++;
}

static void
release(struct kv_region_set *set, struct kv_region_hold *hold)
{
	bool idle = false;

	for (int i = 0; i < hold->n; i++)
		if (--hold->regions[i]->users == 0)
			idle |= hold->regions[i]->dying;
	hold->n = 0;
	if (idle)
		pthread_cond_broadcast(&set->idle);
}

void
kv_region_release(struct kv_region_set *set, struct kv_region_hold *hold)
{
	if (hold->n == 0)
		return;
	KV_LOCKED(&set->lock)
		release(set, hold);
}

static int
hold_piece(const struct kv_region_set *set, const struct kv_xfer_piece *piece,
	   struct iovec *iov, struct kv_region_hold *hold)
{
	uint64_t off = kv_get64(piece->off), len = kv_get64(piece->len);
	struct kv_region *r = get_handle(set, kv_get64(piece->handle));

	if (!r || off > r->len || len > r->len - off)
		return -EINVAL;
	iov->iov_base = r->base + off;
	iov->iov_len = len;
	take_hold(hold, r);
	return 0;
}

int
kv_region_hold(struct kv_region_set *set, const struct kv_xfer_piece *pieces,
	       int n, struct iovec *iov, struct kv_region_hold *hold)
{
	int rc = 0;

	assert(n <= KV_XFER_PIECES_MAX);
	hold->n = 0;
	KV_LOCKED(&set->lock) {
		for (int i = 0; i < n && rc == 0; i++)
			rc = hold_piece(set, &pieces[i], &iov[i], hold);
		if (rc)
			release(set, hold);
	}
	return rc;
}

bool
kv_region_is_held(const struct kv_region_hold *hold, const struct kv_region *r)
{
	for (int i = 0; i < hold->n; i++)
		if (hold->regions[i] == r)
			return true;
	return false;
}

/* ---- for NICs of this process ---- */

struct kv_region *
kv_region_hold_near(struct kv_region_set *set, uint64_t addr, uint64_t *bytes)
{
	struct kv_region *found = NULL;

	*bytes = UINT64_MAX - addr;
	KV_LOCKED(&set->lock) {
		size_t i = find_addr(set, addr);
		struct kv_region *r = i < set->n_addr ? set->by_addr[i] : NULL;

		if (r && r->addr > addr) {
			*bytes = r->addr - addr;
		} else if (r) {
			*bytes = r->addr + r->len - addr;
			if (!r->dying && r->nic) {
				r->users++;
				found = r;
			}
		}
	}
	return found;
}

void
kv_region_let_go(struct kv_region_set *set, struct kv_region *r)
{
	KV_LOCKED(&set->lock)
		if (--r->users == 0 && r->dying)
			pthread_cond_broadcast(&set->idle);
}

bool
kv_region_is_dying(struct kv_region_set *set, const struct kv_region *r)
{
	bool dying = false;

	KV_LOCKED(&set->lock)
		dying = r->dying;
	return dying;
}

/* ---- for peers ---- */

static size_t
write_keys(const struct kv_region_set *set, const struct kv_region *r,
	   struct kv_le32 *out)
{
	const struct kv_rdmamem *mem = kv_rdmaregion_far(r->nic);
	unsigned n = kv_rdma_ports(set->rdma);

	for (unsigned i = 0; i < n; i++)
		out[i] = kv_le32(mem->keys[i]);
	return n;
}

/* Under the lock. */
static size_t
list(const struct kv_region_set *set, struct kv_region_rec *recs, size_t n,
     size_t keys_max)
{
	unsigned ports = set->rdma ? kv_rdma_ports(set->rdma) : 0;
	struct kv_le32 *keys = (struct kv_le32 *)(void *)(recs + n);
	size_t n_keys = 0;

	for (size_t i = 0; i < n; i++) {
		const struct kv_region *r = set->by_handle[i];
		uint32_t flags = r->seg ? KV_REGION_SHARED : 0;

		if (r->nic && n_keys + ports <= keys_max) {
			n_keys += write_keys(set, r, keys + n_keys);
			flags |= KV_REGION_KEYS;
		}
		recs[i] = (struct kv_region_rec){
			.addr = kv_le64(r->addr),
			.len = kv_le64(r->len),
			.handle = kv_le64(r->handle),
			.flags = kv_le32(flags),
		};
	}
	return n_keys;
}

size_t
kv_region_list(struct kv_region_set *set, void *tail, size_t max,
	       uint32_t *count)
{
	struct kv_region_rec *recs = tail;
	size_t n = 0, n_keys = 0, room;

	KV_LOCKED(&set->lock) {
		n = kv_min_size(set->n_handle, max / sizeof(*recs));
		room = (max - n * sizeof(*recs)) / sizeof(struct kv_le32);
		n_keys = list(set, recs, n, room);
	}
	*count = (uint32_t)n;
	return n * sizeof(*recs) + n_keys * sizeof(struct kv_le32);
}

int
kv_region_fd(struct kv_region_set *set, uint64_t handle, uint64_t *bytes)
{
	int fd = -EINVAL;

	KV_LOCKED(&set->lock) {
		const struct kv_region *r = get_handle(set, handle);

		if (r && r->seg) {
			fd = kv_seg_fd(r->seg, true);
			*bytes = r->seg->bytes;
		} else if (r) {
			fd = -ENOTSUP;
		}
	}
	return fd;
}

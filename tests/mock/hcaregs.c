#include "hcaregs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "test.h"

enum {
	WAIT_S = 20,
};

struct hcaregs hcaregs;

static unsigned
device_of(const struct ibv_pd *pd)
{
	return strcmp(pd->context->device->name, "mlx5_1") == 0;
}

static struct timespec
deadline(void)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_sec += WAIT_S;
	return at;
}

/* Until that changes; aborts when it does not. With the lock. */
static void
wait_moved(const struct timespec *until)
{
	int err = pthread_cond_timedwait(&hcaregs.moved, &hcaregs.lock, until);

	assert(err == 0);
}

/* ---- in place of verbs ---- */

static bool
is_held(unsigned number)
{
	const struct hcaregs *h = &hcaregs;

	return number > h->gate ||
	       (h->both && !(h->inside_max[0] && h->inside_max[1]));
}

/* Waits until the call may end; whether it fails. */
static bool
enter(unsigned dev)
{
	struct timespec until = deadline();
	struct hcaregs *h = &hcaregs;
	bool fails = false;

	KV_LOCKED(&h->lock) {
		unsigned number = ++h->began;

		fails = number == h->fail_nth;
		if (++h->inside[dev] > h->inside_max[dev])
			h->inside_max[dev] = h->inside[dev];
		pthread_cond_broadcast(&h->moved);
		while (is_held(number))
			wait_moved(&until);
	}
	return fails;
}

static void
leave(unsigned dev, struct ibv_mr *mr, unsigned access)
{
	struct hcaregs *h = &hcaregs;

	KV_LOCKED(&h->lock) {
		h->inside[dev]--;
		if (!mr)
			break;
		assert(h->n < HCAREGS_MAX);
		h->mrs[h->n].mr = mr;
		h->mrs[h->n++].access = access;
	}
}

static struct ibv_mr *
reg(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova, unsigned access)
{
	unsigned dev = device_of(pd);
	struct ibv_mr *mr = NULL;
	int err = hcaregs.fail_err;

	assert((uintptr_t)addr == iova);
	if (!enter(dev)) {
		mr = hcahost_real->reg_mr_iova2(pd, addr, bytes, iova, access);
		err = errno;
	}
	leave(dev, mr, access);
	errno = err;
	return mr;
}

/* The second try, without relaxed ordering: fares no better. */
static struct ibv_mr *
reg_plain(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	(void)pd;
	(void)addr;
	(void)bytes;
	assert(!(access & IBV_ACCESS_RELAXED_ORDERING));
	return NULL;
}

static int
dereg(struct ibv_mr *mr)
{
	struct hcaregs *h = &hcaregs;

	KV_LOCKED(&h->lock)
		for (unsigned i = 0; i < h->n; i++)
			if (h->mrs[i].mr == mr)
				h->mrs[i].mr = NULL;
	return hcahost_real->dereg_mr(mr);
}

/* ---- what tests ask ---- */

unsigned
hcaregs_count(void)
{
	const struct hcaregs *h = &hcaregs;
	unsigned n = 0;

	KV_LOCKED(&hcaregs.lock)
		for (unsigned i = 0; i < h->n; i++)
			n += h->mrs[i].mr != NULL;
	return n;
}

const struct ibv_mr *
hcaregs_mr_of(unsigned dev, uint64_t addr)
{
	const struct ibv_mr *found = NULL, *mr;

	for (unsigned i = 0; i < hcaregs.n; i++) {
		mr = hcaregs.mrs[i].mr;
		if (!mr || device_of(mr->pd) != dev ||
		    addr - (uintptr_t)mr->addr >= mr->length)
			continue;
		assert_null(found);
		found = mr;
	}
	return found;
}

void
hcaregs_wait_began(unsigned n)
{
	struct timespec until = deadline();

	KV_LOCKED(&hcaregs.lock)
		while (hcaregs.began < n)
			wait_moved(&until);
}

void
hcaregs_open_gate(unsigned n)
{
	KV_LOCKED(&hcaregs.lock) {
		hcaregs.gate = n;
		pthread_cond_broadcast(&hcaregs.moved);
	}
}

void
hcaregs_wait_told(void)
{
	struct timespec until = deadline();

	assert_int_equal(sem_timedwait(&hcaregs.told, &until), 0);
}

bool
hcaregs_is_told(void)
{
	return sem_trywait(&hcaregs.told) == 0;
}

/* ---- set-up ---- */

void
hcaregs_limit(const char *locked)
{
	madetree_put(hcaregs.root, "/proc/self/limits",
		     "Max locked memory %s\n", locked);
	madetree_put(hcaregs.root, "/proc/self/status", "CapEff:\t0\n");
}

int
hcaregs_setup(void **state)
{
	struct kv_rdma_opts o = {
		.root = hcaregs.root,
		.verbs = &hcahost_v,
		.addrs = hcahost_addrs,
	};
	struct hcaregs *h = &hcaregs;
	char err[256];

	(void)state;
	*h = (struct hcaregs){ .gate = UINT_MAX };
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->moved, NULL);
	sem_init(&h->told, 0, 0);
	madetree_new(h->root);
	hcaregs_limit("unlimited");
	hcahost_open();
	hcahost_v.reg_mr_iova2 = reg;
	hcahost_v.reg_mr = reg_plain;
	hcahost_v.dereg_mr = dereg;
	h->r = kv_rdma_open(&o, err, sizeof(err));
	if (!h->r || kv_rdma_ports(h->r) < HCAHOST_PORTS)
		exit(3); /* as in hcahost_open() */
	h->pool = mmap(NULL, HCAREGS_POOL, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(h->pool != MAP_FAILED);
	return 0;
}

int
hcaregs_teardown(void **state)
{
	struct hcaregs *h = &hcaregs;

	(void)state;
	kv_rdmaregion_free(h->g);
	assert_int_equal(hcaregs_count(), 0);
	assert_false(hcaregs_is_told());
	munmap(h->pool, HCAREGS_POOL);
	kv_rdma_close(h->r);
	hcahost_close();
	madetree_free(h->root);
	sem_destroy(&h->told);
	pthread_cond_destroy(&h->moved);
	pthread_mutex_destroy(&h->lock);
	return 0;
}

/* ---- pools ---- */

static void
on_done(void *arg, int status, const char *why)
{
	assert(arg == &hcaregs);
	hcaregs.status = status;
	snprintf(hcaregs.why, sizeof(hcaregs.why), "%s", why);
	sem_post(&hcaregs.told);
}

struct kv_rdmaregion *
hcaregs_pool_new(void)
{
	const struct kv_rdmaregion_pool_opts o = {
		.pool = hcaregs.pool,
		.bytes = HCAREGS_POOL,
		.chunk_bytes = HCAREGS_CHUNK,
		.done = on_done,
		.arg = &hcaregs,
	};

	return kv_rdmaregion_pool(hcaregs.r, &o);
}

void
hcaregs_start(void)
{
	hcaregs.g = hcaregs_pool_new();
	assert_non_null(hcaregs.g);
}

void
hcaregs_complete(void)
{
	hcaregs_start();
	kv_rdmaregion_ready(hcaregs.g, HCAREGS_POOL, true);
	hcaregs_wait_told();
	assert_int_equal(hcaregs.status, 0);
	assert_true(kv_rdmaregion_is_complete(hcaregs.g));
}

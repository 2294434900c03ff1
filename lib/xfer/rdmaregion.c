#include "xfer/rdmaregion.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"
#include "base/thread.h"
#include "mem/room.h"
#include "xfer/rdmacore.h"
#include "xfer/rdmamr.h"

#define CHUNK_BYTES (UINT64_C(1) << 30)

enum {
	PAGE_BYTES = 4096,
	WHY_BYTES = 640,
};

/* Registers all chunks of a pool with one device. */
struct registrar {
	struct kv_rdmaregion *g;
	const struct kv_rdmanic *const *ports; /* of the device */
	unsigned n;
	pthread_t thread;
};

struct pool {
	void (*done)(void *arg, int status, const char *why);
	void *arg;
	char why[WHY_BYTES];

	pthread_mutex_t lock; /* guards what follows, and the region's bytes
			       * while they can shrink */
	pthread_cond_t moved;
	uint64_t ready;
	bool is_last; /* no more will be ready */
	bool stop;
	unsigned running; /* registrars that are not done */
	unsigned dead;    /* those whose device is */
	/* What the first of them met that failed. */
	int err;
	unsigned err_port;
	uint64_t err_off;

	unsigned registrars;
	struct registrar registrar[KV_RDMA_PORTS_MAX];
};

struct kv_rdmaregion {
	struct kv_rdma *r;
	unsigned char *addr;
	uint64_t bytes;
	uint64_t chunk_bytes; /* of a buffer: all of it */
	struct pool *pool;    /* NULL: a buffer */
	atomic_bool is_complete;
	uint64_t chunks;
	struct kv_rdmamr mrs[]; /* by chunk */
};

/* In chunks of that size, of which none is registered. */
static struct kv_rdmaregion *
region_new(struct kv_rdma *r, void *addr, uint64_t bytes, uint64_t chunk_bytes)
{
	uint64_t n = kv_div_up_u64(bytes, chunk_bytes);
	struct kv_rdmaregion *g =
		KV_FAULT_POINT() ? NULL
				 : calloc(1, sizeof(*g) + n * sizeof(*g->mrs));

	if (!g) {
		errno = ENOMEM;
		return NULL;
	}
	g->r = r;
	g->addr = addr;
	g->bytes = bytes;
	g->chunk_bytes = chunk_bytes;
	g->chunks = n;
	return g;
}

static void
give_up_all(struct kv_rdmaregion *g)
{
	for (uint64_t i = 0; i < g->chunks; i++)
		kv_rdmamr_give_up(&g->mrs[i]);
}

/* Its pages are there. */
static void
place_find(const struct kv_rdmaregion *g, struct kv_rdmamr *m)
{
	m->near.distant =
		kv_rdmanuma_distant(&g->r->numa, m->addr, m->near.len);
}

/* ---- buffers ---- */

struct kv_rdmaregion *
kv_rdmaregion_new(struct kv_rdma *r, void *addr, size_t bytes,
		  enum kv_rdmaregion_use use)
{
	struct kv_rdmaregion *g;
	int rc;

	if (!bytes) {
		errno = EINVAL;
		return NULL;
	}
	g = region_new(r, addr, bytes, bytes);
	if (!g)
		return NULL;
	rc = kv_rdmamr_register(g->mrs, r->ports, r->n, addr, bytes, use);
	if (rc < 0) {
		free(g);
		errno = -rc;
		return NULL;
	}
	place_find(g, g->mrs);
	atomic_store(&g->is_complete, true);
	return g;
}

const struct kv_rdmamem *
kv_rdmaregion_far(const struct kv_rdmaregion *g)
{
	assert(!g->pool);
	return &g->mrs->far;
}

/* ---- pools: words ---- */

static const char *
remedy_of(int err)
{
	switch (err) {
	case ENOMEM:
		return "raise the limit of locked memory, or take huge pages, "
		       "or a smaller pool";
	case EFAULT:
	case EOPNOTSUPP:
		return "let a pool file lie on tmpfs or hugetlbfs";
	default:
		return "see dmesg";
	}
}

/* By the last registrar alone. */
static void
why_build(struct kv_rdmaregion *g)
{
	struct pool *p = g->pool;
	const char *root = g->r->root ? g->r->root : "";
	char at[16], all[16];

	if (p->err == ENOMEM &&
	    kv_room_check_locked(root, 0, g->bytes, p->registrars, p->why,
				 sizeof(p->why)) < 0)
		return;
	snprintf(p->why, sizeof(p->why),
		 "%s registers no more than %s of a pool of %s: %s; %s",
		 g->r->devs[p->err_port].name,
		 kv_str_size_format(at, sizeof(at), p->err_off),
		 kv_str_size_format(all, sizeof(all), g->bytes),
		 strerror(p->err), remedy_of(p->err));
}

/* ---- pools: registrars ---- */

/* With the lock. After the last chunk, is_last is what remains to come. */
static bool
is_there(const struct kv_rdmaregion *g, uint64_t off)
{
	const struct pool *p = g->pool;

	return p->is_last ||
	       (off < g->bytes &&
		p->ready >= kv_min_u64(off + g->chunk_bytes, g->bytes));
}

/* The next chunk, as soon as it is there; NULL: there is none, or nothing is to
 * be registered any more. */
static struct kv_rdmamr *
chunk_wait(struct kv_rdmaregion *g, uint64_t i)
{
	uint64_t off = i * g->chunk_bytes;
	struct kv_rdmamr *m = NULL;
	struct pool *p = g->pool;

	KV_LOCKED(&p->lock) {
		while (!p->stop && !p->err && !is_there(g, off))
			pthread_cond_wait(&p->moved, &p->lock);
		if (!p->stop && !p->err && off < g->bytes)
			m = &g->mrs[i];
		if (m && !m->v) {
			kv_rdmamr_init(
				m, g->r->v, g->addr + off,
				kv_min_u64(g->chunk_bytes, g->bytes - off));
			place_find(g, m);
		}
	}
	return m;
}

static void
fail(const struct registrar *q, uint64_t i, int err)
{
	struct pool *p = q->g->pool;

	KV_LOCKED(&p->lock) {
		if (p->err)
			break;
		p->err = err;
		p->err_port = q->ports[0]->number;
		p->err_off = i * q->g->chunk_bytes;
		pthread_cond_broadcast(&p->moved);
	}
}

/* True: the others do without its device, which has none of the pool then. */
static bool
is_left_out(const struct registrar *q, uint64_t i, int err)
{
	const struct kv_rdmaregion *g = q->g;
	struct pool *p = g->pool;
	bool is_last = true;

	if (!kv_rdmamr_is_dead(-err))
		return false;
	KV_LOCKED(&p->lock)
		is_last = ++p->dead == p->registrars;
	if (is_last)
		return false;
	while (i > 0)
		kv_rdmamr_leave(&q->g->mrs[--i], q->ports, q->n);
	kv_warn("rdma: %s registers nothing of the pool, which is served "
		"without it: %s; see dmesg",
		g->r->devs[q->ports[0]->number].name, strerror(err));
	return true;
}

/* The last registrar tells. */
static void
leave(struct kv_rdmaregion *g)
{
	struct pool *p = g->pool;
	bool tells = false;

	KV_LOCKED(&p->lock)
		tells = --p->running == 0 && !p->stop;
	if (!tells)
		return;
	if (p->err) {
		give_up_all(g);
		why_build(g);
	} else {
		atomic_store(&g->is_complete, true);
	}
	p->done(p->arg, -p->err, p->why);
}

static void *
run(void *arg)
{
	const struct registrar *q = arg;
	struct kv_rdmamr *m;
	uint64_t i = 0;
	int rc;

	kv_log_set_thread("rdma-pool");
	while ((m = chunk_wait(q->g, i))) {
		rc = kv_rdmamr_add(m, q->ports, q->n, KV_RDMAREGION_NEAR);
		if (rc < 0 && is_left_out(q, i, -rc))
			break;
		if (rc < 0)
			fail(q, i, -rc);
		i++;
	}
	leave(q->g);
	return NULL;
}

/* ---- pools ---- */

static void
stop(struct pool *p, unsigned started)
{
	KV_LOCKED(&p->lock) {
		p->stop = true;
		pthread_cond_broadcast(&p->moved);
	}
	for (unsigned i = 0; i < started; i++)
		pthread_join(p->registrar[i].thread, NULL);
}

/* One for each device. */
static void
registrars_init(struct kv_rdmaregion *g)
{
	const struct kv_rdma *r = g->r;
	struct pool *p = g->pool;
	struct registrar *q;

	for (unsigned at = 0; at < r->n; at += q->n) {
		q = &p->registrar[p->registrars++];
		q->g = g;
		q->ports = r->ports + at;
		q->n = kv_rdmamr_alike(q->ports, r->n - at);
	}
	p->running = p->registrars;
}

/* 0, or -errno and none runs. */
static int
registrars_start(struct pool *p)
{
	unsigned i;
	int rc = 0;

	for (i = 0; rc == 0 && i < p->registrars; i += rc == 0)
		rc = kv_thread_start(&p->registrar[i].thread, KV_THREAD_ANY_CPU,
				     run, &p->registrar[i]);
	if (rc < 0)
		stop(p, i);
	return rc;
}

static void
pool_free(struct pool *p)
{
	pthread_cond_destroy(&p->moved);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static struct pool *
pool_new(const struct kv_rdmaregion_pool_opts *o)
{
	struct pool *p = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->done = o->done;
	p->arg = o->arg;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->moved, NULL);
	return p;
}

struct kv_rdmaregion *
kv_rdmaregion_pool(struct kv_rdma *r, const struct kv_rdmaregion_pool_opts *o)
{
	struct kv_rdmaregion *g;
	int rc = -ENOMEM;

	assert(o->bytes > 0 && o->chunk_bytes % PAGE_BYTES == 0);
	g = region_new(r, o->pool, o->bytes,
		       o->chunk_bytes ? o->chunk_bytes : CHUNK_BYTES);
	if (!g)
		return NULL;
	g->pool = pool_new(o);
	if (!g->pool)
		goto free_region;
	registrars_init(g);
	rc = registrars_start(g->pool);
	if (rc == 0)
		return g;
	pool_free(g->pool);
free_region:
	free(g);
	errno = -rc;
	return NULL;
}

void
kv_rdmaregion_ready(struct kv_rdmaregion *g, uint64_t end, bool is_last)
{
	struct pool *p = g->pool;

	KV_LOCKED(&p->lock) {
		assert(!p->is_last && end >= p->ready && end <= g->bytes);
		p->ready = end;
		p->is_last = is_last;
		if (is_last)
			g->bytes = end;
		pthread_cond_broadcast(&p->moved);
	}
}

void
kv_rdmaregion_free(struct kv_rdmaregion *g)
{
	if (!g)
		return;
	if (g->pool)
		stop(g->pool, g->pool->registrars);
	give_up_all(g);
	if (g->pool)
		pool_free(g->pool);
	free(g);
}

/* ---- ranges ---- */

bool
kv_rdmaregion_is_complete(const struct kv_rdmaregion *g)
{
	return atomic_load_explicit(&g->is_complete, memory_order_acquire);
}

unsigned
kv_rdmaregion_near_max(const struct kv_rdmaregion *g, uint64_t bytes)
{
	return (unsigned)(bytes / g->chunk_bytes + 2);
}

unsigned
kv_rdmaregion_near(const struct kv_rdmaregion *g, uint64_t off, uint64_t bytes,
		   struct kv_rdmarange *out, unsigned max)
{
	uint64_t i = off / g->chunk_bytes, len;
	unsigned n = 0;

	assert(kv_rdmaregion_is_complete(g));
	assert(bytes > 0 && off < g->bytes && bytes <= g->bytes - off);
	for (; bytes > 0; i++) {
		if (n == max)
			return 0;
		len = kv_min_u64(bytes, (i + 1) * g->chunk_bytes - off);
		out[n++] = (struct kv_rdmarange){
			.addr = (uintptr_t)g->addr + off,
			.len = len,
			.mem = &g->mrs[i].near,
		};
		off += len;
		bytes -= len;
	}
	return n;
}

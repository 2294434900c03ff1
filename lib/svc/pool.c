#include "svc/pool.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "event/worker.h"
#include "mem/faulter.h"
#include "mem/seg.h"
#include "net/addr.h"
#include "net/lookup.h"
#include "net/sock.h"
#include "svc/ident.h"
#include "svc/node.h"
#include "svc/poolfile.h"
#include "svc/poolregion.h"

#define MASTER_PORT 50051
#define NODE_PORT   50052
#define AGAIN_NS    (100 * KV_NS_PER_MS)

struct kv_pool {
	struct kv_seg *seg;
	struct kv_poolfile *file; /* whose `seg` is then; or NULL */
	struct kv_node_file node_file;
	int fd;    /* for those who attach */
	int fd_ro; /* for those who only read */
	struct kv_net *net;
	struct kv_faulter *faulter;
	struct kv_loop *loop;
	struct kv_worker *thread; /* NULL: the loop is another's */
	struct kv_node *node;
	struct kv_node_opts node_opts;

	/* From the faulter's threads to the loop: how far they are. */
	struct kv_mbox mbox;
	bool has_mbox;
	struct kv_mail progress;
	bool is_posted;      /* atomic: `progress` is on its way */
	uint64_t ready_end;  /* atomic */
	int failed;          /* atomic: -errno */
	uint64_t told_bytes; /* the loop's: the node knows */
	struct kv_timer again;
	struct kv_lookup *lookup; /* of the name that others dial, or NULL */
	struct kv_log_limit log;

	struct kv_poolregion region; /* for RDMA, or none */

	struct kv_mail end; /* kv_pool_close */
	sem_t ended;

	struct kv_id boot;
	char addr[KV_NAME_BYTES_MAX + 1];
	char *socket; /* "unix:PATH", or NULL */
	char listen[KV_ADDR_TEXT_BYTES_MAX];
	char name[KV_NAME_BYTES_MAX + 1];
	char masters[KV_MASTERS_MAX][KV_ADDR_TEXT_BYTES_MAX];
};

/* ---- pages ---- */

static void
pages_tell(struct kv_pool *p)
{
	uint64_t now = kv_loop_now(p->loop);
	uint64_t end;
	int failed;

	/* In this order: what comes after the look is posted again. */
	__atomic_store_n(&p->is_posted, false, __ATOMIC_SEQ_CST);
	failed = __atomic_load_n(&p->failed, __ATOMIC_SEQ_CST);
	end = __atomic_load_n(&p->ready_end, __ATOMIC_SEQ_CST);
	if (!p->node)
		return;
	if (end > p->told_bytes &&
	    kv_node_ready(p->node, p->told_bytes, end - p->told_bytes) < 0) {
		kv_log_limited(&p->log, now, KV_LOG_ERR,
			       "pages of the pool wait: out of memory");
		kv_loop_timer_set(p->loop, &p->again, now + AGAIN_NS);
		return;
	}
	p->told_bytes = end;
	kv_poolregion_ready(&p->region, end, failed || end >= p->seg->bytes);
	if (!failed)
		return;
	kv_err("the pool ends at %llu of %llu bytes: %s",
	       (unsigned long long)end, (unsigned long long)p->seg->bytes,
	       strerror(-failed));
	kv_node_ready_end(p->node);
}

static void
pages_heard(struct kv_mail *mail)
{
	pages_tell(KV_CONTAINER_OF(mail, struct kv_pool, progress));
}

static void
pages_again(struct kv_timer *t)
{
	pages_tell(KV_CONTAINER_OF(t, struct kv_pool, again));
}

static void
pages_post(struct kv_pool *p)
{
	if (!__atomic_exchange_n(&p->is_posted, true, __ATOMIC_SEQ_CST))
		kv_mbox_post(&p->mbox, &p->progress);
}

static void
pages_ready(void *arg, uint64_t off, uint64_t len)
{
	struct kv_pool *p = arg;

	__atomic_store_n(&p->ready_end, off + len, __ATOMIC_SEQ_CST);
	pages_post(p);
}

static void
pages_failed(void *arg, uint64_t off, int err)
{
	struct kv_pool *p = arg;

	(void)off;
	__atomic_store_n(&p->failed, err, __ATOMIC_SEQ_CST);
	pages_post(p);
}

/* ---- start ---- */

static int
names_init(struct kv_pool *p, const struct kv_pool_opts *o, char *err, size_t n)
{
	struct kv_addr addrs[KV_MASTERS_MAX];
	int i, count = 0;

	if (o->masters) {
		count = kv_addr_parse_list(o->masters, MASTER_PORT, addrs,
					   KV_MASTERS_MAX, err, n);
		if (count < 0)
			return count;
	}
	for (i = 0; i < count; i++)
		p->node_opts.masters[i] =
			kv_addr_format(&addrs[i], p->masters[i]);
	i = 0;
	if (o->listen) {
		count = kv_addr_parse(o->listen, NODE_PORT, &addrs[0], err, n);
		if (count < 0)
			return count;
		p->node_opts.listen[i++] = kv_addr_format(&addrs[0], p->listen);
	}
	if (o->socket && asprintf(&p->socket, "unix:%s", o->socket) < 0) {
		p->socket = NULL;
		snprintf(err, n, "out of memory");
		return -ENOMEM;
	}
	p->node_opts.listen[i] = p->socket;
	if (o->name)
		snprintf(p->name, sizeof(p->name), "%s", o->name);
	else if (gethostname(p->name, sizeof(p->name)) < 0)
		snprintf(p->name, sizeof(p->name), "node");
	p->name[sizeof(p->name) - 1] = '\0';
	return 0;
}

static int
file_init(struct kv_pool *p, const struct kv_pool_opts *o, char *err, size_t n)
{
	const struct kv_poolfile_opts po = {
		.path = o->file,
		.bytes = o->bytes,
		.root = o->root,
	};
	int rc;

	if (o->hugepages) {
		snprintf(err, n,
			 "for a pool file of huge pages, give a path on a "
			 "hugetlbfs, and not --hugepages");
		return -EINVAL;
	}
	rc = kv_poolfile_open(&po, &p->file, err, n);
	if (rc < 0)
		return rc;
	p->seg = kv_poolfile_seg(p->file);
	p->node_file = (struct kv_node_file){
		.ledger = kv_poolfile_ledger(p->file),
		.is_void = kv_poolfile_is_void(p->file),
		.attach = kv_poolfile_attach,
		.is_attached = kv_poolfile_is_attached,
		.data_end = kv_poolfile_data_end,
		.settled = kv_poolfile_settled,
		.arg = p->file,
	};
	p->node_opts.file = &p->node_file;
	return 0;
}

static int
memory_init(struct kv_pool *p, const struct kv_pool_opts *o, char *err,
	    size_t n)
{
	const struct kv_seg_opts seg = {
		.bytes = o->bytes,
		.hugepages = o->hugepages,
		.root = o->root,
	};
	char bytes[16];
	int rc;

	if (o->bytes < KV_POOL_BYTES_MIN) {
		snprintf(err, n,
			 "a pool of %s is too small, it takes 1 MiB at least; "
			 "a size without a unit is bytes",
			 kv_str_size_format(bytes, sizeof(bytes), o->bytes));
		return -EINVAL;
	}
	if (o->file)
		return file_init(p, o, err, n);
	rc = kv_seg_open(&seg, &p->seg, err, n);
	if (rc < 0)
		return rc;
	p->fd = kv_seg_fd(p->seg, true);
	p->fd_ro = kv_seg_fd(p->seg, false);
	if (p->fd < 0 || p->fd_ro < 0) {
		rc = p->fd < 0 ? p->fd : p->fd_ro;
		snprintf(err, n, "cannot share the pool: %s", strerror(-rc));
		return rc;
	}
	return 0;
}

static int
net_init(struct kv_pool *p, const struct kv_pool_opts *o, char *err, size_t n)
{
	int rc = 0;

	p->net = kv_sock_net_new();
	if (!p->net) {
		snprintf(err, n, "out of memory");
		return -ENOMEM;
	}
	if (o->socket_group)
		rc = kv_sock_set_group(p->net, o->socket_group);
	if (rc < 0)
		snprintf(err, n, "there is no group %s", o->socket_group);
	return rc;
}

static void
node_opts_init(struct kv_pool *p, const struct kv_pool_opts *o)
{
	struct kv_node_opts *no = &p->node_opts;

	no->net = p->net;
	no->pool = p->seg->base;
	no->pool_bytes = p->seg->bytes;
	no->page_bytes = p->seg->page_bytes;
	no->pool_fd = p->fd;
	no->pool_fd_ro = p->fd_ro;
	if (p->seg->sealed)
		no->pool_flags |= KV_POOL_SEALED;
	if (o->hugepages)
		no->pool_flags |= KV_POOL_HUGETLB;
	no->addr = o->addr;
	no->name = p->name;
	no->grace_ns = o->grace_ns;
	no->drain_ns = o->drain_ns;
	no->workers = o->workers ? o->workers : 1;
	no->rdma = o->rdma;
	if (kv_ident_host(&no->host) < 0)
		kv_warn("cannot tell which host this is: %m");
}

/* What it takes to run on the loop; on the loop's thread. */
struct starting {
	struct kv_pool *p;
	char *err;
	size_t err_bytes;
};

/* ---- the address ---- */

/* Another host to everybody who looks it up. */
static bool
is_loopback(const struct kv_lookup_result *r)
{
	struct kv_addr a;
	int i;

	for (i = 0; i < r->n; i++) {
		kv_lookup_name(&r->addrs[i], &a);
		if (!kv_addr_is_loopback(&a))
			return false;
	}
	return r->n > 0;
}

static void
host_found(void *arg, int status, const struct kv_lookup_result *r)
{
	struct kv_pool *p = arg;

	p->lookup = NULL;
	if (status == -ENXIO || status == -ENONET)
		kv_warn("others cannot reach this node by its name addr=%s: "
			"%s: they are told the address that the master sees "
			"(--host can name one that others reach)",
			p->addr, kv_sock_error_text(status));
	else if (status == 0 && is_loopback(r))
		kv_warn("addr=%s is a loopback address here, others might take "
			"it for their own: they are told the address that the "
			"master sees (--host can name one that others reach)",
			p->addr);
	else
		return;
	kv_node_forget_host(p->node);
}

/*
 * A name that does not even resolve here is likely a mistake, and that of the
 * machine may stand for 127.0.1.1. It takes a moment; who comes sooner is told
 * the name.
 */
static void
host_look(struct kv_pool *p)
{
	struct kv_addr a;
	char err[KV_ADDR_ERROR_BYTES];

	if (kv_addr_parse(p->addr, 0, &a, err, sizeof(err)) == 0 &&
	    !kv_addr_is_unspecified(&a) && !kv_addr_is_numeric(&a) &&
	    !kv_addr_is_loopback(&a))
		p->lookup = kv_lookup_start(p->loop, &a, host_found, p);
}

static void
region_done(struct kv_poolregion *r, bool is_complete)
{
	struct kv_pool *p = KV_CONTAINER_OF(r, struct kv_pool, region);

	kv_node_registered(p->node, is_complete);
}

static void
region_init(struct kv_pool *p)
{
	struct kv_node_opts *no = &p->node_opts;
	const char *why = NULL;
	int rc;

	if (!no->rdma)
		return;
	if (!kv_seg_is_in_memory(p->seg)) {
		why = "NICs do not write to files on a disk; let the pool's "
		      "lie on tmpfs or hugetlbfs";
	} else {
		rc = kv_poolregion_init(&p->region, no->rdma, p->seg->base,
					p->seg->bytes, &p->mbox, region_done);
		no->region = p->region.region;
		why = rc < 0 ? kv_worker_error_text(rc) : NULL;
	}
	if (!why)
		return;
	no->rdma = NULL;
	kv_warn("the pool is not served by RDMA: %s", why);
}

static int
pool_run(struct starting *st)
{
	struct kv_pool *p = st->p;
	struct kv_faulter_opts fo = {
		.seg = p->seg,
		.ready = pages_ready,
		.failed = pages_failed,
		.arg = p,
	};
	int rc = kv_mbox_init(&p->mbox, p->loop);

	if (rc < 0) {
		snprintf(st->err, st->err_bytes, "cannot start: %s",
			 strerror(-rc));
		return rc;
	}
	p->has_mbox = true;
	region_init(p);
	p->node_opts.loop = p->loop;
	p->node = kv_node_new(&p->node_opts, st->err, st->err_bytes);
	if (!p->node)
		return -errno;
	p->boot = *kv_node_boot(p->node);
	snprintf(p->addr, sizeof(p->addr), "%s", kv_node_addr(p->node));
	host_look(p);
	rc = kv_faulter_start(&fo, &p->faulter);
	if (rc < 0)
		snprintf(st->err, st->err_bytes, "cannot fault in the pool: %s",
			 kv_worker_error_text(rc));
	return rc;
}

/* Everything that lives on the loop; on the loop's thread. */
static void
pool_rest(struct kv_pool *p)
{
	kv_faulter_stop(p->faulter);
	p->faulter = NULL;
	kv_loop_timer_del(&p->again);
	if (p->lookup)
		kv_lookup_cancel(p->lookup);
	p->lookup = NULL;
	kv_node_free(p->node);
	p->node = NULL;
	kv_poolregion_fini(&p->region);
	if (p->has_mbox)
		kv_mbox_fini(&p->mbox);
	p->has_mbox = false;
}

static int
pool_run_on_thread(struct kv_worker *w, void *arg)
{
	struct starting *st = arg;
	int rc;

	st->p->loop = kv_worker_loop(w);
	rc = pool_run(st);
	if (rc < 0)
		pool_rest(st->p);
	return rc;
}

/* On the loop that it was given, or on a thread of its own. 0 or -errno. */
static int
pool_begin(struct starting *st, struct kv_loop *loop)
{
	struct kv_pool *p = st->p;

	p->loop = loop;
	if (loop)
		return pool_run(st);
	p->thread = kv_worker_start("kvpool-node", KV_WORKER_NO_CPU,
				    pool_run_on_thread, st);
	return p->thread ? 0 : -errno;
}

struct kv_pool *
kv_pool_start(const struct kv_pool_opts *opts, struct kv_loop *loop, char *err,
	      size_t err_bytes)
{
	struct kv_pool *p = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*p));
	struct starting st = { p, err, err_bytes };
	int rc;

	snprintf(err, err_bytes, "out of memory or threads");
	if (!p) {
		errno = ENOMEM;
		return NULL;
	}
	p->fd = p->fd_ro = -1;
	p->progress.fn = pages_heard;
	p->again.fn = pages_again;
	sem_init(&p->ended, 0, 0);
	rc = names_init(p, opts, err, err_bytes);
	if (rc == 0)
		rc = memory_init(p, opts, err, err_bytes);
	if (rc == 0)
		rc = net_init(p, opts, err, err_bytes);
	if (rc == 0) {
		node_opts_init(p, opts);
		rc = pool_begin(&st, loop);
	}
	if (rc < 0) {
		kv_pool_free(p);
		errno = -rc;
		return NULL;
	}
	return p;
}

/* ---- the end ---- */

void
kv_pool_stop(struct kv_pool *p, void (*done)(void *arg), void *arg)
{
	kv_node_stop(p->node, done, arg);
}

void
kv_pool_free(struct kv_pool *p)
{
	if (!p)
		return;
	pool_rest(p);
	kv_sock_net_free(p->net);
	if (p->fd >= 0)
		close(p->fd);
	if (p->fd_ro >= 0)
		close(p->fd_ro);
	if (p->file)
		kv_poolfile_close(p->file);
	else
		kv_seg_close(p->seg);
	free(p->socket);
	sem_destroy(&p->ended);
	free(p);
}

static void
thread_ended(void *arg)
{
	struct kv_pool *p = arg;

	pool_rest(p);
	sem_post(&p->ended);
}

static void
thread_end(struct kv_mail *mail)
{
	struct kv_pool *p = KV_CONTAINER_OF(mail, struct kv_pool, end);

	kv_pool_stop(p, thread_ended, p);
}

void
kv_pool_close(struct kv_pool *p)
{
	if (!p)
		return;
	assert(p->thread);
	p->end.fn = thread_end;
	kv_mbox_post(kv_worker_mbox(p->thread), &p->end);
	while (sem_wait(&p->ended) < 0)
		assert(errno == EINTR);
	kv_worker_stop(p->thread);
	kv_worker_join(p->thread);
	kv_pool_free(p);
}

/* ---- looking in ---- */

struct kv_node *
kv_pool_node(struct kv_pool *p)
{
	return p->node;
}

const struct kv_id *
kv_pool_boot(const struct kv_pool *p)
{
	return &p->boot;
}

const char *
kv_pool_addr(const struct kv_pool *p)
{
	return p->addr;
}

const char *
kv_pool_socket(const struct kv_pool *p)
{
	return p->socket ? p->socket + strlen("unix:") : "";
}

#include "xfer/enginecore.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/status.h"
#include "event/op.h"
#include "event/worker.h"
#include "mem/seg.h"
#include "net/addr.h"
#include "net/sock.h"
#include "xfer/serve.h"

#define TIMEOUT_MS_DEFAULT 30000u
/* A connection that still moves bytes of a region that goes is cut then. */
#define CUT_AFTER_NS (500 * KV_NS_PER_MS)
/* How long the end of an engine waits for other processes. */
#define CLOSE_WAIT_NS (2 * KV_NS_PER_S)

enum {
	OP_THREADS = 8, /* that run submitted calls */
	COPY_QUEUE = 256,
	COPY_THREADS_MAX = 64,
};

static const struct kv_clock real_clock = { 0 };

int
kv_engine_result(int rc)
{
	return rc ? -kv_status_from_errno(rc) : 0;
}

/* ---- forks: the child has neither our threads nor our connections ---- */

static unsigned forks;

static void
on_fork(void)
{
	forks++;
}

static void
watch_forks(void)
{
	pthread_atfork(NULL, NULL, on_fork);
}

/* ---- calls ---- */

/* Counted first: whoever closes sees the call, or the call sees that it is
 * being closed. */
int
kv_engine_enter(struct kv_engine *e)
{
	if (!e)
		return -KV_EINVALID;
	if (e->forks != forks)
		return -KV_ECLOSED;
	atomic_fetch_add(&e->calls, 1);
	if (!atomic_load(&e->closing))
		return 0;
	atomic_fetch_sub(&e->calls, 1);
	return -KV_ECLOSED;
}

void
kv_engine_leave(struct kv_engine *e)
{
	atomic_fetch_sub(&e->calls, 1);
}

struct kv_wait
kv_engine_wait(const struct kv_engine *e, uint32_t timeout_ms)
{
	uint64_t ms = timeout_ms ? timeout_ms : e->o.timeout_ms;

	return (struct kv_wait){
		.deadline_ns = kv_clock_now(&real_clock) + ms * KV_NS_PER_MS,
		.closing = &e->closing,
	};
}

/* ---- open ---- */

static int
on_start(struct kv_worker *w, void *arg)
{
	struct kv_engine *e = arg;
	struct kv_serve_opts opts = {
		.loop = kv_worker_loop(w),
		.regions = &e->regions,
		.guests = &e->guests,
		.notes = &e->notes,
		.boot = e->boot,
		.token = &e->token,
	};
	int err;

	e->serve = kv_serve_new(&opts);
	if (!e->serve)
		return -ENOMEM;
	err = kv_serve_listen(e->serve, e->o.listen, e->bound);
	if (err)
		kv_serve_free(e->serve);
	return err;
}

static void
on_end(struct kv_mail *mail)
{
	kv_serve_free(KV_CONTAINER_OF(mail, struct kv_engine, end)->serve);
}

static int
start_worker(struct kv_engine *e, char *err, size_t n)
{
	char why[KV_ADDR_ERROR_BYTES];
	struct kv_addr addr;
	int rc = kv_addr_parse(e->o.listen, 0, &addr, why, sizeof(why));

	if (rc == 0 && addr.kind != KV_ADDR_TCP) {
		rc = -EINVAL;
		snprintf(why, sizeof(why), "'%.128s' is not HOST:PORT",
			 e->o.listen);
	}
	if (rc) {
		snprintf(err, n, "%s", why);
		return rc;
	}
	e->worker = kv_worker_start("engine", KV_WORKER_NO_CPU, on_start, e);
	if (!e->worker) {
		rc = -errno;
		snprintf(err, n, "cannot listen on %s: %s", e->o.listen,
			 kv_sock_error_text(rc));
		return rc;
	}
	rc = kv_addr_parse(e->bound, 0, &addr, why, sizeof(why));
	assert(rc == 0);
	e->port = addr.port;
	return 0;
}

static int
start_crews(struct kv_engine *e)
{
	unsigned helpers = e->o.copy_threads - 1;

	e->crew = kv_op_crew_new("engine-op", OP_THREADS, KV_ENGINE_OPS_MAX);
	if (!e->crew)
		return -ENOMEM;
	if (helpers == 0)
		return 0;
	e->helpers = kv_op_crew_new("engine-copy", helpers, COPY_QUEUE);
	return e->helpers ? 0 : -ENOMEM;
}

static void
set_options(struct kv_engine *e, const struct kv_engine_opts *opts)
{
	struct kv_engine_opts *o = &e->o;

	if (opts)
		*o = *opts;
	if (!o->listen)
		o->listen = "0.0.0.0:0";
	if (!o->protocol)
		o->protocol = "auto";
	if (!o->timeout_ms)
		o->timeout_ms = TIMEOUT_MS_DEFAULT;
	if (!o->copy_threads)
		o->copy_threads = 1;
	if (o->copy_threads > COPY_THREADS_MAX)
		o->copy_threads = COPY_THREADS_MAX;
	/* Without Yama there is nothing to allow. */
	if (o->allow_ptracer)
		(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

/* 0, or -errno with a line in err. */
static int
open_rdma(struct kv_engine *e, const char *wanted, char *err, size_t n)
{
	const struct kv_rdma_opts opts = {
		.wanted = e->o.device,
		.qps = e->o.qps,
		.slice_bytes = e->o.slice_bytes,
		.waits = strcmp(wanted, "rdma") != 0,
	};

	kv_mcenv_warn((const char *const *)environ);
	if (strcmp(wanted, "auto") != 0 && strcmp(wanted, "rdma") != 0 &&
	    strcmp(wanted, "tcp") != 0) {
		snprintf(err, n,
			 "protocol '%.32s': it is \"auto\", \"rdma\" or "
			 "\"tcp\"",
			 wanted);
		return -EINVAL;
	}
	if (strcmp(wanted, "tcp") == 0) {
		snprintf(e->no_rdma, sizeof(e->no_rdma), "it is switched off");
		return 0;
	}
	e->rdma = kv_rdma_open(&opts, e->no_rdma, sizeof(e->no_rdma));
	if (e->rdma)
		return 0;
	kv_debug("engine: no RDMA: %s", e->no_rdma);
	if (strcmp(wanted, "rdma") == 0) {
		snprintf(err, n, "%s", e->no_rdma);
		return -ENODEV;
	}
	/* Without what to do. */
	e->no_rdma[strcspn(e->no_rdma, ";")] = '\0';
	return 0;
}

static void
init_parts(struct kv_engine *e)
{
	const struct kv_contact_opts opts = {
		.own = &e->boot,
		.no_attach = e->o.no_attach,
		.rdma = e->rdma,
		.no_rdma = e->no_rdma,
	};

	kv_region_init(&e->regions, e->rdma);
	kv_guest_init(&e->guests);
	kv_note_init(&e->notes);
	kv_remote_init(&e->remotes, &opts);
}

static void
free_parts(struct kv_engine *e)
{
	kv_op_crew_free(e->crew);
	kv_op_crew_free(e->helpers);
	kv_remote_fini(&e->remotes);
	kv_guest_fini(&e->guests);
	kv_region_fini(&e->regions);
	kv_note_fini(&e->notes);
	kv_rdma_close(e->rdma);
	free(e);
}

static struct kv_engine *
engine_new(const struct kv_engine_opts *opts)
{
	struct kv_engine *e = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	if (kv_rng_os(&e->boot, sizeof(e->boot)) ||
	    kv_rng_os(&e->token, sizeof(e->token))) {
		free(e);
		return NULL;
	}
	e->forks = forks;
	e->end.fn = on_end;
	set_options(e, opts);
	return e;
}

struct kv_engine *
kv_engine_open(const struct kv_engine_opts *opts, char *err, size_t err_bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct kv_engine *e;

	pthread_once(&once, watch_forks);
	if (!err)
		err_bytes = 0;
	if (opts && opts->size != sizeof(*opts)) {
		snprintf(err, err_bytes,
			 "options of a wrong size: .size must be "
			 "sizeof(struct kv_engine_opts)");
		return NULL;
	}
	e = engine_new(opts);
	if (!e) {
		snprintf(err, err_bytes, "out of memory");
		return NULL;
	}
	if (open_rdma(e, e->o.protocol, err, err_bytes)) {
		free(e);
		return NULL;
	}
	init_parts(e);
	if (start_crews(e)) {
		snprintf(err, err_bytes, "out of memory");
		free_parts(e);
		return NULL;
	}
	if (start_worker(e, err, err_bytes)) {
		free_parts(e);
		return NULL;
	}
	e->o.listen = e->o.protocol = e->o.device = NULL; /* the caller's */
	if (err_bytes > 0)
		err[0] = '\0';
	return e;
}

/* Other processes may be at our memory; they are told to stop. */
static void
part_from_guests(struct kv_engine *e)
{
	uint64_t wait_ns =
		kv_min_u64(CLOSE_WAIT_NS, e->o.timeout_ms * KV_NS_PER_MS);

	if (kv_guest_flip(&e->guests, kv_clock_now(&real_clock) + wait_ns))
		kv_warn("engine: closed while another process of this host "
			"was still moving bytes");
}

void
kv_engine_close(struct kv_engine *e)
{
	if (!e || e->forks != forks)
		return;
	atomic_store(&e->closing, true);
	kv_op_crew_free(e->crew);
	e->crew = NULL;
	while (atomic_load(&e->calls) > 0)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	kv_mbox_post(kv_worker_mbox(e->worker), &e->end);
	kv_worker_stop(e->worker);
	kv_worker_join(e->worker);
	part_from_guests(e);
	free_parts(e);
}

uint16_t
kv_engine_port(const struct kv_engine *e)
{
	return e ? e->port : 0;
}

/* ---- regions ---- */

int
kv_engine_register(struct kv_engine *e, void *data, size_t len)
{
	int rc = kv_engine_enter(e);

	if (rc)
		return rc;
	rc = kv_region_add(&e->regions, data, len, NULL);
	kv_engine_leave(e);
	return kv_engine_result(rc);
}

struct cut {
	struct kv_mail mail;
	struct kv_engine *e;
	const struct kv_region *region;
	sem_t done;
};

static void
on_cut(struct kv_mail *mail)
{
	struct cut *cut = KV_CONTAINER_OF(mail, struct cut, mail);

	kv_serve_cut(cut->e->serve, cut->region);
	sem_post(&cut->done);
}

static void
cut_connections(struct kv_engine *e, const struct kv_region *r)
{
	struct cut cut = { .mail.fn = on_cut, .e = e, .region = r };

	sem_init(&cut.done, 0, 0);
	kv_mbox_post(kv_worker_mbox(e->worker), &cut.mail);
	while (sem_wait(&cut.done))
		assert(errno == EINTR);
	sem_destroy(&cut.done);
}

/* Those that this process serves end, or are ended; then those of others. */
static int
drain(struct kv_engine *e, struct kv_region *r)
{
	uint64_t now = kv_clock_now(&real_clock);
	uint64_t deadline = now + e->o.timeout_ms * KV_NS_PER_MS;
	int rc = kv_region_wait(&e->regions, r,
				kv_min_u64(deadline, now + CUT_AFTER_NS));

	if (rc == -ETIMEDOUT) {
		cut_connections(e, r);
		rc = kv_region_wait(&e->regions, r, deadline);
	}
	return rc ? rc : kv_guest_flip(&e->guests, deadline);
}

static int
end_region(struct kv_engine *e, const void *data, enum kv_region_end how)
{
	int rc = kv_engine_enter(e);
	struct kv_region *r;

	if (rc)
		return rc;
	rc = kv_region_begin_end(&e->regions, data, how, &r);
	if (rc == 0) {
		rc = drain(e, r);
		kv_region_end(&e->regions, r, rc == 0);
	}
	kv_engine_leave(e);
	return rc < 0 ? kv_engine_result(rc) : 0;
}

int
kv_engine_unregister(struct kv_engine *e, void *data)
{
	return end_region(e, data, KV_REGION_UNREGISTER);
}

static void *
alloc_region(struct kv_engine *e, size_t len)
{
	struct kv_seg_opts opts = { .bytes = len };
	struct kv_seg *seg;
	char why[256];
	int rc = kv_seg_open(&opts, &seg, why, sizeof(why));

	if (rc) {
		kv_warn("engine: no memory to share: %s", why);
		return NULL;
	}
	rc = kv_seg_populate(seg, 0, seg->bytes);
	if (rc)
		kv_warn("engine: no memory to share: %s", strerrordesc_np(-rc));
	else
		rc = kv_region_add(&e->regions, seg->base, len, seg);
	if (rc == 0)
		return seg->base;
	kv_seg_close(seg);
	return NULL;
}

void *
kv_engine_alloc(struct kv_engine *e, size_t len)
{
	void *data;

	if (kv_engine_enter(e))
		return NULL;
	data = alloc_region(e, len);
	kv_engine_leave(e);
	return data;
}

int
kv_engine_free(struct kv_engine *e, void *data)
{
	return end_region(e, data, KV_REGION_FREE);
}

/* Raw transfers to another process of this host: scattered pieces into memory
 * that it has from anywhere, and into memory that its engine allocated. */
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "cmd/kvbench_run.h"

#define PIECE_BYTES 32768

struct raw {
	struct kv_engine *e;
	struct kv_floor *floor;
	struct kvbench_target t;
	char peer[32];
	uint32_t *to; /* where piece i goes: each place once, in no order */
	struct kv_xfer_item *any, *own;
	struct iovec *local, *remote;
};

/* ---- set-up ---- */

/* An address in the other process, as the system call wants it. */
static void *
pointer(uint64_t addr)
{
	union {
		uintptr_t number;
		void *pointer;
	} u = { .number = (uintptr_t)addr };

	return u.pointer;
}

static bool
pieces_make(struct run *r, struct raw *w)
{
	char *from = kv_floor_private(w->floor);
	size_t n = r->b->pieces, i;

	w->to = calloc(n, sizeof(*w->to));
	w->any = calloc(n, sizeof(*w->any));
	w->own = calloc(n, sizeof(*w->own));
	w->local = calloc(n, sizeof(*w->local));
	w->remote = calloc(n, sizeof(*w->remote));
	if (!w->to || !w->any || !w->own || !w->local || !w->remote)
		return false;
	for (i = 0; i < n; i++) {
		size_t j = kv_rng_below(&r->rng, i + 1);

		w->to[i] = w->to[j];
		w->to[j] = (uint32_t)i;
	}
	for (i = 0; i < n; i++) {
		uint64_t at = (uint64_t)w->to[i] * PIECE_BYTES;

		w->local[i] =
			(struct iovec){ from + i * PIECE_BYTES, PIECE_BYTES };
		w->any[i] = (struct kv_xfer_item){ w->local[i].iov_base,
						   w->t.any + at, PIECE_BYTES };
		w->own[i] = (struct kv_xfer_item){ w->local[i].iov_base,
						   w->t.own + at, PIECE_BYTES };
		w->remote[i].iov_base = pointer(w->any[i].remote);
		w->remote[i].iov_len = PIECE_BYTES;
	}
	return true;
}

int
kvbench_raw_open(struct run *r)
{
	const struct kv_engine_opts o = { .size = sizeof(o),
					  .listen = "127.0.0.1:0",
					  .copy_threads = r->b->threads };
	const struct kv_floor_opts f = { .bytes = PIECE_BYTES,
					 .pieces = r->b->pieces };
	struct raw *w = r->own = calloc(1, sizeof(*w));
	char err[512] = "out of memory";

	if (!w)
		return EX_OSERR;
	w->t.in = -1;
	/* Forks first: they have no threads, and no memory to copy. */
	if (!kvbench_target_start(&w->t, r->b->pieces * PIECE_BYTES)) {
		fprintf(stderr, "kvbench: raw_write: no memory for a second "
				"process\n");
		return EX_OSERR;
	}
	w->floor = kv_floor_new(&f, err, sizeof(err));
	w->e = w->floor ? kv_engine_open(&o, err, sizeof(err)) : NULL;
	if (!w->e || !pieces_make(r, w)) {
		fprintf(stderr, "kvbench: raw_write: %s\n", err);
		return EX_OSERR;
	}
	snprintf(w->peer, sizeof(w->peer), "127.0.0.1:%u", w->t.port);
	return 0;
}

void
kvbench_raw_close(struct run *r)
{
	struct raw *w = r->own;

	if (!w)
		return;
	kv_engine_close(w->e);
	kvbench_target_end(&w->t);
	kv_floor_free(w->floor);
	free(w->to);
	free(w->any);
	free(w->own);
	free(w->local);
	free(w->remote);
	free(w);
	r->own = NULL;
}

/* ---- measurements, in GB/s ---- */

static int64_t
write_any(struct run *r, struct raw *w)
{
	const struct kv_floor_write f = {
		.pid = w->t.pid,
		.local = w->local,
		.remote = w->remote,
		.n = r->b->pieces,
		.threads = r->b->threads,
	};
	int64_t t = kv_floor_write(&f);

	return t < 0 ? kvbench_floor_failed("raw_write", t) : t;
}

static int64_t
transfer(struct run *r, struct raw *w, const struct kv_xfer_item *items)
{
	uint64_t start = kvbench_now_ns();
	int rc = kv_engine_transfer(w->e, KV_ENGINE_WRITE, w->peer, items,
				    r->b->pieces, 0);

	if (rc < 0)
		return kvbench_failed("raw transfer", rc);
	return (int64_t)(kvbench_now_ns() - start);
}

static int64_t
transfer_any(struct run *r, struct raw *w)
{
	return transfer(r, w, w->any);
}

static int64_t
transfer_own(struct run *r, struct raw *w)
{
	return transfer(r, w, w->own);
}

static double
rate(struct run *r, int64_t (*fn)(struct run *r, struct raw *w))
{
	uint64_t took = 0, n = 0;
	int64_t t;

	for (; took < r->b->time_ns; took += (uint64_t)t, n++) {
		t = fn(r, r->own);
		if (t < 0)
			return -1;
	}
	return (double)(n * r->b->pieces * PIECE_BYTES) / (double)took;
}

double
kvbench_raw_write(struct run *r)
{
	return rate(r, transfer_any);
}

double
kvbench_raw_write_own(struct run *r)
{
	return rate(r, transfer_own);
}

double
kvbench_floor_raw_write(struct run *r)
{
	return rate(r, write_any);
}

double
kvbench_floor_raw_write_own(struct run *r)
{
	const struct raw *w = r->own;
	double ns = kvbench_copies(r, w->floor, true, w->to);

	return ns < 0 ? -1 : (double)(r->b->pieces * PIECE_BYTES) / ns;
}

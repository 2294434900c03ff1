/* The calls of an engine that concern a peer. */
#include "xfer/enginecore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "event/op.h"
#include "xfer/regtable.h"
#include "xfer/railset.h"
#include "xfer/transfer.h"

#define TEXT_BYTES_MAX (KV_TAIL_MAX - KV_NOTE_NAME_BYTES_MAX)

/* ---- transfers ---- */

struct request {
	enum kv_engine_op op;
	const char *peer;
	const struct kv_xfer_item *items;
	size_t n;
	struct kv_wait wait;
};

static int
transfer(struct kv_engine *e, const struct request *req)
{
	struct kv_transfer t = {
		.own = &e->regions,
		.helpers = e->helpers,
		.threads = e->o.copy_threads,
		.op = req->op,
		.items = req->items,
		.n = req->n,
		.wait = req->wait,
	};
	int rc;

	if ((req->op != KV_ENGINE_WRITE && req->op != KV_ENGINE_READ) ||
	    (req->n > 0 && !req->items))
		return -EINVAL;
	t.remote = kv_remote_use(&e->remotes, req->peer);
	if (!t.remote)
		return -errno;
	rc = kv_transfer_run(&t);
	kv_remote_unuse(t.remote);
	return rc;
}

int
kv_engine_transfer(struct kv_engine *e, enum kv_engine_op op, const char *peer,
		   const struct kv_xfer_item *items, size_t n,
		   uint32_t timeout_ms)
{
	struct request req = {
		.op = op,
		.peer = peer,
		.items = items,
		.n = n,
	};
	int rc = kv_engine_enter(e);

	if (rc)
		return rc;
	req.wait = kv_engine_wait(e, timeout_ms);
	rc = transfer(e, &req);
	kv_engine_leave(e);
	return kv_engine_result(rc);
}

struct submitted {
	struct kv_engine *e;
	struct request req;
	char peer[];
};

static long
run_submitted(void *arg)
{
	struct submitted *s = arg;
	int rc = kv_engine_enter(s->e);

	if (rc)
		return rc;
	rc = transfer(s->e, &s->req);
	kv_engine_leave(s->e);
	return kv_engine_result(rc);
}

static struct kv_op *
submit(struct kv_engine *e, const struct request *req)
{
	size_t len = req->peer ? strlen(req->peer) + 1 : 0;
	struct submitted *s =
		KV_FAULT_POINT() ? NULL : malloc(sizeof(*s) + len);

	if (!s)
		return NULL;
	s->e = e;
	s->req = *req;
	if (req->peer)
		s->req.peer = memcpy(s->peer, req->peer, len);
	return kv_op_start(e->crew, run_submitted, free, s);
}

struct kv_op *
kv_engine_submit(struct kv_engine *e, enum kv_engine_op op, const char *peer,
		 const struct kv_xfer_item *items, size_t n,
		 uint32_t timeout_ms)
{
	struct request req = {
		.op = op,
		.peer = peer,
		.items = items,
		.n = n,
	};
	struct kv_op *started;

	if (kv_engine_enter(e))
		return NULL;
	req.wait = kv_engine_wait(e, timeout_ms);
	started = submit(e, &req);
	kv_engine_leave(e);
	return started;
}

/* ---- questions and messages ---- */

/* What a call asks of a peer, and its parameters. */
struct question {
	struct kv_remote *remote;
	struct kv_wait wait;
	struct kv_railnote_text note;
	char *buf; /* out */
	size_t n;
	uint64_t addr; /* out */
};

static int
ask(struct kv_engine *e, const char *peer, kv_transfer_fn *fn,
    struct question *q)
{
	int rc = kv_engine_enter(e);

	if (rc)
		return rc;
	q->wait = kv_engine_wait(e, 0);
	q->remote = kv_remote_use(&e->remotes, peer);
	rc = q->remote ? 0 : -errno;
	if (rc == 0) {
		rc = kv_transfer_with(q->remote, &q->wait, false, fn, q);
		kv_remote_unuse(q->remote);
	}
	kv_engine_leave(e);
	return kv_engine_result(rc);
}

/* What the peer has now. */
static int
refresh(const struct question *q, struct kv_contact *c)
{
	struct kv_regtable *table = kv_remote_table(q->remote, c);
	int rc = kv_remote_refresh(q->remote, c, table, &q->wait);

	kv_regtable_unref(table);
	return rc;
}

static int
ask_first(void *arg, struct kv_contact *c)
{
	struct question *q = arg;
	int rc = refresh(q, c);
	struct kv_regtable *table;

	if (rc)
		return rc;
	table = kv_remote_table(q->remote, c);
	q->addr = table->first;
	kv_regtable_unref(table);
	return 0;
}

uint64_t
kv_engine_first_region(struct kv_engine *e, const char *peer)
{
	struct question q = { 0 };

	return ask(e, peer, ask_first, &q) ? 0 : q.addr;
}

static int
ask_ping(void *arg, struct kv_contact *c)
{
	struct question *q = arg;

	return kv_remote_ping(q->remote, c, &q->wait);
}

int
kv_engine_probe(struct kv_engine *e, const char *peer)
{
	struct question q = { 0 };

	return ask(e, peer, ask_ping, &q);
}

static int
ask_path(void *arg, struct kv_contact *c)
{
	struct question *q = arg;
	int rc = refresh(q, c);

	if (rc == 0)
		rc = kv_remote_try_rails(q->remote, c, &q->wait);
	if (rc == 0)
		kv_remote_describe(q->remote, c, q->buf, q->n);
	return rc;
}

int
kv_engine_path(struct kv_engine *e, const char *peer, char *buf,
	       size_t buf_bytes)
{
	struct question q = { .buf = buf, .n = buf_bytes };

	if (!buf && buf_bytes > 0)
		return -KV_EINVALID;
	return ask(e, peer, ask_path, &q);
}

/* By a queue pair of its own. 1: it must be TCP, and nothing was sent. */
static int
note_by_rails(const struct question *q, struct kv_contact *c)
{
	struct kv_railset *s;
	int rc;

	if (atomic_load(&c->path) != KV_SLICE_RDMA ||
	    atomic_load(&c->rails) == 0 ||
	    kv_remote_take_rails(q->remote, c, &q->wait, &s) != 0)
		return 1;
	rc = kv_railset_note(s, &q->note, &q->wait);
	atomic_store(&c->notes, rc == 0 || rc == -EBUSY);
	if (rc >= 0 || rc == -EBUSY)
		kv_remote_give_rails(q->remote, c, s);
	else
		kv_railset_free(s);
	return rc;
}

static int
ask_note(void *arg, struct kv_contact *c)
{
	struct question *q = arg;
	int rc = note_by_rails(q, c);

	return rc <= 0 ? rc : kv_remote_note(q->remote, c, &q->wait, &q->note);
}

int
kv_engine_notify(struct kv_engine *e, const char *peer, const char *name,
		 const void *text, size_t text_len)
{
	struct question q = {
		.note = { .name = name, .text = text, .text_len = text_len },
	};

	if (!name || strlen(name) > KV_NOTE_NAME_BYTES_MAX ||
	    (!text && text_len > 0))
		return -KV_EINVALID;
	if (text_len > TEXT_BYTES_MAX)
		return -KV_ETOOBIG;
	return ask(e, peer, ask_note, &q);
}

long
kv_engine_notes(struct kv_engine *e, struct kv_note_in *notes, size_t max)
{
	long n = kv_engine_enter(e);

	if (n)
		return n;
	n = notes || max == 0 ? (long)kv_note_pop(&e->notes, notes, max)
			      : -KV_EINVALID;
	kv_engine_leave(e);
	return n;
}

#include "xfer/transfer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/fault.h"
#include "event/op.h"
#include "xfer/crossmem.h"
#include "xfer/fence.h"
#include "xfer/railset.h"
#include "xfer/region.h"
#include "xfer/regtable.h"
#include "xfer/remote.h"
#include "xfer/tcp.h"

/* One system call or copy moves at most so much: a few milliseconds, in which
 * nobody looks at the deadline and no region can go away. */
#define CHUNK_BYTES (UINT64_C(16) << 20)

_Static_assert(KV_XFER_PIECES_MAX <= IOV_MAX,
	       "a slice is what one system call takes");

enum {
	SHARES_MAX = 64,
	SHARE_BYTES = 1 << 20, /* less is not worth another thread */
};

/* Without rails, so much goes by TCP before they are looked for again. */
#define REST_BYTES (UINT64_C(64) << 20)

/* A part of the call that one thread does. */
struct share {
	const struct kv_transfer *t;
	struct kv_contact *c;
	struct kv_slice_cursor cursor;
	struct kv_regtable *table;
	bool refreshed; /* because something was not in it */
	struct kv_tcp *tcp;
	uint64_t by_tcp; /* bytes that come next, if the path is RDMA */
	bool denied;     /* its keys were wrong */
	struct kv_railset *rails;
	struct kv_railbatch *batch;
	struct kv_slice *slice;
	struct kv_region_hold *hold;
};

/* ---- one batch ---- */

static int
copy_self(struct share *s)
{
	struct iovec there[KV_XFER_PIECES_MAX];
	struct kv_slice *b = s->slice;
	int rc;

	if (!s->hold)
		s->hold = KV_FAULT_POINT() ? NULL : malloc(sizeof(*s->hold));
	if (!s->hold)
		return -ENOMEM;
	rc = kv_region_hold(s->t->own, b->pieces, b->n_remote, there, s->hold);
	if (rc)
		return rc;
	kv_crossmem_copy(s->t->op == KV_ENGINE_WRITE, b->local, b->n_local,
			 there, b->n_remote);
	kv_region_release(s->t->own, s->hold);
	return 0;
}

/* Inside the fence. */
static int
reach(struct share *s)
{
	bool write = s->t->op == KV_ENGINE_WRITE;
	struct kv_slice *b = s->slice;
	int rc;

	if (!kv_contact_is_alive(s->c))
		return -ESTALE;
	if (b->path == KV_SLICE_SHM) {
		kv_crossmem_copy(write, b->local, b->n_local, b->remote,
				 b->n_remote);
		return 0;
	}
	rc = kv_crossmem_move(s->c->pid, write, b->local, b->n_local, b->remote,
			      b->n_remote);
	switch (-rc) {
	case EFAULT:
		return -EIO;
	case ESRCH:
		return -ESTALE;
	case EPERM:
	case EACCES:
	case ENOSYS:
		kv_remote_demote(s->t->remote, s->c, rc);
		return -EPERM;
	default:
		return rc;
	}
}

static int
copy_fenced(struct share *s)
{
	struct kv_fence *fence = kv_contact_fence(s->c);
	int side = kv_fence_enter(fence, s->table->epoch);
	int rc;

	if (side < 0)
		return side;
	rc = reach(s);
	kv_fence_leave(fence, side);
	return rc;
}

/* All that comes next on this path, of up to max bytes. */
static int
send_tcp(struct share *s, uint64_t max)
{
	struct kv_slice_cursor next = s->cursor;
	struct kv_tcp_move move = {
		.op = s->t->op,
		.table = s->table,
		.cursor = &next,
		.wait = &s->t->wait,
	};
	uint64_t left = s->cursor.left, moved;
	int rc;

	next.left = kv_min_u64(max, left);
	if (!s->tcp)
		s->tcp = kv_remote_take_tcp(s->t->remote, s->c);
	if (!s->tcp)
		return -ENOMEM;
	rc = kv_tcp_move(s->tcp, &move);
	if (rc) {
		kv_tcp_free(s->tcp);
		s->tcp = NULL;
		return rc;
	}
	/* Fewer, if memory that is mapped comes before. */
	moved = kv_min_u64(max, left) - next.left;
	s->by_tcp -= kv_min_u64(s->by_tcp, moved);
	next.left = left - moved;
	s->cursor = next;
	return 0;
}

/* ---- rails ---- */

/* What is done instead of what rails could not do: 1; or -errno. */
static int
fall_back(struct share *s, int rc)
{
	switch (-rc) {
	case EBUSY: /* what is registered here has changed */
		return 1;
	case EACCES:
		/* The table may be older than what the peer has. */
		if (!s->denied) {
			s->denied = true;
			return -EAGAIN;
		}
		s->by_tcp = UINT64_MAX;
		return 1;
	case -1:
		kv_remote_rest_rails(s->t->remote, s->c,
				     kv_railset_why(s->rails));
		s->by_tcp = s->batch->bytes;
		return 1;
	default:
		return rc;
	}
}

/* 0: its bytes are in place; 1: go on; -errno. */
static int
move_batch(struct share *s)
{
	int rc;

	if (!s->rails) {
		rc = kv_remote_take_rails(s->t->remote, s->c, &s->t->wait,
					  &s->rails);
		if (rc == 1)
			s->by_tcp = kv_max_u64(s->batch->bytes, REST_BYTES);
		if (rc)
			return rc;
	}
	rc = kv_railset_move(s->rails, s->batch, &s->t->wait);
	if (rc) {
		rc = fall_back(s, rc);
		kv_railset_free(s->rails);
		s->rails = NULL;
	}
	return rc;
}

/* One batch of what is left; or finds out that it is TCP's. */
static int
send_rails(struct share *s)
{
	struct kv_slice_cursor next = s->cursor;
	int rc;

	if (!s->batch)
		s->batch = kv_railbatch_new(s->t->own, s->t->op);
	if (!s->batch)
		return -ENOMEM;
	kv_railbatch_fill(s->batch, s->table, &next);
	if (s->batch->bytes == 0) {
		s->by_tcp = s->batch->other;
		return 0;
	}
	rc = move_batch(s);
	if (rc == 0)
		kv_railbatch_unpack(s->batch);
	kv_railbatch_release(s->batch);
	if (rc == 0)
		s->cursor = next;
	return rc < 0 ? rc : 0;
}

/* ---- the next batch ---- */

static int
copy(struct share *s, enum kv_slice_path path)
{
	struct kv_slice_cursor next = s->cursor;
	int rc;

	kv_slice_gather(s->slice, s->table, path, &next, CHUNK_BYTES);
	rc = path == KV_SLICE_SELF ? copy_self(s) : copy_fenced(s);
	if (rc == 0)
		s->cursor = next;
	return rc == -EPERM ? 0 : rc;
}

static int
step(struct share *s)
{
	enum kv_slice_path path = atomic_load(&s->c->path);
	struct kv_slice_piece first;
	int rc = kv_wait_check(&s->t->wait);

	if (rc)
		return rc;
	first = kv_slice_look(s->table, path, &s->cursor);
	switch (first.path) {
	case KV_SLICE_RDMA:
	case KV_SLICE_TCP:
		if (path == KV_SLICE_TCP)
			return send_tcp(s, UINT64_MAX);
		return s->by_tcp > 0 ? send_tcp(s, s->by_tcp) : send_rails(s);
	default:
		return copy(s, path);
	}
}

/* ---- one share ---- */

static bool
is_covered(const struct share *s)
{
	uint64_t left = s->cursor.left, off = s->cursor.off;

	for (const struct kv_xfer_item *i = s->cursor.item; left > 0; i++) {
		uint64_t len = kv_min_u64(left, i->len - off);

		if (len > 0 &&
		    !kv_regtable_covers(s->table, i->remote + off, len))
			return false;
		left -= len;
		off = 0;
	}
	return true;
}

static void
set_table(struct share *s)
{
	kv_regtable_unref(s->table);
	s->table = kv_remote_table(s->t->remote, s->c);
	s->cursor.entry = NULL;
}

static int
refresh(struct share *s)
{
	int rc = kv_remote_refresh(s->t->remote, s->c, s->table, &s->t->wait);

	if (rc == 0)
		set_table(s);
	return rc;
}

/* -EAGAIN: the table may be older than what the peer has. */
static int
run_by_table(struct share *s)
{
	int rc = 0;

	if (!is_covered(s))
		return -EINVAL;
	while (rc == 0 && s->cursor.left > 0)
		rc = step(s);
	return rc;
}

/* A region that is unknown, to this side or to the peer, is asked for once. A
 * table that the peer has dated is asked for as often as it takes. */
static int
run_share(struct share *s)
{
	for (;;) {
		int rc = run_by_table(s);

		if (rc != -EAGAIN && (rc != -EINVAL || s->refreshed))
			return rc;
		s->refreshed |= rc == -EINVAL;
		rc = refresh(s);
		if (rc)
			return rc;
	}
}

static int
share_open(struct share *s, const struct share *whole, uint64_t from,
	   uint64_t bytes)
{
	*s = *whole;
	s->slice = KV_FAULT_POINT() ? NULL : malloc(sizeof(*s->slice));
	if (!s->slice)
		return -ENOMEM;
	kv_slice_skip(&s->cursor, from);
	s->cursor.left = bytes;
	set_table(s);
	return 0;
}

static void
share_close(struct share *s)
{
	if (s->tcp)
		kv_remote_give_tcp(s->t->remote, s->c, s->tcp);
	if (s->rails)
		kv_remote_give_rails(s->t->remote, s->c, s->rails);
	kv_railbatch_free(s->batch);
	kv_regtable_unref(s->table);
	free(s->slice);
	free(s->hold);
}

static long
run_one(void *arg)
{
	return run_share(arg);
}

/* ---- all shares ---- */

static unsigned
count_shares(const struct kv_transfer *t, const struct kv_contact *c,
	     uint64_t bytes)
{
	uint64_t n = kv_min_u64(t->helpers ? t->threads : 1, SHARES_MAX);

	if (atomic_load(&c->path) >= KV_SLICE_RDMA && !kv_contact_fence(c))
		return 1;
	return (unsigned)kv_max_u64(1, kv_min_u64(n, bytes / SHARE_BYTES));
}

static int
wait_for(struct kv_op *op)
{
	long rc = 0;

	while (kv_op_wait(op, 1000, &rc))
		;
	return (int)rc;
}

/* The last one is done by this thread; so are those that no helper took. */
static int
run_shares(const struct kv_transfer *t, struct share *shares, unsigned n)
{
	struct kv_op *ops[SHARES_MAX];
	int rc = 0, one;

	for (unsigned i = 0; i < n - 1; i++)
		ops[i] = kv_op_start(t->helpers, run_one, NULL, &shares[i]);
	rc = run_share(&shares[n - 1]);
	for (unsigned i = 0; i < n - 1; i++) {
		one = ops[i] ? wait_for(ops[i]) : run_share(&shares[i]);
		rc = rc ? rc : one;
	}
	return rc;
}

static int
run_with(void *arg, struct kv_contact *c)
{
	const struct share *request = arg;
	const struct kv_transfer *t = request->t;
	uint64_t bytes = request->cursor.left, from = 0;
	unsigned n = count_shares(t, c, bytes), opened = 0;
	struct share whole = *request, shares[SHARES_MAX];
	int rc = 0;

	whole.c = c;
	for (; opened < n && rc == 0; opened++) {
		uint64_t to = opened + 1 == n
				      ? bytes
				      : (bytes / n * (opened + 1)) & ~4095ull;

		rc = share_open(&shares[opened], &whole, from, to - from);
		from = to;
	}
	if (rc == 0)
		rc = run_shares(t, shares, n);
	while (opened > 0)
		share_close(&shares[--opened]);
	return rc;
}

/* ---- the call ---- */

int
kv_transfer_with(struct kv_remote *r, const struct kv_wait *wait, bool again,
		 kv_transfer_fn *fn, void *arg)
{
	bool retried = false;

	for (;;) {
		struct kv_contact *c;
		int rc = kv_remote_contact(r, wait, &c);
		bool retry;

		if (rc)
			return rc == -ESTALE ? -ECONNRESET : rc;
		rc = fn(arg, c);
		retry = rc == -ESTALE || (again && rc == -ECONNRESET);
		if (retry || rc == -ECONNRESET || rc == -EPROTO)
			kv_remote_drop(r, c);
		kv_contact_unref(c);
		if (!retry || retried)
			return rc == -ESTALE ? -ECONNRESET : rc;
		retried = true;
	}
}

/* -EINVAL for pieces that cannot be; else how many bytes they have. */
static int
add_up(const struct kv_transfer *t, uint64_t *bytes)
{
	*bytes = 0;
	for (size_t i = 0; i < t->n; i++) {
		const struct kv_xfer_item *item = &t->items[i];
		uint64_t end;

		if (item->len == 0)
			continue;
		if (!item->local || !item->remote ||
		    kv_add_u64((uintptr_t)item->local, item->len, &end) ||
		    kv_add_u64(item->remote, item->len, &end) ||
		    kv_add_u64(*bytes, item->len, bytes))
			return -EINVAL;
	}
	return 0;
}

int
kv_transfer_run(const struct kv_transfer *t)
{
	struct share request = { .t = t, .cursor.item = t->items };
	int rc = add_up(t, &request.cursor.left);

	if (rc || request.cursor.left == 0)
		return rc;
	return kv_transfer_with(t->remote, &t->wait, true, run_with, &request);
}

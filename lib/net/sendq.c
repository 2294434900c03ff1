#include "net/sendq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/limits.h"
#include "base/num.h"
#include "net/conn.h"

enum {
	BYTES_MIN = 4096,
	BYTES_KEEP = 256 << 10, /* a larger buffer goes when it is not needed */
	RUNS_MIN = 64,
	SMALL_TIMES = 64, /* that it was not needed, in a row */
};

/* Bytes that follow one another in memory. */
struct run {
	void *base; /* NULL: the next ones of the frames */
	size_t len;
	struct kv_conn_sent *sent; /* to be told after the last one */
};

void
kv_sendq_init(struct kv_sendq *q)
{
	*q = (struct kv_sendq){ 0 };
}

static void
store_fini(struct kv_sendq_store *s)
{
	free(s->mem);
	*s = (struct kv_sendq_store){ 0 };
}

void
kv_sendq_fini(struct kv_sendq *q)
{
	store_fini(&q->bytes);
	store_fini(&q->runs);
}

/*
 * Makes room for n more bytes. What is there is moved to the front only when at
 * least a quarter of the room was used up since the last move, and copied only
 * when the room doubles: a few moves a byte, however long the queue is never
 * empty. 0 or -ENOMEM.
 */
static int
store_room(struct kv_sendq_store *s, size_t n, size_t min)
{
	size_t cap = s->cap > 0 ? s->cap * 2 : min;
	uint8_t *mem;

	if (s->head + s->used + n <= s->cap)
		return 0;
	if (s->used + n <= s->cap && s->head >= s->cap / 4) {
		memmove(s->mem, s->mem + s->head, s->used);
		s->head = 0;
		return 0;
	}
	while (cap < s->used + n)
		cap *= 2;
	mem = KV_FAULT_POINT() ? NULL : malloc(cap);
	if (!mem)
		return -ENOMEM;
	if (s->used > 0)
		memcpy(mem, s->mem + s->head, s->used);
	free(s->mem);
	s->mem = mem;
	s->cap = cap;
	s->head = 0;
	return 0;
}

static void
store_take(struct kv_sendq_store *s, size_t n)
{
	s->used -= n;
	s->head = s->used > 0 ? s->head + n : 0;
}

void *
kv_sendq_grow(struct kv_sendq *q, size_t n)
{
	int rc = -ENOBUFS;
	void *p;

	if (kv_sendq_bytes(q) + n <= KV_CONN_QUEUE_BYTES_MAX)
		rc = store_room(&q->bytes, n, BYTES_MIN);
	if (rc < 0) {
		errno = -rc;
		return NULL;
	}
	p = q->bytes.mem + q->bytes.head + q->bytes.used;
	q->bytes.used += n;
	q->open += n;
	q->peak = kv_max_size(q->peak, q->bytes.used);
	return p;
}

void
kv_sendq_drop(struct kv_sendq *q)
{
	q->bytes.used -= q->open;
	q->open = 0;
}

static void
add_run(struct kv_sendq *q, const struct run *run)
{
	memcpy(q->runs.mem + q->runs.head + q->runs.used, run, sizeof(*run));
	q->runs.used += sizeof(*run);
}

static struct run *
first_run(const struct kv_sendq *q)
{
	return (struct run *)(void *)(q->runs.mem + q->runs.head);
}

static struct run *
last_run(const struct kv_sendq *q)
{
	return first_run(q) + q->runs.used / sizeof(struct run) - 1;
}

/* Frames with nothing between them are one run. */
static void
add_frame(struct kv_sendq *q)
{
	struct run *last = kv_sendq_is_empty(q) ? NULL : last_run(q);

	if (last && !last->base && !last->sent)
		last->len += q->open;
	else
		add_run(q, &(struct run){ .len = q->open });
	q->open = 0;
}

int
kv_sendq_end(struct kv_sendq *q, const struct iovec *iov, int n,
	     struct kv_conn_sent *sent)
{
	size_t more = ((size_t)n + 1) * sizeof(struct run);
	int rc;

	assert(q->open > 0);
	if (kv_sendq_bytes(q) + more > KV_CONN_QUEUE_BYTES_MAX)
		return -ENOBUFS;
	rc = store_room(&q->runs, more, RUNS_MIN * sizeof(struct run));
	if (rc < 0)
		return rc;
	add_frame(q);
	for (int i = 0; i < n; i++) {
		struct run run = { iov[i].iov_base, iov[i].iov_len, NULL };

		if (run.len == 0)
			continue;
		assert(run.base);
		add_run(q, &run);
	}
	last_run(q)->sent = sent;
	return 0;
}

int
kv_sendq_gather(const struct kv_sendq *q, struct iovec *iov, int max)
{
	size_t count = q->runs.used / sizeof(struct run);
	uint8_t *next = q->bytes.mem + q->bytes.head;
	int n;

	for (n = 0; n < max && (size_t)n < count; n++) {
		const struct run *run = first_run(q) + n;

		iov[n].iov_base = run->base ? run->base : next;
		iov[n].iov_len = run->len;
		if (!run->base)
			next += run->len;
	}
	return n;
}

/* What was needed once need not be needed for ever. */
static void
shrink(struct kv_sendq *q)
{
	if (q->bytes.cap <= BYTES_KEEP || q->peak > BYTES_KEEP)
		q->small = 0;
	else if (++q->small >= SMALL_TIMES)
		kv_sendq_fini(q);
	q->peak = 0;
}

void
kv_sendq_advance(struct kv_sendq *q, size_t n, struct kv_list *done)
{
	while (n > 0) {
		struct run *run = first_run(q);
		size_t part = kv_min_size(n, run->len);

		assert(!kv_sendq_is_empty(q));
		if (run->base)
			run->base = (uint8_t *)run->base + part;
		else
			store_take(&q->bytes, part);
		n -= part;
		run->len -= part;
		if (run->len > 0)
			return;
		if (run->sent) {
			run->sent->status = 0;
			kv_list_add_tail(done, &run->sent->link);
		}
		store_take(&q->runs, sizeof(*run));
	}
	if (q->bytes.used == 0 && kv_sendq_is_empty(q))
		shrink(q);
}

void
kv_sendq_fail(struct kv_sendq *q, int status, struct kv_list *done)
{
	size_t count = q->runs.used / sizeof(struct run);

	for (size_t i = 0; i < count; i++) {
		struct kv_conn_sent *sent = first_run(q)[i].sent;

		if (!sent)
			continue;
		sent->status = status;
		kv_list_add_tail(done, &sent->link);
	}
	kv_sendq_fini(q);
	kv_sendq_init(q);
}

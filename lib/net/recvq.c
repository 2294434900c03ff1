#include "net/recvq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/num.h"
#include "net/conn.h"
#include "net/stream.h"

enum {
	CAP_MIN = 64 << 10,
	SMALL_TIMES = 64, /* emptied so often without need: shrink */
	AHEAD = 512,      /* read behind a payload */
	BULK = 16 << 10,  /* payloads above it are worth a read each */
	NEED_MAX = KV_FRAME_BYTES_MAX + CAP_MIN,
};

void
kv_recvq_init(struct kv_recvq *q, size_t least)
{
	*q = (struct kv_recvq){ .least = least ? least : CAP_MIN };
}

void
kv_recvq_fini(struct kv_recvq *q)
{
	free(q->mem);
	free(q->iov);
	kv_recvq_init(q, q->least);
}

static void
to_front(struct kv_recvq *q)
{
	memmove(q->mem, q->mem + q->start, q->end - q->start);
	q->end -= q->start;
	q->start = 0;
}

/* Makes the buffer hold `need` bytes from q->start on. 0 or -ENOMEM. */
static int
room(struct kv_recvq *q, size_t need)
{
	size_t cap = kv_max_size(q->cap, q->least);
	uint8_t *mem;

	assert(need <= NEED_MAX);
	q->peak = kv_max_size(q->peak, need);
	if (q->start + need <= q->cap)
		return 0;
	if (need <= q->cap) {
		to_front(q);
		return 0;
	}
	while (cap < need)
		cap *= 2;
	mem = KV_FAULT_POINT() ? NULL : malloc(cap);
	if (!mem)
		return -ENOMEM;
	q->end -= q->start;
	if (q->end > 0)
		memcpy(mem, q->mem + q->start, q->end);
	free(q->mem);
	q->mem = mem;
	q->cap = cap;
	q->start = 0;
	return 0;
}

/* What was needed once need not be needed for ever. */
static void
emptied(struct kv_recvq *q)
{
	q->start = q->end = 0;
	if (q->cap <= q->least || q->peak > q->least) {
		q->small = 0;
	} else if (++q->small >= SMALL_TIMES) {
		free(q->mem);
		q->mem = NULL;
		q->cap = 0;
	}
	q->peak = 0;
}

static int
begin_payload(struct kv_recvq *q, const struct kv_msg *msg, size_t len)
{
	if (!q->iov && !KV_FAULT_POINT())
		q->iov = calloc(KV_CONN_PIECES_MAX, sizeof(*q->iov));
	if (!q->iov)
		return -ENOMEM;
	q->has_payload = true;
	q->msg = *msg;
	q->used = len;
	q->left = msg->payload;
	if (msg->payload > BULK)
		q->narrow = true;
	return KV_RECVQ_PAYLOAD;
}

/* The buffer may have moved since the frame was parsed. */
static int
end_payload(struct kv_recvq *q, struct kv_msg *msg)
{
	const uint8_t *body = q->mem + q->start + KV_HEADER_BYTES;

	*msg = q->msg;
	msg->body = body;
	msg->tail = body + kv_msg_body_bytes(msg->type);
	q->has_payload = false;
	q->start += q->used;
	return KV_RECVQ_MSG;
}

int
kv_recvq_next(struct kv_recvq *q, struct kv_msg *msg)
{
	long n;

	if (q->has_payload)
		return q->left > 0 ? KV_RECVQ_MORE : end_payload(q, msg);
	if (q->start == q->end) {
		emptied(q);
		return KV_RECVQ_MORE;
	}
	n = kv_msg_parse(q->mem + q->start, q->end - q->start, msg, NULL);
	if (n < 0)
		return (int)n;
	/* Its length is only what the peer says: room is made as it comes. */
	if (n == 0)
		return KV_RECVQ_MORE;
	if (msg->payload > 0)
		return begin_payload(q, msg, (size_t)n);
	q->start += (size_t)n;
	return KV_RECVQ_MSG;
}

/* n bytes, which lie at `from` or were read in place (NULL), fill pieces. */
static void
fill(struct kv_recvq *q, const uint8_t *from, size_t n)
{
	q->left -= n;
	if (q->drops)
		return;
	while (n > 0) {
		struct iovec *piece = &q->iov[q->filled];
		size_t part = kv_min_size(n, piece->iov_len);

		if (from && part > 0) {
			memcpy(piece->iov_base, from, part);
			from += part;
		}
		piece->iov_base = (uint8_t *)piece->iov_base + part;
		piece->iov_len -= part;
		n -= part;
		if (piece->iov_len == 0)
			q->filled++;
	}
}

void
kv_recvq_place(struct kv_recvq *q, int n)
{
	size_t here = kv_min_size(q->end - q->start - q->used, q->left);

	assert(n >= 0 && n <= KV_CONN_PIECES_MAX);
	assert(n == 0 || kv_stream_iov_bytes(q->iov, n) == q->left);
	q->drops = n == 0;
	q->pieces = n;
	q->filled = 0;
	fill(q, q->mem + q->start + q->used, here);
	if (q->left > 0)
		q->end -= here;
	else
		q->used += here;
}

/* Behind the frame at q->start: pieces, then the buffer. */
static int
aim_at_pieces(struct kv_recvq *q, struct iovec *iov)
{
	int n = q->drops ? 0 : q->pieces - q->filled;
	size_t more = q->drops ? kv_min_size(q->left, CAP_MIN) : AHEAD;
	int rc = room(q, q->used + more);

	if (rc < 0)
		return rc;
	if (n >= KV_RECVQ_IOV_MAX) {
		n = KV_RECVQ_IOV_MAX;
		more = 0;
	}
	if (n > 0)
		memcpy(iov, q->iov + q->filled, (size_t)n * sizeof(*iov));
	if (more > 0)
		iov[n++] = (struct iovec){ q->mem + q->end, more };
	return n;
}

static int
aim_at_buffer(struct kv_recvq *q, struct iovec *iov)
{
	int rc;

	/* A frame is rarely cut by the end of the buffer. */
	if (q->start > 0 && q->cap - q->end < q->cap / 2)
		to_front(q);
	rc = room(q, q->end - q->start + 1);
	if (rc < 0)
		return rc;
	iov->iov_base = q->mem + q->end;
	iov->iov_len = q->cap - q->end;
	if (q->narrow)
		iov->iov_len = kv_min_size(iov->iov_len, AHEAD);
	return 1;
}

int
kv_recvq_aim(struct kv_recvq *q, struct iovec *iov, size_t *bytes)
{
	int n = q->has_payload ? aim_at_pieces(q, iov) : aim_at_buffer(q, iov);

	if (n > 0)
		*bytes = kv_stream_iov_bytes(iov, n);
	return n;
}

void
kv_recvq_took(struct kv_recvq *q, size_t n)
{
	if (q->has_payload) {
		size_t part = kv_min_size(n, q->left);

		fill(q, NULL, part);
		n -= part;
	} else if (n >= AHEAD) {
		q->narrow = false;
	}
	q->end += n;
}

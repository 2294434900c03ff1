/* Frames are built in the send queue, and leave when there is much of it or the
 * turn ends. */
#include "net/conncore.h"

#include <errno.h>
#include <string.h>

enum {
	FLUSH_BYTES = 256 << 10, /* so much does not wait for the turn's end */
};

/* n bytes more of the frame that is being built. */
static void *
grow(struct kv_conn *c, size_t n)
{
	void *p;

	if (!kv_conn_is_open(c))
		return NULL;
	p = kv_sendq_grow(&c->out, n);
	if (!p)
		kv_conn_fail(c, -errno);
	return p;
}

void *
kv_conn_begin(struct kv_conn *c, enum kv_msg_type type, uint64_t id,
	      uint8_t flags)
{
	size_t body = kv_msg_body_bytes(type);
	uint8_t *p;

	assert(c->out.open == 0);
	p = grow(c, KV_HEADER_BYTES + body);
	if (!p)
		return NULL;
	c->frame.type = type;
	c->frame.flags = flags;
	c->frame.id = id;
	return memset(p + KV_HEADER_BYTES, 0, body);
}

void *
kv_conn_tail(struct kv_conn *c, size_t n)
{
	size_t room = KV_HEADER_BYTES + kv_msg_body_bytes(c->frame.type) +
		      kv_msg_tail_max(c->frame.type) - c->out.open;

	if (n > room) {
		kv_conn_fail(c, -EMSGSIZE);
		return NULL;
	}
	return grow(c, n);
}

void *
kv_conn_begin_tail(struct kv_conn *c, enum kv_msg_type type, uint64_t id,
		   uint8_t flags, size_t n, void **tail)
{
	void *p = NULL;

	if (kv_conn_begin(c, type, id, flags))
		p = kv_conn_tail(c, n);
	if (!p)
		return NULL;
	*tail = p;
	return kv_conn_body(c);
}

void *
kv_conn_body(struct kv_conn *c)
{
	assert(c->out.open > 0);
	return kv_sendq_frame(&c->out) + KV_HEADER_BYTES;
}

void
kv_conn_end(struct kv_conn *c)
{
	kv_conn_end_payload(c, NULL, 0, NULL);
}

static int
end_frame(struct kv_conn *c, const struct iovec *iov, int n,
	  struct kv_conn_sent *sent)
{
	size_t payload = kv_stream_iov_bytes(iov, n);
	int rc;

	if (!c->stream)
		return c->status;
	if (c->broken)
		return c->broken;
	assert(c->out.open > 0);
	assert(n <= KV_CONN_PIECES_MAX && payload <= KV_PAYLOAD_MAX);
	kv_msg_seal(kv_sendq_frame(&c->out), c->frame.type, c->frame.flags,
		    c->frame.id, c->out.open - KV_HEADER_BYTES,
		    (uint32_t)payload);
	rc = kv_sendq_end(&c->out, iov, n, sent);
	if (rc < 0)
		kv_conn_fail(c, rc);
	return rc;
}

void
kv_conn_end_payload(struct kv_conn *c, const struct iovec *iov, int n,
		    struct kv_conn_sent *sent)
{
	int rc = end_frame(c, iov, n, sent);

	if (rc < 0 && sent) {
		sent->status = rc;
		kv_list_add_tail(&c->done, &sent->link);
	}
	if (kv_sendq_bytes(&c->out) > KV_CONN_QUEUE_BYTES_HIGH)
		c->full = true;
	if (kv_sendq_bytes(&c->out) >= FLUSH_BYTES)
		kv_conn_write(c);
	kv_conn_schedule(c);
}

void
kv_conn_abort(struct kv_conn *c)
{
	kv_sendq_drop(&c->out);
}

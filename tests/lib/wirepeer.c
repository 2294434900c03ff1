#include "wirepeer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "wire/msg.h"

static void *
copy(const void *p, size_t n)
{
	void *q = malloc(n ? n : 1);

	assert(q);
	if (n)
		memcpy(q, p, n);
	return q;
}

static void
on_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct wirepeer *p = kv_conn_arg(c);
	struct wireframe *f = calloc(1, sizeof(*f));

	assert(f);
	f->type = msg->type;
	f->flags = msg->flags;
	f->id = msg->id;
	f->body = copy(msg->body, kv_msg_body_bytes(msg->type));
	f->tail = copy(msg->tail, msg->tail_len);
	f->tail_len = msg->tail_len;
	f->payload = p->payload;
	f->payload_len = msg->payload;
	f->fd = kv_conn_recv_fd(c);
	p->payload = NULL;
	kv_list_add_tail(&p->frames, &f->link);
	if (p->stops_reading)
		kv_conn_pause(c, true);
}

static int
on_payload(struct kv_conn *c, const struct kv_msg *msg, struct iovec *iov,
	   int max)
{
	struct wirepeer *p = kv_conn_arg(c);

	assert(max > 0);
	p->payload = malloc(msg->payload);
	assert(p->payload);
	iov[0] = (struct iovec){ p->payload, msg->payload };
	return 1;
}

static void
on_close(struct kv_conn *c, int status)
{
	struct wirepeer *p = kv_conn_arg(c);

	p->is_lost = true;
	p->status = status;
}

static const struct kv_conn_ops ops = {
	.on_msg = on_msg,
	.on_payload = on_payload,
	.on_close = on_close,
};

void
wirepeer_open(struct wirepeer *p, struct kv_loop *loop, struct kv_stream *s)
{
	memset(p, 0, sizeof(*p));
	kv_list_init(&p->frames);
	p->c = kv_conn_new(loop, s, &ops, p);
	assert(p->c);
}

void
wirepeer_close(struct wirepeer *p)
{
	struct wireframe *f;

	if (!p->frames.next)
		return;
	kv_conn_close(p->c);
	p->c = NULL;
	while ((f = KV_LIST_FIRST(&p->frames, struct wireframe, link))) {
		kv_list_del(&f->link);
		wireframe_free(f);
	}
	free(p->payload);
	p->payload = NULL;
}

void
wirepeer_send(struct wirepeer *p, enum kv_msg_type type, uint64_t id,
	      const void *body, const void *tail, size_t tail_len)
{
	void *b, *t;

	b = kv_conn_begin_tail(p->c, type, id, 0, tail_len, &t);
	assert(b);
	if (body)
		memcpy(b, body, kv_msg_body_bytes(type));
	if (tail_len)
		memcpy(t, tail, tail_len);
	kv_conn_end(p->c);
}

static void
data_sent(struct kv_conn_sent *sent, int status)
{
	(void)status;
	free(sent);
}

void
wirepeer_send_data(struct wirepeer *p, uint64_t ref, uint64_t off,
		   const void *bytes, size_t len)
{
	struct kv_data *d = kv_conn_begin(p->c, KV_MSG_DATA, 0, 0);
	struct kv_conn_sent *sent = calloc(1, sizeof(*sent));
	struct iovec iov = { (void *)(uintptr_t)bytes, len };

	assert(d);
	assert(sent);
	d->ref = kv_le64(ref);
	d->off = kv_le64(off);
	sent->fn = data_sent;
	kv_conn_end_payload(p->c, &iov, 1, sent);
}

struct wireframe *
wirepeer_take(struct wirepeer *p, enum kv_msg_type type)
{
	struct wireframe *f;

	KV_LIST_FOREACH(f, &p->frames, link) {
		if (f->type != type)
			continue;
		kv_list_del(&f->link);
		return f;
	}
	return NULL;
}

void
wireframe_free(struct wireframe *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	free(f->body);
	free(f->tail);
	free(f->payload);
	free(f);
}

unsigned
wirepeer_count(const struct wirepeer *p, enum kv_msg_type type)
{
	struct kv_list *l;
	unsigned n = 0;

	for (l = p->frames.next; l != &p->frames; l = l->next)
		n += KV_CONTAINER_OF(l, struct wireframe, link)->type == type;
	return n;
}

#include "xfer/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/status.h"
#include "net/addr.h"
#include "net/answer.h"
#include "net/hello.h"
#include "net/listener.h"
#include "net/stream.h"
#include "xfer/fence.h"
#include "xfer/guest.h"
#include "xfer/note.h"
#include "xfer/rdmacall.h"
#include "xfer/rdmalink.h"
#include "xfer/samehost.h"
#include "xfer/servecore.h"

enum {
	/* Of a port, 8 KiB each, shared by all that send messages. */
	CALL_RECEIVES = 256,
	CALL_SENDS = 64,
	CALL_STREAMS = 512,
};

struct kv_serve {
	struct kv_serve_opts o;
	struct kv_listener *tcp;
	struct kv_listener *local;
	struct kv_list conns;
	unsigned n;
	void *regions; /* KV_TAIL_MAX bytes: what peers are told of them */
	struct kv_rdmaloop *rails; /* NULL: without RDMA */
	struct kv_rdmacall *call;  /* NULL: no connections by RDMA */
	struct kv_log_limit crowded;
	struct kv_log_limit broken;
};

struct kv_serve *
kv_serve_new(const struct kv_serve_opts *opts)
{
	struct kv_serve *s = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->o = *opts;
	kv_list_init(&s->conns);
	s->regions = malloc(KV_TAIL_MAX);
	if (!s->regions) {
		free(s);
		return NULL;
	}
	if (!s->o.regions->rdma)
		return s;
	s->rails = kv_rdmaloop_new(s->o.regions->rdma, s->o.loop, true);
	if (!s->rails)
		kv_warn("engine: peers reach it by TCP, not by RDMA: %m");
	return s;
}

static void
conn_free(struct kv_serveconn *c)
{
	kv_loop_timer_del(&c->timer);
	kv_rdmalink_free(c->rails);
	kv_conn_close(c->conn);
	kv_servexfer_fini(c);
	if (c->guest)
		kv_guest_let_go(c->serve->o.guests, c->guest);
	kv_list_del(&c->link);
	c->serve->n--;
	free(c);
}

void
kv_serve_free(struct kv_serve *s)
{
	struct kv_serveconn *c, *tmp;

	if (!s)
		return;
	if (s->tcp)
		kv_listener_free(s->tcp);
	if (s->local)
		kv_listener_free(s->local);
	KV_LIST_FOREACH_SAFE(c, tmp, &s->conns, link)
		conn_free(c);
	kv_rdmacall_free(s->call);
	kv_rdmaloop_free(s->rails);
	free(s->regions);
	free(s);
}

void
kv_serve_cut(struct kv_serve *s, const struct kv_region *r)
{
	struct kv_serveconn *c, *tmp;

	KV_LIST_FOREACH_SAFE(c, tmp, &s->conns, link)
		if (kv_servexfer_touches(c, r))
			conn_free(c);
}

void
kv_serve_pace(struct kv_serveconn *c)
{
	if (kv_conn_is_open(c->conn))
		kv_conn_pause(c->conn, c->n_reads >= KV_ENGINE_READS_MAX ||
					       kv_conn_is_full(c->conn));
}

/* ---- requests; negative: the peer broke the protocol ---- */

/* What the dialler offers and this side takes. */
static void
welcome(struct kv_serveconn *c, uint64_t id, const struct kv_hello_in *in)
{
	const struct kv_serve *s = c->serve;
	struct kv_hello_reply reply = { .boot = &s->o.boot };
	struct kv_rdmalink_opts o = { .dials = false, .is_unseen = true };

	if (in->features & KV_FEATURE_RDMA && s->rails &&
	    kv_rng_os(&o.token, sizeof(o.token)) == 0)
		c->rails = kv_rdmalink_new(s->rails, c->conn, &o);
	if (c->rails) {
		reply.token = o.token;
		reply.features = KV_FEATURE_RDMA;
		if (s->call && kv_rdmacall_listens(s->call) > 0)
			reply.features |= KV_FEATURE_CALL;
	}
	kv_hello_welcome(c->conn, id, &reply);
	if (c->rails)
		kv_rdmalink_tell(c->rails);
}

static int
on_hello(struct kv_serveconn *c, const struct kv_msg *msg)
{
	const struct kv_serve *s = c->serve;
	char text[KV_HELLO_TEXT_BYTES];
	struct kv_hello_in in;
	int status = kv_hello_check(msg, &s->o.boot, &in, text);

	if (status == KV_OK && in.role != KV_ROLE_ENGINE) {
		status = KV_EINVALID;
		snprintf(text, sizeof(text),
			 "here is an engine for raw transfers, no node");
	}
	if (status == KV_OK && c->peer.is_unix &&
	    kv_samehost_check(&c->peer, text, sizeof(text)))
		status = KV_EDENIED;
	if (status == KV_OK) {
		c->state = KV_SERVE_OPEN;
		kv_loop_timer_del(&c->timer);
		welcome(c, msg->id, &in);
	} else {
		c->state = KV_SERVE_REFUSED;
		kv_hello_answer(c->conn, msg->id, status, text, &s->o.boot, 0);
	}
	return 0;
}

static int
on_ping(struct kv_serveconn *c, const struct kv_msg *msg)
{
	kv_answer_ping(c->conn, msg);
	return 0;
}

/* The epoch is read before the table: it may be older, never newer. */
static int
on_regions(struct kv_serveconn *c, const struct kv_msg *msg)
{
	const struct kv_serve *s = c->serve;
	uint64_t epoch = kv_guest_epoch(s->o.guests);
	uint32_t count;
	size_t n =
		kv_region_list(s->o.regions, s->regions, KV_TAIL_MAX, &count);
	struct kv_regions_r *r;
	void *tail;

	r = kv_conn_begin_tail(c->conn, KV_MSG_REGIONS_R, msg->id, 0, n, &tail);
	if (!r)
		return 0;
	if (s->o.regions->rdma)
		r->ports = (uint8_t)kv_rdma_ports(s->o.regions->rdma);
	r->count = kv_le32(count);
	r->epoch = kv_le64(epoch);
	if (c->peer.is_unix) {
		r->token_addr = kv_le64((uintptr_t)s->o.token);
		memcpy(r->token, s->o.token, sizeof(r->token));
	}
	if (n > 0)
		memcpy(tail, s->regions, n);
	kv_conn_end(c->conn);
	return 0;
}

static int
fence_for(struct kv_serveconn *c, uint64_t *bytes)
{
	int rc;

	*bytes = KV_FENCE_BYTES;
	if (c->guest)
		return 0;
	rc = kv_guest_add(c->serve->o.guests, c->peer.pidfd, &c->guest,
			  &c->fence_fd);
	if (rc)
		c->guest = NULL;
	return rc;
}

/* Queues the descriptor that the next frame takes along. */
static int
attach_fd(struct kv_serveconn *c, uint64_t handle, uint64_t *bytes)
{
	kv_auto_close int fd = -1;
	int rc;

	if (!c->peer.is_unix)
		return -EACCES;
	if (handle == 0) {
		rc = fence_for(c, bytes);
		return rc ? rc : kv_conn_send_fd(c->conn, c->fence_fd);
	}
	fd = kv_region_fd(c->regions, handle, bytes);
	return fd < 0 ? fd : kv_conn_send_fd(c->conn, fd);
}

static int
on_memory(struct kv_serveconn *c, const struct kv_msg *msg)
{
	const struct kv_memory *memory = msg->body;
	uint64_t bytes = 0;
	int rc = attach_fd(c, kv_get64(memory->handle), &bytes);
	struct kv_memory_r *r;

	r = kv_conn_begin(c->conn, KV_MSG_MEMORY_R, msg->id, 0);
	if (!r)
		return 0;
	r->status = (uint8_t)kv_status_from_errno(rc);
	r->bytes = kv_le64(rc ? 0 : bytes);
	kv_conn_end(c->conn);
	return 0;
}

static int
on_note(struct kv_serveconn *c, const struct kv_msg *msg)
{
	const struct kv_note *note = msg->body;
	size_t name_len = kv_get16(note->name_len);
	size_t text_len = kv_get32(note->text_len);
	const void *name, *text;
	struct kv_note_r *r;
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	name = kv_cut_take(&cut, name_len);
	text = kv_cut_take(&cut, text_len);
	if (!kv_cut_done(&cut) || name_len > KV_NOTE_NAME_BYTES_MAX)
		return -EPROTO;
	r = kv_conn_begin(c->conn, KV_MSG_NOTE_R, msg->id, 0);
	if (!r)
		return 0;
	r->status = (uint8_t)kv_status_from_errno(kv_note_push(
		c->serve->o.notes, name, name_len, text, text_len));
	kv_conn_end(c->conn);
	return 0;
}

static int
dispatch(struct kv_serveconn *c, const struct kv_msg *msg)
{
	switch (msg->type) {
	case KV_MSG_PING:
		return on_ping(c, msg);
	case KV_MSG_REGIONS:
		return on_regions(c, msg);
	case KV_MSG_MEMORY:
		return on_memory(c, msg);
	case KV_MSG_XFER:
		return kv_servexfer_take(c, msg);
	case KV_MSG_NOTE:
		return on_note(c, msg);
	case KV_MSG_QPFENCE:
	case KV_MSG_QPJOIN:
	case KV_MSG_QPSTATE:
		return c->rails && kv_rdmalink_take(c->rails, msg) ? 0
								   : -EPROTO;
	default:
		return -EPROTO;
	}
}

/* ---- a connection ---- */

static void
tell_broken(struct kv_serveconn *c, int status)
{
	if (status == -ECONNRESET)
		return;
	kv_log_limited(&c->serve->broken, kv_loop_now(c->serve->o.loop),
		       KV_LOG_WARN, "engine: closed a connection: %s peer=%s",
		       strerrordesc_np(-status), c->peer.addr);
}

static void
on_msg(struct kv_conn *conn, const struct kv_msg *msg)
{
	struct kv_serveconn *c = kv_conn_arg(conn);
	int rc = 0;

	if (c->state == KV_SERVE_GREETING)
		rc = on_hello(c, msg);
	else if (c->state == KV_SERVE_OPEN)
		rc = dispatch(c, msg);
	if (rc < 0) {
		tell_broken(c, rc);
		conn_free(c);
	} else {
		kv_serve_pace(c);
	}
}

static int
on_payload(struct kv_conn *conn, const struct kv_msg *msg, struct iovec *iov,
	   int max)
{
	struct kv_serveconn *c = kv_conn_arg(conn);

	(void)max;
	if (c->state != KV_SERVE_OPEN || msg->type != KV_MSG_XFER)
		return -EPROTO;
	return kv_servexfer_place(c, msg, iov);
}

static void
on_close(struct kv_conn *conn, int status)
{
	struct kv_serveconn *c = kv_conn_arg(conn);

	tell_broken(c, status);
	conn_free(c);
}

static void
on_drain(struct kv_conn *conn)
{
	kv_serve_pace(kv_conn_arg(conn));
}

_Static_assert(KV_XFER_PIECES_MAX <= KV_CONN_PIECES_MAX,
	       "the pieces of one XFER are the pieces of its payload");

static void
on_hello_missing(struct kv_timer *t)
{
	conn_free(KV_CONTAINER_OF(t, struct kv_serveconn, timer));
}

void
kv_serve_accept(struct kv_serve *s, struct kv_stream *stream,
		const struct kv_peer *peer)
{
	static const struct kv_conn_ops ops = {
		.on_msg = on_msg,
		.on_payload = on_payload,
		.on_close = on_close,
		.on_drain = on_drain,
	};
	uint64_t now = kv_loop_now(s->o.loop);
	struct kv_serveconn *c;

	if (s->n >= KV_ENGINE_CONNS_MAX) {
		kv_log_limited(&s->crowded, now, KV_LOG_WARN,
			       "engine: %d connections are open, turned one "
			       "away peer=%s",
			       KV_ENGINE_CONNS_MAX, peer->addr);
		stream->ops->close(stream);
		return;
	}
	c = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		stream->ops->close(stream);
		return;
	}
	c->conn = kv_conn_new(s->o.loop, stream, &ops, c);
	if (!c->conn) {
		free(c);
		return;
	}
	c->serve = s;
	c->regions = s->o.regions;
	c->peer = *peer;
	c->timer.fn = on_hello_missing;
	kv_list_init(&c->reads);
	kv_list_add_tail(&s->conns, &c->link);
	s->n++;
	if (kv_loop_timer_set(s->o.loop, &c->timer, now + KV_HELLO_WAIT_NS))
		conn_free(c);
}

/* ---- listening ---- */

static void
on_accept(void *arg, struct kv_stream *stream, const struct kv_peer *peer)
{
	kv_serve_accept(arg, stream, peer);
}

/* Without it peers of this host go through TCP, and say why. */
static void
listen_beside(struct kv_serve *s)
{
	char addr[KV_SAMEHOST_ADDR_BYTES];
	int err;

	kv_samehost_addr(&s->o.boot, addr);
	s->local =
		kv_listener_new(s->o.loop, addr, (gid_t)-1, on_accept, s, &err);
}

void
kv_serve_listen_call(struct kv_serve *s, uint16_t port)
{
	const struct kv_rdmacall_opts o = {
		.rdma = s->o.regions->rdma,
		.loop = s->o.loop,
		.receives = CALL_RECEIVES,
		.sends = CALL_SENDS,
		.streams = CALL_STREAMS,
	};

	if (!s->rails)
		return;
	s->call = kv_rdmacall_new(&o);
	if (s->call)
		kv_rdmacall_listen(s->call, port, on_accept, s);
}

int
kv_serve_listen(struct kv_serve *s, const char *addr, char *bound)
{
	char text[KV_ADDR_ERROR_BYTES];
	struct kv_addr a;
	int err;

	s->tcp =
		kv_listener_new(s->o.loop, addr, (gid_t)-1, on_accept, s, &err);
	if (!s->tcp)
		return err;
	snprintf(bound, KV_NET_BOUND_BYTES, "%s", kv_listener_bound(s->tcp));
	listen_beside(s);
	if (kv_addr_parse(bound, 0, &a, text, sizeof(text)) == 0)
		kv_serve_listen_call(s, a.port);
	return 0;
}

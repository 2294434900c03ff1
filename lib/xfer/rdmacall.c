#include "xfer/rdmacall.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "wire/protordma.h"
#include "xfer/rdmacore.h"
#include "xfer/rdmaidle.h"
#include "xfer/rdmastream.h"

/* Somebody was accepted and is not heard of. */
#define ACCEPT_NS KV_NS_PER_S

/* One that is being made, dialled or accepted. */
struct kv_rdmacall_dial {
	struct kv_list link; /* c->making */
	struct kv_rdmacall *c;
	struct kv_rdmaconn *conn;
	struct kv_rdmastream *s; /* NULL: there is no queue pair yet */
	struct kv_defer told;
	bool is_ready;
	int status;
	kv_net_connect_fn *fn; /* NULL: accepted */
	void *arg;
};

struct kv_rdmacall {
	struct kv_rdmacall_opts o;
	struct kv_rdmacm *cm;
	/* By port; of who dials made when it is needed. */
	struct kv_rdmacq *cqs[KV_RDMA_PORTS_MAX];
	struct kv_rdmapost *posts[KV_RDMA_PORTS_MAX];
	struct kv_rdmalisten *listens[KV_RDMA_PORTS_MAX];
	struct in6_addr listens_at[KV_RDMA_PORTS_MAX];
	bool may_listen; /* at this one: */
	uint16_t port;
	struct kv_rdmawatch watch;
	struct kv_list making;
	struct kv_call_word word; /* own */
	kv_net_accept_fn *fn;
	void *arg;
};

/* The other side is one of ours, of the same measures. The bytes are a
 * stranger's. */
static bool
is_ours(const struct kv_rdmacall *c, const void *word, size_t bytes)
{
	return word && bytes >= sizeof(c->word) &&
	       memcmp(word, &c->word, sizeof(c->word)) == 0;
}

/* ---- ports ---- */

/* As many streams as the device has completions for (0: not known). */
static unsigned
streams_of(const struct kv_rdmacall *c, unsigned i)
{
	int max = c->o.rdma->devs[i].limits.cqe_max;
	uint64_t room;

	if (max <= 0)
		return c->o.streams;
	room = (uint64_t)max > c->o.receives ? (uint64_t)max - c->o.receives
					     : 0;
	return (unsigned)kv_min_u64(c->o.streams,
				    room / (KV_RDMASTREAM_DEPTH + 1));
}

static struct kv_rdmapost *
post_of(struct kv_rdmacall *c, unsigned i)
{
	const struct kv_rdmacq_opts o = {
		.sends = streams_of(c, i) * (KV_RDMASTREAM_DEPTH + 1),
		.receives = c->o.receives,
		.recv_bytes = KV_RDMASTREAM_BYTES,
	};

	if (c->cqs[i] && c->cqs[i]->is_lost)
		return NULL;
	if (c->posts[i])
		return c->posts[i];
	if (!c->cqs[i])
		c->cqs[i] = kv_rdmacq_new(&c->o.rdma->nics[i], c->o.loop, &o);
	if (c->cqs[i])
		c->posts[i] = kv_rdmastream_post_new(c->cqs[i], c->o.sends);
	return c->posts[i];
}

static void listen_anew(struct kv_rdmacall *c, unsigned i);

/* What went by a port that nothing passes goes by another one, or by TCP. */
static void
on_news(struct kv_rdmawatch *w, unsigned port, enum kv_rdmawatch_news news)
{
	struct kv_rdmacall *c = KV_CONTAINER_OF(w, struct kv_rdmacall, watch);

	if (news == KV_RDMAWATCH_UP && c->may_listen)
		listen_anew(c, port);
	if (!c->cqs[port])
		return;
	if (news == KV_RDMAWATCH_QUEUE)
		kv_rdmacq_look(c->cqs[port]);
	else if (news == KV_RDMAWATCH_DOWN)
		kv_rdmacq_fence(c->cqs[port]);
	else if (news == KV_RDMAWATCH_GONE)
		kv_rdmacq_lose(c->cqs[port]);
}

/* ---- one that is being made ---- */

static struct kv_rdmacall_dial *
dial_new(struct kv_rdmacall *c)
{
	struct kv_rdmacall_dial *d =
		KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->c = c;
	kv_list_add_tail(&c->making, &d->link);
	return d;
}

/* With what it has, but for what was handed over. */
static void
dial_free(struct kv_rdmacall_dial *d)
{
	struct kv_stream *s = d->s ? kv_rdmastream_base(d->s) : NULL;

	kv_loop_defer_del(&d->told);
	if (s)
		s->ops->reset(s);
	kv_rdmacm_give_up(d->conn);
	kv_list_del(&d->link);
	free(d);
}

void
kv_rdmacall_cancel(struct kv_rdmacall_dial *d)
{
	dial_free(d);
}

static struct kv_rdmaqp *
dial_make(struct kv_rdmaconn *conn, const char *device, unsigned port)
{
	struct kv_rdmacall_dial *d = kv_rdmacm_arg(conn);
	int i = kv_rdma_number(d->c->o.rdma, device, port);
	struct kv_rdmapost *p = i < 0 ? NULL : post_of(d->c, (unsigned)i);

	d->s = p ? kv_rdmastream_new(p) : NULL;
	return d->s ? kv_rdmastream_qp(d->s) : NULL;
}

static void
peer_fill(struct kv_peer *p, const struct sockaddr *from)
{
	const struct sockaddr_in6 *v6 = (const void *)from;
	const struct sockaddr_in *v4 = (const void *)from;
	char ip[INET6_ADDRSTRLEN] = "?";

	*p = (struct kv_peer){ .pid = -1, .pidfd = -1 };
	if (from->sa_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof(ip));
		snprintf(p->addr, sizeof(p->addr), "%s:%u", ip,
			 ntohs(v4->sin_port));
	} else if (from->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof(ip));
		snprintf(p->addr, sizeof(p->addr), "[%s]:%u", ip,
			 ntohs(v6->sin6_port));
	}
}

/* The stream is handed over, or there is none; the last of it. */
static void
dial_tell(struct kv_defer *t)
{
	struct kv_rdmacall_dial *d =
		KV_CONTAINER_OF(t, struct kv_rdmacall_dial, told);
	struct kv_rdmacall *c = d->c;
	kv_net_connect_fn *fn = d->fn;
	struct kv_stream *s = NULL;
	int status = d->status;
	struct kv_peer peer;
	void *arg = d->arg;

	if (d->is_ready) {
		peer_fill(&peer, kv_rdmastream_peer(d->s));
		s = kv_rdmastream_base(d->s);
		d->s = NULL;
	}
	dial_free(d);
	if (fn)
		fn(arg, s, status);
	else if (s)
		c->fn(c->arg, s, &peer);
}

static void
dial_over(struct kv_rdmaconn *conn, int why)
{
	struct kv_rdmacall_dial *d = kv_rdmacm_arg(conn);

	d->status = why;
	kv_loop_defer(d->c->o.loop, &d->told);
}

/* word: NULL for who was dialled, and had it before. */
static void
dial_ready(struct kv_rdmaconn *conn, const void *word, size_t bytes)
{
	struct kv_rdmacall_dial *d = kv_rdmacm_arg(conn);

	d->told.fn = dial_tell;
	if (d->fn && !is_ours(d->c, word, bytes)) {
		dial_over(conn, -EPROTONOSUPPORT);
		return;
	}
	d->is_ready = true;
	kv_rdmastream_up(d->s, conn);
	d->conn = NULL;
	kv_loop_defer(d->c->o.loop, &d->told);
}

static const struct kv_rdmaconn_ops dial_ops = {
	.make = dial_make,
	.ready = dial_ready,
	.over = dial_over,
};

static struct kv_rdmaconn_opts
conn_opts(struct kv_rdmacall_dial *d, uint64_t deadline_ns)
{
	return (struct kv_rdmaconn_opts){
		.ops = &dial_ops,
		.arg = d,
		.word = &d->c->word,
		.bytes = sizeof(d->c->word),
		.deadline_ns = deadline_ns,
	};
}

struct kv_rdmacall_dial *
kv_rdmacall_dial(struct kv_rdmacall *c, const struct kv_rdmacall_to *to,
		 kv_net_connect_fn *fn, void *arg)
{
	struct kv_rdmacall_dial *d = dial_new(c);
	struct sockaddr_storage near, far;
	struct kv_rdmaconn_opts o;
	int err;

	if (!d) {
		errno = ENOMEM;
		return NULL;
	}
	d->fn = fn;
	d->arg = arg;
	d->told.fn = dial_tell;
	kv_rdma_sockaddr(&to->from, 0, &near);
	kv_rdma_sockaddr(&to->to, to->port, &far);
	o = conn_opts(d, to->deadline_ns);
	d->conn = kv_rdmacm_dial(c->cm, (struct sockaddr *)&near,
				 (struct sockaddr *)&far, &o);
	if (d->conn)
		return d;
	err = errno;
	dial_free(d);
	errno = err;
	return NULL;
}

/* ---- being dialled ---- */

static struct kv_rdmastream *
accepted_new(const struct kv_rdmacall *c, struct kv_rdmapost *p)
{
	struct kv_rdmastream *s = kv_rdmastream_new(p);

	if (s || errno != ENOSPC || !kv_rdmaidle_room(p, c->o.is_used))
		return s;
	kv_debug("rdma: a stream that is idle gives its place to another");
	return kv_rdmastream_new(p);
}

static void
on_asked(void *arg, struct kv_rdmaconn *conn, const char *device, unsigned port,
	 const void *word, size_t bytes)
{
	struct kv_rdmacall *c = arg;
	int i = kv_rdma_number(c->o.rdma, device, port);
	struct kv_rdmapost *p = i < 0 ? NULL : post_of(c, (unsigned)i);
	struct kv_rdmacall_dial *d = NULL;
	struct kv_rdmaconn_opts o;

	if (p && is_ours(c, word, bytes))
		d = dial_new(c);
	if (d)
		d->s = accepted_new(c, p);
	if (!d || !d->s) {
		kv_debug("rdma: somebody was refused at %s", device);
		kv_rdmacm_refuse(conn);
		if (d)
			dial_free(d);
		return;
	}
	d->conn = conn;
	d->told.fn = dial_tell;
	o = conn_opts(d, kv_loop_now(c->o.loop) + ACCEPT_NS);
	if (kv_rdmacm_accept(conn, kv_rdmastream_qp(d->s), &o) < 0)
		dial_free(d);
}

/* At the port's address as it is by now. */
static void
listen_anew(struct kv_rdmacall *c, unsigned i)
{
	const struct kv_rdmadev *dev = &c->watch.devs[i];
	struct sockaddr_storage at;

	if (c->listens[i] && dev->n_ips > 0 &&
	    IN6_ARE_ADDR_EQUAL(&c->listens_at[i], &dev->ips[0]))
		return;
	kv_rdmacm_unlisten(c->listens[i]);
	c->listens[i] = NULL;
	if (dev->is_awaited || dev->n_ips == 0)
		return;
	c->listens_at[i] = dev->ips[0];
	kv_rdma_sockaddr(&dev->ips[0], c->port, &at);
	c->listens[i] =
		kv_rdmacm_listen(c->cm, (struct sockaddr *)&at, on_asked, c);
	if (!c->listens[i])
		kv_warn("rdma: cannot listen at port %u of %s: %m", dev->port,
			dev->name);
}

void
kv_rdmacall_listen(struct kv_rdmacall *c, uint16_t port, kv_net_accept_fn *fn,
		   void *arg)
{
	unsigned i;

	c->may_listen = true;
	c->port = port;
	c->fn = fn;
	c->arg = arg;
	for (i = 0; i < c->o.rdma->n; i++)
		listen_anew(c, i);
}

unsigned
kv_rdmacall_listens(const struct kv_rdmacall *c)
{
	unsigned i, n = 0;

	for (i = 0; i < c->o.rdma->n; i++)
		n += c->listens[i] != NULL;
	return n;
}

void
kv_rdmacall_unlisten(struct kv_rdmacall *c)
{
	unsigned i;

	if (!c)
		return;
	c->may_listen = false;
	for (i = 0; i < KV_RDMA_PORTS_MAX; i++) {
		kv_rdmacm_unlisten(c->listens[i]);
		c->listens[i] = NULL;
	}
}

/* ---- life ---- */

struct kv_rdmacall *
kv_rdmacall_new(const struct kv_rdmacall_opts *o)
{
	struct kv_rdmacall *c = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		errno = ENOMEM;
		return NULL;
	}
	c->o = *o;
	c->word.magic = kv_le32(KV_CALL_MAGIC);
	c->word.bytes = kv_le16(KV_RDMASTREAM_BYTES);
	c->word.credits = kv_le16(KV_RDMASTREAM_CREDITS);
	kv_list_init(&c->making);
	c->watch.fn = on_news;
	rc = kv_rdmawatch_start(&c->watch, o->rdma, o->loop);
	if (rc < 0) {
		free(c);
		errno = -rc;
		return NULL;
	}
	c->cm = kv_rdmacm_new(o->rdma->v, o->loop, o->rdma->env.traffic_class);
	if (c->cm)
		return c;
	rc = errno;
	kv_rdmawatch_stop(&c->watch);
	free(c);
	errno = rc;
	return NULL;
}

void
kv_rdmacall_free(struct kv_rdmacall *c)
{
	struct kv_rdmacall_dial *d, *tmp;
	unsigned i;

	if (!c)
		return;
	kv_rdmacall_unlisten(c);
	KV_LIST_FOREACH_SAFE(d, tmp, &c->making, link) {
		assert(!d->fn);
		dial_free(d);
	}
	for (i = 0; i < KV_RDMA_PORTS_MAX; i++) {
		kv_rdmastream_post_free(c->posts[i]);
		kv_rdmacq_free(c->cqs[i]);
	}
	kv_rdmacm_free(c->cm);
	kv_rdmawatch_stop(&c->watch);
	free(c);
}

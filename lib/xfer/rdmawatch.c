#include "xfer/rdmawatch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "event/mbox.h"
#include "xfer/rdmacore.h"
#include "xfer/rdmacq.h"

enum {
	TAKE_MAX = 64, /* at once: others have their turns, too */
};

#define LOOK_NS (5 * KV_NS_PER_S)

/* A device, as a loop listens to it. */
struct source {
	struct kv_io io;
	struct kv_rdmawatch_reader *reader;
	unsigned port; /* its first one */
};

/* A loop of the process. */
struct kv_rdmawatch_reader {
	struct kv_list link; /* under the lock, as is is_posted */
	struct kv_rdma *r;
	struct kv_loop *loop;
	struct kv_list watches;
	struct source sources[KV_RDMA_PORTS_MAX];
	struct kv_mbox mbox;
	struct kv_mail mail;
	bool is_posted;
	struct kv_timer look;
	bool is_looking; /* it is set: a port is down */
};

/* Both are ports of one device. */
static bool
is_alike(const struct kv_rdma *r, unsigned a, unsigned b)
{
	return r->nics[a].ctx == r->nics[b].ctx;
}

/* ---- what was said: with the lock ---- */

static void
device_note(struct kv_rdma *r, unsigned of, enum kv_rdmawatch_news news)
{
	struct kv_rdmawatch_port *p = r->watched.ports;
	unsigned i;

	for (i = 0; i < r->n; i++) {
		if (!is_alike(r, i, of))
			continue;
		if (news == KV_RDMAWATCH_QUEUE)
			p[i].queues++;
		else
			p[i].is = news;
	}
}

static const struct kv_rdmadev *
dev_of(const struct kv_rdma *r, unsigned i)
{
	return r->watched.ports[i].changes ? &r->watched.devs[i] : &r->devs[i];
}

/* In something that matters to others. */
static bool
is_same(const struct kv_rdmadev *a, const struct kv_rdmadev *b)
{
	return a->is_usable == b->is_usable &&
	       a->is_ethernet == b->is_ethernet &&
	       a->mbit_per_s == b->mbit_per_s && a->mtu_bytes == b->mtu_bytes &&
	       a->lid == b->lid && a->gid_index == b->gid_index &&
	       a->local_gid_index == b->local_gid_index &&
	       IN6_ARE_ADDR_EQUAL(&a->gid, &b->gid) && a->n_ips == b->n_ips &&
	       memcmp(a->ips, b->ips, a->n_ips * sizeof(a->ips[0])) == 0 &&
	       memcmp(a->ip_bits, b->ip_bits, a->n_ips) == 0;
}

/* It is up if it can be used. */
static void
port_look(struct kv_rdma *r, unsigned i)
{
	struct kv_rdmawatch_port *p = &r->watched.ports[i];
	struct kv_rdmadev dev = *dev_of(r, i);

	if (p->is == KV_RDMAWATCH_GONE || !kv_rdma_look(r, i, &dev))
		return;
	p->is = KV_RDMAWATCH_UP;
	if (is_same(&dev, dev_of(r, i)))
		return;
	r->watched.devs[i] = dev;
	p->changes++;
}

/* All that are down, if nobody has done so meanwhile. */
static void
ports_look(struct kv_rdma *r, uint64_t now)
{
	unsigned i;

	if (now < r->watched.look_ns)
		return;
	r->watched.look_ns = now + LOOK_NS;
	for (i = 0; i < r->n; i++)
		if (r->watched.ports[i].is == KV_RDMAWATCH_DOWN)
			port_look(r, i);
}

/* Down, or to be looked at. */
static void
port_note(struct kv_rdma *r, unsigned of, int number, bool is_down)
{
	struct kv_rdmawatch_port *p = r->watched.ports;
	unsigned i;

	for (i = 0; i < r->n; i++) {
		if (!is_alike(r, i, of) || r->nics[i].port != number)
			continue;
		if (!is_down)
			port_look(r, i);
		else if (p[i].is != KV_RDMAWATCH_GONE)
			p[i].is = KV_RDMAWATCH_DOWN;
	}
}

/* Until it is acknowledged, the queue that it is of stays. */
static void
event_note(struct kv_rdma *r, unsigned of, const struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
		port_note(r, of, e->element.port_num, false);
		break;
	case IBV_EVENT_PORT_ERR:
		port_note(r, of, e->element.port_num, true);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		device_note(r, of, KV_RDMAWATCH_GONE);
		break;
	case IBV_EVENT_CQ_ERR:
		kv_rdmacq_condemn(e->element.cq->cq_context);
		device_note(r, of, KV_RDMAWATCH_QUEUE);
		break;
	case IBV_EVENT_SRQ_ERR:
		kv_rdmacq_condemn(e->element.srq->srq_context);
		device_note(r, of, KV_RDMAWATCH_QUEUE);
		break;
	default:
		/* Of a queue pair its completions say as much. */
		break;
	}
}

/* A device that has gone says so only once, and then nothing any more. */
static void
events_take(struct kv_rdma *r, unsigned of)
{
	struct ibv_context *ctx = r->nics[of].ctx;
	struct ibv_async_event e;
	unsigned n;

	for (n = 0; n < TAKE_MAX; n++) {
		if (r->v->get_async_event(ctx, &e) != 0) {
			if (errno != EAGAIN && errno != EINTR)
				device_note(r, of, KV_RDMAWATCH_GONE);
			return;
		}
		event_note(r, of, &e);
		r->v->ack_async_event(&e);
	}
}

static void
all_tell(struct kv_rdma *r)
{
	struct kv_rdmawatch_reader *d;

	KV_LIST_FOREACH(d, &r->watched.readers, link) {
		if (!d->is_posted)
			kv_mbox_post(&d->mbox, &d->mail);
		d->is_posted = true;
	}
}

/* ---- the reader of a loop ---- */

static void
say(const struct kv_rdma *r, unsigned i, enum kv_rdmawatch_news is)
{
	const struct kv_rdmadev *dev = &r->devs[i];

	if (is == KV_RDMAWATCH_UP)
		kv_info("rdma: port %u of %s is up%s", dev->port, dev->name,
			dev->is_awaited ? "" : " again");
	else if (is == KV_RDMAWATCH_DOWN)
		kv_warn("rdma: port %u of %s is down", dev->port, dev->name);
	else
		kv_err("rdma: port %u of %s is not used any more: the device "
		       "has failed, or was removed; see dmesg",
		       dev->port, dev->name);
}

/* s: what its device says; NULL: how those are that are down. */
static void
news_take(struct kv_rdmawatch_reader *d, const struct source *s)
{
	struct kv_rdmawatch_port was[KV_RDMA_PORTS_MAX];
	struct kv_rdmawatch_port is[KV_RDMA_PORTS_MAX];
	struct kv_rdma *r = d->r;
	unsigned i;

	KV_LOCKED(&r->watched.lock) {
		memcpy(was, r->watched.ports, sizeof(was));
		if (s)
			events_take(r, s->port);
		else
			ports_look(r, kv_loop_now(d->loop));
		memcpy(is, r->watched.ports, sizeof(is));
		if (memcmp(was, is, sizeof(was)) != 0)
			all_tell(r);
	}
	for (i = 0; i < r->n; i++)
		if (was[i].is != is[i].is)
			say(r, i, is[i].is);
}

static void
on_ready(struct kv_io *io, uint32_t ready)
{
	const struct source *s = KV_CONTAINER_OF(io, struct source, io);

	(void)ready;
	news_take(s->reader, s);
}

static void
look_later(struct kv_rdmawatch_reader *d,
	   const struct kv_rdmawatch_port is[KV_RDMA_PORTS_MAX])
{
	unsigned i;

	if (d->is_looking)
		return;
	for (i = 0; i < d->r->n && is[i].is != KV_RDMAWATCH_DOWN; i++)
		;
	if (i < d->r->n)
		d->is_looking =
			kv_loop_timer_set(d->loop, &d->look,
					  kv_loop_now(d->loop) + LOOK_NS) == 0;
}

static void
on_look(struct kv_timer *t)
{
	struct kv_rdmawatch_reader *d =
		KV_CONTAINER_OF(t, struct kv_rdmawatch_reader, look);
	struct kv_rdmawatch_port is[KV_RDMA_PORTS_MAX];

	d->is_looking = false;
	news_take(d, NULL);
	KV_LOCKED(&d->r->watched.lock)
		memcpy(is, d->r->watched.ports, sizeof(is));
	look_later(d, is);
}

/* How the ports are by now. */
struct state {
	struct kv_rdmawatch_port is[KV_RDMA_PORTS_MAX];
	struct kv_rdmadev devs[KV_RDMA_PORTS_MAX];
};

/* With the lock. */
static void
state_read(const struct kv_rdma *r, struct state *s)
{
	unsigned i;

	memcpy(s->is, r->watched.ports, sizeof(s->is));
	for (i = 0; i < r->n; i++)
		s->devs[i] = *dev_of(r, i);
}

static void
watch_tell(struct kv_rdmawatch *w, unsigned port, const struct state *s)
{
	const struct kv_rdmawatch_port *is = &s->is[port];
	struct kv_rdmawatch_port was = w->seen[port];

	w->seen[port] = *is;
	w->devs[port] = s->devs[port];
	if (was.queues != is->queues)
		w->fn(w, port, KV_RDMAWATCH_QUEUE);
	if (was.is != is->is ||
	    (is->is == KV_RDMAWATCH_UP && was.changes != is->changes))
		w->fn(w, port, is->is);
}

static void
deliver(struct kv_mail *mail)
{
	struct kv_rdmawatch_reader *d =
		KV_CONTAINER_OF(mail, struct kv_rdmawatch_reader, mail);
	struct kv_rdmawatch *w, *tmp;
	struct state s;
	unsigned i;

	KV_LOCKED(&d->r->watched.lock) {
		d->is_posted = false;
		state_read(d->r, &s);
	}
	for (i = 0; i < d->r->n; i++)
		if (s.is[i].is == KV_RDMAWATCH_GONE)
			kv_loop_io_del(&d->sources[i].io);
	look_later(d, s.is);
	KV_LIST_FOREACH_SAFE(w, tmp, &d->watches, link)
		for (i = 0; i < d->r->n; i++)
			watch_tell(w, i, &s);
}

/* ---- life ---- */

static void
reader_free(struct kv_rdmawatch_reader *d)
{
	unsigned i;

	KV_LOCKED(&d->r->watched.lock)
		kv_list_del(&d->link);
	for (i = 0; i < d->r->n; i++)
		kv_loop_io_del(&d->sources[i].io);
	kv_mbox_fini(&d->mbox); /* delivers */
	kv_loop_timer_del(&d->look);
	free(d);
}

static int
source_open(struct kv_rdmawatch_reader *d, unsigned i)
{
	int fd = d->r->nics[i].ctx->async_fd;

	d->sources[i].port = i;
	d->sources[i].reader = d;
	d->sources[i].io.fn = on_ready;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return kv_loop_io_add(d->loop, &d->sources[i].io, fd, EPOLLIN);
}

/* All but those that have gone. */
static int
sources_open(struct kv_rdmawatch_reader *d,
	     const struct kv_rdmawatch_port is[KV_RDMA_PORTS_MAX])
{
	unsigned i;
	int rc = 0;

	for (i = 0; rc == 0 && i < d->r->n; i++)
		if (is[i].is != KV_RDMAWATCH_GONE &&
		    (i == 0 || !is_alike(d->r, i, i - 1)))
			rc = source_open(d, i);
	return rc;
}

static int
reader_new(struct kv_rdma *r, struct kv_loop *loop,
	   struct kv_rdmawatch_reader **out)
{
	struct kv_rdmawatch_port is[KV_RDMA_PORTS_MAX];
	struct kv_rdmawatch_reader *d =
		KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	d->r = r;
	d->loop = loop;
	d->mail.fn = deliver;
	d->look.fn = on_look;
	kv_list_init(&d->link);
	kv_list_init(&d->watches);
	rc = kv_mbox_init(&d->mbox, loop);
	if (rc < 0) {
		free(d);
		return rc;
	}
	KV_LOCKED(&r->watched.lock) {
		memcpy(is, r->watched.ports, sizeof(is));
		kv_list_add_tail(&r->watched.readers, &d->link);
	}
	rc = sources_open(d, is);
	if (rc < 0) {
		reader_free(d);
		return rc;
	}
	look_later(d, is);
	*out = d;
	return 0;
}

static struct kv_rdmawatch_reader *
reader_find(struct kv_rdma *r, const struct kv_loop *loop)
{
	struct kv_rdmawatch_reader *d, *found = NULL;

	KV_LOCKED(&r->watched.lock)
		KV_LIST_FOREACH(d, &r->watched.readers, link)
			if (d->loop == loop)
				found = d;
	return found;
}

int
kv_rdmawatch_start(struct kv_rdmawatch *w, struct kv_rdma *r,
		   struct kv_loop *loop)
{
	struct kv_rdmawatch_reader *d = reader_find(r, loop);
	int rc = d ? 0 : reader_new(r, loop, &d);
	struct state s;

	if (rc < 0)
		return rc;
	KV_LOCKED(&r->watched.lock)
		state_read(r, &s);
	memcpy(w->seen, s.is, sizeof(w->seen));
	memcpy(w->devs, s.devs, r->n * sizeof(w->devs[0]));
	w->reader = d;
	kv_list_add_tail(&d->watches, &w->link);
	return 0;
}

void
kv_rdmawatch_stop(struct kv_rdmawatch *w)
{
	struct kv_rdmawatch_reader *d = w->reader;

	if (!d)
		return;
	w->reader = NULL;
	kv_list_del(&w->link);
	if (kv_list_is_empty(&d->watches))
		reader_free(d);
}

void
kv_rdmawatch_open(struct kv_rdmawatched *w)
{
	pthread_mutex_init(&w->lock, NULL);
	kv_list_init(&w->readers);
}

void
kv_rdmawatch_close(struct kv_rdmawatched *w)
{
	assert(kv_list_is_empty(&w->readers));
	pthread_mutex_destroy(&w->lock);
}

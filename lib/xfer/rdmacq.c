#include "xfer/rdmacq.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "xfer/rdmaqp.h"

enum {
	WCS = 32,        /* taken at once */
	POLL_MAX = 8,    /* such times a turn: others have their turns, too */
	RECV_CHAIN = 32, /* posted at once */
	EVENTS_MAX = 64, /* acknowledged at once: that takes a lock */
};

/* ---- queue pairs ---- */

static struct kv_rdmaqp *
qp_find(const struct kv_rdmacq *c, uint32_t number)
{
	struct kv_rdmaqp *qp = c->known[number % KV_RDMACQ_KNOWN];
	struct kv_htab_node *n;

	if (qp && qp->node.hash == number)
		return qp;
	n = kv_htab_first(&c->qps, number);
	return n ? KV_CONTAINER_OF(n, struct kv_rdmaqp, node) : NULL;
}

int
kv_rdmacq_add(struct kv_rdmacq *c, struct kv_rdmaqp *qp, uint32_t number)
{
	int rc = kv_htab_add(&c->qps, &qp->node, number);

	if (rc == 0)
		c->known[number % KV_RDMACQ_KNOWN] = qp;
	return rc;
}

void
kv_rdmacq_del(struct kv_rdmacq *c, struct kv_rdmaqp *qp)
{
	struct kv_rdmaqp **at = &c->known[qp->node.hash % KV_RDMACQ_KNOWN];

	kv_htab_del(&c->qps, &qp->node);
	if (*at == qp)
		*at = NULL;
}

/* ---- receives ---- */

/* What could not be posted is tried again later. */
static void
receives_post(struct kv_rdmacq *c)
{
	struct ibv_recv_wr wrs[RECV_CHAIN], *bad;
	struct ibv_sge sges[RECV_CHAIN];
	unsigned i, n, at;

	while (c->n_idle > 0) {
		n = (unsigned)kv_min_u64(c->n_idle, RECV_CHAIN);
		for (i = 0; i < n; i++) {
			at = c->idle[c->n_idle - 1 - i];
			sges[i] = (struct ibv_sge){
				.addr = (uintptr_t)c->memory +
					(uint64_t)at * c->recv_bytes,
				.length = c->recv_bytes,
				.lkey = c->mr.near.keys[c->port->number],
			};
			wrs[i] = (struct ibv_recv_wr){
				.wr_id = at,
				.next = i + 1 < n ? &wrs[i + 1] : NULL,
				.sg_list = &sges[i],
				.num_sge = c->memory ? 1 : 0,
			};
		}
		if (ibv_post_srq_recv(c->srq, wrs, &bad) != 0) {
			c->n_idle -= (unsigned)(bad - wrs);
			return;
		}
		c->n_idle -= n;
	}
}

void
kv_rdmacq_give(struct kv_rdmacq *c, unsigned receive)
{
	c->idle[c->n_idle++] = (uint16_t)receive;
	if (!c->is_lost)
		kv_loop_defer(c->loop, &c->poll);
}

/* ---- completions ---- */

static void
wc_take(struct kv_rdmacq *c, const struct ibv_wc *wc)
{
	struct kv_rdmaqp *qp = qp_find(c, wc->qp_num);
	bool is_kept = qp && kv_rdmaqp_take(qp, wc);

	if (wc->wr_id < KV_RDMACQ_RECEIVES_MAX && !is_kept)
		c->idle[c->n_idle++] = (uint16_t)wc->wr_id;
}

static void
lost_one(void *arg, struct kv_htab_node *n)
{
	(void)arg;
	kv_rdmaqp_lost(KV_CONTAINER_OF(n, struct kv_rdmaqp, node));
}

static void
fence_one(void *arg, struct kv_htab_node *n)
{
	(void)arg;
	kv_rdmaqp_fence(KV_CONTAINER_OF(n, struct kv_rdmaqp, node));
}

static void
each_qp(struct kv_rdmacq *c, void (*fn)(void *arg, struct kv_htab_node *n))
{
	uint64_t cursor = 0;

	do
		cursor = kv_htab_scan(&c->qps, cursor, 64, fn, NULL);
	while (cursor);
}

void
kv_rdmacq_lose(struct kv_rdmacq *c)
{
	if (c->is_lost)
		return;
	c->is_lost = true;
	kv_loop_io_del(&c->io);
	each_qp(c, lost_one);
}

void
kv_rdmacq_fence(struct kv_rdmacq *c)
{
	each_qp(c, fence_one);
}

static void
say_lost(const struct kv_rdmacq *c)
{
	kv_err("rdma: the completion queue of %s is lost",
	       c->port->v->get_device_name(c->port->ctx->device));
}

void
kv_rdmacq_condemn(struct kv_rdmacq *c)
{
	atomic_store(&c->is_condemned, true);
}

void
kv_rdmacq_look(struct kv_rdmacq *c)
{
	if (c->is_lost || !atomic_load(&c->is_condemned))
		return;
	say_lost(c);
	kv_rdmacq_lose(c);
}

/* How many came; fewer than WCS: now it is empty. */
static int
cq_take(struct kv_rdmacq *c)
{
	struct ibv_wc wcs[WCS];
	int i, n;

	n = c->is_lost ? 0 : ibv_poll_cq(c->cq, WCS, wcs);
	if (n < 0) {
		say_lost(c);
		kv_rdmacq_lose(c);
		return 0;
	}
	for (i = 0; i < n; i++)
		wc_take(c, &wcs[i]);
	c->has_come |= n > 0;
	return n;
}

/* False: there may be more. */
static bool
cq_empty(struct kv_rdmacq *c)
{
	unsigned i;

	for (i = 0; i < POLL_MAX; i++)
		if (cq_take(c) < WCS)
			break;
	if (c->n_idle > 0)
		receives_post(c);
	return i < POLL_MAX;
}

static void
cq_arm(struct kv_rdmacq *c)
{
	c->is_armed = true;
	if (ibv_req_notify_cq(c->cq, 0) != 0)
		kv_rdmacq_lose(c);
}

/* It is looked at again in the next turn. */
static bool
is_awake(const struct kv_rdmacq *c, uint64_t now)
{
	return !c->is_virtual && now - c->last_ns < KV_LOOP_AWAKE_NS;
}

/* Armed before it is looked at for the last time: what comes between the two
 * makes the channel readable. */
static void
look(struct kv_rdmacq *c, uint64_t now)
{
	bool is_all;

	if (!c->is_armed && !c->is_lost && !is_awake(c, now))
		cq_arm(c);
	c->has_come = false;
	is_all = cq_empty(c);
	if (c->has_come)
		c->last_ns = now;
	if (!c->is_lost && (!is_all || is_awake(c, now)))
		kv_loop_defer(c->loop, &c->poll);
}

void
kv_rdmacq_poll(struct kv_rdmacq *c)
{
	look(c, kv_loop_now(c->loop));
}

static void
poll_turn(struct kv_defer *d)
{
	kv_rdmacq_poll(KV_CONTAINER_OF(d, struct kv_rdmacq, poll));
}

/* Virtual time does not go on while there is something to do. */
void
kv_rdmacq_wake(struct kv_rdmacq *c)
{
	if (c->is_lost || (c->is_virtual && c->is_armed))
		return;
	c->last_ns = kv_loop_now(c->loop);
	kv_loop_defer(c->loop, &c->poll);
}

/* There is one event for each time that it was armed. */
static void
on_channel(struct kv_io *io, uint32_t ready)
{
	struct kv_rdmacq *c = KV_CONTAINER_OF(io, struct kv_rdmacq, io);
	const struct kv_rdmaverbs *v = c->port->v;
	struct ibv_cq *cq;
	void *arg;

	(void)ready;
	if (v->get_cq_event(c->channel, &cq, &arg) != 0)
		return;
	c->is_armed = false;
	if (++c->events == EVENTS_MAX) {
		v->ack_cq_events(c->cq, c->events);
		c->events = 0;
	}
	c->last_ns = kv_loop_now(c->loop);
	look(c, c->last_ns);
}

/* ---- making ---- */

static int
receives_make(struct kv_rdmacq *c, const struct kv_rdmacq_opts *o)
{
	size_t bytes = (size_t)o->receives * o->recv_bytes;

	assert(o->receives < KV_RDMACQ_RECEIVES_MAX);
	c->idle = calloc(o->receives, sizeof(*c->idle));
	if (!c->idle)
		return -ENOMEM;
	for (; c->n_idle < o->receives; c->n_idle++)
		c->idle[c->n_idle] = (uint16_t)c->n_idle;
	c->receives = o->receives;
	c->recv_bytes = o->recv_bytes;
	if (bytes == 0)
		return 0;
	c->memory = kv_rdmamr_pages(bytes);
	if (!c->memory)
		return -ENOMEM;
	return kv_rdmamr_register(&c->mr, &c->port, 1, c->memory, bytes,
				  KV_RDMAREGION_NEAR);
}

static int
queues_make(struct kv_rdmacq *c, const struct kv_rdmacq_opts *o)
{
	const struct kv_rdmaverbs *v = c->port->v;
	struct ibv_srq_init_attr attr = {
		.srq_context = c,
		.attr = { .max_wr = o->receives, .max_sge = 1 },
	};

	c->channel = v->create_comp_channel(c->port->ctx);
	if (!c->channel || fcntl(c->channel->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	c->cq = v->create_cq(c->port->ctx, (int)(o->sends + o->receives), c,
			     c->channel, 0);
	if (!c->cq)
		return -errno;
	c->srq = v->create_srq(c->port->pd, &attr);
	if (!c->srq)
		return -errno;
	c->cqe = o->sends;
	receives_post(c);
	return kv_loop_io_add(c->loop, &c->io, c->channel->fd, EPOLLIN);
}

struct kv_rdmacq *
kv_rdmacq_new(const struct kv_rdmanic *port, struct kv_loop *loop,
	      const struct kv_rdmacq_opts *opts)
{
	struct kv_rdmacq *c = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		errno = ENOMEM;
		return NULL;
	}
	c->port = port;
	c->loop = loop;
	c->is_virtual = kv_loop_is_virtual(loop);
	c->io.fn = on_channel;
	c->poll.fn = poll_turn;
	kv_htab_init(&c->qps);
	rc = receives_make(c, opts);
	if (rc == 0)
		rc = queues_make(c, opts);
	if (rc == 0) {
		cq_arm(c);
		return c;
	}
	kv_rdmacq_free(c);
	errno = -rc;
	return NULL;
}

void
kv_rdmacq_free(struct kv_rdmacq *c)
{
	const struct kv_rdmaverbs *v;

	if (!c)
		return;
	assert(kv_htab_count(&c->qps) == 0);
	v = c->port->v;
	kv_loop_defer_del(&c->poll);
	kv_loop_io_del(&c->io);
	if (c->srq)
		v->destroy_srq(c->srq);
	if (c->events)
		v->ack_cq_events(c->cq, c->events);
	if (c->cq)
		v->destroy_cq(c->cq);
	if (c->channel)
		v->destroy_comp_channel(c->channel);
	kv_rdmamr_give_up(&c->mr);
	free(c->memory);
	free(c->idle);
	kv_htab_fini(&c->qps);
	free(c);
}

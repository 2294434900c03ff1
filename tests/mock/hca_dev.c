/* Devices as a process sees them: the list, contexts, attributes, events. */

#include "hca_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct event {
	struct kv_list link;
	struct ibv_async_event event;
};

static struct ibv_device *
view_of(struct hca_proc *p, struct hca_dev *dev)
{
	struct hca_view *v;

	KV_LIST_FOREACH(v, &p->views, link)
		if (v->real == dev)
			return &v->dev;
	v = hca_alloc(sizeof(*v));
	v->proc = p;
	v->real = dev;
	v->dev.node_type = IBV_NODE_CA;
	v->dev.transport_type = IBV_TRANSPORT_IB;
	snprintf(v->dev.name, sizeof(v->dev.name), "%s", dev->name);
	snprintf(v->dev.dev_name, sizeof(v->dev.dev_name), "uverbs%u",
		 dev->ordinal);
	kv_list_add_tail(&p->views, &v->link);
	return &v->dev;
}

struct ibv_device **
hca_dev_list(struct hca_proc *p, int *n)
{
	struct ibv_device **list;
	struct hca_dev *dev;
	size_t count = 0;

	KV_LIST_FOREACH(dev, &p->host->devs, link)
		count++;
	list = hca_alloc((count + 1) * sizeof(struct ibv_device *));
	count = 0;
	KV_LIST_FOREACH(dev, &p->host->devs, link)
		if (!dev->removed)
			list[count++] = view_of(p, dev);
	if (n)
		*n = (int)count;
	return list;
}

static void
free_device_list(struct ibv_device **list)
{
	free(list);
}

static const char *
get_device_name(struct ibv_device *dev)
{
	return dev->name;
}

/* ---- contexts ---- */

struct hca_ctx *
hca_ctx_new(struct hca_proc *p, struct hca_dev *dev)
{
	struct hca_ctx *ctx = hca_alloc(sizeof(*ctx));

	ctx->ctx.device = view_of(p, dev);
	ctx->ctx.async_fd = hca_fd_new();
	ctx->ctx.cmd_fd = -1;
	ctx->ctx.num_comp_vectors = 1;
	ctx->ctx.ops.poll_cq = hca_cq_poll;
	ctx->ctx.ops.req_notify_cq = hca_cq_notify;
	ctx->ctx.ops.post_srq_recv = hca_srq_post;
	ctx->ctx.ops.post_send = hca_post_send;
	ctx->ctx.ops.post_recv = hca_post_recv;
	ctx->proc = p;
	ctx->dev = dev;
	kv_list_init(&ctx->events);
	kv_list_init(&ctx->channels);
	kv_list_add_tail(&p->ctxs, &ctx->link);
	kv_list_add_tail(&dev->ctxs, &ctx->dev_link);
	return ctx;
}

void
hca_ctx_free(struct hca_ctx *ctx)
{
	assert(ctx->n_objects == 0);
	hca_async_drop(ctx, NULL);
	hca_fd_free(ctx->proc, ctx->ctx.async_fd);
	kv_list_del(&ctx->link);
	kv_list_del(&ctx->dev_link);
	free(ctx);
}

static struct ibv_context *
open_device(struct ibv_device *dev)
{
	struct hca_view *v = (struct hca_view *)dev;

	if (v->real->removed) {
		errno = ENODEV;
		return NULL;
	}
	return &hca_ctx_new(v->proc, v->real)->ctx;
}

static int
close_device(struct ibv_context *ctx)
{
	hca_ctx_free((struct hca_ctx *)ctx);
	return 0;
}

/* ---- events that nobody asked for ---- */

/* How many events of its own kind an object has out; NULL: of no object. */
static unsigned *
unacked_of(const struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		return &((struct hca_cq *)e->element.cq)->async_unacked;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return &((struct hca_srq *)e->element.srq)->async_unacked;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return &((struct hca_qp *)e->element.qp)->async_unacked;
	default:
		return NULL;
	}
}

void
hca_async(struct hca_ctx *ctx, const struct ibv_async_event *event)
{
	struct event *e;

	if (!ctx->proc->loop)
		return;
	e = hca_alloc(sizeof(*e));
	e->event = *event;
	kv_list_add_tail(&ctx->events, &e->link);
	hca_fd_ready(ctx->proc, ctx->ctx.async_fd, true);
}

/* Those of one object, or all. */
void
hca_async_drop(struct hca_ctx *ctx, const void *element)
{
	struct event *e, *tmp;

	KV_LIST_FOREACH_SAFE(e, tmp, &ctx->events, link) {
		if (element && (!unacked_of(&e->event) ||
				(const void *)e->event.element.qp != element))
			continue;
		kv_list_del(&e->link);
		free(e);
	}
	hca_fd_ready(ctx->proc, ctx->ctx.async_fd,
		     !kv_list_is_empty(&ctx->events));
}

static int
get_async_event(struct ibv_context *ibctx, struct ibv_async_event *event)
{
	struct hca_ctx *ctx = (struct hca_ctx *)ibctx;
	struct event *e = KV_LIST_FIRST(&ctx->events, struct event, link);
	unsigned *unacked;

	if (!e)
		return hca_again(ibctx->async_fd);
	*event = e->event;
	unacked = unacked_of(event);
	if (unacked)
		++*unacked;
	kv_list_del(&e->link);
	free(e);
	hca_fd_ready(ctx->proc, ibctx->async_fd,
		     !kv_list_is_empty(&ctx->events));
	return 0;
}

static void
ack_async_event(struct ibv_async_event *event)
{
	unsigned *unacked = unacked_of(event);

	if (!unacked)
		return;
	assert(*unacked > 0);
	--*unacked;
}

/* ---- attributes ---- */

static int
query_device(struct ibv_context *ibctx, struct ibv_device_attr *attr)
{
	const struct hca_dev *dev = ((struct hca_ctx *)ibctx)->dev;

	if (dev->removed)
		return EIO;
	*attr = (struct ibv_device_attr){
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffff000,
		.max_qp = 1 << 16,
		.max_qp_wr = HCA_QP_WR_MAX,
		.max_sge = HCA_SGE_MAX,
		.max_sge_rd = HCA_SGE_MAX,
		.max_cq = 1 << 16,
		.max_cqe = HCA_CQE_MAX,
		.max_mr = 1 << HCA_KEY_BITS,
		.max_pd = 1 << 16,
		.max_qp_rd_atom = HCA_RD_ATOMIC_MAX,
		.max_qp_init_rd_atom = HCA_RD_ATOMIC_MAX,
		.max_res_rd_atom = HCA_RD_ATOMIC_MAX << 16,
		.atomic_cap = IBV_ATOMIC_NONE,
		.max_srq = 1 << 16,
		.max_srq_wr = HCA_SRQ_WR_MAX,
		.max_srq_sge = HCA_SGE_MAX,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = (uint8_t)dev->n_ports,
	};
	return 0;
}

/* Codes of width and speed of a lane, as the standard has them. */
static void
speed_set(struct ibv_port_attr *attr, double gbps)
{
	static const struct {
		double gbps;
		uint8_t width, speed;
	} codes[] = {
		{ 10, 1, 4 },   { 25, 1, 32 },  { 40, 2, 4 },    { 50, 1, 64 },
		{ 100, 2, 32 }, { 200, 2, 64 }, { 400, 2, 128 },
	};
	size_t i = 0;

	while (i + 1 < KV_ARRAY_LEN(codes) && codes[i].gbps < gbps)
		i++;
	attr->active_width = codes[i].width;
	attr->active_speed = codes[i].speed;
}

static int
query_port(struct ibv_context *ibctx, uint8_t num,
	   struct _compat_ibv_port_attr *out)
{
	struct hca_dev *dev = ((struct hca_ctx *)ibctx)->dev;
	struct hca_port *port = hca_port_of(dev, num);
	/* The caller's is a whole one, as with the library. */
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;
	enum {
		PHYS_DISABLED = 3,
		PHYS_UP = 5,
	};

	if (dev->removed)
		return EIO;
	if (!port)
		return EINVAL;
	attr->state = port->up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	attr->phys_state = port->up ? PHYS_UP : PHYS_DISABLED;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = port->opts.mtu;
	attr->gid_tbl_len = (int)port->n_gids;
	attr->max_msg_sz = HCA_MSG_BYTES_MAX;
	attr->pkey_tbl_len = 1;
	attr->lid = port->opts.infiniband ? port->lid : 0;
	attr->link_layer = port->opts.infiniband ? IBV_LINK_LAYER_INFINIBAND
						 : IBV_LINK_LAYER_ETHERNET;
	speed_set(attr, port->opts.gbps);
	return 0;
}

static int
query_gid_ex(struct ibv_context *ibctx, uint32_t num, uint32_t index,
	     struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
	struct hca_dev *dev = ((struct hca_ctx *)ibctx)->dev;
	struct hca_port *port = hca_port_of(dev, num);

	if (dev->removed)
		return EIO;
	if (!port || flags || bytes != sizeof(*entry))
		return EINVAL;
	if (index >= port->n_gids)
		return ENODATA;
	*entry = port->gids[index];
	return 0;
}

static int
query_gid(struct ibv_context *ibctx, uint8_t num, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry entry;
	int err = query_gid_ex(ibctx, num, (uint32_t)index, &entry, 0,
			       sizeof(entry));

	if (err) {
		errno = err;
		return -1;
	}
	*gid = entry.gid;
	return 0;
}

void
hca_dev_calls(struct kv_rdmaverbs *v)
{
	v->free_device_list = free_device_list;
	v->get_device_name = get_device_name;
	v->open_device = open_device;
	v->close_device = close_device;
	v->get_async_event = get_async_event;
	v->ack_async_event = ack_async_event;
	v->query_device = query_device;
	v->query_port = query_port;
	v->query_gid = query_gid;
	v->query_gid_ex = query_gid_ex;
}

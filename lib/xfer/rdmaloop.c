#include "xfer/rdmaloop.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "xfer/rdmalinkcore.h"

enum {
	SENDS = 4096,   /* room for 124 queue pairs of a port */
	RECEIVES = 512, /* transfers that end within a turn of the loop */
	GID_BITS = 64,  /* that name its subnet */
};

/* ---- being dialled ---- */

static struct kv_rdmalink *
link_find(const struct kv_rdmaloop *rl, uint64_t token)
{
	struct kv_htab_node *n;
	struct kv_rdmalink *l;

	for (n = kv_htab_first(&rl->links, token); n;
	     n = kv_htab_next(&rl->links, n)) {
		l = KV_CONTAINER_OF(n, struct kv_rdmalink, node);
		if (l->o.token == token)
			return l;
	}
	return NULL;
}

/* The bytes are a stranger's. (They come with zeros behind them.) */
static void
on_asked(void *arg, struct kv_rdmaconn *c, const char *device, unsigned port,
	 const void *bytes, size_t n)
{
	struct kv_rdmaloop *rl = arg;
	int number = kv_rdma_number(rl->r, device, port);
	struct kv_rdmalink *l = NULL;
	struct kv_rail_word word;

	if (n >= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		if (kv_get32(word.magic) == KV_RAIL_MAGIC)
			l = link_find(rl, kv_get64(word.token));
	}
	if (!l || number < 0 || word.far != number ||
	    word.near >= KV_RAILS_MAX || word.zero || word.mtu > IBV_MTU_4096 ||
	    word.mtu < IBV_MTU_256) {
		kv_debug("rdma: somebody was refused at %s", device);
		kv_rdmacm_refuse(c);
		return;
	}
	kv_rdmarail_asked(l, c, (unsigned)number, &word);
}

static void
listen_at(struct kv_rdmaloop *rl, unsigned i)
{
	const struct kv_rdmadev *dev = &rl->watch.devs[i];
	struct sockaddr_storage at;

	if (dev->is_awaited || dev->n_ips == 0 || !rl->cm)
		return;
	rl->listens_at[i] = dev->ips[0];
	kv_rdma_sockaddr(&dev->ips[0], 0, &at);
	rl->listens[i] =
		kv_rdmacm_listen(rl->cm, (struct sockaddr *)&at, on_asked, rl);
	if (!rl->listens[i])
		kv_warn("rdma: cannot listen at port %u of %s: %m", dev->port,
			dev->name);
}

/* At its address as it is by now. */
static void
listen_anew(struct kv_rdmaloop *rl, unsigned i)
{
	const struct kv_rdmadev *dev = &rl->watch.devs[i];

	if (rl->listens[i] && dev->n_ips > 0 &&
	    IN6_ARE_ADDR_EQUAL(&rl->listens_at[i], &dev->ips[0]))
		return;
	kv_rdmacm_unlisten(rl->listens[i]);
	rl->listens[i] = NULL;
	listen_at(rl, i);
}

/* Where nobody listens it is joined to, by its GID. */
static struct kv_rail_rec
rec_of(const struct kv_rdmaloop *rl, unsigned i)
{
	const struct kv_rdmadev *dev = &rl->watch.devs[i];
	struct kv_rail_rec rec = {
		.bits = GID_BITS,
		.number = (uint8_t)i,
		.mbit_per_s = kv_le32(dev->mbit_per_s),
		.layer = dev->is_ethernet ? KV_RAIL_ETHERNET
					  : KV_RAIL_INFINIBAND,
		.mtu = rl->r->nics[i].mtu,
	};

	memcpy(rec.ip, &dev->gid, sizeof(rec.ip));
	if (!rl->listens[i])
		return rec;
	memcpy(rec.ip, &dev->ips[0], sizeof(rec.ip));
	rec.bits = dev->ip_bits[0];
	rec.port = kv_le16(kv_rdmacm_port(rl->listens[i]));
	return rec;
}

unsigned
kv_rdmaloop_rails(const struct kv_rdmaloop *rl,
		  struct kv_rail_rec out[KV_RAILS_MAX])
{
	unsigned i, n = 0;

	for (i = 0; i < rl->r->n; i++)
		if (rl->cqs[i] && !rl->cqs[i]->is_lost && !rl->is_gone[i] &&
		    kv_rdmawatch_port(&rl->watch, i) == KV_RDMAWATCH_UP)
			out[n++] = rec_of(rl, i);
	return n;
}

/* ---- what devices say ---- */

static void
news_take(struct kv_rdmalink *l, unsigned port, enum kv_rdmawatch_news news)
{
	if (news == KV_RDMAWATCH_UP)
		kv_rdmadial_port_up(l, port);
	else
		kv_rdmarail_port_lost(l, port,
				      news == KV_RDMAWATCH_DOWN ? -ENETDOWN
								: -ENODEV);
	if (!l->o.dials && l->is_told)
		kv_rdmalink_tell(l);
}

static void
on_news(struct kv_rdmawatch *w, unsigned port, enum kv_rdmawatch_news news)
{
	struct kv_rdmaloop *rl = KV_CONTAINER_OF(w, struct kv_rdmaloop, watch);
	struct kv_rdmacq *cq = rl->cqs[port];
	struct kv_rdmalink *l;

	if (!cq)
		return;
	if (news == KV_RDMAWATCH_QUEUE) {
		kv_rdmacq_look(cq);
		return;
	}
	if (news == KV_RDMAWATCH_GONE)
		rl->is_gone[port] = true;
	if (news == KV_RDMAWATCH_UP && rl->may_listen)
		listen_anew(rl, port);
	KV_LIST_FOREACH(l, &rl->all, in_all)
		news_take(l, port, news);
	if (news == KV_RDMAWATCH_GONE)
		kv_rdmacq_lose(cq);
}

/* ---- life ---- */

static void
port_open(struct kv_rdmaloop *rl, unsigned i)
{
	const struct kv_rdmadev *dev = &rl->r->devs[i];
	struct kv_rdmacq_opts o = { .sends = SENDS, .receives = RECEIVES };
	int max = dev->limits.cqe_max;

	if (max > 2 * RECEIVES)
		o.sends = (unsigned)kv_min_u64(SENDS, (uint64_t)max - RECEIVES);
	rl->cqs[i] = kv_rdmacq_new(rl->r->ports[i], rl->loop, &o);
	if (rl->cqs[i])
		rl->ports[rl->n_ports++] = rl->r->ports[i];
	else
		kv_warn("rdma: no queues for port %u of %s: %m", dev->port,
			dev->name);
}

static int
loop_open(struct kv_rdmaloop *rl, bool listens)
{
	unsigned i;
	int rc;

	/* In a container its device is missing, perhaps. */
	rl->cm = kv_rdmacm_new(rl->r->v, rl->loop, rl->r->env.traffic_class);
	if (!rl->cm && errno != ENOTSUP)
		kv_warn("rdma: no connection manager: %m; queue pairs are "
			"joined without it");
	rl->watch.fn = on_news;
	rc = kv_rdmawatch_start(&rl->watch, rl->r, rl->loop);
	if (rc < 0)
		return rc;
	for (i = 0; i < rl->r->n; i++)
		port_open(rl, i);
	if (rl->n_ports == 0)
		return -ENODEV;
	rl->scrap = kv_rdmamr_pages(sizeof(*rl->scrap));
	if (!rl->scrap)
		return -ENOMEM;
	rc = kv_rdmamr_register(&rl->scrap_mr, rl->ports, rl->n_ports,
				rl->scrap, sizeof(*rl->scrap),
				KV_RDMAREGION_NEAR);
	if (rc < 0)
		return rc;
	for (i = 0; i < rl->n_ports; i++)
		if (!rl->scrap_mr.near.keys[rl->ports[i]->number])
			rl->is_gone[rl->ports[i]->number] = true;
	rl->may_listen = listens;
	for (i = 0; i < rl->r->n && listens; i++)
		if (rl->cqs[i])
			listen_at(rl, i);
	return 0;
}

struct kv_rdmaloop *
kv_rdmaloop_new(struct kv_rdma *r, struct kv_loop *loop, bool listens)
{
	struct kv_rdmaloop *rl =
		KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*rl));
	int rc;

	if (!rl) {
		errno = ENOMEM;
		return NULL;
	}
	rl->r = r;
	rl->loop = loop;
	kv_htab_init(&rl->links);
	kv_list_init(&rl->all);
	kv_list_init(&rl->lru);
	rc = loop_open(rl, listens);
	if (rc == 0)
		return rl;
	kv_rdmaloop_free(rl);
	errno = -rc;
	return NULL;
}

void
kv_rdmaloop_free(struct kv_rdmaloop *rl)
{
	unsigned i;

	if (!rl)
		return;
	assert(kv_list_is_empty(&rl->all));
	kv_rdmawatch_stop(&rl->watch);
	kv_htab_fini(&rl->links);
	for (i = 0; i < rl->r->n; i++)
		kv_rdmacm_unlisten(rl->listens[i]);
	kv_rdmamr_give_up(&rl->scrap_mr);
	free(rl->scrap);
	for (i = 0; i < rl->r->n; i++)
		kv_rdmacq_free(rl->cqs[i]);
	kv_rdmacm_free(rl->cm);
	free(rl);
}

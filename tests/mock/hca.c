/* The world: hosts, processes, the ways between ports, time. */

#include "hca_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/num.h"

enum {
	PROCS_MAX = 64,
	PIECE_BYTES = 256 << 10,
	FIRST_QPN = 0x100,
	FIRST_IP_PORT = 20000,
	IDLE_TURNS_MAX = 1000000,
};

#define FREE_ALL(head, type)                                       \
	do {                                                       \
		while (!kv_list_is_empty(head)) {                  \
			type *x = KV_LIST_FIRST(head, type, link); \
			kv_list_del(&x->link);                     \
			free(x);                                   \
		}                                                  \
	} while (0)

void *
hca_alloc(size_t bytes)
{
	void *p = calloc(1, bytes);

	assert(p);
	return p;
}

uint64_t
hca_now(const struct hca *h)
{
	return kv_loop_now(h->loop);
}

uint64_t
hca_upto(struct hca *h, uint64_t n)
{
	return n ? kv_rng_below(&h->rng, n + 1) : 0;
}

bool
hca_chance(struct hca *h, double p)
{
	return p > 0 &&
	       (double)kv_rng_below(&h->rng, 1u << 30) < p * (double)(1u << 30);
}

void
hca_arm(struct hca *h, struct kv_timer *t, uint64_t at_ns)
{
	int err = kv_loop_timer_set(h->loop, t, at_ns);

	assert(!err);
}

/* ---- descriptors ---- */

/* A real one, so that its flags can be set; what is ready of it is said. */
int
hca_fd_new(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	assert(fd >= 0);
	return fd;
}

void
hca_fd_free(struct hca_proc *p, int fd)
{
	hca_fd_ready(p, fd, false);
	close(fd);
}

void
hca_fd_ready(struct hca_proc *p, int fd, bool is_ready)
{
	if (p->loop)
		kv_loop_io_ready(p->loop, fd, is_ready ? EPOLLIN : 0);
}

int
hca_again(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	assert(flags >= 0 && (flags & O_NONBLOCK)); /* else it hangs */
	errno = EAGAIN;
	return -1;
}

/* ---- processes ---- */

static struct hca_proc *procs[PROCS_MAX];

/* The two calls that say nothing of the process they come from. */
#define SLOT(i)                                             \
	static struct ibv_device **list_##i(int *n)         \
	{                                                   \
		return hca_dev_list(procs[0##i], n);        \
	}                                                   \
	static struct rdma_event_channel *channel_##i(void) \
	{                                                   \
		return hca_cm_channel(procs[0##i]);         \
	}
#define SLOT_CALLS(i) { list_##i, channel_##i },
#define EIGHT(M, i) \
	M(i##0) M(i##1) M(i##2) M(i##3) M(i##4) M(i##5) M(i##6) M(i##7)
#define ALL(M)      \
	EIGHT(M, 0) \
	EIGHT(M, 1) \
	EIGHT(M, 2) EIGHT(M, 3) EIGHT(M, 4) EIGHT(M, 5) EIGHT(M, 6) EIGHT(M, 7)

ALL(SLOT)

static const struct {
	struct ibv_device **(*list)(int *n);
	struct rdma_event_channel *(*channel)(void);
} slot_calls[PROCS_MAX] = { ALL(SLOT_CALLS) };

static void
proc_free(struct hca_proc *p)
{
	struct hca_ctx *ctx, *tmp;

	KV_LIST_FOREACH_SAFE(ctx, tmp, &p->ctxs, link) {
		assert(ctx->of_cm); /* else it is still open */
		hca_ctx_free(ctx);
	}
	assert(kv_list_is_empty(&p->channels));
	FREE_ALL(&p->views, struct hca_view);
	kv_list_del(&p->link);
	procs[p->slot] = NULL;
	free(p);
}

/* Of those that have exited and own nothing. */
static void
procs_sweep(struct hca *h)
{
	struct hca_proc *p, *tmp;

	KV_LIST_FOREACH_SAFE(p, tmp, &h->procs, link) {
		struct hca_ctx *ctx;
		bool is_open = !kv_list_is_empty(&p->channels);

		KV_LIST_FOREACH(ctx, &p->ctxs, link)
			is_open |= !ctx->of_cm;
		if (!p->loop && !is_open)
			proc_free(p);
	}
}

const struct kv_rdmaverbs *
hca_process(struct hca_host *host, struct kv_loop *loop)
{
	struct hca_proc *p = hca_alloc(sizeof(*p));

	procs_sweep(host->hca);
	assert(kv_loop_is_virtual(loop));
	while (p->slot < PROCS_MAX && procs[p->slot])
		p->slot++;
	assert(p->slot < PROCS_MAX);
	procs[p->slot] = p;
	p->hca = host->hca;
	p->host = host;
	p->loop = loop;
	kv_list_init(&p->views);
	kv_list_init(&p->ctxs);
	kv_list_init(&p->channels);
	kv_list_add_tail(&host->hca->procs, &p->link);
	p->table.get_device_list = slot_calls[p->slot].list;
	p->table.create_event_channel = slot_calls[p->slot].channel;
	hca_dev_calls(&p->table);
	hca_mr_calls(&p->table);
	hca_cq_calls(&p->table);
	hca_srq_calls(&p->table);
	hca_qp_calls(&p->table);
	hca_cm_calls(&p->table);
	return &p->table;
}

static struct hca_proc *
proc_of(const struct kv_rdmaverbs *v)
{
	for (int i = 0; i < PROCS_MAX; i++)
		if (procs[i] && &procs[i]->table == v)
			return procs[i];
	abort();
}

void
hca_process_exit(const struct kv_rdmaverbs *v)
{
	struct hca_proc *p = proc_of(v);
	struct hca_ctx *ctx;

	if (!p->loop)
		return;
	hca_cm_exit(p);
	KV_LIST_FOREACH(ctx, &p->ctxs, link) {
		struct hca_channel *ch;
		struct hca_qp *qp;

		hca_fd_ready(p, ctx->ctx.async_fd, false);
		KV_LIST_FOREACH(ch, &ctx->channels, link)
			hca_fd_ready(p, ch->ch.fd, false);
		KV_LIST_FOREACH(qp, &ctx->dev->qps, link)
			if (qp->ctx == ctx)
				hca_qp_end(qp);
	}
	p->loop = NULL;
}

/* ---- ways ---- */

/* What is said of this way; or of all from there, or nothing. */
static struct hca_path *
path_find(struct hca_port *from, struct hca_port *to)
{
	struct hca *h = from->dev->host->hca;
	struct hca_path *p, *all = NULL;

	KV_LIST_FOREACH(p, &h->paths, link) {
		if (p->from != from)
			continue;
		if (p->to == to)
			return p;
		if (!p->to)
			all = p;
	}
	return all;
}

/* The entry of exactly this way, made as that for all from there. */
static struct hca_path *
path_make(struct hca_port *from, struct hca_port *to)
{
	struct hca *h = from->dev->host->hca;
	struct hca_path *old = path_find(from, to);
	struct hca_path *p;

	if (old && old->to == to)
		return old;
	p = hca_alloc(sizeof(*p));
	if (old)
		*p = *old;
	p->from = from;
	p->to = to;
	kv_list_add_tail(&h->paths, &p->link);
	return p;
}

/* Steps over the entries that a call is for: the one of that way, or all. */
static struct hca_path *
path_each(struct hca_path *after, struct hca_port *from, struct hca_port *to)
{
	struct kv_list *head = &from->dev->host->hca->paths;
	struct kv_list *l;

	if (!after) /* the entry itself is there, perhaps not as the first */
		path_make(from, to);
	for (l = after ? after->link.next : head->next; l != head;
	     l = l->next) {
		struct hca_path *p = KV_CONTAINER_OF(l, struct hca_path, link);

		if (p->from == from && (!to || p->to == to))
			return p;
	}
	return NULL;
}

void
hca_cut(struct hca_port *from, struct hca_port *to, bool cut)
{
	struct hca_path *p = NULL;

	while ((p = path_each(p, from, to)))
		p->cut = cut;
}

void
hca_delay(struct hca_port *from, struct hca_port *to, uint64_t ns)
{
	struct hca_path *p = NULL;

	while ((p = path_each(p, from, to)))
		p->delay_ns = ns;
}

void
hca_loss(struct hca_port *from, struct hca_port *to, double chance)
{
	struct hca_path *p = NULL;

	while ((p = path_each(p, from, to)))
		p->loss = chance;
}

bool
hca_reaches(struct hca_port *from, struct hca_port *to)
{
	const struct hca_path *p = path_find(from, to);

	return from->up && to->up && !from->dev->removed && !to->dev->removed &&
	       from->opts.fabric == to->opts.fabric &&
	       from->opts.infiniband == to->opts.infiniband && !(p && p->cut);
}

uint64_t
hca_latency(struct hca_port *from, struct hca_port *to)
{
	const struct hca_path *p = path_find(from, to);

	return from->dev->host->hca->opts.latency_ns + (p ? p->delay_ns : 0);
}

bool
hca_loses(struct hca_port *from, struct hca_port *to)
{
	const struct hca_path *p = path_find(from, to);

	return p && hca_chance(from->dev->host->hca, p->loss);
}

static uint64_t
takes_ns(const struct hca_port *port, uint64_t bytes)
{
	return (uint64_t)((double)bytes / port->rate);
}

uint64_t
hca_leave(struct hca_port *port, uint64_t bytes)
{
	uint64_t now = hca_now(port->dev->host->hca);

	if (bytes == 0)
		return now;
	port->tx_free_ns =
		kv_max_u64(now, port->tx_free_ns) + takes_ns(port, bytes);
	return port->tx_free_ns;
}

uint64_t
hca_arrive(struct hca_port *from, struct hca_port *to, uint64_t bytes)
{
	uint64_t at = hca_now(from->dev->host->hca) + hca_latency(from, to);

	if (bytes == 0)
		return at;
	/* It comes in while it leaves, unless others come in, too. */
	to->rx_free_ns = kv_max_u64(at, to->rx_free_ns + takes_ns(to, bytes));
	return to->rx_free_ns;
}

void
hca_rate(struct hca_port *port, double bytes_per_ns)
{
	assert(bytes_per_ns > 0);
	port->rate = bytes_per_ns;
}

/* ---- the whole ---- */

struct hca *
hca_new(struct kv_loop *loop, struct kv_clock *clock,
	const struct hca_opts *opts)
{
	struct hca *h = hca_alloc(sizeof(*h));

	assert(kv_loop_is_virtual(loop));
	h->loop = loop;
	h->clock = clock;
	h->opts = *opts;
	if (h->opts.piece_bytes == 0)
		h->opts.piece_bytes = PIECE_BYTES;
	kv_rng_seed(&h->rng, opts->seed);
	h->next_qpn = FIRST_QPN;
	kv_list_init(&h->hosts);
	kv_list_init(&h->paths);
	kv_list_init(&h->procs);
	kv_list_init(&h->flying);
	kv_list_init(&h->ids);
	kv_list_init(&h->mail);
	return h;
}

struct hca_host *
hca_host_add(struct hca *h, const char *name)
{
	struct hca_host *host = hca_alloc(sizeof(*host));

	host->hca = h;
	host->memlock = UINT64_MAX;
	host->next_port = FIRST_IP_PORT;
	snprintf(host->name, sizeof(host->name), "%s", name);
	pthread_mutex_init(&host->lock, NULL);
	kv_list_init(&host->devs);
	kv_list_add_tail(&h->hosts, &host->link);
	return host;
}

static void
host_free(struct hca_host *host)
{
	struct hca_dev *dev;

	KV_LIST_FOREACH(dev, &host->devs, link) {
		FREE_ALL(&dev->ports, struct hca_port);
		free(dev->keys);
		free(dev->free_keys);
	}
	FREE_ALL(&host->devs, struct hca_dev);
	pthread_mutex_destroy(&host->lock);
}

void
hca_free(struct hca *h)
{
	struct hca_packet *p;
	struct hca_host *host;
	struct hca_proc *proc;

	hca_cm_free(h);
	while ((p = KV_LIST_FIRST(&h->flying, struct hca_packet, link)))
		hca_packet_free(p);
	while ((proc = KV_LIST_FIRST(&h->procs, struct hca_proc, link)))
		proc_free(proc);
	KV_LIST_FOREACH(host, &h->hosts, link)
		host_free(host);
	FREE_ALL(&h->hosts, struct hca_host);
	FREE_ALL(&h->paths, struct hca_path);
	free(h);
}

void
hca_run(struct hca *h, uint64_t until_ns)
{
	unsigned idle = 0;

	for (;;) {
		uint64_t next = kv_loop_next(h->loop);

		if (next > until_ns)
			break;
		/* Somebody always finds something to do, and does nothing. */
		assert(idle < IDLE_TURNS_MAX);
		idle++;
		if (next > h->clock->ns) {
			h->clock->ns = next;
			idle = 0;
		}
		kv_loop_turn(h->loop, 0);
	}
	h->clock->ns = kv_max_u64(h->clock->ns, until_ns);
}

#include "simnet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/str.h"
#include "simpipe.h"

enum {
	PIPE_BYTES = 256 << 10,
	PORT_FIRST = 20000,
};

#define AGAIN_NS KV_NS_PER_S /* a lost attempt is repeated after it */

/* Where somebody listens. */
struct place {
	struct simnet_host *host; /* NULL: no host has that name */
	bool is_unix;
	unsigned port;
	char path[108];
};

struct kv_listener {
	struct kv_list link;
	struct simnet_proc *proc;
	struct place at;
	kv_net_accept_fn *fn;
	void *arg;
	struct kv_list queue; /* ends to be accepted */
	struct kv_defer accept;
};

struct kv_dial {
	struct kv_list link;
	struct simnet_proc *proc;
	struct place to;
	unsigned port;           /* our own */
	bool is_answered;        /* and the answer is on its way */
	int status;              /* the answer: this, or */
	struct simpipe_end *end; /* a connection */
	uint64_t deadline_ns;
	struct kv_timer timer;
	struct kv_defer told; /* on the process's own loop */
	kv_net_connect_fn *fn;
	void *arg;
};

/* ---- hosts and the ways between them ---- */

static struct simnet_host *
host_find(struct simnet *sn, const char *name)
{
	struct simnet_host *h;

	KV_LIST_FOREACH(h, &sn->hosts, link)
		if (strcmp(h->name, name) == 0)
			return h;
	return NULL;
}

struct simnet_host *
simnet_host_make(struct simnet *sn, const char *name)
{
	struct simnet_host *h = host_find(sn, name);

	if (h)
		return h;
	h = simpipe_alloc(sizeof(*h));
	h->next_port = PORT_FIRST;
	snprintf(h->name, sizeof(h->name), "%s", name);
	kv_list_add_tail(&sn->hosts, &h->link);
	return h;
}

static struct simnet_path *
path_make(struct simnet *sn, struct simnet_host *from, struct simnet_host *to)
{
	struct simnet_path *p;

	KV_LIST_FOREACH(p, &sn->paths, link)
		if (p->from == from && p->to == to)
			return p;
	p = simpipe_alloc(sizeof(*p));
	p->from = from;
	p->to = to;
	kv_list_add_tail(&sn->paths, &p->link);
	return p;
}

typedef void path_fn(struct simnet *sn, struct simnet_path *p, uint64_t arg);

/* For all ways between hosts of these names; NULL is any host but the other. */
static void
each_path(struct simnet *sn, const char *from, const char *to, path_fn *fn,
	  uint64_t arg)
{
	struct simnet_host *a, *b;

	KV_LIST_FOREACH(a, &sn->hosts, link)
		KV_LIST_FOREACH(b, &sn->hosts, link) {
			if (a == b || (from && strcmp(from, a->name) != 0) ||
			    (to && strcmp(to, b->name) != 0))
				continue;
			fn(sn, path_make(sn, a, b), arg);
		}
}

static void
set_cut(struct simnet *sn, struct simnet_path *p, uint64_t cut)
{
	struct simpipe_link *l;

	p->cut = cut;
	if (cut)
		return;
	KV_LIST_FOREACH(l, &sn->links, link)
		for (int i = 0; i < 2; i++)
			if (l->ends[i].in.path == p)
				simpipe_resume(&l->ends[i]);
}

static void
set_delay(struct simnet *sn, struct simnet_path *p, uint64_t ns)
{
	(void)sn;
	p->delay_ns = ns;
}

static void
reset_path(struct simnet *sn, struct simnet_path *p, uint64_t arg)
{
	struct simpipe_link *l;

	(void)arg;
	KV_LIST_FOREACH(l, &sn->links, link)
		if (l->ends[0].in.path == p || l->ends[1].in.path == p)
			simpipe_reset(l);
}

void
simnet_cut(struct simnet *sn, const char *from, const char *to)
{
	each_path(sn, from, to, set_cut, 1);
}

void
simnet_heal(struct simnet *sn, const char *from, const char *to)
{
	each_path(sn, from, to, set_cut, 0);
}

void
simnet_delay(struct simnet *sn, const char *from, const char *to, uint64_t ns)
{
	each_path(sn, from, to, set_delay, ns);
}

void
simnet_reset(struct simnet *sn, const char *a, const char *b)
{
	each_path(sn, a, b, reset_path, 0);
}

/* ---- addresses and listeners ---- */

static bool
is_any(const char *host)
{
	return *host == '\0' || strcmp(host, "0.0.0.0") == 0 ||
	       strcmp(host, "[::]") == 0;
}

/* 0 or -EINVAL. An empty or unspecified host is the process's own. */
static int
parse(struct simnet_proc *proc, const char *addr, struct place *out)
{
	char host[sizeof(proc->host->name)];
	const char *colon = strrchr(addr, ':');
	uint64_t port;

	*out = (struct place){ .host = proc->host };
	if (strncmp(addr, "unix:", 5) == 0) {
		out->is_unix = true;
		snprintf(out->path, sizeof(out->path), "%s", addr + 5);
		return 0;
	}
	if (strncmp(addr, "tcp:", 4) == 0)
		addr += 4;
	if (!colon || colon < addr ||
	    kv_str_u64(colon + 1, 0, 65535, &port) < 0)
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - addr), addr);
	if (!is_any(host))
		out->host = host_find(proc->sn, host);
	out->port = (unsigned)port;
	return 0;
}

static struct kv_listener *
listener_find(struct simnet *sn, const struct place *at)
{
	struct kv_listener *l;

	KV_LIST_FOREACH(l, &sn->listeners, link)
		if (!l->proc->dead && l->at.host == at->host &&
		    l->at.is_unix == at->is_unix && l->at.port == at->port &&
		    strcmp(l->at.path, at->path) == 0)
			return l;
	return NULL;
}

static void do_peer(struct kv_net *net, struct kv_stream *s,
		    struct kv_peer *out);

/* One at a time: fn may end the listener. */
static void
run_accept(struct kv_defer *d)
{
	struct kv_listener *l = KV_CONTAINER_OF(d, struct kv_listener, accept);
	struct simpipe_end *e =
		KV_LIST_FIRST(&l->queue, struct simpipe_end, queue);
	struct kv_peer peer;

	kv_list_del(&e->queue);
	if (!kv_list_is_empty(&l->queue))
		kv_loop_defer(l->proc->loop, d);
	do_peer(NULL, &e->s, &peer);
	l->fn(l->arg, &e->s, &peer);
}

static struct kv_listener *
do_listen(struct kv_net *net, struct kv_loop *loop, const char *addr,
	  kv_net_accept_fn *fn, void *arg, char *bound, int *err)
{
	struct simnet_proc *proc = (struct simnet_proc *)net;
	struct kv_listener *l;
	struct place at;

	assert(loop == proc->loop && !proc->dead);
	*err = parse(proc, addr, &at);
	if (*err < 0)
		return NULL;
	if (at.host != proc->host) {
		*err = -EADDRNOTAVAIL;
		return NULL;
	}
	if (!at.is_unix && at.port == 0)
		at.port = proc->host->next_port++;
	if (listener_find(proc->sn, &at)) {
		*err = -EADDRINUSE;
		return NULL;
	}
	if (at.is_unix)
		snprintf(bound, 128, "unix:%s", at.path);
	else
		snprintf(bound, 128, "tcp:%s:%u", at.host->name, at.port);
	l = simpipe_alloc(sizeof(*l));
	l->proc = proc;
	l->at = at;
	l->fn = fn;
	l->arg = arg;
	l->accept.fn = run_accept;
	kv_list_init(&l->queue);
	kv_list_add_tail(&proc->sn->listeners, &l->link);
	return l;
}

static void
do_unlisten(struct kv_net *net, struct kv_listener *l)
{
	struct simpipe_end *e;

	(void)net;
	while ((e = KV_LIST_FIRST(&l->queue, struct simpipe_end, queue))) {
		kv_list_del(&e->queue);
		e->s.ops->close(&e->s);
	}
	kv_loop_defer_del(&l->accept);
	kv_list_del(&l->link);
	free(l);
}

/* ---- connecting ---- */

static void
do_peer(struct kv_net *net, struct kv_stream *s, struct kv_peer *out)
{
	struct simpipe_end *e = (struct simpipe_end *)s;
	struct simpipe_end *peer = &e->link->ends[e == &e->link->ends[0]];

	(void)net;
	*out = (struct kv_peer){ .pid = -1, .pidfd = -1 };
	out->is_unix = e->link->is_unix;
	if (out->is_unix) {
		out->pid = peer->proc->pid;
		out->uid = getuid();
		out->gid = getgid();
	}
	snprintf(out->addr, sizeof(out->addr), "%s", e->peer_addr);
}

static void
arm_dial(struct kv_dial *d, uint64_t at_ns)
{
	simpipe_arm(d->proc->sn, &d->timer, kv_min_u64(at_ns, d->deadline_ns));
}

static void
tell(struct kv_dial *d)
{
	int status = d->status;
	struct kv_stream *s = d->end ? &d->end->s : NULL;
	kv_net_connect_fn *fn = d->fn;
	void *arg = d->arg;

	if (s && status < 0) {
		s->ops->close(s);
		s = NULL;
	}
	kv_list_del(&d->link);
	free(d);
	fn(arg, s, status);
}

static void
run_told(struct kv_defer *defer)
{
	tell(KV_CONTAINER_OF(defer, struct kv_dial, told));
}

static void
finish(struct kv_dial *d, int status)
{
	d->status = status;
	if (d->proc->loop == d->proc->sn->loop)
		tell(d);
	else
		kv_loop_defer(d->proc->loop, &d->told);
}

/* Both ends of a new connection, with what each is told of the other. */
static struct simpipe_link *
join(struct kv_dial *d, struct simnet_proc *listener)
{
	struct simnet *sn = d->proc->sn;
	struct simnet_host *from = d->proc->host, *to = listener->host;
	struct simpipe_link *l =
		simpipe_new(d->proc, listener, d->to.is_unix,
			    path_make(sn, to, from), path_make(sn, from, to));
	size_t n = sizeof(l->ends[0].peer_addr);

	if (l->is_unix) {
		snprintf(l->ends[0].peer_addr, n, "unix");
		snprintf(l->ends[1].peer_addr, n, "unix");
	} else {
		snprintf(l->ends[0].peer_addr, n, "%s:%u", to->name,
			 d->to.port);
		snprintf(l->ends[1].peer_addr, n, "%s:%u", from->name, d->port);
	}
	return l;
}

/* The attempt has come to the other host. */
static void
knock(struct kv_dial *d, struct simnet_path *back)
{
	struct kv_listener *l = listener_find(d->proc->sn, &d->to);
	struct simpipe_link *link;

	d->is_answered = true;
	arm_dial(d, simpipe_arrival(d->proc->sn, back, 0));
	if (!l) {
		d->status = d->to.is_unix ? -ENOENT : -ECONNREFUSED;
		return;
	}
	link = join(d, l->proc);
	d->end = &link->ends[0];
	kv_list_add_tail(&l->queue, &link->ends[1].queue);
	if (l->proc->loop == d->proc->sn->loop)
		run_accept(&l->accept);
	else
		kv_loop_defer(l->proc->loop, &l->accept);
}

static void
step_dial(struct kv_timer *t)
{
	struct kv_dial *d = KV_CONTAINER_OF(t, struct kv_dial, timer);
	struct simnet *sn = d->proc->sn;
	struct simnet_path *there, *back;
	uint64_t now = kv_loop_now(sn->loop);

	if (now >= d->deadline_ns) {
		finish(d, -ETIMEDOUT);
		return;
	}
	if (d->status < 0) {
		finish(d, d->status);
		return;
	}
	there = path_make(sn, d->proc->host, d->to.host);
	back = path_make(sn, d->to.host, d->proc->host);
	if ((d->is_answered ? back : there)->cut)
		arm_dial(d, now + AGAIN_NS);
	else if (d->is_answered)
		finish(d, 0);
	else
		knock(d, back);
}

static struct kv_dial *
do_connect(struct kv_net *net, struct kv_loop *loop, const char *addr,
	   uint64_t deadline_ns, kv_net_connect_fn *fn, void *arg)
{
	struct simnet_proc *proc = (struct simnet_proc *)net;
	struct simnet *sn = proc->sn;
	struct kv_dial *d = simpipe_alloc(sizeof(*d));
	uint64_t at = kv_loop_now(sn->loop);

	assert(loop == proc->loop);
	d->proc = proc;
	d->port = proc->host->next_port++;
	d->deadline_ns = deadline_ns;
	d->fn = fn;
	d->arg = arg;
	d->timer.fn = step_dial;
	d->told.fn = run_told;
	kv_list_add_tail(&sn->dials, &d->link);
	d->status = parse(proc, addr, &d->to);
	if (d->status == 0 && !d->to.host)
		d->status = -EHOSTUNREACH;
	if (d->status == 0)
		at = simpipe_arrival(sn, path_make(sn, proc->host, d->to.host),
				     0);
	if (!proc->dead)
		arm_dial(d, at);
	return d;
}

static void
do_cancel(struct kv_net *net, struct kv_dial *d)
{
	(void)net;
	if (d->end)
		d->end->s.ops->close(&d->end->s);
	kv_loop_timer_del(&d->timer);
	kv_loop_defer_del(&d->told);
	kv_list_del(&d->link);
	free(d);
}

/* ---- the whole ---- */

const struct kv_net simnet_calls = {
	.listen = do_listen,
	.unlisten = do_unlisten,
	.connect = do_connect,
	.cancel = do_cancel,
	.peer = do_peer,
};

void
simnet_dials_end(struct simnet_proc *p)
{
	struct kv_dial *d;

	KV_LIST_FOREACH(d, &p->sn->dials, link)
		if (d->proc == p)
			kv_loop_timer_del(&d->timer);
}

struct simnet *
simnet_new(struct kv_loop *loop, struct kv_clock *clock,
	   const struct simnet_opts *opts)
{
	struct simnet *sn = simpipe_alloc(sizeof(*sn));

	assert(kv_loop_is_virtual(loop));
	sn->loop = loop;
	sn->clock = clock;
	sn->opts = *opts;
	if (sn->opts.pipe_bytes == 0)
		sn->opts.pipe_bytes = PIPE_BYTES;
	kv_rng_seed(&sn->rng, opts->seed);
	kv_list_init(&sn->hosts);
	kv_list_init(&sn->paths);
	kv_list_init(&sn->procs);
	kv_list_init(&sn->runners);
	kv_list_init(&sn->links);
	kv_list_init(&sn->listeners);
	kv_list_init(&sn->dials);
	return sn;
}

#define FREE_ALL(head, type)                                       \
	do {                                                       \
		while (!kv_list_is_empty(head)) {                  \
			type *x = KV_LIST_FIRST(head, type, link); \
			kv_list_del(&x->link);                     \
			free(x);                                   \
		}                                                  \
	} while (0)

void
simnet_free(struct simnet *sn)
{
	assert(sn->streams == 0 && kv_list_is_empty(&sn->links));
	assert(kv_list_is_empty(&sn->listeners));
	assert(kv_list_is_empty(&sn->dials));
	simnet_procs_free(sn);
	FREE_ALL(&sn->paths, struct simnet_path);
	FREE_ALL(&sn->hosts, struct simnet_host);
	free(sn);
}

size_t
simnet_streams(const struct simnet *sn)
{
	return sn->streams;
}

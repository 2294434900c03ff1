#include "svc/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sockpath.h"
#include "base/status.h"
#include "event/op.h"
#include "net/addr.h"
#include "net/sock.h"
#include "svc/attach.h"
#include "svc/ident.h"
#include "svc/pool.h"
#include "svc/viewop.h"

#define TIMEOUT_MS 10000
/* Looking for a master again and again, while opening. */
#define RETRY_NS (100 * KV_NS_PER_MS)
/* A channel that was used within this time is not looked at before its next
 * call. */
#define FRESH_NS KV_NS_PER_MS

/* ---- fork ---- */

static unsigned forks;

static void
forked(void)
{
	forks++;
}

static void
forks_watch(void)
{
	pthread_atfork(NULL, NULL, forked);
}

/* ---- channels ---- */

static void
chan_wake(struct kv_mail *mail)
{
	KV_CONTAINER_OF(mail, struct kv_client_chan, wake)->is_closing = true;
}

static void
chan_free(struct kv_client_chan *cc)
{
	kv_chan_free(cc->ch);
	kv_mbox_fini(&cc->mbox);
	kv_loop_free(cc->loop);
	free(cc);
}

static struct kv_client_chan *
chan_new(struct kv_client *c)
{
	struct kv_client_chan *cc = calloc(1, sizeof(*cc));

	if (!cc)
		return NULL;
	cc->c = c;
	cc->wake.fn = chan_wake;
	cc->loop = kv_loop_new(NULL);
	if (!cc->loop)
		goto free_chan;
	if (kv_mbox_init(&cc->mbox, cc->loop) < 0)
		goto free_loop;
	cc->ch = kv_chan_new(&c->hub, cc->loop);
	if (!cc->ch)
		goto fini_mbox;
	return cc;

fini_mbox:
	kv_mbox_fini(&cc->mbox);
free_loop:
	kv_loop_free(cc->loop);
free_chan:
	free(cc);
	return NULL;
}

/* Waits until a channel is idle or may be made. c->lock is held. */
static int
chan_wait(struct kv_client *c, uint32_t timeout_ms)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	c->n_waiting++;
	while (!c->closing && kv_list_is_empty(&c->idle) &&
	       c->n_chans >= KV_CLIENT_CHANS_MAX && rc == 0)
		rc = pthread_cond_timedwait(&c->idle_more, &c->lock, &until);
	c->n_waiting--;
	if (c->closing) {
		pthread_cond_broadcast(&c->idle_more);
		return -KV_ECLOSED;
	}
	return rc == 0 ? 0 : -KV_ETIMEOUT;
}

struct kv_client_chan *
kv_client_enter(struct kv_client *c, uint32_t timeout_ms, uint64_t *deadline,
		int *status)
{
	struct kv_client_chan *cc = NULL;
	uint64_t last, now;
	bool make = false;

	if (timeout_ms == 0)
		timeout_ms = c->timeout_ms;
	if (c->forks != forks) {
		*status = -KV_ECLOSED;
		return NULL;
	}
	KV_LOCKED(&c->lock) {
		*status = chan_wait(c, timeout_ms);
		if (*status < 0)
			break;
		cc = KV_LIST_FIRST(&c->idle, struct kv_client_chan, link);
		make = cc == NULL;
		if (cc) {
			kv_list_del(&cc->link);
			kv_list_add_tail(&c->busy, &cc->link);
		} else {
			c->n_chans++;
		}
	}
	if (make) {
		cc = chan_new(c);
		KV_LOCKED(&c->lock) {
			if (cc)
				kv_list_add_tail(&c->busy, &cc->link);
			else
				c->n_chans--;
		}
		*status = cc ? 0 : -KV_ENOMEM;
	}
	if (!cc)
		return NULL;
	/* What came since the last call: connections that ended, answers that
	 * were late. Not worth a system call when that was just now. */
	last = kv_loop_now(cc->loop);
	now = kv_loop_refresh(cc->loop);
	if (now - last > FRESH_NS || kv_loop_next(cc->loop) <= now)
		kv_loop_turn(cc->loop, 0);
	*deadline = kv_loop_now(cc->loop) + timeout_ms * KV_NS_PER_MS;
	return cc;
}

void
kv_client_leave(struct kv_client_chan *cc)
{
	struct kv_client *c = cc->c;
	uint64_t now = kv_loop_now(cc->loop);

	/* What the call left to say (a release) must not wait for the next
	 * one. */
	if (kv_loop_next(cc->loop) <= now)
		kv_loop_turn(cc->loop, 0);
	KV_LOCKED(&c->lock) {
		kv_list_del(&cc->link);
		kv_list_add_head(&c->idle, &cc->link);
		if (c->n_waiting > 0 || c->closing)
			pthread_cond_broadcast(&c->idle_more);
	}
}

void
kv_client_run(struct kv_client_chan *cc, const bool *done,
	      void (*abort_op)(void *op), void *op)
{
	while (!*done) {
		kv_loop_turn(cc->loop, UINT64_MAX);
		if (cc->is_closing && !*done)
			abort_op(op);
	}
}

struct local_call {
	struct kv_link_wait wait;
	bool is_done;
	int status;
};

static void
local_open(struct kv_link_wait *w, int status)
{
	struct local_call *call = KV_CONTAINER_OF(w, struct local_call, wait);

	call->status = status;
	call->is_done = true;
}

static void
local_abort(void *op)
{
	struct local_call *call = op;

	kv_link_wait_cancel(&call->wait);
	call->status = -KV_ECLOSED;
	call->is_done = true;
}

int
kv_client_open_local(struct kv_client_chan *cc, uint64_t deadline)
{
	struct local_call call = { .wait = { .fn = local_open } };
	int rc;

	if (!cc->ch->local)
		return -KV_EUNREACHABLE;
	rc = kv_link_open(cc->ch->local, &call.wait, false, deadline);
	if (rc != 0)
		return rc > 0 ? 0 : rc;
	kv_client_run(cc, &call.is_done, local_abort, &call);
	return call.status;
}

/* ---- opening ---- */

KV_PRINTF(3, 4)
static int
fail(char *err, size_t err_bytes, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (err && err_bytes > 0)
		vsnprintf(err, err_bytes, fmt, ap);
	va_end(ap);
	return -1;
}

/* The socket to try; "": none. *is_guess: nobody named it. */
static int
socket_choose(const struct kv_client_opts *o, char *path, size_t n,
	      bool *is_guess)
{
	struct stat st;

	*is_guess = o->socket == NULL;
	if (o->socket)
		return (size_t)snprintf(path, n, "%s", o->socket) < n ? 0 : -1;
	if (kv_sockpath_default(path, n) < 0 || stat(path, &st) < 0 ||
	    !S_ISSOCK(st.st_mode))
		path[0] = 0;
	return 0;
}

static bool
has_masters(const struct kv_client_opts *o)
{
	return o->master && o->master[0];
}

/* The list of masters, each with its port. */
static int
masters_complete(const char *list, char *out, size_t n, char *err,
		 size_t err_bytes)
{
	struct kv_addr addrs[KV_HUB_MASTERS_MAX];
	char text[KV_ADDR_TEXT_BYTES_MAX];
	int i, count, used = 0;

	count = kv_addr_parse_list(list, 50051, addrs, KV_HUB_MASTERS_MAX, err,
				   err_bytes);
	for (i = 0; i < count; i++)
		used += snprintf(out + used, n - (size_t)used, "%s%s",
				 i > 0 ? "," : "",
				 kv_addr_format(&addrs[i], text));
	return count < 0 ? -1 : 0;
}

static int
hub_open(struct kv_client *c, const struct kv_client_opts *o,
	 const char *socket, char *err, size_t err_bytes)
{
	char masters[KV_HUB_MASTERS_MAX * KV_ADDR_TEXT_BYTES_MAX];
	char local[KV_SOCKPATH_BYTES_MAX + 8];
	struct kv_hub_opts h = {
		.net = c->net,
		.masters = has_masters(o) ? masters : NULL,
		.local = socket[0] ? local : NULL,
		.tenant = o->tenant,
		.name = o->name ? o->name : program_invocation_short_name,
		.mapper = kv_attach_mapper,
	};

	snprintf(local, sizeof(local), "unix:%s", socket);
	if (o->tenant && strlen(o->tenant) > KV_TENANT_BYTES_MAX)
		return fail(err, err_bytes,
			    "tenant name is longer than %d bytes",
			    KV_TENANT_BYTES_MAX);
	if (has_masters(o) &&
	    masters_complete(o->master, masters, sizeof(masters), err,
			     err_bytes) < 0)
		return -1;
	if (kv_ident_random(&h.boot) < 0 || kv_ident_host(&h.host) < 0 ||
	    kv_rng_os(&h.rng_seed, sizeof(h.rng_seed)) < 0)
		return fail(err, err_bytes, "no random numbers: %m");
	if (kv_hub_init(&c->hub, &h) < 0)
		return fail(err, err_bytes, "a name is too long");
	return 0;
}

static int
pool_open(struct kv_client *c, const struct kv_client_opts *o, char *socket,
	  size_t n, char *err, size_t err_bytes)
{
	uint64_t random;
	struct kv_pool_opts p = {
		.bytes = o->segment_bytes,
		.hugepages = o->hugepages != 0,
		.masters = has_masters(o) ? o->master : NULL,
		.listen = o->node_addr ? o->node_addr : ":0",
		.addr = o->node_addr,
		.socket = socket,
		.name = o->name,
	};

	if (kv_rng_os(&random, sizeof(random)) < 0)
		return fail(err, err_bytes, "no random numbers: %m");
	/* Its own threads attach to it as any process does. */
	snprintf(socket, n, "@kvpool-%d-%016llx", (int)getpid(),
		 (unsigned long long)random);
	c->pool = kv_pool_start(&p, NULL, err, err_bytes);
	if (!c->pool)
		return -1;
	/* Without a host it is of no use to others; the master sees one. */
	if (kv_pool_addr(c->pool)[0] != ':')
		snprintf(c->node_addr, sizeof(c->node_addr), "%s",
			 kv_pool_addr(c->pool));
	return 0;
}

/* Whether others find the embedded node; then c->node_addr says where. */
static bool
pool_is_found(struct kv_client *c)
{
	struct kv_hub_node n;

	if (!kv_hub_node(&c->hub, kv_pool_boot(c->pool), &n) ||
	    n.state != KV_NODE_LIVE)
		return false;
	snprintf(c->node_addr, sizeof(c->node_addr), "%s", n.addr);
	return true;
}

/* "HOST:PORT: why it did not answer", for each of the masters. */
static const char *
masters_why(const struct kv_hub *hub, int status, char *buf, size_t n)
{
	const char *why;
	size_t used = 0;
	unsigned i;

	for (i = 0; i < hub->n_masters && used < n; i++) {
		why = hub->master_why[i];
		used += (size_t)snprintf(buf + used, n - used, "%s%s: %s",
					 i > 0 ? "; " : "", hub->masters[i],
					 why ? why : kv_status_text(status));
	}
	return buf;
}

/* Nobody named a master: those that the local node has named are used. */
static int
masters_adopt(struct kv_client *c, struct kv_chan *ch)
{
	char list[KV_HUB_MASTERS_MAX * KV_ADDR_TEXT_BYTES_MAX];
	const char *named = c->hub.named;
	char err[256];

	if (!named || !named[0])
		return 0;
	if (masters_complete(named, list, sizeof(list), err, sizeof(err)) < 0)
		kv_warn("masters of the local node: %s", err);
	else if (kv_hub_add_masters(&c->hub, list) < 0)
		kv_warn("masters of the local node: a name is too long");
	return kv_chan_add_masters(ch) ? 0 : -KV_ENOMEM;
}

/* Why nobody answers at a socket that was named. */
static const char *
local_why(const struct kv_client_chan *cc, const char *path, int status)
{
	struct stat st;

	if (path[0] != '@' && stat(path, &st) < 0 && errno == ENOENT)
		return "no such socket";
	if (path[0] != '@' && stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return "it is no socket";
	return kv_link_why(cc->ch->local, status);
}

/* Looks for somebody who answers. */
static int
first_contact(struct kv_client *c, const struct kv_client_opts *o,
	      bool is_guess, char *err, size_t err_bytes)
{
	uint32_t wait_ms =
		o->open_timeout_ms ? o->open_timeout_ms : c->timeout_ms;
	int local = -KV_EUNREACHABLE, status;
	struct kv_client_chan *cc;
	uint64_t deadline, until;
	const char *path = c->hub.local + strlen("unix:");
	char why[512];
	long nodes = 0;
	bool is_over;

	cc = kv_client_enter(c, wait_ms, &deadline, &status);
	if (!cc)
		return fail(err, err_bytes, "out of memory or descriptors");
	if (cc->ch->local)
		local = kv_client_open_local(cc, deadline);
	if (local == 0 && !o->master)
		local = masters_adopt(c, cc->ch);
	until = deadline;
	kv_client_leave(cc);
	if (local < 0 && kv_status_scope(local) == KV_SCOPE_SELF)
		return fail(err, err_bytes, "out of memory or descriptors");
	if (local < 0 && c->hub.local[0] && !is_guess)
		return fail(err, err_bytes, "%s: no kvclient answers there: %s",
			    path, local_why(cc, path, local));
	while (c->hub.n_masters > 0) {
		nodes = kv_client_nodes(c, NULL, 0);
		/* An embedded node is waited for until others find it. */
		is_over = c->pool ? nodes >= 0 && pool_is_found(c)
				  : nodes >= 0 || local == 0;
		if (is_over ||
		    kv_clock_now(&(struct kv_clock){ 0 }) + RETRY_NS >= until)
			break;
		usleep((useconds_t)(RETRY_NS / KV_NS_PER_US));
	}
	if (local < 0 && c->hub.n_masters == 0)
		return fail(err, err_bytes,
			    "no master is named and no kvclient runs on this "
			    "host: start kvclient, or name a master");
	if (nodes >= 0)
		return 0;
	masters_why(&c->hub, (int)nodes, why, sizeof(why));
	if (local < 0)
		return fail(err, err_bytes, "master %s (waited %.1f s)", why,
			    wait_ms / 1000.0);
	kv_warn("master %s", why);
	return 0;
}

static struct kv_client *
client_new(const struct kv_client_opts *o)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct kv_client *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;

	pthread_once(&once, forks_watch);
	if (!c)
		return NULL;
	c->net = kv_sock_net_new();
	if (!c->net) {
		free(c);
		return NULL;
	}
	c->forks = forks;
	c->timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->idle_more, &attr);
	pthread_condattr_destroy(&attr);
	kv_list_init(&c->idle);
	kv_list_init(&c->busy);
	return c;
}

static void
client_free(struct kv_client *c)
{
	kv_pool_close(c->pool);
	kv_sock_net_free(c->net);
	pthread_cond_destroy(&c->idle_more);
	pthread_mutex_destroy(&c->lock);
	free(c->ranges);
	free(c);
}

struct kv_client *
kv_client_open(const struct kv_client_opts *opts, char *err, size_t err_bytes)
{
	struct kv_client_opts o = { 0 };
	char socket[KV_SOCKPATH_BYTES_MAX + 1];
	struct kv_client *c;
	bool is_guess;

	if (!opts || opts->size != sizeof(o)) {
		fail(err, err_bytes,
		     opts ? "options of a wrong size: .size must be "
			    "sizeof(struct kv_client_opts)"
			  : "no options");
		return NULL;
	}
	memcpy(&o, opts, sizeof(o));
	c = client_new(&o);
	if (!c) {
		fail(err, err_bytes, "out of memory");
		return NULL;
	}
	if (socket_choose(&o, socket, sizeof(socket), &is_guess) < 0) {
		fail(err, err_bytes, "socket path is longer than %d bytes",
		     KV_SOCKPATH_BYTES_MAX);
		client_free(c);
		return NULL;
	}
	if (o.segment_bytes > 0 &&
	    pool_open(c, &o, socket, sizeof(socket), err, err_bytes) < 0) {
		client_free(c);
		return NULL;
	}
	if (hub_open(c, &o, socket, err, err_bytes) < 0) {
		client_free(c);
		return NULL;
	}
	c->hub.is_opening = true;
	if (first_contact(c, &o, is_guess, err, err_bytes) < 0) {
		kv_client_close(c);
		return NULL;
	}
	c->hub.is_opening = false;
	fail(err, err_bytes, "%s", "");
	return c;
}

/* ---- closing ---- */

/* Interrupts the calls under way, until none is left. c->lock is held. */
static void
calls_end(struct kv_client *c)
{
	struct kv_client_chan *cc;

	KV_LIST_FOREACH(cc, &c->busy, link) {
		if (cc->woken)
			continue;
		cc->woken = true;
		kv_mbox_post(&cc->mbox, &cc->wake);
	}
	while (!kv_list_is_empty(&c->busy) || c->n_waiting > 0) {
		pthread_cond_broadcast(&c->idle_more);
		pthread_cond_wait(&c->idle_more, &c->lock);
	}
}

void
kv_client_close(struct kv_client *c)
{
	struct kv_client_chan *cc;

	if (!c || c->forks != forks)
		return; /* a fork's copy: its parent goes on */
	KV_LOCKED(&c->lock) {
		c->closing = true;
		calls_end(c);
	}
	kv_op_crew_free(c->crew);
	while ((cc = KV_LIST_FIRST(&c->idle, struct kv_client_chan, link))) {
		kv_list_del(&cc->link);
		chan_free(cc);
	}
	kv_viewop_forget_all(&c->hub);
	kv_hub_fini(&c->hub);
	client_free(c);
}

const char *
kv_client_node_addr(struct kv_client *c)
{
	return c ? c->node_addr : "";
}

/* kv_client_open(): choosing and checking what is named, and the first contact.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sockpath.h"
#include "base/status.h"
#include "mem/copier.h"
#include "net/addr.h"
#include "svc/attach.h"
#include "svc/client.h"
#include "svc/ident.h"
#include "svc/pool.h"
#include "svc/rdmaopen.h"

/* Looking for a master again and again. */
#define RETRY_NS (100 * KV_NS_PER_MS)

KV_PRINTF(4, 5)
static int
fail(int status, char *err, size_t err_bytes, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (err && err_bytes > 0)
		vsnprintf(err, err_bytes, fmt, ap);
	va_end(ap);
	return status;
}

/* Whether it is of no use to try again. */
static bool
is_final(int status)
{
	return status < 0 && (status == -KV_EPROTO || status == -KV_EVERSION ||
			      status == -KV_EDENIED ||
			      kv_status_scope(status) == KV_SCOPE_SELF);
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
	return count < 0 ? -KV_EINVALID : 0;
}

static int
hub_open(struct kv_client *c, const struct kv_client_opts *o,
	 const char *socket, const char *no_rdma, char *err, size_t err_bytes)
{
	char masters[KV_HUB_MASTERS_MAX * KV_ADDR_TEXT_BYTES_MAX];
	char local[KV_SOCKPATH_BYTES_MAX + 8];
	struct kv_hub_opts h = {
		.net = c->net,
		.rdma = c->rdma,
		.no_rdma = no_rdma,
		.rdma_only = o->protocol == KV_PROTOCOL_RDMA,
		.masters = has_masters(o) ? masters : NULL,
		.local = socket[0] ? local : NULL,
		.tenant = o->tenant,
		.name = o->name ? o->name : program_invocation_short_name,
		.mapper = kv_attach_mapper,
		.copy_threads = o->copy_threads,
	};
	int rc;

	snprintf(local, sizeof(local), "unix:%s", socket);
	if (o->tenant && strlen(o->tenant) > KV_TENANT_BYTES_MAX)
		return fail(-KV_EINVALID, err, err_bytes,
			    "tenant name is longer than %d bytes",
			    KV_TENANT_BYTES_MAX);
	if (has_masters(o) &&
	    masters_complete(o->master, masters, sizeof(masters), err,
			     err_bytes) < 0)
		return -KV_EINVALID;
	if (kv_ident_random(&h.boot) < 0 || kv_ident_host(&h.host) < 0 ||
	    kv_rng_os(&h.rng_seed, sizeof(h.rng_seed)) < 0)
		return fail(-KV_EINTERNAL, err, err_bytes,
			    "no random numbers: %m");
	if (h.copy_threads == 0)
		h.copy_threads = kv_copier_threads_usual();
	if (h.copy_threads > KV_COPIER_THREADS_MAX)
		h.copy_threads = KV_COPIER_THREADS_MAX;
	rc = kv_hub_init(&c->hub, &h);
	if (rc == -ENOMEM)
		return fail(-KV_ENOMEM, err, err_bytes, "out of memory");
	if (rc < 0)
		return fail(-KV_EINVALID, err, err_bytes, "a name is too long");
	return 0;
}

void
kv_client_map_exactly(struct kv_client *c)
{
	c->hub.mapper = kv_attach_exact_mapper;
}

static int
pool_open(struct kv_client *c, const struct kv_client_opts *o, char *socket,
	  size_t n, char *err, size_t err_bytes)
{
	uint64_t random;
	struct kv_pool_opts p = {
		.bytes = o->segment_bytes,
		.hugepages = o->hugepages != 0,
		.file = o->pool_file,
		.masters = has_masters(o) ? o->master : NULL,
		.listen = o->node_addr ? o->node_addr : ":0",
		.addr = o->node_addr,
		.socket = socket,
		.name = o->name,
		.rdma = c->rdma,
	};

	if (kv_rng_os(&random, sizeof(random)) < 0)
		return fail(-KV_EINTERNAL, err, err_bytes,
			    "no random numbers: %m");
	/* Its own threads attach to it as any process does. */
	snprintf(socket, n, "@kvpool-%d-%016llx", (int)getpid(),
		 (unsigned long long)random);
	c->pool = kv_pool_start(&p, NULL, err, err_bytes);
	if (!c->pool)
		return -kv_status_from_errno(errno);
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

/*
 * Asks masters for nodes, again and again, until one answers that has had time
 * to hear of them. (Where another client asks the nodes that it knows, this one
 * would take the misses of a master that was started just now for true.) With a
 * local node nobody needs a master. 0 or -kv_status.
 */
static int
masters_wait(struct kv_client *c, bool has_local, uint64_t until)
{
	unsigned young_ms = 0;
	uint64_t now, left_ms;
	bool is_over;
	int status;

	for (;;) {
		now = kv_clock_now(&(struct kv_clock){ 0 });
		left_ms = until > now ? (until - now) / KV_NS_PER_MS : 0;
		left_ms = kv_max_u64(left_ms, 1);
		status = kv_client_ask_nodes(c, (uint32_t)left_ms, &young_ms);
		is_over = status == 0 ? young_ms == 0 : has_local;
		/* An embedded node is waited for until others find it. */
		if (c->pool)
			is_over &= status == 0 && pool_is_found(c);
		if (is_over || is_final(status) ||
		    kv_clock_now(&(struct kv_clock){ 0 }) + RETRY_NS >= until)
			return status;
		usleep((useconds_t)(RETRY_NS / KV_NS_PER_US));
	}
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
	int nodes = 0;

	cc = kv_client_enter(c, wait_ms, &deadline, &status);
	if (!cc)
		return fail(status, err, err_bytes, "%s",
			    kv_status_text(status));
	if (cc->ch->local)
		local = kv_client_open_local(cc, deadline);
	if (local == 0 && !o->master)
		local = masters_adopt(c, cc->ch);
	until = deadline;
	kv_client_leave(cc);
	if (local < 0 && kv_status_scope(local) == KV_SCOPE_SELF)
		return fail(local, err, err_bytes, "%s", kv_status_text(local));
	if (local < 0 && c->hub.local[0] && !is_guess)
		return fail(-KV_EUNREACHABLE, err, err_bytes,
			    "%s: no kvclient answers there: %s", path,
			    local_why(cc, path, local));
	if (c->hub.n_masters > 0)
		nodes = masters_wait(c, local == 0, until);
	if (local < 0 && c->hub.n_masters == 0)
		return fail(-KV_EUNREACHABLE, err, err_bytes,
			    "no master is named and no kvclient runs on this "
			    "host: start kvclient, or name a master");
	if (nodes >= 0)
		return 0;
	masters_why(&c->hub, nodes, why, sizeof(why));
	if (local == 0) {
		kv_warn("master %s", why);
		return 0;
	}
	if (kv_status_scope(nodes) == KV_SCOPE_SELF)
		return fail(nodes, err, err_bytes, "master %s", why);
	if (is_final(nodes))
		return fail(-KV_EUNREACHABLE, err, err_bytes, "master %s", why);
	return fail(-KV_EUNREACHABLE, err, err_bytes,
		    "master %s (waited %.1f s)", why, wait_ms / 1000.0);
}

/* All but asking somebody. */
static int
parts_open(struct kv_client *c, const struct kv_client_opts *o, bool *is_guess,
	   char *err, size_t err_bytes)
{
	char socket[KV_SOCKPATH_BYTES_MAX + 1], why[KV_HUB_WHY_BYTES + 16];
	const struct kv_rdmaopen_opts r = {
		.protocol = o->protocol,
		.devices = o->devices,
		.qps = o->qps,
		.slice_bytes = o->slice_bytes,
	};
	int rc = 0;

	if (socket_choose(o, socket, sizeof(socket), is_guess) < 0)
		return fail(-KV_EINVALID, err, err_bytes,
			    "socket path is longer than %d bytes",
			    KV_SOCKPATH_BYTES_MAX);
	if (kv_rdmaopen(&r, &c->rdma, why, sizeof(why)) < 0)
		return fail(-KV_ENOTSUP, err, err_bytes, "%s", why);
	if (o->segment_bytes > 0)
		rc = pool_open(c, o, socket, sizeof(socket), err, err_bytes);
	return rc < 0 ? rc : hub_open(c, o, socket, why, err, err_bytes);
}

static int
client_start(struct kv_client **out, const struct kv_client_opts *opts,
	     char *err, size_t err_bytes)
{
	struct kv_client_opts o = { 0 };
	struct kv_client *c;
	bool is_guess;
	int rc;

	if (!opts || opts->size != sizeof(o))
		return fail(-KV_EINVALID, err, err_bytes,
			    opts ? "options of a wrong size: .size must be "
				   "sizeof(struct kv_client_opts)"
				 : "no options");
	memcpy(&o, opts, sizeof(o));
	c = kv_client_new(&o);
	if (!c)
		return fail(-KV_ENOMEM, err, err_bytes, "%s",
			    kv_status_text(KV_ENOMEM));
	rc = parts_open(c, &o, &is_guess, err, err_bytes);
	if (rc < 0) {
		kv_client_free(c);
		return rc;
	}
	c->hub.is_opening = true;
	rc = first_contact(c, &o, is_guess, err, err_bytes);
	if (rc < 0) {
		kv_client_close(c);
		return rc;
	}
	c->hub.is_opening = false;
	*out = c;
	return fail(0, err, err_bytes, "%s", "");
}

struct kv_client *
kv_client_open(const struct kv_client_opts *opts, char *err, size_t err_bytes)
{
	struct kv_client *c = NULL;
	int rc = client_start(&c, opts, err, err_bytes);

	if (opts && opts->size == sizeof(*opts) && opts->status)
		*opts->status = rc;
	return c;
}

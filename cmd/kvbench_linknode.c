/* The other end is a kvclient: objects are put there and got from there, as
 * from a host that has no node. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "base/attr.h"
#include "base/num.h"
#include "base/sample.h"
#include "base/str.h"
#include "cli/tool.h"
#include "cmd/kvbench_link.h"
#include "net/lookup.h"

#define RAILS_WAIT_NS 200000000

enum {
	NODES_MAX = 1024,
	KEY_BYTES = 64,
	REMOVE_MAX = 500,
	RAILS_TRIES = 25,
	PUTS_CHECKED = 256, /* of a burst, at least, if there are so many */
};

struct kvbench_link_node {
	char addr[136];
	uint64_t random;
	uint64_t next; /* number of a key that was never used */
};

static const enum kvbench_link_op ops[] = { KVBENCH_LINK_PUT,
					    KVBENCH_LINK_GET };

static int
failed(const struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
       const char *what)
{
	char size[16];

	return kv_tool_say(EX_UNAVAILABLE, "%s: %s of %s by %s: %s",
			   w->run->peer, kvbench_link_op_names[cell->op],
			   kv_str_size_format(size, sizeof(size), cell->size),
			   w->path, what);
}

/* ---- calls ---- */

struct calls {
	const struct kvbench_link_way *w;
	const struct kvbench_link_cell *cell;
	uint64_t first; /* key of call 0 */
};

static struct kv_key
key_of(const struct kvbench_link_node *node, uint64_t i, char buf[KEY_BYTES])
{
	int n = snprintf(buf, KEY_BYTES, "kvbench-link/%016" PRIx64 "/%" PRIu64,
			 node->random, i);

	return (struct kv_key){ buf, (size_t)n };
}

/* The value of key i is what is in slot i % slots. */
static uint64_t
at(const struct kvbench_link_cell *cell, uint64_t i)
{
	return i % cell->slots * cell->stride;
}

static int
call_put(void *arg, uint64_t n)
{
	const struct calls *c = arg;
	const struct kvbench_link_job *r = c->w->run;
	const struct kv_put_opts o = {
		.size = sizeof(o),
		.prefer = r->node->addr,
	};
	const struct kv_buf buf = { r->buf + at(c->cell, n), c->cell->size };
	struct kv_put_item item = { .bufs = &buf, .nbufs = 1 };
	char key[KEY_BYTES];
	long rc;

	item.key = key_of(r->node, c->first + n, key);
	rc = kv_client_put(c->w->client, &item, 1, &o);
	return rc < 0 ? (int)rc : item.status;
}

static int
get(const struct calls *c, uint64_t key, void *to)
{
	const struct kv_buf buf = { to, c->cell->size };
	struct kv_get_item item = { .bufs = &buf, .nbufs = 1 };
	const struct kv_get_opts o = {
		.size = sizeof(o),
		.prefer = c->w->run->node->addr,
	};
	char text[KEY_BYTES];
	long rc;

	item.key = key_of(c->w->run->node, key, text);
	rc = kv_client_get(c->w->client, &item, 1, &o);
	return rc < 0 ? (int)rc : item.status;
}

static int
call_get(void *arg, uint64_t n)
{
	const struct calls *c = arg;
	uint64_t i = n % c->cell->slots;

	return get(c, c->first + i, c->w->run->buf + at(c->cell, i));
}

/* ---- what calls leave behind ---- */

static int
remove_keys(const struct calls *c, uint64_t first, uint64_t end)
{
	char text[REMOVE_MAX][KEY_BYTES];
	struct kv_key keys[REMOVE_MAX];
	size_t n;
	long rc = 0;

	for (; first < end && rc >= 0; first += n) {
		n = kv_min_u64(REMOVE_MAX, end - first);
		for (size_t i = 0; i < n; i++)
			keys[i] = key_of(c->w->run->node, first + i, text[i]);
		rc = kv_client_remove(c->w->client, keys, n, 1, NULL, NULL);
	}
	return rc < 0 ? (int)rc : 0;
}

/* Calls [0, end) of puts, the last of each slot and some of the others: that
 * they are there, and nowhere else. 0 or an exit code. */
static int
check_puts(const struct calls *c, uint64_t end)
{
	uint64_t step = kv_max_u64(1, end / PUTS_CHECKED);
	uint64_t slots = c->cell->slots;
	const struct kvbench_link_job *r = c->w->run;
	struct kv_replica_info where = { 0 };
	char text[KEY_BYTES];
	int rc;

	for (uint64_t n = 0; n < end; n += n + step + slots < end ? step : 1) {
		rc = get(c, c->first + n, r->spare);
		/* A pool that is full has let earlier ones go. */
		if (rc == -KV_EMISS && n + slots < end)
			continue;
		if (rc)
			return failed(c->w, c->cell, kv_status_text(rc));
		if (kv_sample_check(r->spare, c->cell->size,
				    c->cell->seed + n % c->cell->slots) !=
		    c->cell->size) {
			failed(c->w, c->cell, "other bytes came back");
			return EX_SOFTWARE;
		}
	}
	if (end == 0 ||
	    kv_client_query(c->w->client,
			    key_of(r->node, c->first + end - 1, text), 0,
			    &where, 1, NULL) < 1 ||
	    strcmp(where.addr, r->node->addr) == 0)
		return 0;
	return failed(c->w, c->cell, "another node took it: is it full?");
}

/* ---- rounds ---- */

/* Puts for so long, a part of the pool at a time, which is removed again. */
static int
puts_burst(struct calls *c, uint64_t time_ns, uint64_t calls_max,
	   struct kvbench_link_sum *sum)
{
	struct kvbench_load load = {
		.depth = c->cell->depth,
		.time_ns = time_ns,
		.calls_max = calls_max,
		.call = call_put,
		.arg = c,
	};
	int rc, end, status;

	c->first = c->w->run->node->next;
	status = kvbench_load_run(&load, sum);
	c->w->run->node->next += load.end;
	rc = status ? failed(c->w, c->cell, kv_status_text(status))
		    : check_puts(c, load.whole);
	end = remove_keys(c, c->first, c->first + load.end);
	if (rc == 0 && end)
		rc = failed(c->w, c->cell, kv_status_text(end));
	return rc;
}

static int
take_puts(struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
	  struct kvbench_link_sum *sum)
{
	struct calls c = { w, cell, 0 };
	uint64_t many = kv_max_u64(w->run->memory / cell->size, cell->depth);
	uint64_t start = sum->ns, long_ns;
	int rc;

	kvbench_load_fill(w->run->buf, cell);
	long_ns = w->run->l->timeout_ms * UINT64_C(1000000);
	rc = puts_burst(&c, long_ns, kv_max_u64(cell->slots, cell->depth),
			NULL);
	while (rc == 0 && sum->ns - start < cell->time_ns)
		rc = puts_burst(&c, cell->time_ns - (sum->ns - start), many,
				sum);
	return rc;
}

static int
gets(struct calls *c, struct kvbench_link_sum *sum)
{
	const struct kvbench_link_cell *cell = c->cell;
	struct kvbench_load load = {
		.depth = cell->depth,
		.time_ns = c->w->run->l->timeout_ms * UINT64_C(1000000),
		.calls_max = kv_max_u64(cell->slots, cell->depth),
		.call = call_get,
		.arg = c,
	};
	int rc = 0;

	for (uint64_t i = 0; i < cell->slots && rc == 0; i++)
		rc = call_put(c, i);
	memset(c->w->run->buf, 0, cell->slots * cell->stride);
	if (rc == 0)
		rc = kvbench_load_run(&load, NULL);
	load.time_ns = cell->time_ns;
	load.calls_max = 0;
	if (rc == 0)
		rc = kvbench_load_run(&load, sum);
	return rc;
}

static int
take_gets(struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
	  struct kvbench_link_sum *sum)
{
	struct calls c = { w, cell, w->run->node->next };
	int rc, end, code = 0;

	w->run->node->next += cell->slots;
	kvbench_load_fill(w->run->buf, cell);
	rc = gets(&c, sum);
	if (rc)
		code = failed(w, cell, kv_status_text(rc));
	if (code == 0 && kvbench_load_check(w->run->buf, cell) >= 0) {
		failed(w, cell,
		       "other bytes came: its figures are worth "
		       "nothing");
		code = EX_SOFTWARE;
	}
	end = remove_keys(&c, c.first, c.first + cell->slots);
	return code == 0 && end ? failed(w, cell, kv_status_text(end)) : code;
}

static int
take(struct kvbench_link_way *w, const struct kvbench_link_cell *cell,
     struct kvbench_link_sum *sum)
{
	return cell->op == KVBENCH_LINK_PUT ? take_puts(w, cell, sum)
					    : take_gets(w, cell, sum);
}

/* ---- open ---- */

static bool
is_same(const union kv_sockaddr *a, const union kv_sockaddr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	return a->sa.sa_family == AF_INET
		       ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr &&
				 a->in.sin_port == b->in.sin_port
		       : IN6_ARE_ADDR_EQUAL(&a->in6.sin6_addr,
					    &b->in6.sin6_addr) &&
				 a->in6.sin6_port == b->in6.sin6_port;
}

/* Whether what the pool calls it leads to where the user said. */
static bool
is_node(const struct kv_lookup_result *want, const char *addr)
{
	struct kv_lookup_result found;
	char err[KV_ADDR_ERROR_BYTES];
	struct kv_addr a;

	if (kv_addr_parse(addr, 0, &a, err, sizeof(err)) < 0 ||
	    a.kind != KV_ADDR_TCP || kv_lookup_now(&a, &found) < 0)
		return false;
	for (int i = 0; i < want->n; i++)
		for (int k = 0; k < found.n; k++)
			if (is_same(&want->addrs[i].addr, &found.addrs[k].addr))
				return true;
	return false;
}

static int
node_find(struct kvbench_link_job *r, struct kv_client *c)
{
	kv_auto_free struct kv_node_info *nodes =
		calloc(NODES_MAX, sizeof(*nodes));
	struct kv_addr a = { .kind = KV_ADDR_TCP, .port = r->port };
	struct kv_lookup_result want = { 0 };
	long n = nodes ? kv_client_nodes(c, nodes, NODES_MAX) : -KV_ENOMEM;

	if (n < 0)
		return kv_tool_fail((int)n);
	snprintf(a.name, sizeof(a.name), "%s", r->host);
	if (kv_lookup_now(&a, &want) < 0)
		want.n = 0;
	for (long i = 0; i < n && i < NODES_MAX; i++) {
		if (!is_node(&want, nodes[i].addr))
			continue;
		snprintf(r->node->addr, sizeof(r->node->addr), "%s",
			 nodes[i].addr);
		return 0;
	}
	return kv_tool_say(EX_UNAVAILABLE,
			   "%s: a node that these masters do not know; name "
			   "its masters with --master",
			   r->peer);
}

static int
look_path(const struct kvbench_link_job *r, struct kv_client *c, char path[8])
{
	kv_auto_free struct kv_link_info *links =
		calloc(NODES_MAX, sizeof(*links));
	long n = links ? kv_client_links(c, links, NODES_MAX) : -KV_ENOMEM;

	if (n < 0)
		return (int)n;
	for (long i = 0; i < n && i < NODES_MAX; i++)
		if (strcmp(links[i].addr, r->node->addr) == 0) {
			memcpy(path, links[i].path, sizeof(links[i].path));
			return links[i].status;
		}
	return -KV_EGONE;
}

/* How it is reached, as the client says. Rails take a moment to come up. */
static int
link_path(const struct kvbench_link_job *r, struct kv_client *c,
	  const char *want, char path[8])
{
	int rc = look_path(r, c, path);

	for (int i = 0; i < RAILS_TRIES && rc == 0 && strcmp(path, want) != 0;
	     i++) {
		nanosleep(&(struct timespec){ .tv_nsec = RAILS_WAIT_NS }, NULL);
		rc = look_path(r, c, path);
	}
	return rc;
}

/* A line, which is no failure unless nobody asked for another path. */
static int
leave_out(struct kvbench_link_job *r, const struct kvbench_link_path *p,
	  const char *why)
{
	struct kvbench_link_way *w = &r->ways[--r->n_ways];

	kv_tool_say(0, "%s by %s: %s", r->peer, p->name, why);
	kv_client_close(w->client);
	w->client = NULL;
	return p->protocol == KV_PROTOCOL_TCP ||
			       r->l->protocol == KV_PROTOCOL_RDMA
		       ? EX_UNAVAILABLE
		       : 0;
}

static int
path_open(struct kvbench_link_job *r, const struct kvbench_link_path *p)
{
	struct kvbench_link_way *w = kvbench_link_way(r, p->name);
	bool is_rdma = p->protocol == KV_PROTOCOL_RDMA;
	struct kv_client_opts o = r->l->client;
	char err[512], path[8] = "";
	int rc;

	o.socket = "";
	o.timeout_ms = r->l->timeout_ms;
	o.protocol = p->protocol;
	o.devices = p->devices;
	w->client = kv_client_open(&o, err, sizeof(err));
	if (!w->client && !o.master)
		return kv_tool_say(EX_UNAVAILABLE,
				   "%s: a kvclient: name its masters with "
				   "--master",
				   r->peer);
	if (!w->client)
		return leave_out(r, p, err);
	rc = *r->node->addr ? 0 : node_find(r, w->client);
	if (rc)
		return rc;
	rc = kv_client_register(w->client, r->buf, r->memory);
	if (rc == 0)
		rc = link_path(r, w->client, is_rdma ? "rdma" : "tcp", path);
	if (rc)
		return leave_out(r, p, kv_status_text(rc));
	if (is_rdma && strcmp(path, "rdma") != 0)
		return leave_out(r, p, "it goes by TCP");
	w->is_floor = false;
	w->is_rdma = is_rdma;
	w->floor = is_rdma ? NULL : "stream";
	w->take = take;
	return 0;
}

static void
node_close(struct kvbench_link_job *r)
{
	for (unsigned i = 0; i < r->n_ways; i++)
		kv_client_close(r->ways[i].client);
	kvbench_floor_end(r);
	free(r->node);
}

int
kvbench_link_node_open(struct kvbench_link_job *r)
{
	int rc = 0;

	r->close = node_close;
	r->ops = ops;
	r->n_ops = sizeof(ops) / sizeof(ops[0]);
	r->node = calloc(1, sizeof(*r->node));
	if (!r->node)
		return kv_tool_fail(-KV_ENOMEM);
	r->node->random = kv_rng_u64(&r->rng);
	/* A process of its own, and a client has threads: it is made first. */
	if (r->is_loopback) {
		rc = kvbench_floor_start(r);
		kvbench_link_way(r, "stream")->take = kvbench_floor_take;
	} else {
		fprintf(stderr,
			"kvbench: no stream beside it: %s is another "
			"host, and no kvbench link --listen\n",
			r->peer);
	}
	for (unsigned i = 0; i < r->n_paths && rc == 0; i++)
		rc = path_open(r, &r->paths[i]);
	return rc;
}

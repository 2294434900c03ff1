#include "clustercore.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "xfer/rdmaregion.h"

#define DAMAGED_PAGES 32

void
cluster_forbid(const struct cluster *cl, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr,
		"sim: seed %llu, at %.6f s: ", (unsigned long long)cl->o.seed,
		(double)cl->clock.ns / 1e9);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}

static struct kv_id
id_of(struct cluster *cl, unsigned kind)
{
	struct kv_id id;

	kv_rng_bytes(&cl->rng, &id, sizeof(id));
	id.b[0] = (uint8_t)kind;
	return id;
}

static struct kv_id
host_id(const char *host)
{
	struct kv_id id = { { 0 } };

	snprintf((char *)id.b, sizeof(id.b), "%s", host);
	return id;
}

/* ---- processes ---- */

void
cluster_master_start(struct cluster *cl, unsigned i)
{
	struct sim_master *m = &cl->masters[i];
	struct kv_master_opts o = {
		.boot = id_of(cl, 'M'),
		.seed = kv_rng_u64(&cl->rng),
	};
	char listen[40], err[256] = "";

	if (m->m)
		return;
	kv_debug("%.6f start %s", (double)cl->clock.ns / 1e9, m->host);
	m->pid = cl->next_pid++;
	snprintf(listen, sizeof(listen), "tcp:%s:50051", m->host);
	o.listen[0] = listen;
	o.net = simnet_process(cl->net, m->host, m->pid);
	o.loop = simnet_process_loop(cl->net, m->pid);
	m->is_frozen = false;
	m->m = kv_master_new(&o, err, sizeof(err));
	if (!m->m)
		cluster_forbid(cl, "master %u does not start: %s", i, err);
}

void
cluster_master_kill(struct cluster *cl, unsigned i)
{
	struct sim_master *m = &cl->masters[i];

	if (!m->m)
		return;
	kv_debug("%.6f kill %s", (double)cl->clock.ns / 1e9, m->host);
	simnet_process_exit(cl->net, m->pid);
	kv_master_free(m->m);
	m->m = NULL;
	cluster_removals_forget(cl);
}

void
cluster_master_freeze(struct cluster *cl, unsigned i, bool freeze)
{
	struct sim_master *m = &cl->masters[i];

	if (!m->m || m->is_frozen == freeze)
		return;
	kv_debug("%.6f %s %s", (double)cl->clock.ns / 1e9,
		 freeze ? "freeze" : "thaw", m->host);
	m->is_frozen = freeze;
	cl->thawed = cl->clock.ns;
	simnet_process_stop(cl->net, m->pid, freeze);
}

static struct sim_pool *
pool_new(struct cluster *cl, struct sim_node *n, struct kv_id boot)
{
	struct sim_pool *pool = calloc(1, sizeof(*pool));

	assert(pool);
	pool->is_shared = n->has_file;
	pool->bytes = n->has_file ? n->bytes : calloc(1, cl->o.pool_bytes);
	assert(pool->bytes);
	pool->boot = boot;
	pool->next = cl->pools;
	cl->pools = pool;
	return pool;
}

static void
file_open(struct cluster *cl, struct sim_node *n)
{
	n->has_file = true;
	n->bytes = calloc(1, cl->o.pool_bytes);
	assert(n->bytes);
	simpool_open(&n->file, cl->o.pool_bytes);
	simpool_lock(&n->file);
	n->file.head.pool = id_of(cl, 'P');
}

/* Somebody writes over pages of it, while no call reads there. */
static void
file_damage(struct cluster *cl, struct sim_node *n)
{
	const uint64_t page = 4096;
	uint64_t at;
	unsigned i;

	for (i = 0; i < cl->o.requesters; i++)
		if (cl->requesters[i].call)
			return;
	if (!cl->is_damaging || !n->has_file || n->file.head.life == 0 ||
	    kv_rng_below(&cl->rng, 2))
		return;
	for (i = 0; i < DAMAGED_PAGES; i++) {
		at = page * kv_rng_below(&cl->rng, cl->o.pool_bytes / page);
		kv_rng_bytes(&cl->rng, n->bytes + at, page);
	}
}

/* With nobody there it is held for nobody. */
static void
file_close(struct cluster *cl, struct sim_node *n)
{
	if (!n->has_file)
		return;
	if (simpool_is_attached(&n->file))
		cluster_forbid(cl, "%s: somebody is still attached", n->host);
	simpool_close(&n->file);
	free(n->bytes);
}

static void
region_done(void *arg, int status, const char *why)
{
	(void)arg;
	(void)why;
	assert(status == 0);
}

/* The real clock alone knows that threads register it. */
static void
region_open(struct cluster *cl, struct sim_node *n, void *pool)
{
	const struct kv_rdmaregion_pool_opts o = {
		.pool = pool,
		.bytes = cl->o.pool_bytes,
		.done = region_done,
	};

	if (!cl->o.rdma)
		return;
	n->rdma = cl->o.rdma->open(cl->o.rdma, n->host, n->pid);
	n->region = kv_rdmaregion_pool(n->rdma, &o);
	assert(n->region);
	kv_rdmaregion_ready(n->region, o.bytes, true);
	while (!kv_rdmaregion_is_complete(n->region))
		usleep(100);
}

static void
region_close(struct cluster *cl, struct sim_node *n)
{
	kv_rdmaregion_free(n->region);
	if (n->rdma)
		cl->o.rdma->close(cl->o.rdma, n->pid);
	n->region = NULL;
	n->rdma = NULL;
}

void
cluster_node_start(struct cluster *cl, unsigned i)
{
	struct sim_node *n = &cl->nodes[i];
	struct kv_node_opts o = {
		.loop = cl->loop,
		.pool_bytes = cl->o.pool_bytes,
		.pool_fd = -1,
		.pool_fd_ro = -1,
		.name = n->host,
		.boot = id_of(cl, 'N'),
		.host = host_id(n->host),
		.seed = kv_rng_u64(&cl->rng),
	};
	char listen[40], local[48], err[256] = "";
	char masters[MASTERS_MAX][24];
	unsigned j;

	if (n->node)
		return;
	n->pid = cl->next_pid++;
	snprintf(listen, sizeof(listen), "tcp:%s:50052", n->host);
	snprintf(local, sizeof(local), "unix:%s", n->socket);
	o.listen[0] = listen;
	o.listen[1] = local;
	o.addr = listen + strlen("tcp:");
	file_damage(cl, n);
	o.pool = pool_new(cl, n, o.boot)->bytes;
	region_open(cl, n, o.pool);
	o.rdma = n->rdma;
	o.region = n->region;
	o.file = n->has_file ? simpool_begin(&n->file) : NULL;
	for (j = 0; j < cl->o.masters; j++) {
		snprintf(masters[j], sizeof(masters[j]), "%s:50051",
			 cl->masters[j].host);
		o.masters[j] = masters[j];
	}
	o.net = simnet_process(cl->net, n->host, n->pid);
	n->node = kv_node_new(&o, err, sizeof(err));
	if (!n->node)
		cluster_forbid(cl, "node %u does not start: %s", i, err);
	kv_node_ready(n->node, 0, cl->o.pool_bytes);
	kv_node_ready_end(n->node);
}

/* Its file stays as it is. */
static void
node_free(struct sim_node *n)
{
	uint8_t *index = NULL;
	size_t bytes = SIMPOOL_INDEX_MAX;

	if (n->has_file) {
		index = malloc(bytes);
		assert(index);
		memcpy(index, n->file.index, bytes);
	}
	kv_node_free(n->node);
	n->node = NULL;
	if (n->has_file)
		simpool_end(&n->file);
	assert(!index || memcmp(index, n->file.index, bytes) == 0);
	free(index);
}

static void
node_exit(struct cluster *cl, struct sim_node *n)
{
	simnet_process_exit(cl->net, n->pid);
	if (n->rdma)
		cl->o.rdma->exit(cl->o.rdma, n->pid);
	node_free(n);
	region_close(cl, n);
}

void
cluster_node_kill(struct cluster *cl, unsigned i)
{
	struct sim_node *n = &cl->nodes[i];

	if (!n->node)
		return;
	kv_debug("%.6f kill %s", (double)cl->clock.ns / 1e9, n->host);
	node_exit(cl, n);
}

/* ---- requesters ---- */

static int
sim_map(void *arg, struct kv_hub_map *map, bool write)
{
	struct cluster *cl = arg;
	struct sim_pool *p;

	for (p = cl->pools; p; p = p->next) {
		if (!kv_id_is_equal(p->boot, map->boot))
			continue;
		*(write ? &map->write : &map->read) = p->bytes;
		return 0;
	}
	return -1;
}

static void
sim_unmap(void *arg, struct kv_hub_map *map)
{
	(void)arg;
	if (map->fd >= 0)
		close(map->fd);
}

static void
requester_start(struct cluster *cl, unsigned i)
{
	struct sim_requester *r = &cl->requesters[i];
	/* The last one has no node beside it. */
	bool has_local = i + 1 < cl->o.requesters || cl->o.requesters == 1;
	unsigned n = i % cl->o.nodes;
	char local[48];
	struct kv_hub_opts o = {
		.masters = cl->master_list,
		.name = "sim",
		.boot = id_of(cl, 'R'),
		.rng_seed = kv_rng_u64(&cl->rng),
		.mapper = { .map = sim_map, .unmap = sim_unmap, .arg = cl },
	};

	r->host = has_local ? cl->nodes[n].host : "h-req";
	snprintf(local, sizeof(local), "unix:%s", cl->nodes[n].socket);
	r->cl = cl;
	r->i = i;
	r->pid = cl->next_pid++;
	r->is_alive = true;
	o.local = has_local ? local : NULL;
	o.host = host_id(r->host);
	o.net = simnet_process(cl->net, r->host, r->pid);
	if (cl->o.rdma)
		r->rdma = cl->o.rdma->open(cl->o.rdma, r->host, r->pid);
	o.rdma = r->rdma;
	if (kv_hub_init(&r->hub, &o) < 0)
		cluster_forbid(cl, "requester %u does not start", i);
	r->ch = kv_chan_new(&r->hub, cl->loop);
	assert(r->ch);
}

static void
requester_stop(struct cluster *cl, struct sim_requester *r)
{
	unsigned i;

	if (!r->is_alive)
		return;
	r->is_alive = false;
	simnet_process_exit(cl->net, r->pid);
	if (r->rdma)
		cl->o.rdma->exit(cl->o.rdma, r->pid);
	/* The program's memory goes with it; here it is given up by hand. */
	if (r->call)
		cluster_call_abort(r);
	kv_chan_free(r->ch);
	kv_hub_fini(&r->hub);
	if (r->rdma)
		cl->o.rdma->close(cl->o.rdma, r->pid);
	for (i = 0; i < cl->o.nodes; i++)
		if (cl->nodes[i].node)
			kv_node_process_exit(cl->nodes[i].node, r->pid);
}

void
cluster_requester_kill(struct cluster *cl, unsigned i)
{
	requester_stop(cl, &cl->requesters[i]);
	requester_start(cl, i);
}

/* ---- life ---- */

void
cluster_run(struct cluster *cl, uint64_t ns)
{
	simnet_run(cl->net, cl->clock.ns + ns);
}

struct cluster *
cluster_new(const struct cluster_opts *o)
{
	struct cluster *cl = calloc(1, sizeof(*cl));
	struct simnet_opts net = {
		.seed = o->seed,
		.latency_ns = 50 * KV_NS_PER_US,
		.jitter_ns = 100 * KV_NS_PER_US,
		.local_ns = 10 * KV_NS_PER_US,
		.bytes_per_ns = 10,
		.chunked = o->chunked,
	};
	size_t used = 0;
	unsigned i;

	if (o->latency_ns) {
		net.latency_ns = o->latency_ns;
		net.jitter_ns = 0;
	}
	assert(cl && o->masters <= MASTERS_MAX && o->nodes <= NODES_MAX &&
	       o->requesters <= REQUESTERS_MAX);
	kv_log_set_level(getenv("SIM_LOG") ? KV_LOG_DEBUG : KV_LOG_ERR);
	cl->o = *o;
	cl->clock = (struct kv_clock){ .is_virtual = true, .ns = KV_NS_PER_S };
	cl->loop = kv_loop_new(&cl->clock);
	cl->net = simnet_new(cl->loop, &cl->clock, &net);
	if (o->rdma)
		o->rdma->begin(o->rdma, cl->loop, &cl->clock);
	cl->model = cluster_keys_new(o->keys);
	assert(cl->loop && cl->model);
	kv_rng_seed(&cl->rng, o->seed);
	cl->next_pid = 100;
	cl->next_tag = 1;
	for (i = 0; i < o->masters; i++) {
		snprintf(cl->masters[i].host, 16, "m%u", i);
		used += (size_t)snprintf(cl->master_list + used,
					 sizeof(cl->master_list) - used,
					 "%sm%u:50051", i ? "," : "", i);
		cluster_master_start(cl, i);
	}
	for (i = 0; i < o->nodes; i++) {
		snprintf(cl->nodes[i].host, 16, "n%u", i);
		snprintf(cl->nodes[i].socket, sizeof(cl->nodes[i].socket),
			 "/n%u.sock", i);
		if (o->files & 1u << i)
			file_open(cl, &cl->nodes[i]);
		cluster_node_start(cl, i);
	}
	for (i = 0; i < o->requesters; i++)
		requester_start(cl, i);
	return cl;
}

/* With its requesters gone nothing is pinned or reserved at a node. */
static void
node_check_end(struct cluster *cl, unsigned i)
{
	struct kv_heartbeat room;

	if (!cl->nodes[i].node)
		return;
	kv_node_room(cl->nodes[i].node, &room);
	if (kv_get64(room.pinned_bytes) != 0)
		cluster_forbid(cl, "node %u: %llu bytes are pinned by nobody",
			       i,
			       (unsigned long long)kv_get64(room.pinned_bytes));
}

static void
node_stopped(void *arg)
{
	*(bool *)arg = true;
}

static void
node_end(struct cluster *cl, unsigned i)
{
	bool is_stopped = false;
	uint64_t until = cl->clock.ns + 20 * KV_NS_PER_S;

	if (!cl->nodes[i].node)
		return;
	kv_node_stop(cl->nodes[i].node, node_stopped, &is_stopped);
	while (!is_stopped) {
		if (cl->clock.ns > until)
			cluster_forbid(cl, "node %u does not stop", i);
		cluster_run(cl, 10 * KV_NS_PER_MS);
	}
	node_exit(cl, &cl->nodes[i]);
}

void
cluster_free(struct cluster *cl)
{
	struct sim_pool *p;
	unsigned i;

	for (i = 0; i < cl->o.requesters; i++)
		requester_stop(cl, &cl->requesters[i]);
	cluster_run(cl, 10 * KV_NS_PER_S);
	for (i = 0; i < cl->o.nodes; i++)
		node_check_end(cl, i);
	for (i = 0; i < cl->o.nodes; i++)
		node_end(cl, i);
	for (i = 0; i < cl->o.masters; i++)
		cluster_master_kill(cl, i);
	if (cl->o.rdma)
		cl->o.rdma->end(cl->o.rdma);
	simnet_free(cl->net);
	kv_loop_free(cl->loop);
	while ((p = cl->pools)) {
		cl->pools = p->next;
		if (!p->is_shared)
			free(p->bytes);
		free(p);
	}
	for (i = 0; i < cl->o.nodes; i++)
		file_close(cl, &cl->nodes[i]);
	free(cl->model);
	free(cl);
}

struct kv_rng *
cluster_rng(struct cluster *cl)
{
	return &cl->rng;
}

uint64_t
cluster_hits(const struct cluster *cl)
{
	return cl->hits;
}

uint64_t
cluster_puts(const struct cluster *cl)
{
	return cl->puts;
}

uint64_t
cluster_rdma_bytes(struct cluster *cl)
{
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < cl->o.requesters; i++)
		sum += cl->requesters[i].hub.stats.rdma_put_bytes +
		       cl->requesters[i].hub.stats.rdma_get_bytes;
	return sum;
}

#include "svc/hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/num.h"
#include "mem/copier.h"

#define ORPHANS_MAX  256
#define MAP_AGAIN_NS (10 * KV_NS_PER_S)

static int
copy_text(char *dst, size_t size, const char *src)
{
	size_t len = strlen(src);

	if (len >= size)
		return -EINVAL;
	memcpy(dst, src, len + 1);
	return 0;
}

int
kv_hub_add_masters(struct kv_hub *hub, const char *list)
{
	size_t len;

	for (; *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (len == 0 || len >= KV_HUB_ADDR_BYTES ||
		    hub->n_masters == KV_HUB_MASTERS_MAX)
			return -EINVAL;
		memcpy(hub->masters[hub->n_masters++], list, len);
	}
	return 0;
}

int
kv_hub_init(struct kv_hub *hub, const struct kv_hub_opts *opts)
{
	const char *tenant = opts->tenant ? opts->tenant : "default";

	memset(hub, 0, sizeof(*hub));
	if (opts->masters && kv_hub_add_masters(hub, opts->masters) < 0)
		return -EINVAL;
	if (opts->local &&
	    copy_text(hub->local, sizeof(hub->local), opts->local) < 0)
		return -EINVAL;
	if (copy_text(hub->tenant, sizeof(hub->tenant), tenant) < 0 ||
	    copy_text(hub->name, sizeof(hub->name), opts->name) < 0)
		return -EINVAL;
	hub->net = opts->net;
	hub->key_seed = kv_key_seed(tenant, strlen(tenant));
	hub->boot = opts->boot;
	hub->host = opts->host;
	hub->mapper = opts->mapper;
	hub->rng_seed = opts->rng_seed;
	if (opts->copy_threads > 1) {
		hub->copier = kv_copier_new(opts->copy_threads);
		if (!hub->copier)
			return -ENOMEM;
	}
	hub->rdma = opts->rdma;
	hub->rdma_only = opts->rdma_only;
	snprintf(hub->no_rdma, sizeof(hub->no_rdma), "no RDMA here%s%s",
		 opts->no_rdma ? ": " : "", opts->no_rdma ? opts->no_rdma : "");
	kv_ranges_init(&hub->ranges, opts->rdma);
	kv_list_init(&hub->views);
	pthread_mutex_init(&hub->lock, NULL);
	return 0;
}

void
kv_hub_fini(struct kv_hub *hub)
{
	if (hub->map)
		kv_hub_map_unref(hub, hub->map);
	free(hub->nodes);
	free(hub->sick);
	free(hub->orphans);
	free(hub->named);
	kv_ranges_fini(&hub->ranges);
	kv_copier_free(hub->copier);
	pthread_mutex_destroy(&hub->lock);
}

struct kv_generation
kv_hub_generation(struct kv_hub *hub)
{
	struct kv_generation g = { 0 };

	KV_LOCKED(&hub->lock)
		g = hub->generation;
	return g;
}

void
kv_hub_heard(struct kv_hub *hub, struct kv_generation g)
{
	KV_LOCKED(&hub->lock)
		hub->generation = kv_generation_merge(hub->generation, g);
}

uint64_t
kv_hub_seed(struct kv_hub *hub)
{
	uint64_t seed = 0;

	KV_LOCKED(&hub->lock)
		seed = hub->rng_seed++;
	return seed;
}

/* ---- nodes ---- */

static struct kv_hub_node *
node_find(struct kv_hub *hub, const struct kv_id *boot)
{
	unsigned i;

	for (i = 0; i < hub->n_nodes; i++)
		if (kv_id_is_equal(hub->nodes[i].boot, *boot))
			return &hub->nodes[i];
	return NULL;
}

static struct kv_hub_node *
node_add(struct kv_hub *hub, const struct kv_id *boot)
{
	struct kv_hub_node *more;

	if (hub->n_nodes >= KV_NODES_MAX)
		return NULL;
	more = KV_FAULT_POINT() ? NULL
				: realloc(hub->nodes,
					  (hub->n_nodes + 1) * sizeof(*more));
	if (!more)
		return NULL;
	hub->nodes = more;
	more += hub->n_nodes++;
	memset(more, 0, sizeof(*more));
	more->boot = *boot;
	return more;
}

static int
node_fill(struct kv_hub_node *n, const struct kv_map_node *m)
{
	const struct kv_node_rec *r = m->rec;

	if (r->addr_len >= sizeof(n->addr) || r->name_len >= sizeof(n->name) ||
	    memchr(m->addr, 0, r->addr_len) || memchr(m->name, 0, r->name_len))
		return -EPROTO;
	memcpy(n->addr, m->addr, r->addr_len);
	n->addr[r->addr_len] = 0;
	memcpy(n->name, m->name, r->name_len);
	n->name[r->name_len] = 0;
	n->host = r->host;
	return 0;
}

static void
node_fill_room(struct kv_hub_node *n, const struct kv_node_rec *r)
{
	n->state = r->state;
	n->masters = r->masters;
	n->sessions = r->sessions;
	n->pool_bytes = kv_get64(r->pool_bytes);
	n->ready_bytes = kv_get64(r->ready_bytes);
	n->free_bytes = kv_get64(r->free_bytes);
	n->pinned_bytes = kv_get64(r->pinned_bytes);
	n->keys = kv_get64(r->keys);
	n->victim_age_ms = kv_get64(r->victim_age_ms);
	n->heard_ms = kv_get32(r->heard_ms);
}

int
kv_hub_node_parse(struct kv_hub_node *out, const struct kv_map_node *m)
{
	memset(out, 0, sizeof(*out));
	out->boot = m->rec->boot;
	node_fill_room(out, m->rec);
	return node_fill(out, m);
}

/* roll 0: only the address. Of several masters the one is believed that has
 * heard of the node last. */
static int
learn_one(struct kv_hub *hub, const struct kv_map_node *m, unsigned roll)
{
	struct kv_hub_node *n = node_find(hub, &m->rec->boot);
	int rc;

	if (!n)
		n = node_add(hub, &m->rec->boot);
	if (!n)
		return -ENOMEM;
	if (roll > 0 && n->listed == roll &&
	    n->heard_ms <= kv_get32(m->rec->heard_ms))
		return 0;
	rc = node_fill(n, m);
	if (rc < 0 || roll == 0)
		return rc;
	node_fill_room(n, m->rec);
	if (n->listed < roll)
		n->listed = roll;
	return 0;
}

static int
learn(struct kv_hub *hub, struct kv_cut *records, unsigned count, unsigned roll)
{
	struct kv_map_node m;
	int rc = 0;

	KV_LOCKED(&hub->lock)
		for (; count > 0 && rc == 0; count--)
			rc = kv_map_node_take(records, &m)
				     ? learn_one(hub, &m, roll)
				     : -EPROTO;
	return rc;
}

int
kv_hub_learn(struct kv_hub *hub, struct kv_cut *records, unsigned count)
{
	return learn(hub, records, count, 0);
}

unsigned
kv_hub_roll_begin(struct kv_hub *hub)
{
	unsigned roll = 0;

	KV_LOCKED(&hub->lock)
		roll = ++hub->rolls;
	return roll;
}

int
kv_hub_roll_learn(struct kv_hub *hub, unsigned roll, struct kv_cut *records,
		  unsigned count)
{
	return learn(hub, records, count, roll);
}

void
kv_hub_roll_end(struct kv_hub *hub, unsigned roll, bool drop, uint64_t now)
{
	unsigned i, n = 0;

	KV_LOCKED(&hub->lock) {
		hub->nodes_at = now;
		for (i = 0; drop && i < hub->n_nodes; i++)
			if (hub->nodes[i].listed >= roll)
				hub->nodes[n++] = hub->nodes[i];
		if (drop)
			hub->n_nodes = n;
	}
}

struct kv_hub_node *
kv_hub_nodes(struct kv_hub *hub, unsigned *n)
{
	struct kv_hub_node *out = NULL;

	*n = 0;
	if (KV_FAULT_POINT())
		return NULL;
	KV_LOCKED(&hub->lock) {
		out = malloc((hub->n_nodes + 1UL) * sizeof(*out));
		if (!out)
			break;
		*n = hub->n_nodes;
		if (*n > 0)
			memcpy(out, hub->nodes, *n * sizeof(*out));
	}
	return out;
}

bool
kv_hub_node(struct kv_hub *hub, const struct kv_id *boot,
	    struct kv_hub_node *out)
{
	const struct kv_hub_node *n = NULL;

	KV_LOCKED(&hub->lock) {
		n = node_find(hub, boot);
		if (n)
			*out = *n;
	}
	return n != NULL;
}

bool
kv_hub_node_is_named(const struct kv_hub_node *n, const char *name)
{
	return strcmp(name, n->name) == 0 || strcmp(name, n->addr) == 0;
}

bool
kv_hub_node_named(struct kv_hub *hub, const char *name, struct kv_id *boot)
{
	bool is_there = false;
	unsigned i;

	KV_LOCKED(&hub->lock) {
		for (i = 0; i < hub->n_nodes && !is_there; i++) {
			is_there = kv_hub_node_is_named(&hub->nodes[i], name);
			if (is_there)
				*boot = hub->nodes[i].boot;
		}
	}
	return is_there;
}

bool
kv_hub_path_is_news(struct kv_hub *hub, const struct kv_id *boot,
		    enum kv_hub_path path, const char *why,
		    struct kv_hub_node *out)
{
	struct kv_hub_node *n;
	bool is_news = false;

	KV_LOCKED(&hub->lock) {
		n = node_find(hub, boot);
		if (!n)
			break;
		snprintf(n->why, sizeof(n->why), "%s", why);
		is_news = n->path != path;
		n->path = (uint8_t)path;
		if (is_news)
			*out = *n;
	}
	return is_news;
}

bool
kv_hub_rails_are_news(struct kv_hub *hub, const struct kv_id *boot,
		      unsigned rails, bool is_short, struct kv_hub_node *out)
{
	uint8_t told = (uint8_t)(is_short ? rails : 0);
	struct kv_hub_node *n;
	bool is_news = false;

	KV_LOCKED(&hub->lock) {
		n = node_find(hub, boot);
		if (!n)
			break;
		n->why[0] = '\0';
		is_news = n->path != KV_HUB_PATH_RDMA || n->short_of != told;
		n->path = KV_HUB_PATH_RDMA;
		n->short_of = told;
		if (is_news)
			*out = *n;
	}
	return is_news;
}

bool
kv_hub_is_stale(struct kv_hub *hub, uint64_t now, uint64_t max_age_ns)
{
	bool is_stale = true;

	KV_LOCKED(&hub->lock)
		is_stale =
			hub->nodes_at == 0 || now > hub->nodes_at + max_age_ns;
	return is_stale;
}

void
kv_hub_spend(struct kv_hub *hub, const struct kv_id *boot, uint64_t bytes)
{
	struct kv_hub_node *n;

	KV_LOCKED(&hub->lock) {
		n = node_find(hub, boot);
		if (n)
			n->free_bytes -= kv_min_u64(bytes, n->free_bytes);
	}
}

/* ---- mappings ---- */

struct kv_hub_map *
kv_hub_map_ref(struct kv_hub *hub, const struct kv_id *boot)
{
	struct kv_hub_map *map = NULL;

	KV_LOCKED(&hub->lock) {
		if (hub->map && kv_id_is_equal(hub->map->boot, *boot)) {
			map = hub->map;
			map->refs++;
		}
	}
	return map;
}

void
kv_hub_map_ready(struct kv_hub_map *map, uint64_t bytes)
{
	__atomic_store_n(&map->ready, kv_min_u64(bytes, map->bytes),
			 __ATOMIC_RELAXED);
}

int
kv_hub_map_set(struct kv_hub *hub, const struct kv_id *boot,
	       const struct kv_attach_r *r, int fd)
{
	struct kv_hub_map *map =
		KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*map));
	struct kv_hub_map *old = NULL;

	if (!map) {
		if (fd >= 0)
			close(fd);
		return -ENOMEM;
	}
	map->boot = *boot;
	map->bytes = kv_get64(r->pool_bytes);
	map->flags = r->flags;
	kv_hub_map_ready(map, kv_get64(r->ready_bytes));
	map->fd = fd;
	map->refs = 1;
	KV_LOCKED(&hub->lock) {
		/* Two channels may attach at once: the first one's stays. */
		old = map;
		if (!hub->map || !kv_id_is_equal(hub->map->boot, *boot)) {
			old = hub->map;
			hub->map = map;
		}
	}
	if (old)
		kv_hub_map_unref(hub, old);
	return 0;
}

void
kv_hub_map_unref(struct kv_hub *hub, struct kv_hub_map *map)
{
	bool is_last = false;

	KV_LOCKED(&hub->lock)
		is_last = --map->refs == 0;
	if (!is_last)
		return;
	hub->mapper.unmap(hub->mapper.arg, map);
	free(map);
}

bool
kv_hub_map_is_out(struct kv_hub *hub, uint64_t now)
{
	uint64_t at = __atomic_load_n(&hub->map_again_at, __ATOMIC_RELAXED);

	return KV_UNLIKELY(at != 0) && now < at;
}

/* hub->lock is held. What failed is not tried with each piece of a value. */
static char *
map_now(struct kv_hub *hub, struct kv_hub_map *map, bool write)
{
	char **base = write ? &map->write : &map->read;
	uint64_t now = kv_clock_now(&(struct kv_clock){ 0 }), at = 0;

	if (!*base && kv_hub_map_is_out(hub, now))
		return NULL;
	if (!*base && hub->mapper.map(hub->mapper.arg, map, write) < 0)
		at = now + MAP_AGAIN_NS;
	__atomic_store_n(&hub->map_again_at, at, __ATOMIC_RELAXED);
	return *base;
}

char *
kv_hub_map_at(struct kv_hub *hub, struct kv_hub_map *map, uint64_t off,
	      uint64_t len, bool write)
{
	char **base = write ? &map->write : &map->read;
	char *p = NULL;

	if (len > map->bytes || off > map->bytes - len) {
		errno = EPROTO;
		return NULL;
	}
	p = __atomic_load_n(base, __ATOMIC_ACQUIRE);
	if (KV_UNLIKELY(!p)) {
		KV_LOCKED(&hub->lock)
			p = map_now(hub, map, write);
	}
	if (!p) {
		errno = ENOMEM; /* or descriptors, or room for a mapping */
		return NULL;
	}
	if (hub->mapper.ahead)
		hub->mapper.ahead(hub->mapper.arg, map, off, len, write);
	return p + off;
}

/* ---- connections given up ---- */

void
kv_hub_orphan_add(struct kv_hub *hub, const struct kv_id *boot, uint64_t token)
{
	KV_LOCKED(&hub->lock) {
		if (!hub->orphans)
			hub->orphans =
				calloc(ORPHANS_MAX, sizeof(*hub->orphans));
		/* More than that: they are let go when this process ends. */
		if (hub->orphans && hub->n_orphans < ORPHANS_MAX)
			hub->orphans[hub->n_orphans++] =
				(struct kv_hub_orphan){ *boot, token };
	}
}

uint64_t
kv_hub_orphan_take(struct kv_hub *hub, const struct kv_id *boot)
{
	uint64_t token = 0;
	unsigned i;

	KV_LOCKED(&hub->lock) {
		for (i = 0; i < hub->n_orphans && token == 0; i++) {
			if (!kv_id_is_equal(hub->orphans[i].boot, *boot))
				continue;
			token = hub->orphans[i].token;
			hub->orphans[i] = hub->orphans[--hub->n_orphans];
		}
	}
	return token;
}

void
kv_hub_node_missed(struct kv_hub *hub, const char *node, uint64_t now)
{
	KV_LOCKED(&hub->lock)
		kv_log_limited(
			&hub->prefer_log, now, KV_LOG_WARN,
			"no node in the pool is called %s: put elsewhere",
			node);
}

void
kv_hub_count(struct kv_hub *hub, const struct kv_hub_stats *more)
{
	KV_LOCKED(&hub->lock) {
		hub->stats.puts += more->puts;
		hub->stats.put_bytes += more->put_bytes;
		hub->stats.put_fails += more->put_fails;
		hub->stats.puts_short += more->puts_short;
		hub->stats.gets += more->gets;
		hub->stats.hits += more->hits;
		hub->stats.get_bytes += more->get_bytes;
		hub->stats.rdma_put_bytes += more->rdma_put_bytes;
		hub->stats.rdma_get_bytes += more->rdma_get_bytes;
		hub->stats.exists += more->exists;
		hub->stats.finds += more->finds;
	}
}

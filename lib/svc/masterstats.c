#include "svc/masterstats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/num.h"
#include "base/str.h"
#include "svc/mastercore.h"
#include "svc/stats.h"

static const struct row {
	const char *name;
	const char *text;
} rows[KV_MASTERSTATS] = {
#define KV_MASTERSTAT_OP(OP, op)                                               \
	[KV_MASTERSTAT_##                                                      \
		OP] = { "master_" #op "_requests_total",                       \
			"requests for one key" },                              \
		[KV_MASTERSTAT_##OP##                                          \
			_FAILS] = { "master_" #op "_failures_total",           \
				    "requests for one key that failed" },      \
   [KV_MASTERSTAT_##OP##_BATCHES] = { "master_batch_" #op "_requests_total",   \
				      "requests for several keys" },           \
   [KV_MASTERSTAT_##OP##                                                       \
	   _BATCH_FAILS] = { "master_batch_" #op "_failures_total",            \
			     "requests for several, all failed" },             \
   [KV_MASTERSTAT_##OP##                                                       \
	   _BATCH_PARTIAL] = { "master_batch_" #op "_partial_successes_total", \
			       "requests for several, some failed" },          \
   [KV_MASTERSTAT_##OP##_BATCH_ITEMS] = { "master_batch_" #op "_items_total",  \
					  "keys of requests for several" },    \
   [KV_MASTERSTAT_##OP##                                                       \
	   _BATCH_ITEM_FAILS] = { "master_batch_" #op "_failed_items_total",   \
				  "keys of requests for several, failed" },
#define KV_MASTERSTAT(NAME, name, text) \
	[KV_MASTERSTAT_##NAME] = { #name, text },
#include "svc/masterstats.def"
#undef KV_MASTERSTAT
#undef KV_MASTERSTAT_OP
};

/* Where the counters of an operation stand, after its first one. */
enum {
	FAILS = 1,
	BATCHES,
	BATCH_FAILS,
	BATCH_PARTIAL,
	BATCH_ITEMS,
	BATCH_ITEM_FAILS,
};

void
kv_masterstats_op(struct kv_master *m, enum kv_masterstat op, size_t n,
		  size_t failed)
{
	uint64_t *at = &m->stats[op];

	if (n == 1) {
		at[0]++;
		at[FAILS] += failed;
		return;
	}
	at[BATCHES]++;
	at[BATCH_ITEMS] += n;
	at[BATCH_ITEM_FAILS] += failed;
	at[BATCH_FAILS] += n > 0 && failed == n;
	at[BATCH_PARTIAL] += failed > 0 && failed < n;
}

/* ---- gauges of all nodes, and of each ---- */

static uint64_t
capacity(const struct kv_member *mb)
{
	return kv_get64(mb->room.pool_bytes);
}

static uint64_t
allocated(const struct kv_member *mb)
{
	uint64_t ready = kv_get64(mb->room.ready_bytes);

	return ready - kv_min_u64(ready, kv_get64(mb->room.free_bytes));
}

static uint64_t
pinned(const struct kv_member *mb)
{
	return kv_get64(mb->room.pinned_bytes);
}

static uint64_t
soft_pinned(const struct kv_member *mb)
{
	return kv_get64(mb->room.soft_pinned);
}

static const struct gauge {
	const char *all; /* or NULL */
	const char *each;
	const char *text;
	uint64_t (*value)(const struct kv_member *mb);
} gauges[] = {
	{ "master_total_capacity_bytes", "segment_total_capacity_bytes",
	  "bytes of the pools", capacity },
	{ "master_allocated_bytes", "segment_allocated_bytes",
	  "bytes of the pools with something in them", allocated },
	{ "kvpool_master_pinned_bytes", "kvpool_segment_pinned_bytes",
	  "bytes that somebody reads or writes", pinned },
	{ "master_soft_pin_key_count", NULL, "keys with a soft pin",
	  soft_pinned },
};

/* By address; the one that was heard last comes first. */
static int
compare(const void *va, const void *vb)
{
	const struct kv_member *a = *(const struct kv_member *const *)va;
	const struct kv_member *b = *(const struct kv_member *const *)vb;
	int c = strcmp(a->addr, b->addr);

	if (c == 0)
		c = (a->heard < b->heard) - (a->heard > b->heard);
	return c;
}

/*
 * The nodes that are told of, in the order of their addresses, each address
 * once: where a node was killed and started again the old one is still known
 * for a time, and Prometheus takes no two values of one thing.
 */
struct nodes {
	const struct kv_member *v[KV_NODES_MAX];
	unsigned n;
};

static void
nodes_find(struct nodes *nodes, const struct kv_master *m)
{
	const struct kv_member *mb;
	unsigned at, i, n = 0;

	nodes->n = 0;
	for (at = 0; (mb = kv_member_next(m, &at));)
		if (!mb->heir)
			nodes->v[nodes->n++] = mb;
	qsort(nodes->v, nodes->n, sizeof(nodes->v[0]), compare);
	for (i = 0; i < nodes->n; i++)
		if (n == 0 ||
		    strcmp(nodes->v[n - 1]->addr, nodes->v[i]->addr) != 0)
			nodes->v[n++] = nodes->v[i];
	nodes->n = n;
}

static void
gauge_each(const struct nodes *nodes, const struct gauge *g,
	   kv_masterstats_fn *fn, void *arg)
{
	struct kv_masterstats_line line = { .text = g->text };
	uint64_t sum = 0;
	unsigned i;

	line.name = g->each;
	for (i = 0; i < nodes->n; i++) {
		line.segment = nodes->v[i]->addr;
		line.value = g->value(nodes->v[i]);
		sum += line.value;
		if (line.name)
			fn(arg, &line);
	}
	line.name = g->all;
	line.segment = NULL;
	line.value = sum;
	fn(arg, &line);
}

static void
gauge_one(const char *name, const char *text, uint64_t value,
	  kv_masterstats_fn *fn, void *arg)
{
	const struct kv_masterstats_line line = { .name = name,
						  .text = text,
						  .value = value };

	fn(arg, &line);
}

void
kv_masterstats_each(const struct kv_master *m, kv_masterstats_fn *fn, void *arg)
{
	struct kv_masterstats_line line = { .is_counter = true };
	struct nodes nodes;
	size_t i;

	gauge_one("master_key_count", "keys of the directory",
		  kv_dir_keys(m->dir), fn, arg);
	gauge_one("mem_cache_nums_", "keys that are in memory of a node",
		  kv_dir_keys(m->dir), fn, arg);
	gauge_one("master_active_clients", "nodes", m->n_members, fn, arg);
	gauge_one("kvpool_master_joining_nodes",
		  "nodes that have not yet published all", m->n_joining, fn,
		  arg);
	gauge_one("kvpool_master_hidden_nodes", "nodes that are suspect",
		  m->n_hidden, fn, arg);
	gauge_one("kvpool_master_lacking_nodes",
		  "nodes that only other masters hear of",
		  m->others.lacking.len / sizeof(uint64_t), fn, arg);
	gauge_one("kvpool_master_parted_nodes",
		  "of these: nodes that had joined here", m->others.parted, fn,
		  arg);
	gauge_one("kvpool_master_others", "other masters that nodes tell of",
		  m->others.known, fn, arg);
	gauge_one("kvpool_master_away_nodes",
		  "nodes that are lost and may come back", m->pending.n_away,
		  fn, arg);
	gauge_one("kvpool_master_pending_removals",
		  "removals that such nodes are to be told of",
		  m->pending.n_removals, fn, arg);
	gauge_one("kvpool_master_pending_bytes", "memory of these",
		  m->pending.bytes, fn, arg);
	gauge_one("kvpool_master_generations",
		  "tenants all of which was removed at some time",
		  m->generations.count, fn, arg);
	gauge_one("kvpool_master_conns", "open connections", m->n_peers, fn,
		  arg);
	gauge_one("kvpool_master_dir_bytes", "memory of the directory",
		  kv_dir_bytes(m->dir), fn, arg);
	nodes_find(&nodes, m);
	for (i = 0; i < KV_ARRAY_LEN(gauges); i++)
		gauge_each(&nodes, &gauges[i], fn, arg);
	for (i = 0; i < KV_MASTERSTATS; i++) {
		line.name = rows[i].name;
		line.text = rows[i].text;
		line.value = m->stats[i];
		fn(arg, &line);
	}
}

struct text {
	struct kv_bytes *out;
	int status;
};

static void
text_line(void *arg, const struct kv_masterstats_line *line)
{
	char segment[4 * KV_NAME_BYTES_MAX * 2 + 1];
	struct text *t = arg;

	if (t->status < 0)
		return;
	if (!line->segment) {
		t->status = kv_bytes_printf(t->out, "%s %" PRIu64 "\n",
					    line->name, line->value);
		return;
	}
	kv_str_escape(segment, sizeof(segment), line->segment,
		      strlen(line->segment));
	t->status = kv_bytes_printf(t->out, "%s{segment=\"%s\"} %" PRIu64 "\n",
				    line->name, segment, line->value);
}

int
kv_masterstats_text(const struct kv_master *m, struct kv_bytes *out)
{
	struct text t = { .out = out, .status = kv_stats_who(out) };

	kv_masterstats_each(m, text_line, &t);
	return t.status;
}

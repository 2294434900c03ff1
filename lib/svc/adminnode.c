/* Routes of a node. */
#include <inttypes.h>
#include <stdio.h>

#include "base/num.h"
#include "base/str.h"
#include "svc/admincore.h"
#include "svc/node.h"

/* What kvclient's /health says in "code", as Mooncake's health_check() does. */
enum health {
	HEALTHY,
	NOT_RUNNING,
	NO_MASTER,
};

static enum health
health_of(const struct kv_admin *a)
{
	if (a->is_draining)
		return NOT_RUNNING;
	if (kv_node_masters(a->node) > 0 && kv_node_sessions(a->node) == 0)
		return NO_MASTER;
	return HEALTHY;
}

/* Without a master a node serves those that know it: no reason to kill it. */
static void
health(struct kv_exchange *x, void *admin)
{
	static const char *const words[] = {
		[HEALTHY] = "healthy",
		[NOT_RUNNING] = "unhealthy",
		[NO_MASTER] = "degraded",
	};
	const struct kv_admin *a = admin;
	enum health h = health_of(a);
	struct kv_bytes body = { 0 };
	struct kv_json j = { .out = &body };

	kv_json_begin(&j, NULL, '{');
	kv_json_string(&j, "status", words[h]);
	kv_json_u64(&j, "code", h);
	kv_json_u64(&j, "masters", kv_node_sessions(a->node));
	kv_json_end(&j, '{');
	if (j.status == 0)
		kv_exchange_answer(x, h == NOT_RUNNING ? 503 : 200,
				   KV_EXCHANGE_JSON, &body);
	else
		kv_exchange_fail(x);
	kv_bytes_fini(&body);
}

/* A counter's name ends in _total. */
static void
metric(void *arg, const struct kv_node_stat *stat)
{
	struct kv_prom *p = arg;
	char name[96];

	snprintf(name, sizeof(name), "kvpool_node_%s%s", stat->name,
		 stat->is_counter ? "_total" : "");
	kv_prom_family(p, name,
		       stat->is_counter ? KV_PROM_COUNTER : KV_PROM_GAUGE,
		       stat->text);
	kv_prom_sample(p, stat->value);
	p->name = NULL;
}

static void
metrics(struct kv_exchange *x, void *admin)
{
	const struct kv_admin *a = admin;
	struct kv_bytes body = { 0 };
	struct kv_prom p = { .out = &body };

	kv_admin_build_info(&p);
	kv_node_stats_each(a->node, metric, &p);
	kv_admin_answer(x, KV_PROM_CONTENT_TYPE, p.status, &body);
}

static void
summary(struct kv_exchange *x, void *admin)
{
	const struct kv_admin *a = admin;
	struct kv_bytes body = { 0 };
	struct kv_heartbeat room;
	char used[16], pool[16], pinned[16];
	uint64_t ready, empty;
	int status;

	kv_node_room(a->node, &room);
	ready = kv_get64(room.ready_bytes);
	empty = kv_min_u64(ready, kv_get64(room.free_bytes));
	kv_str_size_format(used, sizeof(used), ready - empty);
	kv_str_size_format(pool, sizeof(pool), kv_get64(room.pool_bytes));
	kv_str_size_format(pinned, sizeof(pinned), kv_get64(room.pinned_bytes));
	status = kv_bytes_printf(
		&body,
		"Mem Storage: %s / %s | Keys: %" PRIu64
		" (soft-pinned: %" PRIu64 ") | Pinned: %s | "
		"Evicted: %" PRIu64 " | Masters: %u\n",
		used, pool, kv_get64(room.keys), kv_get64(room.soft_pinned),
		pinned, kv_get64(room.evicted_keys), kv_node_sessions(a->node));
	kv_admin_answer(x, KV_EXCHANGE_TEXT, status, &body);
}

const struct kv_exchange_route kv_adminnode_routes[] = {
	{ "GET", "/health", health },
	{ "GET", "/metrics", metrics },
	{ "GET", "/metrics/summary", summary },
};
const size_t kv_adminnode_n_routes = KV_ARRAY_LEN(kv_adminnode_routes);

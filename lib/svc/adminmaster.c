/* Routes of a master: itself and its nodes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/status.h"
#include "base/str.h"
#include "svc/admincore.h"
#include "svc/master.h"
#include "svc/masterstats.h"
#include "wire/map.h"

enum {
	CODE_NO_SEGMENT = -101, /* Mooncake's SEGMENT_NOT_FOUND */
};

static const char *
ha_state(const struct kv_admin *a)
{
	return a->is_draining ? "starting" : "serving";
}

/* All masters are equal: each that serves is what Mooncake calls a leader. */
static const char *
role_name(const struct kv_admin *a)
{
	return a->is_draining ? "standby" : "leader";
}

static void
answer_string(struct kv_exchange *x, const char *s)
{
	struct kv_bytes body = { 0 };
	int status = kv_bytes_append(&body, s, strlen(s));

	kv_admin_answer(x, KV_EXCHANGE_TEXT, status, &body);
}

static void
health(struct kv_exchange *x, void *admin)
{
	const struct kv_admin *a = admin;
	struct kv_bytes body = { 0 };
	struct kv_json j = { .out = &body };

	kv_json_begin(&j, NULL, '{');
	kv_json_string(&j, "status", "ok");
	kv_json_string(&j, "role", role_name(a));
	kv_json_string(&j, "ha_state", ha_state(a));
	kv_json_bool(&j, "service_ready", !a->is_draining);
	kv_json_bool(&j, "complete", kv_master_is_complete(a->master));
	kv_json_u64(&j, "nodes", kv_master_nodes(a->master));
	kv_json_end(&j, '{');
	kv_admin_answer(x, KV_EXCHANGE_JSON, j.status, &body);
}

static void
role(struct kv_exchange *x, void *admin)
{
	answer_string(x, role_name(admin));
}

static void
state(struct kv_exchange *x, void *admin)
{
	answer_string(x, ha_state(admin));
}

static void
leader(struct kv_exchange *x, void *admin)
{
	struct kv_bytes body = { 0 };
	struct kv_json j = { .out = &body };

	(void)admin;
	kv_json_begin(&j, NULL, '{');
	kv_json_bool(&j, "present", false);
	kv_json_end(&j, '{');
	kv_admin_answer(x, KV_EXCHANGE_JSON, j.status, &body);
}

/* ---- metrics ---- */

static void
metric(void *arg, const struct kv_masterstats_line *line)
{
	struct kv_prom *p = arg;

	kv_prom_family(p, line->name,
		       line->is_counter ? KV_PROM_COUNTER : KV_PROM_GAUGE,
		       line->text);
	if (line->segment)
		kv_prom_labelled(p, "segment", line->segment, line->value);
	else
		kv_prom_sample(p, line->value);
}

static void
metrics(struct kv_exchange *x, void *admin)
{
	const struct kv_admin *a = admin;
	struct kv_bytes body = { 0 };
	struct kv_prom p = { .out = &body };

	kv_admin_build_info(&p);
	kv_masterstats_each(a->master, metric, &p);
	kv_admin_answer(x, KV_PROM_CONTENT_TYPE, p.status, &body);
}

/* What the line of text shows, picked from the metrics. */
enum {
	USED,
	CAPACITY,
	KEYS,
	SOFT_PINNED,
	CLIENTS,
	GETS,
	GETS_VALID,
	EVICTED,
	PICKED
};

static const char *const picked_names[PICKED] = {
	[USED] = "master_allocated_bytes",
	[CAPACITY] = "master_total_capacity_bytes",
	[KEYS] = "master_key_count",
	[SOFT_PINNED] = "master_soft_pin_key_count",
	[CLIENTS] = "master_active_clients",
	[GETS] = "total_get_nums_",
	[GETS_VALID] = "valid_get_nums_",
	[EVICTED] = "master_evicted_key_count",
};

static void
pick(void *arg, const struct kv_masterstats_line *line)
{
	uint64_t *v = arg;
	size_t i;

	for (i = 0; i < PICKED; i++)
		if (!line->segment && strcmp(line->name, picked_names[i]) == 0)
			v[i] = line->value;
}

static void
summary(struct kv_exchange *x, void *admin)
{
	const struct kv_admin *a = admin;
	struct kv_bytes body = { 0 };
	uint64_t v[PICKED] = { 0 };
	char used[16], capacity[16];
	int status;

	kv_masterstats_each(a->master, pick, v);
	kv_str_size_format(used, sizeof(used), v[USED]);
	kv_str_size_format(capacity, sizeof(capacity), v[CAPACITY]);
	status = kv_bytes_printf(
		&body,
		"role=%s, state=%s, service_ready=%s, master={"
		"Mem Storage: %s / %s (%.1f%%) | SSD Storage: 0 B / 0 B | "
		"Keys: %" PRIu64 " (soft-pinned: %" PRIu64 ") | "
		"Clients: %" PRIu64 " | Gets (found/all): %" PRIu64 "/%" PRIu64
		" | Evicted: %" PRIu64 "}\n",
		role_name(a), ha_state(a), a->is_draining ? "false" : "true",
		used, capacity,
		v[CAPACITY] ? 100.0 * (double)v[USED] / (double)v[CAPACITY] : 0,
		v[KEYS], v[SOFT_PINNED], v[CLIENTS], v[GETS_VALID], v[GETS],
		v[EVICTED]);
	kv_admin_answer(x, KV_EXCHANGE_TEXT, status, &body);
}

/* ---- nodes, which Mooncake calls segments ---- */

/* By address; the one that was heard last comes first. */
static int
compare(const void *va, const void *vb)
{
	const struct kv_map_node *a = va, *b = vb;
	size_t n = kv_min_size(a->rec->addr_len, b->rec->addr_len);
	uint32_t ms_a = kv_get32(a->rec->heard_ms);
	uint32_t ms_b = kv_get32(b->rec->heard_ms);
	int c = memcmp(a->addr, b->addr, n);

	if (c == 0)
		c = a->rec->addr_len - b->rec->addr_len;
	if (c == 0)
		c = (ms_a > ms_b) - (ms_a < ms_b);
	return c;
}

static bool
is_at(const struct kv_map_node *node, const char *addr, size_t len)
{
	return node->rec->addr_len == len && memcmp(node->addr, addr, len) == 0;
}

/* In the order of their addresses, which are their names: each once. */
struct nodes {
	struct kv_bytes bytes;
	struct kv_map_node *v;
	unsigned n;
};

static bool
nodes_find(struct nodes *nodes, struct kv_admin *a)
{
	unsigned i, n = 0, count;
	struct kv_cut cut;

	if (kv_master_records(a->master, &nodes->bytes, &count) < 0)
		return false;
	nodes->v = calloc(count + 1, sizeof(*nodes->v));
	if (!nodes->v)
		return false;
	cut = (struct kv_cut){ .p = nodes->bytes.data,
			       .left = nodes->bytes.len };
	while (nodes->n < count && kv_map_node_take(&cut, &nodes->v[nodes->n]))
		nodes->n++;
	qsort(nodes->v, nodes->n, sizeof(nodes->v[0]), compare);
	for (i = 0; i < nodes->n; i++)
		if (n == 0 || !is_at(&nodes->v[n - 1], nodes->v[i].addr,
				     nodes->v[i].rec->addr_len))
			nodes->v[n++] = nodes->v[i];
	nodes->n = n;
	return true;
}

static void
nodes_close(struct nodes *nodes)
{
	kv_bytes_fini(&nodes->bytes);
	free(nodes->v);
}

/* False: it was answered. */
static bool
nodes_open(struct nodes *nodes, struct kv_admin *a, struct kv_exchange *x)
{
	*nodes = (struct nodes){ .n = 0 };
	if (kv_admin_is_over(a, x))
		return false;
	if (nodes_find(nodes, a))
		return true;
	nodes_close(nodes);
	kv_exchange_fail(x);
	return false;
}

/* Whether it can be asked for something. */
static bool
is_mounted(const struct kv_map_node *node)
{
	return node->rec->state == KV_NODE_LIVE ||
	       node->rec->state == KV_NODE_JOINING;
}

static uint64_t
used_bytes(const struct kv_map_node *node)
{
	uint64_t ready = kv_get64(node->rec->ready_bytes);

	return ready - kv_min_u64(ready, kv_get64(node->rec->free_bytes));
}

/* Names and numbers are Mooncake's, but for the two that it has not. */
static const struct {
	const char *name;
	unsigned number;
} states[] = {
	[KV_NODE_JOINING] = { "JOINING", 0 },
	[KV_NODE_LIVE] = { "OK", 1 },
	[KV_NODE_SUSPECT] = { "SUSPECT", 0 },
	[KV_NODE_LEAVING] = { "DRAINING", 2 },
};

static void
segments(struct kv_exchange *x, void *admin)
{
	struct kv_bytes body = { 0 };
	const struct kv_map_node *v;
	struct nodes nodes;
	unsigned i;
	int status = 0;

	if (!nodes_open(&nodes, admin, x))
		return;
	for (i = 0; i < nodes.n && status == 0; i++) {
		v = &nodes.v[i];
		if (is_mounted(v))
			status = kv_bytes_printf(&body, "%.*s\n",
						 v->rec->addr_len, v->addr);
	}
	nodes_close(&nodes);
	kv_admin_answer(x, KV_EXCHANGE_TEXT, status, &body);
}

static void
detail(struct kv_json *j, const struct kv_map_node *node)
{
	const struct kv_node_rec *r = node->rec;
	uint64_t pool = kv_get64(r->pool_bytes), used = used_bytes(node);
	struct kv_admin_uuid id = kv_admin_uuid(r->boot);
	char size[16];

	kv_str_size_format(size, sizeof(size), pool);
	kv_json_begin(j, NULL, '{');
	kv_json_text(j, "segment_name", node->addr, r->addr_len);
	kv_json_string(j, "segment_id", id.s);
	kv_json_string(j, "client_id", id.s);
	kv_json_string(j, "base_address", "0x0");
	kv_json_u64(j, "size_bytes", pool);
	kv_json_string(j, "size_human", size);
	kv_json_text(j, "te_endpoint", node->addr, r->addr_len);
	kv_json_string(j, "protocol", "tcp");
	kv_json_string(j, "status", states[r->state].name);
	kv_json_u64(j, "allocator_used_bytes", used);
	kv_json_u64(j, "allocator_capacity_bytes", pool);
	kv_json_percent(j, "allocator_usage_percent", used, pool);
	kv_json_text(j, "name", node->name, r->name_len);
	kv_json_u64(j, "ready_bytes", kv_get64(r->ready_bytes));
	kv_json_u64(j, "pinned_bytes", kv_get64(r->pinned_bytes));
	kv_json_u64(j, "keys", kv_get64(r->keys));
	kv_json_u64(j, "heard_ms", kv_get32(r->heard_ms));
	kv_json_end(j, '{');
}

static void
details(struct kv_exchange *x, void *admin)
{
	struct kv_bytes body = { 0 };
	struct kv_json j = { .out = &body };
	struct nodes nodes;
	unsigned i;

	if (!nodes_open(&nodes, admin, x))
		return;
	kv_json_begin(&j, NULL, '{');
	kv_json_u64(&j, "total_segments", nodes.n);
	kv_json_begin(&j, "segments", '[');
	for (i = 0; i < nodes.n; i++)
		detail(&j, &nodes.v[i]);
	kv_json_end(&j, '[');
	kv_json_end(&j, '{');
	nodes_close(&nodes);
	kv_admin_answer(x, KV_EXCHANGE_JSON, j.status, &body);
}

/* The node that ?segment= names, in `nodes` that are to be closed; NULL: there
 * is none, which was answered. */
static const struct kv_map_node *
find_segment(struct kv_exchange *x, struct kv_admin *a, struct nodes *nodes)
{
	const struct kv_urlquery_text *name;
	unsigned i;

	if (!kv_admin_argument(x, "segment", &name) || !nodes_open(nodes, a, x))
		return NULL;
	for (i = 0; i < nodes->n; i++)
		if (is_at(&nodes->v[i], name->p, name->len))
			return &nodes->v[i];
	nodes_close(nodes);
	kv_exchange_error(x, 404, CODE_NO_SEGMENT, "no such segment");
	return NULL;
}

static void
segment(struct kv_exchange *x, void *admin)
{
	struct kv_bytes body = { 0 };
	const struct kv_map_node *node;
	struct nodes nodes;
	int status;

	node = find_segment(x, admin, &nodes);
	if (!node)
		return;
	status = kv_bytes_printf(&body,
				 "%.*s\nUsed(bytes): %" PRIu64
				 "\nCapacity(bytes) : %" PRIu64 "\n",
				 node->rec->addr_len, node->addr,
				 used_bytes(node),
				 kv_get64(node->rec->pool_bytes));
	nodes_close(&nodes);
	kv_admin_answer(x, KV_EXCHANGE_TEXT, status, &body);
}

static void
segment_status(struct kv_exchange *x, void *admin)
{
	struct kv_bytes body = { 0 };
	struct kv_json j = { .out = &body };
	const struct kv_map_node *node;
	struct nodes nodes;

	node = find_segment(x, admin, &nodes);
	if (!node)
		return;
	kv_json_begin(&j, NULL, '{');
	kv_json_bool(&j, "success", true);
	kv_json_text(&j, "segment", node->addr, node->rec->addr_len);
	kv_json_u64(&j, "status", states[node->rec->state].number);
	kv_json_string(&j, "status_name", states[node->rec->state].name);
	kv_json_end(&j, '{');
	nodes_close(&nodes);
	kv_admin_answer(x, KV_EXCHANGE_JSON, j.status, &body);
}

const struct kv_exchange_route kv_adminmaster_routes[] = {
	{ "GET", "/health", health },
	{ "GET", "/role", role },
	{ "GET", "/ha_status", state },
	{ "GET", "/leader", leader },
	{ "GET", "/metrics", metrics },
	{ "GET", "/metrics/summary", summary },
	{ "GET", "/get_all_segments", segments },
	{ "GET", "/get_segments_detail", details },
	{ "GET", "/query_segment", segment },
	{ "GET", "/api/v1/segments/status", segment_status },
	{ "GET", "/get_all_keys", kv_adminkeys_list },
	{ "GET", "/query_key", kv_adminquery_one },
	{ "GET", "/batch_query_keys", kv_adminquery_batch },
	{ "POST", "/api/v1/remove_all", kv_adminkeys_remove_all },
};
const size_t kv_adminmaster_n_routes = KV_ARRAY_LEN(kv_adminmaster_routes);

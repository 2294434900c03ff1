#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/status.h"
#include "store/pattern.h"
#include "svc/ask.h"
#include "svc/client.h"
#include "svc/gentable.h"
#include "svc/vec.h"

/* The master passes these on to nodes, which may take their time. */
#define RELAY_NS   (6 * KV_NS_PER_S)
#define LIST_LIMIT 4096 /* keys of one page */
#define LATE_TRIES 4    /* others remove at the same time */

int
kv_client_check_pattern(const char *pattern, char *err, size_t err_bytes)
{
	char text[KV_PATTERN_TEXT_BYTES];
	struct kv_pattern *p;

	p = kv_pattern_new(pattern, strlen(pattern), text);
	if (!p) {
		snprintf(err, err_bytes, "%s", text);
		return -KV_EINVALID;
	}
	kv_pattern_free(p);
	return 0;
}

/* ---- remove ---- */

struct remove_question {
	struct kv_client_question q;
	enum kv_remove_op op;
	bool force;
	const struct kv_key *keys; /* KV_REMOVE_KEYS */
	size_t n;
	const char *pattern; /* KV_REMOVE_REGEX */
	int *status;         /* of each key, or NULL */
	uint64_t removed;
	uint64_t kept;
	uint64_t undecided;
	uint32_t away;
	bool is_record; /* another master has done it, this one remembers */
	bool has_gaps;  /* who answered last may not know all nodes */
	bool is_partly; /* but it may not reach all nodes: this one does it too
			 */
	bool is_begun;  /* the generation holds */
	bool is_late;   /* another one came before; its generation is known */
	struct kv_generation generation; /* KV_REMOVE_ALL: that it begins */
};

static int
remove_build(struct kv_ask *ask, struct kv_conn *c, void *body)
{
	struct remove_question *r =
		KV_CONTAINER_OF(ask, struct remove_question, q.ask);
	const char *tenant = ask->ch->hub->tenant;
	size_t tenant_len = strlen(tenant), bytes = tenant_len, i;
	size_t pattern_len = r->pattern ? strlen(r->pattern) : 0;
	struct kv_remove *b = body;
	struct kv_le16 *lens;
	char *p;

	b->op = (uint8_t)r->op;
	b->flags = (r->force ? KV_REMOVE_FORCE : 0) |
		   (r->is_record ? KV_REMOVE_RECORD : 0);
	b->generation = kv_gentable_build(r->generation);
	b->tenant_len = (uint8_t)tenant_len;
	b->count = kv_le32(
		(uint32_t)(r->op == KV_REMOVE_REGEX ? pattern_len : r->n));
	for (i = 0; i < r->n; i++)
		bytes += sizeof(*lens) + r->keys[i].len;
	p = kv_conn_tail(c, bytes + pattern_len);
	if (!p)
		return -ENOMEM;
	memcpy(p, tenant, tenant_len);
	p += tenant_len;
	lens = (struct kv_le16 *)(void *)p;
	p += r->n * sizeof(*lens);
	for (i = 0; i < r->n; i++) {
		lens[i] = kv_le16((uint16_t)r->keys[i].len);
		memcpy(p, r->keys[i].data, r->keys[i].len);
		p += r->keys[i].len;
	}
	if (pattern_len > 0)
		memcpy(p, r->pattern, pattern_len);
	return 0;
}

static int
remove_take(struct kv_client_question *q, const struct kv_msg *msg)
{
	struct remove_question *r =
		KV_CONTAINER_OF(q, struct remove_question, q);
	const struct kv_remove_r *b = msg->body;
	const uint8_t *statuses;
	struct kv_generation g;
	struct kv_cut c;
	size_t i;

	if (b->status != KV_OK) {
		r->is_late = b->status == KV_EBUSY;
		kv_hub_heard(q->ask.ch->hub, kv_gentable_parse(&b->generation));
		return kv_status_of_peer(b->status);
	}
	kv_cut_init(&c, msg);
	statuses = kv_cut_take(&c, kv_get32(b->count));
	kv_cut_array(&c, kv_get32(b->away), sizeof(struct kv_id));
	if (!kv_cut_done(&c))
		return -KV_EPROTO;
	if (r->is_record) {
		r->away = (uint32_t)kv_max_u64(r->away, kv_get32(b->away));
		return 0;
	}
	if (r->op == KV_REMOVE_KEYS && kv_get32(b->count) != r->n)
		return -KV_EPROTO;
	g = kv_gentable_parse(&b->generation);
	r->is_begun = g.number > 0 && kv_generation_is_equal(g, r->generation);
	r->generation = g;
	kv_hub_heard(q->ask.ch->hub, g);
	for (i = 0; r->status && i < r->n; i++)
		if (!r->is_partly || r->status[i] == -KV_EMISS ||
		    statuses[i] == KV_OK)
			r->status[i] = -statuses[i];
	r->removed += kv_get64(b->removed);
	if (r->is_partly) {
		r->kept = kv_max_u64(r->kept, kv_get32(b->kept));
		r->undecided = kv_max_u64(r->undecided, kv_get64(b->undecided));
	} else {
		r->kept += kv_get32(b->kept);
		r->undecided += kv_get64(b->undecided);
	}
	r->away = kv_get32(b->away) + q->is_partial;
	r->has_gaps = b->flags != 0;
	r->is_partly = r->has_gaps || r->away > 0;
	return 0;
}

/*
 * The removal has its generation from here, so it is one and the same for each
 * master that is asked: one that was asked first and comes to it last removes
 * nothing that was put after this call.
 */
static void
generation_choose(struct kv_hub *hub, struct remove_question *r)
{
	if (r->op != KV_REMOVE_ALL)
		return;
	r->generation =
		kv_generation_next(kv_hub_generation(hub), kv_hub_seed(hub));
}

/* Whoever else removes at the same time ends before it is asked again, so one
 * of them gets on. */
static int
remove_insist(struct kv_client *c, struct remove_question *r)
{
	uint64_t until = kv_clock_now(&(struct kv_clock){ 0 }) +
			 c->timeout_ms * KV_NS_PER_MS;
	int rc, tries = 0;

	for (;;) {
		r->is_late = false;
		rc = kv_client_ask(c, &r->q);
		if (rc >= 0 || !r->is_late || ++tries == LATE_TRIES ||
		    kv_clock_now(&(struct kv_clock){ 0 }) >= until)
			return rc;
		generation_choose(&c->hub, r);
	}
}

/* Who did it too, and reached more nodes, has done it there. */
static uint32_t
away_of(const struct remove_question *r, const struct remove_question *other)
{
	if (other->is_record || other->has_gaps)
		return (uint32_t)kv_max_u64(r->away, other->away);
	return (uint32_t)kv_min_u64(r->away, other->away);
}

/*
 * The other masters are told: nodes that are away from there may be others. One
 * that cannot be reached has no node that could come back to it before the
 * nodes that were asked have told it of the generation.
 *
 * Where that holds they do it once more, as they do where one before them may
 * not reach all nodes: that one may have been started a moment ago. One that
 * began a higher one had to:
 * then those before it come to that again, or what is put at their nodes from
 * now on would go as soon as these hear of it.
 */
static int
remove_record(struct kv_client *c, struct remove_question *r)
{
	struct remove_question record = *r;
	uint32_t told = 1u << r->q.ask.master;
	struct kv_generation before;
	int i, rc, raises = 0;

	for (i = 0; i < (int)c->hub.n_masters; i++) {
		if (told & 1u << i)
			continue;
		before = record.generation;
		record.is_record = !record.is_begun && !record.is_partly;
		record.q.ask.or_local = false;
		record.q.ask.is_extra = true;
		record.q.ask.skip = ~(1u << i);
		rc = remove_insist(c, &record);
		if (record.is_late)
			return rc;
		r->removed = record.removed;
		r->kept = record.kept;
		r->undecided = record.undecided;
		if (rc == 0)
			r->away = away_of(r, &record);
		told |= 1u << i;
		if (!record.is_begun ||
		    kv_generation_is_equal(record.generation, before))
			continue;
		if (++raises == LATE_TRIES)
			return -KV_EBUSY;
		told = 1u << i;
		i = -1;
	}
	return 0;
}

static int
remove_ask(struct kv_client *c, struct remove_question *r)
{
	int rc;

	generation_choose(&c->hub, r);
	r->q.ask = (struct kv_ask){
		.type = KV_MSG_REMOVE,
		.or_local = true,
		.try_ns = RELAY_NS,
		.build = remove_build,
	};
	r->q.take = remove_take;
	rc = remove_insist(c, r);
	if (rc == 0 && !r->q.ask.from_local)
		rc = remove_record(c, r);
	return rc;
}

/* How many of n keys fit into one REMOVE. */
static size_t
remove_fit(const struct kv_key *keys, size_t n)
{
	size_t tail = KV_TENANT_BYTES_MAX, i;

	for (i = 0; i < n && i < KV_BATCH_KEYS_MAX; i++) {
		tail += sizeof(struct kv_le16) + keys[i].len;
		if (tail > KV_TAIL_MAX)
			break;
	}
	return i;
}

long
kv_client_remove(struct kv_client *c, const struct kv_key *keys, size_t n,
		 int force, int *status, uint32_t *away)
{
	struct remove_question r = {
		.op = KV_REMOVE_KEYS,
		.force = force != 0,
	};
	uint32_t most_away = 0;
	size_t i;
	int rc;

	if (!c || (n > 0 && !keys))
		return -KV_EINVALID;
	for (i = 0; i < n; i++)
		if (!kv_vec_is_valid(&keys[i], NULL, 0))
			return -KV_EINVALID;
	for (i = 0; i < n; i += r.n) {
		r.keys = keys + i;
		r.n = remove_fit(keys + i, n - i);
		r.status = status ? status + i : NULL;
		rc = remove_ask(c, &r);
		if (rc < 0 && i == 0)
			return rc;
		if (rc < 0) {
			for (; status && i < n; i++)
				status[i] = rc;
			break;
		}
		if (r.away > most_away)
			most_away = r.away;
	}
	if (away)
		*away = most_away;
	return (long)r.removed;
}

long
kv_client_remove_matching(struct kv_client *c, const char *pattern, int force,
			  uint64_t *kept, uint64_t *undecided, uint32_t *away)
{
	struct remove_question r = {
		.op = pattern ? KV_REMOVE_REGEX : KV_REMOVE_ALL,
		.force = force != 0,
		.pattern = pattern,
	};
	int rc;

	if (!c || (pattern && (!*pattern || strlen(pattern) > UINT16_MAX)))
		return -KV_EINVALID;
	rc = remove_ask(c, &r);
	if (rc < 0)
		return rc;
	if (kept)
		*kept = r.kept;
	if (undecided)
		*undecided = r.undecided;
	if (away)
		*away = r.away;
	return (long)r.removed;
}

/* ---- list ---- */

struct list_question {
	struct kv_client_question q;
	const char *pattern;
	struct kv_id node; /* whose page is asked for */
	uint64_t cursor;
	kv_client_listed_fn *fn;
	void *arg;
	struct kv_bytes page; /* the keys of the answer, fn's turn later */
	uint32_t count;
	struct kv_id of; /* whose keys they are */
	uint64_t undecided;
	uint32_t away;
};

static int
list_build(struct kv_ask *ask, struct kv_conn *c, void *body)
{
	struct list_question *l =
		KV_CONTAINER_OF(ask, struct list_question, q.ask);
	const char *tenant = ask->ch->hub->tenant;
	size_t tenant_len = strlen(tenant);
	size_t pattern_len = l->pattern ? strlen(l->pattern) : 0;
	struct kv_keys *b = body;
	char *p;

	b->node = l->node;
	b->cursor = kv_le64(l->cursor);
	b->limit = kv_le32(LIST_LIMIT);
	b->pattern_len = kv_le16((uint16_t)pattern_len);
	b->tenant_len = (uint8_t)tenant_len;
	p = kv_conn_tail(c, tenant_len + pattern_len);
	if (!p)
		return -ENOMEM;
	memcpy(p, tenant, tenant_len);
	if (pattern_len > 0)
		memcpy(p + tenant_len, l->pattern, pattern_len);
	return 0;
}

/* Keeps the page; the caller's function runs outside the loop. */
static int
list_take(struct kv_client_question *q, const struct kv_msg *msg)
{
	struct list_question *l = KV_CONTAINER_OF(q, struct list_question, q);
	const struct kv_keys_r *b = msg->body;
	const struct kv_keys_ent *e;
	struct kv_cut c;
	size_t bytes = 0;
	uint32_t i;

	kv_bytes_reset(&l->page);
	l->count = 0;
	l->of = b->node;
	l->node = b->next;
	l->cursor = kv_get64(b->cursor);
	if (b->status != KV_OK) {
		l->away++;
		return 0;
	}
	kv_cut_init(&c, msg);
	e = kv_cut_array(&c, kv_get32(b->count), sizeof(*e));
	for (i = 0; e && i < kv_get32(b->count); i++)
		bytes += kv_get16(e[i].key_len);
	kv_cut_take(&c, bytes);
	if (!kv_cut_done(&c))
		return -KV_EPROTO;
	if (kv_bytes_append(&l->page, msg->tail, msg->tail_len) < 0)
		return -KV_ENOMEM;
	l->count = kv_get32(b->count);
	l->undecided += kv_get64(b->undecided);
	return 0;
}

/* Tells the caller of the page's keys. True: it wants no more. */
static bool
list_tell(struct kv_client *c, struct list_question *l, long *told)
{
	const struct kv_keys_ent *e = (const void *)l->page.data;
	const char *key = (const char *)(e + l->count);
	struct kv_hub_node node = { 0 };
	struct kv_client_listed one = { .node = node.name };
	uint32_t i;

	if (!kv_hub_node(&c->hub, &l->of, &node))
		node.name[0] = 0;
	if (l->fn(l->arg, NULL))
		return true;
	for (i = 0; i < l->count; i++) {
		++*told;
		one.key = (struct kv_key){ key, kv_get16(e[i].key_len) };
		one.size = kv_get64(e[i].size);
		one.putter = kv_get16(e[i].putter);
		one.is_shared = e[i].flags & KV_KEYS_SHARED;
		if (l->fn(l->arg, &one))
			return true;
		key += one.key.len;
	}
	return false;
}

long
kv_client_list_all(struct kv_client *c, const char *pattern,
		   kv_client_listed_fn *fn, void *arg, uint64_t *undecided,
		   uint32_t *away)
{
	struct list_question l = {
		.q = { .ask = { .type = KV_MSG_KEYS,
				.or_local = true,
				.try_ns = RELAY_NS,
				.build = list_build },
		       .take = list_take },
		.pattern = pattern,
		.fn = fn,
		.arg = arg,
	};
	long told = 0;
	int rc;

	if (!c || !fn || (pattern && strlen(pattern) > UINT16_MAX))
		return -KV_EINVALID;
	kv_client_nodes(c, NULL, 0); /* their names */
	kv_bytes_init(&l.page);
	do {
		rc = kv_client_ask(c, &l.q);
	} while (rc == 0 && !list_tell(c, &l, &told) && !kv_id_is_zero(l.node));
	kv_bytes_fini(&l.page);
	if (undecided)
		*undecided = l.undecided;
	if (away)
		*away = l.away + l.q.is_partial;
	return rc < 0 ? rc : told;
}

struct listener {
	kv_list_fn *fn;
	void *arg;
};

static int
list_one(void *arg, const struct kv_client_listed *l)
{
	const struct listener *to = arg;

	if (!l)
		return 0;
	return to->fn(to->arg, l->key, l->size, l->node);
}

long
kv_client_list(struct kv_client *c, const char *pattern, kv_list_fn *fn,
	       void *arg, uint64_t *undecided, uint32_t *away)
{
	struct listener to = { fn, arg };

	return kv_client_list_all(c, pattern, fn ? list_one : NULL, &to,
				  undecided, away);
}

/* ---- query ---- */

struct query_question {
	struct kv_client_question q;
	struct kv_key key;
	bool want_sum;
	struct kv_replica_info *out;
	size_t max;
	uint32_t count;
	uint32_t away;
};

static int
query_build(struct kv_ask *ask, struct kv_conn *c, void *body)
{
	struct query_question *q =
		KV_CONTAINER_OF(ask, struct query_question, q.ask);
	const char *tenant = ask->ch->hub->tenant;
	size_t tenant_len = strlen(tenant);
	struct kv_query *b = body;
	char *p;

	b->key_len = kv_le16((uint16_t)q->key.len);
	b->tenant_len = (uint8_t)tenant_len;
	b->flags = q->want_sum ? KV_QUERY_SUM : 0;
	p = kv_conn_tail(c, tenant_len + q->key.len);
	if (!p)
		return -ENOMEM;
	memcpy(p, tenant, tenant_len);
	memcpy(p + tenant_len, q->key.data, q->key.len);
	return 0;
}

static void
replica_info(struct kv_replica_info *out, const struct kv_map_query *m)
{
	const struct kv_query_rec *r = m->rec;

	memset(out, 0, sizeof(*out));
	kv_client_hex(out->boot, &r->boot);
	snprintf(out->name, sizeof(out->name), "%.*s", r->name_len, m->name);
	snprintf(out->addr, sizeof(out->addr), "%.*s", r->addr_len, m->addr);
	out->size = kv_get64(r->size);
	out->sum = kv_get64(r->sum);
	out->idle_ms = kv_get64(r->idle_ms);
	out->version_random = kv_get64(r->put_id.random);
	out->version = kv_get32(r->put_id.version);
	out->pool_off = kv_get64(r->off);
	out->pins = kv_get32(r->pins);
	out->extents = kv_get16(r->extents);
	out->soft_pin = (r->flags & KV_PUT_SOFT_PIN) != 0;
	out->hard_pin = (r->flags & KV_PUT_HARD_PIN) != 0;
}

static int
query_take(struct kv_client_question *question, const struct kv_msg *msg)
{
	struct query_question *q =
		KV_CONTAINER_OF(question, struct query_question, q);
	const struct kv_query_r *b = msg->body;
	struct kv_map_query m;
	struct kv_cut c;
	uint32_t i;

	if (b->status != KV_OK && b->status != KV_EMISS)
		return kv_status_of_peer(b->status);
	kv_cut_init(&c, msg);
	for (i = 0; i < kv_get32(b->count); i++) {
		if (!kv_map_query_take(&c, &m))
			return -KV_EPROTO;
		if (i < q->max)
			replica_info(&q->out[i], &m);
	}
	q->count = kv_get32(b->count);
	q->away = kv_get32(b->away) + question->is_partial;
	return 0;
}

long
kv_client_query(struct kv_client *c, struct kv_key key, int want_sum,
		struct kv_replica_info *out, size_t max, uint32_t *away)
{
	struct query_question q = {
		.q = { .ask = { .type = KV_MSG_QUERY,
				.or_local = true,
				.try_ns = RELAY_NS,
				.build = query_build },
		       .take = query_take },
		.key = key,
		.want_sum = want_sum != 0,
		.out = out,
		.max = max,
	};
	int rc;

	if (!c || (max > 0 && !out) || !kv_vec_is_valid(&key, NULL, 0))
		return -KV_EINVALID;
	rc = kv_client_ask(c, &q.q);
	if (rc < 0)
		return rc;
	if (away)
		*away = q.away;
	return q.count;
}

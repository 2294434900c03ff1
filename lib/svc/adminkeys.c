/*
 * All keys, which the nodes are asked for page by page as the client takes
 * them; and their end, /api/v1/remove_all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/limits.h"
#include "base/status.h"
#include "store/key.h"
#include "svc/admincore.h"
#include "svc/master.h"
#include "svc/relay.h"

enum {
	PAGE_KEYS = KV_BATCH_KEYS_MAX,
	AWAY_TEXT_MAX = 4096,
};

struct listing {
	struct kv_exchange *x;
	struct kv_admin *a;
	struct kv_relay *relay; /* while a page is on its way */
	uint8_t tenant_len;
	char tenant[KV_TENANT_BYTES_MAX];
	struct kv_id node; /* where to go on */
	uint64_t cursor;
	bool is_begun; /* the client waits for more, no longer for all */
	bool is_last;
	bool is_json;
	struct kv_json json;
	struct kv_bytes out;  /* not yet written */
	struct kv_bytes away; /* kv_id: nodes that gave nothing */
};

static void
listing_free(struct listing *l)
{
	kv_bytes_fini(&l->out);
	kv_bytes_fini(&l->away);
	free(l);
}

static void
listing_gone(void *arg)
{
	struct listing *l = arg;

	if (l->relay)
		kv_relay_forget(l->relay);
	listing_free(l);
}

/* ---- what is written ---- */

/* A key is a line, so what would break it is written as a query takes it. */
static int
write_line(struct kv_bytes *out, const uint8_t *p, size_t n)
{
	size_t i, plain = 0; /* bytes ahead of i that stay as they are */
	int rc = 0;

	for (i = 0; i < n && rc == 0; i++) {
		if (p[i] >= 0x20 && p[i] != 0x7f) {
			plain++;
			continue;
		}
		rc = kv_bytes_append(out, p + i - plain, plain);
		plain = 0;
		if (rc == 0)
			rc = kv_bytes_printf(out, "%%%02X", p[i]);
	}
	if (rc == 0)
		rc = kv_bytes_append(out, p + i - plain, plain);
	return rc ? rc : kv_bytes_append(out, "\n", 1);
}

static int
write_key(struct listing *l, const uint8_t *key, size_t len)
{
	if (!l->is_json)
		return write_line(&l->out, key, len);
	kv_json_text(&l->json, NULL, key, len);
	return l->json.status;
}

/* Copies of a key on several nodes are one key: the first one's. */
static int
write_page(struct listing *l, const struct kv_msg *msg)
{
	const struct kv_keys_r *page = msg->body;
	uint32_t i, n = kv_get32(page->count);
	uint64_t seed = kv_key_seed(l->tenant, l->tenant_len);
	const struct kv_keys_ent *ent;
	const uint8_t *key;
	struct kv_cut cut;
	size_t len;
	int rc = 0;

	kv_cut_init(&cut, msg);
	ent = kv_cut_array(&cut, n, sizeof(*ent));
	for (i = 0; ent && i < n && rc == 0; i++) {
		len = kv_get16(ent[i].key_len);
		key = kv_cut_take(&cut, len);
		if (!key)
			return -EPROTO;
		if (kv_master_lists(l->a->master, page->node,
				    kv_key_hash(seed, key, len)))
			rc = write_key(l, key, len);
	}
	return ent ? rc : -EPROTO;
}

static const struct kv_id *
away_ids(const struct kv_bytes *away, size_t *n)
{
	*n = away->len / sizeof(struct kv_id);
	return (const struct kv_id *)(const void *)away->data;
}

/* [ids] of nodes that did not answer. */
static void
write_away(struct kv_json *j, const void *data, size_t n)
{
	const struct kv_id *ids = data;
	size_t i;

	kv_json_begin(j, "away", '[');
	for (i = 0; i < n; i++)
		kv_json_string(j, NULL, kv_admin_uuid(ids[i]).s);
	kv_json_end(j, '[');
}

static void
set_trailer(struct listing *l)
{
	char text[AWAY_TEXT_MAX];
	const struct kv_id *ids;
	size_t i, n, at = 0;

	ids = away_ids(&l->away, &n);
	for (i = 0; i < n && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
				       i ? ", " : "", kv_admin_uuid(ids[i]).s);
	if (n > 0)
		kv_exchange_trailer(l->x, "X-Kvpool-Away", text);
}

/* ---- the walk ---- */

static void page_answered(void *arg, const struct kv_msg *answer);

static bool
page_ask(struct listing *l)
{
	struct kv_keys body = { .node = l->node,
				.cursor = kv_le64(l->cursor),
				.limit = kv_le32(PAGE_KEYS),
				.tenant_len = l->tenant_len };
	struct kv_msg msg = { .type = KV_MSG_KEYS,
			      .body = &body,
			      .tail = (uint8_t *)l->tenant,
			      .tail_len = l->tenant_len };

	l->relay = kv_relay_ask(l->a->master, &msg, page_answered, l);
	return l->relay;
}

/* The client gets no more; it sees that the end is missing. */
static void
listing_fail(struct listing *l, enum kv_status status)
{
	if (l->is_begun)
		kv_exchange_end(l->x, false);
	else
		kv_admin_refuse(l->x, 503, status);
	listing_free(l);
}

static void
listing_end(struct listing *l)
{
	set_trailer(l);
	kv_exchange_end(l->x, true);
	listing_free(l);
}

/* The client takes more. */
static void
more(void *arg)
{
	struct listing *l = arg;

	if (l->out.len > 0) {
		kv_exchange_write(l->x, &l->out);
		if (l->is_last)
			listing_end(l);
	} else if (l->is_last) {
		listing_end(l);
	} else if (!page_ask(l)) {
		listing_fail(l, kv_status_from_errno(errno));
	}
}

static int
page_take(struct listing *l, const struct kv_msg *msg)
{
	const struct kv_keys_r *page = msg->body;
	size_t n;
	int rc;

	if (page->status == KV_OK)
		rc = write_page(l, msg);
	else if (page->status == KV_EGONE)
		rc = 0;
	else
		rc = kv_bytes_append(&l->away, &page->node, sizeof(page->node));
	l->node = page->next;
	l->cursor = kv_get64(page->cursor);
	l->is_last = kv_id_is_zero(page->next);
	if (rc == 0 && l->is_last && l->is_json) {
		kv_json_end(&l->json, '[');
		away_ids(&l->away, &n);
		write_away(&l->json, l->away.data, n);
		kv_json_end(&l->json, '{');
		rc = l->json.status;
	}
	return rc;
}

static void
page_answered(void *arg, const struct kv_msg *answer)
{
	static const char *const types[] = { KV_EXCHANGE_TEXT,
					     KV_EXCHANGE_JSON };
	const struct kv_error_r *e = answer->body;
	struct listing *l = arg;
	int rc;

	l->relay = NULL;
	if (answer->type != KV_MSG_KEYS_R) {
		listing_fail(l, e->status);
		return;
	}
	rc = page_take(l, answer);
	if (rc < 0) {
		listing_fail(l, kv_status_from_errno(rc));
	} else if (!l->is_begun) {
		const struct kv_exchange_source source = { .more = more,
							   .gone = listing_gone,
							   .arg = l };

		l->is_begun = true;
		kv_exchange_stream(l->x, types[l->is_json], &source);
	} else {
		more(l);
	}
}

static bool
wants_json(struct kv_exchange *x)
{
	const char *accept = kv_exchange_header(x, "Accept");

	return kv_admin_flag(x, "json") ||
	       (accept && strstr(accept, "application/json"));
}

void
kv_adminkeys_list(struct kv_exchange *x, void *admin)
{
	struct kv_urlquery_text tenant;
	struct listing *l;

	if (kv_admin_is_over(admin, x) || !kv_admin_tenant(x, &tenant))
		return;
	l = calloc(1, sizeof(*l));
	if (!l) {
		kv_exchange_fail(x);
		return;
	}
	l->x = x;
	l->a = admin;
	l->tenant_len = (uint8_t)tenant.len;
	memcpy(l->tenant, tenant.p, tenant.len);
	l->is_json = wants_json(x);
	l->json.out = &l->out;
	if (l->is_json) {
		kv_json_begin(&l->json, NULL, '{');
		kv_json_begin(&l->json, "keys", '[');
	}
	if (page_ask(l))
		kv_exchange_wait(x, listing_gone, l);
	else
		listing_fail(l, kv_status_from_errno(errno));
}

/* ---- /api/v1/remove_all ---- */

struct removal {
	struct kv_exchange *x;
	struct kv_relay *relay;
};

static void
removal_gone(void *arg)
{
	struct removal *r = arg;

	kv_relay_forget(r->relay);
	free(r);
}

/* Old values may come back with a node that is away: then it is no success. */
static void
removal_write(struct kv_exchange *x, const struct kv_msg *answer)
{
	const struct kv_remove_r *a = answer->body;
	struct kv_bytes body = { 0 };
	struct kv_json j = { .out = &body };
	uint32_t away = kv_get32(a->away);

	kv_json_begin(&j, NULL, '{');
	kv_json_bool(&j, "success", away == 0);
	kv_json_u64(&j, "removed_count", kv_get64(a->removed));
	kv_json_u64(&j, "kept_count", kv_get32(a->kept));
	if (away > 0) {
		kv_json_i64(&j, "error_code",
			    kv_status_mooncake(KV_EUNREACHABLE));
		kv_json_string(&j, "error_message",
			       "not all nodes answered: try again");
		write_away(&j, answer->tail, away);
	}
	kv_json_end(&j, '{');
	if (j.status == 0)
		kv_exchange_answer(x, away ? 503 : 200, KV_EXCHANGE_JSON,
				   &body);
	else
		kv_exchange_fail(x);
	kv_bytes_fini(&body);
}

static void
removal_answered(void *arg, const struct kv_msg *answer)
{
	const struct kv_error_r *e = answer->body;
	struct removal *r = arg;

	if (answer->type == KV_MSG_REMOVE_R)
		removal_write(r->x, answer);
	else
		kv_admin_refuse(r->x, 503, e->status);
	free(r);
}

void
kv_adminkeys_remove_all(struct kv_exchange *x, void *admin)
{
	struct kv_remove body = { .op = KV_REMOVE_ALL };
	struct kv_msg msg = { .type = KV_MSG_REMOVE, .body = &body };
	struct kv_urlquery_text tenant;
	struct kv_admin *a = admin;
	struct removal *r;

	if (kv_admin_is_over(a, x) || !kv_admin_tenant(x, &tenant))
		return;
	if (kv_admin_flag(x, "force"))
		body.flags = KV_REMOVE_FORCE;
	body.tenant_len = (uint8_t)tenant.len;
	msg.tail = (const uint8_t *)tenant.p;
	msg.tail_len = tenant.len;
	r = calloc(1, sizeof(*r));
	if (!r) {
		kv_exchange_fail(x);
		return;
	}
	r->x = x;
	r->relay = kv_relay_ask(a->master, &msg, removal_answered, r);
	if (!r->relay) {
		free(r);
		kv_admin_refuse(x, 503, kv_status_from_errno(errno));
		return;
	}
	kv_exchange_wait(x, removal_gone, r);
}

/*
 * Who holds a key, and where: /query_key for one, /batch_query_keys for many.
 * The master asks the nodes; of a batch some keys at a time.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/status.h"
#include "base/utf8.h"
#include "svc/admincore.h"
#include "svc/relay.h"
#include "wire/map.h"

enum {
	ASKED_MAX = 64, /* keys of a batch, at a time */
};

static bool
is_key(const struct kv_urlquery_text *key)
{
	return key->len >= KV_KEY_BYTES_MIN && key->len <= KV_KEY_BYTES_MAX;
}

/* QUERY. NULL with errno set. */
static struct kv_relay *
ask(struct kv_admin *a, const struct kv_urlquery_text *tenant,
    const struct kv_urlquery_text *key, kv_relay_fn *fn, void *arg)
{
	uint8_t tail[KV_TENANT_BYTES_MAX + KV_KEY_BYTES_MAX];
	struct kv_query body = { .tenant_len = (uint8_t)tenant->len,
				 .key_len = kv_le16((uint16_t)key->len) };
	struct kv_msg msg = { .type = KV_MSG_QUERY,
			      .body = &body,
			      .tail = tail,
			      .tail_len = tenant->len + key->len };

	memcpy(tail, tenant->p, tenant->len);
	memcpy(tail + tenant->len, key->p, key->len);
	return kv_relay_ask(a->master, &msg, fn, arg);
}

/* An answer: KV_OK and the records, or why there are none. */
struct found {
	enum kv_status status;
	uint32_t count;
	uint32_t away; /* nodes that did not answer */
	struct kv_cut records;
};

static struct found
found_parse(const struct kv_msg *answer)
{
	struct found f = { .status = KV_EINTERNAL };
	const struct kv_error_r *e = answer->body;
	const struct kv_query_r *r = answer->body;

	kv_cut_init(&f.records, answer);
	if (answer->type == KV_MSG_QUERY_R) {
		f.count = kv_get32(r->count);
		f.away = kv_get32(r->away);
		f.status = f.count > 0 ? KV_OK : KV_EMISS;
	} else if (answer->type == KV_MSG_ERROR_R && e->status != KV_OK) {
		f.status = e->status;
	}
	return f;
}

static void
replica(struct kv_json *j, const struct kv_map_query *q)
{
	kv_json_begin(j, NULL, '{');
	kv_json_u64(j, "size_", kv_get64(q->rec->size));
	kv_json_u64(j, "buffer_address_", kv_get64(q->rec->off));
	kv_json_string(j, "protocol_", "tcp");
	kv_json_text(j, "transport_endpoint_", q->addr, q->rec->addr_len);
	kv_json_end(j, '{');
}

/* ---- /query_key ---- */

struct one {
	struct kv_exchange *x;
	struct kv_relay *relay;
};

static void
one_gone(void *arg)
{
	struct one *o = arg;

	kv_relay_forget(o->relay);
	free(o);
}

static void
one_missing(struct kv_exchange *x, const struct found *f)
{
	if (f->status == KV_EMISS && f->away > 0)
		kv_exchange_error(x, 404, kv_status_mooncake(KV_EMISS),
				  "no node that answered has this key, "
				  "%" PRIu32 " did not answer",
				  f->away);
	else
		kv_admin_refuse(x, f->status == KV_EMISS ? 404 : 503,
				f->status);
}

/* A line of JSON for each copy. */
static void
one_answered(void *arg, const struct kv_msg *answer)
{
	struct found f = found_parse(answer);
	struct kv_bytes body = { 0 };
	struct kv_map_query q;
	struct one *o = arg;
	uint32_t i;
	int rc = 0;

	for (i = 0; i < f.count && rc == 0; i++) {
		struct kv_json j = { .out = &body };

		if (!kv_map_query_take(&f.records, &q))
			break;
		replica(&j, &q);
		rc = j.status ? j.status : kv_bytes_append(&body, "\n", 1);
	}
	if (f.status == KV_OK)
		kv_admin_answer(o->x, KV_EXCHANGE_TEXT, rc, &body);
	else
		one_missing(o->x, &f);
	free(o);
}

void
kv_adminquery_one(struct kv_exchange *x, void *admin)
{
	const struct kv_urlquery_text *key;
	struct kv_urlquery_text tenant;
	struct one *o;

	if (kv_admin_is_over(admin, x) || !kv_admin_argument(x, "key", &key) ||
	    !kv_admin_tenant(x, &tenant))
		return;
	if (!is_key(key)) {
		kv_exchange_error(x, 400, kv_status_mooncake(KV_EINVALID),
				  "a key has %d to %d bytes", KV_KEY_BYTES_MIN,
				  KV_KEY_BYTES_MAX);
		return;
	}
	o = calloc(1, sizeof(*o));
	if (!o) {
		kv_exchange_fail(x);
		return;
	}
	o->x = x;
	o->relay = ask(admin, &tenant, key, one_answered, o);
	if (!o->relay) {
		free(o);
		kv_admin_refuse(x, 503, kv_status_from_errno(errno));
		return;
	}
	kv_exchange_wait(x, one_gone, o);
}

/* ---- /batch_query_keys ---- */

struct batch;

struct batch_key {
	struct batch *b;
	struct kv_urlquery_text key; /* points into the exchange, or b->list */
	struct kv_relay *relay;      /* while it is asked for */
	enum kv_status status;
	uint32_t count;
	struct kv_bytes records;
};

struct batch {
	struct kv_exchange *x;
	struct kv_admin *a;
	struct kv_urlquery_text tenant;
	struct batch_key *keys;
	size_t n;
	size_t next; /* to be asked for */
	size_t asked;
};

static void
batch_free(struct batch *b)
{
	size_t i;

	for (i = 0; i < b->n; i++)
		kv_bytes_fini(&b->keys[i].records);
	free(b->keys);
	free(b);
}

static void
batch_gone(void *arg)
{
	struct batch *b = arg;
	size_t i;

	for (i = 0; i < b->n; i++)
		if (b->keys[i].relay)
			kv_relay_forget(b->keys[i].relay);
	batch_free(b);
}

/* JSON has no names but text: what is none is shown as it may be asked for. */
static void
begin_key(struct kv_json *j, const struct kv_urlquery_text *key)
{
	char name[3 * KV_KEY_BYTES_MAX + 1];
	size_t i, n = 0;

	if (kv_utf8_is_valid(key->p, key->len)) {
		kv_json_begin_named(j, key->p, key->len);
		return;
	}
	for (i = 0; i < key->len && n < sizeof(name) - 3; i++)
		n += (size_t)snprintf(name + n, sizeof(name) - n, "%%%02X",
				      (unsigned char)key->p[i]);
	kv_json_begin_named(j, name, n);
	kv_json_text(j, "key", key->p, key->len);
}

static void
batch_key_write(struct kv_json *j, const struct batch_key *k)
{
	struct kv_cut cut = { .p = k->records.data, .left = k->records.len };
	struct kv_map_query q;
	uint32_t i;

	begin_key(j, &k->key);
	kv_json_bool(j, "ok", k->status == KV_OK);
	if (k->status == KV_OK) {
		kv_json_begin(j, "values", '[');
		for (i = 0; i < k->count && kv_map_query_take(&cut, &q); i++)
			replica(j, &q);
		kv_json_end(j, '[');
	} else {
		kv_json_string(j, "error", kv_status_text(k->status));
	}
	kv_json_end(j, '{');
}

static void
batch_answer(struct batch *b)
{
	struct kv_bytes body = { 0 };
	struct kv_json j = { .out = &body };
	size_t i;

	kv_json_begin(&j, NULL, '{');
	kv_json_bool(&j, "success", true);
	kv_json_begin(&j, "data", '{');
	for (i = 0; i < b->n; i++)
		batch_key_write(&j, &b->keys[i]);
	kv_json_end(&j, '{');
	kv_json_end(&j, '{');
	kv_admin_answer(b->x, KV_EXCHANGE_JSON, j.status, &body);
	batch_free(b);
}

static void batch_ask(struct batch *b);

static void
batch_answered(void *arg, const struct kv_msg *answer)
{
	struct found f = found_parse(answer);
	struct batch_key *k = arg;
	struct batch *b = k->b;

	k->relay = NULL;
	k->status = f.status;
	k->count = f.count;
	if (f.status == KV_EMISS && f.away > 0)
		k->status = KV_EUNREACHABLE;
	if (f.status == KV_OK &&
	    kv_bytes_append(&k->records, f.records.p, f.records.left) < 0)
		k->status = KV_ENOMEM;
	b->asked--;
	batch_ask(b);
}

/* Asks for some more; answers when there is nothing left to ask. */
static void
batch_ask(struct batch *b)
{
	struct batch_key *k;

	while (b->asked < ASKED_MAX && b->next < b->n) {
		k = &b->keys[b->next];
		k->status = KV_EINVALID;
		if (is_key(&k->key))
			k->relay = ask(b->a, &b->tenant, &k->key,
				       batch_answered, k);
		/* The master may be busy: with this batch, it goes on later. */
		if (!k->relay && is_key(&k->key)) {
			k->status = kv_status_from_errno(errno);
			if (k->status == KV_EBUSY && b->asked > 0)
				return;
		}
		b->asked += k->relay != NULL;
		b->next++;
	}
	if (b->asked == 0)
		batch_answer(b);
}

static int
compare(const void *va, const void *vb)
{
	const struct batch_key *a = va, *b = vb;
	size_t n = a->key.len < b->key.len ? a->key.len : b->key.len;
	int c = memcmp(a->key.p, b->key.p, n);

	if (c == 0)
		c = (a->key.len > b->key.len) - (a->key.len < b->key.len);
	return c;
}

/* Each key once, in order: an object's names do not repeat. */
static void
batch_sort(struct batch *b)
{
	size_t i, n = 0;

	qsort(b->keys, b->n, sizeof(*b->keys), compare);
	for (i = 0; i < b->n; i++)
		if (n == 0 || compare(&b->keys[n - 1], &b->keys[i]) != 0)
			b->keys[n++] = b->keys[i];
	b->n = n;
}

static bool
batch_add(struct batch *b, const char *p, size_t len)
{
	struct batch_key *k;

	if (b->n == KV_BATCH_KEYS_MAX)
		return false;
	k = &b->keys[b->n++];
	k->b = b;
	k->key = (struct kv_urlquery_text){ p, len };
	return true;
}

/* keys=a,b is split at commas, escaped ones too; of key=a each is one. False:
 * too many. */
static bool
batch_take(struct batch *b)
{
	const struct kv_urlquery *q = kv_exchange_query(b->x);
	const struct kv_urlquery_arg *arg = q->args, *end = arg + q->n_args;
	const char *p, *comma, *stop;

	for (; arg < end; arg++) {
		if (strcmp(arg->name.p, "key") == 0 &&
		    !batch_add(b, arg->value.p, arg->value.len))
			return false;
		if (strcmp(arg->name.p, "keys") != 0)
			continue;
		p = arg->value.p;
		stop = p + arg->value.len;
		for (; p < stop; p = comma + 1) {
			comma = memchr(p, ',', (size_t)(stop - p));
			if (!comma)
				comma = stop;
			if (comma > p && !batch_add(b, p, (size_t)(comma - p)))
				return false;
		}
	}
	return true;
}

static struct batch *
batch_new(struct kv_exchange *x, struct kv_admin *a)
{
	struct batch *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->keys = calloc(KV_BATCH_KEYS_MAX, sizeof(*b->keys));
	if (!b->keys) {
		free(b);
		return NULL;
	}
	b->x = x;
	b->a = a;
	return b;
}

/* 0, or it was answered. */
static int
batch_start(struct batch *b)
{
	if (!kv_admin_tenant(b->x, &b->tenant))
		return -EINVAL;
	if (!batch_take(b)) {
		kv_exchange_error(b->x, 400, kv_status_mooncake(KV_EINVALID),
				  "more than %d keys", KV_BATCH_KEYS_MAX);
		return -EINVAL;
	}
	if (b->n == 0) {
		kv_exchange_error(b->x, 400, kv_status_mooncake(KV_EINVALID),
				  "No keys provided. Use ?keys=key1,key2,...");
		return -EINVAL;
	}
	batch_sort(b);
	return 0;
}

void
kv_adminquery_batch(struct kv_exchange *x, void *admin)
{
	struct batch *b;

	if (kv_admin_is_over(admin, x))
		return;
	b = batch_new(x, admin);
	if (!b) {
		kv_exchange_fail(x);
	} else if (batch_start(b) < 0) {
		batch_free(b);
	} else {
		kv_exchange_wait(x, batch_gone, b);
		batch_ask(b);
	}
}

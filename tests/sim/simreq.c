/* Requesters for simnode.h. */

#include "simnode.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "svc/gentable.h"
#include "svc/nodecore.h"
#include "wire/msg.h"

struct dialled {
	struct kv_stream *s;
	int status;
	bool is_told;
};

static void
dial_told(void *arg, struct kv_stream *st, int status)
{
	struct dialled *d = arg;

	d->s = st;
	d->status = status;
	d->is_told = true;
}

struct kv_stream *
simreq_dial(struct simnode *s, struct kv_net *net, bool is_unix)
{
	const char *addr = is_unix ? "unix:/node.sock" : "tcp:n:50052";
	struct dialled d = { 0 };

	net->connect(net, s->loop, addr, s->clock.ns + KV_NS_PER_S, dial_told,
		     &d);
	for (int i = 0; i < 1100 && !d.is_told; i++)
		simnode_run(s, 1);
	assert(d.is_told);
	return d.s;
}

struct wireframe *
simreq_hello(struct wirepeer *p, struct simnode *s, const struct kv_hello *h)
{
	wirepeer_send(p, KV_MSG_HELLO, 1, h, NULL, 0);
	simnode_run(s, 3);
	return wirepeer_take(p, KV_MSG_HELLO_R);
}

static uint64_t
greet(struct simreq *r, struct wirepeer *p, enum kv_role role)
{
	struct kv_hello h = {
		.version_min = kv_le16(KV_WIRE_VERSION),
		.version_max = kv_le16(KV_WIRE_VERSION),
		.role = (uint8_t)role,
		.boot = r->boot,
		.token = kv_le64(r->token),
		.features = kv_le64(r->features),
	};
	const struct kv_hello_r *hr;
	struct wireframe *f;
	uint64_t token;

	f = simreq_hello(p, r->s, &h);
	assert(f);
	hr = (void *)f->body;
	assert(hr->status == KV_OK);
	token = kv_get64(hr->token);
	r->features = kv_get64(hr->features);
	assert(token);
	wireframe_free(f);
	return token;
}

static void
req_open(struct simreq *r, struct simnode *s, pid_t pid, bool is_unix)
{
	struct kv_stream *st;

	memset(r, 0, sizeof(*r));
	r->s = s;
	r->pid = pid ? pid : s->next_pid++;
	r->boot.b[0] = (uint8_t)r->pid;
	r->boot.b[1] = (uint8_t)(r->pid >> 8);
	r->net = simnet_process(s->sn, is_unix ? "n" : "r", r->pid);
	st = simreq_dial(s, r->net, is_unix);
	assert(st);
	wirepeer_open(&r->control, s->loop, st);
	r->token = greet(r, &r->control, KV_ROLE_REQUESTER);
}

void
simreq_open_tcp(struct simreq *r, struct simnode *s)
{
	simreq_open_with(r, s, 0);
}

void
simreq_open_with(struct simreq *r, struct simnode *s, uint64_t features)
{
	struct kv_stream *st;

	req_open(r, s, 0, false);
	r->features = features;
	st = simreq_dial(s, r->net, false);
	assert(st);
	wirepeer_open(&r->data, s->loop, st);
	r->data_token = greet(r, &r->data, KV_ROLE_DATA);
}

void
simreq_open_unix(struct simreq *r, struct simnode *s, pid_t pid)
{
	struct kv_attach a = { .flags = KV_ATTACH_WRITE };
	const struct kv_attach_r *ar;
	struct wireframe *f;

	req_open(r, s, pid, true);
	wirepeer_send(&r->control, KV_MSG_ATTACH, 2, &a, NULL, 0);
	simnode_run(s, 3);
	f = wirepeer_take(&r->control, KV_MSG_ATTACH_R);
	assert(f);
	ar = (void *)f->body;
	assert(ar->status == KV_OK);
	assert(kv_get64(ar->pool_bytes) == SIMNODE_POOL);
	wireframe_free(f);
}

void
simreq_open_again(struct simreq *again, const struct simreq *r)
{
	struct kv_stream *st = simreq_dial(r->s, r->net, true);
	struct kv_hello h = {
		.version_min = kv_le16(KV_WIRE_VERSION),
		.version_max = kv_le16(KV_WIRE_VERSION),
		.role = KV_ROLE_REQUESTER,
	};

	assert(st);
	*again = *r;
	wirepeer_open(&again->control, r->s->loop, st);
	wireframe_free(simreq_hello(&again->control, r->s, &h));
}

void
simreq_close(struct simreq *r)
{
	wirepeer_close(&r->control);
	wirepeer_close(&r->data);
	simnode_run(r->s, 3);
}

/* ---- put ---- */

static void
add(struct kv_bytes *b, const void *p, size_t n)
{
	int rc = kv_bytes_append(b, p, n);

	assert(rc == 0);
}

uint64_t
simreq_put(struct simreq *r, const struct simput *items, unsigned n,
	   const struct simput_opts *opts)
{
	static const struct simput_opts none;
	struct kv_bytes tail = { 0 };
	uint64_t id = ++r->s->next_id;
	struct kv_put m = { 0 };

	if (!opts)
		opts = &none;
	m.put_id.random = kv_le64(opts->random ? opts->random : 1000 + id);
	m.put_id.version = kv_le32(opts->version);
	m.count = kv_le32(n);
	m.budget_ms = kv_le32(opts->budget_ms ? opts->budget_ms : 1000);
	m.mode = r->data_token ? KV_MODE_DATA : KV_MODE_SHM;
	m.flags = opts->flags;
	m.data_token = kv_le64(r->data_token);
	m.generation = kv_gentable_build(
		opts->generation
			? *opts->generation
			: kv_generation_get(&r->s->node->gen.known, NULL, 0));
	for (unsigned i = 0; i < n; i++) {
		struct kv_put_ent e = {
			.size = kv_le64(items[i].size),
			.key_len = kv_le16((uint16_t)strlen(items[i].key)),
			.flags = items[i].value ? KV_ENT_INLINE : 0,
		};

		add(&tail, &e, sizeof(e));
	}
	for (unsigned i = 0; i < n; i++)
		add(&tail, items[i].key, strlen(items[i].key));
	for (unsigned i = 0; i < n; i++)
		if (items[i].value)
			add(&tail, items[i].value, items[i].size);
	wirepeer_send(&r->control, KV_MSG_PUT, id, &m, tail.data, tail.len);
	kv_bytes_fini(&tail);
	simnode_run(r->s, 2);
	return id;
}

static struct wireframe *
answer_find(struct simreq *r, enum kv_msg_type type, uint64_t id)
{
	struct wireframe *f;

	KV_LIST_FOREACH(f, &r->control.frames, link)
		if (f->type == type && f->id == id)
			return f;
	return NULL;
}

int
simreq_put_status(struct simreq *r, uint64_t id, unsigned i)
{
	struct wireframe *f = answer_find(r, KV_MSG_PUT_R, id);
	const struct kv_put_r *m;

	if (!f)
		return -1;
	m = (void *)f->body;
	assert(m->status == KV_OK);
	assert(i < kv_get32(m->count));
	assert(f->tail_len == kv_get32(m->count));
	return f->tail[i];
}

int
simreq_put_refusal(struct simreq *r, uint64_t id)
{
	struct wireframe *f = answer_find(r, KV_MSG_PUT_R, id);
	const struct kv_put_r *m;

	if (!f)
		return -1;
	m = (void *)f->body;
	assert(kv_get32(m->count) == 0);
	return m->status;
}

static bool
grant_find(const struct wireframe *f, unsigned i, struct simgrant *out)
{
	const struct kv_grant_r *m = (void *)f->body;
	const struct kv_grant_ent *e = (void *)f->tail;
	uint32_t n = kv_get32(m->count), k, skip = 0;
	const struct kv_extent_le *x = (const void *)(e + n);

	assert(f->flags & KV_FLAG_MORE);
	for (k = 0; k < n; skip += kv_get32(e[k].extents), k++) {
		if (kv_get32(e[k].index) != i)
			continue;
		out->grant = kv_get64(e[k].grant);
		out->extents = kv_get32(e[k].extents);
		out->off = out->extents ? kv_get64(x[skip].off) : 0;
		return true;
	}
	return false;
}

bool
simreq_grant(struct simreq *r, uint64_t id, unsigned i, struct simgrant *out)
{
	struct wireframe *f;

	KV_LIST_FOREACH(f, &r->control.frames, link)
		if (f->type == KV_MSG_GRANT_R && f->id == id &&
		    grant_find(f, i, out))
			return true;
	return false;
}

void
simreq_filled(struct simreq *r, uint64_t id, uint64_t grant, bool give_up)
{
	struct kv_filled m = {
		.count = kv_le32(1),
		.flags = give_up ? KV_FILLED_GIVE_UP : 0,
	};
	struct kv_le64 g = kv_le64(grant);

	wirepeer_send(&r->control, KV_MSG_FILLED, id, &m, &g, sizeof(g));
	simnode_run(r->s, 2);
}

int
simreq_put_one(struct simreq *r, const char *key, const void *value, size_t n)
{
	struct simput item = { .key = key, .size = n };
	uint64_t id = simreq_put(r, &item, 1, NULL);
	struct simgrant g;

	if (simreq_grant(r, id, 0, &g)) {
		if (r->data_token) {
			wirepeer_send_data(&r->data, g.grant, 0, value, n);
			simnode_run(r->s, 2);
		} else {
			memcpy(r->s->pool + g.off, value, n);
			simreq_filled(r, id, g.grant, false);
		}
	}
	simnode_run(r->s, 5);
	return simreq_put_status(r, id, 0);
}

int
simreq_put_inline(struct simreq *r, const char *key, const char *value)
{
	struct simput item = { .key = key, .value = value };
	uint64_t id;

	item.size = strlen(value);
	id = simreq_put(r, &item, 1, NULL);
	simnode_run(r->s, 5);
	return simreq_put_status(r, id, 0);
}

/* ---- get ---- */

uint64_t
simreq_get(struct simreq *r, const char *const *keys, unsigned n,
	   const struct simget_opts *opts)
{
	static const struct simget_opts none;
	struct kv_bytes tail = { 0 };
	uint64_t id = ++r->s->next_id;
	struct kv_get m = { 0 };

	if (!opts)
		opts = &none;
	m.count = kv_le32(n);
	m.budget_ms = kv_le32(opts->budget_ms ? opts->budget_ms : 1000);
	m.inline_max = kv_le32(opts->inline_max);
	m.mode = r->data_token ? KV_MODE_DATA : KV_MODE_SHM;
	m.flags = opts->flags;
	m.data_token = kv_le64(r->data_token);
	for (unsigned i = 0; i < n; i++) {
		struct kv_get_ent e = {
			.off = kv_le64(opts->off),
			.len = kv_le64(opts->len ? opts->len : UINT64_MAX),
			.key_len = kv_le16((uint16_t)strlen(keys[i])),
			.flags = opts->is_range ? KV_ENT_RANGE : 0,
		};

		add(&tail, &e, sizeof(e));
	}
	for (unsigned i = 0; i < n; i++)
		add(&tail, keys[i], strlen(keys[i]));
	wirepeer_send(&r->control, KV_MSG_GET, id, &m, tail.data, tail.len);
	kv_bytes_fini(&tail);
	simnode_run(r->s, 2);
	return id;
}

bool
simreq_got(struct simreq *r, uint64_t id, unsigned i, struct simgot *out)
{
	struct wireframe *f = answer_find(r, KV_MSG_GET_R, id);
	const struct kv_get_ent_r *e;
	const struct kv_extent_le *x;
	const struct kv_get_r *m;
	size_t exts = 0, skip = 0, at = 0;
	uint32_t n;

	if (!f)
		return false;
	memset(out, 0, sizeof(*out));
	m = (void *)f->body;
	n = kv_get32(m->count);
	out->status = m->status;
	if (m->status != KV_OK) {
		assert(n == 0);
		return true;
	}
	assert(i < n);
	e = (void *)f->tail;
	x = (const void *)(e + n);
	for (unsigned k = 0; k < n; k++) {
		skip += k < i ? kv_get16(e[k].extents) : 0;
		at += k < i ? kv_get32(e[k].inline_len) : 0;
		exts += kv_get16(e[k].extents);
	}
	out->status = e[i].status;
	out->how = e[i].how;
	out->size = kv_get64(e[i].size);
	out->pin = kv_get64(e[i].pin);
	out->extents = kv_get16(e[i].extents);
	out->inline_len = kv_get32(e[i].inline_len);
	if (out->extents) {
		out->ext_off = kv_get64(x[skip].off);
		out->ext_len = kv_get64(x[skip].len);
	}
	if (out->inline_len)
		memcpy(out->bytes, (const uint8_t *)(x + exts) + at,
		       out->inline_len < sizeof(out->bytes)
			       ? out->inline_len
			       : sizeof(out->bytes));
	return true;
}

int
simreq_get_one(struct simreq *r, const char *key,
	       const struct simget_opts *opts, struct simgot *out)
{
	struct simgot own = { 0 };
	uint64_t id = simreq_get(r, &key, 1, opts);
	bool is_there;

	out = out ? out : &own;
	is_there = simreq_got(r, id, 0, out);
	assert(is_there);
	return out->status;
}

void
simreq_release(struct simreq *r, uint64_t pin)
{
	struct kv_release m = { .count = kv_le32(1) };
	struct kv_le64 p = kv_le64(pin);

	wirepeer_send(&r->control, KV_MSG_RELEASE, 0, &m, &p, sizeof(p));
	simnode_run(r->s, 2);
}

void
simreq_forget(struct simreq *r, uint64_t token)
{
	struct kv_release m = { .closed = kv_le64(token) };

	wirepeer_send(&r->control, KV_MSG_RELEASE, 0, &m, NULL, 0);
	simnode_run(r->s, 2);
}

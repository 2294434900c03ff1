#include "rawreq.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/num.h"

enum {
	WAIT_MS = 5000,
};

static bool
send_frame(struct rawreq *r, enum kv_msg_type type, const void *body,
	   size_t tail_len)
{
	const struct forge_seed like = { .type = type, .id = r->id };
	size_t n = kv_msg_body_bytes(type);

	memcpy(r->frame + KV_HEADER_BYTES, body, n);
	return forge_send(r->control, r->frame,
			  forge_seal(r->frame, &like, n + tail_len));
}

static uint8_t *
tail_of(struct rawreq *r, enum kv_msg_type type)
{
	return r->frame + KV_HEADER_BYTES + kv_msg_body_bytes(type);
}

/* ---- open and close ---- */

static bool
attach(struct rawreq *r)
{
	const struct kv_attach how = { .flags = KV_ATTACH_WRITE };
	const struct kv_attach_r *a;
	struct kv_msg msg;
	int fd = -1;
	void *p;

	if (!send_frame(r, KV_MSG_ATTACH, &how, 0) ||
	    !forge_read(r->control, r->frame, &msg, WAIT_MS, &fd) ||
	    msg.type != KV_MSG_ATTACH_R || fd < 0)
		return false;
	a = msg.body;
	r->pool_bytes = kv_get64(a->pool_bytes);
	p = mmap(NULL, r->pool_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 0);
	close(fd);
	if (p == MAP_FAILED)
		return false;
	r->pool = p;
	return true;
}

bool
rawreq_open(struct rawreq *r, struct forge *f, const char *target)
{
	*r = (struct rawreq){ .forge = f, .data = -1 };
	r->is_local = target[0] == '/';
	r->control = forge_connect(target);
	if (r->control < 0)
		return false;
	r->frame = malloc(FORGE_BYTES_MAX);
	if (!r->frame)
		abort();
	r->token = forge_hello(f, r->control, KV_ROLE_REQUESTER, 0);
	if (r->token && r->is_local && attach(r))
		return true;
	if (r->token && !r->is_local) {
		r->data = forge_connect(target);
		if (r->data >= 0)
			r->data_token =
				forge_hello(f, r->data, KV_ROLE_DATA, r->token);
		if (r->data_token)
			return true;
	}
	rawreq_close(r);
	return false;
}

void
rawreq_close(struct rawreq *r)
{
	close(r->control);
	if (r->data >= 0)
		close(r->data);
	if (r->pool)
		munmap(r->pool, r->pool_bytes);
	free(r->frame);
	*r = (struct rawreq){ .control = -1, .data = -1 };
}

/* ---- requests ---- */

static size_t
add_keys(uint8_t *tail, size_t len, const struct rawreq_key *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		memcpy(tail + len, keys[i].key, strlen(keys[i].key));
		len += strlen(keys[i].key);
	}
	return len;
}

/* Those with flag KV_ENT_INLINE have zeroes for a value. */
static size_t
add_inline(uint8_t *tail, size_t len, const struct rawreq_key *keys, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (keys[i].flags & KV_ENT_INLINE) {
			size_t size = kv_min_u64(keys[i].size, 20000);

			memset(tail + len, 0, size);
			len += size;
		}
	return len;
}

bool
rawreq_put(struct rawreq *r, const struct rawreq_key *keys, size_t n,
	   const struct kv_put *how)
{
	struct kv_put_ent *ents = (void *)tail_of(r, KV_MSG_PUT);
	size_t len = n * sizeof(*ents);

	r->id++;
	for (size_t i = 0; i < n && i < RAWREQ_KEYS_MAX; i++)
		r->sizes[i] = keys[i].size;
	for (size_t i = 0; i < n; i++)
		ents[i] = (struct kv_put_ent){
			.size = kv_le64(keys[i].size),
			.key_len = kv_le16((uint16_t)strlen(keys[i].key)),
			.flags = keys[i].flags,
		};
	len = add_keys((uint8_t *)ents, len, keys, n);
	len = add_inline((uint8_t *)ents, len, keys, n);
	return send_frame(r, KV_MSG_PUT, how, len);
}

bool
rawreq_get(struct rawreq *r, const struct rawreq_key *keys, size_t n,
	   const struct kv_get *how)
{
	struct kv_get_ent *ents = (void *)tail_of(r, KV_MSG_GET);

	r->id++;
	for (size_t i = 0; i < n; i++)
		ents[i] = (struct kv_get_ent){
			.off = kv_le64(keys[i].off),
			.len = kv_le64(keys[i].size),
			.key_len = kv_le16((uint16_t)strlen(keys[i].key)),
			.flags = keys[i].flags,
		};
	return send_frame(
		r, KV_MSG_GET, how,
		add_keys((uint8_t *)ents, n * sizeof(*ents), keys, n));
}

static size_t
add_names(uint8_t *tail, const uint64_t *names, size_t n)
{
	struct kv_le64 *le = (void *)tail;

	for (size_t i = 0; i < n; i++)
		le[i] = kv_le64(names[i]);
	return n * sizeof(*le);
}

bool
rawreq_filled(struct rawreq *r, const uint64_t *grants, size_t n, uint8_t flags)
{
	const struct kv_filled body = {
		.count = kv_le32((uint32_t)n),
		.flags = flags,
	};

	return send_frame(r, KV_MSG_FILLED, &body,
			  add_names(tail_of(r, KV_MSG_FILLED), grants, n));
}

bool
rawreq_release(struct rawreq *r, const uint64_t *pins, size_t n)
{
	const struct kv_release body = { .count = kv_le32((uint32_t)n) };

	return send_frame(r, KV_MSG_RELEASE, &body,
			  add_names(tail_of(r, KV_MSG_RELEASE), pins, n));
}

bool
rawreq_data(struct rawreq *r, uint64_t grant, uint64_t off, const void *bytes,
	    uint32_t len)
{
	const struct forge_seed like = { .type = KV_MSG_DATA, .payload = len };
	const struct kv_data body = {
		.ref = kv_le64(grant),
		.off = kv_le64(off),
	};

	memcpy(r->frame + KV_HEADER_BYTES, &body, sizeof(body));
	return forge_send(r->data, r->frame,
			  forge_seal(r->frame, &like, sizeof(body))) &&
	       forge_send(r->data, bytes, len);
}

/* ---- answers ---- */

static void
keep_extents(struct kv_cut *cut, struct rawreq_name *name)
{
	const struct kv_extent_le *e =
		kv_cut_array(cut, name->nextents, sizeof(*e));

	for (size_t i = 0; e && i < name->nextents; i++)
		if (i < KV_ARRAY_LEN(name->extents)) {
			name->extents[i].off = kv_get64(e[i].off);
			name->extents[i].len = kv_get64(e[i].len);
		}
}

static void
keep_grants(struct rawreq *r, const struct kv_msg *msg)
{
	const struct kv_grant_r *g = msg->body;
	const struct kv_grant_ent *ents;
	size_t n = kv_get32(g->count);
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	ents = kv_cut_array(&cut, n, sizeof(*ents));
	for (size_t i = 0; ents && i < n; i++)
		if (r->ngrants < RAWREQ_NAMES_MAX) {
			struct rawreq_name *to = &r->grants[r->ngrants++];

			to->name = kv_get64(ents[i].grant);
			to->index = kv_get32(ents[i].index);
			to->size = r->sizes[to->index % RAWREQ_KEYS_MAX];
			to->nextents = kv_get32(ents[i].extents);
			keep_extents(&cut, to);
		}
}

static void
keep_statuses(struct rawreq *r, const uint8_t *p, size_t n, size_t step)
{
	r->nstatuses = kv_min_u64(n, RAWREQ_KEYS_MAX);
	for (size_t i = 0; p && i < r->nstatuses; i++)
		r->statuses[i] = p[i * step];
}

static void
keep_pins(struct rawreq *r, const struct kv_msg *msg)
{
	const struct kv_get_r *g = msg->body;
	const struct kv_get_ent_r *ents;
	size_t n = kv_get32(g->count);
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	ents = kv_cut_array(&cut, n, sizeof(*ents));
	keep_statuses(r, (const uint8_t *)ents, ents ? n : 0, sizeof(*ents));
	for (size_t i = 0; ents && i < n; i++)
		if (ents[i].how == KV_HOW_EXTENTS &&
		    r->npins < RAWREQ_NAMES_MAX) {
			struct rawreq_name *to = &r->pins[r->npins++];

			to->name = kv_get64(ents[i].pin);
			to->index = (uint32_t)i;
			to->nextents = kv_get16(ents[i].extents);
			keep_extents(&cut, to);
		}
}

bool
rawreq_wait(struct rawreq *r, enum kv_msg_type type, int timeout_ms)
{
	const struct kv_put_r *put;
	struct kv_msg msg;

	do {
		if (!forge_read(r->control, r->frame, &msg, timeout_ms, NULL))
			return false;
		put = msg.body;
		if (msg.type == KV_MSG_GRANT_R)
			keep_grants(r, &msg);
		else if (msg.type == KV_MSG_GET_R)
			keep_pins(r, &msg);
		else if (msg.type == KV_MSG_PUT_R)
			keep_statuses(
				r, msg.tail,
				kv_min_u64(msg.tail_len, kv_get32(put->count)),
				1);
	} while (msg.type != type);
	return true;
}

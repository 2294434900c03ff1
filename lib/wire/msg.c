#include "wire/msg.h"

#include <errno.h>
#include <string.h>

/* As calls into the shared library the two sums of a small frame take three
 * times as long. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/attr.h"
#include "base/num.h"
#include "wire/msgsum.h"

enum {
	TYPES = 256,
	HEAD_SUMMED = offsetof(struct kv_header, head_sum),
};

/* What a type allows; no type: all zero. */
static const struct kind {
	const char *name;
	uint32_t body; /* bytes of the struct */
	uint32_t min;  /* body and tail */
	uint32_t max;
} kinds[TYPES] = {
#define KV_MSG(number, NAME, body, tmin, tmax, text)                           \
	[number] = { #NAME, sizeof(struct body), sizeof(struct body) + (tmin), \
		     sizeof(struct body) + (tmax) },
#include "wire/proto.def"
#undef KV_MSG
};

#define KV_MSG(number, NAME, body, tmin, tmax, text)                     \
	_Static_assert((number) > 0 && (number) < TYPES,                 \
		       #NAME ": number fits the table");                 \
	_Static_assert((tmin) <= (tmax), #NAME ": tail bounds");         \
	_Static_assert(KV_HEADER_BYTES + sizeof(struct body) + (tmax) <= \
			       KV_FRAME_BYTES_MAX,                       \
		       #NAME ": the longest frame is within the limit");
#include "wire/proto.def"
#undef KV_MSG

static const struct kind *
kind_of(unsigned type)
{
	static const struct kind none = { .name = "?" };

	if (type >= TYPES || kinds[type].body == 0)
		return &none;
	return &kinds[type];
}

bool
kv_msg_has_payload(unsigned type)
{
	switch (type) {
#define KV_MSG(number, NAME, body, tmin, tmax, text)
#define KV_PAYLOAD(NAME) case KV_MSG_##NAME:
#include "wire/proto.def"
#undef KV_PAYLOAD
#undef KV_MSG
		return true;
	default:
		return false;
	}
}

size_t
kv_msg_body_bytes(unsigned type)
{
	return kind_of(type)->body;
}

size_t
kv_msg_tail_max(unsigned type)
{
	const struct kind *k = kind_of(type);

	return k->max - k->body;
}

const char *
kv_msg_name(unsigned type)
{
	return kind_of(type)->name;
}

static uint32_t
head_sum(const void *head)
{
	return (uint32_t)XXH3_64bits(head, HEAD_SUMMED);
}

static uint32_t
body_sum(const void *body, size_t len, uint64_t id, unsigned type)
{
	uint64_t seed = id ^ (uint64_t)type << 48;

	if (len >= KV_MSGSUM_WIDE_MIN)
		return (uint32_t)kv_msgsum_wide(body, len, seed);
	return (uint32_t)XXH3_64bits_withSeed(body, len, seed);
}

/* Type, flags and lengths against the tables. */
static bool
is_allowed(unsigned type, unsigned flags, uint32_t len, uint32_t payload)
{
	const struct kind *k = kind_of(type);

	if (k->body == 0 || len < k->min || len > k->max)
		return false;
	if (flags != 0 && (flags != KV_FLAG_MORE || !kv_msg_is_answer(type)))
		return false;
	return payload == 0 ||
	       (payload <= KV_PAYLOAD_MAX && kv_msg_has_payload(type));
}

static long
ask_for(size_t n, size_t *need)
{
	if (need)
		*need = n;
	return 0;
}

/* Who speaks something else may never send a header's worth of bytes. */
static bool
is_begun_well(const uint8_t *bytes, size_t len)
{
	const struct kv_le32 magic = kv_le32(KV_WIRE_MAGIC);

	return memcmp(bytes, &magic, kv_min_size(len, sizeof(magic))) == 0;
}

long
kv_msg_parse(const void *bytes, size_t len, struct kv_msg *out, size_t *need)
{
	const struct kv_header *h = bytes;
	const uint8_t *body = (const uint8_t *)bytes + KV_HEADER_BYTES;
	uint32_t body_len, payload;
	unsigned type;
	uint64_t id;

	if (len < KV_HEADER_BYTES)
		return is_begun_well(bytes, len)
			       ? ask_for(KV_HEADER_BYTES, need)
			       : -EPROTO;
	if (kv_get32(h->magic) != KV_WIRE_MAGIC)
		return -EPROTO;
	if (h->version != KV_WIRE_VERSION)
		return -EPROTONOSUPPORT;
	if (kv_get32(h->head_sum) != head_sum(h))
		return -EPROTO;
	type = kv_get16(h->type);
	body_len = kv_get32(h->len);
	payload = kv_get32(h->payload);
	if (!is_allowed(type, h->flags, body_len, payload))
		return -EPROTO;
	if (len - KV_HEADER_BYTES < body_len)
		return ask_for(KV_HEADER_BYTES + body_len, need);
	id = kv_get64(h->id);
	if (kv_get32(h->body_sum) != body_sum(body, body_len, id, type))
		return -EPROTO;
	*out = (struct kv_msg){
		.type = (enum kv_msg_type)type,
		.flags = h->flags,
		.id = id,
		.body = body,
		.tail = body + kinds[type].body,
		.tail_len = body_len - kinds[type].body,
		.payload = payload,
	};
	return (long)(KV_HEADER_BYTES + body_len);
}

void
kv_msg_seal(void *frame, enum kv_msg_type type, uint8_t flags, uint64_t id,
	    size_t body_len, uint32_t payload)
{
	const uint8_t *body = (const uint8_t *)frame + KV_HEADER_BYTES;
	struct kv_header *h = frame;

	assert(body_len <= KV_FRAME_BYTES_MAX);
	assert(is_allowed(type, flags, (uint32_t)body_len, payload));
	*h = (struct kv_header){
		.magic = kv_le32(KV_WIRE_MAGIC),
		.version = KV_WIRE_VERSION,
		.flags = flags,
		.type = kv_le16((uint16_t)type),
		.len = kv_le32((uint32_t)body_len),
		.payload = kv_le32(payload),
		.id = kv_le64(id),
		.body_sum = kv_le32(body_sum(body, body_len, id, type)),
	};
	h->head_sum = kv_le32(head_sum(h));
}

/*
 * Frames as they come from strangers. Each input is read twice: as it is, and
 * with right sums (and magic and version), for otherwise nothing would come
 * past these.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "wire/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

/* Looks at every byte of a piece, so that a sanitizer does. */
static void
look_at(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sink += p[i];
}

/* Cuts the tail as readers do, led by numbers that the peer chose. */
static void
cut_tail(const struct kv_msg *msg)
{
	const uint8_t *p, *end = msg->tail + msg->tail_len;
	const struct kv_le32 *numbers = msg->body;
	struct kv_cut c;

	kv_cut_init(&c, msg);
	for (size_t i = 0; i < kv_msg_body_bytes(msg->type) / 4; i++) {
		size_t count = kv_get32(numbers[i]);
		size_t each = kv_get32(numbers[i / 2]) % 80;

		p = kv_cut_array(&c, count, each);
		assert(!p || (p >= msg->tail && p <= end));
		assert(!p || count * each <= (size_t)(end - p));
		if (p)
			look_at(p, count * each);
		assert(c.left <= msg->tail_len);
	}
	assert(!kv_cut_done(&c) || c.p == end);
}

/* What was read, built again, must be what it was read from. */
static void
build_again(const uint8_t *frame, const struct kv_msg *msg, size_t len)
{
	uint8_t *again = malloc(len);

	assert(again);
	memcpy(again + KV_HEADER_BYTES, msg->body, len - KV_HEADER_BYTES);
	kv_msg_seal(again, msg->type, msg->flags, msg->id,
		    len - KV_HEADER_BYTES, msg->payload);
	assert(memcmp(frame, again, len) == 0);
	free(again);
}

static void
read_frames(const uint8_t *data, size_t size)
{
	struct kv_msg msg;
	size_t need = 0;
	long n;

	while ((n = kv_msg_parse(data, size, &msg, &need)) > 0) {
		size_t body = kv_msg_body_bytes(msg.type);

		assert((size_t)n <= size && n <= (long)KV_FRAME_BYTES_MAX);
		assert((size_t)n == KV_HEADER_BYTES + body + msg.tail_len);
		assert(msg.tail_len <= kv_msg_tail_max(msg.type));
		assert(msg.payload == 0 || kv_msg_has_payload(msg.type));
		look_at(msg.body, body);
		look_at(msg.tail, msg.tail_len);
		cut_tail(&msg);
		build_again(data, &msg, (size_t)n);
		data += n;
		size -= (size_t)n;
	}
	assert(n < 0 || (need > size && need <= KV_FRAME_BYTES_MAX));
}

static void
seal(uint8_t *frame, size_t size)
{
	struct kv_header *h = (struct kv_header *)frame;
	uint64_t seed;

	h->magic = kv_le32(KV_WIRE_MAGIC);
	h->version = KV_WIRE_VERSION;
	h->len = kv_le32((uint32_t)(size - KV_HEADER_BYTES));
	seed = kv_get64(h->id) ^ (uint64_t)kv_get16(h->type) << 48;
	h->body_sum = kv_le32((uint32_t)XXH3_64bits_withSeed(
		frame + KV_HEADER_BYTES, size - KV_HEADER_BYTES, seed));
	h->head_sum = kv_le32((uint32_t)XXH3_64bits(frame, 28));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	read_frames(data, size);
	if (size < KV_HEADER_BYTES)
		return 0;
	copy = malloc(size);
	assert(copy);
	memcpy(copy, data, size);
	seal(copy, size);
	read_frames(copy, size);
	free(copy);
	return 0;
}

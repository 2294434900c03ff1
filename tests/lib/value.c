#include "value.h"

#include <string.h>

#include "base/num.h"

/* Every line of a signed value begins with its writer. */
enum {
	LINE_BYTES = 64,
	WORD_BYTES = 8,
	CHUNK_BYTES = 4096,
};

static uint64_t
mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static bool
is_signed(const struct value_part *p)
{
	return p->size >= LINE_BYTES;
}

static uint64_t
seed_of(const struct value_part *p, uint32_t writer)
{
	const uint8_t *key = p->key.data;
	uint64_t h = mix(p->size + 1);

	for (size_t i = 0; i < p->key.len; i++)
		h = mix(h ^ key[i]) + i;
	return is_signed(p) ? mix(h ^ writer) : h;
}

static uint64_t
word_of(const struct value_part *p, uint64_t seed, uint32_t writer, uint64_t i)
{
	uint64_t w = mix(seed + i * 0x9e3779b97f4a7c15ull);

	if (is_signed(p) && i % (LINE_BYTES / WORD_BYTES) == 0)
		w = (w & ~(uint64_t)UINT32_MAX) | writer;
	return w;
}

void
value_fill(void *buf, const struct value_part *p, uint32_t writer)
{
	uint64_t seed = seed_of(p, writer), end = p->off + p->len;
	uint64_t at = p->off, n, w;
	uint8_t *to = buf;

	while (at < end) {
		w = word_of(p, seed, writer, at / WORD_BYTES);
		n = kv_min_u64(WORD_BYTES - at % WORD_BYTES, end - at);
		memcpy(to, (uint8_t *)&w + at % WORD_BYTES, n);
		to += n;
		at += n;
	}
}

static uint8_t
byte_at(const struct kv_buf *pieces, uint64_t at)
{
	while (at >= pieces->len) {
		at -= pieces->len;
		pieces++;
	}
	return ((const uint8_t *)pieces->data)[at];
}

/* The writer that the part names, UINT32_MAX if none is in it. */
static uint32_t
named_writer(const struct kv_buf *pieces, const struct value_part *p)
{
	uint64_t skip = (LINE_BYTES - p->off % LINE_BYTES) % LINE_BYTES;
	uint8_t b[sizeof(uint32_t)];
	uint32_t writer;

	if (!is_signed(p) || skip + sizeof(b) > p->len)
		return UINT32_MAX;
	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = byte_at(pieces, skip + i);
	memcpy(&writer, b, sizeof(b));
	return writer;
}

/* Whether got has these bytes; else *bad is the place of a wrong one. */
static bool
check_chunk(const uint8_t *got, const struct value_part *chunk, uint32_t writer,
	    uint64_t *bad)
{
	uint8_t want[CHUNK_BYTES];
	uint64_t i = 0;

	value_fill(want, chunk, writer);
	if (memcmp(got, want, chunk->len) == 0)
		return true;
	while (got[i] == want[i])
		i++;
	*bad = chunk->off + i;
	return false;
}

bool
value_check(const struct kv_buf *pieces, const struct value_part *p,
	    uint32_t *writer, uint64_t *bad)
{
	struct value_part chunk = *p;
	uint64_t at = 0, left = p->len;

	*writer = named_writer(pieces, p);
	if (*writer == UINT32_MAX && is_signed(p))
		return true;
	while (left > 0) {
		if (at == pieces->len) {
			pieces++;
			at = 0;
			continue;
		}
		chunk.len = kv_min_u64(left, pieces->len - at);
		chunk.len = kv_min_u64(chunk.len, CHUNK_BYTES);
		if (!check_chunk((uint8_t *)pieces->data + at, &chunk, *writer,
				 bad))
			return false;
		chunk.off += chunk.len;
		at += chunk.len;
		left -= chunk.len;
	}
	return true;
}

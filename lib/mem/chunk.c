#include "mem/chunk.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* The first position from `pos` on whose bit differs from those of `flip`;
 * that of `end`, or one above it, if all below it are like these. */
static unsigned
find(const uint64_t *map, unsigned pos, uint64_t flip, unsigned end)
{
	unsigned i = pos / 64;
	uint64_t word;

	if (pos >= end)
		return end;
	word = (map[i] ^ flip) & (~UINT64_C(0) << pos % 64);
	while (!word) {
		if (++i * 64 >= end)
			return end;
		word = map[i] ^ flip;
	}
	return i * 64 + (unsigned)__builtin_ctzll(word);
}

static unsigned
find_used(const struct kv_chunk *c, unsigned pos, unsigned end)
{
	return find(c->used, pos, 0, end);
}

static unsigned
find_free(const struct kv_chunk *c, unsigned pos)
{
	return find(c->used, pos, ~UINT64_C(0), KV_CHUNK_GRANULES);
}

/* Where the free run that ends before pos begins: pos when there is none. */
static unsigned
run_start(const struct kv_chunk *c, unsigned pos)
{
	unsigned i;
	uint64_t word;

	if (!pos)
		return 0;
	i = (pos - 1) / 64;
	word = c->used[i] & (~UINT64_C(0) >> (63 - (pos - 1) % 64));
	while (!word) {
		if (!i)
			return 0;
		word = c->used[--i];
	}
	return i * 64 + 64 - (unsigned)__builtin_clzll(word);
}

/* The bits of word i that belong to the range. */
static uint64_t
mask(unsigned i, unsigned pos, unsigned n)
{
	unsigned end = pos + n;
	uint64_t bits = ~UINT64_C(0);

	if (i == pos / 64)
		bits <<= pos % 64;
	if (i == (end - 1) / 64)
		bits &= ~UINT64_C(0) >> (63 - (end - 1) % 64);
	return bits;
}

static void
mark_used(struct kv_chunk *c, unsigned pos, unsigned n)
{
	unsigned i;

	for (i = pos / 64; i <= (pos + n - 1) / 64; i++)
		c->used[i] |= mask(i, pos, n);
	c->start[pos / 64] |= UINT64_C(1) << pos % 64;
}

static bool
is_set(const uint64_t *map, unsigned pos)
{
	return map[pos / 64] >> pos % 64 & 1;
}

/* Ends the program unless exactly one block lies there. */
static void
mark_free(struct kv_chunk *c, unsigned pos, unsigned n)
{
	unsigned end = pos + n, i;
	uint64_t bits, starts = 0;

	assert(is_set(c->start, pos));
	assert(end == KV_CHUNK_GRANULES || !is_set(c->used, end) ||
	       is_set(c->start, end));
	c->start[pos / 64] &= ~(UINT64_C(1) << pos % 64);
	for (i = pos / 64; i <= (end - 1) / 64; i++) {
		bits = mask(i, pos, n);
		assert((c->used[i] & bits) == bits);
		c->used[i] &= ~bits;
		starts |= c->start[i] & bits;
	}
	assert(!starts);
}

void
kv_chunk_init(struct kv_chunk *c)
{
	c->free = KV_CHUNK_GRANULES;
	c->run_max = KV_CHUNK_GRANULES;
	c->low = 0;
	memset(c->used, 0, sizeof(c->used));
	memset(c->start, 0, sizeof(c->start));
}

int
kv_chunk_take(struct kv_chunk *c, unsigned n)
{
	unsigned pos, end, longest = 0;

	assert(n > 0);
	if (n > c->run_max)
		return -ENOSPC;
	pos = find_free(c, c->low);
	c->low = (uint16_t)pos;
	while (pos < KV_CHUNK_GRANULES) {
		/* All of a long run need not be seen. */
		end = find_used(c, pos,
				pos + n < KV_CHUNK_GRANULES
					? pos + n
					: KV_CHUNK_GRANULES);
		if (end - pos >= n) {
			mark_used(c, pos, n);
			if (pos == c->low)
				c->low = (uint16_t)(pos + n);
			c->free = (uint16_t)(c->free - n);
			if (c->run_max > c->free)
				c->run_max = c->free;
			return (int)pos;
		}
		if (end - pos > longest)
			longest = end - pos;
		pos = find_free(c, end);
	}
	c->run_max = (uint16_t)longest;
	return -ENOSPC;
}

void
kv_chunk_release(struct kv_chunk *c, unsigned pos, unsigned n)
{
	unsigned run;

	assert(n > 0 && pos < KV_CHUNK_GRANULES);
	assert(n <= KV_CHUNK_GRANULES - pos);
	mark_free(c, pos, n);
	c->free = (uint16_t)(c->free + n);
	if (pos < c->low)
		c->low = (uint16_t)pos;
	run = find_used(c, pos, KV_CHUNK_GRANULES) - run_start(c, pos);
	if (run > c->run_max)
		c->run_max = (uint16_t)run;
}

unsigned
kv_chunk_holes(const struct kv_chunk *c, unsigned *longest)
{
	unsigned pos = 0, end, holes = 0, max = 0;

	while ((pos = find_free(c, pos)) < KV_CHUNK_GRANULES) {
		end = find_used(c, pos, KV_CHUNK_GRANULES);
		if (end - pos > max)
			max = end - pos;
		holes++;
		pos = end;
	}
	*longest = max;
	return holes;
}

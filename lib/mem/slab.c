#include "mem/slab.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/limits.h"
#include "base/num.h"
#include "mem/chunk.h"
#include "mem/span.h"

#define GRANULE    ((uint64_t)KV_GRANULE_BYTES)
#define SMALL      ((unsigned)(KV_SLAB_SMALL_BYTES / KV_GRANULE_BYTES))
#define LISTS      (KV_CHUNK_GRANULES + 1)
#define LIST_WORDS (KV_CHUNK_GRANULES / 64)

_Static_assert(KV_SLAB_SMALL_BYTES % KV_GRANULE_BYTES == 0, "whole granules");
_Static_assert(SMALL < KV_CHUNK_GRANULES, "a chunk holds small blocks");
_Static_assert(LIST_WORDS == 64, "a word says which of them are empty");
_Static_assert(KV_SLAB_POOL_BYTES_MAX / KV_GRANULE_BYTES <= UINT64_C(1) << 32,
	       "a span counts granules in 32 bits");

struct kv_slab {
	uint64_t granules;
	uint64_t announced;
	struct kv_span *span;

	/* By offset / chunk size: the chunk that lies there, or NULL. */
	struct kv_chunk **chunks;
	uint64_t chunks_used;
	uint64_t chunks_free; /* granules */

	/* Chunks by run_max; list 0 is of those that are full. A bit for each
	 * other one that is not empty, and one for each word with such bits. */
	struct kv_list lists[LISTS];
	uint64_t lists_map[LIST_WORDS];
	uint64_t words_map;
};

struct kv_slab *
kv_slab_new(uint64_t pool_bytes)
{
	struct kv_slab *s;
	unsigned i;

	if (pool_bytes < GRANULE || pool_bytes > KV_SLAB_POOL_BYTES_MAX) {
		errno = pool_bytes < GRANULE ? EINVAL : EFBIG;
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	for (i = 0; i < LISTS; i++)
		kv_list_init(&s->lists[i]);
	s->granules = pool_bytes / GRANULE;
	s->chunks = calloc(s->granules / KV_CHUNK_GRANULES + 1,
			   sizeof(struct kv_chunk *));
	s->span = kv_span_new(s->granules);
	if (!s->chunks || !s->span || KV_FAULT_POINT()) {
		kv_slab_free(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

void
kv_slab_free(struct kv_slab *s)
{
	struct kv_chunk *c, *tmp;
	unsigned i;

	if (!s)
		return;
	for (i = 0; i < LISTS; i++)
		KV_LIST_FOREACH_SAFE(c, tmp, &s->lists[i], node)
			free(c);
	kv_span_free(s->span);
	free(s->chunks);
	free(s);
}

static bool
range_is_valid(const struct kv_slab *s, uint64_t off, uint64_t len)
{
	uint64_t pool = s->granules * GRANULE;

	return len && off % GRANULE == 0 && len % GRANULE == 0 && off < pool &&
	       len <= pool - off;
}

int
kv_slab_add(struct kv_slab *s, uint64_t off, uint64_t len)
{
	int rc;

	if (!range_is_valid(s, off, len))
		return -EINVAL;
	rc = kv_span_add(s->span, off / GRANULE, len / GRANULE);
	if (!rc)
		s->announced += len / GRANULE;
	return rc;
}

int
kv_slab_reserve(struct kv_slab *s, uint64_t off, uint64_t len)
{
	assert(!s->chunks_used);
	if (!range_is_valid(s, off, len))
		return -EINVAL;
	return kv_span_reserve(s->span, off / GRANULE, len / GRANULE);
}

static void
list_add(struct kv_slab *s, struct kv_chunk *c)
{
	unsigned i = c->run_max, bit = i - 1;

	c->list = (uint16_t)i;
	kv_list_add_head(&s->lists[i], &c->node);
	if (i == 0)
		return;
	s->lists_map[bit / 64] |= UINT64_C(1) << bit % 64;
	s->words_map |= UINT64_C(1) << bit / 64;
}

static void
list_del(struct kv_slab *s, struct kv_chunk *c)
{
	unsigned i = c->list, bit = i - 1;

	kv_list_del(&c->node);
	if (i == 0 || !kv_list_is_empty(&s->lists[i]))
		return;
	s->lists_map[bit / 64] &= ~(UINT64_C(1) << bit % 64);
	if (!s->lists_map[bit / 64])
		s->words_map &= ~(UINT64_C(1) << bit / 64);
}

/* After run_max changed. */
static void
list_move(struct kv_slab *s, struct kv_chunk *c)
{
	if (c->list == c->run_max)
		return;
	list_del(s, c);
	list_add(s, c);
}

/* The chunk with the smallest run that may hold n > 0, or NULL. */
static struct kv_chunk *
chunk_find(const struct kv_slab *s, unsigned n)
{
	unsigned bit = n - 1, i = bit / 64;
	uint64_t word = s->lists_map[i] & (~UINT64_C(0) << bit % 64);
	uint64_t later = s->words_map & (~UINT64_C(1) << i);

	if (!word) {
		if (!later)
			return NULL;
		i = (unsigned)__builtin_ctzll(later);
		word = s->lists_map[i];
	}
	bit = i * 64 + (unsigned)__builtin_ctzll(word);
	return KV_LIST_FIRST(&s->lists[bit + 1], struct kv_chunk, node);
}

/* One with the longest free run, by the bounds; NULL when all are full. */
static struct kv_chunk *
chunk_top(const struct kv_slab *s)
{
	unsigned i, bit;

	if (!s->words_map)
		return NULL;
	i = 63 - (unsigned)__builtin_clzll(s->words_map);
	bit = i * 64 + 63 - (unsigned)__builtin_clzll(s->lists_map[i]);
	return KV_LIST_FIRST(&s->lists[bit + 1], struct kv_chunk, node);
}

/* Takes room for a chunk out of the span. */
static struct kv_chunk *
chunk_new(struct kv_slab *s, int *err)
{
	struct kv_chunk *c;
	uint64_t first;

	*err = -ENOMEM;
	if (KV_FAULT_POINT())
		return NULL;
	c = malloc(sizeof(*c));
	if (!c)
		return NULL;
	*err = kv_span_take_top(s->span, KV_CHUNK_GRANULES, &first);
	if (*err) {
		free(c);
		return NULL;
	}
	kv_chunk_init(c);
	c->number = (uint32_t)(first / KV_CHUNK_GRANULES);
	list_add(s, c);
	s->chunks[c->number] = c;
	s->chunks_used++;
	s->chunks_free += KV_CHUNK_GRANULES;
	return c;
}

/* An empty chunk becomes a hole of the span again. */
static void
chunk_free(struct kv_slab *s, struct kv_chunk *c)
{
	list_del(s, c);
	s->chunks[c->number] = NULL;
	s->chunks_used--;
	s->chunks_free -= KV_CHUNK_GRANULES;
	kv_span_release(s->span, (uint64_t)c->number * KV_CHUNK_GRANULES,
			KV_CHUNK_GRANULES);
	free(c);
}

static int
chunk_take(struct kv_slab *s, struct kv_chunk *c, unsigned n,
	   struct kv_extent *ext)
{
	int pos = kv_chunk_take(c, n);

	list_move(s, c);
	if (pos < 0)
		return pos;
	s->chunks_free -= n;
	ext->off = (c->number * (uint64_t)KV_CHUNK_GRANULES + pos) * GRANULE;
	ext->len = n * GRANULE;
	return 0;
}

/* From the fullest chunk that has room, or -ENOSPC. */
static int
take_from_chunks(struct kv_slab *s, unsigned n, struct kv_extent *ext)
{
	struct kv_chunk *c;

	/* A chunk that disappoints moves to a lower list. */
	while ((c = chunk_find(s, n)))
		if (!chunk_take(s, c, n, ext))
			return 0;
	return -ENOSPC;
}

static int
take_from_span(struct kv_slab *s, uint64_t n, struct kv_extent *ext)
{
	uint64_t first;
	int rc = kv_span_take(s->span, n, &first);

	if (rc)
		return rc;
	ext->off = first * GRANULE;
	ext->len = n * GRANULE;
	return 0;
}

/* One extent, where it disturbs least. */
static int
take_whole(struct kv_slab *s, uint64_t n, struct kv_extent *ext)
{
	struct kv_chunk *c;
	int rc;

	if (n <= SMALL) {
		if (!take_from_chunks(s, (unsigned)n, ext))
			return 0;
		c = chunk_new(s, &rc);
		if (c)
			return chunk_take(s, c, (unsigned)n, ext);
		if (rc != -ENOSPC)
			return rc;
	}
	rc = take_from_span(s, n, ext);
	if (rc == -ENOSPC && n > SMALL && n <= KV_CHUNK_GRANULES)
		rc = take_from_chunks(s, (unsigned)n, ext);
	return rc;
}

/* All of n where it fits, else the largest hole of span and chunks. */
static int
take_piece(struct kv_slab *s, uint64_t n, struct kv_extent *ext)
{
	struct kv_chunk *c;
	uint64_t first, got, top;
	int rc = take_whole(s, n, ext);

	if (rc != -ENOSPC)
		return rc;
	top = kv_span_top(s->span);
	while ((c = chunk_top(s)) && c->run_max > top) {
		got = c->run_max < n ? c->run_max : n;
		if (!chunk_take(s, c, (unsigned)got, ext))
			return 0;
	}
	rc = kv_span_take_most(s->span, n, &first, &got);
	if (rc)
		return rc;
	ext->off = first * GRANULE;
	ext->len = got * GRANULE;
	return 0;
}

static int
take_pieces(struct kv_slab *s, uint64_t n, struct kv_extent *ext, unsigned max)
{
	unsigned i;
	int rc;

	for (i = 0; i < max && n; i++) {
		rc = take_piece(s, n, &ext[i]);
		if (rc) {
			kv_slab_release(s, ext, i);
			return rc;
		}
		n -= ext[i].len / GRANULE;
	}
	if (n) {
		kv_slab_release(s, ext, i);
		return -ENOSPC;
	}
	return (int)i;
}

int
kv_slab_alloc(struct kv_slab *s, uint64_t bytes, struct kv_extent *ext,
	      unsigned max)
{
	uint64_t n = kv_div_up_u64(bytes, GRANULE);

	assert(max > 0);
	if (!n)
		return 0;
	if (n > kv_span_free_granules(s->span) + s->chunks_free)
		return -ENOSPC;
	return take_pieces(s, n, ext, max);
}

static void
release_one(struct kv_slab *s, uint64_t first, uint64_t n)
{
	struct kv_chunk *c = s->chunks[first / KV_CHUNK_GRANULES];

	if (!c) {
		kv_span_release(s->span, first, n);
		return;
	}
	assert(n <= KV_CHUNK_GRANULES);
	kv_chunk_release(c, first % KV_CHUNK_GRANULES, (unsigned)n);
	s->chunks_free += n;
	if (c->free == KV_CHUNK_GRANULES)
		chunk_free(s, c);
	else
		list_move(s, c);
}

void
kv_slab_release(struct kv_slab *s, const struct kv_extent *ext, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		assert(range_is_valid(s, ext[i].off, ext[i].len));
		release_one(s, ext[i].off / GRANULE, ext[i].len / GRANULE);
	}
}

uint64_t
kv_slab_free_bytes(const struct kv_slab *s)
{
	return (kv_span_free_granules(s->span) + s->chunks_free) * GRANULE;
}

void
kv_slab_stats(const struct kv_slab *s, struct kv_slab_stats *st)
{
	uint64_t max = kv_span_largest(s->span);
	struct kv_chunk *c;
	unsigned i, longest;

	st->holes = kv_span_holes(s->span);
	for (i = 1; i < LISTS; i++)
		KV_LIST_FOREACH(c, &s->lists[i], node) {
			st->holes += kv_chunk_holes(c, &longest);
			if (longest > max)
				max = longest;
		}
	st->total_bytes = s->announced * GRANULE;
	st->free_bytes = kv_slab_free_bytes(s);
	st->hole_bytes_max = max * GRANULE;
	st->chunks = s->chunks_used;
}

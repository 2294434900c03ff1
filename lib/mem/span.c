/*
 * Blocks are described outside of the pool, so that neither a stray store of a
 * process that maps it nor a page that is not there can hurt the allocator. A
 * description is 20 bytes, named by its number: a growing array of them is
 * moved by the kernel's page tables, not by copying. A taken block is found by
 * its first granule in a table that grows by one bucket an insertion (linear
 * hashing), so that no single call pays for the growth.
 *
 * Holes are kept by size in two-level classes as in TLSF: 32 linear steps in
 * each power of two, a bitmap over both.
 */
#include "mem/span.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"

#define STEP_BITS   5
#define STEPS       (1u << STEP_BITS)
#define LEVELS      (32 - STEP_BITS + 2)
#define CLASSES     (LEVELS * STEPS)
#define PROBES_MAX  64
#define NUMBER_BITS 30
#define BLOCKS_MAX  (1u << NUMBER_BITS)
#define BUCKETS_MIN 64u

/* Number 0 is no block: the end of every list, and both ends of the space. */
#define NIL 0u

enum state {
	TAKEN,
	HOLE,
	GAP
};

struct block {
	uint32_t first;  /* granule */
	uint32_t before; /* neighbours by address */
	uint32_t after;
	uint32_t next; /* in the class, the bucket or the list of gaps */
	uint32_t prev : NUMBER_BITS;
	uint32_t state : 2;
};

struct kv_span {
	uint64_t granules;
	uint64_t free;
	uint64_t holes;

	struct block *blocks;
	uint32_t blocks_cap;
	uint32_t blocks_len; /* numbers given out so far */
	uint32_t unused;     /* list of numbers that came back */
	uint32_t unused_len;

	uint32_t *buckets; /* taken blocks by first granule */
	uint32_t buckets_cap;
	uint32_t buckets_len;
	uint32_t taken;

	uint32_t gaps;
	uint32_t reserve_at; /* a block near the last reservation */
	uint32_t levels;     /* bit: the level has a hole */
	uint32_t steps[LEVELS];
	uint32_t holes_by_class[CLASSES];
};

static uint64_t
end_of(const struct kv_span *sp, uint32_t b)
{
	uint32_t after = sp->blocks[b].after;

	return after == NIL ? sp->granules : sp->blocks[after].first;
}

static uint64_t
size_of(const struct kv_span *sp, uint32_t b)
{
	return end_of(sp, b) - sp->blocks[b].first;
}

static unsigned
class_of(uint64_t n)
{
	unsigned bit, step;

	if (n < STEPS)
		return (unsigned)n;
	bit = 63 - (unsigned)__builtin_clzll(n);
	step = (unsigned)(n >> (bit - STEP_BITS)) & (STEPS - 1);
	return (bit - STEP_BITS + 1) * STEPS + step;
}

/* The smallest class from c on that has a hole, or CLASSES. */
static unsigned
class_from(const struct kv_span *sp, unsigned c)
{
	unsigned level = c / STEPS;
	uint32_t map;

	if (c >= CLASSES)
		return CLASSES;
	map = sp->steps[level] & (~0u << c % STEPS);
	if (!map) {
		if (level + 1 == LEVELS)
			return CLASSES;
		map = sp->levels & (~0u << (level + 1));
		if (!map)
			return CLASSES;
		level = (unsigned)__builtin_ctz(map);
		map = sp->steps[level];
	}
	return level * STEPS + (unsigned)__builtin_ctz(map);
}

/* The largest class below c that has a hole, or CLASSES. */
static unsigned
class_below(const struct kv_span *sp, unsigned c)
{
	unsigned level = c / STEPS;
	uint32_t map = 0;

	if (level < LEVELS)
		map = sp->steps[level] & ~(~0u << c % STEPS);
	if (!map) {
		map = sp->levels;
		if (level < LEVELS)
			map &= ~(~0u << level);
		if (!map)
			return CLASSES;
		level = 31 - (unsigned)__builtin_clz(map);
		map = sp->steps[level];
	}
	return level * STEPS + 31 - (unsigned)__builtin_clz(map);
}

static void
list_add(struct kv_span *sp, uint32_t *head, uint32_t b)
{
	sp->blocks[b].next = *head;
	sp->blocks[b].prev = NIL;
	if (*head != NIL)
		sp->blocks[*head].prev = b & (BLOCKS_MAX - 1);
	*head = b;
}

static void
list_del(struct kv_span *sp, uint32_t *head, uint32_t b)
{
	struct block *bl = &sp->blocks[b];

	if (bl->next != NIL)
		sp->blocks[bl->next].prev = bl->prev;
	if (bl->prev != NIL)
		sp->blocks[bl->prev].next = bl->next;
	else
		*head = bl->next;
}

static void
hole_link(struct kv_span *sp, uint32_t b)
{
	uint64_t n = size_of(sp, b);
	unsigned c = class_of(n);

	sp->blocks[b].state = HOLE;
	list_add(sp, &sp->holes_by_class[c], b);
	sp->steps[c / STEPS] |= 1u << c % STEPS;
	sp->levels |= 1u << c / STEPS;
	sp->free += n;
	sp->holes++;
}

static void
hole_unlink(struct kv_span *sp, uint32_t b)
{
	uint64_t n = size_of(sp, b);
	unsigned c = class_of(n);

	list_del(sp, &sp->holes_by_class[c], b);
	if (sp->holes_by_class[c] == NIL) {
		sp->steps[c / STEPS] &= ~(1u << c % STEPS);
		if (!sp->steps[c / STEPS])
			sp->levels &= ~(1u << c / STEPS);
	}
	sp->free -= n;
	sp->holes--;
}

static uint32_t
hash(uint32_t first)
{
	uint32_t h = first * UINT32_C(0x9e3779b1);

	return h ^ h >> 15;
}

/* Linear hashing: buckets_len need not be a power of two. */
static uint32_t
bucket_of(const struct kv_span *sp, uint32_t first)
{
	uint32_t half = 1u << (31 - __builtin_clz(sp->buckets_len));
	uint32_t i = hash(first) & (2 * half - 1);

	return i < sp->buckets_len ? i : i - half;
}

/* Splits one bucket. Without memory for it the chains just grow longer. */
static void
buckets_grow(struct kv_span *sp)
{
	uint32_t half = 1u << (31 - __builtin_clz(sp->buckets_len));
	uint32_t old = sp->buckets_len - half;
	uint32_t b, next, cap, i;
	uint32_t *p;

	if (sp->buckets_len == sp->buckets_cap) {
		if (KV_FAULT_POINT())
			return;
		cap = sp->buckets_cap + sp->buckets_cap / 2;
		p = realloc(sp->buckets, cap * sizeof(*p));
		if (!p)
			return;
		sp->buckets = p;
		sp->buckets_cap = cap;
	}
	sp->buckets[sp->buckets_len++] = NIL;
	b = sp->buckets[old];
	sp->buckets[old] = NIL;
	for (; b != NIL; b = next) {
		next = sp->blocks[b].next;
		i = bucket_of(sp, sp->blocks[b].first);
		sp->blocks[b].next = sp->buckets[i];
		sp->buckets[i] = b;
	}
}

static void
taken_link(struct kv_span *sp, uint32_t b)
{
	uint32_t i;

	if (sp->taken++ >= sp->buckets_len)
		buckets_grow(sp);
	i = bucket_of(sp, sp->blocks[b].first);
	sp->blocks[b].state = TAKEN;
	sp->blocks[b].next = sp->buckets[i];
	sp->buckets[i] = b;
}

/* Takes the block that begins there out of the table; NIL for none. */
static uint32_t
taken_unlink(struct kv_span *sp, uint32_t first)
{
	uint32_t *link = &sp->buckets[bucket_of(sp, first)];
	uint32_t b;

	while (*link != NIL && sp->blocks[*link].first != first)
		link = &sp->blocks[*link].next;
	b = *link;
	if (b != NIL) {
		*link = sp->blocks[b].next;
		sp->taken--;
	}
	return b;
}

/* After it `n` calls of block_new() succeed. */
static int
blocks_ensure(struct kv_span *sp, uint32_t n)
{
	uint32_t cap = sp->blocks_cap;
	struct block *p;

	if (sp->unused_len + (cap - sp->blocks_len) >= n)
		return 0;
	cap += cap / 2 + n;
	if (cap > BLOCKS_MAX || KV_FAULT_POINT())
		return -ENOMEM;
	p = realloc(sp->blocks, cap * sizeof(*p));
	if (!p)
		return -ENOMEM;
	sp->blocks = p;
	sp->blocks_cap = cap;
	return 0;
}

static uint32_t
block_new(struct kv_span *sp)
{
	uint32_t b = sp->unused;

	if (b != NIL) {
		sp->unused = sp->blocks[b].next;
		sp->unused_len--;
		return b;
	}
	assert(sp->blocks_len < sp->blocks_cap);
	return sp->blocks_len++;
}

/* Cuts a block that is on no list; its upper part, on none too, is returned. */
static uint32_t
split(struct kv_span *sp, uint32_t b, uint64_t at)
{
	uint32_t upper = block_new(sp);
	struct block *lo = &sp->blocks[b], *hi = &sp->blocks[upper];

	hi->first = (uint32_t)at;
	hi->before = b;
	hi->after = lo->after;
	hi->state = lo->state;
	sp->blocks[lo->after].before = upper;
	lo->after = upper;
	return upper;
}

/* Removes `upper`, which is on no list: its room goes to the block below. */
static void
absorb(struct kv_span *sp, uint32_t upper)
{
	struct block *hi = &sp->blocks[upper];

	sp->blocks[hi->before].after = hi->after;
	sp->blocks[hi->after].before = hi->before;
	if (sp->reserve_at == upper)
		sp->reserve_at = hi->before;
	hi->next = sp->unused;
	sp->unused = upper;
	sp->unused_len++;
}

/* A block that is on no list becomes a hole, one with those beside it. */
static void
hole_add(struct kv_span *sp, uint32_t b)
{
	uint32_t before = sp->blocks[b].before, after = sp->blocks[b].after;

	if (after != NIL && sp->blocks[after].state == HOLE) {
		hole_unlink(sp, after);
		absorb(sp, after);
	}
	if (before != NIL && sp->blocks[before].state == HOLE) {
		hole_unlink(sp, before);
		absorb(sp, b);
		b = before;
	}
	hole_link(sp, b);
}

/* Takes a range of a hole; blocks_ensure(2) came before. */
static void
carve(struct kv_span *sp, uint32_t b, uint64_t first, uint64_t n)
{
	uint32_t lower = b;

	hole_unlink(sp, b);
	if (sp->blocks[b].first != first) {
		b = split(sp, lower, first);
		hole_link(sp, lower);
	}
	if (end_of(sp, b) != first + n)
		hole_link(sp, split(sp, b, first + n));
	taken_link(sp, b);
}

struct kv_span *
kv_span_new(uint64_t granules)
{
	struct kv_span *sp = calloc(1, sizeof(*sp));

	assert(granules > 0 && granules <= UINT64_C(1) << 32);
	if (!sp)
		return NULL;
	sp->granules = granules;
	sp->blocks_cap = 64;
	sp->blocks = calloc(sp->blocks_cap, sizeof(*sp->blocks));
	sp->buckets_cap = sp->buckets_len = BUCKETS_MIN;
	sp->buckets = calloc(sp->buckets_cap, sizeof(*sp->buckets));
	if (!sp->blocks || !sp->buckets || KV_FAULT_POINT()) {
		kv_span_free(sp);
		errno = ENOMEM;
		return NULL;
	}
	sp->blocks[NIL].state = TAKEN;
	sp->blocks_len = 1;
	sp->gaps = block_new(sp);
	sp->blocks[sp->gaps].state = GAP;
	sp->blocks[NIL].before = sp->blocks[NIL].after = sp->gaps;
	return sp;
}

void
kv_span_free(struct kv_span *sp)
{
	if (!sp)
		return;
	free(sp->blocks);
	free(sp->buckets);
	free(sp);
}

int
kv_span_add(struct kv_span *sp, uint64_t first, uint64_t n)
{
	uint32_t b, lower;

	for (b = sp->gaps; b != NIL; b = sp->blocks[b].next)
		if (first >= sp->blocks[b].first && first < end_of(sp, b))
			break;
	if (b == NIL || first + n > end_of(sp, b))
		return -EEXIST;
	if (blocks_ensure(sp, 2))
		return -ENOMEM;
	list_del(sp, &sp->gaps, b);
	if (sp->blocks[b].first != first) {
		lower = b;
		b = split(sp, lower, first);
		list_add(sp, &sp->gaps, lower);
	}
	if (end_of(sp, b) != first + n)
		list_add(sp, &sp->gaps, split(sp, b, first + n));
	hole_add(sp, b);
	return 0;
}

/* The smallest of the first holes of a class that holds n, or NIL. */
static uint32_t
best_of_class(const struct kv_span *sp, unsigned c, uint64_t n)
{
	uint32_t b = sp->holes_by_class[c], best = NIL;
	uint64_t size, best_size = UINT64_MAX;
	int i;

	for (i = 0; b != NIL && i < PROBES_MAX; i++, b = sp->blocks[b].next) {
		size = size_of(sp, b);
		if (size < n || size >= best_size)
			continue;
		best = b;
		best_size = size;
		if (size == n)
			break;
	}
	return best;
}

int
kv_span_take(struct kv_span *sp, uint64_t n, uint64_t *first)
{
	unsigned c = class_of(n);
	uint32_t b;

	if (n > sp->free)
		return -ENOSPC;
	b = best_of_class(sp, c, n);
	if (b == NIL) {
		c = class_from(sp, c + 1);
		if (c == CLASSES)
			return -ENOSPC;
		b = sp->holes_by_class[c];
	}
	if (blocks_ensure(sp, 2))
		return -ENOMEM;
	*first = sp->blocks[b].first;
	carve(sp, b, *first, n);
	return 0;
}

int
kv_span_take_top(struct kv_span *sp, uint64_t n, uint64_t *first)
{
	unsigned c = CLASSES;
	uint64_t end, low;
	uint32_t b;

	/* A hole of 2n always holds an aligned n; below that it is luck. */
	while ((c = class_below(sp, c)) < CLASSES && c >= class_of(n)) {
		b = sp->holes_by_class[c];
		low = sp->blocks[b].first;
		end = end_of(sp, b) & ~(n - 1);
		if (end < low + n)
			continue;
		if (blocks_ensure(sp, 2))
			return -ENOMEM;
		*first = end - n;
		carve(sp, b, *first, n);
		return 0;
	}
	return -ENOSPC;
}

int
kv_span_take_most(struct kv_span *sp, uint64_t n, uint64_t *first,
		  uint64_t *got)
{
	unsigned c = class_below(sp, CLASSES);
	uint64_t size;
	uint32_t b;

	if (c == CLASSES)
		return -ENOSPC;
	if (blocks_ensure(sp, 2))
		return -ENOMEM;
	b = sp->holes_by_class[c];
	size = size_of(sp, b);
	*first = sp->blocks[b].first;
	*got = size < n ? size : n;
	carve(sp, b, *first, *got);
	return 0;
}

int
kv_span_reserve(struct kv_span *sp, uint64_t first, uint64_t n)
{
	uint32_t b = sp->reserve_at;

	if (b == NIL)
		b = sp->blocks[NIL].after;
	while (sp->blocks[b].first > first)
		b = sp->blocks[b].before;
	while (end_of(sp, b) <= first)
		b = sp->blocks[b].after;
	sp->reserve_at = b;
	if (sp->blocks[b].state != HOLE || first + n > end_of(sp, b))
		return -EEXIST;
	if (blocks_ensure(sp, 2))
		return -ENOMEM;
	carve(sp, b, first, n);
	return 0;
}

void
kv_span_release(struct kv_span *sp, uint64_t first, uint64_t n)
{
	uint32_t b = taken_unlink(sp, (uint32_t)first);

	assert(b != NIL);
	assert(size_of(sp, b) == n);
	hole_add(sp, b);
}

uint64_t
kv_span_free_granules(const struct kv_span *sp)
{
	return sp->free;
}

uint64_t
kv_span_holes(const struct kv_span *sp)
{
	return sp->holes;
}

uint64_t
kv_span_top(const struct kv_span *sp)
{
	unsigned c = class_below(sp, CLASSES);

	return c == CLASSES ? 0 : size_of(sp, sp->holes_by_class[c]);
}

uint64_t
kv_span_largest(const struct kv_span *sp)
{
	unsigned c = class_below(sp, CLASSES);
	uint64_t size, max = 0;
	uint32_t b;

	if (c == CLASSES)
		return 0;
	for (b = sp->holes_by_class[c]; b != NIL; b = sp->blocks[b].next) {
		size = size_of(sp, b);
		if (size > max)
			max = size;
	}
	return max;
}

#include "base/htab.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/num.h"
#include "base/warm.h"

/*
 * With 2^k <= buckets < 2^(k+1) a hash lives in bucket hash mod 2^(k+1) if
 * that bucket exists, else in hash mod 2^k. Growing makes bucket `buckets`
 * out of one half of bucket `buckets - 2^k`; shrinking undoes that.
 */

enum {
	/* Nodes of two buckets on average, from which on the table grows. Those
	 * that are to be split have up to twice as many as those that were: of
	 * five places a bucket less than half may be in use, or chains, which
	 * are other's memory again, are what splits and misses wait for. */
	FILL2_MAX = 4,
	/* With so many it grows where memory is not faulted in yet, too. */
	FILL2_WAIT = 6,
	/* It shrinks when they have fewer, */
	FILL2_MIN = 1,
	/* and a delete may merge so many, so shrinking keeps up with it. */
	MERGE_MAX = 8,
	/* malloc may have to clear reused memory; for more take new pages */
	MMAP_BYTES_MIN = 256 * 1024,
	/* Pages of a shrinking segment go back in pieces, not at once. */
	RELEASE_BYTES = 2 << 20,
	HUGE_BYTES = 2 << 20,
};

/* 2^k, the power of two at or below n > 0. */
static size_t
pow2_floor(size_t n)
{
	return (size_t)1 << (63 - __builtin_clzl(n));
}

/* Which segment holds bucket b. */
static size_t
seg_of(size_t b)
{
	if (b < KV_HTAB_BUCKETS_MIN)
		return 0;
	return (size_t)(64 - __builtin_clzl(b / KV_HTAB_BUCKETS_MIN));
}

/* First bucket of segment s > 0, which is also its number of buckets. */
static size_t
seg_start(size_t s)
{
	return (size_t)KV_HTAB_BUCKETS_MIN << (s - 1);
}

static size_t
seg_bytes(size_t s)
{
	size_t n = s == 0 ? KV_HTAB_BUCKETS_MIN : seg_start(s);

	return n * sizeof(struct kv_htab_bucket);
}

/* At a multiple of their size where huge pages fit in. */
static void *
pages_new(size_t bytes)
{
	size_t slack = bytes < HUGE_BYTES ? 0 : HUGE_BYTES, head;
	char *p = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *aligned;

	if (p == MAP_FAILED)
		return NULL;
	if (slack == 0)
		return p;
	head = -(uintptr_t)p % HUGE_BYTES;
	aligned = p + head;
	munmap(aligned + bytes, slack - head);
	if (head)
		munmap(p, head);
	return aligned;
}

static int
seg_alloc(struct kv_htab *t, size_t s)
{
	size_t bytes = seg_bytes(s);
	void *p;

	if (KV_FAULT_POINT())
		return -ENOMEM;
	if (bytes < MMAP_BYTES_MIN) {
		p = aligned_alloc(sizeof(struct kv_htab_bucket), bytes);
		if (p)
			memset(p, 0, bytes);
	} else {
		p = pages_new(bytes);
	}
	if (!p)
		return -ENOMEM;
	t->segs[s] = p;
	if (t->warm && bytes >= HUGE_BYTES) {
		madvise(p, bytes, MADV_HUGEPAGE);
		kv_warm_set(t->warm, p, bytes);
	}
	return 0;
}

static void
seg_free(struct kv_htab *t, size_t s)
{
	struct kv_htab_bucket *seg = kv_steal_ptr(&t->segs[s]);

	if (!seg)
		return;
	if (t->warm && seg_bytes(s) >= HUGE_BYTES)
		kv_warm_set(t->warm, NULL, 0);
	if (seg_bytes(s) < MMAP_BYTES_MIN)
		free(seg);
	else
		munmap(seg, seg_bytes(s));
}

static struct kv_htab_bucket *
bucket(const struct kv_htab *t, size_t b)
{
	size_t s = seg_of(b);

	return &t->segs[s][s == 0 ? b : b - seg_start(s)];
}

/* The bucket in which the nodes of this hash are; there are buckets. */
static struct kv_htab_bucket *
bucket_of(const struct kv_htab *t, uint64_t hash)
{
	size_t b = hash & (2 * t->low - 1);

	return bucket(t, b < t->buckets ? b : b & (t->low - 1));
}

void
kv_htab_init(struct kv_htab *t)
{
	*t = (struct kv_htab){ 0 };
}

void
kv_htab_warm(struct kv_htab *t, struct kv_warm *w)
{
	t->warm = w;
}

void
kv_htab_fini(struct kv_htab *t)
{
	size_t s;

	for (s = 0; s < KV_HTAB_SEGMENTS_MAX; s++)
		seg_free(t, s);
	kv_htab_init(t);
}

/* ---- a bucket ---- */

/* How many of its nodes have places. */
static uint32_t
placed(const struct kv_htab_bucket *b)
{
	return b->count < KV_HTAB_PLACES ? b->count : KV_HTAB_PLACES;
}

/* Where its chain hangs; only if it has more nodes than places. */
static struct kv_htab_node **
chain(const struct kv_htab_bucket *b)
{
	return &b->nodes[KV_HTAB_PLACES - 1]->next;
}

static void
bucket_add(struct kv_htab_bucket *b, struct kv_htab_node *n, uint32_t tag)
{
	if (b->count < KV_HTAB_PLACES) {
		b->nodes[b->count] = n;
		b->tags[b->count] = tag;
	} else {
		n->next = b->count > KV_HTAB_PLACES ? *chain(b) : NULL;
		*chain(b) = n;
	}
	b->count++;
}

/* The node of place i goes: the first of the chain, or the one of the last
 * place, takes it. */
static void
place_del(struct kv_htab_bucket *b, uint32_t i)
{
	struct kv_htab_node *n, *next;
	uint32_t last;

	if (--b->count < KV_HTAB_PLACES) {
		last = b->count;
		b->nodes[i] = b->nodes[last];
		b->tags[i] = b->tags[last];
		return;
	}
	n = *chain(b);
	next = n->next;
	b->nodes[i] = n;
	b->tags[i] = (uint32_t)n->hash;
	if (i == KV_HTAB_PLACES - 1)
		return; /* the rest hangs on it already */
	*chain(b) = next;
}

static void
bucket_del(struct kv_htab_bucket *b, struct kv_htab_node *n)
{
	struct kv_htab_node **at;
	uint32_t i;

	for (i = 0; i < placed(b); i++)
		if (b->nodes[i] == n) {
			place_del(b, i);
			return;
		}
	assert(b->count > KV_HTAB_PLACES);
	for (at = chain(b); *at != n; at = &(*at)->next)
		assert(*at);
	*at = n->next;
	b->count--;
}

/* Moves the nodes that have this bit of the hash, or (0) all. */
static void
bucket_move(struct kv_htab_bucket *from, struct kv_htab_bucket *to,
	    uint64_t bit)
{
	struct kv_htab_bucket all = *from;
	struct kv_htab_node *n, *next = NULL;
	uint32_t i;

	if (all.count > KV_HTAB_PLACES)
		next = *chain(&all);
	from->count = 0;
	for (i = 0; i < placed(&all); i++)
		bucket_add(!bit || all.tags[i] & bit ? to : from, all.nodes[i],
			   all.tags[i]);
	while ((n = next)) {
		next = n->next;
		bucket_add(!bit || n->hash & bit ? to : from, n,
			   (uint32_t)n->hash);
	}
}

/* ---- growing and shrinking ---- */

/* Whether bucket b of segment s is in memory; if not, a table with so many
 * nodes can wait. */
static bool
can_wait(const struct kv_htab *t, size_t s, size_t b)
{
	size_t end = (b + 1 - seg_start(s)) * sizeof(struct kv_htab_bucket);

	return t->warm && seg_bytes(s) >= HUGE_BYTES &&
	       2 * t->count < t->buckets * FILL2_WAIT &&
	       !kv_warm_reaches(t->warm, end);
}

/* Without memory for it the table stays as it is, only with longer chains. */
static void
split_one(struct kv_htab *t)
{
	size_t b = t->buckets, low = t->low, s = seg_of(b);
	struct kv_htab_bucket *to;

	if (s >= KV_HTAB_SEGMENTS_MAX || (!t->segs[s] && seg_alloc(t, s) < 0))
		return;
	if (can_wait(t, s, b))
		return;
	to = bucket(t, b);
	/* Written before it is read: else a new page is faulted in twice, first
	 * as the page of zeros. */
	to->count = 0;
	bucket_move(bucket(t, b - low), to, low);
	b = ++t->buckets;
	t->low = pow2_floor(b);
	/* The next one's turn comes in a moment. */
	__builtin_prefetch(bucket(t, b - t->low), 1);
}

/* Bucket b of segment s was the last one in use there. */
static void
seg_shrink(struct kv_htab *t, size_t s, size_t b)
{
	size_t at = (b - seg_start(s)) * sizeof(struct kv_htab_bucket);

	if (at == 0)
		seg_free(t, s);
	else if (at % RELEASE_BYTES == 0)
		madvise((char *)t->segs[s] + at, RELEASE_BYTES, MADV_DONTNEED);
}

static void
merge_one(struct kv_htab *t)
{
	size_t b = t->buckets - 1, low = pow2_floor(b);

	bucket_move(bucket(t, b), bucket(t, b - low), 0);
	t->buckets--;
	t->low = pow2_floor(t->buckets);
	seg_shrink(t, seg_of(b), b);
}

/* After so many deletes. */
static void
shrink(struct kv_htab *t, size_t deletes)
{
	size_t i;

	for (i = 0; i < deletes * MERGE_MAX; i++)
		if (t->buckets > KV_HTAB_BUCKETS_MIN &&
		    2 * t->count < t->buckets * FILL2_MIN)
			merge_one(t);
}

/* ---- nodes ---- */

int
kv_htab_add(struct kv_htab *t, struct kv_htab_node *n, uint64_t hash)
{
	int rc;

	if (t->buckets == 0) {
		rc = seg_alloc(t, 0);
		if (rc < 0)
			return rc;
		t->buckets = t->low = KV_HTAB_BUCKETS_MIN;
	}
	n->hash = hash;
	n->next = NULL;
	bucket_add(bucket_of(t, hash), n, (uint32_t)hash);
	t->count++;
	if (2 * t->count > t->buckets * FILL2_MAX)
		split_one(t);
	return 0;
}

void
kv_htab_del(struct kv_htab *t, struct kv_htab_node *n)
{
	assert(t->count > 0);
	bucket_del(bucket_of(t, n->hash), n);
	t->count--;
	if (!t->is_scanned)
		shrink(t, 1);
}

/* The next one of the bucket that has this hash: in a place from i on, or in
 * the chain. */
static struct kv_htab_node *
match(const struct kv_htab_bucket *b, uint32_t i, uint64_t hash)
{
	struct kv_htab_node *n;

	for (; i < placed(b); i++)
		if (b->tags[i] == (uint32_t)hash && b->nodes[i]->hash == hash)
			return b->nodes[i];
	if (b->count <= KV_HTAB_PLACES)
		return NULL;
	for (n = *chain(b); n && n->hash != hash; n = n->next)
		;
	return n;
}

struct kv_htab_node *
kv_htab_first(const struct kv_htab *t, uint64_t hash)
{
	return t->count ? match(bucket_of(t, hash), 0, hash) : NULL;
}

struct kv_htab_node *
kv_htab_next(const struct kv_htab *t, const struct kv_htab_node *n)
{
	const struct kv_htab_bucket *b = bucket_of(t, n->hash);
	struct kv_htab_node *next;
	uint32_t i;

	for (i = 0; i < placed(b); i++)
		if (b->nodes[i] == n)
			return match(b, i + 1, n->hash);
	for (next = n->next; next && next->hash != n->hash; next = next->next)
		;
	return next;
}

void
kv_htab_prefetch(const struct kv_htab *t, uint64_t hash)
{
	if (t->count)
		__builtin_prefetch(bucket_of(t, hash));
}

struct kv_htab_node *
kv_htab_guess(const struct kv_htab *t, uint64_t hash)
{
	const struct kv_htab_bucket *b;
	uint32_t i;

	if (t->count == 0)
		return NULL;
	b = bucket_of(t, hash);
	for (i = 0; i < placed(b); i++)
		if (b->tags[i] == (uint32_t)hash)
			return b->nodes[i];
	return NULL;
}

/* ---- walks ---- */

static uint64_t
reverse_bits(uint64_t v)
{
	v = ((v >> 1) & 0x5555555555555555u) | ((v & 0x5555555555555555u) << 1);
	v = ((v >> 2) & 0x3333333333333333u) | ((v & 0x3333333333333333u) << 2);
	v = ((v >> 4) & 0x0f0f0f0f0f0f0f0fu) | ((v & 0x0f0f0f0f0f0f0f0fu) << 4);
	return __builtin_bswap64(v);
}

/* From the end, since what takes the place of a deleted node comes from there
 * and was seen. How many there were. */
static uint32_t
visit(struct kv_htab_bucket *b, kv_htab_fn *fn, void *arg)
{
	struct kv_htab_node *n, *next = NULL;
	uint32_t i, count = b->count;

	if (b->count > KV_HTAB_PLACES)
		next = *chain(b);
	while ((n = next)) {
		next = n->next;
		fn(arg, n);
	}
	for (i = placed(b); i-- > 0;)
		fn(arg, b->nodes[i]);
	return count;
}

/*
 * The cursor counts with its bits reversed: the order of buckets is then the
 * order of their split halves, in tables of every size, so what has been
 * passed stays passed when the table grows or shrinks between steps. Within
 * one it does not shrink.
 */
uint64_t
kv_htab_scan(struct kv_htab *t, uint64_t cursor, unsigned nodes, kv_htab_fn *fn,
	     void *arg)
{
	unsigned seen;

	for (; nodes > 0 && t->count > 0;
	     nodes -= seen < nodes ? seen : nodes) {
		size_t low = t->low, before = t->count;
		size_t b = cursor & (low - 1);

		t->is_scanned = true;
		seen = 1; /* an empty one is work, too */
		if (b + low < t->buckets)
			seen += visit(bucket(t, b + low), fn, arg);
		seen += visit(bucket_of(t, b), fn, arg);
		t->is_scanned = false;
		shrink(t, before - t->count);
		cursor = reverse_bits(reverse_bits(b | ~(low - 1)) + 1);
		if (cursor == 0)
			return 0;
	}
	return t->count > 0 ? cursor : 0;
}

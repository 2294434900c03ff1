#include "base/htab.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/num.h"

/*
 * With 2^k <= buckets < 2^(k+1) a hash lives in bucket hash mod 2^(k+1) if
 * that bucket exists, else in hash mod 2^k. Growing makes bucket `buckets`
 * out of one half of bucket `buckets - 2^k`; shrinking undoes that.
 */

enum {
	/* A delete may merge this many, so shrinking keeps up with it. */
	MERGE_MAX = 8,
	/* Table shrinks when fewer than one bucket in so many has a node. */
	SPARSE = 4,
	/* malloc may have to clear reused memory; for more take new pages */
	MMAP_BYTES_MIN = 256 * 1024,
	/* Pages of a shrinking segment go back in pieces, not at once. */
	RELEASE_BYTES = 1024 * 1024,
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

	return n * sizeof(struct kv_htab_node *);
}

static int
seg_alloc(struct kv_htab *t, size_t s)
{
	size_t bytes;
	void *p;

	if (s >= KV_HTAB_SEGMENTS_MAX || KV_FAULT_POINT())
		return -ENOMEM;
	bytes = seg_bytes(s);
	if (bytes < MMAP_BYTES_MIN) {
		p = calloc(1, bytes);
	} else {
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			p = NULL;
	}
	if (!p)
		return -ENOMEM;
	t->segs[s] = p;
	return 0;
}

static void
seg_free(struct kv_htab *t, size_t s)
{
	struct kv_htab_node **seg = kv_steal_ptr(&t->segs[s]);

	if (!seg)
		return;
	if (seg_bytes(s) < MMAP_BYTES_MIN)
		free(seg);
	else
		munmap(seg, seg_bytes(s));
}

static struct kv_htab_node **
slot(const struct kv_htab *t, size_t b)
{
	size_t s = seg_of(b);

	return &t->segs[s][s == 0 ? b : b - seg_start(s)];
}

/* The bucket in which the nodes of this hash are; the table is not empty. */
static struct kv_htab_node **
slot_of_hash(const struct kv_htab *t, uint64_t hash)
{
	size_t low = pow2_floor(t->buckets);
	size_t b = hash & (2 * low - 1);

	return slot(t, b < t->buckets ? b : b & (low - 1));
}

void
kv_htab_init(struct kv_htab *t)
{
	*t = (struct kv_htab){ 0 };
}

void
kv_htab_fini(struct kv_htab *t)
{
	size_t s;

	for (s = 0; s < KV_HTAB_SEGMENTS_MAX; s++)
		seg_free(t, s);
	kv_htab_init(t);
}

/* Without memory for it the table stays as it is, only with longer chains. */
static void
split_one(struct kv_htab *t)
{
	size_t b = t->buckets, low = pow2_floor(b), s = seg_of(b);
	struct kv_htab_node **from, **to, *n;

	if (!t->segs[s] && seg_alloc(t, s) < 0)
		return;
	from = slot(t, b - low);
	to = slot(t, b);
	while ((n = *from)) {
		if (n->hash & low) {
			*from = n->next;
			*to = n;
			to = &n->next;
		} else {
			from = &n->next;
		}
	}
	*to = NULL;
	t->buckets++;
}

/* Bucket b of segment s was the last one in use there. */
static void
seg_shrink(struct kv_htab *t, size_t s, size_t b)
{
	size_t at = (b - seg_start(s)) * sizeof(struct kv_htab_node *);

	if (at == 0)
		seg_free(t, s);
	else if (at % RELEASE_BYTES == 0)
		madvise((char *)t->segs[s] + at, RELEASE_BYTES, MADV_DONTNEED);
}

/* The moved chain goes in front: a scan inside either chain stays sound. */
static void
merge_one(struct kv_htab *t)
{
	size_t b = t->buckets - 1, low = pow2_floor(b);
	struct kv_htab_node **from = slot(t, b), **to = slot(t, b - low);
	struct kv_htab_node **tail = from;

	while (*tail)
		tail = &(*tail)->next;
	*tail = *to;
	*to = *from;
	*from = NULL;
	t->buckets--;
	seg_shrink(t, seg_of(b), b);
}

int
kv_htab_add(struct kv_htab *t, struct kv_htab_node *n, uint64_t hash)
{
	struct kv_htab_node **head;
	int rc;

	if (t->buckets == 0) {
		rc = seg_alloc(t, 0);
		if (rc < 0)
			return rc;
		t->buckets = KV_HTAB_BUCKETS_MIN;
	}
	head = slot_of_hash(t, hash);
	n->hash = hash;
	n->next = *head;
	*head = n;
	if (++t->count > t->buckets)
		split_one(t);
	return 0;
}

void
kv_htab_del(struct kv_htab *t, struct kv_htab_node *n)
{
	struct kv_htab_node **at;
	int i;

	assert(t->count > 0);
	for (at = slot_of_hash(t, n->hash); *at != n; at = &(*at)->next)
		assert(*at);
	*at = n->next;
	t->count--;
	for (i = 0; i < MERGE_MAX; i++)
		if (t->buckets > KV_HTAB_BUCKETS_MIN &&
		    t->count < t->buckets / SPARSE)
			merge_one(t);
}

static struct kv_htab_node *
match(struct kv_htab_node *n, uint64_t hash)
{
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

struct kv_htab_node *
kv_htab_first(const struct kv_htab *t, uint64_t hash)
{
	return t->count ? match(*slot_of_hash(t, hash), hash) : NULL;
}

struct kv_htab_node *
kv_htab_next(const struct kv_htab_node *n, uint64_t hash)
{
	return match(n->next, hash);
}

void
kv_htab_prefetch(const struct kv_htab *t, uint64_t hash)
{
	if (t->count)
		__builtin_prefetch(slot_of_hash(t, hash));
}

static uint64_t
reverse_bits(uint64_t v)
{
	v = ((v >> 1) & 0x5555555555555555u) | ((v & 0x5555555555555555u) << 1);
	v = ((v >> 2) & 0x3333333333333333u) | ((v & 0x3333333333333333u) << 2);
	v = ((v >> 4) & 0x0f0f0f0f0f0f0f0fu) | ((v & 0x0f0f0f0f0f0f0f0fu) << 4);
	return __builtin_bswap64(v);
}

static void
visit(struct kv_htab_node *n, kv_htab_fn *fn, void *arg)
{
	struct kv_htab_node *next;

	for (; n; n = next) {
		next = n->next;
		fn(arg, n);
	}
}

/*
 * The cursor counts with its bits reversed: the order of buckets is then the
 * order of their split halves, in tables of every size, so what has been
 * passed stays passed when the table grows or shrinks between steps.
 *
 * Within a step the upper half of a split bucket comes first: when fn deletes
 * and so merges it into the lower half, its nodes have been seen.
 */
uint64_t
kv_htab_scan(struct kv_htab *t, uint64_t cursor, unsigned buckets,
	     kv_htab_fn *fn, void *arg)
{
	while (buckets-- > 0 && t->count > 0) {
		size_t low = pow2_floor(t->buckets);
		size_t b = cursor & (low - 1);

		if (b + low < t->buckets)
			visit(*slot(t, b + low), fn, arg);
		if (t->count > 0)
			visit(*slot_of_hash(t, b), fn, arg);
		cursor = reverse_bits(reverse_bits(b | ~(low - 1)) + 1);
		if (cursor == 0)
			return 0;
	}
	return t->count > 0 ? cursor : 0;
}

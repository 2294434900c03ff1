#include "base/hist.h"

#include <string.h>

#include "base/num.h"

enum {
	SUB = 1 << KV_HIST_SUB_BITS
};

void
kv_hist_init(struct kv_hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min_ns = UINT64_MAX;
}

/* Values below SUB have a bucket each; above, the top bits choose. */
static size_t
bucket_of(uint64_t ns)
{
	int shift;

	if (ns < SUB)
		return (size_t)ns;
	shift = 63 - __builtin_clzll(ns) - KV_HIST_SUB_BITS;
	return (size_t)shift * SUB + (size_t)(ns >> shift);
}

static uint64_t
bucket_middle(size_t i)
{
	size_t shift;

	if (i < SUB)
		return i;
	shift = i / SUB - 1;
	return ((uint64_t)(i % SUB + SUB) << shift) + ((1ull << shift) / 2);
}

void
kv_hist_add(struct kv_hist *h, uint64_t ns)
{
	h->buckets[bucket_of(ns)]++;
	h->count++;
	h->sum_ns += ns;
	h->min_ns = kv_min_u64(h->min_ns, ns);
	h->max_ns = kv_max_u64(h->max_ns, ns);
}

void
kv_hist_merge(struct kv_hist *into, const struct kv_hist *from)
{
	size_t i;

	for (i = 0; i < KV_HIST_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
	into->count += from->count;
	into->sum_ns += from->sum_ns;
	into->min_ns = kv_min_u64(into->min_ns, from->min_ns);
	into->max_ns = kv_max_u64(into->max_ns, from->max_ns);
}

/* Which of count values in ascending order stands for the percentile: 1.. */
static uint64_t
rank_of(uint64_t count, double percent)
{
	double r = percent * (double)count / 100;
	uint64_t rank;

	if (!(r > 1))
		return 1;
	if (r >= (double)count)
		return count;
	rank = (uint64_t)r;
	return (double)rank < r ? rank + 1 : rank;
}

uint64_t
kv_hist_percentile(const struct kv_hist *h, double percent)
{
	uint64_t left, ns;
	size_t i;

	if (h->count == 0)
		return 0;
	left = rank_of(h->count, percent);
	if (left == h->count)
		return h->max_ns;
	for (i = 0; i < KV_HIST_BUCKETS - 1 && h->buckets[i] < left; i++)
		left -= h->buckets[i];
	ns = kv_max_u64(bucket_middle(i), h->min_ns);
	return kv_min_u64(ns, h->max_ns);
}

uint64_t
kv_hist_max(const struct kv_hist *h)
{
	return h->max_ns;
}

uint64_t
kv_hist_count(const struct kv_hist *h)
{
	return h->count;
}

double
kv_hist_mean(const struct kv_hist *h)
{
	return h->count ? (double)h->sum_ns / (double)h->count : 0;
}

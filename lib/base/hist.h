#ifndef KV_BASE_HIST_H
#define KV_BASE_HIST_H

#include <stdint.h>

/*
 * Log-linear histogram of nanoseconds: 64 buckets for each power of two, so a
 * percentile is within 0.8 % of a value that was added. 30 KiB each; adding
 * is a handful of instructions and never fails.
 */
enum {
	KV_HIST_SUB_BITS = 6,
	KV_HIST_BUCKETS = (64 - KV_HIST_SUB_BITS + 1) << KV_HIST_SUB_BITS,
};

struct kv_hist {
	uint64_t count;
	uint64_t sum_ns; /* wraps after 584 years of summed time */
	uint64_t min_ns; /* meaningless while count is 0 */
	uint64_t max_ns;
	uint64_t buckets[KV_HIST_BUCKETS];
};

void kv_hist_init(struct kv_hist *h);
void kv_hist_add(struct kv_hist *h, uint64_t ns);
void kv_hist_merge(struct kv_hist *into, const struct kv_hist *from);

/* All 0 when nothing was added. percent: 0 (least) .. 100 (most). */
uint64_t kv_hist_percentile(const struct kv_hist *h, double percent);
uint64_t kv_hist_max(const struct kv_hist *h);
uint64_t kv_hist_count(const struct kv_hist *h);
double kv_hist_mean(const struct kv_hist *h);

#endif

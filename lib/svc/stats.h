#ifndef KV_SVC_STATS_H
#define KV_SVC_STATS_H

/*
 * Counters of a node. Each thread counts in a set of its own; who reads sums
 * the sets. So counting is a plain addition, and any thread may read at any
 * time.
 */

#include <stdint.h>

struct kv_bytes;

enum kv_stat {
#define KV_STAT(NAME, name, unit, text) KV_STAT_##NAME,
#include "svc/stats.def"
#undef KV_STAT
	KV_STATS,
};

struct kv_stats_set {
	uint64_t v[KV_STATS];
};

/* The owner of the set only. */
static inline void
kv_stats_add(struct kv_stats_set *s, enum kv_stat stat, uint64_t n)
{
	__atomic_store_n(&s->v[stat], s->v[stat] + n, __ATOMIC_RELAXED);
}

/* Any thread: adds what `from` has to `sum`. */
void kv_stats_sum(struct kv_stats_set *sum, const struct kv_stats_set *from);

/* Appends lines that say who counts: "version X\n" and "clock_ms N\n", the
 * time of day. 0 or -ENOMEM. */
int kv_stats_who(struct kv_bytes *out);

const char *kv_stats_name(enum kv_stat stat); /* "puts_ok" */
const char *kv_stats_unit(enum kv_stat stat); /* "" when it has none */
const char *kv_stats_text(enum kv_stat stat);

#endif

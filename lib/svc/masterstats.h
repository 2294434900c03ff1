#ifndef KV_SVC_MASTERSTATS_H
#define KV_SVC_MASTERSTATS_H

/*
 * Counters and gauges of a master, under the names that Mooncake's master gives
 * them where the meaning is the same.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_bytes;
struct kv_master;

#define KV_MASTERSTAT_OP(OP, op)                        \
	KV_MASTERSTAT_##OP, KV_MASTERSTAT_##OP##_FAILS, \
		KV_MASTERSTAT_##OP##_BATCHES,           \
		KV_MASTERSTAT_##OP##_BATCH_FAILS,       \
		KV_MASTERSTAT_##OP##_BATCH_PARTIAL,     \
		KV_MASTERSTAT_##OP##_BATCH_ITEMS,       \
		KV_MASTERSTAT_##OP##_BATCH_ITEM_FAILS,
#define KV_MASTERSTAT(NAME, name, text) KV_MASTERSTAT_##NAME,
enum kv_masterstat {
#include "svc/masterstats.def"
	KV_MASTERSTATS
};
#undef KV_MASTERSTAT
#undef KV_MASTERSTAT_OP

/* A request of an operation (its first counter) with n keys, of which so many
 * failed. */
void kv_masterstats_op(struct kv_master *m, enum kv_masterstat op, size_t n,
		       size_t failed);

struct kv_masterstats_line {
	const char *name;
	const char *text;
	bool is_counter;     /* else a gauge */
	const char *segment; /* the node that it is about, or NULL */
	uint64_t value;
};

/* Calls fn for everything, all lines of one name together. */
typedef void kv_masterstats_fn(void *arg,
			       const struct kv_masterstats_line *line);
void kv_masterstats_each(const struct kv_master *m, kv_masterstats_fn *fn,
			 void *arg);

/* Appends lines "name value\n", "name{segment=\"...\"} value\n". 0 or -ENOMEM.
 */
int kv_masterstats_text(const struct kv_master *m, struct kv_bytes *out);

#endif

/*
 * Keys and values in memory, on their way to kv_client_put(). Both are bounded:
 * a batch that is full takes no more, and holds at most one value beyond
 * KV_BATCH_BYTES_MAX.
 */
#ifndef KV_CLI_BATCH_H
#define KV_CLI_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "kvpool.h"

struct kv_progress_watch;

enum {
	KV_BATCH_ITEMS_MAX = 1024,
	KV_BATCH_BYTES_MAX = 64 << 20,
};

/* Zeroed is empty. */
struct kv_batch {
	struct kv_bytes keys;   /* one after the other */
	struct kv_bytes values; /* the same */
	size_t n;
	/* Lengths while it is filled, pointers once it is ready. */
	struct kv_put_item items[KV_BATCH_ITEMS_MAX];
	struct kv_buf bufs[KV_BATCH_ITEMS_MAX];
};

void kv_batch_fini(struct kv_batch *b);
/* Empties it; the memory stays for the next one, unless it is much. */
void kv_batch_reset(struct kv_batch *b);

bool kv_batch_is_full(const struct kv_batch *b);

/*
 * Adds KEY, which is copied, with the bytes of the file at PATH. It must not be
 * full; W as there. On failure, as kv_filein_read()'s, it is as before.
 */
KV_MUST_CHECK int kv_batch_add(struct kv_batch *b, const struct kv_key *key,
			       const char *path, bool is_dash_stdin,
			       const struct kv_progress_watch *w);

/* Sets the pointers of the items, which hold until the next add. */
void kv_batch_ready(struct kv_batch *b);

#endif

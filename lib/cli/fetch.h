/*
 * Memory for values whose sizes nobody knows beforehand, on their way out of
 * kv_client_get(). Each is fetched whole, in one call: read in parts it could
 *be that of two objects, if the key was removed and put again in between. So
 *each is first given as much as the largest one took before; for the others the
 *call tells the size, and they are asked for again.
 *
 *	kv_fetch_begin(f, keys, n);
 *	while ((rc = kv_fetch_next(f, &bytes)) > 0) {
 *		kv_client_get(client, f->items, f->n, &opts);
 *		for (i = 0; i < f->n; i++)
 *			if (kv_fetch_is_over(f, i))
 *				... f->items[i], its bytes in f->bufs[i] ...
 *	}
 */
#ifndef KV_CLI_FETCH_H
#define KV_CLI_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "kvpool.h"

enum {
	KV_FETCH_KEYS_MAX = 1024,
	KV_FETCH_GUESS_MIN = 64 << 10,
	/* In all; more only for a single value that is larger. */
	KV_FETCH_BYTES_MAX = 64 << 20,
	KV_FETCH_TRIES_MAX = 8, /* of a key whose value changes all the time */
};

/* Zeroed is ready. */
struct kv_fetch {
	/* Of the next call. */
	struct kv_get_item items[KV_FETCH_KEYS_MAX];
	struct kv_buf bufs[KV_FETCH_KEYS_MAX];
	size_t n;

	const struct kv_key *keys;
	size_t n_keys;
	size_t first;                     /* all before it are over */
	size_t number[KV_FETCH_KEYS_MAX]; /* item -> key */
	uint64_t want[KV_FETCH_KEYS_MAX]; /* bytes, by key */
	uint8_t tries[KV_FETCH_KEYS_MAX]; /* by key; TRIES_MAX: it is over */
	uint64_t guess;
	char *memory;
	size_t cap;
};

void kv_fetch_fini(struct kv_fetch *f);

/* Up to KV_FETCH_KEYS_MAX keys, which must stay until all are over. */
void kv_fetch_begin(struct kv_fetch *f, const struct kv_key *keys, size_t n);

/*
 * Prepares the next call, for BYTES bytes: 1, or 0 when all keys are over. A
 * key for which there is no memory is the only item, and over: its status is
 * -KV_ENOMEM already, and the call is to be left out (-ENOMEM).
 */
KV_MUST_CHECK int kv_fetch_next(struct kv_fetch *f, uint64_t *bytes);

/* After the call, once for each item: whether it is over, well or not. */
KV_MUST_CHECK bool kv_fetch_is_over(struct kv_fetch *f, size_t item);

#endif

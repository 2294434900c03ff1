#include "cli/batch.h"

#include <assert.h>

#include "cli/filein.h"

void
kv_batch_fini(struct kv_batch *b)
{
	kv_bytes_fini(&b->keys);
	kv_bytes_fini(&b->values);
	b->n = 0;
}

void
kv_batch_reset(struct kv_batch *b)
{
	b->n = 0;
	kv_bytes_reset(&b->keys);
	if (b->values.cap > 2 * (size_t)KV_BATCH_BYTES_MAX)
		kv_bytes_fini(&b->values);
	else
		kv_bytes_reset(&b->values);
}

bool
kv_batch_is_full(const struct kv_batch *b)
{
	return b->n == KV_BATCH_ITEMS_MAX ||
	       b->values.len >= KV_BATCH_BYTES_MAX;
}

int
kv_batch_add(struct kv_batch *b, const struct kv_key *key, const char *path,
	     bool is_dash_stdin, const struct kv_progress_watch *w)
{
	size_t start = b->values.len;
	int rc;

	assert(!kv_batch_is_full(b));
	rc = kv_filein_read(&b->values, path, is_dash_stdin, w);
	if (rc < 0)
		return rc;
	rc = kv_bytes_append(&b->keys, key->data, key->len);
	if (rc < 0) {
		b->values.len = start;
		return rc;
	}
	b->items[b->n] = (struct kv_put_item){ .key.len = key->len };
	b->bufs[b->n] = (struct kv_buf){ .len = b->values.len - start };
	b->n++;
	return 0;
}

void
kv_batch_ready(struct kv_batch *b)
{
	const uint8_t *key = b->keys.data;
	uint8_t *value = b->values.data;

	for (size_t i = 0; i < b->n; i++) {
		b->bufs[i].data = value;
		b->items[i].key.data = key;
		b->items[i].bufs = &b->bufs[i];
		b->items[i].nbufs = b->bufs[i].len ? 1 : 0;
		key += b->items[i].key.len;
		value += b->bufs[i].len;
	}
}

#include "cli/fetch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/num.h"

void
kv_fetch_fini(struct kv_fetch *f)
{
	free(f->memory);
	*f = (struct kv_fetch){ 0 };
}

void
kv_fetch_begin(struct kv_fetch *f, const struct kv_key *keys, size_t n)
{
	assert(n <= KV_FETCH_KEYS_MAX);
	f->guess = kv_max_u64(f->guess, KV_FETCH_GUESS_MIN);
	f->keys = keys;
	f->n_keys = n;
	f->first = 0;
	for (size_t i = 0; i < n; i++) {
		f->want[i] = f->guess;
		f->tries[i] = 0;
	}
}

/* Makes items of keys, as many as the memory is for. */
static uint64_t
choose(struct kv_fetch *f)
{
	uint64_t bytes = 0;

	f->n = 0;
	for (size_t i = f->first; i < f->n_keys; i++) {
		if (f->tries[i] == KV_FETCH_TRIES_MAX)
			continue;
		if (f->n && f->want[i] > KV_FETCH_BYTES_MAX - bytes)
			break;
		f->number[f->n] = i;
		f->bufs[f->n].len = f->want[i];
		f->items[f->n] = (struct kv_get_item){
			.key = f->keys[i],
			.bufs = &f->bufs[f->n],
			.nbufs = 1,
		};
		f->n++;
		bytes += f->want[i];
		if (bytes >= KV_FETCH_BYTES_MAX)
			break;
	}
	return bytes;
}

static int
place(struct kv_fetch *f, uint64_t bytes)
{
	char *p;

	if (bytes > PTRDIFF_MAX) /* says a peer */
		return -ENOMEM;
	if (bytes > f->cap) {
		free(f->memory);
		f->memory = malloc(bytes);
		f->cap = f->memory ? bytes : 0;
	}
	p = f->memory;
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < f->n; i++) {
		f->bufs[i].data = p;
		p += f->bufs[i].len;
	}
	return 0;
}

int
kv_fetch_next(struct kv_fetch *f, uint64_t *bytes)
{
	while (f->first < f->n_keys && f->tries[f->first] == KV_FETCH_TRIES_MAX)
		f->first++;
	*bytes = choose(f);
	if (f->n == 0)
		return 0;
	if (place(f, *bytes) == 0)
		return 1;
	f->n = 1;
	f->tries[f->first] = KV_FETCH_TRIES_MAX;
	f->items[0].status = -KV_ENOMEM;
	return -ENOMEM;
}

bool
kv_fetch_is_over(struct kv_fetch *f, size_t item)
{
	const struct kv_get_item *it = &f->items[item];
	size_t key = f->number[item];

	if (it->status == -KV_ETOOBIG && it->size_total > f->want[key] &&
	    ++f->tries[key] < KV_FETCH_TRIES_MAX) {
		f->want[key] = it->size_total;
		return false;
	}
	f->tries[key] = KV_FETCH_TRIES_MAX;
	if (it->status == 0)
		f->guess = kv_max_u64(f->guess,
				      kv_min_u64(it->len, KV_FETCH_BYTES_MAX));
	return true;
}

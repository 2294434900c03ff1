#include <errno.h>

#include "base/num.h"
#include "mem/copy.h"
#include "svc/windowscore.h"
#include "wire/protodata.h"

/* ---- what is packed ---- */

struct packing {
	struct kv_windows *w;
	uint64_t left;    /* room */
	uint64_t bytes;   /* packed */
	unsigned n_loose; /* pieces of them */
};

/* These, if all of them have room. */
static void
take(struct packing *p, size_t i, size_t end, uint64_t bytes)
{
	struct kv_windows_piece *x;

	if (bytes > p->left)
		return;
	for (; i < end; i++) {
		x = &p->w->pieces[i];
		x->is_packed = true;
		p->n_loose += x->mem == KV_WINDOWS_LOOSE;
	}
	p->left -= bytes;
	p->bytes += bytes;
}

/* Where the row of other memory ends that begins with the i-th piece. */
static size_t
row_end(const struct kv_windows *w, size_t i, uint64_t *bytes)
{
	const char *end;

	*bytes = 0;
	do {
		end = w->pieces[i].at + w->pieces[i].len;
		*bytes += w->pieces[i++].len;
	} while (i < w->n_pieces && w->pieces[i].mem == KV_WINDOWS_LOOSE &&
		 w->pieces[i].at == end);
	return i;
}

static void
take_loose(struct packing *p)
{
	const struct kv_windows *w = p->w;
	uint64_t bytes;
	size_t i = 0, end;

	while (i < w->n_pieces) {
		if (w->pieces[i].mem != KV_WINDOWS_LOOSE) {
			i++;
			continue;
		}
		end = row_end(w, i, &bytes);
		if (bytes < KV_PACKRING_LARGE_BYTES)
			take(p, i, end, bytes);
		i = end;
	}
}

static bool
is_small(const struct kv_windows_piece *x)
{
	return x->is_packed ||
	       (x->mem != KV_WINDOWS_LOOSE && x->len < KV_PACKRING_SMALL_BYTES);
}

static size_t
run_end(const struct kv_windows_piece *x, size_t i, size_t end)
{
	while (i < end && is_small(&x[i]))
		i++;
	return i;
}

/* Pieces of a value that become one. A small one by itself is a work request
 * in any case. */
static void
take_small(struct packing *p, const struct kv_windows_value *v)
{
	const struct kv_windows_piece *x = p->w->pieces;
	size_t i, next, end = v->first + v->n;

	for (i = v->first; i < end; i = next + 1) {
		next = run_end(x, i, end);
		if (next < i + 2)
			continue;
		for (; i < next; i++)
			if (!x[i].is_packed)
				take(p, i, i + 1, x[i].len);
	}
}

/* ---- where ---- */

static void
lay_out(struct kv_windows *w)
{
	struct kv_windows_value *v;
	uint64_t at = 0;
	size_t i;

	w->n_joined = 0;
	for (v = w->values; v < w->values + w->n_values; v++) {
		v->packed_at = at;
		v->n_told = v->n;
		for (i = v->first; i < v->first + v->n; i++) {
			if (!w->pieces[i].is_packed)
				continue;
			at += w->pieces[i].len;
			if (i == v->first || !w->pieces[i - 1].is_packed)
				continue;
			v->n_told--;
			w->n_joined++;
		}
	}
}

static void
forget(struct kv_windows *w)
{
	for (size_t i = 0; i < w->n_pieces; i++)
		w->pieces[i].is_packed = false;
	lay_out(w);
}

/* Of at most `max` bytes: how many. The request does not become longer by it,
 * for it was cut before. */
static uint64_t
choose(struct kv_windows *w, uint64_t max)
{
	struct packing p = { .w = w, .left = max };
	size_t one = kv_windows_window_bytes(w);

	forget(w);
	take_loose(&p);
	for (size_t i = 0; i < w->n_values; i++)
		take_small(&p, &w->values[i]);
	lay_out(w);
	if (p.n_loose * one + w->n_joined * sizeof(struct kv_piece) >= one)
		return p.bytes;
	forget(w);
	return 0;
}

static const char *
first(const struct kv_windows *w)
{
	const struct kv_windows_piece *x = w->pieces;

	while (!x->is_packed)
		x++;
	return x->at;
}

/* The span is there. */
static void
settle(struct kv_windows *w)
{
	const struct kv_windows_piece *x;

	for (x = w->pieces; x < w->pieces + w->n_pieces; x++) {
		if (!x->is_packed || x->mem != KV_WINDOWS_LOOSE)
			continue;
		w->n_loose--;
		w->loose_bytes -= x->len;
	}
	w->packed_mem = (uint32_t)w->n_mems;
	w->mems[w->n_mems++] = (struct kv_windows_memory){ 0 };
}

int
kv_windows_pack(struct kv_windows *w)
{
	struct kv_packring *ring = &w->ranges->ring;
	uint64_t bytes = choose(w, KV_PACKRING_SPAN_BYTES);
	long max;

	if (bytes == 0)
		return 0;
	if (!kv_windows_grow_mems(w))
		return -ENOMEM;
	max = kv_packring_begin(ring);
	if (max < 0)
		kv_ranges_refused(w->ranges, KV_PACKRING_BYTES_LEAST,
				  (int)-max);
	if (max < (long)bytes)
		bytes = choose(w, max > 0 ? (uint64_t)max : 0);
	if (bytes > 0 && kv_packring_take(ring, first(w), bytes, &w->span))
		settle(w);
	else
		forget(w);
	return 0;
}

/* ---- bytes ---- */

void
kv_windows_pack_fill(const struct kv_windows *w)
{
	const struct kv_windows_piece *x;
	char *to = w->span.at;

	if (!w->span.from || w->use != KV_RDMAREGION_FAR_READS)
		return;
	for (x = w->pieces; x < w->pieces + w->n_pieces; x++) {
		if (!x->is_packed)
			continue;
		kv_copy(to, x->at, x->len);
		to += x->len;
	}
}

void
kv_windows_unpack(const struct kv_windows *w, size_t value, uint64_t bytes)
{
	const struct kv_windows_value *v = &w->values[value];
	const struct kv_windows_piece *x = &w->pieces[v->first];
	const char *from;
	uint64_t len;

	if (!w->span.from)
		return;
	from = w->span.at + v->packed_at;
	for (; bytes > 0; x++, bytes -= len) {
		len = kv_min_u64(x->len, bytes);
		if (!x->is_packed)
			continue;
		kv_copy(x->at, from, len);
		from += len;
	}
}

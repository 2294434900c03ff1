#include "svc/windows.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "svc/windowscore.h"
#include "wire/protodata.h"

/*
 * Of what is not packed: registering costs some ten microseconds a time and
 * NIC, and giving up as much; it is worth it for so many bytes together, and so
 * many each on average. What is less goes by TCP.
 */
#define WORTH_BYTES      (256u << 10)
#define WORTH_EACH_BYTES (64u << 10)

/* So much is pinned for one frame; a single value may be larger. */
#define LOOSE_BYTES_MAX (UINT64_C(256) << 20)

#define PIECE_BYTES_MAX (UINT64_C(1) << 30)
#define LOOSE           KV_WINDOWS_LOOSE

static unsigned
ports(const struct kv_windows *w)
{
	return kv_rdma_ports(w->ranges->rdma);
}

size_t
kv_windows_window_bytes(const struct kv_windows *w)
{
	return sizeof(struct kv_window) + ports(w) * sizeof(struct kv_le32);
}

static const struct kv_rdmamem *
mem_at(const struct kv_windows *w, size_t i)
{
	const struct kv_windows_memory *m = &w->mems[i];

	if (m->range)
		return kv_rdmaregion_far(m->range->region);
	return kv_rdmaregion_far(m->region ? m->region : w->span.from->region);
}

void
kv_windows_init(struct kv_windows *w, struct kv_ranges *ranges, bool is_get)
{
	*w = (struct kv_windows){
		.ranges = ranges,
		.use = is_get ? KV_RDMAREGION_FAR_WRITES
			      : KV_RDMAREGION_FAR_READS,
	};
}

void
kv_windows_fini(struct kv_windows *w)
{
	size_t i;

	for (i = 0; i < w->n_mems; i++) {
		if (w->mems[i].range)
			kv_ranges_unuse(w->ranges, w->mems[i].range);
		kv_rdmaregion_free(w->mems[i].region);
	}
	kv_packring_give(&w->span);
	free(w->pieces);
	free(w->values);
	free(w->mems);
	w->pieces = NULL;
	w->values = NULL;
	w->mems = NULL;
	w->n_pieces = w->room_pieces = w->n_values = w->room_values = 0;
	w->n_mems = w->room_mems = w->n_loose = w->n_joined = 0;
	w->loose_bytes = w->row_bytes = w->crumb_bytes = 0;
}

/* Room for one more element of the array whose pointer is there. */
static bool
grow(void *array, size_t *room, size_t n, size_t size)
{
	void **at = array, *more;

	if (n < *room)
		return true;
	more = KV_FAULT_POINT() ? NULL : realloc(*at, (2 * n + 16) * size);
	if (!more)
		return false;
	*at = more;
	*room = 2 * n + 16;
	return true;
}

bool
kv_windows_grow_mems(struct kv_windows *w)
{
	return grow(&w->mems, &w->room_mems, w->n_mems, sizeof(*w->mems));
}

static bool
is_inside(const struct kv_range *x, const struct kv_buf *b)
{
	uintptr_t at = (uintptr_t)b->data;

	return at >= x->at && at - x->at <= x->len &&
	       b->len <= x->len - (at - x->at);
}

/*
 * Memory of the caller's: the number of its window, LOOSE when NICs do not know
 * it. -ENOMEM. Values lie in the same ranges mostly, in the same order: it is
 * that of the last buffer, or the next one.
 */
static int
range_find(struct kv_windows *w, const struct kv_buf *b, uint32_t *mem)
{
	size_t i, k;

	for (k = 0; k < w->n_mems; k++) {
		i = (w->last + k) % w->n_mems;
		if (!is_inside(w->mems[i].range, b))
			continue;
		*mem = (uint32_t)(w->last = i);
		return 0;
	}
	if (!kv_windows_grow_mems(w))
		return -ENOMEM;
	w->mems[w->n_mems] = (struct kv_windows_memory){
		.range = kv_ranges_use(w->ranges, b->data, b->len),
	};
	if (w->mems[w->n_mems].range)
		*mem = (uint32_t)(w->last = w->n_mems++);
	else
		*mem = LOOSE;
	return 0;
}

/* Bytes of other memory, behind the last piece. */
static void
loose_count(struct kv_windows *w, const struct kv_windows_piece *p)
{
	const struct kv_windows_piece *last =
		w->n_pieces > 0 ? &w->pieces[w->n_pieces - 1] : NULL;
	uint64_t before = 0;

	if (last && last->mem == LOOSE && last->at + last->len == p->at)
		before = w->row_bytes;
	w->row_bytes = before + p->len;
	w->loose_bytes += p->len;
	if (w->row_bytes < KV_PACKRING_LARGE_BYTES)
		w->crumb_bytes += p->len;
	else if (before < KV_PACKRING_LARGE_BYTES)
		w->crumb_bytes -= before;
}

/* One more piece, or the last one of this value is longer. */
static int
piece_add(struct kv_windows *w, const struct kv_windows_piece *p, size_t first)
{
	struct kv_windows_piece *last =
		w->n_pieces > first ? &w->pieces[w->n_pieces - 1] : NULL;

	if (last && last->mem == p->mem && last->at + last->len == p->at &&
	    last->len + p->len <= PIECE_BYTES_MAX) {
		last->len += p->len;
		return 0;
	}
	if (!grow(&w->pieces, &w->room_pieces, w->n_pieces, sizeof(*w->pieces)))
		return -ENOMEM;
	assert(w->pieces);
	w->pieces[w->n_pieces++] = *p;
	w->n_loose += p->mem == LOOSE;
	return 0;
}

static int
buffer_add(struct kv_windows *w, const struct kv_buf *b, size_t first)
{
	struct kv_windows_piece p = { .at = b->data };
	uint64_t left = b->len;
	int rc = left > 0 ? range_find(w, b, &p.mem) : 0;

	for (; rc == 0 && left > 0; left -= p.len, p.at += p.len) {
		p.len = kv_min_u64(left, PIECE_BYTES_MAX);
		if (p.mem == LOOSE)
			loose_count(w, &p);
		rc = piece_add(w, &p, first);
	}
	return rc;
}

/* At most: each loose piece may be a window of its own. */
static size_t
bytes_most(const struct kv_windows *w)
{
	return (w->n_mems + w->n_loose) * kv_windows_window_bytes(w) +
	       (w->n_pieces - w->n_joined) * sizeof(struct kv_piece);
}

/* Of other memory, for one frame. */
static bool
is_too_much(const struct kv_windows *w, const struct kv_windows *before)
{
	if (before->crumb_bytes > 0 && w->crumb_bytes > KV_PACKRING_SPAN_BYTES)
		return true;
	return before->loose_bytes > 0 && w->loose_bytes > LOOSE_BYTES_MAX;
}

int
kv_windows_add(struct kv_windows *w, const struct kv_buf *bufs, size_t n,
	       size_t tail_max)
{
	struct kv_windows before = *w;
	uint32_t added;
	size_t i;
	int rc = 0;

	if (!grow(&w->values, &w->room_values, w->n_values, sizeof(*w->values)))
		return -ENOMEM;
	for (i = 0; i < n && rc == 0; i++)
		rc = buffer_add(w, &bufs[i], before.n_pieces);
	if (rc == 0 && (bytes_most(w) > tail_max || is_too_much(w, &before)))
		rc = -E2BIG;
	if (rc < 0) {
		w->n_pieces = before.n_pieces;
		w->n_loose = before.n_loose;
		w->loose_bytes = before.loose_bytes;
		w->row_bytes = before.row_bytes;
		w->crumb_bytes = before.crumb_bytes;
		return rc;
	}
	added = (uint32_t)(w->n_pieces - before.n_pieces);
	w->values[w->n_values++] = (struct kv_windows_value){
		.first = (uint32_t)before.n_pieces,
		.n = added,
		.n_told = added,
	};
	return 0;
}

/* ---- memory for the frame alone ---- */

static int
by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)(*(struct kv_windows_piece *const *)a)->at;
	uintptr_t y = (uintptr_t)(*(struct kv_windows_piece *const *)b)->at;

	return x < y ? -1 : x > y;
}

/* The first piece behind those that lie in one stretch with the i-th; *bytes is
 * how long that is. */
static size_t
stretch(struct kv_windows_piece *const *loose, size_t n, size_t i,
	uint64_t *bytes)
{
	uintptr_t begin = (uintptr_t)loose[i]->at;

	*bytes = loose[i]->len;
	for (i++; i < n && (uintptr_t)loose[i]->at - begin <= *bytes; i++)
		*bytes = kv_max_u64(*bytes, (uintptr_t)loose[i]->at - begin +
						    loose[i]->len);
	return i;
}

static bool
is_worth(const struct kv_windows *w, struct kv_windows_piece *const *loose)
{
	size_t i = 0, stretches = 0;
	uint64_t bytes;

	while (i < w->n_loose) {
		i = stretch(loose, w->n_loose, i, &bytes);
		stretches++;
	}
	return w->loose_bytes >= WORTH_BYTES &&
	       w->loose_bytes / stretches >= WORTH_EACH_BYTES;
}

static int
stretch_register(struct kv_windows *w, void *at, uint64_t bytes)
{
	struct kv_rdmaregion *g;

	if (!kv_windows_grow_mems(w))
		return -ENOMEM;
	g = kv_rdmaregion_new(w->ranges->rdma, at, bytes, w->use);
	if (!g)
		return -errno;
	w->mems[w->n_mems++] = (struct kv_windows_memory){ .region = g };
	return 0;
}

static int
loose_register(struct kv_windows *w, struct kv_windows_piece **loose)
{
	size_t i = 0, next;
	uint64_t bytes;
	int rc;

	while (i < w->n_loose) {
		next = stretch(loose, w->n_loose, i, &bytes);
		rc = stretch_register(w, loose[i]->at, bytes);
		if (rc < 0)
			return rc;
		for (; i < next; i++)
			loose[i]->mem = (uint32_t)w->n_mems - 1;
	}
	w->n_loose = 0;
	return 0;
}

/* What is not packed. */
static int
loose_close(struct kv_windows *w, bool must)
{
	struct kv_windows_piece **loose;
	size_t i, n = 0;
	int rc;

	if (w->n_loose == 0)
		return 0;
	if (!must &&
	    (w->loose_bytes < WORTH_BYTES || kv_ranges_is_full(w->ranges)))
		return -EAGAIN;
	loose = KV_FAULT_POINT() ? NULL
				 : malloc(w->n_loose *
					  sizeof(struct kv_windows_piece *));
	if (!loose)
		return -ENOMEM;
	for (i = 0; i < w->n_pieces; i++)
		if (w->pieces[i].mem == LOOSE && !w->pieces[i].is_packed)
			loose[n++] = &w->pieces[i];
	qsort(loose, n, sizeof(struct kv_windows_piece *), by_address);
	rc = must || is_worth(w, loose) ? loose_register(w, loose) : -EAGAIN;
	free(loose);
	/* Memory that may only be read says nothing of the rest. */
	if (rc == -ENOMEM || (rc < 0 && must))
		kv_ranges_refused(w->ranges, w->loose_bytes, -rc);
	return rc;
}

int
kv_windows_close(struct kv_windows *w, bool must)
{
	int rc = kv_windows_pack(w);

	if (rc == 0)
		rc = loose_close(w, must);
	if (rc == 0)
		kv_windows_pack_fill(w);
	return rc;
}

/* ---- on the wire ---- */

size_t
kv_windows_bytes(const struct kv_windows *w)
{
	return bytes_most(w);
}

/* Of a window; of one that is the ring's the span alone. */
static char *
window_build(const struct kv_windows *w, size_t i, char *p)
{
	const struct kv_rdmamem *m = mem_at(w, i);
	struct kv_window rec = {
		.addr = kv_le64(m->addr),
		.len = kv_le64(m->len),
	};
	struct kv_le32 key;
	unsigned k;

	if (w->span.from && i == w->packed_mem) {
		rec.addr = kv_le64((uintptr_t)w->span.at);
		rec.len = kv_le64(w->span.bytes);
	}
	memcpy(p, &rec, sizeof(rec));
	p += sizeof(rec);
	for (k = 0; k < ports(w); k++, p += sizeof(key)) {
		key = kv_le32(m->keys[k]);
		memcpy(p, &key, sizeof(key));
	}
	return p;
}

char *
kv_windows_build(const struct kv_windows *w, char *p)
{
	size_t i;

	for (i = 0; i < w->n_mems; i++)
		p = window_build(w, i, p);
	return p;
}

/* The next of what is told of a value: pieces that are packed side by side are
 * one. `at` is where the next one is that is packed. */
static struct kv_piece
piece_tell(const struct kv_windows *w, size_t *i, size_t end, uint64_t *at)
{
	const struct kv_windows_piece *x = &w->pieces[(*i)++];
	struct kv_piece rec = {
		.off = kv_le64(*at),
		.window = kv_le32(w->packed_mem),
	};
	uint64_t begin = *at;

	if (!x->is_packed)
		return (struct kv_piece){
			.off = kv_le64((uintptr_t)x->at -
				       mem_at(w, x->mem)->addr),
			.len = kv_le32((uint32_t)x->len),
			.window = kv_le32(x->mem),
		};
	*at += x->len;
	for (; *i < end && w->pieces[*i].is_packed; (*i)++)
		*at += w->pieces[*i].len;
	rec.len = kv_le32((uint32_t)(*at - begin));
	return rec;
}

char *
kv_windows_build_pieces(const struct kv_windows *w, char *p)
{
	const struct kv_windows_value *v;
	struct kv_piece rec;
	uint64_t at;
	size_t i;

	for (v = w->values; v < w->values + w->n_values; v++) {
		at = v->packed_at;
		for (i = v->first; i < v->first + v->n; p += sizeof(rec)) {
			rec = piece_tell(w, &i, v->first + v->n, &at);
			memcpy(p, &rec, sizeof(rec));
		}
	}
	return p;
}
